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

static uint64_t choose(void *guest, baton_vm *same, uintptr_t left, uintptr_t suggested);
static void noted(void *guest, baton_vm *same, uintptr_t from, uintptr_t to);

static const struct baton_guest TABLE = {.size = sizeof TABLE, .run = run, .preempt = preempt,
    .switched = switched, .fingerprint = fingerprint, .choose = choose, .noted = noted};

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

/* Names of processes, in what others wait for. */

static uint64_t mutex;

static void hold_mutex(struct process *self) {
  (void)self;
  baton_mutex_lock(vm, mutex, BATON_FOREVER);
  baton_suspend(vm, self->id);
  baton_mutex_unlock(vm, mutex);
}

static void wait_for_mutex(struct process *self) {
  (void)self;
  baton_mutex_lock(vm, mutex, BATON_FOREVER);
  baton_mutex_unlock(vm, mutex);
}

static void expect_blocker(uint64_t process, const char *format, uint64_t other) {
  char expected[BATON_BLOCKER], text[BATON_BLOCKER];
  snprintf(expected, sizeof expected, format, (unsigned long)other);
  baton_blocker(vm, process, text, sizeof text);
  snprintf(message, sizeof message, "%.200s", text);
  expect(strcmp(text, expected) == 0, format);
}

static void names(struct process *self) {
  char long_name[200], name[100];
  uint64_t holder, waiter;
  struct baton_spawn_options options = options_of(hold_mutex);
  mutex = baton_mutex_new(vm);
  baton_set_object_name(vm, BATON_MUTEX, mutex, "accounts");
  options.name = "clerk";
  holder = baton_spawn(vm, &options, message, sizeof message);
  baton_yield(vm);
  waiter = spawn(wait_for_mutex);
  baton_yield(vm);
  expect_blocker(waiter, "for the mutex 'accounts', held by process %lu 'clerk'", holder);
  baton_process_name(vm, holder, name, sizeof name);
  expect(strcmp(name, "clerk") == 0, "the name of a process");
  baton_process_name(vm, self->id, name, sizeof name);
  expect(name[0] == '\0', "no name");
  baton_resume(vm, holder);
  baton_join(vm, waiter, BATON_FOREVER);
  baton_process_name(vm, holder, name, sizeof name);
  expect(name[0] == '\0', "no name of a process that has ended");

  options = options_of(end_at_once);
  memset(long_name, 'x', sizeof long_name);
  long_name[sizeof long_name - 1] = '\0';
  options.name = long_name;
  options.suspended = 1;
  waiter = baton_spawn(vm, &options, message, sizeof message);
  baton_process_name(vm, waiter, name, sizeof name);
  expect(strlen(name) == BATON_PROCESS_NAME, "a name that is cut");
  options = options_of(end_at_once);
  options.size = offsetof(struct baton_spawn_options, name);
  expect(baton_spawn(vm, &options, message, sizeof message) != 0, "options of an older header");
  baton_resume(vm, waiter);
  baton_wait_for_rest(vm, BATON_FOREVER);
  baton_stop(vm);
}

/* Hooks. */

static uint64_t preferred;
static int notes;

static uint64_t choose(void *guest, baton_vm *same, uintptr_t left, uintptr_t suggested) {
  (void)guest;
  expect(same == vm && left != suggested, "the process that was left, and another one");
  return preferred;
}

static void noted(void *guest, baton_vm *same, uintptr_t from, uintptr_t to) {
  (void)guest;
  expect(same == vm && from != to, "a switch");
  notes++;
}

static void hooks(struct process *self) {
  uint64_t first = spawn(end_at_once), second = spawn(end_at_once);
  preferred = second;
  baton_set_scheduler_hook(vm, 1);
  baton_yield_to(vm, self->id);
  baton_set_scheduler_hook(vm, 0);
  expect(baton_state(vm, second) == BATON_STATE_DEAD, "the preferred process has run");
  preferred = 0;
  baton_set_switch_hook(vm, self->id, 1);
  baton_join(vm, first, BATON_FOREVER);
  baton_yield(vm);
  baton_set_switch_hook(vm, self->id, 0);
  expect(baton_state(vm, first) == BATON_STATE_DEAD, "so has the other one");
  baton_stop(vm);
}

/* Uses up its stack. */

static int descend(volatile int *above) {
  volatile char frame[1000];
  if (*above != 0) return 0;
  frame[0] = (char)*above;
  return descend(above) + frame[0];
}

static void overflow_stack(struct process *self) {
  volatile int zero = 0;
  (void)self;
  exit(descend(&zero));
}

static void use_up(struct process *self) {
  struct baton_spawn_options options = options_of(overflow_stack);
  (void)self;
  options.name = "clerk";
  baton_spawn(vm, &options, message, sizeof message);
  baton_yield(vm);
}

static void use_up_own_size(struct process *self) {
  struct baton_spawn_options options = options_of(overflow_stack);
  (void)self;
  options.stack_size = 256 * 1024;
  baton_spawn(vm, &options, message, sizeof message);
  baton_yield(vm);
}

static void use_up_in_call(struct process *self) {
  baton_leave(vm);
  overflow_stack(self);
}

/* Other faults are not for the runtime. */
static void access_nothing(struct process *self) {
  volatile int *volatile nowhere = NULL;
  (void)self;
  *nowhere = 1;
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
CASE(names)
CASE(hooks)
CASE(use_up)
CASE(use_up_own_size)
CASE(use_up_in_call)
CASE(access_nothing)
CASE(forget_at_switch)
CASE(forget_in_call)

static const struct test_case CASES[] = {{"calls", run_calls}, {"ends", run_ends},
    {"fork_in_call", run_fork_in_call}, {"names", run_names}, {"hooks", run_hooks},
    {"use_up", run_use_up}, {"use_up_own_size", run_use_up_own_size},
    {"use_up_in_call", run_use_up_in_call}, {"access_nothing", run_access_nothing},
    {"forget_at_switch", run_forget_at_switch},
    {"forget_in_call", run_forget_in_call}};

int main(int argc, char **argv) {
  run_case(CASES, sizeof CASES / sizeof CASES[0], argc, argv);
  return 0;
}
