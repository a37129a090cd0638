/*
** A fork's child. The process that forked continues. All others have ended where they were, without
** their `<close>` methods. If the main process is among them, the process that forked replaces it:
** SIGINT interrupts it, and the program ends with it.
*/
#include "seam/internals.h"
#include "program/program.h"
#include "calls/calls.h"
#include "modules/modules.h"
#include "debugger/debugger.h"
#include "ffi/ffi.h"
#include "io/io.h"
#include "objects/objects.h"
#include "state/state.h"

#include <stddef.h>
#include <unistd.h>

/*
** Replaces the main state's error handler, which was on a C stack that is gone. Lua looks for a
** handler of last resort there. This one lies on no process's stack, so an error goes to the base
** of the process that raised it (see baton_lua_throw_target).
*/
static max_align_t no_handler[64];

/* Ensures that closing the state runs nothing of the main process. */
static void abandon_main_state(lua_State *main) {
  main->errorJmp = (struct lua_longjmp *)no_handler;
  main->tbclist.p = main->stack.p;
  main->nCcalls = (main->nCcalls & ~(l_uint32)0xffff) | 1;
}

/* Called inside the VM, when the child first enters. */
void baton_lua_forked(void) {
  struct baton_process *survivor = baton_gate_process(), *process, *next;
  struct baton_lua_vm *vm = survivor->vm;
  if (survivor->retaken) { /* its own collector bit was replaced by another process's */
    survivor->retaken = 0;
    vm->global->gcstp = cast_byte((vm->global->gcstp & ~GCSTPGC) | survivor->gc_stopped);
  }
  survivor->use.object = NULL;
  baton_debugger_forked(survivor);
  baton_lua_forget_objects(vm);
  vm->forks++;
  baton_lua_names_in_child();
  vm->pid = getpid();
  baton_lua_notices_in_child();
  if (vm->finalizer != survivor) vm->finalizing = 0;
  vm->in_report = 0;
  vm->exiting = 0;
  baton_lua_forget_commands(vm);
  baton_lua_forget_signals();
  baton_lua_forget_calls(vm);
  baton_lua_policies_in_child(survivor);
  baton_lua_retake_policy_in_child();
  baton_lua_keep_loads_of(survivor);
  baton_ffi_forget_callback_queue(vm);
  baton_ffi_forget_timed_calls(vm);
  /* there was no other process yet, or the state is being closed */
  if (vm->main_process == NULL) return;
  for (process = vm->main_process->next_live; process != NULL; process = next) {
    next = process->next_live;
    if (process != survivor) baton_lua_end_in_place(process);
  }
  if (vm->main_process == survivor) return;
  vm->heir = survivor;
  if (vm->main_process->outcome == BATON_ALIVE) {
    baton_lua_end_in_place(vm->main_process);
    abandon_main_state(vm->main);
  }
}
