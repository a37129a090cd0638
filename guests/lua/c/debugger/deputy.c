/*
** The debugger's own process, the *deputy*: it evaluates expressions in frames of processes that
** wait, and stops all on their behalf.
**
** A process that waits cannot answer, as its wait cannot be interrupted and repeated. So another
** one answers: a process that has stopped and keeps the VM, or else the deputy. It does so in a
** critical section. So nothing runs meanwhile, and the frames stay as they are.
**
** The deputy is a daemon, made when it is first needed, and ends when the debugger detaches. A
** simulated run has none: another process would change its schedule.
**
** It is made where signals are served. If no process is current there, the VM is idle. Then it is
** made as hooks run (process/hooks.c): by a record that is in no scheduler, with retakes turned
** off, on the state of a process that waits.
*/
#include "debugger/inside.h"
#include "state/state.h"

#include <string.h>

#define NAME "baton.debugger"
#define MOST_URGENT 80

static int is_wanted; /* atomic */

/* Relaxed: the request for a signal publishes it. */
void baton_debugger_want_deputy(void) { __atomic_store_n(&is_wanted, 1, __ATOMIC_RELAXED); }

/* {======================================================
** The deputy itself
** ======================================================= */

static int answer_questions(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  struct baton_debugged *debugged = process->debugged;
  if (debugged == NULL) return 0;
  baton_lua_enter(L);
  debugged->semaphore = baton_semaphore_new(process->vm->executor, 0);
  baton_lua_leave(L);
  process->in_debugger = BATON_IN_DEBUGGER;
  baton_debug_deputy_answers(process, process->id, debugged->semaphore);
  baton_debugger_serve(L, process, process->id, 0);
  baton_debugger_forget_shown(process);
  process->in_debugger = BATON_NOT_IN_DEBUGGER;
  return 0;
}

int baton_debugger_stop_for(struct baton_process *process, uint64_t number) {
  lua_State *L = process->L;
  struct baton_debugged *debugged = process->debugged;
  const uint64_t since = baton_now();
  struct baton_process *target;
  baton_lua_enter(L);
  target = baton_debugger_find(process->vm, number);
  baton_lua_leave(L);
  if (target == NULL) return 0;
  debugged->step = BATON_CONTINUE;
  process->in_debugger = BATON_ALONE_IN_DEBUGGER;
  baton_debug_stopped(number, target, process, 0, 1, "pause", 0, "", 0, "");
  baton_debugger_serve(L, process, number, 1);
  baton_debugger_forget_shown(process);
  process->in_debugger = BATON_IN_DEBUGGER;
  baton_lua_enter(L);
  baton_postpone(process->vm->executor, baton_now() - since);
  /* a step of a process that waits ends where the wait has ended */
  if (debugged->step != BATON_CONTINUE && baton_lua_debugger() != NULL)
    baton_debugger_pause_later(target);
  baton_lua_leave(L);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Making it
** ======================================================= */

static int start(lua_State *L) {
  struct baton_lua_vm *vm = baton_lua_here(L)->vm;
  struct baton_spawn_options options;
  struct baton_process *process;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  options.daemon = 1;
  options.quiet = 1;
  options.priority = MOST_URGENT;
  process = baton_lua_new_process(L, vm, &options);
  if (process == NULL) return lua_error(L);
  baton_lua_forget_context(process);
  lua_pushliteral(L, NAME);
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  baton_lua_set_name(process, NAME, sizeof NAME - 1);
  lua_pushcfunction(L, answer_questions);
  lua_xmove(L, process->L, 1);
  baton_lua_enter(L);
  /* so that its end is noticed; without memory, it ends at once */
  if (baton_debugger_of(process) != NULL)
    baton_debugger_deputy = process;
  baton_lua_leave(L);
  return 0;
}

static void call_start(lua_State *L, void *unused) {
  (void)unused;
  setfvalue(s2v(L->top.p), start);
  L->top.p++;
  luaD_callnoyield(L, L->top.p - 1, 0);
}

/* Without memory, there is none: the debugger is told after a while. */
static void make(lua_State *L, void *unused) {
  lua_lock(L);
  if (luaD_pcall(L, call_start, NULL, savestack(L, L->top.p), 0) != LUA_OK) L->top.p--;
  lua_unlock(L);
  (void)unused;
}

/* A process that waits, or NULL. */
static struct baton_process *find_waiting(const struct baton_lua_vm *vm) {
  struct baton_process *process;
  for (process = vm->main_process; process != NULL; process = process->next_live) {
    const int state = baton_state(vm->executor, process->sched_id);
    if (process->outcome == BATON_ALIVE && process->L->ci != &process->L->base_ci &&
        (state == BATON_STATE_WAITING || state == BATON_STATE_SLEEPING))
      return process;
  }
  return NULL;
}

/* The collector is stopped: its finalizers may wait, which the maker cannot. */
static void make_while_idle(struct baton_lua_vm *vm) {
  struct baton_process maker, *waiting = find_waiting(vm);
  global_State *g = vm->global;
  const lu_byte stopped = g->gcstp;
  if (waiting == NULL) return;
  memset(&maker, 0, sizeof maker);
  maker.vm = vm;
  maker.global = g;
  maker.outcome = BATON_RETURNED;
  maker.foreign_states = 1; /* it never gives way */
  maker.L = baton_lua_innermost(waiting);
  baton_set_retaking(vm->executor, 0);
  baton_gate_set_process(&maker);
  g->gcstp |= GCSTPGC;
  baton_debugger_in_hook(maker.L, make, NULL);
  g->gcstp = stopped;
  baton_gate_set_process(NULL);
  baton_set_retaking(vm->executor, 1);
}

void baton_debugger_signalled(struct baton_lua_vm *vm) {
  struct baton_process *process = baton_gate_process();
  if (l_likely(!__atomic_load_n(&is_wanted, __ATOMIC_RELAXED))) return;
  __atomic_store_n(&is_wanted, 0, __ATOMIC_RELAXED);
  if (baton_debugger_deputy != NULL || vm != baton_debugger_vm()) return;
  if (baton_lua_debugger() == NULL) return;
  if (vm->closing || vm->ending || vm->main_process == NULL || baton_simulated) return;
  if (process == NULL) {
    make_while_idle(vm);
  } else {
    process->foreign_states++; /* it gives way to none meanwhile */
    baton_debugger_in_hook(baton_lua_innermost(process), make, NULL);
    process->foreign_states--;
  }
}

/* }====================================================== */
