/*
** Running out of memory in the Rust half: Lua's own error, raised before a call that would
** allocate.
**
** Rust's collections cannot fail. So there is a reserve for them (runtime/sys/src/reserve.rs), and
** while it is missing, nothing new is made.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <stdlib.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* Lua's allocator. Memory that the reserve gave back is for the Rust half. Lua gets no more memory
   until there is a reserve again. */
void *baton_lua_allocate(void *nothing, void *block, size_t old, size_t size) {
  (void)nothing;
  if (size == 0) {
    free(block);
    return NULL;
  }
  if (l_unlikely(__atomic_load_n(&baton_memory_is_short, __ATOMIC_RELAXED) != 0) &&
      (block == NULL || size > old) && !baton_hold_least())
    return NULL;
  return realloc(block, size);
}

void baton_lua_set_allocator(lua_State *L) { lua_setallocf(L, baton_lua_allocate, NULL); }

/* Makes the collector free what it can, the objects of dead handles included. */
static void collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

static l_noret raise_memory_error(lua_State *L) {
  lua_lock(L);
  luaD_throw(L, LUA_ERRMEM);
}

void baton_lua_get_memory(lua_State *L) {
  if (baton_replenish()) return;
  collect(L);
  if (!baton_replenish()) raise_memory_error(L);
}

static int is_room_for_object(lua_State *L, struct baton_vm *vm, uint64_t channel) {
  int is_room;
  if (baton_replenish()) return 1;
  baton_enter(L);
  is_room = baton_replenish_for_object(vm->executor, channel);
  baton_leave(L);
  return is_room;
}

void baton_lua_get_memory_for_object(lua_State *L, struct baton_vm *vm, uint64_t channel) {
  if (is_room_for_object(L, vm, channel)) return;
  collect(L);
  if (!is_room_for_object(L, vm, channel)) raise_memory_error(L);
}

void baton_lua_get_room(lua_State *L, size_t size) {
  baton_lua_check_memory(L);
  if (baton_has_room(size)) return;
  collect(L);
  if (!baton_has_room(size)) raise_memory_error(L);
}
