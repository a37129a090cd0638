/*
** The program's signals: SIGINT raises an error in the main process, SIGQUIT serves an observer's
** request, or else reports on all processes. The handlers only note the signal and request a
** safepoint. In other files they call only functions of seam/signal_safe.c.
*/
#include "program/program.h"
#include "debugger/debugger.h"
#include "io/io.h"
#include "objects/objects.h"
#include "state/state.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static int is_watching; /* set once */

static volatile sig_atomic_t interrupt_wanted;

/* Whether SIGINT has come since the main process was last made interruptible. */
static volatile sig_atomic_t was_interrupted;

static void on_interrupt(int signal, const void *info, const void *context) {
  const int saved_errno = errno;
  (void)info;
  (void)context;
  if (baton_lua_command_has_interrupts()) return;
  if (was_interrupted) {
    baton_lua_end_by_signal(signal);
    return;
  }
  was_interrupted = 1;
  interrupt_wanted = 1;
  baton_lua_ask_for_safepoint();
  errno = saved_errno;
}

static void on_quit(int signal, const void *info, const void *context) {
  const int saved_errno = errno;
  (void)signal;
  (void)context;
  baton_lua_quit(baton_lua_is_observers(info));
  errno = saved_errno;
}

/* Sets a signal's action inside the VM, as channels of signals do. */
static void set_action(int signal, baton_signal_handler handler) {
  const struct baton_process *process = baton_gate_process();
  lua_State *L = process->L;
  baton_lua_enter(L);
  baton_set_signal_action(signal, handler);
  baton_lua_leave(L);
}

void baton_lua_watch_signals(struct baton_lua_vm *vm) {
  baton_lua_have_signals_for(vm);
  is_watching = 1;
  set_action(SIGQUIT, on_quit);
}

void baton_lua_set_interruptible(int on) {
  if (!is_watching) return;
  was_interrupted = 0;
  set_action(SIGINT, on ? on_interrupt : NULL);
}

/* Called inside the VM, at a safepoint of any process or in the executor's loop. */
void baton_lua_signalled(struct baton_lua_vm *vm) {
  struct baton_process *target = baton_lua_interrupt_target(vm);
  baton_lua_deliver_signals(vm);
  baton_debugger_signalled(vm);
  baton_lua_set_wanted_hook(vm);
  if (!interrupt_wanted || target == NULL) return;
  interrupt_wanted = 0;
  target->interrupted = 1;
  if (!baton_interrupt(vm->executor, target->sched_id)) baton_lua_request_safepoint(target);
}
