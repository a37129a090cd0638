/* A host with modules that are linked into its executable, as embedders have them. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

void baton_lua_openlibs(lua_State *L);
int luaopen_blocker(lua_State *L);
int luaopen_latch(lua_State *L);

/* push_again(f) -> f, pushed by this file, whatever C function it is */
static int push_again(lua_State *L) {
  lua_pushcfunction(L, lua_tocfunction(L, 1));
  return 1;
}

/* The body of the main process: runs the chunk in the environment variable LINKED_CHUNK. */
int linked_host(lua_State *L) {
  baton_lua_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_blocker);
  lua_setfield(L, -2, "blocker");
  lua_pushcfunction(L, luaopen_latch);
  lua_setfield(L, -2, "latch");
  lua_register(L, "push_again", push_again);
  lua_settop(L, 0);
  if (luaL_dostring(L, getenv("LINKED_CHUNK")) != LUA_OK) return lua_error(L);
  lua_pushinteger(L, 0);
  return 1;
}

void linked_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fprintf(stderr, "%s\n", message != NULL ? message : "(no message)");
  lua_pop(L, 1);
}
