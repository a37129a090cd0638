/* Functions that use the API all the time, as decoders and encoders do. They check that no other
   process disturbs them. */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <pthread.h>
#include <time.h>

#define KIND "kneader"

struct dough {
  int inside, most, is_closed;
};

static int told, inside, most, freed, ticks;

static void enter(int *count, int *highest) {
  int now = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST),
      before = __atomic_load_n(highest, __ATOMIC_SEQ_CST);
  while (now > before &&
      !__atomic_compare_exchange_n(highest, &before, now, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

static void leave(int *count) { __atomic_sub_fetch(count, 1, __ATOMIC_SEQ_CST); }

static double monotonic_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Makes values with the API, and drops them. Checks that the thread, its errno and the values of
   the frame do not change. */
static void knead(lua_State *L, pthread_t thread, int step) {
  static __thread int mark;
  int top = lua_gettop(L);
  errno = 1000 + step % 50;
  mark = step;
  lua_createtable(L, 2, 1);
  lua_pushfstring(L, "step %d", step);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "text");
  lua_pushinteger(L, step);
  lua_rawseti(L, -3, 1);
  lua_rawgeti(L, -2, 1);
  lua_getfield(L, -3, "text");
  if (errno != 1000 + step % 50) luaL_error(L, "errno is that of another call");
  if (mark != step) luaL_error(L, "another call came on this thread");
  if (!pthread_equal(thread, pthread_self())) luaL_error(L, "the call is on another thread");
  if (lua_tointeger(L, -2) != step || !lua_rawequal(L, -1, -3))
    luaL_error(L, "a value of the frame has changed");
  lua_settop(L, top);
}

static int knead_for(lua_State *L, double seconds) {
  pthread_t thread = pthread_self();
  double until = monotonic_seconds() + seconds;
  int step = 0;
  while (!__atomic_load_n(&told, __ATOMIC_SEQ_CST) && monotonic_seconds() < until)
    knead(L, thread, step++);
  return __atomic_load_n(&told, __ATOMIC_SEQ_CST);
}

/* until_told() -> whether tell() was called; gives up after a while */
static int until_told(lua_State *L) {
  int was_told;
  enter(&inside, &most);
  was_told = knead_for(L, 60);
  leave(&inside);
  freed++;
  lua_pushboolean(L, was_told);
  return 1;
}

static int tell(lua_State *L) {
  __atomic_store_n(&told, (int)luaL_optinteger(L, 1, 1), __ATOMIC_SEQ_CST);
  return 0;
}

/* for_ms(ms) -> how often tick() was called meanwhile */
static int for_ms(lua_State *L) {
  int before = __atomic_load_n(&ticks, __ATOMIC_SEQ_CST);
  knead_for(L, (double)luaL_checkinteger(L, 1) * 1e-3);
  lua_pushinteger(L, __atomic_load_n(&ticks, __ATOMIC_SEQ_CST) - before);
  return 1;
}

static int tick(lua_State *L) {
  (void)L;
  __atomic_add_fetch(&ticks, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/* build(n) -> {{1, "1"}, {2, "2"}, ...}: only the frame refers to the values before it returns */
static int build(lua_State *L) {
  lua_Integer i, n = luaL_checkinteger(L, 1);
  lua_newtable(L);
  for (i = 1; i <= n; i++) {
    lua_createtable(L, 2, 0);
    lua_pushinteger(L, i);
    lua_rawseti(L, -2, 1);
    lua_pushfstring(L, "%I", (LUAI_UACINT)i);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i);
  }
  return 1;
}

/* join(n) -> "1,2,3,...": with a buffer, which is a userdata on the frame's stack */
static int join(lua_State *L) {
  lua_Integer i, n = luaL_checkinteger(L, 1);
  luaL_Buffer buffer;
  luaL_buffinit(L, &buffer);
  for (i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&buffer, ',');
    lua_pushinteger(L, i);
    luaL_addvalue(&buffer);
  }
  luaL_pushresult(&buffer);
  return 1;
}

static int new_dough(lua_State *L) {
  struct dough *dough = lua_newuserdatauv(L, sizeof *dough, 0);
  dough->inside = dough->most = dough->is_closed = 0;
  luaL_setmetatable(L, KIND);
  return 1;
}

/* dough:until_told() -> whether tell() was called, and the most calls that were inside at once */
static int dough_until_told(lua_State *L) {
  struct dough *dough = luaL_checkudata(L, 1, KIND);
  int was_told;
  if (dough->is_closed) return luaL_error(L, "the dough is closed");
  enter(&dough->inside, &dough->most);
  was_told = knead_for(L, 60);
  if (dough->is_closed) return luaL_error(L, "the dough was closed meanwhile");
  leave(&dough->inside);
  lua_pushboolean(L, was_told);
  lua_pushinteger(L, dough->most);
  return 2;
}

/* dough:close() -> how many calls were inside */
static int dough_close(lua_State *L) {
  struct dough *dough = luaL_checkudata(L, 1, KIND);
  dough->is_closed = 1;
  lua_pushinteger(L, dough->inside);
  return 1;
}

/* callback(f, n): calls f n times, each time in the middle of some API calls */
static int callback(lua_State *L) {
  lua_Integer i, n = luaL_checkinteger(L, 2);
  pthread_t thread = pthread_self();
  for (i = 0; i < n; i++) {
    knead(L, thread, (int)i);
    lua_pushvalue(L, 1);
    lua_call(L, 0, 0);
    knead(L, thread, (int)i);
  }
  return 0;
}

static int most_inside(lua_State *L) {
  lua_pushinteger(L, __atomic_load_n(&most, __ATOMIC_SEQ_CST));
  return 1;
}

static int is_inside(lua_State *L) {
  lua_pushinteger(L, __atomic_load_n(&inside, __ATOMIC_SEQ_CST));
  return 1;
}

static int count_freed(lua_State *L) {
  lua_pushinteger(L, freed);
  return 1;
}

static const luaL_Reg functions[] = {
    {"until_told", until_told},
    {"tell", tell},
    {"for_ms", for_ms},
    {"tick", tick},
    {"build", build},
    {"join", join},
    {"new", new_dough},
    {"most", most_inside},
    {"inside", is_inside},
    {"freed", count_freed},
    {"callback", callback},
    {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"until_told", dough_until_told}, {"close", dough_close}, {NULL, NULL}};

int luaopen_kneader(lua_State *L) {
  luaL_newmetatable(L, KIND);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  luaL_setfuncs(L, methods, 0);
  luaL_newlib(L, functions);
  return 1;
}
