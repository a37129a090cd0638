/* A module that keeps a lua_State and calls functions on it from whatever process calls the
   module, as bindings of callbacks do. */
#include <lauxlib.h>
#include <lua.h>

static lua_State *kept;

/* Keeps the state that it is called on. */
static int keep(lua_State *L) {
  kept = L;
  return 0;
}

/* Keeps the main state. */
static int keep_main(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  kept = lua_tothread(L, -1);
  return 0;
}

/* keep_thread(co) */
static int keep_thread(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTHREAD);
  kept = lua_tothread(L, 1);
  return 0;
}

/* Moves the function and its arguments to the kept state. Returns how many arguments there are. */
static int move_there(lua_State *L) {
  const int count = lua_gettop(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (kept == NULL || !lua_checkstack(kept, count + LUA_MINSTACK))
    return luaL_error(L, "no state, or no room on it");
  lua_xmove(L, kept, count);
  return count - 1;
}

/* pcall(f, ...) -> as pcall does, of a call on the kept state. Fails if that state is not as it
   was. */
static int pcall_there(lua_State *L) {
  const int top = kept == L ? -1 : lua_gettop(kept);
  const int status = lua_pcall(kept, move_there(L), 1, 0);
  if (kept != L) lua_xmove(kept, L, 1);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, -2);
  if (kept != L && lua_gettop(kept) != top) return luaL_error(L, "the kept state has changed");
  return 2;
}

/* call(f, ...) -> the result of an unprotected call on the kept state */
static int call_there(lua_State *L) {
  lua_call(kept, move_there(L), 1);
  if (kept != L) lua_xmove(kept, L, 1);
  return 1;
}

/* raise(value): raises it on the kept state, outside of any call there. */
static int raise_there(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  if (!lua_checkstack(kept, 1)) return luaL_error(L, "no room on the kept state");
  lua_xmove(L, kept, 1);
  return lua_error(kept);
}

/* here(f): calls it by lua_call, twice nested. */
static int call_here(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (lua_toboolean(L, lua_upvalueindex(1))) {
    lua_call(L, 0, 1);
    return 1;
  }
  lua_pushboolean(L, 1);
  lua_pushcclosure(L, call_here, 1);
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

/* raise_here(value) */
static int raise_here(lua_State *L) {
  lua_settop(L, 1);
  return lua_error(L);
}

int luaopen_other_states(lua_State *L) {
  static const luaL_Reg functions[] = {{"keep", keep}, {"keep_main", keep_main},
      {"keep_thread", keep_thread}, {"pcall", pcall_there}, {"call", call_there},
      {"raise", raise_there}, {"raise_here", raise_here}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_pushboolean(L, 0);
  lua_pushcclosure(L, call_here, 1);
  lua_setfield(L, -2, "here");
  return 1;
}
