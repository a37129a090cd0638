/*
** The keys of a table in order, so that a field is found, and stays where it was.
*/
#include "shown/inside.h"

#include <stdlib.h>
#include <string.h>

/* Of a larger table, the keys stay as the table has them. */
#define MOST_IN_ORDER 50000

enum rank { NUMBER, STRING, OTHER };

struct key {
  enum rank rank;
  lua_Number number;
  const char *text; /* kept by the list */
  size_t size;
  int64_t at; /* its place in the list */
};

static int compare_texts(const struct key *a, const struct key *b) {
  const size_t size = a->size < b->size ? a->size : b->size;
  const int order = memcmp(a->text, b->text, size);
  return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static int compare(const void *first, const void *second) {
  const struct key *a = first, *b = second;
  int order = 0;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  if (a->rank == NUMBER) order = (a->number > b->number) - (a->number < b->number);
  if (a->rank == STRING) order = compare_texts(a, b);
  return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

/* Notes the key on the top of the stack. */
static void note(lua_State *L, struct key *key, int64_t at) {
  key->at = at;
  key->rank = OTHER;
  if (lua_type(L, -1) == LUA_TNUMBER) {
    key->rank = NUMBER;
    key->number = lua_tonumber(L, -1);
  } else if (lua_type(L, -1) == LUA_TSTRING) {
    key->rank = STRING;
    key->text = lua_tolstring(L, -1, &key->size);
  }
}

/* Whether the key on the top of the stack is that of an element. */
static int is_element(lua_State *L, int64_t elements) {
  lua_Integer key;
  if (!lua_isinteger(L, -1)) return 0;
  key = lua_tointeger(L, -1);
  return key >= 1 && key <= elements;
}

/* Pushes the list of keys of the table on the top of the stack, as it has them. */
static int64_t push_list(lua_State *L, int64_t elements) {
  int64_t count = 0;
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, -3)) {
    lua_pop(L, 1);
    if (is_element(L, elements)) continue;
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, ++count);
  }
  return count;
}

void baton_debugger_push_keys(lua_State *L, int64_t elements) {
  int64_t i, count;
  struct key *keys;
  luaL_checkstack(L, 8, NULL);
  count = push_list(L, elements);
  if (count < 2 || count > MOST_IN_ORDER) return;
  keys = lua_newuserdatauv(L, (size_t)count * sizeof *keys, 0);
  for (i = 0; i < count; i++) {
    lua_rawgeti(L, -2, i + 1);
    note(L, &keys[i], i + 1);
    lua_pop(L, 1);
  }
  qsort(keys, (size_t)count, sizeof *keys, compare);
  lua_createtable(L, (int)count, 0);
  for (i = 0; i < count; i++) {
    lua_rawgeti(L, -3, keys[i].at);
    lua_rawseti(L, -2, i + 1);
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
}
