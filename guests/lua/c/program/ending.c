/*
** The end of the program. The remaining processes are killed. Their `<close>` methods get a bounded
** time. A call that does not return is abandoned: its thread never touches Lua's state again. What
** the call holds (a file, the lock of a stream, a child) stays as it is.
*/
#include "seam/internals.h"
#include "program/program.h"
#include "ffi/ffi.h"
#include "process/process.h"
#include "state/state.h"
#include "system.h"

#include <pthread.h>
#include <stdio.h>
#if defined(__GLIBC__)
#include <stdio_ext.h>
#endif
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* {======================================================
** Killing the remaining processes
** ======================================================= */

/* Nanoseconds for killed processes that run: they unwind and run their closing methods. */
#define CLOSING_BOUND 2000000000u
/* Nanoseconds since the last process ended, for those in a call and those that cannot continue. */
#define CALL_BOUND 20000000u

/* Whether the killed process runs, and so ends soon. If not, it waits for a call that may last. */
static int runs(const struct baton_lua_vm *vm, const struct baton_process *process) {
  int state;
  if (process->awaits_command && process->holds == 1) return 0; /* with more it is in a `<close>` */
  if (process->holds > 0) return 1;
  if (process->retaken || process->pinned) return 0;
  state = baton_state(vm->executor, process->sched_id);
  return state == BATON_STATE_RUNNABLE || state == BATON_STATE_RUNNING;
}

/* Asks the scheduler, too, as the main process's record stays alive. Inside the VM. */
static int is_dead(const struct baton_lua_vm *vm, const struct baton_process *process) {
  return process->outcome != BATON_ALIVE ||
      baton_state(vm->executor, process->sched_id) == BATON_STATE_DEAD;
}

/* Waits until the process has ended, or its time is over. `progress` is the time when the last
   process ended. */
static void await_process(lua_State *L, struct baton_lua_vm *vm,
    const struct baton_process *process,
    uint64_t until, uint64_t *progress) {
  int was_alive;
  baton_lua_enter(L);
  was_alive = !is_dead(vm, process);
  while (!is_dead(vm, process)) {
    const uint64_t now = baton_now(), bound = runs(vm, process) ? until : *progress + CALL_BOUND;
    uint64_t span;
    if (now >= bound || now >= until) break;
    span = bound - now;
    baton_join(
        vm->executor, process->sched_id, (baton_timeout)(span < CALL_BOUND ? span : CALL_BOUND));
  }
  if (was_alive && is_dead(vm, process)) *progress = baton_now();
  baton_lua_leave(L);
}

/* kill_others(processes) */
static int kill_others(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_lua_vm *vm = caller->vm;
  const lua_Integer count = (lua_Integer)lua_rawlen(L, 1);
  uint64_t start, progress;
  lua_Integer i;
  int pass;
  vm->ending = 1;
  for (i = 1; i <= count; i++) {
    lua_rawgeti(L, 1, i);
    if (baton_lua_check_process(L, 2) != caller) baton_lua_end_at_last(L, 2);
    lua_settop(L, 1);
  }
  start = progress = baton_now();
  /* a second pass for processes that others have delayed, and no longer delay */
  for (pass = 0; pass < 2; pass++)
    for (i = 1; i <= count; i++) {
      lua_rawgeti(L, 1, i);
      if (baton_lua_check_process(L, 2) != caller)
        await_process(L, vm, baton_lua_check_process(L, 2), start + CLOSING_BOUND, &progress);
      lua_settop(L, 1);
    }
  return 0;
}

int baton_lua_finish(lua_State *L, int wait) {
  struct baton_process *caller = baton_lua_caller(L);
  if (wait) {
    struct baton_wake wake;
    baton_lua_enter(L);
    wake = baton_wait_for_rest(caller->vm->executor, BATON_FOREVER);
    baton_lua_leave(L);
    baton_lua_after_wait(L, caller, wake);
    return caller->vm->failures > 0;
  }
  baton_ffi_close_callback_queue(caller->vm);
  lua_pushcfunction(L, kill_others);
  lua_pushcfunction(L, baton_lua_list);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK || lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
  return caller->vm->failures > 0;
}

/* }====================================================== */

/* {======================================================
** Exit
** ======================================================= */

/* The VM of the program. Set once. */
static const struct baton_lua_vm *program;

void baton_lua_end_with(const struct baton_lua_vm *vm) { program = vm; }

#if defined(__GLIBC__)
/* glibc's own list of all files. It exports these functions, and declares them nowhere. */
void _IO_list_lock(void);
void _IO_list_unlock(void);
void *_IO_iter_begin(void);
void *_IO_iter_end(void);
void *_IO_iter_next(void *iterator);
FILE *_IO_iter_file(void *iterator);

/* Flushes all files, however long that takes, but for those in use by a call: that may never
   return. */
static void flush_all(void) {
  void *i;
  _IO_list_lock(); /* no file is closed meanwhile */
  for (i = _IO_iter_begin(); i != _IO_iter_end(); i = _IO_iter_next(i)) {
    FILE *file = _IO_iter_file(i);
    if (ftrylockfile(file) != 0) continue;
    if (__fpending(file) > 0) fflush_unlocked(file);
    funlockfile(file);
  }
  _IO_list_unlock();
}
#else
#define FLUSH_BOUND 10000000 /* nanoseconds for other files than the standard ones */

static pthread_mutex_t flushing = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flushed = PTHREAD_COND_INITIALIZER;
static int is_flushed; /* the mutex guards it */

static void *flush(void *unused) {
  fflush(NULL);
  pthread_mutex_lock(&flushing);
  is_flushed = 1;
  pthread_cond_signal(&flushed);
  pthread_mutex_unlock(&flushing);
  return unused;
}

/* Flushes all files, with a time limit: an abandoned thread may have one in use for ever, and this
   system does not tell which. */
static void flush_all(void) {
  struct timespec until;
  pthread_t thread;
  /* otherwise another thread is in the middle of writing, perhaps for ever */
  if (ftrylockfile(stderr) == 0) {
    fflush(stderr);
    funlockfile(stderr);
  }
  if (pthread_create(&thread, NULL, flush, NULL) != 0) return;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += FLUSH_BOUND;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&flushing);
  while (!is_flushed && pthread_cond_timedwait(&flushed, &flushing, &until) == 0) {
  }
  pthread_mutex_unlock(&flushing);
}
#endif

/*
** The last function that exit() calls before the C library's own end. That end takes the locks of
** all streams, or ignores them and writes twice what another thread is about to write. So if calls
** are still out, this function ends the program itself. Output to the standard streams is not lost:
** it is flushed here.
*/
static void leave(int status, void *unused) {
  (void)unused;
  if (program == NULL || getpid() != program->pid ||
      !(baton_lua_calls_are_out() || baton_ffi_is_calling(program)))
    return;
  fflush(stdout);
  flush_all();
  _exit(status);
}

BATON_CALLED_AT_END(leave)

/* Registered first, so called last. */
__attribute__((constructor)) static void end_last(void) { register_leave(); }

/* }====================================================== */
