/*
** Blocks: their memory, and the kinds of userdata that they refer to.
*/
#include "copying/block.h"
#include "state/state.h"

#include <stdlib.h>

/* {======================================================
** Memory
** ======================================================= */

/* Bytes of a new row. Most messages fit. */
#define FIRST_ROOM ((size_t)512 - sizeof(struct baton_block))

int baton_block_may_allocate(void) {
  return l_likely(__atomic_load_n(&baton_memory_is_short, __ATOMIC_RELAXED) == 0) ||
      baton_hold_least();
}

int baton_block_grow(struct baton_writer *w, size_t size) {
  struct baton_block *block = w->block;
  const size_t used = block != NULL ? (size_t)(w->at - block->row) : 0;
  size_t room = block != NULL ? 2 * block->room + sizeof *block : FIRST_ROOM;
  struct baton_block *now;
  if (size > PTRDIFF_MAX / 4 || used > PTRDIFF_MAX / 4) return 0;
  if (room < used + size) room = used + size;
  if (!baton_block_may_allocate()) return 0;
  now = realloc(block, sizeof *now + room);
  if (now == NULL) return 0;
  if (block == NULL) memset(now, 0, sizeof *now);
  now->room = room;
  w->block = now;
  w->at = now->row + used;
  w->end = now->row + room;
  return 1;
}

size_t baton_block_size(const struct baton_block *block) {
  return sizeof *block + block->size + block->references * sizeof *block->held;
}

void baton_block_free(struct baton_block *block) {
  uint32_t i;
  if (block == NULL) return;
  for (i = block->given; i < block->references; i++)
    block->held[i].kind->release(block->held[i].object);
  free(block->held);
  free(block);
}

l_noret baton_copy_raise_memory_error(lua_State *L) {
  lua_lock(L);
  luaD_throw(L, LUA_ERRMEM);
}

/* }====================================================== */

/* {======================================================
** Kinds of userdata
** ======================================================= */

#define KINDS 16

/* Written before there is a Lua state, and not later. */
static const struct baton_sendable *kinds[KINDS];
static int kind_count;

void baton_copy_register(const struct baton_sendable *kind) {
  if (kind_count == KINDS) abort(); /* more kinds than there are folders above */
  kinds[kind_count++] = kind;
}

const struct baton_sendable *baton_copy_kind_of(lua_State *L, int index) {
  int i;
  for (i = 0; i < kind_count; i++)
    if (kinds[i]->is(L, index)) return kinds[i];
  return NULL;
}

/* }====================================================== */
