/* Two guests in one program, each with a table, a state and a VM of its own: a *counter*, which
   arms a poll, and a *speaker*, which asks baton_wants_safepoint. The argument chooses the case. */
#include "baton.h"
#include "cases.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)

/* A guest's state: what its callbacks are given. */
struct language {
  baton_vm *vm;
  const char *name;
  int poll_is_armed; /* the counter's */
  int preempts;
  int deadlocks;
  int has_other_run;
  int is_woken;
  struct language *other;
  struct baton_waker *waker; /* of the process that waits for the other language */
  uint64_t semaphore;        /* of the process that waits for ever */
};

static int has(const int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

/* {======================================================
** The two languages: each knows its state by its name, and its polls
** ======================================================= */

typedef void (*body)(struct language *mine, uint64_t self);

static void run_counter(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data) {
  struct language *mine = (struct language *)guest;
  expect(strcmp(mine->name, "counter") == 0 && mine->vm == vm, "the counter's process");
  ((body)user_data)(mine, process);
}

static void run_speaker(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data) {
  struct language *mine = (struct language *)guest;
  expect(strcmp(mine->name, "speaker") == 0 && mine->vm == vm, "the speaker's process");
  ((body)user_data)(mine, process);
}

static void preempt_counter(void *guest) {
  struct language *mine = (struct language *)guest;
  if (strcmp(mine->name, "counter") != 0) abort();
  set(&mine->poll_is_armed);
  __atomic_fetch_add(&mine->preempts, 1, __ATOMIC_RELAXED);
}

static void preempt_speaker(void *guest) {
  struct language *mine = (struct language *)guest;
  if (strcmp(mine->name, "speaker") != 0) abort();
  __atomic_fetch_add(&mine->preempts, 1, __ATOMIC_RELAXED);
}

/* It wakes the process that waits. */
static void wake_at_deadlock(void *guest, baton_vm *vm) {
  struct language *mine = (struct language *)guest;
  expect(mine->vm == vm, "the VM of the deadlock");
  mine->deadlocks++;
  baton_semaphore_signal(vm, mine->semaphore, 1);
}

static const struct baton_guest COUNTER = {
    .size = sizeof COUNTER, .run = run_counter, .preempt = preempt_counter,
    .deadlocked = wake_at_deadlock};
/* As if compiled with a header that ended after `preempt`. */
static const struct baton_guest SPEAKER = {
    .size = offsetof(struct baton_guest, switched), .run = run_speaker, .preempt = preempt_speaker};

static void poll(struct language *mine) {
  if (strcmp(mine->name, "speaker") == 0) {
    if (baton_wants_safepoint(mine->vm)) baton_safepoint(mine->vm);
  } else if (__atomic_exchange_n(&mine->poll_is_armed, 0, __ATOMIC_ACQ_REL)) {
    baton_safepoint(mine->vm);
  }
}

/* }====================================================== */

static struct baton_spawn_options options_of(body run) {
  struct baton_spawn_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)run;
  options.preemptible = 1;
  return options;
}

static void begin(struct language *mine, const struct baton_guest *table, body run) {
  struct baton_spawn_options options = options_of(run);
  expect(baton_vm_new(table, mine, &mine->vm) == 0, "a VM");
  expect(baton_spawn_first(mine->vm, &options, message, sizeof message) != 0, "a process");
}

static uint64_t spawn(struct language *mine, body run) {
  struct baton_spawn_options options = options_of(run);
  uint64_t process = baton_spawn(mine->vm, &options, message, sizeof message);
  expect(process != 0, "a process");
  return process;
}

static void *run_vm(void *vm) { return (void *)(intptr_t)baton_vm_run((baton_vm *)vm); }

static void end(struct language *mine) {
  int tries;
  for (tries = 0; tries < 5000 && baton_vm_free(mine->vm) == -EBUSY; tries++) usleep(1000);
  expect(tries < 5000, "a VM that is freed");
}

static struct language counter = {.name = "counter"}, speaker = {.name = "speaker"};

static void run_beside(struct language *mine, uint64_t self) {
  (void)self;
  set(&mine->has_other_run);
}

/* Loops until another process of the same VM has run: only a preemption lets it. */
static void loop(struct language *mine, uint64_t self) {
  (void)self;
  spawn(mine, run_beside);
  while (!has(&mine->has_other_run)) poll(mine);
  baton_stop(mine->vm);
}

static void expect_preempted(void) {
  expect(counter.preempts > 0 && speaker.preempts > 0, "a preemption of each");
  expect(has(&counter.has_other_run) && has(&speaker.has_other_run), "the others have run");
}

/* Each on a native thread of its own, at the same time. */
static void side_by_side(void) {
  pthread_t thread;
  void *result;
  begin(&counter, &COUNTER, loop);
  begin(&speaker, &SPEAKER, loop);
  pthread_create(&thread, NULL, run_vm, speaker.vm);
  expect(baton_vm_run(counter.vm) == 0, "the counter's end");
  pthread_join(thread, &result);
  expect(result == NULL, "the speaker's end");
  expect_preempted();
}

/* Both on this thread, in turns of 2 ms. */
static void by_turns(void) {
  struct language *both[2] = {&counter, &speaker};
  int living = 2, has_ended[2] = {0, 0}, i;
  begin(&counter, &COUNTER, loop);
  begin(&speaker, &SPEAKER, loop);
  while (living > 0) {
    for (i = 0; i < 2; i++) {
      int stint;
      if (has_ended[i]) continue;
      stint = baton_vm_run_until(both[i]->vm, baton_now() + 2 * MILLISECOND);
      expect(stint >= 0, "a turn");
      has_ended[i] = stint == BATON_STINT_ENDED;
      living -= has_ended[i];
    }
  }
  expect_preempted();
}

static struct baton_waker *waker_of(struct language *mine) {
  return __atomic_load_n(&mine->waker, __ATOMIC_ACQUIRE);
}

/* Wakes the other language's process, and waits to be woken by it. */
static void wake_and_wait(struct language *mine, uint64_t self) {
  uint64_t semaphore = baton_semaphore_new(mine->vm, 0);
  int i;
  (void)self;
  __atomic_store_n(
      &mine->waker, baton_waker_signal(mine->vm, semaphore), __ATOMIC_RELEASE);
  while (waker_of(mine->other) == NULL) baton_sleep_until(mine->vm, baton_now() + MILLISECOND);
  for (i = 0; i < 100; i++) {
    baton_waker_wake(waker_of(mine->other));
    expect(baton_semaphore_wait(mine->vm, semaphore, BATON_FOREVER).reason == BATON_DONE,
        "a wake by the other language");
  }
  set(&mine->is_woken);
  baton_leave(mine->vm);
  while (!has(&mine->other->is_woken)) usleep(100);
  baton_enter(mine->vm);
  baton_stop(mine->vm);
}

static void wake_each_other(void) {
  pthread_t thread;
  void *result;
  counter.other = &speaker;
  speaker.other = &counter;
  begin(&counter, &COUNTER, wake_and_wait);
  begin(&speaker, &SPEAKER, wake_and_wait);
  pthread_create(&thread, NULL, run_vm, speaker.vm);
  expect(baton_vm_run(counter.vm) == 0, "the counter's end");
  pthread_join(thread, &result);
  expect(result == NULL, "the speaker's end");
  baton_waker_free(counter.waker);
  baton_waker_free(speaker.waker);
}

/* Waits for what never comes. The counter's `deadlocked` mends that. */
static void wait_for_ever(struct language *mine, uint64_t self) {
  (void)self;
  mine->semaphore = baton_semaphore_new(mine->vm, 0);
  baton_semaphore_wait(mine->vm, mine->semaphore, BATON_FOREVER);
  set(&mine->is_woken);
  baton_stop(mine->vm);
}

/* A deadlock of each: the one language has a callback, and the other one ends. */
static void deadlock(void) {
  begin(&counter, &COUNTER, wait_for_ever);
  begin(&speaker, &SPEAKER, wait_for_ever);
  expect(baton_vm_run(speaker.vm) == -EDEADLK, "the speaker's deadlock");
  expect(baton_vm_run(counter.vm) == 0, "the counter's end");
  expect(counter.deadlocks == 1 && speaker.deadlocks == 0, "one call of `deadlocked`");
  expect(counter.is_woken && !speaker.is_woken, "the counter's process was woken");
}

static const struct {
  const char *name;
  void (*run)(void);
} CASES[] = {{"side_by_side", side_by_side}, {"by_turns", by_turns},
    {"wake_each_other", wake_each_other}, {"deadlock", deadlock}};

int main(int argc, char **argv) {
  size_t i;
  for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    if (argc != 2 || strcmp(CASES[i].name, argv[1]) != 0) continue;
    CASES[i].run();
    end(&counter);
    end(&speaker);
    puts("done");
    return 0;
  }
  expect(0, "the name of a case");
  return 1;
}
