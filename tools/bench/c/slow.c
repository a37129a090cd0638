/* A library that loads slowly: its constructor sleeps for SLOW_MICROSECONDS, an environment
   variable. It is also a module for Lua. */
#include <stdlib.h>

#include "calls.h"
#include "lauxlib.h"
#include "lua.h"

__attribute__((constructor)) static void take_time(void) {
  const char *microseconds = getenv("SLOW_MICROSECONDS");
  if (microseconds != NULL) calls_sleep(atoi(microseconds));
}

LUAMOD_API int luaopen_slow(lua_State *L) {
  lua_pushboolean(L, 1);
  return 1;
}
