/*
** The options of process.spawn: a table. Each key must be known, and each value must have the right
** type and range.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/checks.h"

#include <string.h>

static const char *const option_names[] = {"name", "priority", "preemptible", "suspended", "daemon",
    "quiet", "decay", "thread", "stack_size", "time_left", NULL};

/* Raises an error for an unknown option. */
static void check_option_names(lua_State *L, int index) {
  lua_pushnil(L);
  while (lua_next(L, index)) {
    int i = 0;
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    while (key != NULL && option_names[i] != NULL && strcmp(key, option_names[i]) != 0) i++;
    if (key == NULL || option_names[i] == NULL) {
      luaL_tolstring(L, -2, NULL);
      luaL_argerror(L, index, lua_pushfstring(L, "unknown option '%s'", lua_tostring(L, -1)));
    }
    lua_pop(L, 1);
  }
}

static int boolean_option(lua_State *L, int index, const char *name, int otherwise) {
  int value = otherwise, type = lua_getfield(L, index, name);
  if (type != LUA_TNIL) {
    if (type != LUA_TBOOLEAN)
      luaL_argerror(L, index,
          lua_pushfstring(L, "option '%s': boolean expected, got %s", name, luaL_typename(L, -1)));
    value = lua_toboolean(L, -1);
  }
  lua_pop(L, 1);
  return value;
}

static lua_Integer integer_option(
    lua_State *L, int index, const char *name, lua_Integer low, lua_Integer high) {
  lua_Integer value = 0;
  int type = lua_getfield(L, index, name), is_integer = 1;
  if (type != LUA_TNIL) {
    if (type == LUA_TNUMBER) value = lua_tointegerx(L, -1, &is_integer);
    if (type != LUA_TNUMBER || !is_integer)
      luaL_argerror(L, index,
          lua_pushfstring(L, "option '%s': integer expected, got %s", name, luaL_typename(L, -1)));
    if (value < low || value > high)
      luaL_argerror(L, index,
          lua_pushfstring(
              L, "option '%s' out of range (%I to %I)", name, (LUAI_UACINT)low, (LUAI_UACINT)high));
  }
  lua_pop(L, 1);
  return value;
}

static baton_timeout time_option(lua_State *L, int index, const char *name) {
  baton_timeout time = BATON_FOREVER;
  const int type = lua_getfield(L, index, name);
  if (type != LUA_TNIL) {
    if (type != LUA_TNUMBER || lua_tonumber(L, -1) != lua_tonumber(L, -1)) {
      const char *got = type == LUA_TNUMBER ? "NaN" : luaL_typename(L, -1);
      luaL_argerror(
          L, index, lua_pushfstring(L, "option '%s': number expected, got %s", name, got));
    }
    time = baton_lua_read_timeout(L, lua_gettop(L));
  }
  lua_pop(L, 1);
  return time;
}

#define LEAST_STACK (64 * 1024)
#define MOST_STACK ((lua_Integer)1 << 32)

void baton_lua_read_spawn_options(
    lua_State *L, int index, struct baton_spawn_options *options, baton_timeout *time_left) {
  int type;
  check_option_names(L, index);
  options->priority = (int)integer_option(L, index, "priority", 1, 80);
  options->stack_size = (size_t)integer_option(L, index, "stack_size", LEAST_STACK, MOST_STACK);
  options->preemptible = boolean_option(L, index, "preemptible", 1);
  options->suspended = boolean_option(L, index, "suspended", 0);
  options->daemon = boolean_option(L, index, "daemon", 0);
  options->quiet = boolean_option(L, index, "quiet", 0);
  options->decay = boolean_option(L, index, "decay", 0);
  *time_left = time_option(L, index, "time_left");
  type = lua_getfield(L, index, "thread");
  if (type != LUA_TNIL) {
    char fault[BATON_MESSAGE];
    size_t length;
    const char *name;
    if (type != LUA_TSTRING)
      luaL_argerror(L, index,
          lua_pushfstring(L, "option 'thread': string expected, got %s", luaL_typename(L, -1)));
    name = lua_tolstring(L, -1, &length);
    baton_lua_check_thread_name(name, length, fault, sizeof fault);
    if (fault[0] != '\0') luaL_argerror(L, index, lua_pushfstring(L, "option 'thread': %s", fault));
    memcpy(options->thread, name, length + 1);
  }
  lua_pop(L, 1);
  type = lua_getfield(L, index, "name");
  if (type != LUA_TNIL && type != LUA_TSTRING)
    luaL_argerror(L, index,
        lua_pushfstring(L, "option 'name': string expected, got %s", luaL_typename(L, -1)));
}
