/*
** Modules that are adapted when they are loaded, so that processes can wait in them
** (lua/adapted_modules.lua lists them, with reasons).
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"
#include "process/process.h"
#include "state/state.h"

#include <string.h>
#include <sys/socket.h>

/* await(descriptor, timeout, writes) */
static int await(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  const int descriptor = (int)luaL_checkinteger(L, 1), writes = lua_toboolean(L, 3);
  const baton_timeout timeout = baton_lua_check_timeout(L, 2);
  const uint64_t deadline =
      timeout == BATON_FOREVER ? BATON_NO_DEADLINE : baton_now() + (uint64_t)timeout;
  struct baton_wake wake = {0, 0, 0};
  int why = -1;
  if (process != NULL && !baton_simulated && baton_lua_may_wait_here(process)) {
    if (baton_lua_is_ready(descriptor, writes)) {
      why = BATON_DONE;
    } else {
      baton_lua_enter(L);
      why = baton_lua_await_descriptor(process, descriptor, writes, deadline);
      baton_lua_leave(L);
    }
  }
  if (why < 0) return 0;
  wake.reason = (uint32_t)why;
  if (baton_lua_after_wait(L, process, wake) == BATON_TIMED_OUT)
    lua_pushliteral(L, "timeout");
  else
    lua_pushliteral(L, "ready");
  return 1;
}

static int here(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (process == NULL || process->vm->closing) return 0;
  baton_lua_push_process(L, process);
  return 1;
}

/* hold_kills(f, ...). An error ends the hold, too. */
static int hold_kills(lua_State *L) {
  struct baton_process *process = baton_lua_caller(L);
  const int arguments = lua_gettop(L) - 1;
  struct baton_mark mark;
  baton_lua_enter(L);
  baton_lua_begin_hold(process, &mark, BATON_MARK_CLOSE);
  baton_lua_leave(L);
  lua_call(L, arguments, LUA_MULTRET);
  baton_lua_enter(L);
  baton_lua_end_hold(process);
  baton_lua_leave(L);
  return lua_gettop(L);
}

static int shut_down(lua_State *L) {
  (void)shutdown((int)luaL_checkinteger(L, 1), SHUT_RDWR);
  return 0;
}

static int metatable_of(lua_State *L) {
  luaL_getmetatable(L, luaL_checkstring(L, 1));
  return 1;
}

static int is_adapted(const char *name) {
  static const char *const names[] = {"_cqueues", "cqueues", "luv"};
  size_t i;
  for (i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return 1;
  return 0;
}

void baton_lua_adapt_module(lua_State *L, const char *name) {
  const int module = lua_gettop(L);
  if (baton_socket_adapt(L, name) || !is_adapted(name) || !lua_istable(L, module)) return;
  baton_lua_load_part(L, "adapted_modules", BATON_ADAPTED_MODULES);
  lua_pushstring(L, name);
  lua_pushvalue(L, module);
  luaL_requiref(L, "baton.process", baton_lua_open_process, 0);
  lua_pushcfunction(L, here);
  lua_pushcfunction(L, await);
  lua_pushcfunction(L, hold_kills);
  lua_pushcfunction(L, shut_down);
  lua_pushcfunction(L, metatable_of);
  baton_lua_run_part(L, 8, 0);
}
