/*
** The public header of sharing/: objects outside of all heaps that several VMs use.
*/
#ifndef BATON_SHARING_H
#define BATON_SHARING_H

#include "copying/copying.h"

/* Called once, before there is a VM. */
void baton_sharing_install(void);
/* Called once for a new Lua state, before any code of the program. */
void baton_sharing_open(lua_State *L);
/* Sets the functions of this folder in the table on the top of the stack, which is `baton.vm`. */
void baton_sharing_functions(lua_State *L);

#endif
