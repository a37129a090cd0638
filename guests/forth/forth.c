/*
** A small Forth on Baton's runtime, written from the porting guide and the header alone.
**
**   ./forth PROGRAM
**
** README.md lists its words. It asks baton_wants_safepoint where the template arms a poll.
*/
#include <baton.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_CELLS 10000
#define MOST_WORDS 500
#define DEPTH 64
#define NAME_SIZE 32
#define MILLISECOND 1000000u
#define INTERPRETER (-1)

typedef long cell;
struct process;
typedef void (*primitive)(struct process *process);

struct word {
  char name[NAME_SIZE];
  primitive run; /* NULL: a definition */
  cell body;     /* the cell that it begins with */
  int is_immediate;
  int is_variable; /* its cell is `body` */
};

/* What all processes share. */
static struct {
  baton_vm *vm;
  struct word words[MOST_WORDS];
  cell word_count;
  cell memory[MEMORY_CELLS];
  cell here; /* the first free cell */
  char *source;
  int is_compiling;
  cell stretch; /* a sleep's length is multiplied by it */
  uint32_t steps, steps_left; /* until the next baton_count_steps: how many, and what is left */
} forth = {.stretch = 1, .steps = 1, .steps_left = 1};

/* What each process has of its own. */
struct process {
  uint64_t id;
  cell data[DEPTH], returns[DEPTH];
  int data_depth, return_depth;
  cell next; /* the cell of the next word */
  int is_over;
  cell begins_with; /* the word to execute, or INTERPRETER */
};

/* {======================================================
** Stacks, memory, words
** ======================================================= */

static void fail(const char *what, const char *detail) {
  fprintf(stderr, "forth: %s: %s\n", what, detail);
  exit(2);
}

static void push(struct process *process, cell value) {
  if (process->data_depth == DEPTH) fail("stack", "it is full");
  process->data[process->data_depth++] = value;
}

static cell pop(struct process *process) {
  if (process->data_depth == 0) fail("stack", "it is empty");
  return process->data[--process->data_depth];
}

static void compile(cell value) {
  if (forth.here == MEMORY_CELLS) fail("memory", "it is full");
  forth.memory[forth.here++] = value;
}

static cell *at(cell address) {
  if (address < 0 || address >= MEMORY_CELLS) fail("memory", "no such address");
  return &forth.memory[address];
}

static cell find(const char *name) {
  cell word;
  for (word = forth.word_count - 1; word >= 0; word--)
    if (strcmp(forth.words[word].name, name) == 0) return word;
  return -1;
}

static cell known(const char *name) {
  cell word = find(name);
  if (word < 0) fail("unknown word", name);
  return word;
}

static void new_word(const char *name, primitive run, int is_immediate) {
  struct word *word = &forth.words[forth.word_count++];
  if (forth.word_count == MOST_WORDS) fail("dictionary", "it is full");
  snprintf(word->name, NAME_SIZE, "%s", name);
  word->run = run;
  word->body = forth.here;
  word->is_immediate = is_immediate;
}

/* Takes the next name of the source. Returns 0 at its end. */
static int next_name(char *name, size_t size) {
  size_t length;
  forth.source += strspn(forth.source, " \n");
  length = strcspn(forth.source, " \n");
  if (length == 0) return 0;
  if (length >= size) fail("a name is too long", forth.source);
  memcpy(name, forth.source, length);
  name[length] = '\0';
  forth.source += length;
  return 1;
}

static void expect_name(char *name) {
  if (!next_name(name, NAME_SIZE)) fail("a name expected", "the source has ended");
}

/* }====================================================== */

/* {======================================================
** Processes
** ======================================================= */

/* After each call of the runtime that lets others run. */
static void look(struct process *process) {
  if (baton_kill_is_due(forth.vm, process->id)) process->is_over = 1;
}

static void poll(struct process *process) {
  int is_due = baton_wants_safepoint(forth.vm);
  if (--forth.steps_left == 0) { /* of a simulated run */
    is_due |= baton_count_steps(forth.vm, forth.steps, &forth.steps);
    forth.steps_left = forth.steps;
  }
  if (!is_due) return;
  baton_safepoint(forth.vm);
  look(process);
}

/* Enters a definition, or runs a primitive. */
static void begin(struct process *process, cell word) {
  if (forth.words[word].run != NULL) {
    forth.words[word].run(process);
    return;
  }
  if (forth.words[word].is_variable) { /* no poll: `n @ 1 + n !` is not interrupted */
    push(process, forth.words[word].body);
    return;
  }
  if (process->return_depth == DEPTH) fail("return stack", "it is full");
  process->returns[process->return_depth++] = process->next;
  process->next = forth.words[word].body;
  poll(process); /* a recursion passes here */
}

/* Runs a word to its end, or the process to its end. */
static void execute(struct process *process, cell word) {
  int outer = process->return_depth;
  begin(process, word);
  while (!process->is_over && process->return_depth > outer)
    begin(process, *at(process->next++));
}

static void interpret(struct process *process);

static void run(void *guest, baton_vm *vm, uint64_t id, uintptr_t user_data) {
  struct process *process = (struct process *)user_data;
  (void)guest;
  process->id = id;
  look(process); /* it may have been killed before it began */
  if (process->begins_with == INTERPRETER) {
    interpret(process);
    baton_stop(vm);
  } else if (!process->is_over) {
    execute(process, process->begins_with);
  }
  baton_end(vm);
  free(process);
}

static void preempt(void *guest) { (void)guest; }

static struct process *new_process(cell word) {
  struct process *process = (struct process *)calloc(1, sizeof *process);
  if (process == NULL) fail("process", "no memory");
  process->begins_with = word;
  return process;
}

static struct baton_spawn_options options_of(struct process *process, cell priority) {
  struct baton_spawn_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)process;
  options.priority = (int)priority;
  options.preemptible = 1;
  return options;
}

static void w_spawn(struct process *process) { /* ( word priority -- id ) */
  cell priority = pop(process);
  struct process *made = new_process(pop(process));
  struct baton_spawn_options options = options_of(made, priority);
  char message[BATON_MESSAGE];
  uint64_t id = baton_spawn(forth.vm, &options, message, sizeof message);
  if (id == 0) fail("spawn", message);
  push(process, (cell)id);
  look(process);
}

static void w_yield(struct process *process) {
  baton_yield(forth.vm);
  look(process);
}

static void w_ms(struct process *process) { /* ( milliseconds -- ) */
  uint64_t milliseconds = (uint64_t)(pop(process) * forth.stretch);
  baton_sleep_until(forth.vm, baton_now() + milliseconds * MILLISECOND);
  look(process);
}

static void w_join(struct process *process) { /* ( id -- ) */
  baton_join(forth.vm, (uint64_t)pop(process), BATON_FOREVER);
  look(process);
}

static void w_rest(struct process *process) {
  baton_wait_for_rest(forth.vm, BATON_FOREVER);
  look(process);
}

static void w_kill(struct process *process) { /* ( id -- ) */
  baton_kill(forth.vm, (uint64_t)pop(process));
  look(process);
}

static void w_suspend(struct process *process) {
  baton_suspend(forth.vm, process->id);
  look(process);
}

static void w_bye(struct process *process) {
  (void)process;
  exit(0);
}

/* }====================================================== */

/* {======================================================
** Foreign calls
** ======================================================= */

static void nap(cell microseconds) {
  struct timespec time = {0, microseconds * 1000};
  nanosleep(&time, NULL);
}

static void w_key(struct process *process) { /* ( -- byte ) */
  char byte;
  ssize_t size;
  baton_leave(forth.vm);
  size = read(0, &byte, 1);
  baton_enter(forth.vm);
  push(process, size == 1 ? byte : -1);
  look(process);
}

static void w_nap(struct process *process) { /* ( microseconds -- ) */
  cell microseconds = pop(process);
  baton_leave(forth.vm);
  nap(microseconds);
  baton_enter(forth.vm);
  look(process);
}

struct visitor {
  struct process *process;
  cell word;
};

static void visit(const struct visitor *visitor, cell number) {
  baton_enter(forth.vm);
  push(visitor->process, number);
  execute(visitor->process, visitor->word);
  baton_leave(forth.vm);
}

static void count_to(cell last, const struct visitor *visitor) {
  cell number;
  for (number = 1; number <= last; number++) visit(visitor, number);
}

static void w_call_back(struct process *process) { /* ( count word -- ) */
  struct visitor visitor = {process, pop(process)};
  cell count = pop(process);
  baton_leave(forth.vm);
  count_to(count, &visitor);
  baton_enter(forth.vm);
  look(process);
}

static void *wake_later(void *waker) {
  nap(50000);
  baton_waker_wake((const struct baton_waker *)waker);
  return NULL;
}

static void w_be_woken(struct process *process) {
  uint64_t semaphore = baton_semaphore_new(forth.vm, 0);
  struct baton_waker *waker = baton_waker_signal(forth.vm, semaphore);
  pthread_t thread;
  if (pthread_create(&thread, NULL, wake_later, waker) != 0) fail("thread", "there is none");
  baton_semaphore_wait(forth.vm, semaphore, BATON_FOREVER);
  baton_leave(forth.vm);
  pthread_join(thread, NULL); /* the waker is in use until then */
  baton_enter(forth.vm);
  baton_waker_free(waker);
  baton_free(forth.vm, BATON_SEMAPHORE, semaphore);
  look(process);
}

/* Waits for standard input without a thread. */
static void w_ready(struct process *process) {
  struct baton_watch watch = {0, BATON_WANTS_READ};
  uint64_t harvests = baton_harvests(forth.vm);
  if (baton_await_ready(forth.vm, &watch, 1, 0, harvests, BATON_NO_DEADLINE) < 0)
    fail("ready?", "standard input cannot be waited for");
  look(process);
}

/* }====================================================== */

/* {======================================================
** The language
** ======================================================= */

static void w_literal(struct process *process) { push(process, *at(process->next++)); }

/* All loops go through these two. */
static void w_branch(struct process *process) {
  process->next = *at(process->next);
  poll(process);
}

static void w_branch_unless(struct process *process) {
  if (pop(process) == 0)
    w_branch(process);
  else
    process->next++;
}

static void w_exit(struct process *process) {
  process->next = process->returns[--process->return_depth];
}

static void w_add(struct process *process) { push(process, pop(process) + pop(process)); }
static void w_multiply(struct process *process) { push(process, pop(process) * pop(process)); }

static void w_dup(struct process *process) {
  cell value = pop(process);
  push(process, value);
  push(process, value);
}

static void w_drop(struct process *process) { pop(process); }

static void w_swap(struct process *process) {
  cell upper = pop(process), lower = pop(process);
  push(process, upper);
  push(process, lower);
}

static void w_fetch(struct process *process) { push(process, *at(pop(process))); }

static void w_store(struct process *process) { /* ( value address -- ) */
  cell *address = at(pop(process));
  *address = pop(process);
}

static void w_print(struct process *process) { printf("%ld", pop(process)); }

static void w_cr(struct process *process) {
  (void)process;
  putchar('\n');
  fflush(stdout);
}

static void w_type(struct process *process) { fputs((const char *)*at(process->next++), stdout); }

/* Immediate: ." text" */
static void w_text(struct process *process) {
  const char *begin = forth.source + 1;
  size_t length = strcspn(begin, "\"");
  char *text = strndup(begin, length);
  (void)process;
  if (text == NULL || begin[length] != '"') fail(".\"", "a closing quote expected");
  forth.source += length + 2;
  if (forth.is_compiling) {
    compile(known("(type)"));
    compile((cell)text); /* it lives as long as the program */
  } else {
    fputs(text, stdout);
    free(text);
  }
}

static void w_variable(struct process *process) {
  char name[NAME_SIZE];
  (void)process;
  expect_name(name);
  new_word(name, NULL, 0);
  forth.words[forth.word_count - 1].is_variable = 1;
  compile(0);
}

static void w_colon(struct process *process) {
  char name[NAME_SIZE];
  (void)process;
  expect_name(name);
  new_word(name, NULL, 0);
  forth.is_compiling = 1;
}

static void w_semicolon(struct process *process) {
  (void)process;
  compile(known("exit"));
  forth.is_compiling = 0;
}

/* Pushes the word whose name follows. */
static void w_tick(struct process *process) {
  char name[NAME_SIZE];
  cell word;
  expect_name(name);
  word = known(name);
  if (!forth.is_compiling) {
    push(process, word);
    return;
  }
  compile(known("(literal)"));
  compile(word);
}

static void w_if(struct process *process) {
  compile(known("(unless)"));
  push(process, forth.here);
  compile(0);
}

static void w_then(struct process *process) { *at(pop(process)) = forth.here; }

static void w_begin(struct process *process) { push(process, forth.here); }

static void w_until(struct process *process) {
  compile(known("(unless)"));
  compile(pop(process));
}

static void w_again(struct process *process) {
  compile(known("(branch)"));
  compile(pop(process));
}

static void w_remark(struct process *process) {
  (void)process;
  forth.source += strcspn(forth.source, "\n");
}

static const struct {
  const char *name;
  primitive run;
  int is_immediate;
} PRIMITIVES[] = {{"(literal)", w_literal, 0}, {"(branch)", w_branch, 0},
    {"(unless)", w_branch_unless, 0}, {"(type)", w_type, 0}, {"exit", w_exit, 0}, {"+", w_add, 0},
    {"*", w_multiply, 0}, {"dup", w_dup, 0}, {"drop", w_drop, 0}, {"swap", w_swap, 0},
    {"@", w_fetch, 0}, {"!", w_store, 0}, {".", w_print, 0}, {"cr", w_cr, 0}, {".\"", w_text, 1},
    {"variable", w_variable, 0}, {":", w_colon, 0}, {";", w_semicolon, 1}, {"'", w_tick, 1},
    {"if", w_if, 1}, {"then", w_then, 1}, {"begin", w_begin, 1}, {"until", w_until, 1},
    {"again", w_again, 1}, {"\\", w_remark, 1}, {"spawn", w_spawn, 0}, {"yield", w_yield, 0},
    {"ms", w_ms, 0}, {"join", w_join, 0}, {"rest", w_rest, 0}, {"kill", w_kill, 0},
    {"suspend", w_suspend, 0}, {"bye", w_bye, 0}, {"key", w_key, 0}, {"nap", w_nap, 0},
    {"call-back", w_call_back, 0}, {"be-woken", w_be_woken, 0}, {"ready", w_ready, 0}};

/* Runs or compiles each word of the source. */
static void interpret(struct process *process) {
  char name[NAME_SIZE];
  while (!process->is_over && next_name(name, sizeof name)) {
    char *end;
    cell word = find(name);
    cell number = strtol(name, &end, 10);
    if (word < 0 && *end != '\0') fail("unknown word", name);
    if (word >= 0 && (forth.words[word].is_immediate || !forth.is_compiling)) {
      execute(process, word);
    } else if (word >= 0) {
      compile(word);
    } else if (forth.is_compiling) {
      compile(known("(literal)"));
      compile(number);
    } else {
      push(process, number);
    }
  }
}

/* }====================================================== */

static char *text_of(const char *path) {
  static char text[20000];
  FILE *file = fopen(path, "r");
  if (file == NULL) fail(path, strerror(errno));
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

int main(int argc, char **argv) {
  static const struct baton_guest table = {.size = sizeof table, .run = run, .preempt = preempt};
  struct baton_spawn_options options;
  const char *seed = getenv("SEED"); /* of a simulated run */
  const char *stretch = getenv("STRETCH");
  char message[BATON_MESSAGE];
  size_t i;
  if (argc != 2) fail("usage", "forth PROGRAM");
  for (i = 0; i < sizeof PRIMITIVES / sizeof PRIMITIVES[0]; i++)
    new_word(PRIMITIVES[i].name, PRIMITIVES[i].run, PRIMITIVES[i].is_immediate);
  if (stretch != NULL) forth.stretch = strtol(stretch, NULL, 10);
  forth.source = text_of(argv[1]);
  if (baton_vm_new(&table, NULL, &forth.vm) != 0) fail("start", "there is no VM");
  if (seed != NULL && baton_vm_simulate(forth.vm, strtoull(seed, NULL, 10)) != 0)
    fail("SEED", "the run cannot be simulated");
  options = options_of(new_process(INTERPRETER), 0);
  if (baton_spawn_first(forth.vm, &options, message, sizeof message) == 0) fail("start", message);
  /* A native thread may still be in a call, so the VM is not freed. */
  return baton_vm_run(forth.vm) == 0 ? 0 : 1;
}
