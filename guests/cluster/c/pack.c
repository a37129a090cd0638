/*
** A value becomes bytes: cluster.h says which.
*/
#include "cluster.h"

#include <stdio.h>
#include <string.h>

/* The bytes are in a userdata, at a place of the stack, so that an error frees them. */
struct writer {
  lua_State *L;
  unsigned char *bytes;
  size_t size, capacity;
  int place;
  const char *name;
};

/* A table that is being written, in the one that contains it. Its key there is at `key`. */
struct level {
  const struct level *outer;
  const void *table;
  int key, depth;
};

/* {======================================================
** Bytes
** ======================================================= */

static unsigned char *room_for(struct writer *writer, size_t size) {
  unsigned char *at;
  if (writer->capacity - writer->size < size) {
    const size_t capacity = (writer->size + size) * 2;
    unsigned char *larger = lua_newuserdatauv(writer->L, capacity, 0);
    if (writer->size > 0) memcpy(larger, writer->bytes, writer->size);
    lua_replace(writer->L, writer->place);
    writer->bytes = larger;
    writer->capacity = capacity;
  }
  at = writer->bytes + writer->size;
  writer->size += size;
  return at;
}

/* A byte, and then a number of `size` bytes, the highest first. */
static void put(struct writer *writer, unsigned first, uint64_t number, int size) {
  unsigned char *at = room_for(writer, 1 + (size_t)size);
  *at = (unsigned char)first;
  for (; size > 0; size--, number >>= 8) at[size] = (unsigned char)number;
}

static void put_bytes(struct writer *writer, const char *bytes, size_t size) {
  if (size > 0) memcpy(room_for(writer, size), bytes, size);
}

static void put_integer(struct writer *writer, lua_Integer value) {
  const uint64_t bits = (uint64_t)value;
  if (value >= 0 ? value < 128 : value >= -32)
    put(writer, (unsigned char)bits, 0, 0);
  else if (value >= 0)
    put(writer, value <= 0xff ? 0xcc : value <= 0xffff ? 0xcd : value <= 0xffffffff ? 0xce : 0xcf,
        bits, value <= 0xff ? 1 : value <= 0xffff ? 2 : value <= 0xffffffff ? 4 : 8);
  else
    put(writer, value >= -128 ? 0xd0 : value >= -32768 ? 0xd1 : value >= INT32_MIN ? 0xd2 : 0xd3,
        bits, value >= -128 ? 1 : value >= -32768 ? 2 : value >= INT32_MIN ? 4 : 8);
}

static void put_float(struct writer *writer, lua_Number value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put(writer, 0xcb, bits, 8);
}

/* The number of bytes of the character at `text`, or 0 if it is not UTF-8 as Unicode has it. */
static size_t character(const unsigned char *text, const unsigned char *end) {
  const unsigned first = *text;
  const size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  size_t i;
  if (size == 1) return 1;
  if (first < 0xc2 || first > 0xf4 || size > (size_t)(end - text)) return 0;
  for (i = 1; i < size; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  if (first == 0xe0 && text[1] < 0xa0) return 0;
  if (first == 0xed && text[1] > 0x9f) return 0; /* surrogates */
  if (first == 0xf0 && text[1] < 0x90) return 0;
  if (first == 0xf4 && text[1] > 0x8f) return 0;
  return size;
}

static int is_utf8(const char *text, size_t size) {
  const unsigned char *at = (const unsigned char *)text, *end = at + size;
  while (at < end) {
    const size_t step = character(at, end);
    if (step == 0) return 0;
    at += step;
  }
  return 1;
}

static void put_string(struct writer *writer, const char *text, size_t size) {
  const int is_text = is_utf8(text, size);
  if (size > 0xffffffff) luaL_error(writer->L, "cannot send a string of 4 GiB or more");
  if (is_text && size < 32)
    put(writer, 0xa0 | (unsigned)size, 0, 0);
  else if (size <= 0xff)
    put(writer, is_text ? 0xd9 : 0xc4, size, 1);
  else if (size <= 0xffff)
    put(writer, is_text ? 0xda : 0xc5, size, 2);
  else
    put(writer, is_text ? 0xdb : 0xc6, size, 4);
  put_bytes(writer, text, size);
}

static void put_header(struct writer *writer, int is_map, size_t count) {
  if (count < 16)
    put(writer, (is_map ? 0x80 : 0x90) | (unsigned)count, 0, 0);
  else if (count <= 0xffff)
    put(writer, is_map ? 0xde : 0xdc, count, 2);
  else
    put(writer, is_map ? 0xdf : 0xdd, count, 4);
}

/* }====================================================== */

/* {======================================================
** Refusing
** ======================================================= */

/* Adds the way to a table to the text: `.handle[3]`. */
static void add_way(lua_State *L, luaL_Buffer *text, const struct level *level) {
  char number[40];
  size_t size;
  const char *key;
  if (level == NULL || level->outer == NULL) return;
  add_way(L, text, level->outer);
  switch (lua_type(L, level->key)) {
    case LUA_TSTRING:
      key = lua_tolstring(L, level->key, &size);
      luaL_addchar(text, '.');
      luaL_addlstring(text, key, size < 60 ? size : 60);
      break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, level->key))
        lua_integer2str(number, sizeof number, lua_tointeger(L, level->key));
      else
        lua_number2str(number, sizeof number, lua_tonumber(L, level->key));
      luaL_addchar(text, '[');
      luaL_addstring(text, number);
      luaL_addchar(text, ']');
      break;
    default:
      luaL_addstring(text, lua_toboolean(L, level->key) ? "[true]" : "[false]");
  }
}

static int refuse(struct writer *writer, const struct level *level, const char *what) {
  lua_State *L = writer->L;
  luaL_Buffer text;
  luaL_checkstack(L, 10, NULL);
  luaL_buffinit(L, &text);
  add_way(L, &text, level);
  luaL_pushresult(&text);
  return luaL_error(L, "cannot send %s%s: %s", writer->name, lua_tostring(L, -1), what);
}

/* A userdata with the name of its type, or the type. */
static const char *describe(lua_State *L, int index) {
  const int type = lua_type(L, index);
  if (type != LUA_TUSERDATA) return lua_typename(L, type);
  if (luaL_getmetafield(L, index, "__name") != LUA_TSTRING) return "userdata";
  return lua_pushfstring(L, "userdata %s", lua_tostring(L, -1));
}

/* }====================================================== */

/* {======================================================
** Values
** ======================================================= */

static void put_value(struct writer *writer, int index, const struct level *level);

/* How many entries a table has. `*is_list`: its keys are 1 to n. */
static size_t count_of(lua_State *L, int index, int *is_list) {
  const lua_Unsigned border = lua_rawlen(L, index);
  lua_Unsigned listed = 0, all = 0;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    all++;
    if (lua_isinteger(L, -2) && (lua_Unsigned)lua_tointeger(L, -2) - 1 < border) listed++;
    lua_pop(L, 1);
  }
  *is_list = all == listed && all == border;
  return (size_t)all;
}

static void put_table(struct writer *writer, int index, const struct level *outer, int key) {
  lua_State *L = writer->L;
  const struct level here = {outer, lua_topointer(L, index), key,
      outer == NULL ? 1 : outer->depth + 1};
  const struct level *other;
  int is_list;
  size_t count, i;
  for (other = outer; other != NULL; other = other->outer)
    if (other->table == here.table) refuse(writer, &here, "a table that contains itself");
  if (here.depth > BATON_VALUES_DEPTH) refuse(writer, NULL, "more than 100 tables within tables");
  luaL_checkstack(L, 8, "too many tables within tables");
  count = count_of(L, index, &is_list);
  if (count > 0xffffffff) refuse(writer, &here, "too many entries");
  put_header(writer, !is_list, count);
  if (is_list) {
    for (i = 1; i <= count; i++) {
      lua_pushinteger(L, (lua_Integer)i);
      lua_rawgeti(L, index, (lua_Integer)i);
      put_value(writer, lua_gettop(L), &here);
      lua_pop(L, 2);
    }
    return;
  }
  lua_pushnil(L);
  for (i = 0; i < count && lua_next(L, index); i++) {
    const int at = lua_gettop(L);
    const int type = lua_type(L, at - 1);
    if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN) {
      const char *what = lua_pushfstring(L, "a key that is a %s", describe(L, at - 1));
      refuse(writer, &here, what);
    }
    put_value(writer, at - 1, &here);
    put_value(writer, at, &here);
    lua_pop(L, 1);
  }
  if (i < count || lua_next(L, index)) refuse(writer, &here, "a table that changes meanwhile");
}

/* Writes the value at `index`. In a table, its key is below it, and `level` is the table. */
static void put_value(struct writer *writer, int index, const struct level *level) {
  lua_State *L = writer->L;
  size_t size;
  const char *text;
  switch (lua_type(L, index)) {
    case LUA_TNIL: put(writer, 0xc0, 0, 0); break;
    case LUA_TBOOLEAN: put(writer, lua_toboolean(L, index) ? 0xc3 : 0xc2, 0, 0); break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index))
        put_integer(writer, lua_tointeger(L, index));
      else
        put_float(writer, lua_tonumber(L, index));
      break;
    case LUA_TSTRING:
      text = lua_tolstring(L, index, &size);
      put_string(writer, text, size);
      break;
    case LUA_TTABLE: put_table(writer, index, level, index - 1); break;
    default: {
      const struct level here = {level, NULL, index - 1, 0};
      refuse(writer, level == NULL ? NULL : &here, describe(L, index));
    }
  }
}

static void begin(struct writer *writer, lua_State *L) {
  writer->L = L;
  writer->name = luaL_checkstring(L, 1);
  writer->bytes = NULL;
  writer->size = writer->capacity = 0;
  lua_pushnil(L);
  lua_insert(L, 2);
  writer->place = 2;
  *room_for(writer, 1) = BATON_VALUES_VERSION;
}

static int end(struct writer *writer) {
  lua_pushlstring(writer->L, (const char *)writer->bytes, writer->size);
  return 1;
}

int baton_cluster_pack(lua_State *L) {
  struct writer writer;
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  begin(&writer, L);
  put_value(&writer, 3, NULL);
  return end(&writer);
}

int baton_cluster_pack_list(lua_State *L) {
  const int count = lua_gettop(L) - 1;
  struct writer writer;
  int i;
  begin(&writer, L);
  luaL_checkstack(L, 8, NULL);
  put_header(&writer, 0, (size_t)count);
  for (i = 1; i <= count; i++) {
    writer.name = lua_pushfstring(L, "%s %d", lua_tostring(L, 1), i);
    put_value(&writer, 2 + i, NULL);
    lua_pop(L, 1);
  }
  return end(&writer);
}

/* }====================================================== */
