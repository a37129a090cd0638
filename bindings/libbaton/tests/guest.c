/* A guest: each process runs a C function. The argument chooses what the first process does. */
#include "baton.h"
#include "cases.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct body {
  void (*run)(baton_vm *vm, uint64_t self, void *argument);
  void *argument;
};

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

/* What this native thread runs: inside, or in a call that it was not moved to. */
static _Thread_local uintptr_t on_thread;

/* Whose state an engine would have. */
static uintptr_t in_engine;

static void run(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data) {
  struct body *body = (struct body *)user_data;
  (void)guest;
  body->run(vm, process, body->argument);
  on_thread = 0;
  in_engine = 0;
}

static void preempt(void *guest) { __atomic_store_n((int *)guest, 1, __ATOMIC_RELAXED); }

static void switched(void *guest, uintptr_t from, uintptr_t to);

static void departed(void *guest) {
  (void)guest;
  on_thread = 0;
}

static const struct baton_guest TABLE = {.size = sizeof TABLE, .run = run, .preempt = preempt,
    .switched = switched, .departed = departed};

static void add_in_turns(baton_vm *vm, uint64_t self, void *argument) {
  int *sum = (int *)argument;
  int i;
  expect(baton_self(vm) == self, "the process is the current one");
  for (i = 0; i < 100; i++) {
    int before = *sum;
    baton_yield(vm);
    *sum += 1;
    expect(*sum > before, "a sum that grows");
  }
}

static void everything(baton_vm *vm, uint64_t self, void *argument) {
  int sum = 0;
  struct body bodies[2] = {{add_in_turns, NULL}, {add_in_turns, NULL}};
  uint64_t both[2];
  uint64_t begin;
  int i;
  (void)argument;
  for (i = 0; i < 2; i++) {
    bodies[i].argument = &sum;
    both[i] = spawn(vm, &bodies[i]);
    expect(baton_user_data(vm, both[i]) == (uintptr_t)&bodies[i], "the user data");
  }
  for (i = 0; i < 2; i++) {
    expect(baton_join(vm, both[i], BATON_FOREVER).reason == BATON_DONE, "the end of a process");
    baton_forget(vm, both[i]);
  }
  expect(sum == 200, "both have added");
  begin = baton_now();
  expect(baton_sleep_until(vm, begin + 1000000).reason == BATON_TIMED_OUT ||
             baton_now() >= begin + 1000000,
      "a sleep of its length");
  expect(!baton_kill_is_due(vm, self), "nobody kills the first process");
  expect(baton_vm_run(vm) == -EBUSY, "a thread that runs a VM");
  expect(baton_vm_free(vm) == -EBUSY, "a VM that runs is not freed");
  baton_stop(vm);
}

static void work_beside_call(baton_vm *vm, uint64_t self, void *argument) {
  (void)vm;
  (void)self;
  *(int *)argument = 1;
}

static volatile int has_worked;

/* Others run during a call that only ends when one has. */
static void call(baton_vm *vm, uint64_t self, void *argument) {
  struct body other = {work_beside_call, (void *)&has_worked};
  uint64_t process = spawn(vm, &other);
  (void)self;
  (void)argument;
  baton_leave(vm);
  while (!__atomic_load_n(&has_worked, __ATOMIC_ACQUIRE)) usleep(100);
  baton_enter(vm);
  baton_join(vm, process, BATON_FOREVER);
  baton_stop(vm);
}

static int poll_is_armed;

static void set_after_start(baton_vm *vm, uint64_t self, void *argument) {
  (void)vm;
  (void)self;
  __atomic_store_n((int *)argument, 1, __ATOMIC_RELAXED);
}

/* A loop without end is preempted: `preempt` arms the poll. */
static void loop(baton_vm *vm, uint64_t self, void *argument) {
  int has_run = 0;
  struct body other = {set_after_start, &has_run};
  (void)self;
  (void)argument;
  spawn(vm, &other);
  while (!__atomic_load_n(&has_run, __ATOMIC_RELAXED)) {
    if (__atomic_exchange_n(&poll_is_armed, 0, __ATOMIC_RELAXED)) baton_safepoint(vm);
  }
  baton_stop(vm);
}

static int may_return, has_returned;

static void call_until_told(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_leave(vm);
  while (!__atomic_load_n(&may_return, __ATOMIC_ACQUIRE)) usleep(100);
  baton_enter(vm);
  __atomic_store_n(&has_returned, 1, __ATOMIC_RELAXED);
}

/* A loop without end lets a call that returns run, if it only asks baton_wants_safepoint. */
static void ask_in_loop(baton_vm *vm, uint64_t self, void *argument) {
  struct body other = {call_until_told, NULL};
  int round;
  (void)self;
  (void)argument;
  alarm(100); /* no machine needs that long */
  for (round = 0; round < 30; round++) {
    uint64_t process = spawn(vm, &other);
    may_return = has_returned = 0;
    baton_yield(vm);
    __atomic_store_n(&may_return, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&has_returned, __ATOMIC_RELAXED))
      if (baton_wants_safepoint(vm)) baton_safepoint(vm);
    baton_join(vm, process, BATON_FOREVER);
    baton_forget(vm, process);
  }
  baton_stop(vm);
}

static void *wake(void *waker) {
  baton_waker_wake((const struct baton_waker *)waker);
  return NULL;
}

static void be_woken(baton_vm *vm, uint64_t self, void *argument) {
  struct baton_waker *waker = baton_waker_resume(vm, self);
  pthread_t thread;
  (void)argument;
  expect(waker != NULL, "a waker");
  pthread_create(&thread, NULL, wake, waker);
  baton_suspend(vm, self);
  pthread_join(thread, NULL);
  baton_waker_free(waker);
  baton_stop(vm);
}

static void leave_twice(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_leave(vm);
  baton_leave(vm);
}

static void enter_twice(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_leave(vm);
  baton_enter(vm);
  baton_enter(vm);
}

static void *enter(void *vm) {
  baton_enter((const baton_vm *)vm);
  return NULL;
}

static void enter_from_elsewhere(baton_vm *vm, uint64_t self, void *argument) {
  pthread_t thread;
  (void)self;
  (void)argument;
  pthread_create(&thread, NULL, enter, vm);
  pthread_join(thread, NULL);
}

static void yield_outside(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_leave(vm);
  baton_yield(vm);
}

static void *yield(void *vm) {
  baton_yield((const baton_vm *)vm);
  return NULL;
}

static void yield_from_elsewhere(baton_vm *vm, uint64_t self, void *argument) {
  pthread_t thread;
  (void)self;
  (void)argument;
  pthread_create(&thread, NULL, yield, vm);
  pthread_join(thread, NULL);
}

static void end_outside(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_leave(vm);
}

/* Not NULL: `switched` makes a switch of its own. */
static baton_vm *yields_in_switch;

static void switched(void *guest, uintptr_t from, uintptr_t to) {
  (void)guest;
  expect(from == in_engine, "the process whose state the engine has");
  expect(from == 0 || from != to, "two processes");
  expect(on_thread == from || on_thread == 0, "a thread that runs what it is said to leave");
  on_thread = to;
  in_engine = to;
  if (yields_in_switch != NULL) baton_yield(yields_in_switch);
}

static void switch_in_callback(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  yields_in_switch = vm;
  baton_sleep_until(vm, baton_now() + 1000000);
}

static void leave_section(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_leave_critical(vm);
}

/* A wait in a critical section is refused, in all builds. */
static void wait_in_section(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_enter_critical(vm);
  expect(baton_sleep_until(vm, BATON_NO_DEADLINE).reason == BATON_FORBIDDEN, "a refusal");
  baton_leave_critical(vm);
  baton_stop(vm);
}

static void spawn_first_late(baton_vm *vm, uint64_t self, void *argument) {
  struct baton_spawn_options options;
  (void)self;
  (void)argument;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  baton_spawn_first(vm, &options, message, sizeof message);
}

static void wait_for_ever(baton_vm *vm, uint64_t self, void *argument) {
  (void)argument;
  baton_suspend(vm, self);
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

static void sleep_for_ever(baton_vm *vm, uint64_t self, void *argument) {
  (void)self;
  (void)argument;
  baton_sleep_until(vm, BATON_NO_DEADLINE);
}

/* The VM ends while a call lasts, and another process sleeps. */
static void be_outlasted(baton_vm *vm, uint64_t self, void *argument) {
  struct body bodies[2] = {{call_for_long, NULL}, {sleep_for_ever, NULL}};
  (void)self;
  (void)argument;
  spawn(vm, &bodies[0]);
  spawn(vm, &bodies[1]);
  while (!__atomic_load_n(&call_has_begun, __ATOMIC_ACQUIRE)) baton_yield(vm);
  baton_yield(vm);
  baton_stop(vm);
}

/* A process that waits: its stack is in use between its pointer and its higher bound. */
static void wait_with_local(baton_vm *vm, uint64_t self, void *argument) {
  volatile uintptr_t local = 0x5eed;
  *(uintptr_t *)argument = (uintptr_t)&local;
  baton_suspend(vm, self);
  expect(local == 0x5eed, "what a collector has only read");
}

static void scan_stack(baton_vm *vm, uint64_t self, void *argument) {
  uintptr_t local = 0, guard, low, high, end;
  struct body other = {wait_with_local, &local};
  uint64_t process = spawn(vm, &other);
  (void)argument;
  expect(baton_stack_pointer(vm, process) == 0, "it has not begun");
  baton_yield(vm);
  end = baton_stack_pointer(vm, process);
  baton_stack_bounds(vm, process, &guard, &low, &high);
  expect(guard < low && low <= end && end <= local && local < high, "the part in use");
  expect(*(volatile uintptr_t *)local == 0x5eed, "a value on its stack");
  expect(baton_stack_pointer(vm, self) == 0, "the running process");
  baton_resume(vm, process);
  baton_join(vm, process, BATON_FOREVER);
  expect(baton_stack_pointer(vm, process) == 0, "it has ended");
  baton_stop(vm);
}

static void change_slices(baton_vm *vm, uint64_t self, void *argument) {
  uint64_t usual = baton_slice(vm, self);
  (void)argument;
  expect(usual == 10000000, "the parameter");
  baton_set_slice(vm, self, 2000000);
  expect(baton_slice(vm, self) == 2000000, "its own");
  baton_set_slice(vm, self, 0);
  expect(baton_slice(vm, self) == usual, "the parameter again");
  baton_stop(vm);
}

/* A call sees that others run beside it. Without retaking they do not. */
static void ask_in_call(baton_vm *vm, uint64_t self, void *argument) {
  struct body other = {work_beside_call, (void *)&has_worked};
  uint64_t process = spawn(vm, &other);
  (void)self;
  (void)argument;
  baton_set_retaking(vm, 0);
  baton_leave(vm);
  usleep(50000);
  expect(!baton_is_revoked(vm), "the VM stays with the call");
  baton_enter(vm);
  expect(!has_worked, "the other process has not run");
  baton_set_retaking(vm, 1);
  baton_leave(vm);
  while (!__atomic_load_n(&has_worked, __ATOMIC_ACQUIRE)) usleep(100);
  expect(baton_is_revoked(vm), "others run beside the call");
  baton_enter(vm);
  baton_join(vm, process, BATON_FOREVER);
  baton_stop(vm);
}

static const struct {
  const char *name;
  void (*run)(baton_vm *vm, uint64_t self, void *argument);
} CASES[] = {{"everything", everything}, {"call", call}, {"loop", loop},
    {"ask_in_loop", ask_in_loop}, {"be_woken", be_woken},
    {"leave_twice", leave_twice}, {"enter_twice", enter_twice},
    {"enter_from_elsewhere", enter_from_elsewhere}, {"yield_outside", yield_outside},
    {"yield_from_elsewhere", yield_from_elsewhere}, {"end_outside", end_outside},
    {"switch_in_callback", switch_in_callback}, {"leave_section", leave_section},
    {"wait_in_section", wait_in_section}, {"spawn_first_late", spawn_first_late},
    {"wait_for_ever", wait_for_ever}, {"be_outlasted", be_outlasted},
    {"scan_stack", scan_stack}, {"change_slices", change_slices}, {"ask_in_call", ask_in_call}};

static void refuse_bad_tables(void) {
  struct baton_guest bad = TABLE;
  baton_vm *vm = NULL;
  bad.size = sizeof(size_t);
  expect(baton_vm_new(&bad, NULL, &vm) == -EINVAL, "a table that is too small is refused");
  bad = TABLE;
  bad.run = NULL;
  expect(baton_vm_new(&bad, NULL, &vm) == -EINVAL, "a table without run is refused");
  bad = TABLE;
  bad.preempt = NULL;
  expect(baton_vm_new(&bad, NULL, &vm) == -EINVAL, "a table without preempt is refused");
}

int main(int argc, char **argv) {
  struct baton_spawn_options options;
  struct body body = {NULL, NULL};
  baton_vm *vm = NULL;
  int tries;
  size_t i;
  for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
    if (argc == 2 && strcmp(CASES[i].name, argv[1]) == 0) body.run = CASES[i].run;
  expect(body.run != NULL, "the name of a case");
  expect(strlen(baton_version()) >= 5, "a version");
  refuse_bad_tables();
  expect(baton_vm_new(&TABLE, &poll_is_armed, &vm) == 0, "a VM");
  memset(&options, 0, sizeof options);
  expect(baton_spawn_first(vm, &options, message, sizeof message) == 0, "options without a size");
  expect(strstr(message, "expected `size`") != NULL, "what is expected");
  options.size = sizeof options;
  options.user_data = (uintptr_t)&body;
  options.preemptible = 1;
  expect(baton_spawn_first(vm, &options, message, sizeof message) != 0, "the first process");
  expect(baton_vm_run(vm) == (body.run == wait_for_ever ? -EDEADLK : 0), "a VM that ends");
  expect(baton_vm_run(vm) == -ESHUTDOWN, "a VM is run once");
  if (body.run == be_outlasted)
    expect(baton_vm_free(vm) == -EBUSY, "a VM with a call out is not freed yet");
  __atomic_store_n(&call_may_end, 1, __ATOMIC_RELEASE);
  /* Its other threads end by themselves. */
  for (tries = 0; tries < 5000 && baton_vm_free(vm) == -EBUSY; tries++) usleep(1000);
  expect(tries < 5000, "a VM that is freed");
  puts("done");
  return 0;
}
