/*
** Simulated runs (baton --simulate): the parts of the guest that would differ from run to run.
**
** The runtime decides which process runs, and when (runtime/core/src/vm/ext/simulation.rs). It
** counts time in steps, and a step is an instruction of Lua's machine. This file has what else a
** program can see: the date, the processor time, and the seeds of hashes and of math.random.
**
** In a simulated run, each foreign call blocks the VM. No call of the ffi is offloaded or
** abandoned. Waiting for a descriptor is refused, since it would become ready at an unknown time.
** The network is one in memory (loopback/).
*/
#include "seam/internals.h"
#include "system.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

int baton_simulated;

static uint64_t run_seed;
static pid_t simulated_program;
static uint64_t steps_made; /* by all VMs, each up to its last safepoint. One VM runs at a time */
static void (*after_failure)(int status);

#define STEPS_PER_SECOND 1000000 /* as the runtime counts them */
#define FIRST_DATE 1000000000 /* seconds of the epoch: in September 2001 */
#define YEAR (365 * 24 * 3600)

/* Differs with each seed, as programs seed math.random with it. */
static time_t date(void) {
  return (time_t)(FIRST_DATE + run_seed % YEAR + baton_now() / 1000000000u);
}

/* {======================================================
** Beginning and end
** ======================================================= */

static void report_failure_of_run(int status, void *unused) {
  (void)unused;
  status &= 0xff; /* as the parent sees it */
  if (status == 0 || getpid() != simulated_program) return;
  fprintf(stderr, "baton: the simulated run failed (status %d); --simulate %llu repeats it\n",
      status, (unsigned long long)run_seed);
  if (after_failure == NULL) return;
  fflush(NULL);
  after_failure(status);
}

BATON_CALLED_AT_END(report_failure_of_run)

#if !defined(__linux__)
int baton_end_status = EXIT_FAILURE;
#endif

/* Fixes the buffers of stdin and stdout. Otherwise their sizes depend on what the streams lead to,
   and so do the addresses of Lua's objects. */
static void fix_buffers(void) {
  static char input[BUFSIZ], output[BUFSIZ];
  setvbuf(stdin, input, _IOFBF, sizeof input);
  setvbuf(stdout, output, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof output);
}

void baton_lua_simulate(uint64_t seed, void (*failed)(int status)) {
  fix_buffers();
#if defined(__GLIBC__)
  mallopt(M_ARENA_MAX, 1); /* one heap for the threads of all VMs, of which one runs at a time */
#endif
  after_failure = failed;
  baton_simulated = 1;
  run_seed = seed;
  simulated_program = getpid();
  register_report_failure_of_run();
}

/* }====================================================== */

/* {======================================================
** Steps
** ======================================================= */

int baton_lua_count_step(struct baton_lua_vm *vm) {
  int is_due;
  if (vm->steps_left > 1) {
    vm->steps_left--;
    return 0;
  }
  vm->steps_since += vm->steps;
  is_due = baton_count_steps(vm->executor, vm->steps, &vm->steps);
  vm->steps_left = vm->steps;
  if (!is_due) return 0;
  steps_made += vm->steps_since;
  vm->steps_since = 0;
  return 1;
}

/* }====================================================== */

/* {======================================================
** Seeds
** ======================================================= */

static uint64_t mix(uint64_t number) {
  number = (number ^ (number >> 32)) * 0xD6E8FEB86659FD93u;
  return number ^ (number >> 32);
}

/* The seed for hashes of strings. It differs from run to run, like addresses, and with it the order
   of `pairs`. A simulated run fixes it. */
unsigned baton_lua_hash_seed(const void *heap) {
  if (baton_simulated) return (unsigned)mix(run_seed + 1);
  return (unsigned)mix(
      (uint64_t)(uintptr_t)heap ^ mix((uint64_t)(uintptr_t)&run_seed) ^ mix(baton_now()));
}

/* Called when the library math is open. Each VM draws other numbers; the first one has the number
   0. */
void baton_lua_seed_random(lua_State *L, uint64_t number) {
  if (!baton_simulated) return;
  lua_getglobal(L, "math");
  lua_getfield(L, -1, "randomseed");
  lua_pushinteger(L, (lua_Integer)(number == 0 ? run_seed : mix(run_seed + mix(number))));
  lua_call(L, 1, 0);
  lua_pop(L, 1);
}

uint64_t baton_lua_simulated_seed(void) { return mix(run_seed + mix(2)); }

/* }====================================================== */

/* {======================================================
** Dates, for Lua's library and LuaSocket
** ======================================================= */

/* loslib.c calls these by the names of the C library's functions. Those names stay the C library's:
   a program that is linked with ours would call ours. */
time_t baton_lua_time(time_t *result);
clock_t baton_lua_clock(void);

time_t baton_lua_time(time_t *result) {
  const time_t now = baton_simulated ? date() : time(NULL);
  if (result != NULL) *result = now;
  return now;
}

clock_t baton_lua_clock(void) {
  if (!baton_simulated) return clock();
  return (clock_t)(steps_made * (CLOCKS_PER_SEC / STEPS_PER_SECOND));
}

lua_Number baton_lua_simulated_date(void) {
  return (lua_Number)date() + (lua_Number)(baton_now() % 1000000000u) * 1e-9;
}

/* }====================================================== */
