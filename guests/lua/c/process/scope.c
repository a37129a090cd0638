/*
** process.timeout, process.scope (lua/scope.lua), process.supervise (lua/supervise.lua) and
** process.pool (lua/pool.lua). The last three are written in Lua, so a process can be switched from
** and killed anywhere in them.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/checks.h"

#include <string.h>

/* {======================================================
** process.timeout(seconds, f, ...): a process that does not outlive the call
** ======================================================= */

/*
** A caller can only be switched from and killed where it waits. The guard is there before the
** process, and is closed when the call ends, however it ends. By then the process has ended, unless
** the call was left by an error: a kill, an interrupt. Then the guard ends the process and waits
** for that.
*/
struct guard {
  struct baton_process *child; /* its handle is the user value; NULL: there is none yet */
};

static int is_dead(const struct baton_process *process) { return process->outcome != BATON_ALIVE; }

/* Returns whether it has ended. */
static int await_end(lua_State *L, struct baton_process *caller, struct baton_process *child,
    baton_timeout timeout) {
  struct baton_wake wake;
  if (is_dead(child)) return 1;
  baton_inline_check_may_wait(L, caller);
  baton_lua_enter(L);
  wake = baton_join(caller->vm->executor, child->sched_id, timeout);
  baton_lua_leave(L);
  return baton_inline_after_wait(L, caller, wake) != BATON_TIMED_OUT || is_dead(child);
}

/* The guard's __close. */
static int end_child(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *child = ((struct guard *)lua_touserdata(L, 1))->child;
  if (child == NULL || is_dead(child)) return 0;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  baton_lua_end_other(L, caller, child, 2, "killed");
  baton_lua_raise_pending(L, caller);
  await_end(L, caller, child, BATON_FOREVER);
  return 0;
}

/* Raises the error of the child, whose handle is at index 2. A message handler's traceback
   continues with that of the child. */
static int raise_failure(lua_State *L, struct baton_process *child) {
  static const char begin[] = "stack traceback:";
  const char *trace;
  lua_settop(L, 2);
  baton_lua_push_results(L, child); /* false and the error */
  lua_pushcfunction(L, baton_lua_raise_with_trace);
  lua_pushvalue(L, 4);
  lua_getfield(L, 2, "name");
  lua_getfield(L, 2, "traceback");
  lua_pushvalue(L, 2);
  lua_call(L, 1, 1);
  trace = lua_tostring(L, -1);
  if (strncmp(trace, begin, sizeof begin - 1) == 0) trace += sizeof begin - 1;
  lua_pushfstring(L, "raised in process '%s':%s", lua_tostring(L, -2), trace);
  lua_replace(L, -3);
  lua_pop(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

/* The results of the call: those of the child count if it ended in time, or before its kill reached
   it. */
static int push_outcome(lua_State *L, struct baton_process *child) {
  int count;
  if (child->outcome == BATON_FAILED) return raise_failure(L, child);
  count = baton_lua_push_results(L, child);
  if (child->outcome == BATON_WAS_KILLED) {
    lua_pushnil(L);
    lua_replace(L, -1 - count);
  }
  return count;
}

/* Puts a guard that will be closed in the place of the first argument. */
static struct guard *push_guard(lua_State *L) {
  struct guard *guard = lua_newuserdatauv(L, sizeof *guard, 1);
  guard->child = NULL;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_setmetatable(L, -2);
  lua_replace(L, 1);
  lua_toclose(L, 1);
  return guard;
}

static int process_timeout(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *child;
  struct guard *guard;
  baton_timeout timeout;
  luaL_checktype(L, 1, LUA_TNUMBER);
  if (lua_tonumber(L, 1) != lua_tonumber(L, 1))
    luaL_argerror(L, 1, "number expected, got NaN");
  luaL_checktype(L, 2, LUA_TFUNCTION);
  if (lua_tonumber(L, 1) <= 0) return baton_lua_push_outcome(L, BATON_TIMED_OUT);
  timeout = baton_inline_check_timeout(L, 1);
  guard = push_guard(L);
  child = baton_lua_spawn_quiet(L, caller, 2);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 1, 1);
  guard->child = child;
  baton_lua_limit_time(child, timeout);
  baton_lua_push_process(L, caller);
  lua_setiuservalue(L, 2, BATON_UV_DATA); /* its data are the caller's */
  if (!await_end(L, caller, child, timeout)) {
    lua_pushliteral(L, "timeout");
    baton_lua_kill_process(L, caller, child, 2);
    baton_lua_raise_pending(L, caller);
    await_end(L, caller, child, BATON_FOREVER);
  }
  return push_outcome(L, child);
}

static void open_timeout(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, end_child);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "process.timeout");
  lua_setfield(L, -2, "__name");
  lua_pushcclosure(L, process_timeout, 1);
  lua_setfield(L, -2, "timeout");
}

/* }====================================================== */

/* {======================================================
** Parts in Lua
** ======================================================= */

static int is_killed(lua_State *L) {
  lua_pushboolean(L, baton_lua_caller(L)->killed);
  return 1;
}

static int is_set(lua_State *L, int scope, const char *field) {
  int is = lua_getfield(L, scope, field) != LUA_TNIL;
  lua_pop(L, 1);
  return is;
}

/*
** As process.spawn, for the scope in upvalue 1. The process becomes a child of the scope before it
** can run, and before a kill can reach the caller. Returns nothing if the scope takes no more
** processes.
*/
static int spawn_child(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L), *child = baton_lua_spawn(L);
  const int scope = lua_upvalueindex(1);
  if (is_set(L, scope, "is_over") || is_set(L, scope, "failure") || is_set(L, scope, "cancelled")) {
    baton_lua_end_unstarted(L, child);
    return 0;
  }
  if (lua_getfield(L, scope, "children") != LUA_TTABLE)
    luaL_error(L, "the scope has no table of children any more");
  lua_pushvalue(L, 1);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_settop(L, 1);
  baton_lua_enter(L);
  baton_give_way(caller->vm->executor);
  baton_lua_leave(L);
  return 1;
}

static int spawner_of(lua_State *L) {
  lua_settop(L, 1);
  lua_pushcclosure(L, spawn_child, 1);
  return 1;
}

/* How a process has ended: "returned", "failed" or "killed". Pushes nil if it is alive. */
static int ending_of(lua_State *L) {
  static const char *const endings[] = {NULL, "returned", "failed", "killed"};
  lua_pushstring(L, endings[baton_lua_check_process(L, 1)->outcome]);
  return 1;
}

/* Each gets the table in which it sets its functions. */

static int load_scope(lua_State *L) {
  baton_lua_load_part(L, "scope", "=process.scope");
  lua_pushvalue(L, 1);
  lua_pushcfunction(L, is_killed);
  lua_pushcfunction(L, baton_lua_end_process);
  lua_pushcfunction(L, spawner_of);
  lua_pushcfunction(L, ending_of);
  lua_pushcfunction(L, baton_lua_raise_with_trace);
  lua_pushcfunction(L, baton_lua_refuse_argument);
  lua_pushcfunction(L, baton_lua_type_given);
  baton_lua_run_part(L, 8, 0);
  return 0;
}

static int load_supervise(lua_State *L) {
  baton_lua_load_part(L, "supervise", "=process.supervise");
  lua_pushvalue(L, 1);
  lua_pushcfunction(L, baton_lua_raise_with_trace);
  lua_pushcfunction(L, baton_lua_end_process);
  lua_pushcfunction(L, baton_lua_refuse_argument);
  lua_pushcfunction(L, baton_lua_type_given);
  baton_lua_run_part(L, 5, 0);
  return 0;
}

static int load_pool(lua_State *L) {
  baton_lua_load_part(L, "pool", "=process.pool");
  lua_pushvalue(L, 1);
  lua_pushcfunction(L, baton_lua_refuse_argument);
  lua_pushcfunction(L, baton_lua_type_given);
  baton_lua_run_part(L, 3, 0);
  return 0;
}

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_scope(lua_State *L) {
  static const char *const of_scope[] = {"scope", NULL};
  static const char *const of_supervise[] = {"supervise", NULL};
  static const char *const of_pool[] = {"pool", NULL};
  lua_pushcfunction(L, load_scope);
  baton_lua_load_later(L, of_scope, 0);
  lua_pushcfunction(L, load_supervise);
  baton_lua_load_later(L, of_supervise, 0);
  lua_pushcfunction(L, load_pool);
  baton_lua_load_later(L, of_pool, 0);
  open_timeout(L);
}

/* }====================================================== */
