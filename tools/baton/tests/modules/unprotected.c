/* Raises an error on a new thread that has no protected call of its own. */
#include <lauxlib.h>
#include <lua.h>

static int raise(lua_State *L) { return luaL_error(L, "raised on a bare thread"); }

static int raise_on_new_thread(lua_State *L) {
  lua_State *bare = lua_newthread(L);
  lua_pushcfunction(bare, raise);
  lua_call(bare, 0, 0);
  return luaL_error(L, "the error was lost");
}

static const luaL_Reg functions[] = {{"raise_on_new_thread", raise_on_new_thread}, {NULL, NULL}};

int luaopen_unprotected(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
