/*
** Signal handlers of modules and of what they bring: when they run, where on the stack, and how many have run.
**
** The executable exports `sigaction` and `signal`. A handler from outside of the executable is called by `run`, which stands in its place with the kernel; who asks
** for the handler of a signal is told of the program's own. Handlers of faults are left as they are: what they interrupt is not a wait.
**
** So it is known
**
**   - that a call is made beneath a handler on a process's own stack: it may not park, since the code that was interrupted may hold anything (parked.c)
**   - that a handler has run on a native thread: it ends the waits that are parked on that thread, as it would end the call that the thread waits in
*/
#include "guest.h"
#include "parked.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

typedef void handler(int, siginfo_t *, void *);

/* What the program has set, by signals. It stays when the signal gets an action without a handler. */
static _Atomic(handler *) handlers[_NSIG];

/* {======================================================
** While they run
** ======================================================= */

static __thread struct baton_handled handled __attribute__((tls_model("local-exec")));

/* Of the calling thread as it is now. */
__attribute__((noinline)) struct baton_handled *baton_handled_here(void) {
  struct baton_handled *here = &handled;
  __asm__ volatile("" : "+r"(here) : : "memory");
  return here;
}

/*
** Stacks grow downwards: what a handler calls is beneath it. A handler may have been left by a jump; what is above it then is not beneath it, and who
** comes by from there takes the note back.
*/
int baton_is_in_handler(const struct baton_process *process) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  struct baton_handled *on_thread = baton_handled_here();
  const uintptr_t frame = on_thread->frame;
  if (frame < process->stack_low || frame >= process->stack_high) return 0; /* none, or another stack's */
  if (here < frame) return 1;
  on_thread->frame = 0;
  return 0;
}

/* Asked before the handler is called, which may set another action. Afterwards SA_RESETHAND has changed the handler alone. */
static int restarts_calls(int number) {
  struct sigaction action;
  return baton_system()->sigaction(number, NULL, &action) == 0 && (action.sa_flags & SA_RESTART) != 0;
}

static void run(int number, siginfo_t *information, void *context) {
  struct baton_handled *here = baton_handled_here();
  const uintptr_t outer = here->frame;
  int saved_errno = errno;
  /* Acquire: pairs with the store in `take_place_of`. Without SA_SIGINFO the handler takes the first argument, and leaves the others. */
  handler *of_program = atomic_load_explicit(&handlers[number], memory_order_acquire);
  const int restarts = restarts_calls(number);
  errno = saved_errno;
  here->frame = (uintptr_t)__builtin_frame_address(0);
  baton_signal_fence();
  of_program(number, information, context);
  baton_signal_fence();
  here->frame = outer;
  saved_errno = errno;
  if (baton_is_program()) {
    /* Relaxed: the request below releases them, to the owner; a process on this thread reads its own thread's. */
    atomic_fetch_add_explicit(&here->ran, 1, memory_order_relaxed);
    if (!restarts) atomic_fetch_add_explicit(&here->broke_off, 1, memory_order_relaxed);
    baton_lua_handler_has_run();
  }
  errno = saved_errno;
}

/* }====================================================== */

/* {======================================================
** Setting them
** ======================================================= */

static int is_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGTRAP || number == SIGSYS;
}

/* In a child of vfork the handlers here are still its parent's, and the signals' actions its own. */
static int takes_note_of(int number, __sighandler_t action) {
  if (number < 1 || number >= _NSIG || is_fault(number) || action == SIG_DFL || action == SIG_IGN || action == SIG_ERR) return 0;
  return !baton_lua_is_ours((lua_CFunction)(void (*)(void))action) && baton_is_program();
}

static handler *handler_of(int number) {
  return number >= 1 && number < _NSIG ? atomic_load_explicit(&handlers[number], memory_order_acquire) : NULL; /* Acquire: as in `run` */
}

/* Before the kernel is told: the signal may come at once. Release: pairs with the load in `run`. */
static void take_place_of(handler *of_program, int number) { atomic_store_explicit(&handlers[number], of_program, memory_order_release); }

int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict old) {
  const struct baton_system_calls *system = baton_system();
  handler *const before = handler_of(number);
  const int is_noted = action != NULL && takes_note_of(number, action->sa_handler);
  struct sigaction ours;
  int result;
  if (is_noted) {
    take_place_of(action->sa_sigaction, number);
    ours = *action;
    ours.sa_sigaction = run;
    action = &ours;
  }
  result = system->sigaction(number, action, old);
  if (result != 0 && is_noted) take_place_of(before, number);
  if (result == 0 && old != NULL && old->sa_sigaction == run) old->sa_sigaction = before;
  return result;
}

/* The system's own knows whether calls are restarted (siginterrupt). */
__sighandler_t signal(int number, __sighandler_t action) {
  const struct baton_system_calls *system = baton_system();
  handler *const before = handler_of(number);
  const __sighandler_t place = (__sighandler_t)(void (*)(void))run;
  const int is_noted = takes_note_of(number, action);
  __sighandler_t old;
  if (is_noted) take_place_of((handler *)(void (*)(void))action, number);
  old = system->signal(number, is_noted ? place : action);
  if (old == SIG_ERR && is_noted) take_place_of(before, number);
  return old == place ? (__sighandler_t)(void (*)(void))before : old;
}

/* }====================================================== */
