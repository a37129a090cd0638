/*
** The smallest guest of Baton that is of use as a beginning: a stack machine with processes.
**
**   ./guest PROGRAM         with the variable SEED, the run is simulated
**
** README.md describes its language. The comments marked "Baton:" say what a guest owes to the
** runtime. The porting guide of the book has the same steps in the same order.
*/
#include <baton.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_INSTRUCTIONS 200
#define LINE_SIZE 80
#define STACK_DEPTH 16
#define MILLISECOND 1000000u

/* {======================================================
** The guest's state
** ======================================================= */

struct machine;
struct process;

enum next { GOES_ON, ENDS };
typedef enum next (*operation)(struct process *process, long argument);
#define NO_OPERAND long unused __attribute__((unused))

struct instruction {
  operation run;
  long argument;            /* a number, a variable, or the place of a label */
  char label[LINE_SIZE];    /* of this instruction, or empty */
  char operand[LINE_SIZE];  /* as written */
};

/* What an interpreter keeps once, though it belongs to the process that runs. */
struct registers {
  long place; /* of the next instruction */
  long stack[STACK_DEPTH];
  int depth;
};

/* One interpreter. All processes share its variables, as they share a language's heap. */
struct machine {
  baton_vm *vm;
  struct registers now;
  int poll; /* atomic. Not 0: the running process calls baton_safepoint soon */
  uint32_t steps, steps_left; /* until the next baton_count_steps: how many, and what is left */
  long variables[26];
  long stretch; /* a sleep's length is multiplied by it */
  struct instruction program[MOST_INSTRUCTIONS];
  long length;
  struct process *processes; /* all that have not ended */
};

/* One process. Its C stack is the runtime's; this is the interpreter's part. */
struct process {
  struct machine *machine;
  uint64_t id;
  struct registers kept; /* while it does not run */
  struct process *before, *after; /* in the machine's list */
};

static void fail(const char *what, const char *detail) {
  fprintf(stderr, "guest: %s: %s\n", what, detail);
  exit(2);
}

static void push(struct process *process, long value) {
  struct registers *now = &process->machine->now;
  if (now->depth == STACK_DEPTH) fail("the stack is full", "too many pushes");
  now->stack[now->depth++] = value;
}

static long pop(struct process *process) {
  struct registers *now = &process->machine->now;
  if (now->depth == 0) fail("the stack is empty", "a value expected");
  return now->stack[--now->depth];
}

/* }====================================================== */

/* {======================================================
** Processes
** ======================================================= */

/* Baton: after each wait and each safepoint, a process looks whether it was killed. */
static enum next unless_killed(struct process *process) {
  return baton_kill_is_due(process->machine->vm, process->id) ? ENDS : GOES_ON;
}

/* Baton: an interpreter looks at its poll where a program cannot run for long without it: here at
   each jump. That others may run in between is nobody's surprise there. */
static enum next poll(struct process *process) {
  struct machine *machine = process->machine;
  int is_due = __atomic_load_n(&machine->poll, __ATOMIC_RELAXED);
  if (--machine->steps_left == 0) { /* a jump is a step of a simulated run */
    is_due |= baton_count_steps(machine->vm, machine->steps, &machine->steps);
    machine->steps_left = machine->steps;
  }
  if (!is_due) return GOES_ON;
  __atomic_store_n(&machine->poll, 0, __ATOMIC_RELAXED);
  baton_safepoint(machine->vm);
  return unless_killed(process);
}

/* Baton: `preempt` arms the poll. It is called in a signal handler. */
static void preempt(void *guest) {
  struct machine *machine = (struct machine *)guest;
  __atomic_store_n(&machine->poll, 1, __ATOMIC_RELAXED);
}

/* Baton: at each switch, what the interpreter keeps once is put away and brought back. */
static void switched(void *guest, uintptr_t from, uintptr_t to) {
  struct machine *machine = (struct machine *)guest;
  if (from != 0) ((struct process *)from)->kept = machine->now;
  if (to != 0) machine->now = ((struct process *)to)->kept;
}

/* Baton: by this, the debug library notices a `switched` that forgets something. */
static uint64_t fingerprint(void *guest) {
  const struct registers *now = &((struct machine *)guest)->now;
  return ((uint64_t)now->place << 32) + (uint64_t)now->depth;
}

static void interpret(struct process *process) {
  struct machine *machine = process->machine;
  enum next next = GOES_ON;
  while (next == GOES_ON && machine->now.place < machine->length) {
    const struct instruction *at = &machine->program[machine->now.place++];
    next = at->run(process, at->argument);
  }
}

static void free_process(struct process *process) {
  struct process **to = process->before ? &process->before->after : &process->machine->processes;
  *to = process->after;
  if (process->after != NULL) process->after->before = process->before;
  free(process);
}

/* Baton: `run` is a process from its beginning to its end, on a stack of its own. */
static void run(void *guest, baton_vm *vm, uint64_t id, uintptr_t user_data) {
  struct process *process = (struct process *)user_data;
  (void)guest;
  process->id = id;
  if (unless_killed(process) == GOES_ON) interpret(process); /* a kill may have come already */
  baton_end(vm); /* the runtime forgets the process */
  free_process(process);
}

static const struct baton_guest TABLE = {.size = sizeof TABLE,
    .run = run, .preempt = preempt, .switched = switched, .fingerprint = fingerprint};

static struct process *new_process(struct machine *machine, long place) {
  struct process *process = (struct process *)calloc(1, sizeof *process);
  if (process == NULL) fail("no memory", "for a process");
  process->machine = machine;
  process->kept.place = place;
  process->after = machine->processes;
  if (process->after != NULL) process->after->before = process;
  machine->processes = process;
  return process;
}

static struct baton_spawn_options options_of(struct process *process, int priority) {
  struct baton_spawn_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)process;
  options.preemptible = 1;
  options.priority = priority; /* 0: the spawning process's */
  return options;
}

/* Pops a priority, and pushes the id of the new process. */
static enum next op_spawn(struct process *process, long place) {
  struct machine *machine = process->machine;
  struct process *made = new_process(machine, place);
  struct baton_spawn_options options = options_of(made, (int)pop(process));
  char message[BATON_MESSAGE];
  uint64_t id = baton_spawn(machine->vm, &options, message, sizeof message);
  if (id == 0) fail("no process", message);
  push(process, (long)id);
  return unless_killed(process);
}

static enum next op_yield(struct process *process, NO_OPERAND) {
  baton_yield(process->machine->vm);
  return unless_killed(process);
}

static enum next op_sleep(struct process *process, long milliseconds) {
  uint64_t until = baton_now() + (uint64_t)(milliseconds * process->machine->stretch) * MILLISECOND;
  baton_sleep_until(process->machine->vm, until);
  return unless_killed(process);
}

static enum next op_join(struct process *process, NO_OPERAND) {
  baton_join(process->machine->vm, (uint64_t)pop(process), BATON_FOREVER);
  return unless_killed(process);
}

/* Waits for the end of all other processes. */
static enum next op_rest(struct process *process, NO_OPERAND) {
  baton_wait_for_rest(process->machine->vm, BATON_FOREVER);
  return unless_killed(process);
}

static enum next op_kill(struct process *process, NO_OPERAND) {
  baton_kill(process->machine->vm, (uint64_t)pop(process));
  return unless_killed(process);
}

/* Waits until somebody resumes the process. */
static enum next op_suspend(struct process *process, NO_OPERAND) {
  baton_suspend(process->machine->vm, process->id);
  return unless_killed(process);
}

static enum next op_end(struct process *process, NO_OPERAND) {
  (void)process;
  return ENDS;
}

/* Ends the VM, whatever the other processes do: baton_vm_run returns in `main`. If its thread is in
   a foreign call of some process, it returns after that. */
static enum next op_stop(struct process *process, NO_OPERAND) {
  baton_stop(process->machine->vm);
  return ENDS;
}

/* Ends the program at once, although foreign calls may be out. */
static enum next op_exit(struct process *process, long status) {
  (void)process;
  exit((int)status);
}

/* }====================================================== */

/* {======================================================
** Foreign calls
** ======================================================= */

/* Baton: a call that may block is made between baton_leave and baton_enter. Others run meanwhile,
   so it touches nothing of the machine's: its arguments and results are in local variables. */
static enum next op_read(struct process *process, NO_OPERAND) {
  baton_vm *vm = process->machine->vm;
  char byte = 0;
  ssize_t size;
  baton_leave(vm);
  size = read(0, &byte, 1);
  baton_enter(vm);
  push(process, size == 1 ? byte : -1);
  return unless_killed(process);
}

static void nap(long microseconds) {
  struct timespec time = {0, microseconds * 1000};
  nanosleep(&time, NULL);
}

static enum next op_nap(struct process *process, long microseconds) {
  baton_vm *vm = process->machine->vm;
  baton_leave(vm);
  nap(microseconds);
  baton_enter(vm);
  return unless_killed(process);
}

/* What a library in C might be. It knows nothing of processes. */
static void for_each(long count, void (*visit)(long number, void *argument), void *argument) {
  long number;
  for (number = 1; number <= count; number++) visit(number, argument);
}

/* Baton: C calls the guest back. The process is outside, in its call, so it enters first. */
static void visit(long number, void *argument) {
  struct process *process = (struct process *)argument;
  struct machine *machine = process->machine;
  long place;
  baton_enter(machine->vm);
  place = machine->now.place;
  machine->now.place = machine->program[place].argument;
  push(process, number);
  interpret(process); /* until `end` */
  machine->now.place = place;
  baton_leave(machine->vm);
}

/* Calls back to the label of the next instruction, a `jump` that is not made. */
static enum next op_call_back(struct process *process, long count) {
  baton_vm *vm = process->machine->vm;
  baton_leave(vm);
  for_each(count, visit, process);
  baton_enter(vm);
  process->machine->now.place++;
  return unless_killed(process);
}

static void *wake_later(void *waker) {
  nap(50000);
  baton_waker_wake((const struct baton_waker *)waker);
  return NULL;
}

/* Baton: a thread that runs no process wakes one by a waker. A resume that comes before the
   suspension is lost, so the process waits for a semaphore, which counts. */
static enum next op_be_woken(struct process *process, NO_OPERAND) {
  baton_vm *vm = process->machine->vm;
  uint64_t semaphore = baton_semaphore_new(vm, 0);
  struct baton_waker *waker = baton_waker_signal(vm, semaphore);
  pthread_t thread;
  if (pthread_create(&thread, NULL, wake_later, waker) != 0) fail("no thread", "for a waker");
  baton_semaphore_wait(vm, semaphore, BATON_FOREVER);
  baton_leave(vm);
  pthread_join(thread, NULL);
  baton_enter(vm);
  baton_waker_free(waker);
  baton_free(vm, BATON_SEMAPHORE, semaphore);
  return unless_killed(process);
}

/* Waits until standard input can be read, without a thread. */
static enum next op_ready(struct process *process, NO_OPERAND) {
  const baton_vm *vm = process->machine->vm;
  struct baton_watch watch = {0, BATON_WANTS_READ};
  if (baton_await_ready(vm, &watch, 1, 0, baton_harvests(vm), BATON_NO_DEADLINE) < 0)
    fail("standard input", "it cannot be waited for");
  return unless_killed(process);
}

/* }====================================================== */

/* {======================================================
** The rest of the language
** ======================================================= */

static enum next op_push(struct process *process, long value) {
  push(process, value);
  return GOES_ON;
}

static enum next op_copy(struct process *process, NO_OPERAND) {
  long value = pop(process);
  push(process, value);
  push(process, value);
  return GOES_ON;
}

static enum next op_load(struct process *process, long variable) {
  push(process, process->machine->variables[variable]);
  return GOES_ON;
}

static enum next op_store(struct process *process, long variable) {
  process->machine->variables[variable] = pop(process);
  return GOES_ON;
}

static enum next op_add(struct process *process, NO_OPERAND) {
  push(process, pop(process) + pop(process));
  return GOES_ON;
}

static enum next op_multiply(struct process *process, NO_OPERAND) {
  push(process, pop(process) * pop(process));
  return GOES_ON;
}

static enum next op_jump(struct process *process, long place) {
  process->machine->now.place = place;
  return poll(process);
}

static enum next op_unless(struct process *process, long place) {
  return pop(process) == 0 ? op_jump(process, place) : GOES_ON;
}

/* Prints a line at once. It is short, so the process stays inside. */
static enum next op_say(struct process *process, NO_OPERAND) {
  puts(process->machine->program[process->machine->now.place - 1].operand);
  fflush(stdout);
  return GOES_ON;
}

static enum next op_number(struct process *process, NO_OPERAND) {
  printf("%ld\n", pop(process));
  fflush(stdout);
  return GOES_ON;
}

enum operand { NONE, NUMBER, VARIABLE, LABEL, TEXT };

static const struct {
  const char *name;
  operation run;
  enum operand operand;
} OPERATIONS[] = {{"push", op_push, NUMBER}, {"copy", op_copy, NONE}, {"load", op_load, VARIABLE},
    {"store", op_store, VARIABLE}, {"add", op_add, NONE}, {"multiply", op_multiply, NONE},
    {"jump", op_jump, LABEL}, {"unless", op_unless, LABEL}, {"say", op_say, TEXT},
    {"number", op_number, NONE}, {"spawn", op_spawn, LABEL}, {"yield", op_yield, NONE},
    {"sleep", op_sleep, NUMBER}, {"join", op_join, NONE}, {"rest", op_rest, NONE},
    {"kill", op_kill, NONE}, {"suspend", op_suspend, NONE}, {"end", op_end, NONE},
    {"stop", op_stop, NONE}, {"exit", op_exit, NUMBER}, {"read", op_read, NONE},
    {"nap", op_nap, NUMBER}, {"call-back", op_call_back, NUMBER}, {"be-woken", op_be_woken, NONE},
    {"ready", op_ready, NONE}};

/* Reads a line: [label:] [operation [operand]] [# remark]. Returns 0 if it has no operation. */
static int read_line(char *line, struct instruction *to, enum operand *operand) {
  char *end = strpbrk(line, "#\n");
  char *colon, *name;
  size_t i;
  if (end != NULL) *end = '\0';
  colon = strchr(line, ':');
  if (colon != NULL) {
    *colon = '\0';
    snprintf(to->label, LINE_SIZE, "%s", line);
    line = colon + 1;
  }
  name = strtok(line, " ");
  if (name == NULL) return 0;
  line = strtok(NULL, " ");
  snprintf(to->operand, LINE_SIZE, "%s", line == NULL ? "" : line);
  for (i = 0; i < sizeof OPERATIONS / sizeof OPERATIONS[0]; i++) {
    if (strcmp(OPERATIONS[i].name, name) != 0) continue;
    to->run = OPERATIONS[i].run;
    *operand = OPERATIONS[i].operand;
    if (*operand != NONE && line == NULL) fail("an operand expected after", name);
    return 1;
  }
  fail("not an operation", name);
  return 0;
}

static long place_of(const struct machine *machine, const char *label) {
  long place;
  for (place = 0; place < machine->length; place++)
    if (strcmp(machine->program[place].label, label) == 0) return place;
  fail("no such label", label);
  return 0;
}

static void load(struct machine *machine, const char *path) {
  enum operand operands[MOST_INSTRUCTIONS] = {NONE};
  char line[LINE_SIZE];
  long i;
  FILE *file = fopen(path, "r");
  if (file == NULL) fail(path, strerror(errno));
  while (fgets(line, sizeof line, file) != NULL) {
    if (machine->length == MOST_INSTRUCTIONS) fail(path, "it has too many instructions");
    machine->length +=
        read_line(line, &machine->program[machine->length], &operands[machine->length]);
  }
  fclose(file);
  for (i = 0; i < machine->length; i++) {
    struct instruction *at = &machine->program[i];
    if (operands[i] == NUMBER) at->argument = strtol(at->operand, NULL, 10);
    if (operands[i] == VARIABLE) {
      if (at->operand[0] < 'a' || at->operand[0] > 'z') fail("not a variable", at->operand);
      at->argument = at->operand[0] - 'a';
    }
    if (operands[i] == LABEL) at->argument = place_of(machine, at->operand);
  }
}

/* }====================================================== */

int main(int argc, char **argv) {
  static struct machine machine = {.steps = 1, .steps_left = 1, .stretch = 1};
  const char *seed = getenv("SEED"), *stretch = getenv("STRETCH");
  struct baton_spawn_options options;
  char message[BATON_MESSAGE];
  int result;
  if (argc != 2) fail("usage", "guest PROGRAM");
  if (stretch != NULL) machine.stretch = strtol(stretch, NULL, 10);
  load(&machine, argv[1]);
  result = baton_vm_new(&TABLE, &machine, &machine.vm);
  if (result == 0 && seed != NULL)
    result = baton_vm_simulate(machine.vm, strtoull(seed, NULL, 10));
  if (result != 0) fail("no VM", strerror(-result));
  options = options_of(new_process(&machine, 0), 0);
  if (baton_spawn_first(machine.vm, &options, message, sizeof message) == 0)
    fail("no first process", message);
  result = baton_vm_run(machine.vm); /* until `stop` */
  if (result != 0) fail("the VM does not run", strerror(-result));
  /* Baton: -EBUSY says that a foreign call is still out. The end of the program ends it. */
  if (baton_vm_free(machine.vm) != 0) return 0;
  while (machine.processes != NULL) free_process(machine.processes); /* they never continue */
  return 0;
}
