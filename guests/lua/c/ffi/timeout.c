/*
** Calls with a timeout: ffi.timeout(fn, seconds).
**
** Nothing can stop a C function from outside. So a helper (helper_threads.c) makes the call on a
** stack of its own. The process waits for it as for any object, so the wait can time out or be
** killed. Then the process continues, and the call is *abandoned*: its thread and its arguments
** stay in use until the function returns. The next call with a timeout frees the abandoned calls
** that have returned.
*/
#include "ffi/inside.h"

#include <errno.h>

struct job {
  struct ffi_task task;      /* must be first: the helper casts it back */
  struct job *next;          /* in `returned`, guarded by its mutex */
  pthread_mutex_t mutex;
  int is_done, is_abandoned; /* `mutex` guards these and the next */
  int errno_of_call;         /* set before the call, read after it */
  const struct ffi_prepared *prepared;
  void (*address)(void);
  void **arguments;
  void *result;
  const void *executor;
  uint64_t queue; /* where its process waits */
};

/* Abandoned calls that have returned. */
static struct {
  pthread_mutex_t mutex;
  struct job *first;
} returned = {PTHREAD_MUTEX_INITIALIZER, NULL};

int baton_ffi_is_calling(const struct baton_vm *vm) {
  return vm->ffi != NULL && baton_ffi_timed_calls(vm->ffi) > 0;
}

int baton_ffi_threads(const struct baton_vm *vm) {
  return vm->ffi != NULL ? baton_ffi_idle_helpers(vm->ffi) : 0;
}

/* In a fork's child. */
void baton_ffi_forget_timed_calls(struct baton_vm *vm) {
  pthread_mutex_init(&returned.mutex, NULL);
  if (vm->ffi != NULL) baton_ffi_forget_helpers(vm->ffi);
}

/* {======================================================
** On the helper's thread
** ======================================================= */

static void keep_returned(struct job *job) {
  pthread_mutex_lock(&returned.mutex);
  job->next = returned.first;
  returned.first = job;
  pthread_mutex_unlock(&returned.mutex);
}

/*
** No wake-up is lost. The process reads `is_done` inside the VM, and begins to wait without leaving
** it. A post is processed only inside the VM, so after the wait has begun.
*/
static void do_job(struct ffi_task *task) {
  struct job *job = (struct job *)(void *)task;
  int is_abandoned;
  errno = job->errno_of_call;
  baton_ffi_call_prepared(job->prepared, job->address, job->arguments, job->result);
  pthread_mutex_lock(&job->mutex);
  job->errno_of_call = errno;
  job->is_done = 1;
  is_abandoned = job->is_abandoned;
  if (!is_abandoned) baton_wake_from_outside(job->executor, 0, job->queue);
  /* from here on the process owns the job, unless it is abandoned */
  pthread_mutex_unlock(&job->mutex);
  if (is_abandoned) keep_returned(job);
}

/* }====================================================== */

/* {======================================================
** In the process
** ======================================================= */

/* Releases the arguments of the job. */
static void unpin(lua_State *L, struct job *job) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, job);
}

static void free_job(struct job *job) {
  pthread_mutex_destroy(&job->mutex);
  free(job);
}

static void free_returned(lua_State *L) {
  struct job *job;
  pthread_mutex_lock(&returned.mutex);
  job = returned.first;
  returned.first = NULL;
  pthread_mutex_unlock(&returned.mutex);
  while (job != NULL) {
    struct job *next = job->next;
    unpin(L, job);
    free_job(job);
    job = next;
  }
}

/* Keeps the function, its library and everything on the stack alive as long as the job. The
   arguments and the result are on the stack. */
static void pin_stack(lua_State *L, struct job *job) {
  int i, top;
  luaL_checkstack(L, 4, "call with a timeout");
  baton_enter(L);
  setobj2s(L, L->top.p, s2v(L->ci->func.p));
  api_incr_top(L);
  baton_leave(L);
  top = lua_gettop(L);
  lua_createtable(L, top, 0);
  for (i = 1; i <= top; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, job);
  lua_pop(L, 1);
}

/* Waits until the job is done, or abandons it. Returns why the wait ended: BATON_DONE if it is
   done. */
static struct baton_wake await_job(
    lua_State *L, struct ffi_vm *vm, struct job *job, baton_timeout timeout) {
  struct baton_wake wake = {BATON_DONE, 0, 0};
  int is_done;
  baton_enter(L);
  pthread_mutex_lock(&job->mutex);
  is_done = job->is_done;
  pthread_mutex_unlock(&job->mutex);
  vm->awaiting++;
  if (!is_done) wake = baton_queue_wait(job->executor, job->queue, timeout);
  vm->awaiting--;
  pthread_mutex_lock(&job->mutex);
  if (job->is_done)
    wake.reason = BATON_DONE;
  else
    job->is_abandoned = 1;
  pthread_mutex_unlock(&job->mutex);
  baton_free(job->executor, BATON_QUEUE, job->queue);
  baton_leave(L);
  return wake;
}

static struct job *new_job(lua_State *L, struct baton_process *process,
    const struct ffi_function *function, const struct ffi_prepared *prepared, void **arguments,
    void *result) {
  struct job *job;
  baton_lua_check_memory(L);
  job = calloc(1, sizeof *job);
  if (job == NULL) luaL_error(L, "not enough memory");
  pthread_mutex_init(&job->mutex, NULL);
  job->task.run = do_job;
  job->prepared = prepared;
  job->address = function->address;
  job->arguments = arguments;
  job->result = result;
  job->errno_of_call = process->ffi_errno;
  job->executor = process->vm->executor;
  baton_enter(L);
  job->queue = baton_queue_new(job->executor);
  baton_leave(L);
  return job;
}

int baton_ffi_may_time(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  return process != NULL && !baton_simulated && !process->vm->closing &&
      process->foreign_states == 0 && process->criticals == 0;
}

/* What remains of a timeout that began at `began`; at least 1 ns. */
static baton_timeout rest_of(baton_timeout timeout, uint64_t began) {
  uint64_t gone = baton_now() - began;
  if (timeout == BATON_FOREVER) return timeout;
  return (uint64_t)timeout > gone ? timeout - (baton_timeout)gone : 1;
}

/* Frees a job that no helper works on. */
static void discard(lua_State *L, struct job *job) {
  unpin(L, job);
  free_job(job);
}

/* Waits for a helper and gives it the job. Raises an error if none is free in time, or the pending
   kill or interrupt. */
static void begin_job(lua_State *L, struct baton_process *process,
    const struct ffi_function *function, struct job *job) {
  struct baton_wake wake = baton_ffi_await_helper(L, function->vm, function->timeout);
  int is_had = wake.reason == BATON_DONE, is_killed = baton_lua_kill_is_due(process);
  if (is_had && !is_killed && baton_ffi_give_to_helper(L, function->vm, &job->task)) return;
  baton_enter(L);
  baton_free(job->executor, BATON_QUEUE, job->queue);
  baton_leave(L);
  discard(L, job);
  if (is_had) baton_ffi_release_helper(function->vm);
  baton_lua_after_wait(L, process, wake);
  if (is_had) luaL_error(L, "no thread for '%s': the system refuses another one", function->name);
  luaL_error(L,
      "'%s' timed out while it waited for a thread: %d calls with a timeout are going on, "
      "abandoned ones included (process.params.max_threads)",
      function->name, baton_ffi_timed_calls(function->vm));
}

void baton_ffi_call_timed(lua_State *L, struct ffi_function *function,
    const struct ffi_prepared *prepared, void **arguments, void *result) {
  struct baton_process *process = baton_lua_here(L);
  uint64_t began = baton_now();
  struct baton_wake wake;
  struct job *job;
  free_returned(L);
  baton_ffi_prepare_helpers(L, function->vm);
  job = new_job(L, process, function, prepared, arguments, result);
  pin_stack(L, job);
  begin_job(L, process, function, job);
  wake = await_job(L, function->vm, job, rest_of(function->timeout, began));
  if (wake.reason == BATON_DONE) {
    process->ffi_errno = job->errno_of_call;
    discard(L, job);
    baton_lua_after_wait(L, process, wake); /* a kill may have come at the same time */
    return;
  }
  baton_lua_after_wait(L, process, wake);
  luaL_error(L, "'%s' timed out", function->name);
}

/* }====================================================== */

/* ffi.timeout(fn, seconds | nil) -> fn; math.huge: only a kill ends the wait */
int baton_ffi_timeout(lua_State *L) {
  struct ffi_function *function = baton_ffi_test_function(L, 1);
  if (function == NULL) return luaL_typeerror(L, 1, "function of C");
  baton_lua_caller(L);
  function->timeout = baton_lua_check_timeout(L, 2);
  luaL_argcheck(L, function->timeout != 0, 2, "a positive number of seconds expected");
  function->is_timed = !lua_isnoneornil(L, 2);
  function->is_quick = !function->is_timed && function->prepared->kind != BATON_FFI_BY_LIBFFI;
  lua_settop(L, 1);
  return 1;
}
