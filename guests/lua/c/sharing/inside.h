/*
** What the files of this folder share: handles of objects outside of all heaps.
**
**   functions.c  the module's functions
**   channels.c   channels between VMs, also as cases of process.select
**   words.c      words that VMs change atomically and wait at
**   buffers.c    buffers, as Lua sees them; formats.c has pack and unpack
**   bytes.c      the memory of buffers
**   moving.c     vm.move, and what can be moved
**   dict.c       the shared dictionary
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
/* Notes the methods and metamethods of a kind of object. They are kept, and not copied. Called
   before there is a VM. */
void baton_shared_install_kind(
    int kind, const luaL_Reg *methods, const luaL_Reg *metamethods);
/* Notes more methods of that kind. */
void baton_shared_add_methods(int kind, const luaL_Reg *methods);
/* Sets the metatable of the object on the top of the stack. A VM makes it for its first object. */
void baton_shared_set_metatable(lua_State *L, int kind);
/* Pushes a handle of `size` bytes, still without an object. */
struct baton_handle *baton_shared_new_handle(lua_State *L, int kind, size_t size);
/* Pushes a handle that takes over a reference to `object`. If that raises an error, `release` gives
   the reference back. */
void baton_shared_push(
    lua_State *L, int kind, size_t size, void *object, void (*release)(void *object));
/* The handle at `index`. Raises an error if there is another value. */
struct baton_handle *baton_shared_check(lua_State *L, int index, int kind);
/* The same, and an error if its finalizer has run: another finalizer may still have it. */
struct baton_handle *baton_shared_check_live(lua_State *L, int index, int kind);
/* __tostring of all kinds. */
int baton_shared_tostring(lua_State *L);

/* The calling process. Raises an error unless it may wait, if `timeout` is not 0. */
static inline struct baton_process *baton_shared_waiter(lua_State *L, baton_timeout timeout) {
  struct baton_process *caller = baton_inline_caller(L);
  if (timeout != 0) baton_inline_check_may_wait(L, caller);
  return caller;
}

/* buffers.c */
void baton_shared_install_buffers(void);
int baton_shared_new_buffer(lua_State *L);
/* formats.c: adds its methods to those of buffers. */
void baton_shared_install_formats(void);
/* Notes Lua's functions for formats, before a program can replace them. */
void baton_shared_note_formats(lua_State *L);
/* moving.c */
void baton_shared_install_moving(void);
int baton_shared_move(lua_State *L);
/* dict.c */
void baton_shared_install_dict(void);
int baton_shared_new_dict(lua_State *L);
/* channels.c */
void baton_shared_install_channels(void);
int baton_shared_new_channel(lua_State *L);
/* words.c */
void baton_shared_install_words(void);
int baton_shared_new_words(lua_State *L);

#endif
