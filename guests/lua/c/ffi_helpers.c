/*
** Native threads for calls that can be given up (ffi_timeout.c): helpers, which no process runs on.
**
** At most `max_threads` of these calls go on at a time, abandoned ones included; beyond that processes wait for their turn, first come, first
** served. A helper that is done takes the next call, and if there is none for `thread_idle` it ends.
**
** No wake-up is lost. A process counts itself among those that wait, and then looks again whether it may go on, before it begins to wait, all
** inside the VM. A helper first counts its call out, and then looks whether somebody waits. So the process finds the room, or the helper finds the process
** and posts; and posts are taken in only by who is inside, so after the process has begun to wait. Whoever is let in wakes the next if there is
** room for it, too.
*/
#include "ffi.h"

#include <signal.h>
#include <time.h>

struct ffi_helpers {
  pthread_mutex_t mutex;
  pthread_cond_t given;
  struct ffi_task *first, *last; /* these four: guarded by the mutex */
  int queued, idle, threads;
  struct timespec patience;
  int going_on;                  /* atomic; counted up by who is inside the VM */
  int waiting;                   /* atomic; changed by who is inside */
  const void *executor;
  uint64_t queue;                /* where processes wait */
};

/* {======================================================
** On helpers
** ======================================================= */

static struct timespec after(const struct timespec *patience) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += patience->tv_sec;
  until.tv_nsec += patience->tv_nsec;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  return until;
}

/* Waits for a task; NULL if none comes. Under the mutex. */
static struct ffi_task *await_task(struct ffi_helpers *helpers) {
  struct timespec until = after(&helpers->patience);
  struct ffi_task *task;
  int is_over = 0;
  while (helpers->first == NULL && !is_over) is_over = pthread_cond_timedwait(&helpers->given, &helpers->mutex, &until) != 0;
  task = helpers->first;
  if (task == NULL) return NULL;
  helpers->first = task->next;
  if (helpers->first == NULL) helpers->last = NULL;
  helpers->queued--;
  return task;
}

/* The helper's call is over, and it is free for another. */
static void let_another_in(struct ffi_helpers *helpers) {
  __atomic_fetch_sub(&helpers->going_on, 1, __ATOMIC_SEQ_CST); /* SeqCst: with the next, against the two in `baton_ffi_await_helper` */
  if (__atomic_load_n(&helpers->waiting, __ATOMIC_SEQ_CST) > 0) baton_rs_visit(helpers->executor, 0, helpers->queue);
}

static void *help(void *argument) {
  struct ffi_helpers *helpers = argument;
  struct ffi_task *task;
  pthread_mutex_lock(&helpers->mutex);
  helpers->idle++;
  while ((task = await_task(helpers)) != NULL) {
    helpers->idle--;
    pthread_mutex_unlock(&helpers->mutex);
    task->run(task);
    pthread_mutex_lock(&helpers->mutex);
    helpers->idle++; /* first, so that who is let in finds a thread */
    pthread_mutex_unlock(&helpers->mutex);
    let_another_in(helpers);
    pthread_mutex_lock(&helpers->mutex);
  }
  helpers->idle--;
  helpers->threads--;
  pthread_mutex_unlock(&helpers->mutex);
  return NULL;
}

/* Signals are for the threads that Lua runs on. */
static int start_thread(struct ffi_helpers *helpers) {
  pthread_t thread;
  sigset_t all, before;
  int failed;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  failed = pthread_create(&thread, NULL, help, helpers);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return 0;
  pthread_setname_np(thread, "baton-helper");
  pthread_detach(thread);
  return 1;
}

/* }====================================================== */

/* {======================================================
** In processes
** ======================================================= */

static void prepare(struct ffi_helpers *helpers) {
  pthread_condattr_t attributes;
  pthread_mutex_init(&helpers->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&helpers->given, &attributes);
  pthread_condattr_destroy(&attributes);
}

/* Made with the first call, and for good: calls may end at any time. */
void baton_ffi_prepare_helpers(lua_State *L, struct ffi_vm *vm) {
  struct ffi_helpers *helpers = vm->helpers;
  if (helpers != NULL) return;
  helpers = calloc(1, sizeof *helpers);
  if (helpers == NULL) luaL_error(L, "not enough memory");
  prepare(helpers);
  helpers->executor = vm->vm->executor;
  baton_enter(L);
  helpers->queue = baton_rs_queue_new(helpers->executor);
  baton_leave(L);
  vm->helpers = helpers;
}

static double parameter(const struct ffi_helpers *helpers, const char *name) {
  double value = 0;
  const char *text;
  (void)baton_rs_parameter(helpers->executor, name, &value, &text);
  return value;
}

static int has_room(struct ffi_helpers *helpers) {
  return __atomic_load_n(&helpers->going_on, __ATOMIC_SEQ_CST) < parameter(helpers, "max_threads"); /* SeqCst: see `let_another_in` */
}

/* Waits among the others until there is room, or until the time comes; `waiting` counts the process. Inside the VM. */
static struct baton_wake await_room(struct ffi_helpers *helpers, int is_first, baton_timeout timeout) {
  uint64_t until = baton_rs_now() + (timeout == BATON_FOREVER ? 0 : (uint64_t)timeout);
  struct baton_wake wake = {BATON_DONE, 0, 0};
  while (!is_first || !has_room(helpers)) {
    uint64_t now = baton_rs_now();
    if (timeout != BATON_FOREVER) timeout = now < until ? (baton_timeout)(until - now) : 0;
    wake = baton_rs_queue_wait(helpers->executor, helpers->queue, timeout);
    if (wake.reason != BATON_DONE) return wake;
    is_first = 1;
  }
  return wake;
}

struct baton_wake baton_ffi_await_helper(lua_State *L, struct ffi_vm *vm, baton_timeout timeout) {
  struct ffi_helpers *helpers = vm->helpers;
  struct baton_wake wake = {BATON_DONE, 0, 0};
  int others;
  baton_enter(L);
  others = __atomic_fetch_add(&helpers->waiting, 1, __ATOMIC_SEQ_CST); /* SeqCst: see `let_another_in` */
  vm->awaiting++;
  wake = await_room(helpers, others == 0, timeout);
  vm->awaiting--;
  if (wake.reason == BATON_DONE) __atomic_fetch_add(&helpers->going_on, 1, __ATOMIC_SEQ_CST); /* SeqCst: as above */
  others = __atomic_fetch_sub(&helpers->waiting, 1, __ATOMIC_SEQ_CST) - 1; /* SeqCst: as above */
  if (others > 0 && has_room(helpers)) baton_rs_visit(helpers->executor, 0, helpers->queue);
  baton_leave(L);
  return wake;
}

void baton_ffi_release_helper(struct ffi_vm *vm) { let_another_in(vm->helpers); }

int baton_ffi_give_to_helper(lua_State *L, struct ffi_vm *vm, struct ffi_task *task) {
  struct ffi_helpers *helpers = vm->helpers;
  double patience;
  int is_given = 1;
  baton_enter(L);
  patience = parameter(helpers, "thread_idle");
  baton_leave(L);
  pthread_mutex_lock(&helpers->mutex);
  helpers->patience.tv_sec = patience < 1e9 ? (time_t)patience : 1000000000;
  helpers->patience.tv_nsec = patience < 1e9 ? (long)((patience - (double)helpers->patience.tv_sec) * 1e9) : 0;
  if (helpers->idle <= helpers->queued) {
    is_given = start_thread(helpers);
    helpers->threads += is_given;
  }
  if (is_given) {
    task->next = NULL;
    if (helpers->last != NULL) helpers->last->next = task;
    else helpers->first = task;
    helpers->last = task;
    helpers->queued++;
    pthread_cond_signal(&helpers->given);
  }
  pthread_mutex_unlock(&helpers->mutex);
  return is_given;
}

int baton_ffi_timed_calls(const struct ffi_vm *vm) {
  return vm->helpers != NULL ? __atomic_load_n(&vm->helpers->going_on, __ATOMIC_RELAXED) : 0; /* Relaxed: a count */
}

int baton_ffi_idle_helpers(const struct ffi_vm *vm) {
  int threads;
  if (vm->helpers == NULL) return 0;
  pthread_mutex_lock(&vm->helpers->mutex);
  threads = vm->helpers->idle;
  pthread_mutex_unlock(&vm->helpers->mutex);
  return threads;
}

/* In a fork's child: there is no other thread, and no other process. */
void baton_ffi_forget_helpers(struct ffi_vm *vm) {
  struct ffi_helpers *helpers = vm->helpers;
  if (helpers == NULL) return;
  prepare(helpers);
  helpers->first = helpers->last = NULL;
  helpers->queued = helpers->idle = helpers->threads = 0;
  helpers->going_on = helpers->waiting = 0;
  vm->awaiting = 0;
}

/* }====================================================== */
