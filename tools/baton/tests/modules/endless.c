/* C code that recurses until its stack overflows. */
#include <lauxlib.h>
#include <lua.h>
#include <unistd.h>

static int sink;

__attribute__((noinline)) static int dig(volatile int *above) {
  volatile int block[256];
  block[0] = *above + 1;
  sink = block[0];
  if (sink < 0) return 0;
  return dig(block) + block[0];
}

static int dig_for_ever(lua_State *L) {
  volatile int start = 0;
  lua_pushinteger(L, dig(&start));
  return 1;
}

/* Other processes may run before it overflows. */
static int wait_and_dig(lua_State *L) {
  usleep(50000);
  return dig_for_ever(L);
}

static const luaL_Reg functions[] = {
    {"dig_for_ever", dig_for_ever}, {"wait_and_dig", wait_and_dig}, {NULL, NULL}};

int luaopen_endless(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
