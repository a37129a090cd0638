/* process.scope, which is written in Lua (lua/scope.lua): so it may be left, switched from and killed anywhere, like the functions that call it. */
#include "guest.h"

static int is_killed(lua_State *L) {
  lua_pushboolean(L, baton_lua_caller(L)->killed);
  return 1;
}

/* The module's table is on the top of the stack. */
void baton_lua_open_scope(lua_State *L) {
  size_t size;
  const char *source = baton_rs_lua_source("scope", &size);
  if (luaL_loadbufferx(L, source, size, "=process.scope", "t") != LUA_OK) lua_error(L);
  lua_pushvalue(L, -2);
  lua_pushcfunction(L, is_killed);
  lua_pushcfunction(L, baton_lua_end_process);
  lua_call(L, 3, 0);
}
