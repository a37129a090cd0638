/*
** require "baton.json": the interface and the results of lua-cjson. `baton.json.safe` has the same
** functions, and its encode and decode return nil and a message in place of an error.
*/
#include "json/inside.h"
#include "json/json.h"
#include "calls/calls.h"
#include "state/state.h"

/* The keys of the two metatables in the private table. */
static const char array_mt_key, empty_array_mt_key;

static int new_module(lua_State *L, int is_safe);
static int new_plain(lua_State *L) { return new_module(L, 0); }
static int new_safe(lua_State *L) { return new_module(L, 1); }

/* Pushes a metatable of the VM, which all module tables share. */
static void push_metatable(lua_State *L, const void *key) {
  baton_lua_push_private(L, key);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, key);
}

static int new_module(lua_State *L, int is_safe) {
  static const luaL_Reg functions[] = {
      {"encode", baton_json_encode}, {"decode", baton_json_decode}, {NULL, NULL}};
  struct baton_json_settings *settings;
  int upvalues;
  settings = (struct baton_json_settings *)lua_newuserdatauv(L, sizeof *settings, 0);
  upvalues = lua_gettop(L);
  baton_json_begin_settings(settings);
  settings->is_safe = (unsigned char)is_safe;
  push_metatable(L, &array_mt_key);
  push_metatable(L, &empty_array_mt_key);
  lua_createtable(L, 0, 24);
  lua_pushvalue(L, upvalues);
  lua_pushvalue(L, upvalues + 1);
  lua_pushvalue(L, upvalues + 2);
  luaL_setfuncs(L, functions, 3);
  baton_json_add_settings(L, upvalues);
  lua_pushcfunction(L, is_safe ? new_safe : new_plain);
  lua_setfield(L, -2, "new");
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  lua_pushlightuserdata(L, (void *)(uintptr_t)&baton_json_empty_array);
  lua_setfield(L, -2, "empty_array");
  lua_pushvalue(L, upvalues + 1);
  lua_setfield(L, -2, "array_mt");
  lua_pushvalue(L, upvalues + 2);
  lua_setfield(L, -2, "empty_array_mt");
  lua_pushstring(L, is_safe ? "baton.json.safe" : "baton.json");
  lua_setfield(L, -2, "_NAME");
  return 1;
}

static int open_module(lua_State *L, int is_safe) {
  baton_lua_note_function_that_gives_way(baton_json_encode);
  baton_lua_note_function_that_gives_way(baton_json_decode);
  return new_module(L, is_safe);
}

int baton_json_open(lua_State *L) { return open_module(L, 0); }

int baton_json_open_safe(lua_State *L) { return open_module(L, 1); }
