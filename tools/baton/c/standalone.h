/* The command line of `baton`: a drop-in for the standalone `lua` 5.4
   (reference manual, section 7).

   It is C because a Lua error is a longjmp, which must not cross a Rust
   frame. The runtime owns the process and the lua_State. It calls
   baton_standalone once, which calls back through the functions of
   runtime.h. */
#ifndef BATON_STANDALONE_H
#define BATON_STANDALONE_H

#include <lua.h>

/* A lua_CFunction that the runtime calls protected, in the main process, on a
   new state (as luaL_newstate leaves it). Arguments: the integer argc and the
   light userdata argv (char **, ended by NULL). Result: one integer, the exit
   status of the program. Errors of the program have then been reported. An
   error that it raises is one that `lua` would report at its top level; the
   runtime passes it to baton_standalone_report.

   The call must be a plain lua_pcall at the base of the main process. Then
   recursion fails at the same depth as in `lua`. */
int baton_standalone(lua_State *L);

#endif
