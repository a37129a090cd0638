/*
** vm.move(x): a wrapper that tells a copy to take `x` along instead of copying it.
**
** What is moved leaves its sender when the message is made. If the message is never read, it comes
** back.
*/
#include "sharing/inside.h"

#include <stdlib.h>

#define MOST_KINDS 8

static const struct baton_movable *kinds[MOST_KINDS];

void baton_move_register(const struct baton_movable *kind) {
  size_t i = 0;
  while (i < MOST_KINDS && kinds[i] != NULL) i++;
  lua_assert(i < MOST_KINDS);
  kinds[i] = kind;
}

static const struct baton_movable *kind_of(lua_State *L, int index) {
  size_t i;
  for (i = 0; i < MOST_KINDS && kinds[i] != NULL; i++)
    if (kinds[i]->is(L, index)) return kinds[i];
  return NULL;
}

/* {======================================================
** What has left its value
** ======================================================= */

enum { ON_ITS_WAY, ARRIVED, BACK };

void baton_departed_begin(struct baton_departed *departed,
    void (*end)(struct baton_departed *departed, int has_arrived)) {
  departed->references = 2;
  departed->place = ON_ITS_WAY;
  departed->end = end;
}

/* Acquire and release: the last one sees what the other one has written. */
void baton_departed_drop(struct baton_departed *departed) {
  if (__atomic_sub_fetch(&departed->references, 1, __ATOMIC_ACQ_REL) == 0)
    departed->end(departed, __atomic_load_n(&departed->place, __ATOMIC_RELAXED) == ARRIVED);
}

void baton_departed_arrives(struct baton_departed *departed) {
  /* Relaxed: the value only asks whether it is BACK */
  __atomic_store_n(&departed->place, ARRIVED, __ATOMIC_RELAXED);
  baton_departed_drop(departed);
}

/* Release: pairs with the acquire of baton_departed_is_back. */
void baton_departed_returns(struct baton_departed *departed) {
  __atomic_store_n(&departed->place, BACK, __ATOMIC_RELEASE);
  baton_departed_drop(departed);
}

int baton_departed_is_back(const struct baton_departed *departed) {
  return __atomic_load_n(&departed->place, __ATOMIC_ACQUIRE) == BACK;
}

/* }====================================================== */

/* The wrapper. What it wraps is its user value. */
struct wrapper {
  const void *seal; /* must be first */
  const struct baton_movable *kind;
};

/* What is on its way. */
struct moved {
  const struct baton_movable *kind;
  void *object;
};

int baton_shared_move(lua_State *L) {
  const struct baton_movable *kind;
  struct wrapper *wrapper;
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  kind = kind_of(L, 1);
  if (kind == NULL) luaL_typeerror(L, 1, "buffer, file or socket");
  kind->check(L, 1);
  wrapper = lua_newuserdatauv(L, sizeof *wrapper, 1);
  wrapper->seal = baton_lua_seal(BATON_SEALED_MOVED);
  wrapper->kind = kind;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  baton_shared_set_metatable(L, BATON_SEALED_MOVED);
  return 1;
}

static int moved_tostring(lua_State *L) {
  baton_lua_check_sealed(L, 1, BATON_SEALED_MOVED, "moved value");
  lua_pushliteral(L, "baton.vm.moved*");
  return 1;
}

static int is_wrapper(lua_State *L, int index) {
  return baton_lua_test_sealed(L, index, BATON_SEALED_MOVED) != NULL;
}

static void *take_moved(lua_State *L, int index, const char **why) {
  const struct wrapper *wrapper = baton_lua_test_sealed(L, index, BATON_SEALED_MOVED);
  struct moved *moved = malloc(sizeof *moved);
  *why = "not enough memory";
  if (moved == NULL) return NULL;
  moved->kind = wrapper->kind;
  lua_getiuservalue(L, index, 1);
  moved->object = wrapper->kind->take(L, lua_gettop(L), why);
  lua_pop(L, 1);
  if (moved->object != NULL) return moved;
  free(moved);
  return NULL;
}

static void push_moved(lua_State *L, void *object) {
  struct moved *moved = object;
  const struct moved taken = *moved;
  free(moved);
  taken.kind->push(L, taken.object);
}

static void release_moved(void *object) {
  struct moved *moved = object;
  moved->kind->restore(moved->object);
  free(moved);
}

void baton_shared_install_moving(void) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__tostring", moved_tostring}, {NULL, NULL}};
  static const struct baton_sendable kind = {
      is_wrapper, take_moved, push_moved, release_moved, NULL, NULL};
  baton_shared_install_kind(BATON_SEALED_MOVED, none, metamethods);
  baton_copy_register(&kind);
}
