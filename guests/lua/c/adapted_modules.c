/*
** Modules whose waits are made by processes are adapted when they are loaded (lua/adapted_modules.lua says which, how and why).
*/
#include "internals.h"
#include "parked.h"

#include <string.h>

static int is_ready(void *argument, int which, unsigned ready) {
  (void)which;
  (void)ready;
  return baton_system()->poll(argument, 1, 0) != 0;
}

/* await(descriptor, timeout, writes) */
static int await(lua_State *L) {
  struct baton_process *process = baton_lua_caller(L);
  struct pollfd asked = {(int)luaL_checkinteger(L, 1), lua_toboolean(L, 3) ? POLLOUT : POLLIN, 0};
  const baton_timeout timeout = baton_lua_check_timeout(L, 2);
  const struct baton_watch watch = {(uint32_t)asked.fd, baton_wants(asked.events)};
  const uint64_t deadline = timeout == BATON_FOREVER ? BATON_NO_DEADLINE : baton_rs_now() + (uint64_t)timeout;
  struct baton_wake wake = {0, 0, 0};
  int why = -1;
  if (!baton_simulated && baton_may_park(process)) {
    baton_enter(L);
    why = baton_rs_wait_ready(process->vm->executor, &watch, 1, deadline, is_ready, &asked);
    baton_leave(L);
  }
  if (why < 0) return 0;
  wake.reason = (uint32_t)why;
  if (baton_lua_after_wait(L, process, wake) == BATON_TIMED_OUT)
    lua_pushliteral(L, "timeout");
  else
    lua_pushliteral(L, "ready");
  return 1;
}

static int metatable_of(lua_State *L) {
  luaL_getmetatable(L, luaL_checkstring(L, 1));
  return 1;
}

static int is_adapted(const char *name) {
  static const char *const names[] = {"_cqueues", "cqueues", "luv", "ssl.core"};
  size_t i;
  for (i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return 1;
  return 0;
}

void baton_lua_adapt_module(lua_State *L, const char *name) {
  size_t size;
  const char *source;
  const int module = lua_gettop(L);
  if (!is_adapted(name) || !lua_istable(L, module)) return;
  source = baton_rs_lua_source("adapted_modules", &size);
  if (luaL_loadbufferx(L, source, size, "=adapted_modules", "t") != LUA_OK) lua_error(L);
  lua_pushstring(L, name);
  lua_pushvalue(L, module);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "baton.process");
  lua_call(L, 1, 1);
  lua_pushcfunction(L, await);
  lua_pushcfunction(L, metatable_of);
  lua_call(L, 5, 0);
}
