/* process.scope, process.timeout (lua/scope.lua) and process.supervise (lua/supervise.lua). They
   are written in Lua, so a process can be switched from and killed anywhere in them. */
#include "process/process.h"
#include "state/state.h"

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

/* Both get the table in which they set their functions. */

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
  lua_call(L, 8, 0);
  return 0;
}

static int load_supervise(lua_State *L) {
  baton_lua_load_part(L, "supervise", "=process.supervise");
  lua_pushvalue(L, 1);
  lua_pushcfunction(L, baton_lua_raise_with_trace);
  lua_pushcfunction(L, baton_lua_end_process);
  lua_pushcfunction(L, baton_lua_refuse_argument);
  lua_pushcfunction(L, baton_lua_type_given);
  lua_call(L, 5, 0);
  return 0;
}

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_scope(lua_State *L) {
  static const char *const of_scope[] = {"scope", "timeout", NULL};
  static const char *const of_supervise[] = {"supervise", NULL};
  lua_pushcfunction(L, load_scope);
  baton_lua_load_later(L, of_scope, 0);
  lua_pushcfunction(L, load_supervise);
  baton_lua_load_later(L, of_supervise, 0);
}
