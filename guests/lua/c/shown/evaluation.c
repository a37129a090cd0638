/*
** Evaluations: what a process runs for a debugger, and how that ends early.
**
** | state of a process | left by |
** |---|---|
** | does not evaluate | `baton_debugger_begin_evaluation`: it evaluates, unless it is to end |
** | evaluates | `baton_debugger_end_evaluation`; or its end is asked for |
** | evaluates, is to end | the error that is raised in it, and then the same |
**
** `evaluation_ends` is set by any thread; the rest is written inside the VM. The thread that sets
** it then looks at the VM. So no end is lost: if the process has not begun, it finds the flag when
** it begins. If it has, the look finds that (`baton_debugger_must_hurry`), and interrupts its wait
** or has it reach a safepoint, where it finds the flag. A process that keeps the VM is made to
** reach one by the look that waits.
*/
#include "shown/inside.h"
#include "state/state.h"

int baton_debugger_begin_evaluation(struct baton_process *process) {
  int begins;
  baton_lua_enter(process->L);
  process->evaluates = 1;
  begins = !baton_lua_evaluation_ends(process);
  if (!begins) process->evaluates = 0;
  baton_lua_leave(process->L);
  return begins;
}

void baton_debugger_end_evaluation(struct baton_process *process) {
  baton_lua_enter(process->L);
  /* an end that was asked for may have woken it */
  if (baton_lua_evaluation_ends(process)) process->interrupted = 0;
  process->evaluates = 0;
  baton_debugger_ask_to_end(process, 0);
  baton_lua_leave(process->L);
}

void baton_debugger_ask_to_end(struct baton_process *process, int on) {
  /* Relaxed: see baton_lua_evaluation_ends. */
  __atomic_store_n(&process->evaluation_ends, (unsigned char)on, __ATOMIC_RELAXED);
}

int baton_debugger_must_hurry(const struct baton_process *process) {
  return baton_lua_evaluation_ends(process);
}
