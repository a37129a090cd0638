/* C functions that block or compute, as in modules that know nothing of Baton. */
#include <lauxlib.h>
#include <lua.h>
#include <time.h>

static double monotonic_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* block_ms(ms): sleeps in a system call; signals do not end the sleep. */
static int block_ms(lua_State *L) {
  lua_Integer ms = luaL_checkinteger(L, 1);
  struct timespec rest = {ms / 1000, (long)(ms % 1000) * 1000000L};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) != 0) {
  }
  return 0;
}

/* exported_ms(ms): as block_ms, by a function with another name, which the library exports. */
int blocker_exported(lua_State *L) { return block_ms(L); }

/* spin_ms(ms): computes without a blocking system call. */
static int spin_ms(lua_State *L) {
  double until = monotonic_seconds() + (double)luaL_checkinteger(L, 1) * 1e-3;
  while (monotonic_seconds() < until) {
  }
  return 0;
}

static double thread_time(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* burn_ms(ms): computes until its thread has used that much processor time. */
static int burn_ms(lua_State *L) {
  double until = thread_time() + (double)luaL_checkinteger(L, 1) * 1e-3;
  while (thread_time() < until)
    continue;
  return 0;
}

/* thread_clock(): the processor time of its thread, in seconds. */
static int thread_clock(lua_State *L) {
  lua_pushnumber(L, thread_time());
  return 1;
}

/* call_and_return(f, ...): calls f without a continuation, so its own C frame stays on the
   stack. Checks that thread data such as errno and its local variables survive. */
static int call_and_return(lua_State *L) {
  volatile lua_Integer canary = 0x5eed;
  int top = lua_gettop(L);
  lua_call(L, top - 1, LUA_MULTRET);
  if (canary != 0x5eed) return luaL_error(L, "the C frame was overwritten");
  return lua_gettop(L);
}

/* protected_call(f, ...): like pcall, but without a continuation. Counts how often it frees its
   memory. */
static int frees = 0;

static int protected_call(lua_State *L) {
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  frees++;
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static int count_frees(lua_State *L) {
  lua_pushinteger(L, frees);
  return 1;
}

static const luaL_Reg functions[] = {
    {"exported_ms", blocker_exported},
    {"block_ms", block_ms},
    {"spin_ms", spin_ms},
    {"burn_ms", burn_ms},
    {"thread_clock", thread_clock},
    {"call_and_return", call_and_return},
    {"protected_call", protected_call},
    {"count_frees", count_frees},
    {NULL, NULL},
};

int luaopen_blocker(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
