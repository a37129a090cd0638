/*
** The public header of sharing/: objects outside of all heaps that several VMs use.
*/
#ifndef BATON_SHARING_H
#define BATON_SHARING_H

#include "copying/copying.h"

/* Called once, before there is a VM. */
void baton_sharing_install(void);
/* A kind of value that is sent without a copy, by vm.move. A folder above registers its kinds
   before there is a Lua state. */
struct baton_movable {
  /* whether the value at `index` is of this kind */
  int (*is)(lua_State *L, int index);
  /* Raises an error if it cannot be moved now. */
  void (*check)(lua_State *L, int index);
  /* Takes what the value stands for: from now on, its uses raise an error. NULL if it cannot be
     moved now: `why` is why. */
  void *(*take)(lua_State *L, int index, const char **why);
  /* Pushes a value of the reading VM, which takes the object over. If that raises an error, the
     object is released. */
  void (*push)(lua_State *L, void *object);
  /* Gives back an object that was never read: the value that it was taken from is as before, if it
     still lives. By any thread. */
  void (*restore)(void *object);
};
void baton_move_register(const struct baton_movable *kind);

/*
** What has left its value: the head of a kind's own record. The message has a reference, and the
** value that it was taken from has one as well, so that the object can come back. The record ends
** with its last reference.
**
** | place | by | then |
** |---|---|---|
** | on its way | baton_departed_begin | |
** | arrived | baton_departed_arrives, in the VM that received it; or the value takes it back | |
** | back | baton_departed_returns, by any thread | the value takes it back at its next use |
*/
struct baton_departed {
  int references;
  int place;
  /* Frees the record. If the object has not arrived, it has no owner any more, and is closed. By
     any thread. */
  void (*end)(struct baton_departed *departed, int has_arrived);
};
void baton_departed_begin(
    struct baton_departed *departed, void (*end)(struct baton_departed *departed, int has_arrived));
/* Each of these gives a reference back. */
void baton_departed_arrives(struct baton_departed *departed);
void baton_departed_returns(struct baton_departed *departed);
void baton_departed_drop(struct baton_departed *departed);
/* Whether the object is back, so that the value takes it: by baton_departed_arrives. */
int baton_departed_is_back(const struct baton_departed *departed);

/* The address of the bytes of the buffer at `index`; NULL if there is another value. `is_const`
   becomes whether they must not be written. Raises an error if the buffer was moved. */
void *baton_sharing_buffer_at(lua_State *L, int index, int *is_const);

/* Called once for a new Lua state, when its libraries are open, before any code of the program. */
void baton_sharing_open(lua_State *L);
/* The channel between VMs at `index`, with a reference for the caller. Raises an error if there is
   another value. */
struct baton_shared_channel *baton_sharing_hold_channel(lua_State *L, int index);
/* Pushes a handle of the channel with a reference of its own. */
void baton_sharing_push_channel(lua_State *L, struct baton_shared_channel *channel);
/* is_shared(words): whether shared words have more references than the one of this handle. */
int baton_sharing_is_shared(lua_State *L);
/* Sets the functions of this folder in the table on the top of the stack, which is `baton.vm`. */
void baton_sharing_functions(lua_State *L);

#endif
