/*
** Functions that may run inside a signal handler, wherever the signal has interrupted the thread:
** in malloc, in Lua, inside the VM or outside.
**
** They call only each other and functions that POSIX calls async-signal-safe: write, memcpy,
** strcmp, strlen, strnlen, sigemptyset, sigaction and raise. They take no lock, allocate nothing
** and do not enter the VM. Some calls lead to Rust. `baton_request_signalled` sets a bit and writes
** to a descriptor; inside the VM it calls `baton_lua_preempt` instead. `baton_note_quit` sets an
** atomic. `baton_note_running` opens a file, checks its owner and writes to it, by system calls.
** `baton_is_observers` reads what the system says of the signal.
** `on_signal` also calls `baton_note_signal`, which changes two atomics.
**
** Their callers are the handlers: `on_interrupt` and `on_quit` (program/signals.c), `on_signal`
** (objects/signal_channels.c), and in Rust those of the preemption signal and of faults.
*/
#include "seam/internals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* {======================================================
** Safepoints
** ======================================================= */

/* New frames read hookmask. The topmost Lua frame reads its own trap. */
void baton_lua_arm(lua_State *L) {
  CallInfo *ci;
  L->hookmask |= BATON_HOOK_BIT;
  for (ci = L->ci; ci != NULL; ci = ci->previous) {
    if (isLua(ci)) {
      ci->u.l.trap = 1;
      return;
    }
  }
}

void baton_lua_preempt(void) {
  struct baton_gate *here = baton_gate_here();
  struct baton_process *process = here->process;
  if ((here->gate & 1) == 0 && process != NULL && process->global != NULL)
    baton_lua_arm(baton_lua_innermost(process));
}

/* The VM for signals: the program's. Set once. */
static struct baton_lua_vm *program;

void baton_lua_have_signals_for(struct baton_lua_vm *vm) { program = vm; }

/*
** The interrupted thread reaches a safepoint at its next instruction (inside the VM) or when it
** enters (outside). If it is not the owner's thread, the executor's kick reaches the owner.
*/
void baton_lua_ask_for_safepoint(void) {
  __atomic_fetch_or(&baton_gate_here()->slow, BATON_SLOW_ATTENTION, __ATOMIC_ACQ_REL);
  baton_lua_preempt();
  baton_request_signalled(program->executor);
}

/* }====================================================== */

/* {======================================================
** Hooks
** ======================================================= */

/*
** A module in C keeps the state on which it was opened, and its signal handler sets a hook there.
** In stock Lua that state is the main one, and the hook is called soon. Here it is a permanent
** state, on which nothing runs. So the hook is set where Lua runs: on the state of this thread's
** process. A thread without a process leaves the hook to the next safepoint of the program's VM.
*/
static struct baton_wanted_hook wanted_hook;
static int hook_is_wanted;

lua_State *baton_lua_state_to_hook(lua_State *L, lua_Hook hook, int mask, int count) {
  const struct baton_process *process = baton_gate_process();
  if (hook == NULL || mask == 0 || !(L->base_ci.callstatus & BATON_BASE_IS_PERMANENT)) return L;
  if (process != NULL && process->global == L->l_G) return baton_lua_innermost(process);
  if (program == NULL || program->global != L->l_G) return L;
  wanted_hook.hook = hook;
  wanted_hook.mask = mask;
  wanted_hook.count = count;
  /* Release: pairs with the exchange in `baton_lua_take_wanted_hook`. */
  __atomic_fetch_or(&hook_is_wanted, 1, __ATOMIC_RELEASE);
  baton_lua_ask_for_safepoint();
  return NULL;
}

int baton_lua_take_wanted_hook(struct baton_wanted_hook *hook) {
  int wanted = 1;
  /* Acquire: pairs with the store in `baton_lua_state_to_hook`. Relaxed: there is no hook. */
  if (!__atomic_compare_exchange_n(
          &hook_is_wanted, &wanted, 0, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    return 0;
  *hook = wanted_hook;
  return 1;
}

/* }====================================================== */

/* {======================================================
** Interrupts
** ======================================================= */

/* Whether SIGINT is only for a command that the main process runs. Written outside of handlers. */
static volatile sig_atomic_t command_has_interrupts;

void baton_lua_give_interrupts_to_command(int has) { command_has_interrupts = has; }

int baton_lua_command_has_interrupts(void) { return command_has_interrupts; }

void baton_lua_end_by_signal(int signal) {
  struct sigaction action;
  action.sa_handler = SIG_DFL;
  action.sa_flags = 0;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, NULL);
  raise(signal);
}

/* }====================================================== */

/* {======================================================
** Texts
** ======================================================= */

/* A text under construction. It drops what does not fit. */
struct text {
  char bytes[480];
  size_t size;
};

static void add_bytes(struct text *text, const char *bytes, size_t size) {
  const size_t room = sizeof text->bytes - text->size;
  if (size > room) size = room;
  memcpy(text->bytes + text->size, bytes, size);
  text->size += size;
}

static void add(struct text *text, const char *words) { add_bytes(text, words, strlen(words)); }

/* `base` is 10 or 16. */
static void add_number(struct text *text, uint64_t number, unsigned base) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number != 0);
  add_bytes(text, digits + at, sizeof digits - at);
}

/* The same text as baton_lua_title. */
static void add_title(struct text *text, const struct baton_process *process) {
  add(text, "process ");
  add_number(text, process->id, 10);
  if (process->name[0] == '\0') return;
  add(text, " '");
  add(text, process->name);
  add(text, "'");
}

/* The same text as baton_lua_name_function. */
static void add_function(struct text *text, lua_State *L) {
  const lua_CFunction function = isLua(L->ci) ? NULL : baton_lua_function_of(L->ci);
  const char *name = baton_lua_called_name(L, L->ci);
  if (name != NULL) {
    add(text, "'");
    add_bytes(text, name, strnlen(name, 150));
    add(text, "'");
  } else {
    add(text, "a C function");
    if (function != NULL) {
      add(text, " at 0x");
      add_number(text, (uintptr_t)function, 16);
    }
  }
}

/* The innermost state with a frame. A coroutine that is about to begin has none yet. */
static lua_State *state_with_frames(const struct baton_process *process) {
  const struct baton_resumed *resumed = process->resumed;
  while (resumed != NULL && resumed->L->ci == &resumed->L->base_ci) resumed = resumed->previous;
  return resumed != NULL ? resumed->L : process->L;
}

/* }====================================================== */

/* {======================================================
** SIGQUIT
** ======================================================= */

int baton_lua_is_observers(const void *info) { return baton_is_observers(info); }

/* Outside the VM the frames of the process are at rest, and its function can be named. */
void baton_lua_quit(int is_observers) {
  const struct baton_process *process = baton_gate_process();
  struct text text = {.size = 0};
  baton_note_quit(is_observers);
  if (is_observers && process != NULL) {
    add_title(&text, process);
    if ((baton_gate_here()->gate & 1) == 0 || process->global == NULL) {
      add(&text, " computes");
    } else {
      add(&text, " is in ");
      add_function(&text, state_with_frames(process));
    }
    baton_note_running(text.bytes, text.size);
  }
  baton_lua_ask_for_safepoint();
}

/* }====================================================== */

/* {======================================================
** Overflows
** ======================================================= */

/*
** Runs on the signal stack. The process's frames do not change, as its thread is here. Others may
** run beside its call. But while a call is out, no stack is moved, and no function on a stack is
** freed.
*/
int baton_lua_report_overflow(uintptr_t address) {
  const struct baton_process *process = baton_gate_process();
  struct text text = {.size = 0};
  if (process == NULL || address < process->stack_guard || address >= process->stack_low) return 0;
  add(&text, "baton: ");
  add_title(&text, process);
  add(&text, " overflowed its C stack of ");
  add_number(&text, process->stack_high - process->stack_low, 10);
  add(&text, " bytes (stack_size) inside ");
  if (process->global != NULL)
    add_function(&text, state_with_frames(process));
  else
    add(&text, "a C function");
  add(&text, "; give it more with the option stack_size of spawn\n");
  if (write(STDERR_FILENO, text.bytes, text.size) < 0) return 1; /* the program ends in any case */
  return 1;
}

/* }====================================================== */
