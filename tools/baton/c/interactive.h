/* The interactive mode: reads, runs and prints. */
#ifndef BATON_INTERACTIVE_H
#define BATON_INTERACTIVE_H

#include <lua.h>

/* Runs until the input ends. If input and output are terminals, lines are
   edited and kept in a history; otherwise they are read as they come. Like
   `lua`, it raises only errors of _PROMPT's __tostring. */
void baton_interactive(lua_State *L, int no_environment);

#endif
