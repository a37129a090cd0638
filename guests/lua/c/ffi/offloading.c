/*
** Decides which calls are offloaded: made on another native thread from the start.
**
** bindings/ffi/src/learning.rs learns how long the calls of each function take:
**
**   known to be long    The call is offloaded. The VM stays on its thread, with its warm cache.
**   not known           The call is made on the caller's thread. If it takes long, the monitor
**                       retakes the VM and notes the function as long at once. Other callers need
**                       not wait until the first call returns.
**   known to be short   `skip` counts down, and nothing else happens. So a short call costs a
**                       decrement and does not read the clock.
*/
#include "ffi/inside.h"

enum choice { CHOICE_STAY, CHOICE_MEASURE, CHOICE_OFFLOAD, CHOICE_TRY };

/* Whether another process could run during the call, and this one can change threads. Inside the
   VM. */
static int may_offload(const struct ffi_function *function, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  if (vm->living <= baton_ffi_listeners(function->vm) || process->foreign_states > 0) return 0;
  return !baton_lua_has_foreign_frames(process);
}

/* Before a call that may take long: waits for a native thread if they are short, as other blocking
   calls do. Inside the VM. */
static void await_thread(lua_State *L, struct baton_process *process) {
  struct baton_wake wake;
  if (l_likely(!process->vm->threads_are_short) || process->foreign_states > 0 ||
      baton_lua_is_waited_for(process))
    return;
  wake = baton_wait_for_thread(process->vm->executor);
  baton_lua_leave(L);
  baton_lua_after_wait(L, process, wake);
  baton_lua_enter(L);
}

static enum choice choose(struct ffi_function *function) {
  enum choice choice = (enum choice)baton_ffi_policy_choose(
      function->policy, function->ahead, &function->skip);
  function->ahead = function->skip;
  return choice;
}

void baton_ffi_ask(lua_State *L, struct ffi_function *function, struct ffi_outer_call *call) {
  struct baton_process *process = baton_lua_running(L);
  enum choice choice;
  if (process == NULL || process->vm->closing || baton_simulated) return;
  baton_lua_enter(L);
  choice = choose(function);
  if (choice == CHOICE_OFFLOAD || choice == CHOICE_TRY) await_thread(L, process);
  if (choice == CHOICE_TRY) choice = choose(function); /* it may have learned meanwhile */
  if (choice != CHOICE_OFFLOAD || !may_offload(function, process) ||
      baton_lua_offload(process) != BATON_OFFLOADED)
    baton_lua_leave(L);
  if (choice != CHOICE_STAY) call->began = baton_now();
}

void baton_ffi_learn(
    lua_State *L, struct ffi_function *function, const struct ffi_outer_call *call) {
  const void *executor = call->process->vm->executor;
  uint64_t took = call->began != 0 ? baton_now() - call->began : 0;
  baton_lua_enter(L);
  if (call->called_back) baton_lua_mark_frame(L, 0);
  if (call->called_back) /* counts as short: each callback would have to switch threads */
    baton_ffi_set_skip(
        function, baton_ffi_policy_measured(function->policy, 0, baton_window(executor)));
  else
    baton_ffi_set_skip(
        function, baton_ffi_policy_measured(function->policy, took, baton_window(executor)));
  baton_lua_leave(L);
}

void baton_ffi_note_retaken(lua_State *L) {
  struct ffi_function *function = baton_ffi_running_function(L);
  /* Relaxed: see baton_ffi_set_skip */
  uint32_t left = __atomic_load_n(&function->skip, __ATOMIC_RELAXED);
  baton_ffi_set_skip(function, baton_ffi_policy_retaken(function->policy, function->ahead - left));
}

static int declare(lua_State *L, enum ffi_class class) {
  struct ffi_function *function = baton_ffi_test_function(L, 1);
  if (function == NULL) return luaL_typeerror(L, 1, "function of C");
  baton_lua_caller(L);
  baton_ffi_declare_class(function, class);
  lua_settop(L, 1);
  return 1;
}

/* ffi.blocking(fn) -> fn */
int baton_ffi_blocking(lua_State *L) { return declare(L, FFI_LONG); }

/* ffi.nonblocking(fn) -> fn */
int baton_ffi_nonblocking(lua_State *L) { return declare(L, FFI_SHORT); }
