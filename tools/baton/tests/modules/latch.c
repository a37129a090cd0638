/* Objects whose calls wait until a byte is written to their pipe. Counts how many calls are
   inside at once. */
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <unistd.h>

struct latch {
  int ends[2];
  int inside, most;
};

static int inside, most;

static void enter(int *count, int *highest) {
  int now = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST),
      before = __atomic_load_n(highest, __ATOMIC_SEQ_CST);
  while (now > before &&
      !__atomic_compare_exchange_n(highest, &before, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

static void leave(int *count) { __atomic_sub_fetch(count, 1, __ATOMIC_SEQ_CST); }

/* new() -> latch, path: data written to the path releases a waiting call. */
static int latch_new(lua_State *L) {
  struct latch *latch = lua_newuserdatauv(L, sizeof *latch, 0);
  latch->inside = latch->most = 0;
  if (pipe(latch->ends) != 0) return luaL_error(L, "no pipe");
  luaL_setmetatable(L, "latch");
  lua_pushfstring(L, "/proc/self/fd/%d", latch->ends[1]);
  return 2;
}

static char wait_for_byte(int descriptor) {
  char byte = 0;
  enter(&inside, &most);
  while (read(descriptor, &byte, 1) < 0) {
  }
  leave(&inside);
  return byte;
}

/* latch:wait() -> the byte */
static int latch_wait(lua_State *L) {
  struct latch *latch = luaL_checkudata(L, 1, "latch");
  char byte;
  if (latch->ends[0] < 0) return luaL_error(L, "the latch is closed");
  enter(&latch->inside, &latch->most);
  byte = wait_for_byte(latch->ends[0]);
  leave(&latch->inside);
  lua_pushlstring(L, &byte, 1);
  return 1;
}

/* Returns a function that closes over the latch: waiter() -> the byte */
static int wait_upvalue(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  return latch_wait(L);
}

static int latch_waiter(lua_State *L) {
  luaL_checkudata(L, 1, "latch");
  lua_settop(L, 1);
  lua_pushcclosure(L, wait_upvalue, 1);
  return 1;
}

/* wait_by_number(descriptor) -> the byte: a call on no object */
static int wait_by_number(lua_State *L) {
  char byte = wait_for_byte((int)luaL_checkinteger(L, 1));
  lua_pushlstring(L, &byte, 1);
  return 1;
}

static int latch_number(lua_State *L) {
  struct latch *latch = luaL_checkudata(L, 1, "latch");
  lua_pushinteger(L, latch->ends[0]);
  return 1;
}

/* latch:close() -> how many calls were inside: a close during a call would let it read another
   file's descriptor. */
static int latch_close(lua_State *L) {
  struct latch *latch = luaL_checkudata(L, 1, "latch");
  lua_pushinteger(L, __atomic_load_n(&latch->inside, __ATOMIC_SEQ_CST));
  if (latch->ends[0] >= 0) {
    close(latch->ends[0]);
    close(latch->ends[1]);
    latch->ends[0] = -1;
  }
  return 1;
}

/* most(): the most calls that were inside the module at once; most(latch): those on this latch */
static int count_most(lua_State *L) {
  struct latch *latch = luaL_testudata(L, 1, "latch");
  lua_pushinteger(L, latch != NULL ? latch->most : most);
  return 1;
}

static const luaL_Reg methods[] = {{"wait", latch_wait}, {"waiter", latch_waiter},
    {"number", latch_number}, {"close", latch_close}, {"__close", latch_close}, {NULL, NULL}};
static const luaL_Reg functions[] = {
    {"new", latch_new}, {"wait_by_number", wait_by_number}, {"most", count_most}, {NULL, NULL}};

int luaopen_latch(lua_State *L) {
  luaL_newmetatable(L, "latch");
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  return 1;
}
