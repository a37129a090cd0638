/*
** Read-write locks, barriers, and the check for cycles of locks.
*/
#include "objects/waits.h"

#define BATON_CYCLE 4096 /* the maximal size of a cycle's description in bytes */

void baton_lua_check_cycle(lua_State *L, struct baton_handle *handle) {
  char cycle[BATON_CYCLE];
  int what;
  baton_lua_enter(L);
  what = baton_closes_cycle(handle->vm->executor, handle->kind, handle->id, cycle, sizeof cycle);
  baton_lua_leave(L);
  if (what == 2) luaL_error(L, "deadlock: %s", cycle);
  if (what == 1) lua_writestringerror("baton: warning: deadlock: %s\n", cycle);
}

/* {======================================================
** Read-write locks
** ======================================================= */

static int rwlock_new(lua_State *L) {
  struct baton_handle *handle;
  baton_lua_take_options(L);
  handle = baton_lua_new_handle(L, BATON_RWLOCK, sizeof *handle, 0);
  baton_lua_enter(L);
  handle->id = baton_rwlock_new(handle->vm->executor);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int rwlock_lock(lua_State *L, int writes) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_RWLOCK);
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT_FOR(L, caller,
      baton_rwlock_lock(
          handle->vm->executor, handle->id, writes, timeout == BATON_FOREVER ? 0 : timeout),
      baton_rwlock_give_back(handle->vm->executor, handle->id, is_abandoned_), reason);
  if (reason == BATON_TIMED_OUT && timeout == BATON_FOREVER) { /* others hold it or wait for it */
    baton_lua_check_cycle(L, handle);
    BATON_WAIT_FOR(L, caller,
        baton_rwlock_lock(handle->vm->executor, handle->id, writes, timeout),
        baton_rwlock_give_back(handle->vm->executor, handle->id, is_abandoned_), reason);
  }
  if (reason == BATON_MISUSE)
    luaL_error(L, "the lock is already held by this process (it is not recursive)");
  return baton_inline_push_outcome(L, reason);
}

static int rwlock_read(lua_State *L) { return rwlock_lock(L, 0); }
static int rwlock_write(lua_State *L) { return rwlock_lock(L, 1); }

static int rwlock_unlock(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_RWLOCK);
  int refused;
  baton_lua_enter(L);
  refused = baton_rwlock_unlock(handle->vm->executor, handle->id);
  baton_lua_leave(L);
  if (refused)
    luaL_error(L, "the lock is not held by this process (only who holds it can unlock it)");
  return 0;
}

/* }====================================================== */

/* {======================================================
** Barriers
** ======================================================= */

static int barrier_new(lua_State *L) {
  lua_Integer size;
  struct baton_handle *handle;
  baton_lua_take_options(L);
  size = luaL_checkinteger(L, 1);
  luaL_argcheck(L, size >= 1, 1, "number of processes must be positive");
  handle = baton_lua_new_handle(L, BATON_BARRIER, sizeof *handle, 0);
  baton_lua_enter(L);
  handle->id = baton_barrier_new(handle->vm->executor, (uint64_t)size);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int barrier_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_BARRIER);
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_wake wake;
  int reason;
  baton_lua_enter(L);
  wake = baton_barrier_wait(handle->vm->executor, handle->id, timeout);
  baton_lua_leave(L);
  reason = baton_inline_after_wait(L, caller, wake);
  if (reason != BATON_DONE || wake.value == 0) return baton_inline_push_outcome(L, reason);
  lua_pushboolean(L, 1);
  lua_pushliteral(L, "last");
  return 2;
}

/* }====================================================== */

static const luaL_Reg rwlock_methods[] = {
    {"read", rwlock_read}, {"write", rwlock_write}, {"unlock", rwlock_unlock}, {NULL, NULL}};
static const luaL_Reg barrier_methods[] = {{"wait", barrier_wait}, {NULL, NULL}};
static const luaL_Reg constructors[] = {
    {"rwlock", rwlock_new}, {"barrier", barrier_new}, {NULL, NULL}};

/* Adds the constructors to the module's table on the top of the stack. */
void baton_lua_open_locks(lua_State *L) {
  baton_lua_open_kind(L, BATON_RWLOCK, rwlock_methods, NULL);
  baton_lua_open_kind(L, BATON_BARRIER, barrier_methods, NULL);
  luaL_setfuncs(L, constructors, 0);
}
