/*
** The end of a state that a program embeds: its processes, threads and descriptors end with it.
*/
#include "seam/internals.h"
#include "hosting/hosting.h"
#include "process/process.h"
#include "program/program.h"
#include "state/state.h"

#include <stdlib.h>

/* Replaces lua_close. Returns 0 if the state has no processes, or if they have ended. */
int baton_hosted_close(lua_State *L) {
  struct baton_lua_vm *vm = baton_hosted_vm_of(L);
  struct baton_process *main;
  struct baton_host *host;
  if (vm == NULL || vm->closing) return 0;
  main = baton_hosted_enter(vm);
  if (main == NULL) {
    baton_lua_warn("baton: lua_close is called on a Lua state in the middle of a call of one of "
                   "its processes, or on another thread than theirs. Call it on their thread, "
                   "when all calls into the state have returned.\n");
    abort();
  }
  L = vm->main;
  lua_settop(L, 0);
  host = vm->host;
  baton_lua_run_exit_hook(main);
  lua_settop(L, 0);
  baton_lua_finish(L, 0);
  baton_host_halt_vms(host);
  baton_hosted_remove(vm);
  baton_lua_close_state(main);
  (void)baton_gate_enter(); /* the state is closed, so only the executor can be entered */
  baton_host_end(host);
  return 1;
}
