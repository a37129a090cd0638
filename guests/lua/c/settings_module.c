/*
** process.params, process.features() and process.stats().
*/
#include "guest.h"

#include <stdio.h>
#include <string.h>

static int params_index(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  const char *name = luaL_checkstring(L, 2);
  double value = 0;
  int type = baton_rs_parameter(caller->vm->executor, name, &value);
  if (type == 0) luaL_error(L, "unknown parameter '%s'", name);
  if (type == 2)
    lua_pushboolean(L, value != 0);
  else if (value == (double)(lua_Integer)value && strcmp(name, "slice") != 0)
    lua_pushinteger(L, (lua_Integer)value);
  else
    lua_pushnumber(L, value);
  return 1;
}

static int params_newindex(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  const char *name = luaL_checkstring(L, 2);
  char message[160];
  double value;
  int type = baton_rs_parameter(caller->vm->executor, name, &value);
  if (type == 0) luaL_error(L, "unknown parameter '%s'", name);
  if (type == 2) {
    if (!lua_isboolean(L, 3)) luaL_error(L, "parameter '%s': boolean expected, got %s", name, luaL_typename(L, 3));
    value = lua_toboolean(L, 3);
  } else {
    if (lua_type(L, 3) != LUA_TNUMBER) luaL_error(L, "parameter '%s': number expected, got %s", name, luaL_typename(L, 3));
    value = lua_tonumber(L, 3);
  }
  message[0] = '\0';
  if (baton_rs_set_parameter(caller->vm->executor, name, value, message, sizeof message) != 1)
    luaL_error(L, "parameter '%s': %s", name, message);
  return 0;
}

/* for name, value in pairs(process.params) */
static int params_next(lua_State *L) {
  lua_Integer index = lua_tointeger(L, lua_upvalueindex(1));
  const char *name = baton_rs_parameter_name((size_t)index);
  if (name == NULL) return 0;
  lua_pushinteger(L, index + 1);
  lua_replace(L, lua_upvalueindex(1));
  lua_pushstring(L, name);
  lua_getfield(L, 1, name);
  return 2;
}

static int params_pairs(lua_State *L) {
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, params_next, 1);
  lua_pushvalue(L, 1);
  return 2;
}

static int process_features(lua_State *L) {
  size_t i;
  const char *name, *text;
  int flag;
  lua_newtable(L);
  for (i = 0; (name = baton_rs_feature(i, &text, &flag)) != NULL; i++) {
    if (text != NULL)
      lua_pushstring(L, text);
    else
      lua_pushboolean(L, flag);
    lua_setfield(L, -2, name);
  }
  return 1;
}

static int process_stats(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  size_t i;
  lua_newtable(L);
  for (i = 0;; i++) {
    uint64_t value = 0;
    const char *name;
    baton_enter(L);
    name = baton_rs_counter(caller->vm->executor, i, &value);
    baton_leave(L);
    if (name == NULL) break;
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
  }
  return 1;
}

static const luaL_Reg functions[] = {{"concurrent", baton_lua_concurrent}, {"features", process_features}, {"stats", process_stats}, {NULL, NULL}};

/* Adds them to the module's table on the top of the stack. */
void baton_lua_open_settings(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  lua_newtable(L);
  lua_createtable(L, 0, 4);
  lua_pushcfunction(L, params_index);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, params_newindex);
  lua_setfield(L, -2, "__newindex");
  lua_pushcfunction(L, params_pairs);
  lua_setfield(L, -2, "__pairs");
  lua_pushliteral(L, "baton.params");
  lua_setfield(L, -2, "__name");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "params");
}
