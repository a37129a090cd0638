/* A program with a loop of its own, which polls. It runs a guest whose processes sleep, block and
   compute. The argument chooses the case. */
#include "baton.h"
#include "cases.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)

struct body {
  void (*run)(baton_vm *vm, uint64_t self, void *argument);
  void *argument;
};

/* {======================================================
** The guest
** ======================================================= */

static int poll_is_armed;
static int is_over; /* tells processes that compute to end */

static void run(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data) {
  struct body *body = (struct body *)user_data;
  (void)guest;
  body->run(vm, process, body->argument);
}

static void preempt(void *guest) { __atomic_store_n((int *)guest, 1, __ATOMIC_RELAXED); }

static const struct baton_guest TABLE = {.size = sizeof TABLE, .run = run, .preempt = preempt};

static uint64_t spawn(baton_vm *vm, struct body *body) {
  struct baton_spawn_options options;
  uint64_t process;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)body;
  options.preemptible = 1;
  process = baton_spawn(vm, &options, message, sizeof message);
  expect(process != 0, "a process");
  return process;
}

static void sleep_often(baton_vm *vm, uint64_t self, void *argument) {
  int i;
  (void)self;
  for (i = 0; i < 20; i++) {
    baton_sleep_until(vm, baton_now() + MILLISECOND);
    ++*(int *)argument;
  }
}

/* Calls that last, each on another thread if that works. */
static void block_often(baton_vm *vm, uint64_t self, void *argument) {
  int i;
  (void)self;
  for (i = 0; i < 5; i++) {
    if (baton_offload(vm) != BATON_OFFLOADED) baton_leave(vm);
    usleep(5000);
    baton_enter(vm);
    ++*(int *)argument;
  }
}

/* A script that loops for ever, or until the host has seen enough. */
static void compute(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
    ++*(volatile int *)argument;
    if (__atomic_exchange_n(&poll_is_armed, 0, __ATOMIC_RELAXED)) baton_safepoint(vm);
  }
}

static int sleeps, calls, steps;

static void all_kinds(baton_vm *vm, uint64_t self, void *argument) {
  struct body bodies[3] = {{sleep_often, &sleeps}, {block_often, &calls}, {compute, &steps}};
  uint64_t processes[3];
  int i;
  (void)self;
  (void)argument;
  for (i = 0; i < 3; i++) processes[i] = spawn(vm, &bodies[i]);
  for (i = 0; i < 3; i++)
    expect(baton_join(vm, processes[i], BATON_FOREVER).reason == BATON_DONE, "an end");
  baton_stop(vm);
}

static void sleep_and_block(baton_vm *vm, uint64_t self, void *argument) {
  struct body bodies[2] = {{sleep_often, &sleeps}, {block_often, &calls}};
  uint64_t processes[2];
  int i;
  (void)self;
  (void)argument;
  for (i = 0; i < 2; i++) processes[i] = spawn(vm, &bodies[i]);
  for (i = 0; i < 2; i++) baton_join(vm, processes[i], BATON_FOREVER);
  baton_stop(vm);
}

static struct baton_waker *waker;

static void be_woken(baton_vm *vm, uint64_t self, void *argument) {
  int i;
  waker = baton_waker_resume(vm, self);
  for (i = 0; i < 100; i++) {
    baton_suspend(vm, self);
    ++*(int *)argument;
  }
  baton_waker_free(waker);
  baton_stop(vm);
}

static void wait_for_ever(baton_vm *vm, uint64_t self, void *argument) {
  (void)argument;
  baton_suspend(vm, self);
}

static void end_at_once(baton_vm *vm, uint64_t self, void *argument) {
  (void)vm;
  (void)self;
  (void)argument;
}

static int call_has_begun, call_may_end;

static void call_for_long(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  if (baton_offload(vm) != BATON_OFFLOADED) baton_leave(vm);
  __atomic_store_n(&call_has_begun, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&call_may_end, __ATOMIC_ACQUIRE)) usleep(100);
  baton_enter(vm);
  expect(0, "a process of a VM that has ended does not continue");
}

/* Sleeps long, beside a call that lasts. */
static void be_left_alone(baton_vm *vm, uint64_t self, void *argument) {
  struct body call = {call_for_long, NULL};
  (void)self;
  (void)argument;
  spawn(vm, &call);
  baton_sleep_until(vm, BATON_NO_DEADLINE);
}

static void run_again(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == -EBUSY, "a thread that runs a VM");
  expect(baton_vm_free(vm) == -EBUSY, "a VM that runs is not freed");
  baton_sleep_until(vm, baton_now() + 500 * MILLISECOND);
  baton_stop(vm);
}

static int is_child;

/* In the child, the process and the loop that runs it go on. */
static void fork_in_a_call(baton_vm *vm, uint64_t self, void *argument) {
  int i, status = 0;
  pid_t child;
  (void)self;
  (void)argument;
  baton_sleep_until(vm, baton_now() + MILLISECOND);
  baton_leave(vm);
  child = fork();
  if (child > 0) waitpid(child, &status, 0);
  baton_enter(vm);
  is_child = child == 0;
  expect(child >= 0 && status == 0, "a child that succeeds");
  for (i = 0; is_child && i < 3; i++) baton_sleep_until(vm, baton_now() + MILLISECOND);
  baton_stop(vm);
}

/* }====================================================== */

/* {======================================================
** The program
** ======================================================= */

static baton_vm *new_vm(struct body *body) {
  struct baton_spawn_options options;
  baton_vm *vm = NULL;
  expect(baton_vm_new(&TABLE, &poll_is_armed, &vm) == 0, "a VM");
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)body;
  options.preemptible = 1;
  expect(baton_spawn_first(vm, &options, message, sizeof message) != 0, "the first process");
  return vm;
}

/* Waits until the VM has something to do. Returns how the wait ended, as poll does. */
static int wait_for(baton_vm *vm, int timeout) {
  struct pollfd watched;
  int ready;
  watched.fd = baton_vm_descriptor(vm);
  watched.events = POLLIN;
  watched.revents = 0;
  do { /* again after a signal */
    ready = poll(&watched, 1, timeout);
  } while (ready < 0 && errno == EINTR);
  return ready;
}

/* What is left until the next deadline, as poll takes it: rounded up, at most a second. */
static int timeout_of(baton_vm *vm) {
  uint64_t deadline = baton_vm_next_deadline(vm);
  uint64_t now = baton_now();
  if (deadline == BATON_NO_DEADLINE || deadline > now + 1000 * MILLISECOND) return 1000;
  return deadline <= now ? 0 : (int)((deadline - now) / MILLISECOND + 1);
}

/* Other threads of the VM end by themselves. */
static void free_soon(baton_vm *vm) {
  int tries;
  for (tries = 0; tries < 5000 && baton_vm_free(vm) == -EBUSY; tries++) usleep(1000);
  expect(tries < 5000, "a VM that is freed");
}

/* Frames of 2 ms for scripts, as a game has, while a script loops for ever. */
static void frames(void) {
  struct body body = {all_kinds, NULL};
  baton_vm *vm = new_vm(&body);
  int count = 0, end;
  while ((end = baton_vm_run_until(vm, baton_now() + 2 * MILLISECOND)) != BATON_STINT_ENDED) {
    int before = steps;
    expect(end == BATON_STINT_TIME_IS_UP || __atomic_load_n(&is_over, __ATOMIC_RELAXED),
        "a script that loops is interrupted");
    expect(end >= 0, "a stint");
    expect(end != BATON_STINT_TIME_IS_UP || baton_vm_next_deadline(vm) == 0, "more to do");
    usleep(500); /* the frame itself */
    expect(steps == before, "a script does not run outside of its time");
    if (++count >= 10 && sleeps == 20 && calls == 5)
      __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  }
  expect(count >= 10 && steps > 0, "frames beside a script");
  free_soon(vm);
}

/* A loop that waits for the descriptor alone, as long as nothing is runnable. */
static void by_descriptor(void) {
  struct body body = {sleep_and_block, NULL};
  baton_vm *vm = new_vm(&body);
  int idle = 0, end;
  while ((end = baton_vm_run_until(vm, BATON_NO_DEADLINE)) == BATON_STINT_IDLE) {
    expect(wait_for(vm, 10000) == 1, "a descriptor that is readable");
    idle++;
  }
  expect(end == BATON_STINT_ENDED && sleeps == 20 && calls == 5, "the end");
  expect(idle > 0, "a wait for a sleep");
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_ENDED, "the same again");
  expect(baton_vm_next_deadline(vm) == BATON_NO_DEADLINE, "nothing is due");
  free_soon(vm);
}

/* A loop for any system, which also takes the next deadline as its timeout. */
static void by_timeout(void) {
  struct body body = {sleep_and_block, NULL};
  baton_vm *vm = new_vm(&body);
  int end;
  expect(baton_vm_next_deadline(vm) == 0, "the first process is runnable");
  while ((end = baton_vm_run_until(vm, BATON_NO_DEADLINE)) == BATON_STINT_IDLE)
    wait_for(vm, timeout_of(vm));
  expect(end == BATON_STINT_ENDED && sleeps == 20 && calls == 5, "the end");
  free_soon(vm);
}

static void *wake_often(void *argument) {
  int i;
  (void)argument;
  for (i = 0; i < 100; i++) {
    baton_waker_wake(waker);
    usleep(200);
  }
  return NULL;
}

static void woken(void) {
  int wakes = 0;
  struct body body = {be_woken, &wakes};
  baton_vm *vm = new_vm(&body);
  pthread_t thread;
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_IDLE, "it is suspended");
  expect(baton_vm_next_deadline(vm) == BATON_NO_DEADLINE, "there is no deadline");
  expect(wait_for(vm, 20) == 0, "nothing to do");
  pthread_create(&thread, NULL, wake_often, NULL);
  pthread_join(thread, NULL);
  /* Several wakes of a process count as one. */
  while (baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_IDLE) {
    if (wait_for(vm, 0) == 0) {
      baton_waker_wake(waker);
      expect(baton_vm_next_deadline(vm) == 0, "a wake is known at once");
      expect(wait_for(vm, 10000) == 1, "a wake makes the descriptor readable");
    }
  }
  expect(wakes == 100, "all wakes");
  free_soon(vm);
}

/* A VM that its host does not need any more, with a process in a call. */
static void left_alone(void) {
  struct body body = {be_left_alone, NULL};
  baton_vm *vm = new_vm(&body);
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_IDLE, "it sleeps");
  while (!__atomic_load_n(&call_has_begun, __ATOMIC_ACQUIRE)) usleep(100);
  expect(baton_vm_free(vm) == -EBUSY, "a VM with a call out is not freed yet");
  __atomic_store_n(&call_may_end, 1, __ATOMIC_RELEASE);
  free_soon(vm);
}

static void deadlock(void) {
  struct body body = {wait_for_ever, NULL};
  baton_vm *vm = new_vm(&body);
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == -EDEADLK, "a deadlock");
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == -EDEADLK, "the same again");
  free_soon(vm);
}

static void last_process(void) {
  struct body body = {end_at_once, NULL};
  baton_vm *vm = new_vm(&body);
  expect(baton_vm_run_until(vm, 0) == BATON_STINT_TIME_IS_UP, "a past deadline runs nothing");
  expect(wait_for(vm, 0) == 1, "there is something to do");
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_ENDED, "no process is left");
  free_soon(vm);
}

static void *run_elsewhere(void *vm) {
  expect(baton_vm_run_until((baton_vm *)vm, BATON_NO_DEADLINE) == -EPERM, "another thread");
  return NULL;
}

static void refusals(void) {
  struct body body = {run_again, NULL};
  baton_vm *vm = new_vm(&body);
  pthread_t thread;
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_IDLE, "it sleeps");
  expect(baton_vm_run(vm) == -EINVAL, "a VM with a host is not run as a whole");
  pthread_create(&thread, NULL, run_elsewhere, vm);
  pthread_join(thread, NULL);
  while (baton_vm_run_until(vm, BATON_NO_DEADLINE) == BATON_STINT_IDLE)
    wait_for(vm, timeout_of(vm));
  free_soon(vm);
}

/* Two VMs in one loop. */
static void two(void) {
  int counts[2] = {0, 0};
  struct body bodies[2] = {{sleep_often, &counts[0]}, {sleep_often, &counts[1]}};
  baton_vm *vms[2];
  int i, living = 2;
  for (i = 0; i < 2; i++) vms[i] = new_vm(&bodies[i]);
  while (living > 0) {
    for (i = 0; i < 2; i++) {
      if (vms[i] == NULL) continue;
      if (baton_vm_run_until(vms[i], BATON_NO_DEADLINE) == BATON_STINT_ENDED) {
        free_soon(vms[i]);
        vms[i] = NULL;
        living--;
      }
    }
    usleep(200);
  }
  expect(counts[0] == 20 && counts[1] == 20, "all sleeps");
}

static void forked(void) {
  struct body body = {fork_in_a_call, NULL};
  baton_vm *vm = new_vm(&body);
  int idle = 0, end;
  while ((end = baton_vm_run_until(vm, BATON_NO_DEADLINE)) == BATON_STINT_IDLE) {
    expect(wait_for(vm, timeout_of(vm)) >= 0, "a descriptor of this program's own");
    idle++;
  }
  expect(end == BATON_STINT_ENDED, "the end");
  if (is_child) _exit(idle > 0 ? 0 : 1);
}

static const struct test_case CASES[] = {
    {"frames", frames}, {"by_descriptor", by_descriptor}, {"by_timeout", by_timeout},
    {"woken", woken}, {"left_alone", left_alone}, {"deadlock", deadlock},
    {"last_process", last_process}, {"refusals", refusals}, {"two", two}, {"forked", forked}};

int main(int argc, char **argv) {
  run_case(CASES, sizeof CASES / sizeof CASES[0], argc, argv);
  return 0;
}

/* }====================================================== */
