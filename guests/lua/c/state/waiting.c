/*
** The calling process and its waits: where it may wait, and what it raises or returns afterwards.
*/
#include "state/checks.h"

#include <errno.h>
#include <math.h>
#include <poll.h>

/* {======================================================
** Functions of a program that wait
** ======================================================= */

struct baton_process *baton_lua_caller(lua_State *L) { return baton_inline_caller(L); }

void baton_lua_check_may_wait(lua_State *L, struct baton_process *process) {
  baton_inline_check_may_wait(L, process);
}

baton_timeout baton_lua_check_timeout(lua_State *L, int index) {
  return baton_inline_check_timeout(L, index);
}

int baton_lua_after_wait(lua_State *L, struct baton_process *process, struct baton_wake wake) {
  return baton_inline_after_wait(L, process, wake);
}

void baton_lua_refuse_caller(lua_State *L) {
  luaL_error(L, "no processes here: the program is ending, or this thread is not Baton's");
}

void baton_lua_refuse_wait(lua_State *L, const struct baton_process *process) {
  if (process == process->vm->hook_process)
    luaL_error(L, "cannot wait in a scheduler or a switch hook");
  luaL_error(L, "cannot wait inside a call on a state that belongs to another process");
}

baton_timeout baton_lua_read_timeout(lua_State *L, int index) {
  lua_Number seconds;
  if (lua_isnil(L, index)) return BATON_FOREVER;
  seconds = luaL_checknumber(L, index);
  luaL_argcheck(L, seconds == seconds, index, "number expected, got NaN");
  if (seconds <= 0) return 0;
  if (seconds > 9.0e9) return BATON_FOREVER; /* 285 years */
  seconds = ceil(seconds * 1e9);
  return (baton_timeout)seconds;
}

void baton_lua_end_wait(lua_State *L, struct baton_process *process, int reason) {
  if (reason == BATON_INTERRUPTED) process->interrupted = 1;
  if (process->killed && process->holds > 0) {
    baton_lua_enter(L);
    baton_lua_count_hold(process);
    baton_lua_leave(L);
  }
  baton_lua_raise_pending(L, process);
  if (reason == BATON_FORBIDDEN) luaL_error(L, "cannot wait inside process.critical");
}

int baton_lua_push_outcome(lua_State *L, int reason) {
  switch (reason) {
    case BATON_DONE: lua_pushboolean(L, 1); return 1;
    case BATON_ABANDONED: lua_pushboolean(L, 1); lua_pushliteral(L, "abandoned"); return 2;
    case BATON_TIMED_OUT: lua_pushnil(L); lua_pushliteral(L, "timeout"); return 2;
    case BATON_CLOSED: lua_pushnil(L); lua_pushliteral(L, "closed"); return 2;
    default: lua_pushnil(L); lua_pushliteral(L, "dead"); return 2;
  }
}

/* }====================================================== */

/* {======================================================
** Calls that may block
** ======================================================= */

/* In a callback, a call in progress waits for the process. Its native thread is free only
   afterwards. */
int baton_lua_is_waited_for(const struct baton_process *process) {
  return process->ffi_call != NULL || process->serves_callback;
}

/*
** Called before a function that may block. At the limit of native threads, the process first waits
** for a thread. It does not wait if a call that holds one may be waiting for it. Outside the VM.
*/
void baton_lua_before_blocking(lua_State *L, struct baton_process *process) {
  struct baton_wake wake;
  if (process == NULL || process->vm->outstanding == 0 || process->vm->closing ||
      process->foreign_states > 0)
    return;
  if (baton_lua_is_waited_for(process)) return;
  baton_lua_enter(L);
  wake = baton_wait_for_thread(process->vm->executor);
  baton_lua_leave(L);
  baton_lua_after_wait(L, process, wake);
}

/* }====================================================== */

/* {======================================================
** Waits for a descriptor in a frame of ours
** ======================================================= */

int baton_lua_is_on_own_stack(const struct baton_process *process) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return here >= process->stack_low && here < process->stack_high;
}

static int may_wait(const struct baton_process *process) {
  const struct baton_lua_vm *vm = process->vm;
  if (process->global == NULL || vm->closing || vm->hook_process == process) return 0;
  return process->foreign_states == 0 && process->criticals == 0 &&
      baton_lua_is_on_own_stack(process);
}

int baton_lua_may_wait_here(const struct baton_process *process) {
  return may_wait(process) && (process->marks == NULL || !baton_lua_is_in_finalizer(process));
}

int baton_lua_may_wait_beside_others(const struct baton_process *process) {
  if (process == NULL || baton_simulated || process->vm->living == 0) return 0;
  return may_wait(process) && (baton_gate_here()->gate & 1) != 0;
}

int baton_lua_is_ready(int descriptor, int writes) {
  struct pollfd asked = {descriptor, writes ? POLLOUT : POLLIN, 0};
  int result;
  do {
    result = poll(&asked, 1, 0);
  } while (result < 0 && errno == EINTR);
  return result != 0;
}

int baton_lua_await_descriptor(
    const struct baton_process *process, int descriptor, int writes, uint64_t deadline) {
  const struct baton_watch watch = {
      (uint32_t)descriptor, writes ? BATON_WANTS_WRITE : BATON_WANTS_READ};
  const void *vm = process->vm->executor;
  return baton_await_ready(vm, &watch, 1, 0, baton_harvests(vm), deadline);
}

/* }====================================================== */
