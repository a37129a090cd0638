/*
** The public header of copying/: values on their way from one heap to another.
**
** A block is the copy of some values, outside of all heaps. It is made in one walk over the values
** and read in one walk, whatever VM reads it. It can be read once.
*/
#ifndef BATON_COPYING_H
#define BATON_COPYING_H

#include "state/state.h"

struct baton_block;

/*
** Copies the `count` values from `first` on, which are arguments of the running function or above
** it on the stack. References between them are kept, cycles too. If one of them cannot be sent,
** returns NULL and pushes a message that begins with "cannot send" and has the path from
** `name`: "cannot send job.handle[3]: userdata luasql.cursor". With several values the path of the
** n-th one begins with `name` and its number in brackets. Raises "not enough memory" or "stack
** overflow"; nothing is kept then. Outside the VM.
*/
struct baton_block *baton_copy_out(lua_State *L, int first, int count, const char *name);
/* Pushes the values of a block and frees it. Returns their number. Raises "not enough memory" or
   "stack overflow", and a message if a class of the block is unknown to this VM; the block is freed
   then, too. Outside the VM. */
int baton_copy_in(lua_State *L, struct baton_block *block);
/* Bytes that the block takes. */
size_t baton_block_size(const struct baton_block *block);
/* Notes the references of a block to objects that may have messages themselves. By any thread. */
void baton_block_visit(const struct baton_block *block, struct baton_visitor *visitor);
/* Frees a block that nobody reads. By any thread. */
void baton_block_free(struct baton_block *block);
/* Frees the blocks that a VM has kept for messages. The VM has ended. */
void baton_spares_free(struct baton_lua_vm *vm);
/* Frees the shapes of tables that it has sent and received. */
void baton_shapes_free(struct baton_lua_vm *vm);
/* Another block with the same values, for one more reader. NULL without memory. Whether there can
   be one is what the second function says: all that the block refers to can be held again. By any
   thread. */
struct baton_block *baton_block_again(const struct baton_block *block);
int baton_block_can_be_read_again(const struct baton_block *block);

/*
** A kind of full userdata that is sent as a reference to an object outside of all heaps, which
** counts its references. A folder above registers its kinds before there is a Lua state. All
** functions but the last are called outside the VM, `is` and `hold` in a critical section: they
** neither wait nor call Lua functions.
*/
struct baton_sendable {
  /* whether the userdata at `index` is of this kind */
  int (*is)(lua_State *L, int index);
  /* Takes a reference to its object, for a block. NULL if it cannot be sent now: `why` is why. */
  void *(*hold)(lua_State *L, int index, const char **why);
  /* Pushes a userdata of the reading VM, which takes over the reference. May raise an error; the
     reference is released then. */
  void (*push)(lua_State *L, void *object);
  /* Gives the reference back. By any thread. */
  void (*release)(void *object);
  /* Takes one more reference, which it returns; NULL without memory. By any thread. The function
     itself may be NULL: such a value is read once. */
  void *(*again)(void *object);
  /* Notes a reference to an object that may have messages itself; NULL if it has none. */
  void (*visit)(void *object, struct baton_visitor *visitor);
};
void baton_copy_register(const struct baton_sendable *kind);

/* Called once for a new Lua state, when its libraries are open, before any code of the program. */
void baton_copying_open(lua_State *L);

/* Sets the functions of this folder in the table on the top of the stack, which is `baton.vm`. */
void baton_copying_functions(lua_State *L);

#endif
