/*
** Texts for values, as a debugger shows them. No method of the program is called.
*/
#include "shown/inside.h"

#include <stdio.h>
#include <string.h>

/* Pushes where a function is defined, such as "function: file.lua:3". */
static void push_function_text(lua_State *L) {
  lua_Debug record;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &record);
  if (*record.what == 'C')
    lua_pushfstring(L, "function: %p (C)", lua_topointer(L, -1));
  else
    lua_pushfstring(L, "function: %s:%d", record.short_src, record.linedefined);
}

/* Pushes the name that the metatable of the value on the top of the stack gives it, and returns 1;
   or returns 0. */
static int push_type_name(lua_State *L) {
  if (!lua_getmetatable(L, -1)) return 0;
  lua_pushliteral(L, "__name");
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (lua_type(L, -1) == LUA_TSTRING) return 1;
  lua_pop(L, 1);
  return 0;
}

/* Pushes what an object is called, and its address. */
static void push_object_text(lua_State *L) {
  const void *address = lua_topointer(L, -1);
  if (!push_type_name(L)) lua_pushstring(L, luaL_typename(L, -1));
  lua_pushfstring(L, "%s: %p", lua_tostring(L, -1), address);
  lua_remove(L, -2);
}

/* {======================================================
** Previews of tables
** ======================================================= */

#define MOST_ELEMENTS 5
#define MOST_FIELDS 5
#define LONGEST_STRING 24
/* Fields are looked through up to this number to find the first ones in order. */
#define MOST_SEEN 200

struct preview {
  char text[200];
  size_t size;
  int parts; /* how many values it has */
};

/* Where the text may be cut so that no character of UTF-8 is. */
static size_t whole_characters(const char *text, size_t size) {
  while (size > 0 && (text[size] & 0xC0) == 0x80) size--;
  return size;
}

static void add(struct preview *preview, const char *text, size_t size) {
  const size_t room = sizeof preview->text - preview->size - sizeof ", ...}";
  if (size > room) size = whole_characters(text, room);
  memcpy(preview->text + preview->size, text, size);
  preview->size += size;
}

static void add_text(struct preview *preview, const char *text) {
  add(preview, text, strlen(text));
}

/* Ends the text. There is room for this. */
static void finish(struct preview *preview, int has_more) {
  const char *end = !has_more ? "}" : preview->parts > 0 ? ", ...}" : "...}";
  memcpy(preview->text + preview->size, end, strlen(end));
  preview->size += strlen(end);
}

static int has_room(const struct preview *preview) {
  return preview->size + 2 * LONGEST_STRING + 16 < sizeof preview->text;
}

static void add_string(struct preview *preview, const char *text, size_t size) {
  size_t i;
  const size_t shown = size <= LONGEST_STRING ? size : whole_characters(text, LONGEST_STRING);
  add_text(preview, "\"");
  for (i = 0; i < shown; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '\n')
      add_text(preview, "\\n");
    else if (c == '"' || c == '\\')
      add(preview, (const char[]){'\\', (char)c}, 2);
    else
      add(preview, c < ' ' ? "?" : text + i, 1);
  }
  add_text(preview, shown < size ? "...\"" : "\"");
}

static int is_empty(lua_State *L) {
  lua_pushnil(L);
  if (!lua_next(L, -2)) return 1;
  lua_pop(L, 2);
  return 0;
}

/* Adds the value on the top of the stack, in short. */
static void add_value(lua_State *L, struct preview *preview) {
  size_t size;
  const char *text;
  switch (lua_type(L, -1)) {
    case LUA_TSTRING:
      text = lua_tolstring(L, -1, &size);
      add_string(preview, text, size);
      return;
    case LUA_TTABLE: add_text(preview, is_empty(L) ? "{}" : "{...}"); return;
    case LUA_TNIL:
    case LUA_TBOOLEAN:
    case LUA_TNUMBER:
      baton_debugger_push_text(L);
      break;
    default:
      if (!push_type_name(L)) lua_pushstring(L, luaL_typename(L, -1));
  }
  add_text(preview, lua_tostring(L, -1));
  lua_pop(L, 1);
}

static void begin_part(struct preview *preview) {
  if (preview->parts++ > 0) add_text(preview, ", ");
}

static int is_name(const char *text, size_t size) {
  return size > 0 && size <= LONGEST_STRING && (*text < '0' || *text > '9') &&
      strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == size;
}

/* Adds the field whose key is on the top of the stack, above its table. Pops the key. */
static void add_field(lua_State *L, struct preview *preview) {
  size_t size = 0;
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &size) : NULL;
  begin_part(preview);
  if (text != NULL && is_name(text, size)) {
    add(preview, text, size);
  } else {
    add_text(preview, "[");
    add_value(L, preview);
    add_text(preview, "]");
  }
  add_text(preview, " = ");
  lua_rawget(L, -2);
  add_value(L, preview);
  lua_pop(L, 1);
}

/* Adds the first fields of the table on the top of the stack. Returns whether there are others. */
static int add_fields(lua_State *L, struct preview *preview, int64_t elements) {
  int64_t i, count;
  int more;
  baton_debugger_push_keys(L, elements);
  count = (int64_t)lua_rawlen(L, -1);
  more = count > MOST_FIELDS;
  for (i = 1; i <= count && i <= MOST_FIELDS; i++) {
    if (!has_room(preview)) {
      more = 1;
      break;
    }
    lua_rawgeti(L, -1, i);
    lua_pushvalue(L, -3);
    lua_insert(L, -2);
    add_field(L, preview);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return more;
}

/* Whether a table has more fields than are looked through for a preview. */
static int has_many(lua_State *L) {
  int n = 0;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    if (++n > MOST_SEEN) {
      lua_pop(L, 1);
      return 1;
    }
  }
  return 0;
}

/* Pushes what is in the table on the top of the stack, such as `Point {1, 2, name = "x"}`. */
static void push_table_text(lua_State *L) {
  struct preview preview;
  const int64_t elements = (int64_t)lua_rawlen(L, -1);
  int64_t i;
  int more = elements > MOST_ELEMENTS;
  preview.size = 0;
  preview.parts = 0;
  if (push_type_name(L)) {
    add(&preview, lua_tostring(L, -1), strnlen(lua_tostring(L, -1), LONGEST_STRING));
    add_text(&preview, " ");
    lua_pop(L, 1);
  }
  add_text(&preview, "{");
  for (i = 1; i <= elements && i <= MOST_ELEMENTS && has_room(&preview); i++) {
    begin_part(&preview);
    lua_rawgeti(L, -1, i);
    add_value(L, &preview);
    lua_pop(L, 1);
  }
  more |= i <= elements;
  if (has_many(L))
    more = 1;
  else if (has_room(&preview))
    more |= add_fields(L, &preview, elements);
  finish(&preview, more);
  lua_pushlstring(L, preview.text, preview.size);
}

/* }====================================================== */

void baton_debugger_push_text(lua_State *L) {
  luaL_checkstack(L, 16, NULL);
  switch (lua_type(L, -1)) {
    case LUA_TNIL: lua_pushliteral(L, "nil"); break;
    case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, -1) ? "true" : "false"); break;
    case LUA_TNUMBER:
      lua_pushvalue(L, -1);
      lua_tolstring(L, -1, NULL);
      break;
    case LUA_TSTRING: lua_pushvalue(L, -1); break;
    case LUA_TFUNCTION: push_function_text(L); break;
    case LUA_TTABLE: push_table_text(L); break;
    default: push_object_text(L); break;
  }
}
