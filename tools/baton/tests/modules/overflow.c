/* Overflows the C stack of the calling process. */
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static __attribute__((noinline)) int endless(volatile char *outer) {
  volatile char frame[512];
  if (outer != NULL && outer[0] != 0) return 0; /* never true */
  frame[0] = 0;
  return endless(frame) + frame[0];
}

/* by_recursion() */
static int by_recursion(lua_State *L) {
  lua_pushinteger(L, endless(NULL));
  return 1;
}

/* after_a_wait(): waits long enough for other processes to try to get the VM, and for a signal
   to request a safepoint. So the next enter would be slow. */
static int after_a_wait(lua_State *L) {
  usleep(200 * 1000);
  raise(SIGQUIT);
  return by_recursion(L);
}

/* in_malloc(): with raising_malloc.c. */
static int in_malloc(lua_State *L) {
  lua_pushboolean(L, malloc(0x5EED5EED) != NULL);
  return 1;
}

static const luaL_Reg functions[] = {{"by_recursion", by_recursion},
    {"after_a_wait", after_a_wait}, {"in_malloc", in_malloc}, {NULL, NULL}};

int luaopen_overflow(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
