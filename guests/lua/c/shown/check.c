/*
** Whether a text is an expression. For the debugger's own side, which has no program.
*/
#include "shown/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lua's message without the name of the chunk and its line. */
static const char *without_place(const char *message) {
  const char *rest = strstr(message, ": ");
  return rest != NULL ? rest + 2 : message;
}

static int load(lua_State *L, const char *before, const char *text, size_t size) {
  lua_pushstring(L, before);
  lua_pushlstring(L, text, size);
  lua_concat(L, 2);
  return luaL_loadbufferx(L, lua_tostring(L, -1), lua_rawlen(L, -1), "=expression", "t") == LUA_OK;
}

/* Takes the text; returns nothing, or what is wrong with it. */
static int check(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  if (load(L, "return ", text, size)) return 0;
  if (load(L, "", text, size)) {
    lua_pushliteral(L, "it is a statement, which has no value; to compare, write ==");
  } else {
    lua_pop(L, 2);
    lua_pushstring(L, without_place(lua_tostring(L, -1)));
  }
  return 1;
}

static void *allocate(void *unused, void *block, size_t old_size, size_t size) {
  (void)unused;
  (void)old_size;
  if (size != 0) return realloc(block, size);
  free(block);
  return NULL;
}

int baton_debugger_check_expression(
    const char *text, size_t text_size, char *error, size_t size) {
  lua_State *L = lua_newstate(allocate, NULL);
  int is_right;
  if (L == NULL) return 1; /* no memory: the program will say what is wrong */
  lua_pushcfunction(L, check);
  lua_pushlstring(L, text, text_size);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK && lua_type(L, -1) != LUA_TSTRING) lua_settop(L, 0);
  is_right = lua_type(L, -1) != LUA_TSTRING;
  if (!is_right) snprintf(error, size, "%s", lua_tostring(L, -1));
  lua_close(L);
  return is_right;
}
