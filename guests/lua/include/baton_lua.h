/*
** libbaton-lua: Lua 5.4 with processes, for programs that embed Lua.
**
** The library has all of Lua's C API (lua.h, lauxlib.h, lualib.h), as liblua5.4 has it. A program
** that embeds Lua links it instead. A state of luaL_newstate or baton_lua_newstate is plain Lua
** until a script has its first `require "baton.process"` (or "baton.vm", "baton.ffi",
** "baton.cluster", "baton.inspect"). Then processes are started in it: from then on, it is used by
** the thread that did this.
**
** All functions are called on the state's thread, and outside of a call of another process.
*/
#ifndef BATON_LUA_H
#define BATON_LUA_H

#include <stdint.h>

#include "lua.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A deadline that never comes. */
#define BATON_LUA_NO_DEADLINE UINT64_MAX

/* How baton_lua_run_until ended. */
enum baton_lua_stint {
  BATON_LUA_ENDED,      /* not used: the processes end with lua_close */
  BATON_LUA_IDLE,       /* no process can run before the next deadline, or the descriptor says so */
  BATON_LUA_TIME_IS_UP  /* processes can run: call again soon */
};

/* As lua_newstate, or as luaL_newstate if `allocator` is NULL. NULL: there is no memory. */
lua_State *baton_lua_newstate(lua_Alloc allocator, void *argument);

/* Starts processes in a state, as its first `require "baton.process"` does; again, it does nothing.
   Returns LUA_OK, or another status with an error message on the top of the stack. */
int baton_lua_start(lua_State *L);

/* Runs the state's processes: what can run, at most until the deadline, in nanoseconds of
   baton_lua_now. If the deadline is past, only takes in what has happened. Call it from the
   program's loop, before the loop waits.
   A script that computes is interrupted at the deadline, and continues in the next call.
   Returns a `enum baton_lua_stint`; -EBUSY if it is called by a process other than the main one, in
   a critical section, or while a call on another Lua thread forbids it. Without processes,
   BATON_LUA_IDLE. */
int baton_lua_run_until(lua_State *L, uint64_t deadline);

/* A descriptor that is readable (for poll, select, epoll) when baton_lua_run_until has something to
   do; on Linux, at deadlines, too. It stays the same until lua_close. Do not read it, change it or
   close it. -1: there are no processes yet. A signal may end the loop's wait early, by the error
   EINTR: wait again. */
int baton_lua_descriptor(lua_State *L);

/* When baton_lua_run_until has something to do next, in nanoseconds of baton_lua_now: a past time
   for at once, BATON_LUA_NO_DEADLINE if only the descriptor can tell. For loops that take a
   timeout, on systems where the descriptor knows no deadlines. */
uint64_t baton_lua_next_deadline(lua_State *L);

/* The present time of deadlines: monotonic, in nanoseconds. On any thread. */
uint64_t baton_lua_now(void);

#ifdef __cplusplus
}
#endif

#endif
