/* The module `calls` for Lua 5.4: the functions of calls.h, bound by hand. */

#include "calls.h"

#include "lauxlib.h"
#include "lua.h"

static int spin(lua_State *L) {
  lua_pushinteger(L, calls_spin((int)luaL_checkinteger(L, 1)));
  return 1;
}

static int sleep(lua_State *L) {
  lua_pushinteger(L, calls_sleep((int)luaL_checkinteger(L, 1)));
  return 1;
}

static int now(lua_State *L) {
  lua_pushnumber(L, calls_now());
  return 1;
}

static const luaL_Reg functions[] = {{"spin", spin}, {"sleep", sleep}, {"now", now}, {NULL, NULL}};

LUAMOD_API int luaopen_calls(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
