/*
** Lua functions as C function pointers.
**
** A callback on the thread of an ffi call runs on the calling process's Lua state, above C's
** frames. C's frames cannot change threads, so the process stays on its thread. Each process has a
** C stack of its own, so callbacks may return in any order. A callback on any other thread goes to
** the foreign callback queue (callback_queue.c).
**
** An error in a callback cannot pass through C's frames. The callback returns zero to C, and the
** error is raised when the ffi call returns.
**
** The memory of a freed callback is kept for a while. If C calls it by mistake, a warning says so.
** Callbacks that live when the VM ends are never freed.
*/
#include "ffi/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Registry: code address -> struct ffi_callback, both light userdata. */
static const char callbacks_key = 'c';
/* Registry: function -> code address of the callback that was made for it as an argument. */
static const char passed_key = 'p';

/* The number of freed callbacks whose memory is kept. */
#define MOST_DEAD 256

static void push_argument(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, const void *from) {
  if (type->kind == FFI_RECORD) { /* copied: the caller's record ends with the call */
    size_t size = (size_t)baton_ffi_size(L, type);
    memcpy(baton_ffi_push_new(L, vm, type->plain, size)->data, from, size);
  } else {
    baton_ffi_to_lua(L, vm, type, from, 0);
  }
}

static void give_result(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *result) {
  int64_t integer;
  uint64_t bits = 0;
  if (type->kind == FFI_VOID) return;
  if (type->kind == FFI_BOOL || type->kind == FFI_INTEGER) {
    baton_ffi_to_c(L, vm, type, &bits, -1, FFI_PASS);
    integer = type->kind == FFI_BOOL ? (int64_t)bits : baton_ffi_load_integer(type, &bits);
    memcpy(result, &integer, sizeof integer); /* libffi takes a whole register */
  } else {
    baton_ffi_to_c(L, vm, type, result, -1, FFI_PASS);
  }
}

/* Calls the Lua function. The argument is a `struct ffi_incoming_call`. */
static int run_incoming(lua_State *L) {
  struct ffi_incoming_call *incoming = lua_touserdata(L, 1);
  struct ffi_callback *callback = incoming->callback;
  const struct ffi_type *type = callback->type;
  uint64_t i;
  luaL_checkstack(L, (int)type->count + 4, "arguments of a callback");
  lua_rawgeti(L, LUA_REGISTRYINDEX, callback->function);
  for (i = 0; i < type->count; i++)
    push_argument(L, callback->vm, type->parameters[i], incoming->arguments[i]);
  lua_call(L, (int)type->count, 1);
  give_result(L, callback->vm, type->element, incoming->result);
  return 0;
}

/* {======================================================
** On the calling thread
** ======================================================= */

/* Passes the error on the top of the stack to the ffi call that called back. */
static void keep_error(lua_State *L, struct baton_process *process) {
  struct ffi_outer_call *outer = process->ffi_call;
  if (process->killed && baton_lua_kill_is_due(process)) { /* raised again by itself */
    lua_pop(L, 1);
  } else if (outer == NULL || outer->L != L) {
    const char *message =
        lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, -1);
    baton_lua_warn(
        "baton: warning: an error in a callback that no call of the ffi waits for: %s\n", message);
    lua_pop(L, 1);
  } else if (outer->error == 0) {
    outer->error = lua_gettop(L);
  } else { /* the first one counts */
    lua_pop(L, 1);
  }
}

static void call_on_top_of_c(struct baton_process *process, struct ffi_incoming_call *incoming) {
  struct ffi_callback *callback = incoming->callback;
  lua_State *L = baton_lua_innermost(process);
  int is_living, status;
  /*
  ** The process stays on this thread until the ffi call ends. `calls_back` ensures that for an
  ** enter after a retake; the frame's mark ensures it afterwards.
  */
  process->calls_back = 1;
  baton_lua_enter(L);
  process->calls_back = 0;
  baton_lua_mark_frame(L, 1);
  if (process->ffi_call != NULL) process->ffi_call->called_back = 1;
  /* Relaxed: the VM lock orders it with `callback_free` */
  is_living = __atomic_load_n(&callback->is_living, __ATOMIC_RELAXED);
  if (is_living) callback->in_use++;
  baton_lua_leave(L);
  if (!is_living) { /* another process freed it while this call waited to enter */
    baton_ffi_refuse(callback, "a callback that was freed meanwhile");
    return;
  }
  if (lua_checkstack(L, 4)) {
    lua_pushcfunction(L, run_incoming);
    lua_pushlightuserdata(L, incoming);
    status = lua_pcall(L, 1, 0, 0);
  } else {
    lua_pushliteral(L, "stack overflow (callback)");
    status = LUA_ERRRUN;
  }
  baton_lua_enter(L);
  callback->in_use--;
  baton_lua_leave(L);
  if (status == LUA_OK) return;
  memset(incoming->result, 0, callback->result_size);
  keep_error(L, process);
}

/* The process on this thread. If the thread is that of a program that embeds the callback's state,
   that is the main process. */
static struct baton_process *process_here(const struct ffi_callback *callback) {
  struct baton_process *process = baton_gate_process();
  struct baton_lua_vm *vm = callback->vm->vm;
  if (process != NULL || vm->host == NULL || baton_gate_here()->carrier != 0) return process;
  return baton_seam_hooks.host_enters(vm);
}

/* The entry from C. Outside the VM, on any thread. */
static void handle(void *user_data, void *result, void **arguments) {
  struct ffi_callback *callback = user_data;
  struct ffi_incoming_call incoming = {callback, result, arguments};
  struct baton_process *process;
  int saved_errno = errno;
  memset(result, 0, callback->result_size);
  if (!__atomic_load_n(&callback->is_living, __ATOMIC_ACQUIRE)) {
    baton_ffi_refuse(
        callback, "a callback that has been freed (cb:free()), or whose program has ended");
  } else if ((process = process_here(callback)) == NULL && baton_gate_here()->carrier == 0) {
    baton_ffi_queue_call(&incoming);
  } else if (process == NULL) { /* it would wait for its own thread */
    baton_ffi_refuse(
        callback, "on a thread of the VM that waits for work (from a signal handler?)");
  } else if ((baton_gate_here()->gate & 1) == 0) {
    baton_ffi_refuse(callback, "in the middle of Lua's own work (from a signal handler?)");
  } else {
    process->ffi_errno = saved_errno;
    call_on_top_of_c(process, &incoming);
  }
  errno = saved_errno;
}

/* }====================================================== */

/* {======================================================
** Life
** ======================================================= */

static void link_callback(struct ffi_vm *vm, struct ffi_callback *callback) {
  callback->previous = NULL;
  callback->next = vm->callbacks;
  if (callback->next != NULL) callback->next->previous = callback;
  vm->callbacks = callback;
}

static void unlink_callback(struct ffi_vm *vm, struct ffi_callback *callback) {
  if (callback->next != NULL) callback->next->previous = callback->previous;
  if (callback->previous != NULL) callback->previous->next = callback->next;
  else vm->callbacks = callback->next;
}

static struct ffi_callback *find_callback(lua_State *L, const void *code) {
  struct ffi_callback *callback = NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &callbacks_key);
  if (lua_rawgetp(L, -1, code) == LUA_TLIGHTUSERDATA) callback = lua_touserdata(L, -1);
  lua_pop(L, 2);
  return callback;
}

/* The living callback that was made before for the function at 1 as an argument. The table is
   at 2. */
static struct ffi_callback *find_passed(lua_State *L, const struct ffi_type *type) {
  struct ffi_callback *callback = NULL;
  lua_pushvalue(L, 1);
  if (lua_rawget(L, 2) == LUA_TLIGHTUSERDATA) callback = find_callback(L, lua_touserdata(L, -1));
  if (callback != NULL) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, callback->function);
    if (callback->type != type->plain || !lua_rawequal(L, 1, -1)) callback = NULL;
  }
  lua_settop(L, 2);
  return callback;
}

/* Makes a callback of the function at `index`. */
static struct ffi_callback *make_callback(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index) {
  const struct ffi_prepared *prepared;
  struct ffi_callback *callback;
  char *message = NULL;
  if (type->flags & FFI_IS_VARIADIC)
    luaL_error(L, "a callback takes a fixed number of arguments; '%s' does not", type->name);
  baton_lua_check_memory(L);
  baton_lua_enter(L);
  prepared = baton_ffi_prepare(vm->state, type, NULL, 0, &message);
  baton_lua_leave(L);
  if (prepared == NULL) baton_ffi_raise(L, message);
  baton_ffi_open_callback_queue(L, vm);
  callback = calloc(1, sizeof *callback);
  if (callback == NULL) luaL_error(L, "not enough memory");
  callback->vm = vm;
  callback->queue = vm->callback_queue;
  callback->run = run_incoming;
  callback->type = type->plain;
  callback->result_size = type->element->kind == FFI_VOID ? 0 : prepared->result_size;
  callback->handle = baton_ffi_callback_new(prepared, handle, callback, &callback->code, &message);
  if (callback->handle == NULL) {
    free(callback);
    baton_ffi_raise(L, message);
  }
  callback->is_living = 1;
  link_callback(vm, callback); /* it lives from here on, even after an error below */
  lua_pushvalue(L, index);
  callback->function = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &callbacks_key);
  lua_pushlightuserdata(L, callback);
  lua_rawsetp(L, -2, callback->code);
  lua_pop(L, 1);
  return callback;
}

/*
** new_callback(function, vm, type, is_passed) -> code address.
**
** It is a Lua function of its own, so that no other process runs in the middle of it. The ffi call
** that needs the callback may be retaken (see retake_policy.c).
**
** A callback made for an argument (`is_passed`) has no name to free it by, so it lives on. The same
** function and type share one such callback.
*/
static int new_callback(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, 2);
  const struct ffi_type *type = lua_touserdata(L, 3);
  int is_passed = lua_toboolean(L, 4);
  struct ffi_callback *callback = NULL;
  lua_settop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &passed_key);
  if (is_passed) callback = find_passed(L, type);
  if (callback == NULL) callback = make_callback(L, vm, type, 1);
  lua_pushvalue(L, 1);
  lua_pushlightuserdata(L, callback->code);
  if (is_passed) {
    lua_rawset(L, 2);
    lua_pushlightuserdata(L, callback->code);
  }
  return 1;
}

void *baton_ffi_new_callback(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, int is_passed) {
  void *code;
  index = lua_absindex(L, index);
  luaL_checkstack(L, 6, "callback");
  lua_pushcfunction(L, new_callback);
  lua_pushvalue(L, index);
  lua_pushlightuserdata(L, vm);
  lua_pushlightuserdata(L, (void *)(size_t)type);
  lua_pushboolean(L, is_passed);
  lua_call(L, 4, 1);
  code = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return code;
}

/* The living callback of the function pointer at 1. */
static struct ffi_callback *check_callback(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, lua_upvalueindex(1));
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  struct ffi_callback *callback;
  void *code;
  if (cdata == NULL || cdata->type->kind != FFI_POINTER) luaL_typeerror(L, 1, "callback");
  memcpy(&code, cdata->data, sizeof code);
  callback = find_callback(L, code);
  if (callback == NULL)
    luaL_error(L, "this function pointer is no callback of Lua, or has been freed already");
  return callback;
}

static void bury(struct ffi_vm *vm, struct ffi_callback *callback) {
  unlink_callback(vm, callback);
  callback->next = NULL;
  if (vm->last_dead != NULL) vm->last_dead->next = callback;
  else vm->dead = callback;
  vm->last_dead = callback;
  if (++vm->dead_count > MOST_DEAD) {
    struct ffi_callback *oldest = vm->dead;
    vm->dead = oldest->next;
    vm->dead_count--;
    baton_ffi_callback_free(oldest->handle);
    free(oldest);
  }
}

/* cb:free() */
static int callback_free(lua_State *L) {
  struct ffi_callback *callback = check_callback(L);
  if (callback->in_use > 0)
    return luaL_error(L,
        "the callback is in use: it is being called; free it when the call of C that calls it has "
        "returned");
  __atomic_store_n(&callback->is_living, 0, __ATOMIC_RELEASE);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &callbacks_key);
  lua_pushnil(L);
  lua_rawsetp(L, -2, callback->code);
  luaL_unref(L, LUA_REGISTRYINDEX, callback->function);
  bury(callback->vm, callback);
  return 0;
}

/* cb:set(f) */
static int callback_set(lua_State *L) {
  struct ffi_callback *callback;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  callback = check_callback(L);
  lua_pushvalue(L, 2);
  lua_rawseti(L, LUA_REGISTRYINDEX, callback->function);
  return 0;
}

/* The methods of callbacks. The registry has them under the addresses of these entries: a lookup
   allocates nothing, so a program without memory can still free its callbacks. */
static const luaL_Reg methods[] = {{"free", callback_free}, {"set", callback_set}, {NULL, NULL}};

int baton_ffi_callback_method(lua_State *L, struct ffi_cdata *cdata, const char *name) {
  const luaL_Reg *method = methods;
  if (cdata->type->kind != FFI_POINTER || cdata->type->element->kind != FFI_FUNCTION) return 0;
  while (method->name != NULL && strcmp(method->name, name) != 0) method++;
  if (method->name == NULL) return 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, method);
  return 1;
}

void baton_ffi_open_callbacks(lua_State *L, struct ffi_vm *vm) {
  const luaL_Reg *method;
  for (method = methods; method->name != NULL; method++) {
    lua_pushlightuserdata(L, vm);
    lua_pushcclosure(L, method->func, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, method);
  }
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &callbacks_key);
  lua_newtable(L); /* weak keys: the table alone keeps no function alive */
  lua_newtable(L);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &passed_key);
}

int baton_ffi_may_wake(const struct baton_lua_vm *vm) {
  if (vm->timed != NULL && baton_ffi_timed_waiting(vm->timed) > 0) return 2;
  return vm->ffi != NULL && vm->ffi->callbacks != NULL;
}

/* Disables all callbacks when the VM ends. Their memory stays: C may keep the pointers, and calls
   of them return zero. */
void baton_ffi_close_callbacks(struct ffi_vm *vm) {
  struct ffi_callback *callback;
  for (callback = vm->callbacks; callback != NULL; callback = callback->next)
    __atomic_store_n(&callback->is_living, 0, __ATOMIC_RELEASE);
}

/* }====================================================== */
