/* What the runtime provides to the command line. */
#ifndef BATON_RUNTIME_H
#define BATON_RUNTIME_H

#include <stddef.h>

#include <lua.h>

/* In place of luaL_openlibs. If the program was started with -E,
   "LUA_NOENV" is set in the registry before the call. May raise. */
void baton_lua_openlibs(lua_State *L);

/* 1 while a chunk runs: SIGINT raises "interrupted!" in the main process.
   0: SIGINT has its default action. Never raises. */
void baton_lua_set_interruptible(int on);

/* Called at the end, if everything on the command line has succeeded, and
   after the interactive mode. Waits until all other processes except daemons
   have ended. Returns the exit status: 0, or 1 if a process failed that was
   not joined. May raise "interrupted!"; its caller makes it interruptible. */
int baton_lua_wait_for_rest(lua_State *L);

/* Returns whether baton_lua_wait_for_rest would wait now. May raise as
   well. */
int baton_lua_has_rest(lua_State *L);

/* Returns whether another process is killing the main process. The error
   that it ends with is then not reported. Never raises. */
int baton_lua_main_was_killed(void);

/* Called when the program is about to end because of an error that was
   reported. Writes what the parameter flight keeps. Never raises. */
void baton_lua_write_flight(lua_State *L);

/* With `write`, the library passes text for stdout and stderr to `write`
   first, which returns whether it has taken the text. It is called on any
   thread, outside the VM. Never raises. */
void baton_lua_set_console(int (*write)(int is_error, const char *text,
                                        size_t length));

/* Returns the name that the word is closest to, of a list that NULL ends, if
   the word looks like a mistyped one of them; else NULL. On any thread. */
const char *baton_lua_nearest(const char *word, const char *const *names);

/* 1 while the stack has frames that must stay on their thread: the calling
   process then continues only on that thread. Never raises. */
void baton_lua_keep_thread(int on);

/* Tells a debugger that errors which reach this message handler end the
   process. Never raises. */
void baton_debugger_note_last_handler(lua_CFunction handler);

#endif
