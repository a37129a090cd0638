/*
** What a debugger knows of processes, and how a function of ours runs between two instructions.
*/
#include "debugger/inside.h"
#include "state/state.h"

#include <stdlib.h>

static struct baton_lua_vm *program;
static struct baton_debugged *all_debugged;
struct baton_process *baton_debugger_deputy;
int baton_debugger_stops_all;

struct baton_lua_vm *baton_debugger_vm(void) { return program; }

/* {======================================================
** Processes
** ======================================================= */

struct baton_debugged *baton_debugger_of(struct baton_process *process) {
  struct baton_debugged *debugged = process->debugged;
  if (debugged != NULL) return debugged;
  for (debugged = all_debugged; debugged != NULL && debugged->process != NULL;)
    debugged = debugged->next;
  if (debugged == NULL) {
    debugged = calloc(1, sizeof *debugged);
    if (debugged == NULL) return NULL;
    debugged->next = all_debugged;
    all_debugged = debugged;
  }
  debugged->process = process;
  process->debugged = debugged;
  return debugged;
}

int baton_debugger_any_traced(void) {
  const struct baton_debugged *debugged;
  for (debugged = all_debugged; debugged != NULL; debugged = debugged->next)
    if (debugged->process != NULL && debugged->process->traced) return 1;
  return 0;
}

/* Called at the end of a process that a debugger knows. Inside the VM. */
static void end_debugged(struct baton_process *process) {
  struct baton_debugged *debugged = process->debugged;
  if (debugged == NULL) return;
  if (baton_debugger_deputy == process) baton_debugger_deputy = NULL;
  if (debugged->semaphore != 0)
    baton_free(process->vm->executor, BATON_SEMAPHORE, debugged->semaphore);
  debugged->semaphore = 0;
  debugged->pauses = debugged->is_entry = 0;
  debugged->process = NULL;
  process->debugged = NULL;
  process->traced = 0;
  if (baton_debugger_traces == BATON_TRACES_STEPS && !baton_debugger_any_traced())
    baton_debugger_traces = BATON_TRACES_BREAKPOINTS;
}

void baton_debugger_forget_steps(void) {
  struct baton_debugged *debugged;
  for (debugged = all_debugged; debugged != NULL; debugged = debugged->next) {
    debugged->pauses = 0;
    if (debugged->process != NULL) debugged->process->traced = 0;
  }
}

void baton_debugger_install(struct baton_lua_vm *vm) {
  program = vm;
  baton_seam_hooks.debugged_ends = end_debugged;
}

/* In a fork's child, the debugger is not there, and the others are gone. */
void baton_debugger_forked(struct baton_process *survivor) {
  baton_debugger_detach();
  all_debugged = NULL;
  baton_debugger_deputy = NULL;
  survivor->debugged = NULL;
  survivor->traced = survivor->in_debugger = survivor->evaluates = 0;
}

/* Relaxed: as in baton_lua_debugger. */
void baton_debugger_detach(void) { __atomic_store_n(&baton_debugger, NULL, __ATOMIC_RELAXED); }

/* }====================================================== */

/* {======================================================
** Running our code between two instructions
** ======================================================= */

/* As luaD_hook, for a function of ours. Inside the VM before and after; `function` is called
   outside. */
void baton_debugger_in_hook(lua_State *L, void (*function)(lua_State *L, void *), void *argument) {
  CallInfo *ci = L->ci;
  const ptrdiff_t top = savestack(L, L->top.p), ci_top = savestack(L, ci->top.p);
  const lu_byte allows_hooks = L->allowhook;
  const unsigned short was_hooked = ci->callstatus & CIST_HOOKED;
  if (isLua(ci) && L->top.p < ci->top.p) L->top.p = ci->top.p;
  luaD_checkstack(L, LUA_MINSTACK);
  if (ci->top.p < L->top.p + LUA_MINSTACK) ci->top.p = L->top.p + LUA_MINSTACK;
  L->allowhook = 0;
  ci->callstatus |= CIST_HOOKED;
  lua_unlock(L);
  function(L, argument);
  lua_lock(L);
  L->allowhook = allows_hooks;
  ci->top.p = restorestack(L, ci_top);
  L->top.p = restorestack(L, top);
  if (!was_hooked) ci->callstatus &= (unsigned short)~CIST_HOOKED;
}

/* }====================================================== */
