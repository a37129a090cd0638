/*
** A list of the VMs beside the program's first one, and whether a VM waits.
*/
#include "vms/vms.h"
#include "sharing/sharing.h"

#include <stdlib.h>
#include <string.h>

/* What others need to reach a VM. It has references to the channels. */
struct reached {
  uint64_t id;
  char name[BATON_VM_NAME];
  struct baton_shared_channel *requests, *ended;
};

struct all_reached {
  size_t count, room;
  struct reached *each; /* malloc'ed */
  int is_short_of_memory;
};

static int has_room(struct all_reached *all) {
  struct reached *grown;
  const size_t room = all->room == 0 ? 16 : 2 * all->room;
  if (all->count < all->room) return 1;
  grown = realloc(all->each, room * sizeof *grown);
  if (grown == NULL) return 0;
  all->each = grown;
  all->room = room;
  return 1;
}

/* Called with the list locked, so it calls nothing that waits. */
static void reach(void *argument, uint64_t id, struct baton_lua_vm *vm) {
  struct all_reached *all = argument;
  const struct baton_vm_start *start = vm->start;
  struct reached *reached;
  if (all->is_short_of_memory || !has_room(all)) {
    all->is_short_of_memory = 1;
    return;
  }
  reached = &all->each[all->count++];
  reached->id = id;
  memcpy(reached->name, start->name, sizeof reached->name);
  reached->requests = start->links[BATON_REQUESTS];
  reached->ended = start->links[BATON_ENDED];
  baton_shared_channel_hold(reached->requests);
  baton_shared_channel_hold(reached->ended);
}

/* The argument is a `struct all_reached`. Returns a list of {id=, name=, requests=, ended=}. */
static int push_all(lua_State *L) {
  const struct all_reached *all = lua_touserdata(L, 1);
  size_t i;
  lua_newtable(L);
  for (i = 0; i < all->count; i++) {
    const struct reached *reached = &all->each[i];
    lua_createtable(L, 0, 4);
    lua_pushinteger(L, (lua_Integer)reached->id);
    lua_setfield(L, -2, "id");
    lua_pushstring(L, reached->name);
    lua_setfield(L, -2, "name");
    baton_sharing_push_channel(L, reached->requests);
    lua_setfield(L, -2, "requests");
    baton_sharing_push_channel(L, reached->ended);
    lua_setfield(L, -2, "ended");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* list() -> the VMs beside the first one that have been started and have not ended, in no order */
int baton_vms_list(lua_State *L) {
  struct all_reached all = {0, 0, NULL, 0};
  int status = LUA_OK;
  size_t i;
  luaL_checkstack(L, 2, NULL);
  lua_pushcfunction(L, push_all);
  lua_pushlightuserdata(L, &all);
  baton_vms_each(reach, &all);
  if (!all.is_short_of_memory) status = lua_pcall(L, 1, 1, 0);
  for (i = 0; i < all.count; i++) {
    baton_shared_channel_release(all.each[i].requests);
    baton_shared_channel_release(all.each[i].ended);
  }
  free(all.each);
  if (all.is_short_of_memory) return luaL_error(L, "not enough memory");
  if (status != LUA_OK) return lua_error(L);
  return 1;
}

/* is_idle(id) -> whether all processes of the VM wait. A hint. */
int baton_vms_is_waiting(lua_State *L) {
  lua_pushboolean(L, baton_vms_is_idle((uint64_t)luaL_checkinteger(L, 1)));
  return 1;
}
