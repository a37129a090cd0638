/*
** Calls with a timeout: ffi.timeout(fn, seconds).
**
** A helper thread makes the call, and the process waits for it as for any object
** (bindings/ffi/src/timed.rs). If the wait ends first, the call is *abandoned*: its thread and its
** arguments stay in use until the function returns. The next call with a timeout frees the
** abandoned calls that have returned.
*/
#include "ffi/inside.h"

int baton_ffi_is_calling(const struct baton_lua_vm *vm) {
  return vm->timed != NULL && baton_ffi_timed_in_progress(vm->timed);
}

int baton_ffi_threads(const struct baton_lua_vm *vm) {
  return vm->timed == NULL ? 0 : baton_ffi_timed_idle_helpers(vm->timed);
}

void baton_ffi_limit_changed(struct baton_lua_vm *vm) {
  if (vm->timed != NULL) baton_ffi_timed_limit_changed(vm->timed, vm->executor);
}

/* In a fork's child, which has none of the helpers. The next call makes new ones. */
void baton_ffi_forget_timed_calls(struct baton_lua_vm *vm) { vm->timed = NULL; }

/* Ends a call that no helper works on, and releases its arguments. */
static void discard(lua_State *L, const struct ffi_timed_call *call) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, call);
  baton_ffi_timed_free(call);
}

static void free_returned(lua_State *L, const struct ffi_timed_calls *calls) {
  const struct ffi_timed_call *call;
  while ((call = baton_ffi_timed_next_returned(calls)) != NULL) discard(L, call);
}

/* Keeps the function, its library and everything on the stack alive as long as the call. The
   arguments and the result are on the stack. */
static void pin_stack(lua_State *L, const struct ffi_timed_call *call) {
  int i, top;
  luaL_checkstack(L, 4, "call with a timeout");
  baton_lua_enter(L);
  setobj2s(L, L->top.p, s2v(L->ci->func.p));
  api_incr_top(L);
  baton_lua_leave(L);
  top = lua_gettop(L);
  lua_createtable(L, top, 0);
  for (i = 1; i <= top; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, i);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, call);
  lua_pop(L, 1);
}

int baton_ffi_may_time(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  return process != NULL && !baton_simulated && !process->vm->closing &&
      process->foreign_states == 0 && process->criticals == 0;
}

/* The VM's calls with a timeout. May raise an error. */
static const struct ffi_timed_calls *prepare(lua_State *L, struct baton_lua_vm *vm) {
  baton_lua_check_memory(L);
  if (vm->timed != NULL) return vm->timed;
  baton_lua_enter(L);
  if (vm->timed == NULL) /* another process may have run while this one entered */
    vm->timed = baton_ffi_timed_calls_new(vm->executor);
  baton_lua_leave(L);
  return vm->timed;
}

static const struct ffi_timed_call *begin(lua_State *L, const struct ffi_function *function,
    const struct ffi_timed_calls *calls) {
  const struct ffi_timed_call *call;
  baton_lua_enter(L);
  call = baton_ffi_timed_begin(calls, function->vm->vm->executor, function->timeout);
  baton_lua_leave(L);
  return call;
}

static struct baton_wake await_helper(lua_State *L, const struct ffi_function *function,
    const struct ffi_timed_calls *calls, const struct ffi_timed_call *call) {
  struct baton_wake wake;
  baton_lua_enter(L);
  wake = baton_ffi_timed_await_helper(calls, function->vm->vm->executor, call);
  baton_lua_leave(L);
  return wake;
}

/* The call was not started, as the wait for a helper ended so. Raises an error, or the pending kill
   or interrupt. */
static l_noret give_up(lua_State *L, const struct ffi_function *function,
    const struct ffi_timed_calls *calls, const struct ffi_timed_call *call,
    struct baton_wake wake) {
  const int is_had = wake.reason == BATON_DONE;
  baton_lua_enter(L);
  baton_ffi_timed_take_back(function->vm->vm->executor, call);
  baton_lua_leave(L);
  discard(L, call);
  if (is_had) baton_ffi_timed_release_helper(calls);
  baton_lua_after_wait(L, baton_lua_here(L), wake);
  if (is_had) luaL_error(L, "no thread for '%s': the system refuses another one", function->name);
  luaL_error(L,
      "'%s' timed out while it waited for a thread: %d calls with a timeout are going on, "
      "abandoned ones included (process.params.max_threads)",
      function->name, baton_ffi_timed_in_progress(calls));
  abort();
}

void baton_ffi_call_timed(lua_State *L, struct ffi_function *function,
    const struct ffi_prepared *prepared, void **arguments, void *result) {
  struct baton_process *process = baton_lua_here(L);
  const struct ffi_timed_calls *calls = prepare(L, process->vm);
  const struct ffi_timed_call *call;
  struct baton_wake wake;
  free_returned(L, calls);
  call = begin(L, function, calls);
  pin_stack(L, call);
  wake = await_helper(L, function, calls, call);
  if (wake.reason != BATON_DONE || baton_lua_kill_is_due(process) ||
      !baton_ffi_timed_start(
          calls, call, process->ffi_errno, prepared, function->address, arguments, result))
    give_up(L, function, calls, call, wake);
  baton_lua_enter(L);
  wake = baton_ffi_timed_await_end(calls, process->vm->executor, call, &process->ffi_errno);
  baton_lua_leave(L);
  if (wake.reason == BATON_DONE) {
    discard(L, call);
    baton_lua_after_wait(L, process, wake); /* a kill may have come at the same time */
    return;
  }
  baton_lua_after_wait(L, process, wake);
  luaL_error(L, "'%s' timed out", function->name);
}

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
