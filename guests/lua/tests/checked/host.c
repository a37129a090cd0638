/* Runs a scenario, or makes a mistake that a checker must find. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void baton_lua_openlibs(lua_State *L);

/* Uses a state that is closed. */
static int use_closed(lua_State *L) {
  lua_State *closed = luaL_newstate();
  lua_close(closed);
  lua_pushinteger(L, lua_gettop(closed));
  return 1;
}

/* The body of the main process. Its arguments are the program's: their count, and an array. */
int scenario_host(lua_State *L) {
  char **arguments = lua_touserdata(L, 2);
  const char *scenario = arguments[1];
  baton_lua_openlibs(L);
  lua_settop(L, 0);
  if (strcmp(scenario, "mistake") == 0) return use_closed(L);
  if (luaL_dofile(L, scenario) != LUA_OK) return lua_error(L);
  lua_pushinteger(L, 0);
  return 1;
}

void scenario_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fprintf(stderr, "%s\n", message != NULL ? message : "(no message)");
  lua_pop(L, 1);
}
