/* A module that waits with a mutex in its hands: it must not be listed among those that park. */
#include <lauxlib.h>
#include <lua.h>
#include <poll.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int calls;

/* wait(ms) -> how many have waited so far */
static int holder_wait(lua_State *L) {
  int ms = (int)luaL_checkinteger(L, 1), count;
  pthread_mutex_lock(&mutex);
  poll(NULL, 0, ms);
  count = ++calls;
  pthread_mutex_unlock(&mutex);
  lua_pushinteger(L, count);
  return 1;
}

int luaopen_holder(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, holder_wait);
  lua_setfield(L, -2, "wait");
  return 1;
}
