/*
** Steps: where they begin and end. And pauses.
*/
#include "debugger/inside.h"

#include <string.h>

enum where { IN_FRAME, DEEPER, OUTER };

static int has_state(const struct baton_process *process, const lua_State *L) {
  const struct baton_resumed *resumed;
  if (process->L == L) return 1;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (resumed->L == L) return 1;
  return 0;
}

/* Where the running frame is, as seen from the one in which the step began. */
static enum where where_is(const struct baton_debugged *debugged, lua_State *L) {
  ptrdiff_t frame;
  if (L != debugged->L) return has_state(debugged->process, debugged->L) ? DEEPER : OUTER;
  frame = savestack(L, L->ci->func.p);
  if (frame == debugged->frame) return IN_FRAME;
  return frame > debugged->frame ? DEEPER : OUTER;
}

int baton_debugger_is_prologue(const Instruction *pc) { return GET_OPCODE(*pc) == OP_VARARGPREP; }

/* Functions of our own are stepped over. */
static int is_the_programs(const Proto *function) {
  return function->source != NULL && strncmp(getstr(function->source), "=process.", 9) != 0;
}

/* Whether the step ends at this instruction. Sets whether the frame is traced on. */
int baton_debugger_step_ends(
    struct baton_debugged *debugged, lua_State *L, const Instruction *pc, int *keeps) {
  const Proto *function = ci_func(L->ci)->p;
  const int at = pcRel(pc + 1, function);
  int line;
  switch (where_is(debugged, L)) {
    case OUTER: return 1;
    case DEEPER:
      if (debugged->step != BATON_STEP_IN || !is_the_programs(function)) return 0;
      *keeps = 1;
      return !baton_debugger_is_prologue(pc);
    default:
      if (debugged->step == BATON_STEP_OUT) return 0;
      *keeps = 1;
      line = luaG_getfuncline(function, at);
      if (baton_debugger_is_prologue(pc)) return 0;
      if (line != debugged->line || at <= debugged->pc) return 1;
      debugged->pc = at;
      return 0;
  }
}

/* Has the frames that the process is in traced. */
static void trace_frames(const struct baton_process *process) {
  const struct baton_resumed *resumed = process->resumed;
  lua_State *L = baton_lua_innermost(process);
  for (;;) {
    CallInfo *ci;
    L->hookmask |= BATON_DEBUG_BIT;
    for (ci = L->ci; ci != NULL; ci = ci->previous)
      if (isLua(ci)) ci->u.l.trap = 1;
    if (resumed == NULL) return;
    resumed = resumed->previous;
    L = resumed != NULL ? resumed->L : process->L;
  }
}

static void trace_steps(const struct baton_process *process) {
  if (baton_debugger_traces == BATON_TRACES_NOTHING) baton_debugger_trace_states();
  baton_debugger_traces = BATON_TRACES_STEPS;
  trace_frames(process);
}

void baton_debugger_begin_step(struct baton_process *process, enum baton_debugger_step step) {
  struct baton_debugged *debugged = process->debugged;
  lua_State *L = baton_lua_innermost(process);
  debugged->step = step;
  process->traced = step != BATON_CONTINUE || debugged->pauses;
  if (!process->traced) {
    if (baton_debugger_any_traced()) return;
    baton_debugger_traces =
        baton_debugger_has_breakpoints() ? BATON_TRACES_BREAKPOINTS : BATON_TRACES_NOTHING;
    return;
  }
  debugged->L = L;
  debugged->frame = savestack(L, L->ci->func.p);
  debugged->line = -1;
  debugged->pc = -1;
  if (isLua(L->ci)) {
    const Proto *function = ci_func(L->ci)->p;
    debugged->pc = pcRel(L->ci->u.l.savedpc, function);
    debugged->line = luaG_getfuncline(function, debugged->pc);
  }
  trace_steps(process);
}

void baton_debugger_pause_later(struct baton_process *process) {
  struct baton_debugged *debugged = baton_debugger_of(process);
  if (debugged == NULL) return;
  debugged->pauses = 1;
  process->traced = 1;
  if (process->L != NULL) trace_steps(process);
}

int baton_debugger_pause(struct baton_process *process, int waits) {
  if (process->outcome != BATON_ALIVE) return BATON_PAUSE_ENDED;
  if (process->evaluates) /* the condition of a breakpoint, or the text of a log point */
    baton_debugger_ask_to_end(process, 1);
  else if (waits && baton_debugger_stops_all && !baton_simulated)
    return BATON_PAUSE_WAITS;
  baton_debugger_pause_later(process);
  return BATON_PAUSES;
}
