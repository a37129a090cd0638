/*
** require "baton.log": where lines go, and the time. The rest is in Lua (lua/log.lua).
*/
#include "io/io.h"
#include "calls/calls.h"
#include "objects/objects.h"
#include "process/process.h"
#include "state/state.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* open(path): the number of a sink; nil and why not. Others may run meanwhile. */
static int open_sink(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  const int number = baton_sink_open(path);
  if (number < 0) return luaL_fileresult(L, 0, path);
  lua_pushinteger(L, number);
  return 1;
}

/* reopen(sink, path or nil): true; nil and why not. */
static int reopen_sink(lua_State *L) {
  const int number = (int)luaL_checkinteger(L, 1);
  const char *path = luaL_optstring(L, 2, NULL);
  const int error = baton_sink_reopen(number, path);
  errno = error;
  return luaL_fileresult(L, error == 0, path);
}

/* post(sink, text, most): how many lines were dropped before this one, since that was asked last;
   or nil if this one is dropped. A write that takes long holds nobody up: others run beside it. */
static int post(lua_State *L) {
  const int number = (int)luaL_checkinteger(L, 1);
  size_t size, dropped;
  const char *text = luaL_checklstring(L, 2, &size);
  const lua_Integer most = luaL_checkinteger(L, 3);
  dropped = baton_sink_take_dropped(number, (size_t)most);
  if (!baton_sink_post(number, text, size, (size_t)most))
    lua_pushnil(L);
  else
    lua_pushinteger(L, (lua_Integer)dropped);
  return 1;
}

/* date(): seconds since 1970, and milliseconds. */
static int date(lua_State *L) {
  struct timespec now;
  if (baton_simulated) {
    const lua_Number simulated = baton_lua_simulated_date();
    lua_pushinteger(L, (lua_Integer)simulated);
    lua_pushinteger(L, (lua_Integer)((simulated - (lua_Number)(lua_Integer)simulated) * 1000));
    return 2;
  }
  clock_gettime(CLOCK_REALTIME, &now);
  lua_pushinteger(L, (lua_Integer)now.tv_sec);
  lua_pushinteger(L, (lua_Integer)(now.tv_nsec / 1000000));
  return 2;
}

int baton_lua_open_log(lua_State *L) {
  static const luaL_Reg functions[] = {{"open", open_sink}, {"reopen", reopen_sink},
      {"post", post}, {"date", date}, {"context", baton_lua_text_of_context},
      {"refuse", baton_lua_refuse_argument}, {NULL, NULL}};
  baton_lua_note_function(open_sink);
  baton_lua_note_function(reopen_sink);
  baton_lua_note_function(post);
  baton_lua_load_part(L, "log", "=baton.log");
  luaL_newlib(L, functions);
  baton_lua_run_part(L, 1, 1);
  return 1;
}
