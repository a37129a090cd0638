/*
** What the files of this folder share: handles of objects outside of all heaps.
**
**   functions.c  the module's functions
**   channels.c   channels between VMs, also as cases of process.select
**   words.c      words that VMs change atomically and wait at
**   handles.c    handles, and their metatables
*/
#ifndef BATON_SHARING_INSIDE_H
#define BATON_SHARING_INSIDE_H

#include "state/checks.h"
#include "objects/objects.h"
#include "sharing/sharing.h"

/*
** A handle is a `struct baton_handle`, and its id is the address of the object. It has one of the
** object's references, which its finalizer gives back.
*/

/* handles.c */
/* Makes the metatable of a kind of handle, with its methods and metamethods. */
void baton_shared_open_kind(
    lua_State *L, int kind, const luaL_Reg *methods, const luaL_Reg *metamethods);
/* Pushes a handle of `size` bytes, still without an object. */
struct baton_handle *baton_shared_new_handle(lua_State *L, int kind, size_t size);
/* Pushes a handle that takes over a reference to `object`. If that raises an error, `release` gives
   the reference back. */
void baton_shared_push(lua_State *L, int kind, void *object, void (*release)(void *object));
/* The handle at `index`. Raises an error if there is another value. */
struct baton_handle *baton_shared_check(lua_State *L, int index, int kind);
/* __tostring of all kinds. */
int baton_shared_tostring(lua_State *L);

/* The calling process. Raises an error unless it may wait, if `timeout` is not 0. */
static inline struct baton_process *baton_shared_waiter(lua_State *L, baton_timeout timeout) {
  struct baton_process *caller = baton_inline_caller(L);
  if (timeout != 0) baton_inline_check_may_wait(L, caller);
  return caller;
}

/* channels.c */
void baton_shared_open_channels(lua_State *L);
void baton_shared_install_channels(void);
int baton_shared_new_channel(lua_State *L);
/* words.c */
void baton_shared_open_words(lua_State *L);
void baton_shared_install_words(void);
int baton_shared_new_words(lua_State *L);

#endif
