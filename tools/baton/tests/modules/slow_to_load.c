/* A library whose constructor waits for data on the FIFO that SLOW_TO_LOAD names. It is also a
   module for Lua. */
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void wait_for_writer(void) {
  const char *path = getenv("SLOW_TO_LOAD");
  int fifo = path != NULL ? open(path, O_RDONLY) : -1;
  if (fifo >= 0) close(fifo);
}

int slow_to_load_answer(void) { return 42; }

int luaopen_slow_to_load(lua_State *L) {
  lua_pushliteral(L, "loaded");
  return 1;
}
