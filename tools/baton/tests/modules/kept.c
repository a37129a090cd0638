/* Functions that call back with something beneath the callback that belongs to their thread: a
   lock, a thread-local variable. For Lua, and as plain functions for the ffi. */
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int most_inside, inside;
static __thread int of_thread;

/* The most processes that were at once between a `lock` and its `unlock` of the recursive lock. */
int kept_most_inside(void) { return most_inside; }

void kept_with_lock(void (*call)(void)) {
  pthread_mutex_lock(&lock);
  call();
  pthread_mutex_unlock(&lock);
}

void kept_with_recursive_lock(void (*call)(void)) {
  pthread_mutex_lock(&recursive);
  if (++inside > most_inside) most_inside = inside;
  call();
  inside--;
  pthread_mutex_unlock(&recursive);
}

/* Sets the variable of the thread, calls, and returns the variable. */
int kept_in_thread(int value, void (*call)(void)) {
  of_thread = value;
  call();
  return of_thread;
}

static void call_first(lua_State *L) {
  lua_pushvalue(L, 1);
  lua_call(L, 0, 0);
}

/* with_lock(f): calls f with the lock held. */
static int with_lock(lua_State *L) {
  pthread_mutex_lock(&lock);
  call_first(L);
  pthread_mutex_unlock(&lock);
  return 0;
}

/* in_thread(f, value): sets the thread's variable, calls f, and returns the variable. */
static int in_thread(lua_State *L) {
  of_thread = (int)luaL_checkinteger(L, 2);
  call_first(L);
  lua_pushinteger(L, of_thread);
  return 1;
}

/* set(value): sets the variable of the calling thread. */
static int set(lua_State *L) {
  of_thread = (int)luaL_checkinteger(L, 1);
  return 0;
}

static const luaL_Reg functions[] = {
    {"with_lock", with_lock}, {"in_thread", in_thread}, {"set", set}, {NULL, NULL}};

int luaopen_kept(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
