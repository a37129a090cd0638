/* A guest whose engine keeps something once that belongs to one process: how deep its calls are.
   Its `switched` is the one of the header. The argument chooses what the first process does. */
#include "baton.h"
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct process {
  uint64_t id;
  void (*run)(struct process *self);
  int kept; /* its depth, while it does not run */
  int has_ended;
  struct process *next; /* of those that have ended */
};

static struct process *ended;
static baton_vm *vm;
static int depth;
static int forgets;

static void switched(void *guest, uintptr_t from, uintptr_t to) {
  (void)guest;
  expect(from == 0 || from != to, "two processes");
  if (from != 0) {
    expect(!((struct process *)from)->has_ended, "the record of a process that lives");
    ((struct process *)from)->kept = depth;
  }
  if (to != 0 && !forgets) depth = ((struct process *)to)->kept;
}

static uint64_t fingerprint(void *guest) {
  (void)guest;
  return (uint64_t)depth;
}

static void run(void *guest, baton_vm *same, uint64_t id, uintptr_t user_data) {
  struct process *process = (struct process *)user_data;
  (void)guest;
  process->id = id;
  expect(depth == 0 || forgets, "a process begins without calls");
  process->run(process);
  baton_end(same);
  process->has_ended = 1; /* other guests free it here */
  process->next = ended;
  ended = process;
}

static void preempt(void *guest) { (void)guest; }

static const struct baton_guest TABLE = {.size = sizeof TABLE, .run = run, .preempt = preempt,
    .switched = switched, .fingerprint = fingerprint};

static struct baton_spawn_options options_of(void (*body)(struct process *self)) {
  struct baton_spawn_options options;
  struct process *process = (struct process *)calloc(1, sizeof *process);
  expect(process != NULL, "memory");
  process->run = body;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)process;
  options.preemptible = 1;
  return options;
}

static uint64_t spawn(void (*body)(struct process *self)) {
  struct baton_spawn_options options = options_of(body);
  uint64_t id = baton_spawn(vm, &options, message, sizeof message);
  expect(id != 0, "a process");
  return id;
}

/* A counter that grows while another process runs. */
static int others;

static void be_another(struct process *self) {
  while (!baton_kill_is_due(vm, self->id)) {
    depth = 100;
    __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
    baton_yield(vm);
    depth = 0;
    baton_sleep_until(vm, baton_now() + 100000);
  }
}

/* Makes a foreign call during which others run. */
static void let_others_run(void) {
  int before = __atomic_load_n(&others, __ATOMIC_RELAXED);
  baton_leave(vm);
  while (__atomic_load_n(&others, __ATOMIC_RELAXED) < before + 2) usleep(100);
  baton_enter(vm);
}

/* A process goes on at its depth after a call that has lost the VM, and in callbacks of one. */
static void calls(struct process *self) {
  uint64_t another = spawn(be_another);
  int round;
  (void)self;
  for (round = 1; round <= 20; round++) {
    depth = round;
    let_others_run();
    expect(depth == round, "its depth after a call");
    baton_leave(vm);
    while (__atomic_load_n(&others, __ATOMIC_RELAXED) % 3 != 0) usleep(100);
    baton_enter(vm);
    expect(depth == round, "its depth in a callback");
    depth++;
    let_others_run();
    expect(depth == round + 1, "its depth after a call of a callback");
    depth--;
    baton_leave(vm);
    baton_enter(vm);
    expect(depth == round, "its depth after the whole");
  }
  baton_kill(vm, another);
  baton_join(vm, another, BATON_FOREVER);
  depth = 0;
  baton_stop(vm);
}

static void end_at_once(struct process *self) { (void)self; }

static void yield_and_end(struct process *self) {
  (void)self;
  depth = 3;
  baton_yield(vm);
  expect(depth == 3, "its depth after a yield");
}

/* A process that has ended is not put away: its record is freed. */
static void ends(struct process *self) {
  int round;
  (void)self;
  depth = 1;
  for (round = 0; round < 100; round++) {
    spawn(end_at_once);
    baton_join(vm, spawn(yield_and_end), BATON_FOREVER);
    expect(depth == 1, "its depth after a wait");
  }
  depth = 0;
  baton_stop(vm);
}

/* A fork's child goes on with the state of the process that has forked, though its call has lost
   the VM before. */
static void fork_in_call(struct process *self) {
  uint64_t another = spawn(be_another);
  int before = others, status = 1;
  pid_t child;
  (void)self;
  depth = 5;
  baton_leave(vm);
  while (__atomic_load_n(&others, __ATOMIC_RELAXED) < before + 2) usleep(100);
  child = fork();
  if (child != 0) waitpid(child, &status, 0);
  baton_enter(vm);
  expect(depth == 5, child == 0 ? "its depth in the child" : "its depth in the parent");
  if (child == 0) _exit(0);
  expect(status == 0, "a child that ends well");
  baton_kill(vm, another);
  baton_join(vm, another, BATON_FOREVER);
  depth = 0;
  baton_stop(vm);
}

/* Mistakes, which the debug library notices. */

static void forget_at_switch(struct process *self) {
  (void)self;
  forgets = 1;
  depth = 1;
  spawn(yield_and_end);
  baton_yield(vm);
}

static void forget_in_call(struct process *self) {
  (void)self;
  forgets = 1;
  spawn(be_another);
  depth = 1;
  let_others_run();
}

static void (*chosen)(struct process *self);

static void run_chosen(void) {
  struct baton_spawn_options options = options_of(chosen);
  expect(baton_vm_new(&TABLE, NULL, &vm) == 0, "a VM");
  expect(baton_spawn_first(vm, &options, message, sizeof message) != 0, "a first process");
  expect(baton_vm_run(vm) == 0, "a VM that ends");
  while (ended != NULL) {
    struct process *next = ended->next;
    free(ended);
    ended = next;
  }
  if (chosen == fork_in_call) return; /* it is never freed after a fork */
  while (baton_vm_free(vm) != 0) usleep(1000);
}

#define CASE(name) \
  static void run_##name(void) { \
    chosen = name; \
    run_chosen(); \
  }
CASE(calls)
CASE(ends)
CASE(fork_in_call)
CASE(forget_at_switch)
CASE(forget_in_call)

static const struct test_case CASES[] = {{"calls", run_calls}, {"ends", run_ends},
    {"fork_in_call", run_fork_in_call}, {"forget_at_switch", run_forget_at_switch},
    {"forget_in_call", run_forget_in_call}};

int main(int argc, char **argv) {
  run_case(CASES, sizeof CASES / sizeof CASES[0], argc, argv);
  return 0;
}
