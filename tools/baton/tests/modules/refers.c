/* A module whose calls may overlap, and keep values by references in the registry. */
#include <lauxlib.h>
#include <lua.h>

/* refer(name, count) -> how many references did not lead to the value that they were made for */
static int refer(lua_State *L) {
  const lua_Integer name = luaL_checkinteger(L, 1), count = luaL_checkinteger(L, 2);
  lua_Integer i, wrong = 0;
  int references[8], j;
  for (i = 0; i < count; i++) {
    for (j = 0; j < 8; j++) {
      lua_pushinteger(L, name + j);
      references[j] = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    for (j = 0; j < 8; j++) {
      lua_rawgeti(L, LUA_REGISTRYINDEX, references[j]);
      wrong += lua_tointeger(L, -1) != name + j;
      lua_pop(L, 1);
      luaL_unref(L, LUA_REGISTRYINDEX, references[j]);
    }
  }
  lua_pushinteger(L, wrong);
  return 1;
}

int luaopen_refers(lua_State *L) {
  static const luaL_Reg functions[] = {{"refer", refer}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
