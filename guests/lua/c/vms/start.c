/*
** The start of a VM beside the program's first one, what its main process runs, and what its end
** closes.
*/
#include "vms/vms.h"
#include "calls/calls.h"
#include "net/net.h"
#include "program/program.h"
#include "sharing/sharing.h"
#include "lualib.h"

#include <stdlib.h>
#include <string.h>

/* {======================================================
** In the new VM
** ======================================================= */

/* What a VM needs at least, in bytes. Less than what malloc gets by mmap. */
#define HEAP_AT_START ((size_t)96 << 10)

/* In glibc, the heap of a thread that is not the first one grows by single pages, each with a
   system call. This makes room in one step, and touches no memory. */
static void make_room(void) {
  void *volatile room = malloc(HEAP_AT_START);
  free(room);
}

/* The main process's body: serve(requests, life, ended, id, values...) of lua/vm.lua. */
static int begin(lua_State *L) {
  struct baton_vm_start *start = baton_lua_here(L)->vm->start;
  struct baton_block *block;
  int link, count;
  make_room();
  lua_settop(L, 0);
  if (start->ignores_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  baton_lua_openlibs(L);
  baton_vms_push_serve(L);
  for (link = 0; link < BATON_LINKS; link++) baton_sharing_push_channel(L, start->links[link]);
  lua_pushinteger(L, (lua_Integer)start->id);
  /* Only the VM takes it. When it has ended without that, nobody else runs. */
  block = start->block;
  start->block = NULL;
  count = baton_copy_in(L, block);
  lua_call(L, BATON_LINKS + 1 + count, 0);
  lua_settop(L, 0);
  lua_pushinteger(L, baton_lua_wait_for_rest(L));
  return 1;
}

/* }====================================================== */

/* {======================================================
** In the VM that starts it
** ======================================================= */

static void free_start(struct baton_vm_start *start) {
  int link;
  if (start->block != NULL) baton_block_free(start->block);
  for (link = 0; link < BATON_LINKS; link++)
    if (start->links[link] != NULL) baton_shared_channel_release(start->links[link]);
  free(start);
}

static struct baton_vm_start *make_start(lua_State *L, struct baton_block *block) {
  struct baton_vm_start *start = calloc(1, sizeof *start);
  int link;
  if (start == NULL) return NULL;
  start->block = block;
  strncpy(start->name, lua_tostring(L, 1), sizeof start->name - 1);
  for (link = 0; link < BATON_LINKS; link++)
    start->links[link] = baton_sharing_hold_channel(L, 4 + link);
  start->ignores_environment =
      lua_getfield(L, LUA_REGISTRYINDEX, "LUA_NOENV") != LUA_TNIL && lua_toboolean(L, -1);
  lua_pop(L, 1);
  return start;
}

/* Makes the records and starts the VM, which owns `start` from then on. Returns its id, or 0 and a
   message. */
static uint64_t start_with(const struct baton_lua_vm *starter, struct baton_vm_start *start,
    uint64_t memory, int cpu, char *message, size_t size) {
  struct baton_lua_vm *vm = baton_lua_make_vm("baton");
  struct baton_process *main;
  uint64_t id;
  if (vm == NULL) {
    free_start(start);
    return 0;
  }
  vm->start = start;
  vm->memory_limit = memory;
  if ((main = baton_lua_make_main(vm, begin)) == NULL) {
    baton_lua_free_vm(vm);
    return 0;
  }
  baton_turns_turn_on();
  vm->number = start->id = baton_vms_next_id();
  id = baton_vms_start(
      starter->executor, vm, main, start->id, start->name, cpu, message, size);
  if (id == 0) free(main); /* the rest was freed with the executor */
  return id;
}

int baton_vms_start_one(lua_State *L) {
  char message[BATON_MESSAGE] = "not enough memory";
  const lua_Integer memory = luaL_optinteger(L, 2, 0), cpu = luaL_optinteger(L, 3, -1);
  struct baton_block *block;
  struct baton_vm_start *start;
  uint64_t id = 0;
  luaL_checkstring(L, 1);
  if (!lua_isnoneornil(L, 3) && !baton_vms_may_use(cpu, message, sizeof message)) {
    lua_pushnil(L);
    lua_pushstring(L, message);
    return 2;
  }
  baton_lua_check_memory(L);
  baton_net_note_vms(L);
  block = baton_copy_out(L, 4 + BATON_LINKS, lua_gettop(L) - 3 - BATON_LINKS, "value");
  if (block == NULL) return lua_error(L);
  start = make_start(L, block);
  if (start == NULL)
    baton_block_free(block);
  else
    id = start_with(baton_lua_here(L)->vm, start, (uint64_t)memory, (int)cpu, message,
        sizeof message);
  if (id == 0) {
    lua_pushnil(L);
    lua_pushstring(L, message);
    return 2;
  }
  lua_pushinteger(L, (lua_Integer)id);
  return 1;
}

/* }====================================================== */

void baton_vms_closes(struct baton_lua_vm *vm) {
  struct baton_vm_start *start = vm->start;
  int link;
  baton_commands_abandon(vm->commands);
  baton_net_end_of_vm(vm);
  for (link = 0; link < BATON_LINKS; link++) baton_shared_close_from_outside(start->links[link]);
}

void baton_vms_forget_start(struct baton_lua_vm *vm) {
  if (vm->start != NULL) free_start(vm->start);
}
