/*
** Where a process stops: at breakpoints, after steps, when it is to pause, and at errors.
**
** While calls are traced, each state has BATON_DEBUG_BIT. Then Lua leads the first instruction of
** each function, and the first one after a call has returned, to `trap`. A frame is traced further
** only if its function has a breakpoint, or the step that the process makes concerns it. So a loop
** in another function runs at full speed.
*/
#include "debugger/inside.h"
#include "state/state.h"
#include "system.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* {======================================================
** Errors
** ======================================================= */

static int stops_at_errors;

void baton_debugger_stop_at_errors(int which) { stops_at_errors = which; }

/* Message handlers of calls at which a process ends, besides those of state/. */
static lua_CFunction last_handler;

void baton_debugger_note_last_handler(lua_CFunction handler) { last_handler = handler; }

/* Whether a function is the one that coroutine.wrap returns: it raises the coroutine's errors
   again. */
static int is_of_wrap(lua_State *L) {
  const CallInfo *ci = L->ci;
  if (isLua(ci) || !ttisCclosure(s2v(ci->func.p))) return 0;
  /* coroutine.resume is no closure, and other closures of ours resume nothing */
  return baton_lua_is_ours(baton_lua_function_of(ci));
}

static int has_protected_call(const lua_State *L) {
  const CallInfo *ci;
  for (ci = L->ci; ci != &L->base_ci; ci = ci->previous)
    if (ci->callstatus & CIST_YPCALL) return 1;
  return 0;
}

/* Whether an error on the state, the process's own, reaches the end of the process. */
static int is_last_handler(lua_State *L) {
  const TValue *handler;
  if (L->errfunc == 0) return 0;
  handler = s2v(restorestack(L, L->errfunc));
  return ttislcf(handler) &&
      (fvalue(handler) == baton_lua_keep_traceback || fvalue(handler) == last_handler);
}

/* The first member of Lua's record of a protected call in C is the outer one (ldo.c). */
static int is_outermost(const struct lua_longjmp *call) {
  return call != NULL && *(struct lua_longjmp *const *)call == NULL;
}

static int is_caught(const struct baton_process *process, lua_State *L) {
  const struct baton_resumed *resumed = process->resumed;
  for (;;) {
    if (has_protected_call(L)) return 1;
    if (resumed == NULL) return !is_last_handler(L);
    if (!is_outermost(L->errorJmp)) return 1;
    resumed = resumed->previous;
    L = resumed != NULL ? resumed->L : process->L;
    if (!is_of_wrap(L)) return 1;
  }
}

/* Whether coroutine.wrap raises again what the process has stopped at. */
static int is_known(lua_State *L, struct baton_process *process) {
  struct baton_debugged *debugged = process->debugged;
  const TValue *coroutine;
  if (debugged == NULL || debugged->raised_on == NULL || !is_of_wrap(L)) return 0;
  coroutine = &clCvalue(s2v(L->ci->func.p))->upvalue[0];
  if (!ttisthread(coroutine) || thvalue(coroutine) != debugged->raised_on) return 0;
  debugged->raised_on = L; /* and the next one, if this is in a coroutine, too */
  return 1;
}

static void raises(lua_State *L, struct baton_process *process) {
  if (process->vm != baton_debugger_vm()) return;
  if (stops_at_errors == 0 || (stops_at_errors == 1 && is_caught(process, L))) return;
  if (process->killed || L != baton_lua_innermost(process)) return;
  if (is_known(L, process)) return;
  baton_debugger_stop(L, process, "exception", 0);
  if (process->debugged != NULL) process->debugged->raised_on = L;
}

/* }====================================================== */

/* {======================================================
** Instructions
** ======================================================= */

/* Counts the hits of the breakpoints at an instruction. Returns the id of one at which the process
   is to stop, or 0. */
static int hit_breakpoints(
    lua_State *L, struct baton_process *process, const Proto *function, int pc) {
  struct baton_breakpoint *breakpoint = NULL;
  int stops = 0;
  while ((breakpoint = baton_debugger_breakpoint_at(function, pc, breakpoint)) != NULL) {
    const int id = breakpoint->id;
    if (baton_debugger_hits(L, process, breakpoint)) stops = id;
  }
  return stops;
}

static int trap(lua_State *L, struct baton_process *process, const void *at) {
  const Instruction *pc = at;
  const Proto *function = ci_func(L->ci)->p;
  struct baton_debugged *debugged = process->debugged;
  int breakpoint = 0;
  const char *reason = NULL;
  int keeps = 0;
  if (L != baton_lua_innermost(process)) return 0;
  if (process->traced && debugged != NULL) {
    if (debugged->pauses) {
      keeps = 1;
      if (!baton_debugger_is_prologue(pc)) reason = debugged->is_entry ? "entry" : "pause";
    } else if (baton_debugger_step_ends(debugged, L, pc, &keeps)) {
      reason = "step";
    }
  }
  if (function->marked & BATON_PROTO_HAS_BREAKPOINT) {
    keeps = 1;
    breakpoint = hit_breakpoints(L, process, function, pcRel(pc + 1, function));
    if (breakpoint != 0) reason = "breakpoint";
  }
  if (reason != NULL) {
    baton_debugger_stop(L, process, reason, breakpoint);
    keeps = 1;
  }
  return keeps;
}

static void loaded(lua_State *L) {
  const TValue *function = s2v(L->top.p - 1);
  const struct baton_process *process = baton_lua_here(L);
  if (process == NULL || process->vm != baton_debugger_vm()) return;
  if (ttisLclosure(function) && baton_debugger_has_breakpoints())
    baton_debugger_place_in(clLvalue(function)->p, baton_debug_placed, NULL);
}

/* }====================================================== */

/* {======================================================
** Attaching
** ======================================================= */

static const struct baton_debugger_hooks functions = {trap, raises, loaded};

void baton_debugger_attach(int all_stop) {
  static int is_registered;
  if (!is_registered) is_registered = atexit(baton_debug_flush) == 0;
  baton_debugger_stops_all = all_stop;
  /* Relaxed: as in baton_lua_debugger. */
  __atomic_store_n(&baton_debugger, &functions, __ATOMIC_RELAXED);
}

void baton_debugger_forget(void) {
  baton_debugger_remove_breakpoints();
  stops_at_errors = 0;
  baton_debugger_traces = BATON_TRACES_NOTHING;
  baton_debugger_forget_steps();
}

static int descriptor = -1;

int baton_lua_take_socket(const char *variable) {
  const char *text = baton_trusted_variable(variable);
  char *end;
  long number;
  int kind;
  socklen_t size = sizeof kind;
  if (text == NULL) return -1;
  number = strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || number < 3 || number > 1 << 20) number = -1;
  unsetenv(variable);
  if (number < 0 || getsockopt((int)number, SOL_SOCKET, SO_TYPE, &kind, &size) != 0) return -1;
  fcntl((int)number, F_SETFD, FD_CLOEXEC);
  return (int)number;
}

int baton_debugger_take_descriptor(void) {
  return descriptor = baton_lua_take_socket("BATON_DEBUGGER");
}

void baton_debugger_await_start(lua_State *L) {
  struct baton_process *process;
  if (descriptor < 0) return;
  process = baton_lua_here(L);
  if (baton_debugger_of(process) == NULL) return;
  if (!baton_simulated) setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* its debugger reads along */
  process->in_debugger = BATON_ALONE_IN_DEBUGGER;
  baton_debug_stopped(process->id, process, process, 0, 1, "start", 0, "", 0, "");
  baton_debugger_serve(L, process, process->id, 1);
  process->in_debugger = BATON_NOT_IN_DEBUGGER;
  baton_lua_enter(L);
  /* Breakpoints may have been set, and a pause requested, before there was a state. */
  if (baton_debugger_traces != BATON_TRACES_NOTHING) baton_debugger_trace_states();
  if (process->debugged->step == BATON_STEP_IN) { /* stop at the first instruction */
    process->debugged->is_entry = 1;
    baton_debugger_pause_later(process);
  } else if (process->debugged->pauses) {
    baton_debugger_pause_later(process);
  }
  baton_lua_leave(L);
}

/* }====================================================== */
