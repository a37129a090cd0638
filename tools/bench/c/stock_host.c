/* A small main program for the unmodified Lua library: `stock-lua script [args]`, and
   `stock-lua -v`. It opens the same libraries and chooses the same collector as the original
   main program, and does nothing else. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

struct command_line {
  int count;
  char **words;
};

static int with_traceback(lua_State *L) {
  const char *message = luaL_tolstring(L, 1, NULL);
  luaL_traceback(L, L, message, 1);
  return 1;
}

static void set_arg(lua_State *L, const struct command_line *line) {
  lua_createtable(L, line->count, 1);
  for (int i = 0; i < line->count; i++) {
    lua_pushstring(L, line->words[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
}

static int run(lua_State *L) {
  const struct command_line *line = lua_touserdata(L, 1);
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN, 0, 0);
  set_arg(L, line);
  if (luaL_loadfile(L, line->words[1]) != LUA_OK)
    return lua_error(L);
  for (int i = 2; i < line->count; i++)
    lua_pushstring(L, line->words[i]);
  lua_call(L, line->count - 2, 0);
  return 0;
}

int main(int argc, char **argv) {
  struct command_line line = {argc, argv};
  if (argc < 2) {
    fprintf(stderr, "usage: %s script [args] | -v\n", argv[0]);
    return EXIT_FAILURE;
  }
  if (strcmp(argv[1], "-v") == 0) {
    puts(LUA_COPYRIGHT);
    return EXIT_SUCCESS;
  }
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    fprintf(stderr, "%s: not enough memory for a Lua state\n", argv[0]);
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, with_traceback);
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, &line);
  int status = lua_pcall(L, 1, 0, 1);
  if (status != LUA_OK)
    fprintf(stderr, "%s: %s\n", argv[0], lua_tostring(L, -1));
  lua_close(L);
  return status == LUA_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
