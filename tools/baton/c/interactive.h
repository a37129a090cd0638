/* The interactive mode: reads, runs and prints. */
#ifndef BATON_INTERACTIVE_H
#define BATON_INTERACTIVE_H

#include <lua.h>

/* Runs until the input ends. If input and output are terminals, lines are
   edited and kept in a history; otherwise they are read as they come. Like
   `lua`, it raises only errors of _PROMPT's __tostring. */
void baton_interactive(lua_State *L, int no_environment);


/* Functions of the command line that it uses. */

/* Prints a message to stderr, after the program's name if there is one. */
void baton_standalone_say(const char *message);

/* If status is an error, prints the error on the top and pops it. Returns
   status. */
int baton_standalone_reported(lua_State *L, int status);

/* lua_pcall with the message handler of chunks. Meanwhile, SIGINT raises an
   error. */
int baton_standalone_call(lua_State *L, int nargs, int nresults);

#endif
