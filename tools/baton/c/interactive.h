/* The interactive mode: reads, runs and prints. */
#ifndef BATON_INTERACTIVE_H
#define BATON_INTERACTIVE_H

#include <lua.h>

/* Until the input ends. With a terminal on both sides lines are edited, and
   remembered in a history; else they are read as they come. Raises only what
   _PROMPT's __tostring raises, as `lua` does. */
void baton_interactive(lua_State *L, int no_environment);


/* What the command line provides. */

/* Prints a message to stderr, after the program's name if there is one. */
void baton_standalone_say(const char *message);

/* Reports the error on the top, and pops it, if status says that there is
   one; passes the status on. */
int baton_standalone_reported(lua_State *L, int status);

/* lua_pcall with the message handler of chunks; SIGINT raises meanwhile. */
int baton_standalone_call(lua_State *L, int nargs, int nresults);

#endif
