/*
** SIGINT raises in the main process; SIGQUIT reports all processes. The handlers only note and
** kick.
*/
#include "program/program.h"
#include "io/io.h"
#include "objects/objects.h"
#include "state/state.h"

#include <signal.h>
#include <string.h>

static int is_watching; /* set once */

static volatile sig_atomic_t interrupt_wanted, report_wanted;

static void on_interrupt(int signal) {
  if (baton_lua_command_has_interrupts()) return;
  baton_lua_set_action(signal, SIG_DFL); /* a second one ends the program */
  interrupt_wanted = 1;
  baton_lua_ask_for_safepoint();
}

static void on_quit(int signal) {
  (void)signal;
  report_wanted = 1;
  baton_lua_ask_for_safepoint();
}

void baton_lua_watch_signals(struct baton_vm *vm) {
  baton_lua_have_signals_for(vm);
  is_watching = 1;
  baton_lua_set_action(SIGQUIT, on_quit);
}

void baton_lua_set_interruptible(int on) {
  if (is_watching) baton_lua_set_action(SIGINT, on ? on_interrupt : SIG_DFL);
}

int baton_lua_report_wanted(void) {
  int wanted = report_wanted;
  report_wanted = 0;
  return wanted;
}

/* Inside the VM, at a safepoint of any process or in the executor's loop. */
void baton_lua_signalled(struct baton_vm *vm) {
  struct baton_process *target = baton_lua_whom_to_interrupt(vm);
  baton_lua_deliver_signals(vm);
  if (!interrupt_wanted || target == NULL) return;
  interrupt_wanted = 0;
  target->interrupted = 1;
  if (!baton_rs_interrupt(vm->executor, target->kernel_id)) baton_lua_request_safepoint(target);
}
