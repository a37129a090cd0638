/*
** The seam's functions: what Lua calls in place of its own (see seam.h), and what reaches into Lua's states.
*/
#include "internals.h"
#include "guest.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* The renamed originals. */
LUAI_FUNC int baton_stock_traceexec(lua_State *L, const Instruction *pc);
LUAI_FUNC void baton_stock_shrinkstack(lua_State *L);
LUA_API void baton_stock_callk(lua_State *L, int nargs, int nresults, lua_KContext ctx, lua_KFunction k);
LUA_API int baton_stock_pcallk(lua_State *L, int nargs, int nresults, int errfunc, lua_KContext ctx, lua_KFunction k);
LUA_API lua_Unsigned baton_stock_rawlen(lua_State *L, int idx);
LUA_API size_t baton_stock_stringtonumber(lua_State *L, const char *s);
LUA_API void baton_stock_upvaluejoin(lua_State *L, int fidx1, int n1, int fidx2, int n2);
LUA_API void baton_stock_close(lua_State *L);
LUA_API int baton_stock_gc(lua_State *L, int what, ...);
LUA_API void baton_stock_sethook(lua_State *L, lua_Hook func, int mask, int count);
LUA_API void baton_stock_setwarnf(lua_State *L, lua_WarnFunction f, void *ud);
LUAI_FUNC void baton_close_call(lua_State *L, StkId func, int nresults);
LUAI_FUNC void baton_close_callnoyield(lua_State *L, StkId func, int nresults);

/*
** Foreign calls that were retaken and have not come back, in all VMs. While there are any, no stack is shrunk: API functions
** that do not lock read the stack of a process that is outside. Changed by who owns a VM; read likewise.
*/
static atomic_int outstanding;

/* __cxa_get_globals of the C++ runtime, once a module has brought one. */
static void **(*exception_globals)(void);

struct baton_process *baton_lua_here(lua_State *L) { return baton_lua_running(L); }

/* {======================================================
** Safepoints
** ======================================================= */

/* Async-signal-safe. New frames look at hookmask; the topmost Lua frame looks at its own trap. */
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

/* Every frame of a killed process is to look: it may be caught anywhere, and goes on from there. */
static void arm_all_frames(lua_State *L) {
  CallInfo *ci;
  L->hookmask |= BATON_HOOK_BIT;
  for (ci = L->ci; ci != NULL; ci = ci->previous)
    if (isLua(ci)) ci->u.l.trap = 1;
}

void baton_lua_request_safepoint(struct baton_process *process) {
  struct baton_resumed *resumed;
  arm_all_frames(process->L);
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    arm_all_frames(resumed->L);
}

/* The preemption signal's handler: only while the thread is inside the VM. */
void baton_lua_preempt(void) {
  struct baton_gate *here = baton_gate_here();
  struct baton_process *process = here->process;
  if ((here->gate & 1) == 0 && process != NULL && process->global != NULL) baton_lua_arm(baton_lua_innermost(process));
}

/*
** A killed process looks at every instruction, so that the time between two looks is its own, unless it is long: then it was not let run, or waited,
** and only a moment of it counts.
*/
static void count_hold(struct baton_process *process) {
  enum { MOMENT = 1000000 };
  uint64_t now = baton_rs_now(), since = now - process->held_at;
  if (process->holds > 0 && process->held_at != 0) process->held_for += since < MOMENT ? since : MOMENT;
  process->held_at = now;
}

static void safepoint(lua_State *L, struct baton_process *process) {
  if (process->foreign_states == 0) baton_rs_safepoint(process->vm->executor);
  if (l_unlikely(process->killed)) count_hold(process);
  if (l_unlikely(process->killed || process->interrupted)) {
    lua_unlock(L);
    baton_lua_raise_owed(L, process);
    lua_lock(L);
  }
}

/* Lua's frame as a hook finds it. `pc` is the current instruction. */
static void save_frame(lua_State *L, const Instruction *pc) {
  CallInfo *ci = L->ci;
  ci->u.l.savedpc = pc + 1;
  if (!isIT(*pc)) L->top.p = ci->top.p; /* else `top` is in use and right */
}

/* In a simulated run every instruction is looked at, whatever hooks there are. */
static int trace_step(lua_State *L, const Instruction *pc) {
  struct baton_process *process = baton_lua_running(L);
  CallInfo *ci = L->ci;
  if (process != NULL && (baton_lua_count_step(process->vm) || l_unlikely(process->killed | process->interrupted))) {
    save_frame(L, pc);
    safepoint(L, process);
  }
  baton_stock_traceexec(L, pc);
  L->hookmask |= BATON_HOOK_BIT;
  ci->u.l.trap = 1;
  return 1;
}

LUAI_FUNC int luaG_traceexec(lua_State *L, const Instruction *pc) {
  if (l_unlikely(baton_simulated)) return trace_step(L, pc);
  if (l_unlikely(L->hookmask & BATON_HOOK_BIT)) {
    struct baton_process *process = baton_lua_running(L);
    L->hookmask &= ~BATON_HOOK_BIT;
    if (process != NULL) {
      CallInfo *ci = L->ci;
      save_frame(L, pc);
      safepoint(L, process);
      if (l_unlikely(process->killed)) { /* held back: look again at every instruction */
        L->hookmask |= BATON_HOOK_BIT;
        baton_stock_traceexec(L, pc);
        ci->u.l.trap = 1;
        return 1;
      }
    }
  }
  return baton_stock_traceexec(L, pc);
}

/* }====================================================== */

/* {======================================================
** Entering, and what is kept for each process
** ======================================================= */

/*
** To the calling thread's errno, found afresh: compilers take its address to be the same all through a function, and after a cold enter it
** would be that of the thread which the process came from, where by now another one may be between a call that fails and its look at errno.
*/
static __attribute__((noinline)) void restore_errno(int value) {
  errno = value;
  __asm__ volatile("" ::: "memory");
}

/* As long as threads are short, calls of foreign functions are looked at before they are made (policies.c). */
void baton_lua_watch_threads(struct baton_vm *vm) {
  int are_short = (size_t)vm->outstanding >= baton_rs_threads_for_calls(vm->executor);
  if (are_short == vm->threads_are_short) return;
  vm->threads_are_short = are_short;
  __atomic_fetch_add(&baton_calls_watched, are_short ? 1 : -1, __ATOMIC_RELAXED); /* as in baton_lua_use_begins */
}

/* The process is out in a foreign call while the VM goes on. */
static void begin_outstanding(struct baton_process *process) {
  process->retaken = 1;
  process->vm->outstanding++;
  baton_lua_watch_threads(process->vm);
  atomic_fetch_add_explicit(&outstanding, 1, memory_order_relaxed);
}

static void end_outstanding(struct baton_process *process) {
  process->retaken = 0;
  process->vm->outstanding--;
  baton_lua_watch_threads(process->vm);
  atomic_fetch_sub_explicit(&outstanding, 1, memory_order_relaxed);
}

void baton_lua_enter_cold(lua_State *L, uint32_t slow) {
  struct baton_process *process = baton_lua_running(L);
  int saved_errno = errno;
  /* No process of ours: a state that a module made for itself, on whatever thread. Let it be. */
  if (process == NULL) return;
  if (slow & (BATON_SLOW_REVOKED | BATON_SLOW_CAS | BATON_SLOW_FORKED)) {
    process->saved_errno = saved_errno;
    if (exception_globals != NULL) {
      void **globals = exception_globals();
      process->exceptions[0] = globals[0];
      process->exceptions[1] = globals[1];
    }
    if (process->calls_back)
      baton_rs_enter_cold_pinned(process->vm->executor);
    else
      baton_rs_enter_cold(process->vm->executor);
    /* perhaps on another thread from here on */
    if (process->retaken) {
      process->pinned |= process->calls_back;
      baton_lua_use_ends(&process->use);
      end_outstanding(process);
    }
  }
  if (baton_gate_here()->slow & BATON_SLOW_ATTENTION) {
    __atomic_fetch_and(&baton_gate_here()->slow, ~BATON_SLOW_ATTENTION, __ATOMIC_ACQ_REL);
    baton_lua_arm(L);
    if (l_unlikely(process->refused)) {
      process->refused = 0;
      luaG_runerror(L, "a simulated run cannot wait for a descriptor (run without --simulate, or put something in its place that waits for time or for other "
                       "processes)");
    }
  }
  restore_errno(saved_errno);
}

/* The VM was taken from the process's foreign call: put away what belongs to the VM. */
void baton_lua_detach(struct baton_process *process) {
  global_State *g = process->global;
  process->gc_stopped = g->gcstp & GCSTPGC;
  g->gcstp &= cast_byte(~GCSTPGC);
  begin_outstanding(process);
}

/* A foreign call moves. When it has, the switch away from here has put away what belongs to the VM. */
enum baton_departure baton_lua_move_out(struct baton_process *process) {
  enum baton_departure departure;
  begin_outstanding(process);
  departure = (enum baton_departure)baton_rs_move_out(process->vm->executor);
  if (departure != BATON_MOVED) end_outstanding(process);
  return departure;
}

/* The process goes on here with its foreign call. Outside the VM. */
void baton_lua_arrived(struct baton_process *process) {
  baton_gate_set_process(process);
  if (exception_globals != NULL) {
    void **globals = exception_globals();
    globals[0] = process->exceptions[0];
    globals[1] = process->exceptions[1];
  }
}

/* In a fork's child: the calls that are out elsewhere never come back. */
void baton_lua_forget_calls(struct baton_vm *vm) {
  vm->outstanding = 0;
  baton_lua_watch_threads(vm);
  atomic_store_explicit(&outstanding, 0, memory_order_relaxed);
}

/* C levels below which no C code but the process's own base stands on its stack. */
#define BASE_LEVELS 2

/* A process that is left with foreign frames on its stack continues only on the thread that it was left on. */
static void update_pin(struct baton_process *process) {
  int pinned = process->outcome == BATON_ALIVE && baton_lua_has_foreign_frames(process);
  if (pinned != process->pinned) {
    process->pinned = (unsigned char)pinned;
    baton_rs_set_pinned(process->vm->executor, process->kernel_id, pinned);
  }
}

/* What C code on the process's stack may look at when it goes on. */
static inline void keep_errno(struct baton_process *from) {
  from->errno_kept = getCcalls(from->L) > BASE_LEVELS || from->resumed != NULL || from->pinned;
  if (l_unlikely(from->errno_kept)) { /* C code other than the process's base is on its stack */
    from->saved_errno = errno;
    update_pin(from);
  }
}

/* The rest of a switch, where either process is missing, Lua's state is not open yet, or C++ is there. */
static __attribute__((noinline)) void switch_exceptionally(struct baton_process *from, struct baton_process *to) {
  global_State *g = from != NULL ? from->global : to->global;
  if (from != NULL && g != NULL) {
    keep_errno(from);
    from->gc_stopped = g->gcstp & GCSTPGC;
    g->gcstp &= cast_byte(~GCSTPGC);
  }
  if (from != NULL && exception_globals != NULL) {
    void **globals = exception_globals();
    from->exceptions[0] = globals[0];
    from->exceptions[1] = globals[1];
  }
  baton_gate_set_process(to);
  if (to == NULL) return;
  if (to->errno_kept) errno = to->saved_errno;
  if (g != NULL) g->gcstp |= to->gc_stopped;
  if (exception_globals != NULL) {
    void **globals = exception_globals();
    globals[0] = to->exceptions[0];
    globals[1] = to->exceptions[1];
  }
}

void baton_lua_switched(struct baton_process *from, struct baton_process *to) {
  global_State *g;
  lu_byte stop;
  if (l_unlikely(from == NULL || to == NULL || exception_globals != NULL || (g = from->global) == NULL)) {
    switch_exceptionally(from, to);
    return;
  }
  keep_errno(from);
  stop = g->gcstp;
  from->gc_stopped = stop & GCSTPGC;
  g->gcstp = cast_byte((stop & ~GCSTPGC) | to->gc_stopped);
  baton_gate_set_process(to);
  if (l_unlikely(to->errno_kept)) errno = to->saved_errno;
}

/* A module was loaded: it may have brought the C++ runtime. */
void baton_lua_note_exception_globals(void) {
  if (exception_globals == NULL) {
    void *found = dlsym(RTLD_DEFAULT, "__cxa_get_globals");
    *(void **)(&exception_globals) = found;
  }
}

/* So that recursion in a process fails at the depth at which it fails in a script under `lua`. */
void baton_lua_set_base_depth(lua_State *L) { L->nCcalls = 1; }

/* }====================================================== */

/* {======================================================
** Errors
** ======================================================= */

/* Tells the kernel whether the killed process holds the kill back now. Inside the VM. */
static void sync_kill_hold(struct baton_process *process) {
  if (process->holds == 0) process->held_for = process->abandoned = 0;
  baton_rs_set_kill_hold(process->vm->executor, process->kernel_id, process->holds > 0);
}

static void drop_mark(struct baton_process *process) {
  struct baton_mark *mark = process->marks;
  process->marks = mark->previous;
  if (mark->kind == BATON_MARK_FOREIGN_STATE) {
    process->foreign_states--;
  } else if (mark->kind == BATON_MARK_COLLECTOR) {
    process->global->gcstp &= cast_byte(~GCSTPGC);
  } else {
    if (mark->kind == BATON_MARK_CRITICAL && process->criticals > 0) { /* none are left once the program ends */
      process->criticals--;
      baton_rs_leave_critical(process->vm->executor);
    }
    process->holds--;
    if (l_unlikely(process->killed) && process->holds == 0) sync_kill_hold(process);
  }
}

static void put_mark(struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind) {
  mark->previous = process->marks;
  mark->kind = kind;
  process->marks = mark;
  if (kind == BATON_MARK_FOREIGN_STATE) {
    process->foreign_states++;
  } else if (kind == BATON_MARK_COLLECTOR) {
    process->global->gcstp |= GCSTPGC;
  } else if (process->holds++ == 0 && l_unlikely(process->killed)) {
    sync_kill_hold(process);
  }
}

void baton_lua_begin_critical(struct baton_process *process, struct baton_mark *mark) {
  put_mark(process, mark, BATON_MARK_CRITICAL);
  process->criticals++;
  baton_rs_enter_critical(process->vm->executor);
}

void baton_lua_end_critical(struct baton_process *process) { drop_mark(process); }

void baton_lua_begin_hold(struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind) { put_mark(process, mark, kind); }

void baton_lua_end_hold(struct baton_process *process) { drop_mark(process); }

void baton_lua_stop_collector(struct baton_process *process, struct baton_mark *mark) { put_mark(process, mark, BATON_MARK_COLLECTOR); }

void baton_lua_restart_collector(struct baton_process *process) { drop_mark(process); }

void baton_lua_leave_criticals(struct baton_process *process) {
  for (; process->criticals > 0; process->criticals--) baton_rs_leave_critical(process->vm->executor);
}

/* While the process is suspended it is in no critical section, and these hold no kill back. */
void baton_lua_hold_for_criticals(struct baton_process *process, int holds) {
  if (process->criticals == 0) return;
  if (holds)
    process->holds += process->criticals;
  else
    process->holds -= process->criticals;
  if (process->killed) sync_kill_hold(process);
}

/* The stack is about to be cut back to `where`: forget what is deeper. */
static void unwind(struct baton_process *process, const void *where) {
  unsigned criticals = process->criticals;
  while (process->marks != NULL && (const char *)process->marks < (const char *)where) drop_mark(process);
  while (process->resumed != NULL && (const char *)process->resumed < (const char *)where)
    process->resumed = process->resumed->previous;
  baton_lua_leave_collections(process, where);
  if (l_unlikely(criticals > 0 && process->criticals == 0)) baton_lua_request_safepoint(process); /* for what was put off */
}

struct lua_longjmp *baton_lua_throw_target(lua_State *L, struct lua_longjmp *c) {
  struct baton_process *process = baton_lua_running(L);
  uintptr_t where = (uintptr_t)c;
  lua_State *base;
  if (process == NULL || process->stack_high == 0) return c;
  if (where >= process->stack_low && where < process->stack_high) {
    unwind(process, c);
    return c;
  }
  /* The handler is on another process's stack (Lua looks for it in the main state). */
  base = process->L;
  if (base->errorJmp == NULL) return c;
  if (L != base) {
    setobjs2s(base, base->top.p, L->top.p - 1);
    base->top.p++;
    L->top.p--;
  }
  unwind(process, base->errorJmp);
  return base->errorJmp;
}

#define HOLD_BOUND 5000000000u /* nanoseconds that a __close method may put a kill off, while it runs */

int baton_lua_kill_is_due(struct baton_process *process) {
  if (process->killed == 0) return 0;
  return process->holds == 0 || process->abandoned || process->held_for >= HOLD_BOUND;
}

/* Inside the VM; by the stack's spare slots, since a Lua frame may have none of its own left. */
static l_noret raise_kill(lua_State *L, struct baton_process *process) {
  Udata *handle = cast(Udata *, cast_charp(process) - udatamemoffset(BATON_UV_COUNT));
  setobj2s(L, L->top.p, &handle->uv[BATON_UV_REASON - 1].uv);
  L->top.p++;
  baton_lua_request_safepoint(process); /* raised again wherever it is caught */
  luaD_throw(L, LUA_ERRRUN); /* not lua_error: message handlers are passed over */
}

void baton_lua_raise_kill(lua_State *L, struct baton_process *process) {
  lua_lock(L);
  raise_kill(L, process);
}

enum baton_debt baton_lua_debt(struct baton_process *process) {
  if (baton_lua_kill_is_due(process)) return BATON_OWES_KILL;
  return process->interrupted && process->killed == 0 && process->criticals == 0 ? BATON_OWES_INTERRUPT : BATON_OWES_NOTHING;
}

void baton_lua_raise(lua_State *L, struct baton_process *process, enum baton_debt debt) {
  if (debt == BATON_OWES_KILL) baton_lua_raise_kill(L, process);
  if (debt == BATON_OWES_INTERRUPT) {
    process->interrupted = 0;
    lua_lock(L);
    luaD_checkstack(L, LUA_MINSTACK); /* a Lua frame has none to spare */
    lua_unlock(L);
    luaL_error(L, "interrupted!");
  }
}

void baton_lua_raise_owed(lua_State *L, struct baton_process *process) { baton_lua_raise(L, process, baton_lua_debt(process)); }

/* }====================================================== */

/* {======================================================
** Wrapped functions of Lua
** ======================================================= */

LUAI_FUNC void luaD_shrinkstack(lua_State *L) {
  if (atomic_load_explicit(&outstanding, memory_order_relaxed) == 0) baton_stock_shrinkstack(L);
}

LUAI_FUNC void baton_close_call(lua_State *L, StkId func, int nresults) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_mark mark;
  if (process == NULL) {
    luaD_call(L, func, nresults);
    return;
  }
  put_mark(process, &mark, BATON_MARK_CLOSE);
  luaD_call(L, func, nresults);
  drop_mark(process);
  if (l_unlikely(process->killed)) baton_lua_arm(L);
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
  drop_mark(process);
  if (l_unlikely(process->killed)) baton_lua_arm(L);
}

/* A coroutine has yielded or ended, and something was asked of it. Inside the VM. */
void baton_lua_resume_ends(lua_State *L, struct baton_process *process) {
  if (L->hookmask & BATON_HOOK_BIT && !baton_simulated) { /* now of its resumer */
    L->hookmask &= ~BATON_HOOK_BIT;
    baton_lua_arm(baton_lua_innermost(process));
  }
  /* A coroutine ended by an error does not close its variables by itself; one ended by a kill must. */
  if (process->killed && L->status > LUA_YIELD) luaE_resetthread(L, L->status);
}

/* Code runs on the state as a part of the process from here on, until `drop_resumed`. Both inside the VM. */
static void note_resumed(struct baton_process *process, lua_State *L, struct baton_resumed *record) {
  record->process = process;
  record->L = L;
  record->previous = process->resumed;
  baton_signal_fence();
  process->resumed = record;
}

static void drop_resumed(struct baton_process *process, const struct baton_resumed *record) {
  process->resumed = record->previous;
  baton_signal_fence();
}

/*
** Closing a coroutine runs its __close methods on its own state, though nobody resumes it: it is noted as if somebody did, so that they wait, are
** preempted and are killed as in any other.
*/
LUAI_FUNC int baton_close_protected(lua_State *L, ptrdiff_t level, int status) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_resumed record;
  if (process == NULL || L == baton_lua_innermost(process)) return luaD_closeprotected(L, level, status);
  note_resumed(process, L, &record);
  status = luaD_closeprotected(L, level, status);
  drop_resumed(process, &record);
  if (l_unlikely(L->hookmask & BATON_HOOK_BIT)) baton_lua_resume_ends(L, process);
  return status;
}

/* Whether `L` is a state of the running process, or one that nobody runs. */
static int belongs(struct baton_process *process, lua_State *L) {
  struct baton_resumed *resumed;
  if (L == process->L || L->ci == &L->base_ci) return 1;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (resumed->L == L) return 1;
  return 0;
}

static void warn_foreign_state(struct baton_process *process) {
  static int warned;
  if (!warned) {
    warned = 1;
    fprintf(stderr, "baton: warning: process %llu calls on a lua_State that another process runs on "
            "(a module stored it); no other process runs until that call returns\n",
            (unsigned long long)process->id);
  }
}

/*
** A call on a state that has others' frames: no switch may come while ours stand on top of them. Always protected, so that
** an error leaves that state as it was. A suspended coroutine is no other process's: cqueues asks what it waits for there.
*/
static int call_on_foreign_state(struct baton_process *process, lua_State *L, int nargs, int nresults, int errfunc) {
  struct baton_mark mark;
  int status;
  if (L->status != LUA_YIELD) warn_foreign_state(process);
  put_mark(process, &mark, BATON_MARK_FOREIGN_STATE);
  status = baton_stock_pcallk(L, nargs, nresults, errfunc, 0, NULL);
  drop_mark(process);
  return status;
}

/* Nobody runs on the state: the call is a part of the calling process, which is switched from, asked and killed in it as in a coroutine. */
static int call_on_idle_state(struct baton_process *process, lua_State *L, int nargs, int nresults, int errfunc) {
  struct baton_resumed record;
  int status;
  baton_enter(L);
  note_resumed(process, L, &record);
  baton_leave(L);
  status = baton_stock_pcallk(L, nargs, nresults, errfunc, 0, NULL);
  baton_enter(L);
  drop_resumed(process, &record);
  baton_lua_resume_ends(L, process);
  baton_leave(L);
  return status;
}

LUA_API void lua_callk(lua_State *L, int nargs, int nresults, lua_KContext ctx, lua_KFunction k) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL && l_unlikely(L != baton_lua_innermost(process)) && !belongs(process, L)) {
    int status = call_on_foreign_state(process, L, nargs, nresults, 0);
    lua_State *own = baton_lua_innermost(process);
    if (status == LUA_OK) return;
    lua_xmove(L, own, 1);
    lua_lock(own);
    luaD_throw(own, status);
  }
  baton_stock_callk(L, nargs, nresults, ctx, k);
}

LUA_API int lua_pcallk(lua_State *L, int nargs, int nresults, int errfunc, lua_KContext ctx, lua_KFunction k) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL && l_unlikely(L != baton_lua_innermost(process))) {
    if (!belongs(process, L)) return call_on_foreign_state(process, L, nargs, nresults, errfunc);
    if (L->ci == &L->base_ci) return call_on_idle_state(process, L, nargs, nresults, errfunc);
  }
  return baton_stock_pcallk(L, nargs, nresults, errfunc, ctx, k);
}

/* These do not lock in stock Lua, but write: a table's size hint, a stack slot, an upvalue. */
LUA_API lua_Unsigned lua_rawlen(lua_State *L, int idx) {
  lua_Unsigned length;
  lua_lock(L);
  length = baton_stock_rawlen(L, idx);
  lua_unlock(L);
  return length;
}

LUA_API size_t lua_stringtonumber(lua_State *L, const char *s) {
  size_t size;
  lua_lock(L);
  size = baton_stock_stringtonumber(L, s);
  lua_unlock(L);
  return size;
}

LUA_API void lua_upvaluejoin(lua_State *L, int fidx1, int n1, int fidx2, int n2) {
  lua_lock(L);
  baton_stock_upvaluejoin(L, fidx1, n1, fidx2, n2);
  lua_unlock(L);
}

/* Memory that a full collection freed goes back to the system if it is this much. */
#define TRIM_FROM 2048 /* KiB */

LUA_API int lua_gc(lua_State *L, int what, ...) {
  va_list list;
  int first, second, third, before, result;
  va_start(list, what);
  switch (what) {
    case LUA_GCCOLLECT:
      before = baton_stock_gc(L, LUA_GCCOUNT);
      result = baton_stock_gc(L, what);
      if (before - baton_stock_gc(L, LUA_GCCOUNT) > TRIM_FROM) malloc_trim(0);
      break;
    case LUA_GCINC:
      first = va_arg(list, int);
      second = va_arg(list, int);
      third = va_arg(list, int);
      result = baton_stock_gc(L, what, first, second, third);
      break;
    case LUA_GCGEN:
      first = va_arg(list, int);
      second = va_arg(list, int);
      result = baton_stock_gc(L, what, first, second);
      break;
    case LUA_GCSTEP: case LUA_GCSETPAUSE: case LUA_GCSETSTEPMUL:
      first = va_arg(list, int);
      result = baton_stock_gc(L, what, first);
      break;
    default: result = baton_stock_gc(L, what); break;
  }
  va_end(list);
  return result;
}

/* Never unlocks in stock Lua. A module may close a state of its own on our thread. */
LUA_API void lua_close(lua_State *L) {
  baton_stock_close(L);
  lua_unlock(L);
}

/* A simulated run looks at every instruction, whatever hooks there are. */
LUA_API void lua_sethook(lua_State *L, lua_Hook func, int mask, int count) {
  baton_stock_sethook(L, func, mask, count);
  if (baton_simulated) L->hookmask |= BATON_HOOK_BIT;
}

/* Warn functions call this while the state is locked. */
LUA_API void lua_setwarnf(lua_State *L, lua_WarnFunction f, void *ud) {
  if ((baton_gate_here()->gate & 1) == 0) {
    G(L)->ud_warn = ud;
    G(L)->warnf = f;
  } else {
    baton_stock_setwarnf(L, f, ud);
  }
}

/* }====================================================== */
