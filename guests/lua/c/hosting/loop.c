/*
** What a host's loop calls.
*/
#include "seam/internals.h"
#include "hosting/hosting.h"
#include "baton_lua.h"

#include <errno.h>

int baton_lua_run_until(lua_State *L, uint64_t deadline) {
  struct baton_lua_vm *vm = baton_hosted_vm_of(L);
  const struct baton_process *process;
  if (vm == NULL) return BATON_LUA_IDLE;
  process = baton_hosted_enter(vm);
  if (process == NULL || process->foreign_states > 0 || process->criticals > 0 || vm->closing)
    return -EBUSY;
  baton_lua_enter(L);
  return baton_host_go(vm->host, deadline);
}

int baton_lua_descriptor(lua_State *L) {
  const struct baton_lua_vm *vm = baton_hosted_vm_of(L);
  return vm == NULL ? -1 : baton_vm_descriptor(vm->executor);
}

uint64_t baton_lua_next_deadline(lua_State *L) {
  const struct baton_lua_vm *vm = baton_hosted_vm_of(L);
  return vm == NULL ? BATON_LUA_NO_DEADLINE : baton_vm_next_deadline(vm->executor);
}

uint64_t baton_lua_now(void) { return baton_now(); }
