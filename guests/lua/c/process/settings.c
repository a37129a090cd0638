/*
** process.params, process.features() and process.stats().
*/
#include "process/process.h"
#include "calls/calls.h"
#include "state/state.h"

#include <string.h>

/* Called when the parameter max_threads may have changed. Inside the VM. */
static void (*limit_hook)(struct baton_lua_vm *vm);

void baton_lua_set_limit_hook(void (*tell)(struct baton_lua_vm *vm)) {
  limit_hook = tell;
}

static int params_index(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  const char *name = luaL_checkstring(L, 2), *text = NULL;
  double value = 0;
  switch (baton_parameter(caller->vm->executor, name, &value, &text)) {
    case BATON_NUMBER: lua_pushnumber(L, value); break;
    case BATON_WHOLE: lua_pushinteger(L, (lua_Integer)value); break;
    case BATON_SWITCH: lua_pushboolean(L, value != 0); break;
    case BATON_WORD: lua_pushstring(L, text); break;
    default: luaL_error(L, "unknown parameter '%s'", name);
  }
  return 1;
}

static void check_kind(lua_State *L, const char *name, int type) {
  if (lua_type(L, 3) != type)
    luaL_error(
        L, "parameter '%s': %s expected, got %s", name, lua_typename(L, type), luaL_typename(L, 3));
}

static int params_newindex(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  const char *name = luaL_checkstring(L, 2), *text = NULL;
  char message[160];
  double value = 0;
  size_t length;
  int is_set;
  switch (baton_parameter(caller->vm->executor, name, &value, &text)) {
    case BATON_NUMBER:
    case BATON_WHOLE:
      check_kind(L, name, LUA_TNUMBER);
      value = lua_tonumber(L, 3);
      break;
    case BATON_SWITCH:
      check_kind(L, name, LUA_TBOOLEAN);
      value = lua_toboolean(L, 3);
      break;
    case BATON_WORD:
      check_kind(L, name, LUA_TSTRING);
      text = lua_tolstring(L, 3, &length);
      if (strlen(text) != length) luaL_error(L, "parameter '%s': string contains zeros", name);
      break;
    default: luaL_error(L, "unknown parameter '%s'", name);
  }
  message[0] = '\0';
  baton_lua_enter(L);
  is_set = baton_set_parameter(caller->vm->executor, name, value, text, message, sizeof message);
  baton_lua_watch_threads(caller->vm);
  limit_hook(caller->vm);
  baton_lua_leave(L);
  if (!is_set)
    luaL_error(L, "parameter '%s': %s", name, message);
  return 0;
}

/* for name, value in pairs(process.params) */
static int params_next(lua_State *L) {
  lua_Integer index = lua_tointeger(L, lua_upvalueindex(1));
  const char *name = baton_parameter_name((size_t)index);
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
  for (i = 0; (name = baton_feature(i, &text, &flag)) != NULL; i++) {
    if (text != NULL)
      lua_pushstring(L, text);
    else
      lua_pushboolean(L, flag);
    lua_setfield(L, -2, name);
  }
  return 1;
}

static int process_stats(lua_State *L) {
  const void *executor = baton_lua_caller(L)->vm->executor;
  struct baton_counter *counters;
  size_t i, count;
  baton_lua_enter(L);
  count = baton_counters(executor, NULL, 0);
  baton_lua_leave(L);
  counters = lua_newuserdatauv(L, count * sizeof *counters, 0);
  baton_lua_enter(L);
  baton_counters(executor, counters, count);
  baton_lua_leave(L);
  lua_createtable(L, 0, (int)count);
  for (i = 0; i < count; i++) {
    if (counters[i].is_time)
      lua_pushnumber(L, (lua_Number)counters[i].value / 1e9);
    else
      lua_pushinteger(L, (lua_Integer)counters[i].value);
    lua_setfield(L, -2, counters[i].name);
  }
  return 1;
}

static const luaL_Reg functions[] = {{"concurrent", baton_lua_concurrent},
    {"features", process_features}, {"stats", process_stats}, {NULL, NULL}};

/* Pushes a table with the names of all parameters, for the prompt. */
static void push_names(lua_State *L) {
  const char *name;
  size_t i;
  lua_newtable(L);
  for (i = 0; (name = baton_parameter_name(i)) != NULL; i++) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, name);
  }
}

/* Adds the functions and `params` to the module's table on the top of the stack. */
void baton_lua_open_settings(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  lua_newtable(L);
  lua_createtable(L, 0, 4);
  push_names(L);
  lua_pushcclosure(L, params_index, 1);
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
