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
/* The channel between VMs at `index`, with a reference for the caller. Raises an error if there is
   another value. */
struct baton_shared_channel *baton_sharing_hold_channel(lua_State *L, int index);
/* Pushes a handle of the channel with a reference of its own. */
void baton_sharing_push_channel(lua_State *L, struct baton_shared_channel *channel);
/* Sets the functions of this folder in the table on the top of the stack, which is `baton.vm`. */
void baton_sharing_functions(lua_State *L);

#endif
