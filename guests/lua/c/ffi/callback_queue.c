/*
** Listeners: daemon processes that make callbacks from threads outside of the VM.
**
** bindings/ffi/src/callback_queue.rs has the queue of these calls, and says when a listener waits,
** ends, or makes another one. The first callback creates one listener, suspended; the first queued
** call resumes it.
*/
#include "ffi/inside.h"

#include <string.h>

static struct baton_process *new_listener(lua_State *L, struct ffi_vm *vm, int is_suspended);

/* {======================================================
** The queue
** ======================================================= */

void baton_ffi_refuse(struct ffi_callback *callback, const char *why) {
  if (__atomic_exchange_n(&callback->is_refused, 1, __ATOMIC_RELAXED) == 0)
    baton_lua_warn("baton: warning: C called back %s; the callback answered zero\n", why);
}

void baton_ffi_queue_call(struct ffi_incoming_call *incoming) {
  if (!baton_ffi_queue_add(incoming->callback->queue, incoming))
    baton_ffi_refuse(incoming->callback, "while the program was ending");
}

static const struct ffi_callback_queue *queue_of(const struct baton_lua_vm *vm) {
  return vm->ffi != NULL ? vm->ffi->callback_queue : NULL;
}

int baton_ffi_has_queued_calls(const struct baton_lua_vm *vm) {
  const struct ffi_callback_queue *queue = queue_of(vm);
  return queue != NULL && baton_ffi_queue_has_calls(queue);
}

/* Refuses later calls, and ends those that wait in the queue with a result of zero. */
static void close_queue(const struct ffi_callback_queue *queue) {
  struct ffi_queued_call call;
  baton_ffi_queue_close(queue);
  while (baton_ffi_queue_take(queue, &call)) {
    baton_ffi_refuse(call.incoming->callback, "while the program was ending");
    baton_ffi_answer(queue, call.queued);
  }
}

void baton_ffi_close_callback_queue(struct baton_lua_vm *vm) {
  const struct ffi_callback_queue *queue = queue_of(vm);
  if (queue != NULL) close_queue(queue);
}

/* In a fork's child, the foreign threads and the listeners are gone. Inside the VM. */
void baton_ffi_forget_callback_queue(struct baton_lua_vm *vm) {
  const struct ffi_callback_queue *queue = queue_of(vm);
  if (queue != NULL) baton_ffi_queue_forget(queue); /* until the next callback is made */
}

/* }====================================================== */

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
  lua_pushcfunction(L, callback->run);
  lua_pushlightuserdata(L, incoming);
  status = lua_pcall(L, 1, 0, -3);
  callback->in_use--;
  if (status != LUA_OK) memset(incoming->result, 0, callback->result_size);
  return status;
}

/* Waits for a call. Returns 0 if the listener is to end, as enough others are idle. */
static int await_call(lua_State *L, struct ffi_vm *vm, struct ffi_queued_call *call) {
  struct baton_process *process = baton_lua_here(L);
  for (;;) {
    struct baton_wake wake;
    int next;
    baton_lua_enter(L);
    next = baton_ffi_queue_next(vm->callback_queue, vm->vm->executor, call, &wake);
    baton_lua_leave(L);
    if (next != FFI_ASK_AGAIN) return next == FFI_CALL;
    baton_lua_after_wait(L, process, wake);
  }
}

/* make_another(vm) */
static int make_another(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, 1);
  if (new_listener(L, vm, 0) != NULL) baton_ffi_queue_listener_begins(vm->callback_queue);
  return 0;
}

/* Makes another listener if there should be one. Without memory for it, calls wait for this one. */
static void ensure_another(lua_State *L, struct ffi_vm *vm) {
  if (!baton_ffi_queue_wants_listener(vm->callback_queue)) return;
  lua_pushcfunction(L, make_another);
  lua_pushlightuserdata(L, vm);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* listen(vm): the body of a listener, protected by `listener`. */
static int listen(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, 1);
  struct baton_process *process = baton_lua_here(L);
  struct ffi_queued_call call;
  lua_settop(L, 1);
  while (await_call(L, vm, &call)) {
    int status;
    /* set first: the foreign thread also waits while another listener is made */
    process->serves_callback = 1;
    ensure_another(L, vm);
    status = receive(L, call.incoming);
    baton_ffi_answer(vm->callback_queue, call.queued);
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
  int status, is_last;
  lua_pushcfunction(L, listen);
  lua_pushvalue(L, 1);
  status = lua_pcall(L, 1, 0, 0);
  baton_lua_enter(L);
  is_last = baton_ffi_queue_listener_ends(vm->callback_queue, vm->vm->executor);
  baton_lua_leave(L);
  if (is_last) close_queue(vm->callback_queue); /* the program has killed them all */
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
  baton_lua_forget_context(process);
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  baton_lua_set_name(process, "callbacks", 9);
  lua_pushcfunction(L, listener);
  lua_pushlightuserdata(L, vm);
  lua_xmove(L, process->L, 2);
  return process;
}

/* }====================================================== */

uint64_t baton_ffi_listeners(const struct ffi_vm *vm) {
  return vm->callback_queue != NULL ? baton_ffi_queue_listeners(vm->callback_queue) : 0;
}

void baton_ffi_open_callback_queue(lua_State *L, struct ffi_vm *vm) {
  struct baton_process *process;
  if (vm->callback_queue == NULL) {
    baton_lua_check_memory(L);
    baton_lua_enter(L);
    if (vm->callback_queue == NULL) /* another process may have run while this one entered */
      vm->callback_queue = baton_ffi_queue_new(vm->vm->executor);
    baton_lua_leave(L);
  }
  if (baton_ffi_queue_is_open(vm->callback_queue) || vm->vm->closing || vm->vm->exiting) return;
  process = new_listener(L, vm, 1);
  if (process == NULL) lua_error(L);
  lua_pop(L, 1);
  baton_ffi_queue_open(vm->callback_queue, process->sched_id);
}
