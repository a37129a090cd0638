/*
** require "baton.http". The loops and what is not called at each request are in Lua: they get a
** table with the functions of this folder.
*/
#include "http/inside.h"
#include "process/process.h"

/* Makes the metatable of a kind, and pushes it and its table of methods. */
static void open_type(lua_State *L, int kind, const char *name) {
  baton_lua_new_sealed_metatable(L, kind, name);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__index");
}

/* part(name, core): what a part in Lua returns */
static int load_part(lua_State *L) {
  lua_settop(L, 2);
  baton_lua_load_part(L, luaL_checkstring(L, 1), "=baton.http");
  lua_insert(L, 2);
  baton_lua_run_part(L, 1, 1);
  return 1;
}

int baton_http_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"server", baton_http_new_server},
      {"session", baton_http_new_session}, {"finish", baton_http_finish},
      {"fail", baton_http_fail}, {"upgrade", baton_http_upgrade}, {"part", load_part},
      {"routes", baton_http_new_route_table}, {"decode", baton_http_decode_text},
      {"answer", baton_http_read_answer}, {"reason", baton_http_push_reason},
      {"open", baton_http_open_file},
      {"below", baton_http_path_of_file}, {"kind", baton_http_kind_of_file},
      {"begin_file", baton_http_begin_file}, {"go_on", baton_http_go_on_with_file},
      {"packer", baton_http_new_packer_object}, {"takes_gzip", baton_http_check_gzip},
      {"is_text", baton_http_check_text}, {"set_fields", baton_http_set_fields},
      {"compresses", baton_http_compresses},
      {"pack_stream", baton_http_pack_stream}, {"pack_with", baton_http_pack_with},
      {"blame", baton_http_blame}, {"add", baton_http_add_field}, {NULL, NULL}};
  (void)baton_inline_caller(L);
  lua_settop(L, 0);
  lua_newtable(L);
  open_type(L, BATON_SEALED_HTTP_SERVER, "baton.http.server*");
  luaL_setfuncs(L, baton_http_server_methods, 0);
  lua_pushcfunction(L, baton_http_server_gc);
  lua_setfield(L, -3, "__gc");
  lua_pop(L, 2);
  open_type(L, BATON_SEALED_HTTP_SESSION, "baton.http.session*");
  baton_http_open_exchanges(L); /* leaves the methods */
  lua_setfield(L, 1, "methods");
  baton_lua_push_sealed_metatable(L, BATON_SEALED_HTTP_EXCHANGE); /* the upvalue of all of them */
  lua_pushcfunction(L, baton_http_end_stream);
  lua_setfield(L, -2, "__close");
  luaL_setfuncs(L, baton_http_session_methods, 1);
  lua_getfield(L, -1, "close");
  lua_setfield(L, -3, "__close");
  lua_pop(L, 2);
  baton_http_open_crate(L);
  baton_http_open_answers(L);
  baton_http_open_files(L);
  luaL_setfuncs(L, functions, 0);
  lua_newtable(L); /* methods that do not pack */
  luaL_setfuncs(L, baton_http_raw_methods, 0);
  lua_setfield(L, 1, "raw");
  lua_pushboolean(L, baton_simulated);
  lua_setfield(L, 1, "is_simulated");
  baton_lua_load_part(L, "http_server", "=baton.http");
  lua_pushvalue(L, 1);
  baton_lua_run_part(L, 1, 1);
  baton_lua_load_part(L, "http_websocket", "=baton.http");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  baton_lua_run_part(L, 2, 0);
  return 1;
}
