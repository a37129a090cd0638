/*
** Which calls are made on another native thread from the beginning.
**
** How long a function's calls take is learned (bindings/ffi/src/learning.rs): a known-long one
** moves, and the VM stays with its warm cache; all others are made where the caller is, and if one
** of them lasts, the monitor retakes the VM, and says so at once: others that are about to call the
** function need not wait until the first call returns. While a function is known to be short,
** `skip` counts down and nothing else is done; so a short call costs a decrement, and no look at
** the clock.
**
** A thread on which foreign frames of others wait (a callback that sleeps, say) makes no call that
** is not known to be short, first calls included: these move, too, or those others would wait for
** the call.
*/
#include "ffi/inside.h"

enum choice { CHOICE_STAY, CHOICE_MEASURE, CHOICE_MOVE, CHOICE_TRY };

/* Somebody could run while the process is out, and it may go on on another thread. Inside the
   VM. */
static int may_move(const struct ffi_function *function, struct baton_process *process) {
  struct baton_vm *vm = process->vm;
  if (vm->living <= baton_ffi_listeners(function->vm) || process->foreign_states > 0) return 0;
  return !baton_lua_has_foreign_frames(process);
}

/* A call that may last waits for its turn if native threads are short, as others that block do.
   Inside the VM. */
static void await_turn(lua_State *L, struct baton_process *process) {
  struct baton_wake wake;
  if (l_likely(!process->vm->threads_are_short) || process->foreign_states > 0 ||
      baton_lua_is_waited_for(process))
    return;
  wake = baton_rs_wait_for_thread(process->vm->executor);
  baton_leave(L);
  baton_lua_after_wait(L, process, wake);
  baton_enter(L);
}

static enum choice choose(struct ffi_function *function) {
  enum choice choice =
      (enum choice)baton_ffi_policy_choose(function->policy, function->ahead, &function->skip);
  function->ahead = function->skip;
  return choice;
}

void baton_ffi_ask(lua_State *L, struct ffi_function *function, struct ffi_outer_call *call) {
  struct baton_process *process = baton_lua_running(L);
  enum choice choice;
  if (process == NULL || process->vm->closing || baton_simulated) return;
  baton_enter(L);
  choice = choose(function);
  if ((choice == CHOICE_MEASURE || choice == CHOICE_TRY) &&
      baton_rs_thread_is_needed(process->vm->executor))
    choice = CHOICE_MOVE;
  if (choice == CHOICE_MOVE || choice == CHOICE_TRY) await_turn(L, process);
  if (choice == CHOICE_TRY) choice = choose(function); /* more may be known by now */
  if (choice != CHOICE_MOVE || !may_move(function, process) ||
      baton_lua_move_out(process) != BATON_MOVED)
    baton_leave(L);
  if (choice != CHOICE_STAY) call->began = baton_rs_now();
}

void baton_ffi_learn(
    lua_State *L, struct ffi_function *function, const struct ffi_outer_call *call) {
  const void *executor = call->process->vm->executor;
  uint64_t took = call->began != 0 ? baton_rs_now() - call->began : 0;
  baton_enter(L);
  if (call->called_back) baton_lua_mark_frame(L, 0);
  if (call->called_back) /* as one that is short: each callback would have to come after it */
    baton_ffi_set_skip(
        function, baton_ffi_policy_measured(function->policy, 0, baton_rs_window(executor)));
  else
    baton_ffi_set_skip(
        function, baton_ffi_policy_measured(function->policy, took, baton_rs_window(executor)));
  baton_leave(L);
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
