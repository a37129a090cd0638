/*
** A process that has stopped waits for its debugger's questions.
**
** A process that has stopped waits for a semaphore, and the others run. If it cannot wait there (in
** a critical section, in a simulated run), or if all are to stop, then it keeps the VM, and its
** native thread waits.
*/
#include "debugger/inside.h"
#include "state/state.h"

#include <string.h>

struct stop {
  struct baton_process *process;
  const char *reason;
  int breakpoint;
  int is_alone;
  ptrdiff_t top; /* the place of an error on the stack */
};

/* Whether the process keeps the VM while it has stopped. */
static int is_alone(const struct baton_process *process) {
  const struct baton_lua_vm *vm = process->vm;
  return baton_debugger_stops_all || baton_simulated || vm->closing ||
      vm->hook_process == process || process->foreign_states > 0 || process->criticals > 0;
}

void baton_debugger_serve(
    lua_State *L, struct baton_process *process, uint64_t number, int alone) {
  struct baton_debugged *debugged = process->debugged;
  const void *executor = process->vm->executor;
  for (;;) {
    struct baton_wake wake = {BATON_DONE, 0, 0};
    if (baton_debug_serve(number, process)) return;
    baton_lua_enter(L);
    if (alone)
      baton_debug_await(number);
    else
      wake = baton_semaphore_wait(executor, debugged->semaphore, BATON_FOREVER);
    if (wake.reason == BATON_INTERRUPTED) process->interrupted = 1;
    baton_lua_leave(L);
    if (wake.reason != BATON_DONE || process->killed) {
      baton_debug_goes_on(number);
      return;
    }
  }
}

/* Keeps the error that is being raised, and pushes its text: of a table, what is in it. No method
   of the program is called for it. Sets the name of its type. */
static void push_error(lua_State *L, const struct stop *stop, const char **type) {
  luaL_checkstack(L, 8, NULL);
  lua_lock(L);
  setobj2s(L, L->top.p, s2v(restorestack(L, stop->top)));
  api_incr_top(L);
  lua_unlock(L);
  *type = luaL_typename(L, -1);
  baton_debugger_keep_error(L, stop->process);
  baton_debugger_push_text(L);
  lua_remove(L, -2);
}

static void stop_here(lua_State *L, void *argument) {
  const struct stop *stop = argument;
  struct baton_process *process = stop->process;
  struct baton_debugged *debugged = process->debugged;
  const char *text = "", *type = "";
  size_t size = 0;
  const uint64_t since = baton_now();
  const int is_error = strcmp(stop->reason, "exception") == 0;
  process->in_debugger = stop->is_alone ? BATON_ALONE_IN_DEBUGGER : BATON_IN_DEBUGGER;
  if (is_error) {
    push_error(L, stop, &type);
    text = lua_tolstring(L, -1, &size);
  }
  baton_debug_stopped(process->id, process, process, debugged->semaphore, stop->is_alone,
      stop->reason, stop->breakpoint, text, size, type);
  if (is_error) lua_pop(L, 1);
  baton_debugger_serve(L, process, process->id, stop->is_alone);
  if (baton_debugger_stops_all && !baton_simulated) { /* timers have stood still, too */
    baton_lua_enter(L);
    baton_postpone(process->vm->executor, baton_now() - since);
    baton_lua_leave(L);
  }
  baton_debugger_forget_shown(process);
  process->in_debugger = BATON_NOT_IN_DEBUGGER;
}

void baton_debugger_stop(
    lua_State *L, struct baton_process *process, const char *reason, int breakpoint) {
  struct baton_debugged *debugged = baton_debugger_of(process);
  struct stop stop = {
      process, reason, breakpoint, is_alone(process), savestack(L, L->top.p - 1)};
  if (debugged == NULL) return; /* no memory */
  if (debugged->semaphore == 0 && !stop.is_alone) {
    debugged->semaphore = baton_semaphore_new(process->vm->executor, 0);
    baton_set_object_name(
        process->vm->executor, BATON_SEMAPHORE, debugged->semaphore, "of the debugger");
  }
  process->traced = 0;
  debugged->pauses = debugged->is_entry = 0;
  debugged->step = BATON_CONTINUE;
  baton_debugger_in_hook(L, stop_here, &stop);
  if (baton_lua_debugger() != NULL) baton_debugger_begin_step(process, debugged->step);
}

void baton_debugger_resume(struct baton_process *process, enum baton_debugger_step step) {
  process->debugged->step = step;
}
