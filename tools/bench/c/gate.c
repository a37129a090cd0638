/* Leaves the VM and enters it again, in a loop: `gate PAIRS`. Prints the nanoseconds of CPU of one
   pair. It is compiled with each of the installed libraries, with inlined functions and with
   BATON_NO_INLINE. */
#include <baton.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void repeat(const baton_vm *vm, long pairs) {
  for (long i = 0; i < pairs; i++) {
    baton_leave(vm);
    baton_enter(vm);
  }
}

static void run(void *guest, baton_vm *vm, uint64_t process, uintptr_t pairs) {
  double start;
  (void)guest;
  (void)process;
  repeat(vm, 1000);
  start = now();
  repeat(vm, (long)pairs);
  printf("ns %.4f\n", (now() - start) / (double)pairs);
  baton_stop(vm);
}

static void preempt(void *guest) { (void)guest; }

int main(int argc, char **argv) {
  static const struct baton_guest table = {.size = sizeof table, .run = run, .preempt = preempt};
  struct baton_spawn_options options;
  char message[BATON_MESSAGE];
  baton_vm *vm = NULL;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
  if (options.user_data == 0 || baton_vm_new(&table, NULL, &vm) != 0) return 2;
  if (baton_spawn_first(vm, &options, message, sizeof message) == 0) return 2;
  return baton_vm_run(vm);
}
