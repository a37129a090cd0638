/* Makes a Lua state of its own, runs a chunk there, and closes it, as luv's threads and cqueues
   do. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>

/* run(chunk): the chunk's result as a string. */
static int run(lua_State *L) {
  const char *chunk = luaL_checkstring(L, 1);
  lua_State *own = luaL_newstate();
  if (own == NULL) return luaL_error(L, "no memory");
  luaL_openlibs(own);
  int status = luaL_dostring(own, chunk);
  lua_pushstring(L, luaL_tolstring(own, -1, NULL));
  lua_close(own);
  return status == LUA_OK ? 1 : lua_error(L);
}

struct job {
  const char *chunk;
  lua_Integer result;
};

static void *work(void *argument) {
  struct job *job = argument;
  lua_State *own = luaL_newstate();
  luaL_openlibs(own);
  job->result = luaL_dostring(own, job->chunk) == LUA_OK ? lua_tointeger(own, -1) : -1;
  lua_close(own);
  return NULL;
}

/* run_in_thread(chunk): the chunk's integer, computed by a thread that is unknown to Lua. */
static int run_in_thread(lua_State *L) {
  struct job job = {luaL_checkstring(L, 1), 0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, &job) != 0) return luaL_error(L, "no thread");
  pthread_join(thread, NULL);
  lua_pushinteger(L, job.result);
  return 1;
}

static const luaL_Reg functions[] = {{"run", run}, {"run_in_thread", run_in_thread}, {NULL, NULL}};

int luaopen_own_state(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
