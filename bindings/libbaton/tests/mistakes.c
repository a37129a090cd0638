/* A guest with mistakes in its memory, which AddressSanitizer and memcheck find on the stacks of
   processes, and in programs that have switched stacks. The argument chooses the mistake. */
#include "baton.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The compiler must neither see nor drop the mistakes. */
static volatile size_t past_the_end = 8;
static volatile int sink;
static void *unknown(void *pointer) {
  __asm__ volatile("" : "+r"(pointer));
  return pointer;
}

static void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "expected: %s\n", what);
  exit(1);
}

static void none(void) {
  char *block = (char *)calloc(1, past_the_end);
  expect(block != NULL, "memory");
  block[past_the_end - 1] = 1;
  sink = block[0];
  free(block);
}

/* Writes one byte behind a block. */
static void write_behind_block(void) {
  char *block = (char *)calloc(1, past_the_end);
  expect(block != NULL, "memory");
  block[past_the_end] = 1;
  sink = block[0];
  free(block);
}

/* Writes one byte behind an array on the process's stack. */
static void write_behind_array(void) {
  volatile char array[8] = {0};
  array[past_the_end] = 1;
  sink = array[0];
}

static void use_after_free(void) {
  char *block = (char *)calloc(1, past_the_end);
  expect(block != NULL, "memory");
  free(unknown(block));
  sink = ((volatile char *)block)[0];
}

/* Looks at a variable on the process's stack that nobody has set. */
static void use_unset(void) {
  int array[4];
  volatile int *unset = (volatile int *)unknown(array);
  if (unset[1] == 12345) sink = 1;
}

/* Loses blocks. A value that is left in a register may hide one of them. */
static void lose_blocks(void) {
  int i;
  for (i = 0; i < 100; i++) {
    char *block = (char *)unknown(malloc(1000));
    expect(block != NULL, "memory");
    block[0] = 1;
  }
}

static const struct {
  const char *name;
  void (*make)(void);
} CASES[] = {{"none", none}, {"write_behind_block", write_behind_block},
    {"write_behind_array", write_behind_array}, {"use_after_free", use_after_free},
    {"use_unset", use_unset}, {"lose_blocks", lose_blocks}};

/* Switches to and fro, makes the mistake in the second of three processes, and goes on. */
static void run(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data) {
  static int ended;
  int i;
  (void)process;
  for (i = 0; i < 3; i++) baton_yield(vm);
  if (user_data == 1) CASES[*(size_t *)guest].make();
  for (i = 0; i < 3; i++) baton_yield(vm);
  if (++ended == 3) baton_stop(vm);
}

static void preempt(void *guest) { (void)guest; }

int main(int argc, char **argv) {
  static const struct baton_guest table = {.size = sizeof table, .run = run, .preempt = preempt};
  struct baton_spawn_options options;
  char message[BATON_MESSAGE];
  size_t chosen = 0;
  baton_vm *vm = NULL;
  uintptr_t i;
  while (argc == 2 && chosen < sizeof CASES / sizeof CASES[0] &&
         strcmp(CASES[chosen].name, argv[1]) != 0)
    chosen++;
  expect(argc == 2 && chosen < sizeof CASES / sizeof CASES[0], "the name of a case");
  expect(baton_vm_new(&table, &chosen, &vm) == 0, "a VM");
  for (i = 0; i < 3; i++) {
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.user_data = i;
    expect(baton_spawn_first(vm, &options, message, sizeof message) != 0, "a process");
  }
  expect(baton_vm_run(vm) == 0, "the end");
  /* Other threads of the VM end by themselves. */
  for (i = 0; i < 5000 && baton_vm_free(vm) == -EBUSY; i++) usleep(1000);
  expect(i < 5000, "a VM that is freed");
  puts("done");
  return 0;
}
