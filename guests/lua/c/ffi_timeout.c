/*
** Calls that may be given up: ffi.timeout(fn, seconds).
**
** Nothing can stop a function of C from outside. So such a call is made on a thread and a stack of its own, while its process waits as for
** anything else, and can be timed out or killed. Then the process goes on, and the call is abandoned: its thread is written off until the
** function returns, and so long all that was passed to it stays in memory. What has returned is swept with the next such call.
*/
#include "ffi.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

struct job {
  struct job *next;          /* of those that have returned too late; guarded by the yard's mutex */
  pthread_mutex_t mutex;
  int is_done, is_abandoned; /* guarded by it, like the next */
  int left_errno;
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
} yard = {PTHREAD_MUTEX_INITIALIZER, NULL};

/* Calls that are going on, abandoned ones included; atomic. */
static int going_on;

int baton_ffi_timed_calls(void) { return __atomic_load_n(&going_on, __ATOMIC_RELAXED); } /* Relaxed: a count */

void baton_ffi_forget_timed_calls(void) {
  pthread_mutex_init(&yard.mutex, NULL);
  __atomic_store_n(&going_on, 0, __ATOMIC_RELAXED); /* Relaxed: there is no other thread */
}

/* {======================================================
** On the helper's thread
** ======================================================= */

static void put_into_yard(struct job *job) {
  pthread_mutex_lock(&yard.mutex);
  job->next = yard.first;
  yard.first = job;
  pthread_mutex_unlock(&yard.mutex);
}

/*
** No wake-up is lost: the process looks at `is_done` inside the VM, and begins to wait without leaving it; the post is taken in only by who is
** inside, so after that.
*/
static void *do_job(void *argument) {
  struct job *job = argument;
  int is_abandoned;
  errno = 0;
  baton_ffi_call_prepared(job->prepared, job->address, job->arguments, job->result);
  pthread_mutex_lock(&job->mutex);
  job->left_errno = errno;
  job->is_done = 1;
  is_abandoned = job->is_abandoned;
  if (!is_abandoned) baton_rs_visit(job->executor, 0, job->queue);
  pthread_mutex_unlock(&job->mutex); /* from here on the job is the process's, unless it is abandoned */
  if (is_abandoned) put_into_yard(job);
  __atomic_fetch_sub(&going_on, 1, __ATOMIC_RELAXED); /* Relaxed: a count */
  return NULL;
}

/* Signals are for the threads that Lua runs on. */
static int start_thread(struct job *job) {
  pthread_t thread;
  sigset_t all, before;
  int failed;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  failed = pthread_create(&thread, NULL, do_job, job);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) pthread_detach(thread);
  return failed;
}

/* }====================================================== */

/* {======================================================
** In the process
** ======================================================= */

/* What was passed to the job is let go. */
static void unpin(lua_State *L, struct job *job) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, job);
}

static void free_job(struct job *job) {
  pthread_mutex_destroy(&job->mutex);
  free(job);
}

static void sweep_yard(lua_State *L) {
  struct job *job;
  pthread_mutex_lock(&yard.mutex);
  job = yard.first;
  yard.first = NULL;
  pthread_mutex_unlock(&yard.mutex);
  while (job != NULL) {
    struct job *next = job->next;
    unpin(L, job);
    free_job(job);
    job = next;
  }
}

/* The function with its library, and everything on the stack, the places of arguments and result included, stay as long as the job. */
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

static void check_bound(lua_State *L, struct baton_process *process, const struct ffi_function *function) {
  double bound = 0;
  const char *text;
  baton_enter(L);
  (void)baton_rs_parameter(process->vm->executor, "max_threads", &bound, &text);
  baton_leave(L);
  if (baton_ffi_timed_calls() >= bound)
    luaL_error(L, "no thread for '%s': %d calls with a timeout are going on, abandoned ones included (process.params.max_threads)",
               function->name, baton_ffi_timed_calls());
}

/* Waits until the job is done, or gives it up. Answers why the wait ended: BATON_DONE if it is done. */
static struct baton_wake await_job(lua_State *L, struct job *job, baton_timeout timeout) {
  struct baton_wake wake = {BATON_DONE, 0, 0};
  int is_done;
  baton_enter(L);
  pthread_mutex_lock(&job->mutex);
  is_done = job->is_done;
  pthread_mutex_unlock(&job->mutex);
  if (!is_done) wake = baton_rs_queue_wait(job->executor, job->queue, timeout);
  pthread_mutex_lock(&job->mutex);
  if (job->is_done)
    wake.reason = BATON_DONE;
  else
    job->is_abandoned = 1;
  pthread_mutex_unlock(&job->mutex);
  baton_rs_free(job->executor, BATON_QUEUE, job->queue);
  baton_leave(L);
  return wake;
}

static struct job *new_job(lua_State *L, struct baton_process *process, const struct ffi_function *function,
                           const struct ffi_prepared *prepared, void **arguments, void *result) {
  struct job *job = calloc(1, sizeof *job);
  if (job == NULL) luaL_error(L, "not enough memory");
  pthread_mutex_init(&job->mutex, NULL);
  job->prepared = prepared;
  job->address = function->address;
  job->arguments = arguments;
  job->result = result;
  job->executor = process->vm->executor;
  baton_enter(L);
  job->queue = baton_rs_queue_new(job->executor);
  baton_leave(L);
  return job;
}

int baton_ffi_may_time(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  return process != NULL && !process->vm->closing && process->foreign_states == 0 && process->criticals == 0;
}

void baton_ffi_call_timed(lua_State *L, struct ffi_function *function, const struct ffi_prepared *prepared, void **arguments, void *result) {
  struct baton_process *process = baton_lua_here(L);
  struct baton_wake wake;
  struct job *job;
  sweep_yard(L);
  check_bound(L, process, function);
  job = new_job(L, process, function, prepared, arguments, result);
  pin_stack(L, job);
  __atomic_fetch_add(&going_on, 1, __ATOMIC_RELAXED); /* Relaxed: a count */
  if (start_thread(job) != 0) {
    __atomic_fetch_sub(&going_on, 1, __ATOMIC_RELAXED); /* Relaxed: a count */
    unpin(L, job);
    free_job(job);
    luaL_error(L, "no thread for '%s': the system refuses another one", function->name);
  }
  wake = await_job(L, job, function->timeout);
  if (wake.reason == BATON_DONE) {
    process->ffi_errno = job->left_errno;
    unpin(L, job);
    free_job(job);
    baton_lua_after_wait(L, process, wake); /* a kill may have come just then */
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
