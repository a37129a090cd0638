/* A module that calls back and keeps one state for all its calls, as many do. It counts calls of
   different states that are in progress at once. */
#include <lauxlib.h>
#include <lua.h>

static lua_State *owner;
static int inside, most, mixed;

static void enter(lua_State *L) {
  owner = L;
  if (++inside > most) most = inside;
}

static void leave(void) {
  inside--;
  owner = NULL;
}

/* Continues a call after a callback: another call must not have taken the module meanwhile. */
static void check(lua_State *L) {
  if (owner != L) mixed++;
  owner = L;
}

static int call(lua_State *L, int function) {
  int goes_on;
  lua_pushvalue(L, function);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
    leave();
    lua_error(L);
  }
  check(L);
  goes_on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return goes_on;
}

/* object:each(n, f) */
static int each(lua_State *L) {
  lua_Integer i, n = luaL_checkinteger(L, 2);
  luaL_checkudata(L, 1, "calls_back");
  luaL_checktype(L, 3, LUA_TFUNCTION);
  enter(L);
  for (i = 0; i < n; i++) call(L, 3);
  leave();
  return 0;
}

/* loop(f): calls f until it returns nothing, as an event loop does */
static int loop(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  while (call(L, 1)) {
  }
  return 0;
}

static int end_yielding(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L) - 1;
}

/* yielding(f): calls f, which may yield */
static int yielding(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_pushvalue(L, 1);
  lua_callk(L, 0, LUA_MULTRET, 0, end_yielding);
  return end_yielding(L, LUA_OK, 0);
}

/* touch(): a short call */
static int touch(lua_State *L) {
  owner = L;
  return 0;
}

static int new(lua_State *L) {
  lua_newuserdatauv(L, 1, 0);
  luaL_setmetatable(L, "calls_back");
  return 1;
}

static int finalize(lua_State *L) {
  touch(L);
  return 0;
}

/* counts() -> the most calls at once, and how often one took the module from another */
static int counts(lua_State *L) {
  lua_pushinteger(L, most);
  lua_pushinteger(L, mixed);
  return 2;
}

int luaopen_calls_back(lua_State *L) {
  static const luaL_Reg functions[] = {{"each", each}, {"loop", loop}, {"yielding", yielding},
      {"touch", touch}, {"new", new}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"each", each}, {"__gc", finalize}, {NULL, NULL}};
  luaL_newmetatable(L, "calls_back");
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  lua_pushcfunction(L, counts);
  lua_setfield(L, -2, "counts");
  return 1;
}
