/*
** Blocks: their memory, those that are used again, the kinds of userdata that they refer to, and
** the objects that a writer has met.
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

static void use(struct baton_writer *w, struct baton_block *block, size_t used) {
  w->block = block;
  w->at = block->row + used;
  w->end = block->row + block->room;
}

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
  if (now->shelf != 0) { /* it is too large for a spare */
    baton_shelf_leave(now->shelf - 1u, 1);
    now->shelf = 0;
  }
  use(w, now, used);
  return 1;
}

int baton_block_begin(struct baton_writer *w, struct baton_lua_vm *vm) {
  struct baton_block *spare = vm != NULL ? baton_spare_take(vm) : NULL;
  w->vm = vm;
  if (spare == NULL) {
    if (!baton_block_grow(w, 0)) return 0;
    if (vm != NULL) baton_spare_mark(vm, w->block);
    return 1;
  }
  spare->references = spare->given = 0;
  spare->held = NULL;
  use(w, spare, 0);
  return 1;
}

size_t baton_block_size(const struct baton_block *block) {
  return sizeof *block + block->size + block->references * sizeof *block->held;
}

void baton_block_visit(const struct baton_block *block, struct baton_visitor *visitor) {
  uint32_t i;
  for (i = block->given; i < block->references; i++)
    if (block->held[i].kind->visit != NULL)
      block->held[i].kind->visit(block->held[i].object, visitor);
}

void baton_block_free(struct baton_block *block) {
  uint32_t i;
  if (block == NULL) return;
  for (i = block->given; i < block->references; i++)
    block->held[i].kind->release(block->held[i].object);
  free(block->held);
  if (block->shelf != 0)
    baton_shelf_put(block->shelf - 1u, block);
  else
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
  copy->shelf = 0;
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
** Spares: blocks of small messages that were read, for messages that come later.
**
** A block is freed by another VM than the one that has made it. malloc gives it back to the arena
** of the thread that has made it, under that arena's lock. That thread takes the lock for each
** block that it makes, so both threads would wait for each other. Instead a block returns to the
** shelf of the VM that has made it.
**
** | a block | becomes | by |
** |---|---|---|
** | made by malloc | one that returns, if its shelf has few blocks | baton_spare_mark |
** | one that returns, in a message | as others, if it grows: it is too large | baton_block_grow |
** | the same, read by any thread | one on the shelf | baton_block_free |
** | on the shelf | one of the VM's own, with all others there | baton_spare_take |
** | the VM's own | one in a message | baton_spare_take |
** | the VM's own | freed with the VM | baton_spares_free |
**
** Only the VM's owner touches those of the VM. How a shelf orders what its threads do, and why it
** loses no block, is in guests/lua/src/spares.rs and runtime/sys/src/pile.rs. Nobody waits for a
** spare: malloc makes a block if there is none.
**
** A shelf belongs to no VM: it outlives those that use it, and several VMs may share it and its
** limit.
** ======================================================= */

/* Another processor has the next message's block in its cache. Has it brought here meanwhile. */
static void fetch(const struct baton_block *block) {
  __builtin_prefetch(block, 1);
  __builtin_prefetch((const char *)block + 64, 1);
  __builtin_prefetch((const char *)block + 128, 1);
}

static unsigned shelf_of(const struct baton_lua_vm *vm) {
  return (unsigned)(vm->number % BATON_SHELVES);
}

struct baton_block *baton_spare_take(struct baton_lua_vm *vm) {
  struct baton_block *block = vm->spares;
  if (block == NULL) block = baton_shelf_take(shelf_of(vm));
  if (block != NULL) {
    vm->spares = block->next;
    fetch(block->next);
  }
  return block;
}

void baton_spare_mark(struct baton_lua_vm *vm, struct baton_block *block) {
  if (baton_shelf_claim(shelf_of(vm))) block->shelf = (unsigned char)(shelf_of(vm) + 1);
}

void baton_spares_free(struct baton_lua_vm *vm) {
  uint32_t count = 0;
  while (vm->spares != NULL) {
    struct baton_block *block = vm->spares;
    vm->spares = block->next;
    free(block);
    count++;
  }
  baton_shelf_leave(shelf_of(vm), count);
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
** The objects that a writer has met: their numbers, found by their addresses. A few are looked for
** one by one, and more of them in a hash table with open addressing.
** ======================================================= */

/* So many are looked for one by one. */
#define LISTED 8

void baton_met_begin(struct baton_writer *w) {
  w->objects = w->few_objects;
  w->places = w->few_places;
  w->count = 0;
  w->mask = 0;
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

/* Enters all objects in the hash table, which is empty. */
static void enter_all(struct baton_writer *w) {
  uint32_t i;
  for (i = 0; i < w->count; i++) {
    uint32_t at = place_of(w, w->objects[i].object);
    while (w->places[at] != 0) at = (at + 1) & w->mask;
    w->places[at] = i + 1;
  }
}

static void begin_table(struct baton_writer *w) {
  w->mask = BATON_FEW_PLACES - 1;
  memset(w->few_places, 0, sizeof w->few_places);
  enter_all(w);
}

/* Doubles the room for objects. Returns 0 if there is no memory. */
static int grow(struct baton_writer *w) {
  const uint64_t room = ((uint64_t)w->mask + 1) * 2;
  const int were_few = w->objects == w->few_objects;
  struct baton_met *objects;
  uint32_t *places;
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
  enter_all(w);
  return 1;
}

static uint32_t add(struct baton_writer *w, GCObject *object, uint32_t parent) {
  w->objects[w->count].object = object;
  w->objects[w->count].parent = parent;
  return w->count++;
}

static uint32_t meet_in_table(
    struct baton_writer *w, GCObject *object, uint32_t parent, int *is_new) {
  uint32_t at = place_of(w, object);
  while (w->places[at] != 0) {
    if (w->objects[w->places[at] - 1].object == object) return w->places[at] - 1;
    at = (at + 1) & w->mask;
  }
  if (l_unlikely(w->count > w->mask / 2)) {
    if (!grow(w)) return BATON_NO_PARENT;
    at = place_of(w, object);
    while (w->places[at] != 0) at = (at + 1) & w->mask;
  }
  w->places[at] = w->count + 1;
  *is_new = 1;
  return add(w, object, parent);
}

uint32_t baton_meet(struct baton_writer *w, GCObject *object, uint32_t parent, int *is_new) {
  uint32_t i;
  *is_new = 0;
  if (w->mask != 0) return meet_in_table(w, object, parent, is_new);
  for (i = 0; i < w->count; i++)
    if (w->objects[i].object == object) return i;
  *is_new = 1;
  i = add(w, object, parent);
  if (w->count == LISTED) begin_table(w);
  return i;
}

/* }====================================================== */
