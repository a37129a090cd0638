/*
** The functions of the module that return its settings, and change them if they get an argument.
** Each module table has settings of its own (`new`). A call of encode or decode begins with a copy
** of them: another process may change them in its middle.
*/
#include "json/inside.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

void baton_json_begin_settings(struct baton_json_settings *settings) {
  memset(settings, 0, sizeof *settings);
  settings->encode_max_size = settings->decode_max_size = LUA_MAXINTEGER;
  settings->encode_max_depth = settings->decode_max_depth = 1000;
  settings->sparse_ratio = 2;
  settings->sparse_safe = 10;
  settings->precision = 14;
  settings->decode_invalid = BATON_JSON_TAKES;
  settings->keeps_buffer = 1;
  settings->empty_as_object = 1;
  settings->escapes_slash = 1;
}

/* The settings, after a check of the number of arguments. */
static struct baton_json_settings *begin(lua_State *L, int most) {
  struct baton_json_settings *settings = lua_touserdata(L, lua_upvalueindex(BATON_JSON_SETTINGS));
  luaL_argcheck(L, lua_gettop(L) <= most, most + 1, "found too many arguments");
  lua_settop(L, most);
  return settings;
}

/* Sets and pushes an integer. */
static void take_integer(
    lua_State *L, int arg, lua_Integer *value, lua_Integer low, lua_Integer high) {
  if (!lua_isnil(L, arg)) {
    const lua_Integer wanted = luaL_checkinteger(L, arg);
    if (wanted < low || wanted > high)
      luaL_argerror(L, arg,
          lua_pushfstring(L, "expected integer between %I and %I", (LUAI_UACINT)low,
              (LUAI_UACINT)high));
    *value = wanted;
  }
  lua_pushinteger(L, *value);
}

static void take_int(lua_State *L, int arg, int *value, int low) {
  lua_Integer number = *value;
  take_integer(L, arg, &number, low, INT_MAX);
  *value = (int)number;
}

/* Sets and pushes a choice: a boolean, or one of the names, which stand for 0, 1 and so on. */
static void take_choice(
    lua_State *L, int arg, unsigned char *value, const char *const *names) {
  if (lua_isboolean(L, arg))
    *value = (unsigned char)lua_toboolean(L, arg);
  else if (!lua_isnil(L, arg))
    *value = (unsigned char)luaL_checkoption(L, arg, NULL, names);
  if (*value <= 1)
    lua_pushboolean(L, *value);
  else
    lua_pushstring(L, names[*value]);
}

static const char *const off_or_on[] = {"off", "on", NULL};

static void take_boolean(lua_State *L, int arg, unsigned char *value) {
  take_choice(L, arg, value, off_or_on);
}

static int encode_max_depth(lua_State *L) {
  take_int(L, 1, &begin(L, 1)->encode_max_depth, 1);
  return 1;
}

static int decode_max_depth(lua_State *L) {
  take_int(L, 1, &begin(L, 1)->decode_max_depth, 1);
  return 1;
}

static int encode_max_size(lua_State *L) {
  take_integer(L, 1, &begin(L, 1)->encode_max_size, 1, LUA_MAXINTEGER);
  return 1;
}

static int decode_max_size(lua_State *L) {
  take_integer(L, 1, &begin(L, 1)->decode_max_size, 1, LUA_MAXINTEGER);
  return 1;
}

static int encode_sparse_array(lua_State *L) {
  struct baton_json_settings *settings = begin(L, 3);
  take_boolean(L, 1, &settings->sparse_converts);
  take_int(L, 2, &settings->sparse_ratio, 0);
  take_int(L, 3, &settings->sparse_safe, 0);
  return 3;
}

/* 17 digits are enough to read the same number again. */
static int encode_number_precision(lua_State *L) {
  struct baton_json_settings *settings = begin(L, 1);
  lua_Integer precision = settings->precision;
  take_integer(L, 1, &precision, 1, 17);
  settings->precision = (int)precision;
  return 1;
}

static int encode_keep_buffer(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->keeps_buffer);
  return 1;
}

static int encode_invalid_numbers(lua_State *L) {
  static const char *const names[] = {"off", "on", "null", NULL};
  take_choice(L, 1, &begin(L, 1)->encode_invalid, names);
  return 1;
}

static int decode_invalid_numbers(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->decode_invalid);
  return 1;
}

static int encode_empty_table_as_object(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->empty_as_object);
  return 1;
}

static int decode_array_with_array_mt(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->marks_arrays);
  return 1;
}

static int encode_escape_forward_slash(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->escapes_slash);
  return 1;
}

static int encode_skip_unsupported_value_types(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->skips_unsupported);
  return 1;
}

static int decode_allow_comment(lua_State *L) {
  take_boolean(L, 1, &begin(L, 1)->allows_comments);
  return 1;
}

static int encode_indent(lua_State *L) {
  struct baton_json_settings *settings = begin(L, 1);
  if (!lua_isnil(L, 1)) {
    size_t size;
    const char *indent = luaL_checklstring(L, 1, &size);
    luaL_argcheck(L, size <= sizeof settings->indent, 1, "at most 64 bytes expected");
    memcpy(settings->indent, indent, size);
    settings->indent_size = (int)size;
  }
  lua_pushlstring(L, settings->indent, (size_t)settings->indent_size);
  return 1;
}

void baton_json_add_settings(lua_State *L, int upvalues) {
  static const luaL_Reg functions[] = {
      {"encode_max_depth", encode_max_depth},
      {"decode_max_depth", decode_max_depth},
      {"encode_max_size", encode_max_size},
      {"decode_max_size", decode_max_size},
      {"encode_sparse_array", encode_sparse_array},
      {"encode_number_precision", encode_number_precision},
      {"encode_keep_buffer", encode_keep_buffer},
      {"encode_invalid_numbers", encode_invalid_numbers},
      {"decode_invalid_numbers", decode_invalid_numbers},
      {"encode_empty_table_as_object", encode_empty_table_as_object},
      {"decode_array_with_array_mt", decode_array_with_array_mt},
      {"encode_escape_forward_slash", encode_escape_forward_slash},
      {"encode_skip_unsupported_value_types", encode_skip_unsupported_value_types},
      {"encode_indent", encode_indent},
      {"decode_allow_comment", decode_allow_comment},
      {NULL, NULL}};
  lua_pushvalue(L, upvalues);
  luaL_setfuncs(L, functions, 1);
}
