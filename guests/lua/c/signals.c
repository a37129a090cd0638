/*
** SIGINT raises in the main process; SIGQUIT reports all processes. The handlers only note and kick.
*/
#include "guest.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

/* The VM that signals are for: the program's. Set once. */
static struct baton_vm *program;

static volatile sig_atomic_t interrupt_wanted, report_wanted, is_for_command;

static void handle(int signal, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, NULL);
}

/*
** The thread that the signal has interrupted looks at its next instruction (inside the VM) or when it enters (outside); if it is not the
** owner's thread, the executor's kick finds that one.
*/
static void ask_for_safepoint(void) {
  __atomic_fetch_or(&baton_gate_here()->slow, BATON_SLOW_ATTENTION, __ATOMIC_ACQ_REL);
  baton_lua_preempt();
  baton_rs_request_signalled(program->executor);
}

void baton_lua_handler_has_run(void) {
  if (baton_gate_here()->carrier == 0) return; /* a thread of a module's: nobody is parked on it */
  if (program != NULL && __atomic_load_n(&program->parked, __ATOMIC_RELAXED) > 0) ask_for_safepoint(); /* Relaxed: who parks later waits for later handlers */
}

static void on_interrupt(int signal) {
  if (is_for_command) return;
  handle(signal, SIG_DFL); /* a second one ends the program */
  interrupt_wanted = 1;
  ask_for_safepoint();
}

static void on_quit(int signal) {
  (void)signal;
  report_wanted = 1;
  ask_for_safepoint();
}

void baton_lua_watch_signals(struct baton_vm *vm) {
  program = vm;
  handle(SIGQUIT, on_quit);
}

void baton_lua_set_interruptible(int on) {
  if (program != NULL) handle(SIGINT, on ? on_interrupt : SIG_DFL);
}

int baton_lua_report_wanted(void) {
  int wanted = report_wanted;
  report_wanted = 0;
  return wanted;
}

void baton_lua_leave_interrupts_to_command(int on) { is_for_command = on; }

struct baton_process *baton_lua_whom_to_interrupt(const struct baton_vm *vm) { return vm->heir != NULL ? vm->heir : vm->main_process; }

/* Inside the VM, at a safepoint of any process or in the executor's loop. */
void baton_lua_signalled(struct baton_vm *vm) {
  struct baton_process *target = baton_lua_whom_to_interrupt(vm);
  baton_lua_end_waits_for_handlers(vm);
  if (!interrupt_wanted || target == NULL) return;
  interrupt_wanted = 0;
  target->interrupted = 1;
  if (!baton_rs_interrupt(vm->executor, target->kernel_id)) baton_lua_request_safepoint(target);
}

int baton_start_helper(const char *name, void *(*run)(void *), void *argument) {
  pthread_t thread;
  sigset_t all, before;
  int failed;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  failed = pthread_create(&thread, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return 0;
  pthread_setname_np(thread, name);
  pthread_detach(thread);
  return 1;
}
