/* A module that stores a lua_State, as many do, and calls functions on it later, from any
   process that calls the module. */
#include <lauxlib.h>
#include <lua.h>

static lua_State *at_load = NULL;
static lua_State *remembered = NULL;

/* Calls the function on top of `from` with one argument on the state `on`. Returns its result or
   raises its error. */
static int call_on(lua_State *on, lua_State *from) {
  luaL_checktype(from, 1, LUA_TFUNCTION);
  lua_settop(from, 2);
  if (!lua_checkstack(on, 4)) return luaL_error(from, "no room on the stored state");
  lua_xmove(from, on, 2);
  int status = lua_pcall(on, 1, 1, 0);
  lua_xmove(on, from, 1);
  if (status != LUA_OK) return lua_error(from);
  return 1;
}

static int call_at_load(lua_State *L) { return call_on(at_load, L); }

static int remember(lua_State *L) {
  remembered = L;
  return 0;
}

static int call_remembered(lua_State *L) {
  if (remembered == NULL) return luaL_error(L, "nothing remembered");
  return call_on(remembered, L);
}

static int call_main(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main_state = lua_tothread(L, -1);
  lua_pop(L, 1);
  if (main_state == L) return luaL_error(L, "called by the main state itself");
  return call_on(main_state, L);
}

static const luaL_Reg functions[] = {
    {"call_at_load", call_at_load},
    {"remember", remember},
    {"call_remembered", call_remembered},
    {"call_main", call_main},
    {NULL, NULL},
};

int luaopen_stored_state(lua_State *L) {
  at_load = L;
  luaL_newlib(L, functions);
  return 1;
}
