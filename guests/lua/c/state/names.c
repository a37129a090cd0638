/*
** How reports, warnings and errors name a process: "process 7", or "process 7 'name'". A name is
** any string of the program's, and a terminal would act on parts of it. These parts are escaped. So
** no name can end a line, move the cursor, or look like another part of a report.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <stdio.h>
#include <string.h>

/* {======================================================
** Escaping
** ======================================================= */

#define MOST_ESCAPED 4 /* the maximal number of bytes for one byte of a name */

/* The length of the UTF-8 character at `text`, and its code. Returns 0 if there is none. */
static size_t read_character(const unsigned char *text, size_t length, unsigned *code) {
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t size = text[0] < 0x80 ? 1 : text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : 2, i;
  if ((text[0] >= 0x80 && text[0] < 0xC2) || text[0] > 0xF4 || size > length) return 0;
  *code = size == 1 ? text[0] : text[0] & (0x7Fu >> size);
  for (i = 1; i < size; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
    *code = *code << 6 | (text[i] & 0x3Fu);
  }
  return *code >= least[size] && *code <= 0x10FFFF && (*code & 0x1FF800) != 0xD800 ? size : 0;
}

/* False for controls, and for characters that end a line or change the direction of text. */
static int is_harmless(unsigned code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return 0;
  if (code == 0x200E || code == 0x200F || code == 0x61C) return 0;
  return !(code >= 0x2028 && code <= 0x202E) && !(code >= 0x2066 && code <= 0x2069);
}

/* Escapes one byte as in a Lua literal. Returns the length of the escape. */
static size_t escape_byte(unsigned char byte, char *text) {
  static const char digits[] = "0123456789ABCDEF";
  text[0] = '\\';
  switch (byte) {
    case '\n': text[1] = 'n'; return 2;
    case '\r': text[1] = 'r'; return 2;
    case '\t': text[1] = 't'; return 2;
    case '\\': case '\'': text[1] = (char)byte; return 2;
    default:
      text[1] = 'x';
      text[2] = digits[byte >> 4];
      text[3] = digits[byte & 15];
      return 4;
  }
}

/* Writes the first character of `name` as reports show it. Returns how many bytes of the name it
   has. */
static size_t escape_character(
    const unsigned char *name, size_t length, char *text, size_t *written) {
  unsigned code = 0;
  size_t size = read_character(name, length, &code), i;
  if (size > 0 && is_harmless(code) && code != '\\' && code != '\'') {
    memcpy(text, name, size);
    *written = size;
    return size;
  }
  if (size == 0) size = 1;
  for (*written = i = 0; i < size; i++) *written += escape_byte(name[i], text + *written);
  return size;
}

size_t baton_lua_escape(const char *name, size_t length, char *text, size_t size) {
  static const char cut[] = "...";
  char character[4 * MOST_ESCAPED];
  size_t at = 0, fits = 0, used = 0, written;
  while (at < length) {
    at += escape_character((const unsigned char *)name + at, length - at, character, &written);
    if (used + written >= size || (at < length && used + written + sizeof cut > size)) break;
    memcpy(text + used, character, written);
    used += written;
    fits = at;
  }
  if (fits < length && used + sizeof cut <= size) {
    memcpy(text + used, cut, sizeof cut - 1);
    used += sizeof cut - 1;
  }
  text[used] = '\0';
  return used;
}

/* }====================================================== */

/* {======================================================
** Titles
** ======================================================= */

void baton_lua_set_name(struct baton_process *process, const char *name, size_t length) {
  baton_lua_escape(name, length, process->name, sizeof process->name);
}

const char *baton_lua_given_name(const struct baton_process *process) { return process->name; }

const char *baton_lua_title(const struct baton_process *process, char *text) {
  if (process->name[0] != '\0')
    snprintf(
        text, BATON_TITLE, "process %llu '%s'", (unsigned long long)process->id, process->name);
  else
    snprintf(text, BATON_TITLE, "process %llu", (unsigned long long)process->id);
  return text;
}

void baton_lua_push_title(lua_State *L, struct baton_process *process) {
  size_t length = 0;
  const char *name = NULL;
  luaL_checkstack(L, 6, NULL);
  baton_lua_push_process(L, process);
  if (lua_getiuservalue(L, -1, BATON_UV_NAME) == LUA_TSTRING) name = lua_tolstring(L, -1, &length);
  if (length == 0) {
    lua_pushfstring(L, "process %I", (LUAI_UACINT)process->id);
  } else {
    luaL_Buffer buffer;
    char *text = luaL_buffinitsize(L, &buffer, length * MOST_ESCAPED + 1);
    luaL_pushresultsize(&buffer, baton_lua_escape(name, length, text, length * MOST_ESCAPED + 1));
    lua_pushfstring(L, "process %I '%s'", (LUAI_UACINT)process->id, lua_tostring(L, -1));
    lua_remove(L, -2);
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
}

/* }====================================================== */
