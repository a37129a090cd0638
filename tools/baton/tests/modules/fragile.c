/* A module that stands only one call at a time in the whole program. It counts calls that overlap
   instead of crashing. */
#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int inside, overlaps;

static void begin(void) {
  if (atomic_fetch_add(&inside, 1) > 0) atomic_fetch_add(&overlaps, 1);
}

static void linger(long microseconds) {
  const struct timespec time = {0, microseconds * 1000};
  nanosleep(&time, NULL);
}

/* use(microseconds, fails) */
static int use(lua_State *L) {
  begin();
  linger((long)luaL_checkinteger(L, 1));
  atomic_fetch_sub(&inside, 1);
  if (lua_toboolean(L, 2)) return luaL_error(L, "as asked");
  return 0;
}

/* call(f, ...): calls back. The module counts as in use meanwhile. */
static int call(lua_State *L) {
  int status;
  begin();
  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  atomic_fetch_sub(&inside, 1);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static int collect(lua_State *L) {
  (void)L;
  begin();
  linger(20);
  atomic_fetch_sub(&inside, 1);
  return 0;
}

/* object(): its finalizer uses the module, too. */
static int object(lua_State *L) {
  begin();
  lua_newuserdatauv(L, 1, 0);
  luaL_setmetatable(L, "fragile");
  atomic_fetch_sub(&inside, 1);
  return 1;
}

static int count(lua_State *L) {
  lua_pushinteger(L, atomic_load(&overlaps));
  return 1;
}

int luaopen_fragile(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"use", use}, {"call", call}, {"object", object}, {"overlaps", count}, {NULL, NULL}};
  begin();
  linger(1000);
  luaL_newmetatable(L, "fragile");
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  luaL_newlib(L, functions);
  atomic_fetch_sub(&inside, 1);
  return 1;
}
