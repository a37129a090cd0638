/*
** Native threads for calls with a timeout (timeout.c), called *helpers*. No process runs on a
** helper.
**
** At most `max_threads` such calls are in progress at a time, abandoned ones included. Beyond that,
** processes wait, first come, first served. A helper that is done takes the next call. If none
** comes for `thread_idle`, its thread ends.
**
** A semaphore counts the free places, so each place goes to the first waiter. A helper that is done
** signals the semaphore. If `max_threads` was lowered meanwhile, it takes back a surplus place
** instead.
*/
#include "ffi/inside.h"

#include <signal.h>
#include <time.h>

struct ffi_helpers {
  pthread_mutex_t mutex;
  pthread_cond_t given;
  struct ffi_task *first, *last; /* the mutex guards these and the next three */
  int queued, idle, threads;
  struct timespec patience;
  int going_on;                  /* atomic: calls in progress; incremented inside the VM */
  /* atomic: surplus places, above `places`; each goes when its call ends */
  int surplus;
  /* the limit as it was read last; guarded by the VM lock, like the next */
  int places;
  int is_counted;                /* the semaphore exists */
  const void *executor;
  uint64_t free;                 /* the semaphore */
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

/* Waits for a task. Returns NULL if none comes in time. Under the mutex. */
static struct ffi_task *await_task(struct ffi_helpers *helpers) {
  struct timespec until = after(&helpers->patience);
  struct ffi_task *task;
  int is_over = 0;
  while (helpers->first == NULL && !is_over)
    is_over = pthread_cond_timedwait(&helpers->given, &helpers->mutex, &until) != 0;
  task = helpers->first;
  if (task == NULL) return NULL;
  helpers->first = task->next;
  if (helpers->first == NULL) helpers->last = NULL;
  helpers->queued--;
  return task;
}

/* Takes back one surplus place. Returns 0 if there is none. */
static int take_back_surplus(struct ffi_helpers *helpers) {
  /* Relaxed (all): a count; the semaphore's posts order the rest */
  int surplus = __atomic_load_n(&helpers->surplus, __ATOMIC_RELAXED);
  while (surplus > 0 &&
      !__atomic_compare_exchange_n(
          &helpers->surplus, &surplus, surplus - 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return surplus > 0;
}

/* Frees the place of a call that has ended. */
static void free_place(struct ffi_helpers *helpers) {
  __atomic_fetch_sub(&helpers->going_on, 1, __ATOMIC_RELAXED); /* Relaxed: a count */
  if (!take_back_surplus(helpers)) baton_signal_from_outside(helpers->executor, helpers->free);
}

static void help(void *argument) {
  struct ffi_helpers *helpers = argument;
  struct ffi_task *task;
  pthread_mutex_lock(&helpers->mutex);
  helpers->idle++;
  while ((task = await_task(helpers)) != NULL) {
    helpers->idle--;
    pthread_mutex_unlock(&helpers->mutex);
    task->run(task);
    pthread_mutex_lock(&helpers->mutex);
    helpers->idle++; /* before the place is free: the next caller must find a thread */
    pthread_mutex_unlock(&helpers->mutex);
    free_place(helpers);
    pthread_mutex_lock(&helpers->mutex);
  }
  helpers->idle--;
  helpers->threads--;
  pthread_mutex_unlock(&helpers->mutex);
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

/* Made with the first call and never freed, since a call may end at any time. */
void baton_ffi_prepare_helpers(lua_State *L, struct ffi_vm *vm) {
  struct ffi_helpers *helpers = vm->helpers;
  if (helpers != NULL) return;
  helpers = calloc(1, sizeof *helpers);
  if (helpers == NULL) luaL_error(L, "not enough memory");
  prepare(helpers);
  helpers->executor = vm->vm->executor;
  vm->helpers = helpers;
}

static double parameter(const struct ffi_helpers *helpers, const char *name) {
  double value = 0;
  const char *text;
  (void)baton_parameter(helpers->executor, name, &value, &text);
  return value;
}

/* Adjusts the number of places to `max_threads`, which may have changed. Inside the VM. */
static void follow_limit(struct ffi_helpers *helpers) {
  const int limit = (int)parameter(helpers, "max_threads");
  int more = limit - helpers->places;
  if (!helpers->is_counted) helpers->free = baton_semaphore_new(helpers->executor, 0);
  helpers->is_counted = 1;
  helpers->places = limit;
  while (more > 0 && take_back_surplus(helpers)) more--;
  if (more > 0) baton_semaphore_signal(helpers->executor, helpers->free, (uint64_t)more);
  while (
      more < 0 && baton_semaphore_wait(helpers->executor, helpers->free, 0).reason == BATON_DONE)
    more++;
  /* Relaxed: a count */
  if (more < 0) __atomic_fetch_sub(&helpers->surplus, more, __ATOMIC_RELAXED);
}

void baton_ffi_limit_changed(struct baton_vm *vm) {
  if (vm->ffi != NULL && vm->ffi->helpers != NULL) follow_limit(vm->ffi->helpers);
}

struct baton_wake baton_ffi_await_helper(lua_State *L, struct ffi_vm *vm, baton_timeout timeout) {
  struct ffi_helpers *helpers = vm->helpers;
  struct baton_wake wake;
  baton_enter(L);
  follow_limit(helpers);
  vm->awaiting++;
  wake = baton_semaphore_wait(helpers->executor, helpers->free, timeout);
  vm->awaiting--;
  /* Relaxed: a count */
  if (wake.reason == BATON_DONE) __atomic_fetch_add(&helpers->going_on, 1, __ATOMIC_RELAXED);
  baton_leave(L);
  return wake;
}

void baton_ffi_release_helper(struct ffi_vm *vm) { free_place(vm->helpers); }

int baton_ffi_give_to_helper(lua_State *L, struct ffi_vm *vm, struct ffi_task *task) {
  struct ffi_helpers *helpers = vm->helpers;
  double patience;
  int is_given = 1;
  baton_enter(L);
  patience = parameter(helpers, "thread_idle");
  baton_leave(L);
  pthread_mutex_lock(&helpers->mutex);
  helpers->patience.tv_sec = patience < 1e9 ? (time_t)patience : 1000000000;
  helpers->patience.tv_nsec =
      patience < 1e9 ? (long)((patience - (double)helpers->patience.tv_sec) * 1e9) : 0;
  if (helpers->idle <= helpers->queued) {
    is_given = baton_start_helper("baton-helper", help, helpers);
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
  /* Relaxed: a count */
  return vm->helpers != NULL ? __atomic_load_n(&vm->helpers->going_on, __ATOMIC_RELAXED) : 0;
}

int baton_ffi_idle_helpers(const struct ffi_vm *vm) {
  int threads;
  if (vm->helpers == NULL) return 0;
  pthread_mutex_lock(&vm->helpers->mutex);
  threads = vm->helpers->idle;
  pthread_mutex_unlock(&vm->helpers->mutex);
  return threads;
}

/* Resets the helpers in a fork's child, which has no other thread and no other process. */
void baton_ffi_forget_helpers(struct ffi_vm *vm) {
  struct ffi_helpers *helpers = vm->helpers;
  if (helpers == NULL) return;
  prepare(helpers);
  helpers->first = helpers->last = NULL;
  helpers->queued = helpers->idle = helpers->threads = 0;
  helpers->going_on = helpers->surplus = helpers->places = helpers->is_counted = 0;
  vm->awaiting = 0;
}

/* }====================================================== */
