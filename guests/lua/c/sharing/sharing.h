/*
** The public header of sharing/: objects outside of all heaps that several VMs use.
*/
#ifndef BATON_SHARING_H
#define BATON_SHARING_H

#include "copying/copying.h"

/* Sets the functions of this folder in the table on the top of the stack, which is `baton.vm`. */
void baton_sharing_functions(lua_State *L);

#endif
