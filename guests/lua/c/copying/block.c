/*
** Blocks: their memory, the kinds of userdata that they refer to, and the objects that a writer has
** met.
*/
#include "copying/block.h"
#include "copying/frozen.h"
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

int baton_block_can_be_read_again(const struct baton_block *block) {
  uint32_t i;
  for (i = 0; i < block->references; i++)
    if (block->held[i].kind->again == NULL) return 0;
  return 1;
}

struct baton_block *baton_block_again(const struct baton_block *block) {
  const size_t size = sizeof *block + block->size;
  struct baton_block *copy = malloc(size);
  if (copy == NULL) return NULL;
  memcpy(copy, block, size);
  copy->room = block->size;
  copy->references = copy->given = 0;
  copy->held = NULL;
  if (block->references == 0) return copy;
  copy->held = malloc(block->references * sizeof *copy->held);
  while (copy->held != NULL && copy->references < block->references) {
    struct baton_reference *to = &copy->held[copy->references];
    *to = block->held[copy->references];
    to->object = to->kind->again(to->object);
    if (to->object == NULL) break;
    copy->references++;
  }
  if (copy->references == block->references) return copy;
  baton_block_free(copy);
  return NULL;
}

static int collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

int baton_copy_collect(lua_State *L) {
  lua_pushcfunction(L, collect);
  return lua_pcall(L, 0, 0, 0);
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
static const struct baton_sendable *kinds[KINDS] = {&baton_frozen_kind};
static int kind_count = 1;

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

/* {======================================================
** The objects that a writer has met: their numbers, found by their addresses in a hash table with
** open addressing.
** ======================================================= */

void baton_met_begin(struct baton_writer *w) {
  w->objects = w->few_objects;
  w->places = w->few_places;
  w->count = 0;
  w->mask = BATON_FEW_PLACES - 1;
  memset(w->few_places, 0, sizeof w->few_places);
}

void baton_met_end(struct baton_writer *w) {
  if (w->objects != w->few_objects) free(w->objects);
  if (w->places != w->few_places) free(w->places);
}

/* Objects are at least 16 bytes apart, so the lowest bits say nothing. */
static inline uint32_t place_of(const struct baton_writer *w, const GCObject *object) {
  const uint64_t bits = (uint64_t)((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(bits >> 32) & w->mask;
}

/* Doubles the room for objects. Returns 0 if there is no memory. */
static int grow(struct baton_writer *w) {
  const uint64_t room = ((uint64_t)w->mask + 1) * 2;
  const int were_few = w->objects == w->few_objects;
  struct baton_met *objects;
  uint32_t *places, i;
  if (room > (uint64_t)UINT32_MAX + 1 || !baton_block_may_allocate()) return 0;
  objects = realloc(were_few ? NULL : w->objects, (size_t)(room / 2) * sizeof *objects);
  if (objects == NULL) return 0;
  if (were_few) memcpy(objects, w->few_objects, w->count * sizeof *objects);
  w->objects = objects;
  places = calloc((size_t)room, sizeof *places);
  if (places == NULL) return 0;
  if (w->places != w->few_places) free(w->places);
  w->places = places;
  w->mask = (uint32_t)(room - 1);
  for (i = 0; i < w->count; i++) {
    uint32_t at = place_of(w, objects[i].object);
    while (places[at] != 0) at = (at + 1) & w->mask;
    places[at] = i + 1;
  }
  return 1;
}

uint32_t baton_meet(struct baton_writer *w, GCObject *object, uint32_t parent, int *is_new) {
  uint32_t at = place_of(w, object);
  *is_new = 0;
  while (w->places[at] != 0) {
    if (w->objects[w->places[at] - 1].object == object) return w->places[at] - 1;
    at = (at + 1) & w->mask;
  }
  if (l_unlikely(w->count > w->mask / 2)) {
    if (!grow(w)) return BATON_NO_PARENT;
    at = place_of(w, object);
    while (w->places[at] != 0) at = (at + 1) & w->mask;
  }
  w->objects[w->count].object = object;
  w->objects[w->count].parent = parent;
  w->places[at] = ++w->count;
  *is_new = 1;
  return w->count - 1;
}

/* }====================================================== */
