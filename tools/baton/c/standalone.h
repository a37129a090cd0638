/* The command line of `baton`: a drop-in for the standalone `lua` 5.4
   (reference manual, section 7).

   It is C because a Lua error is a longjmp, which must not cross a Rust
   frame. The runtime owns the process and the lua_State; it enters here once
   and is called back through the hooks below. */
#ifndef BATON_STANDALONE_H
#define BATON_STANDALONE_H

#include <stddef.h>

#include <lua.h>

/* A lua_CFunction that the runtime calls protected, in the main process, on
   a fresh state (as luaL_newstate leaves it), with two arguments: the integer
   argc and the light userdata argv (char **, ended by NULL). It returns one
   integer: the exit status, with which the runtime ends the program. What the
   program does wrong has then been reported already; an error that escapes is
   one that `lua` would report at its top level, and is passed to
   baton_standalone_report.

   The call must be a plain lua_pcall at the base of the main process: the
   depth at which recursion fails is then that of `lua`. */
int baton_standalone(lua_State *L);

/* Prints the error message on the top of the stack to stderr, after the name
   of the program, and pops it. For errors that escape from baton_standalone
   and for failures before it. */
void baton_standalone_report(lua_State *L);


/* What the runtime provides. */

/* In place of luaL_openlibs. Honours "LUA_NOENV" in the registry, which is
   set before the call when the program was started with -E. May raise. */
void baton_lua_openlibs(lua_State *L);

/* On (1) while a chunk runs: SIGINT then raises "interrupted!" in the main
   process. Off (0): SIGINT has its default action. Never raises. */
void baton_lua_set_interruptible(int on);

/* Called after everything asked for on the command line has succeeded, or at
   the end of the interactive mode: goes on until all other processes that are
   not daemons have ended. Returns the exit status: 0, or 1 if a process failed
   that nobody joined. May raise ("interrupted!"); it is called interruptible. */
int baton_lua_wait_for_rest(lua_State *L);

/* Whether baton_lua_wait_for_rest would wait now. May raise as it does. */
int baton_lua_has_rest(lua_State *L);

/* Whether the main process is being killed by another one: what it fails with
   then is no error of the program, and is not reported. Never raises. */
int baton_lua_main_was_killed(void);

/* On: what the library writes to stdout and stderr is offered to `write`
   first, which answers whether it has taken it. It is called on any thread,
   outside the VM. Never raises. */
void baton_lua_set_console(int (*write)(int is_error, const char *text,
                                        size_t length));

/* On (1) while frames are on the stack that must stay on their thread: the
   calling process then continues only there. Never raises. */
void baton_lua_keep_thread(int on);

#endif
