/* A module that keeps the address of the Lua thread that called it, as lsqlite3 does. */
#include <lauxlib.h>
#include <lua.h>

static lua_State *kept;

static int keep(lua_State *L) {
  kept = L;
  return 0;
}

/* Whether it is called on the kept thread. */
static int is_kept(lua_State *L) {
  lua_pushboolean(L, L == kept);
  return 1;
}

/* Calls f on the kept thread. */
static int call(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_checkstack(kept, 2, NULL);
  lua_pushvalue(L, 1);
  lua_xmove(L, kept, 1);
  lua_pushboolean(L, lua_pcall(kept, 0, 0, 0) == LUA_OK);
  return 1;
}

int luaopen_keeps_state(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"keep", keep}, {"is_kept", is_kept}, {"call", call}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
