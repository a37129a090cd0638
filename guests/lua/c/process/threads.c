/*
** Native threads in Lua: p:bind, process.thread and process.threads.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/state.h"

#include <string.h>

void baton_lua_check_thread_name(const char *name, size_t length, char *fault, size_t size) {
  size_t i;
  fault[0] = '\0';
  if (length < 1 || length > BATON_THREAD_NAME) {
    snprintf(fault, size, "a thread's name has 1 to %d bytes, got %zu", BATON_THREAD_NAME, length);
    return;
  }
  for (i = 0; i < length; i++)
    if ((unsigned char)name[i] < ' ' || name[i] == 127 ||
        (name[i] == '\xC2' && (unsigned char)name[i + 1] < 0xA0))
      snprintf(fault, size, "a thread's name has no control characters");
}

static int push_acted(lua_State *L, int dead) {
  lua_pushboolean(L, !dead);
  if (dead) lua_pushliteral(L, "dead");
  return dead ? 2 : 1;
}

/* p:bind(name | nil) -> true; false, "dead" */
int baton_lua_bind(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  const char *name = NULL;
  char message[BATON_MESSAGE] = "";
  luaL_checkany(L, 2);
  if (!lua_isnil(L, 2)) {
    size_t length;
    luaL_checktype(L, 2, LUA_TSTRING); /* a thread's number is not a name */
    name = lua_tolstring(L, 2, &length);
    baton_lua_check_thread_name(name, length, message, sizeof message);
    luaL_argcheck(L, message[0] == '\0', 2, message);
  }
  if (process->outcome != BATON_ALIVE) return push_acted(L, 1);
  if (process == caller && name != NULL && caller->criticals > 0)
    luaL_error(L, "cannot move to another thread inside process.critical");
  baton_lua_enter(L);
  baton_bind(caller->vm->executor, process->sched_id, name, message, sizeof message);
  baton_lua_watch_threads(caller->vm);
  baton_lua_leave(L);
  if (message[0] != '\0') luaL_error(L, "cannot bind to '%s': %s", name, message);
  baton_lua_raise_pending(L, caller);
  return push_acted(L, 0);
}

/* process.thread() -> the name of the calling process's native thread, or its number */
int baton_lua_thread(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  char name[BATON_THREAD_NAME + 1];
  int number;
  baton_lua_enter(L);
  number = baton_thread(caller->vm->executor, name, sizeof name);
  baton_lua_leave(L);
  if (name[0] != '\0')
    lua_pushstring(L, name);
  else
    lua_pushinteger(L, number);
  return 1;
}

/* process.threads() -> the number of native threads */
int baton_lua_threads(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  int threads;
  baton_lua_enter(L);
  threads = baton_threads(caller->vm->executor);
  baton_lua_leave(L);
  lua_pushinteger(L, threads);
  return 1;
}
