/*
** Marks: notes on the C stack about what a process is inside of. They hold kills back. And errors:
** which handler they go to, and what they remove.
*/
#include "seam/internals.h"

#include "lstring.h"

/* The renamed originals. */
LUAI_FUNC void baton_close_call(lua_State *L, StkId func, int nresults);
LUAI_FUNC void baton_close_callnoyield(lua_State *L, StkId func, int nresults);

/* {======================================================
** Errors
** ======================================================= */

/* Nanoseconds of processor time for which a __close method may hold a kill back; and until it is
   looked at again, when little is left. */
#define HOLD_BOUND 5000000000u
#define HOLD_TICK 10000000u

/* Only safepoints and the ends of waits call this. So a process that holds a kill back and computes
   is asked for a safepoint when its time may be over. Inside the VM. */
void baton_lua_count_hold(struct baton_process *process) {
  const void *vm = process->vm->executor;
  uint64_t used, left;
  if (process->holds == 0 || process->abandoned) return;
  used = (uint64_t)(baton_time_used(vm, process->sched_id).cpu * 1e9);
  if (!process->counts_hold) {
    process->counts_hold = 1;
    process->held_from = used;
  }
  process->held_for = used - process->held_from;
  if (process->held_for >= HOLD_BOUND) return;
  left = HOLD_BOUND - process->held_for;
  baton_request_safepoint_at(
      vm, process->sched_id, baton_now() + (left > HOLD_TICK ? left : HOLD_TICK));
}

/* Reports to the scheduler whether the killed process holds its kill back. Inside the VM. */
static void sync_kill_hold(struct baton_process *process) {
  const void *vm = process->vm->executor;
  baton_set_kill_hold(vm, process->sched_id, process->holds > 0);
  if (process->holds > 0) {
    baton_lua_count_hold(process);
  } else {
    process->held_for = process->abandoned = process->counts_hold = 0;
    baton_request_safepoint_at(vm, process->sched_id, BATON_NO_DEADLINE);
  }
}

static void drop_mark(struct baton_process *process) {
  struct baton_mark *mark = process->marks;
  process->marks = mark->previous;
  if (mark->kind == BATON_MARK_FOREIGN_STATE) {
    process->foreign_states--;
  } else if (mark->kind == BATON_MARK_COLLECTOR) {
    process->global->gcstp &= cast_byte(~GCSTPGC);
  } else if (mark->kind == BATON_MARK_TURN) {
    ((struct baton_turn_mark *)mark)->ends(mark);
  } else {
    /* at the end of the program there may be none left */
    if (mark->kind == BATON_MARK_CRITICAL && process->criticals > 0) {
      process->criticals--;
      baton_leave_critical(process->vm->executor);
    }
    process->holds--;
    if (l_unlikely(process->killed) && process->holds == 0) sync_kill_hold(process);
  }
}

static void put_mark(
    struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind) {
  mark->previous = process->marks;
  mark->kind = kind;
  process->marks = mark;
  if (kind == BATON_MARK_FOREIGN_STATE) {
    process->foreign_states++;
  } else if (kind == BATON_MARK_COLLECTOR) {
    process->global->gcstp |= GCSTPGC;
  } else if (kind == BATON_MARK_TURN) {
    return; /* the caller notes what is held */
  } else if (process->holds++ == 0 && l_unlikely(process->killed)) {
    sync_kill_hold(process);
  }
}

void baton_lua_begin_critical(struct baton_process *process, struct baton_mark *mark) {
  put_mark(process, mark, BATON_MARK_CRITICAL);
  process->criticals++;
  baton_enter_critical(process->vm->executor);
}

void baton_lua_end_critical(struct baton_process *process) { baton_lua_end_hold(process); }

void baton_lua_begin_hold(
    struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind) {
  put_mark(process, mark, kind);
}

/* What was held back is raised at the next instruction. */
void baton_lua_end_hold(struct baton_process *process) {
  drop_mark(process);
  if (l_unlikely(process->killed)) baton_lua_arm(baton_lua_innermost(process));
}

void baton_lua_stop_collector(struct baton_process *process, struct baton_mark *mark) {
  put_mark(process, mark, BATON_MARK_COLLECTOR);
}

void baton_lua_restart_collector(struct baton_process *process) { drop_mark(process); }

void baton_lua_put_turn(struct baton_process *process, struct baton_turn_mark *mark) {
  put_mark(process, &mark->mark, BATON_MARK_TURN);
}

void baton_lua_drop_turn(struct baton_process *process) { drop_mark(process); }

void baton_lua_leave_criticals(struct baton_process *process) {
  for (; process->criticals > 0; process->criticals--)
    baton_leave_critical(process->vm->executor);
}

/* While a process is suspended, its critical sections do not count, and hold no kill back. */
void baton_lua_hold_for_criticals(struct baton_process *process, int holds) {
  if (process->criticals == 0) return;
  if (holds)
    process->holds += process->criticals;
  else
    process->holds -= process->criticals;
  if (process->killed) sync_kill_hold(process);
}

/* Forgets the collections above `where`, where the C stack is about to be cut. */
static void leave_collections(struct baton_process *process, const void *where) {
  while (process->collection != NULL && (const char *)process->collection < (const char *)where)
    process->collection = process->collection->previous;
}

/* Forgets marks, coroutines and collections above `where`, where the C stack is about to be cut. */
static void unwind(struct baton_process *process, const void *where) {
  const unsigned holds = process->holds;
  while (process->marks != NULL && (const char *)process->marks < (const char *)where)
    drop_mark(process);
  while (process->resumed != NULL && (const char *)process->resumed < (const char *)where)
    process->resumed = process->resumed->previous;
  leave_collections(process, where);
  if (l_unlikely(process->turns_taken != NULL)) baton_seam_hooks.unwinds_calls(process, where);
  /* raises what was held back */
  if (l_unlikely(process->killed | process->interrupted) && holds > 0 && process->holds == 0)
    baton_lua_request_safepoint(process);
}

static int is_on_stack(const struct baton_process *process, const struct lua_longjmp *handler) {
  const uintptr_t where = (uintptr_t)handler;
  return where >= process->stack_low && where < process->stack_high;
}

/* The state with the innermost handler on the process's stack. The stack grows downwards. */
static lua_State *state_with_handler(const struct baton_process *process) {
  const struct baton_resumed *resumed;
  lua_State *found = process->L;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous) {
    const struct lua_longjmp *handler = resumed->L->errorJmp;
    if (is_on_stack(process, handler) && (uintptr_t)handler < (uintptr_t)found->errorJmp)
      found = resumed->L;
  }
  return found;
}

lua_State *baton_lua_state_to_raise_on(struct baton_process *process, lua_State *L) {
  lua_State *found;
  if (process == NULL || process->stack_high == 0 || is_on_stack(process, L->errorJmp)) return L;
  found = state_with_handler(process);
  if (found->errorJmp == NULL || found == L) return L;
  setobjs2s(found, found->top.p, L->top.p - 1);
  found->top.p++;
  L->top.p--;
  return found;
}

/* `c` is on another process's stack if a module has stored its state, or if Lua has searched the
   main state. */
struct lua_longjmp *baton_lua_throw_target(lua_State *L, struct lua_longjmp *c, int yields) {
  struct baton_process *process = baton_lua_running(L);
  if (process == NULL || process->stack_high == 0) return c;
  process->is_before_call = 0;
  if (l_unlikely(process->uses != NULL)) baton_lua_calls_are_cut(process, L, yields);
  c = baton_lua_state_to_raise_on(process, L)->errorJmp;
  if (is_on_stack(process, c)) unwind(process, c);
  return c;
}

int baton_lua_kill_is_due(struct baton_process *process) {
  if (process->killed == 0) return 0;
  return process->holds == 0 || process->abandoned || process->held_for >= HOLD_BOUND;
}

/* Inside the VM. Uses the stack's spare slots, as a Lua frame may have no free slot. */
static l_noret raise_kill(lua_State *L, struct baton_process *process) {
  Udata *handle = cast(Udata *, cast_charp(process) - udatamemoffset(BATON_UV_COUNT));
  TValue *reason = &handle->uv[BATON_UV_REASON - 1].uv;
  baton_lua_request_safepoint(process); /* if it is caught, it is raised again */
  if (l_unlikely(ttisnil(reason))) {
    /* an observer's kill: it could not make a string */
    setsvalue(L, reason, luaS_newliteral(L, "killed from outside"));
    luaC_barrierback(L, obj2gco(handle), reason);
  }
  setobj2s(L, L->top.p, reason);
  L->top.p++;
  luaD_throw(L, LUA_ERRRUN); /* not lua_error: message handlers are skipped */
}

void baton_lua_raise_kill(lua_State *L, struct baton_process *process) {
  lua_lock(L);
  raise_kill(L, process);
}

/* As a kill is raised: past message handlers, and again if it is caught. Inside the VM. */
static l_noret raise_end(lua_State *L, struct baton_process *process) {
  baton_lua_request_safepoint(process);
  setsvalue2s(L, L->top.p, luaS_newliteral(L, "the expression was ended"));
  L->top.p++;
  luaD_throw(L, LUA_ERRRUN);
}

enum baton_pending baton_lua_pending(struct baton_process *process) {
  if (baton_lua_kill_is_due(process)) return BATON_PENDING_KILL;
  if (baton_lua_evaluation_ends(process)) return BATON_PENDING_END;
  return process->interrupted && process->killed == 0 && process->criticals == 0
      ? BATON_PENDING_INTERRUPT
      : BATON_PENDING_NOTHING;
}

void baton_lua_raise(lua_State *L, struct baton_process *process, enum baton_pending pending) {
  if (pending == BATON_PENDING_KILL) baton_lua_raise_kill(L, process);
  if (pending == BATON_PENDING_END) {
    lua_lock(L);
    raise_end(L, process);
  }
  if (pending == BATON_PENDING_INTERRUPT) {
    process->interrupted = 0;
    lua_lock(L);
    luaD_checkstack(L, LUA_MINSTACK); /* a Lua frame has no spare slots */
    lua_unlock(L);
    luaL_error(L, "interrupted!");
  }
}

void baton_lua_raise_pending(lua_State *L, struct baton_process *process) {
  baton_lua_raise(L, process, baton_lua_pending(process));
}

/* }====================================================== */

/* {======================================================
** Lua's functions that close variables
** ======================================================= */

LUAI_FUNC void baton_close_call(lua_State *L, StkId func, int nresults) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_mark mark;
  if (process == NULL) {
    luaD_call(L, func, nresults);
    return;
  }
  put_mark(process, &mark, BATON_MARK_CLOSE);
  luaD_call(L, func, nresults);
  baton_lua_end_hold(process);
}

LUAI_FUNC void baton_close_callnoyield(lua_State *L, StkId func, int nresults) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_mark mark;
  if (process == NULL) {
    luaD_callnoyield(L, func, nresults);
    return;
  }
  put_mark(process, &mark, BATON_MARK_CLOSE);
  luaD_callnoyield(L, func, nresults);
  baton_lua_end_hold(process);
}

/* }====================================================== */

int baton_lua_is_in_finalizer(const struct baton_process *process) {
  const struct baton_mark *mark;
  for (mark = process->marks; mark != NULL; mark = mark->previous)
    if (mark->kind == BATON_MARK_FINALIZER) return 1;
  return 0;
}
