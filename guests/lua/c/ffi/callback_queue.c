/*
** The foreign callback queue: callbacks from threads outside of the VM.
**
** The foreign thread queues its call and waits for the result. A *listener*, one of a few daemon
** processes, makes the call. The first callback creates one listener, suspended; the first queued
** call resumes it. Before a listener makes a call, it ensures that another listener waits, up to
** MOST_LISTENERS. So callbacks may wait for each other, and may return in any order. Beyond
** MOST_LISTENERS, calls wait in the queue.
**
** No call is lost:
**   - A foreign thread queues its call and posts, both under the queue's mutex.
**   - A listener reads the queue inside the VM. If it is empty, the listener begins to wait without
**     leaving the VM. Posts are processed only inside the VM.
**   - So either the listener finds the call, or the post comes after its wait has begun and wakes
**     it.
**   - If no listener waits, a post has no effect. None is needed: each listener reads the queue
**     again before it waits.
*/
#include "ffi/inside.h"

#include <string.h>

/* The number of callbacks at the same time. More of them wait. */
#define MOST_LISTENERS 64
/* The number of idle listeners that stay for later calls. */
#define MOST_IDLE 4

struct ffi_callback_queue {
  pthread_mutex_t mutex;
  struct ffi_incoming_call *first, *last; /* the mutex guards these and the next two */
  int is_open;
  uint64_t prepared; /* the listener that is still suspended; 0: none */
  int listeners;
  int idle;          /* listeners that wait; guarded by the VM lock */
  const void *executor;
  uint64_t waiters;  /* where listeners wait */
  lua_CFunction run; /* makes a call, which is its argument */
};

static struct baton_process *new_listener(lua_State *L, struct ffi_vm *vm, int is_suspended);

/* {======================================================
** The queue
** ======================================================= */

static void answer(struct ffi_callback_queue *queue, struct ffi_incoming_call *incoming) {
  pthread_mutex_lock(&queue->mutex);
  incoming->is_answered = 1;
  pthread_cond_signal(&incoming->answered);
  pthread_mutex_unlock(&queue->mutex);
}

/* Takes the next call; NULL if there is none. */
static struct ffi_incoming_call *take_call(struct ffi_callback_queue *queue) {
  struct ffi_incoming_call *incoming;
  pthread_mutex_lock(&queue->mutex);
  incoming = queue->first;
  if (incoming != NULL) {
    queue->first = incoming->next;
    if (queue->first == NULL) queue->last = NULL;
  }
  pthread_mutex_unlock(&queue->mutex);
  return incoming;
}

void baton_ffi_queue_call(struct ffi_incoming_call *incoming) {
  struct ffi_callback_queue *queue = incoming->callback->queue;
  pthread_mutex_lock(&queue->mutex);
  if (!queue->is_open) {
    pthread_mutex_unlock(&queue->mutex);
    baton_ffi_refuse(incoming->callback, "while the program was ending");
    return;
  }
  if (queue->last != NULL) queue->last->next = incoming;
  else queue->first = incoming;
  queue->last = incoming;
  baton_wake_from_outside(queue->executor, queue->prepared, queue->waiters);
  queue->prepared = 0;
  while (!incoming->is_answered) pthread_cond_wait(&incoming->answered, &queue->mutex);
  pthread_mutex_unlock(&queue->mutex);
}

int baton_ffi_has_queued_calls(const struct baton_vm *vm) {
  struct ffi_callback_queue *queue = vm->ffi != NULL ? vm->ffi->callback_queue : NULL;
  int has;
  if (queue == NULL) return 0;
  pthread_mutex_lock(&queue->mutex); /* a leaf: its holders post, but wait for nothing */
  has = queue->first != NULL;
  pthread_mutex_unlock(&queue->mutex);
  return has;
}

/* Refuses later calls, and ends those that wait in the queue with a result of zero. */
static void close_queue(struct ffi_callback_queue *queue) {
  struct ffi_incoming_call *incoming;
  pthread_mutex_lock(&queue->mutex);
  queue->is_open = 0;
  pthread_mutex_unlock(&queue->mutex);
  while ((incoming = take_call(queue)) != NULL) {
    baton_ffi_refuse(incoming->callback, "while the program was ending");
    answer(queue, incoming);
  }
}

void baton_ffi_close_callback_queue(struct baton_vm *vm) {
  if (vm->ffi != NULL && vm->ffi->callback_queue != NULL) close_queue(vm->ffi->callback_queue);
}

/* }====================================================== */

void baton_ffi_refuse(struct ffi_callback *callback, const char *why) {
  if (__atomic_exchange_n(&callback->is_refused, 1, __ATOMIC_RELAXED) == 0)
    baton_lua_warn("baton: warning: C called back %s; the callback answered zero\n", why);
}

/* {======================================================
** Listeners
** ======================================================= */

/* Makes the call in protected mode, or refuses it if its callback was freed. Returns the status of
   lua_pcall. */
static int receive(lua_State *L, struct ffi_incoming_call *incoming) {
  struct ffi_callback *callback = incoming->callback;
  int status;
  if (!__atomic_load_n(&callback->is_living, __ATOMIC_ACQUIRE)) {
    baton_ffi_refuse(callback, "a callback that was freed meanwhile");
    return LUA_OK;
  }
  callback->in_use++;
  lua_pushcfunction(L, baton_lua_keep_traceback);
  lua_pushcfunction(L, callback->queue->run);
  lua_pushlightuserdata(L, incoming);
  status = lua_pcall(L, 1, 0, -3);
  callback->in_use--;
  if (status != LUA_OK) memset(incoming->result, 0, callback->result_size);
  return status;
}

/* Waits for a call. Returns NULL if enough other listeners are idle. */
static struct ffi_incoming_call *await_call(lua_State *L, struct ffi_callback_queue *queue) {
  struct baton_process *process = baton_lua_here(L);
  for (;;) {
    struct baton_wake wake;
    struct ffi_incoming_call *incoming;
    baton_enter(L);
    incoming = take_call(queue);
    if (incoming != NULL || queue->idle == MOST_IDLE) {
      baton_leave(L);
      return incoming;
    }
    queue->idle++;
    wake = baton_queue_wait(queue->executor, queue->waiters, BATON_FOREVER);
    queue->idle--;
    baton_leave(L);
    baton_lua_after_wait(L, process, wake);
  }
}

static void make_another(lua_State *L, struct ffi_vm *vm) {
  struct ffi_callback_queue *queue = vm->callback_queue;
  if (queue->idle > 0 || queue->listeners >= MOST_LISTENERS) return;
  if (new_listener(L, vm, 0) != NULL) queue->listeners++;
  lua_pop(L, 1); /* without memory for another listener, calls wait for this one */
}

/* listen(vm): the body of a listener, protected by `listener`. */
static int listen(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, 1);
  struct baton_process *process = baton_lua_here(L);
  struct ffi_incoming_call *incoming;
  lua_settop(L, 1);
  while ((incoming = await_call(L, vm->callback_queue)) != NULL) {
    int status;
    /* set first: the foreign thread also waits while another listener is made */
    process->serves_callback = 1;
    make_another(L, vm);
    status = receive(L, incoming);
    answer(vm->callback_queue, incoming);
    process->serves_callback = 0;
    if (status != LUA_OK) {
      if (process->killed) return lua_error(L);
      baton_lua_report_part(L, process);
    }
    lua_settop(L, 1);
  }
  return 0;
}

/* listener(vm) */
static int listener(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, 1);
  int status;
  lua_pushcfunction(L, listen);
  lua_pushvalue(L, 1);
  status = lua_pcall(L, 1, 0, 0);
  baton_enter(L); /* a killed listener may have been woken for a call */
  baton_queue_wake_all(vm->callback_queue->executor, vm->callback_queue->waiters);
  baton_leave(L);
  /* the program has killed them all */
  if (--vm->callback_queue->listeners == 0) close_queue(vm->callback_queue);
  return status == LUA_OK ? 0 : lua_error(L);
}

/*
** Leaves the listener's handle on the top of the stack, or returns NULL and leaves a message. It
** may run as soon as it exists, whenever a finalizer gives way. So nothing is allocated until it
** has its function.
*/
static struct baton_process *new_listener(lua_State *L, struct ffi_vm *vm, int is_suspended) {
  struct baton_spawn_options options;
  struct baton_process *process;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  options.daemon = 1;
  options.suspended = is_suspended;
  lua_pushliteral(L, "callbacks");
  process = baton_lua_new_process(L, vm->vm, &options);
  lua_insert(L, -2); /* below the name */
  if (process == NULL) {
    lua_pop(L, 1);
    return NULL;
  }
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  baton_lua_set_name(process, "callbacks", 9);
  lua_pushcfunction(L, listener);
  lua_pushlightuserdata(L, vm);
  lua_xmove(L, process->L, 2);
  return process;
}

/* }====================================================== */

uint64_t baton_ffi_listeners(const struct ffi_vm *vm) {
  return vm->callback_queue != NULL ? (uint64_t)vm->callback_queue->listeners : 0;
}

static struct ffi_callback_queue *new_queue(lua_State *L, struct ffi_vm *vm, lua_CFunction run) {
  /* never freed: a call may come at any time */
  struct ffi_callback_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL) luaL_error(L, "not enough memory");
  pthread_mutex_init(&queue->mutex, NULL);
  queue->executor = vm->vm->executor;
  queue->run = run;
  baton_enter(L);
  queue->waiters = baton_queue_new(queue->executor);
  baton_leave(L);
  return queue;
}

void baton_ffi_open_callback_queue(lua_State *L, struct ffi_vm *vm, lua_CFunction run) {
  struct baton_process *process;
  if (vm->callback_queue == NULL) vm->callback_queue = new_queue(L, vm, run);
  if (vm->callback_queue->is_open || vm->vm->closing || vm->vm->exiting) return;
  process = new_listener(L, vm, 1);
  if (process == NULL) lua_error(L);
  lua_pop(L, 1);
  vm->callback_queue->listeners++;
  pthread_mutex_lock(&vm->callback_queue->mutex);
  vm->callback_queue->prepared = process->sched_id;
  vm->callback_queue->is_open = 1;
  pthread_mutex_unlock(&vm->callback_queue->mutex);
}

/* In a fork's child, the foreign threads and the listeners are gone. Inside the VM. */
void baton_ffi_forget_callback_queue(struct baton_vm *vm) {
  struct ffi_callback_queue *queue = vm->ffi != NULL ? vm->ffi->callback_queue : NULL;
  if (queue == NULL) return;
  pthread_mutex_init(&queue->mutex, NULL);
  queue->first = queue->last = NULL;
  queue->is_open = 0; /* until the next callback is made */
  queue->prepared = 0;
  queue->listeners = queue->idle = 0;
}
