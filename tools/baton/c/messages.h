/* Messages on stderr, and the protected calls whose errors they report. */
#ifndef BATON_MESSAGES_H
#define BATON_MESSAGES_H

#include <lua.h>

/* The name at the start of messages: argv[0], or NULL in the interactive
   mode. There is one per program, as with argv. Only the main process sets
   it. */
const char *baton_standalone_name(void);
void baton_standalone_set_name(const char *name);

/* Prints a message to stderr, after the program's name if there is one. */
void baton_standalone_say(const char *message);

/* Prints the error message on the top of the stack to stderr, after the
   name of the program, and pops it. For errors that baton_standalone
   raises, and for failures before it. */
void baton_standalone_report(lua_State *L);

/* If status is an error, prints the error on the top and pops it. Returns
   status. */
int baton_standalone_reported(lua_State *L, int status);

/* Whether there was an error. */
int baton_standalone_has_reported(void);

/* lua_pcall with the message handler of chunks. Meanwhile, SIGINT raises an
   error. */
int baton_standalone_call(lua_State *L, int nargs, int nresults);

#endif
