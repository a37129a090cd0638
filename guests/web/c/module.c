/*
** The opening of the module: functions for the files of lua/.
*/
#include "web.h"

/* src/record.rs */
/* The text of a file of lua/. */
const char *baton_web_source(const char *name, size_t *size);

/* source(name) -> the chunk of a file of lua/, named "web" or "web/FILE" */
static int source(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  size_t size;
  const char *text = baton_web_source(name, &size);
  baton_module_load(L, name, text, size);
  return 1;
}

int baton_web_open(lua_State *L) {
  lua_pushcfunction(L, source);
  lua_pushliteral(L, "web");
  lua_call(L, 1, 1);
  lua_newtable(L);
  lua_pushcfunction(L, source);
  lua_setfield(L, -2, "source");
  baton_module_push(L, BATON_MODULE_REFUSE);
  lua_setfield(L, -2, "refuse");
  baton_web_open_tls(L);
  baton_web_open_websocket(L);
  baton_web_open_http2(L);
  lua_call(L, 1, 1);
  return 1;
}
