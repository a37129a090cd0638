/*
** Safepoints, the slow path into the VM, and what a switch saves for each process.
*/
#include "seam/internals.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#if !defined(__APPLE__)
#include <link.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The renamed originals. */
LUAI_FUNC int baton_stock_traceexec(lua_State *L, const Instruction *pc);
LUAI_FUNC void baton_stock_shrinkstack(lua_State *L);

/*
** The number of foreign calls in all VMs that were retaken and have not returned. Meanwhile no
** stack is shrunk, since API functions that do not lock read the stack of a process that is
** outside. Written and read by owners of a VM.
*/
static atomic_int outstanding;

/* __cxa_get_globals of the C++ runtime, once a library has loaded that. Written by threads outside,
   and never changed after. */
typedef void **exception_globals(void);
static _Atomic(exception_globals *) noted_exception_globals;

/* Relaxed: the function's address publishes nothing. */
static exception_globals *exception_globals_function(void) {
  return atomic_load_explicit(&noted_exception_globals, memory_order_relaxed);
}

static void keep_exceptions(struct baton_process *process) {
  exception_globals *function = exception_globals_function();
  if (function != NULL) {
    void **globals = function();
    process->exceptions[0] = globals[0];
    process->exceptions[1] = globals[1];
  }
}

static void restore_exceptions(const struct baton_process *process) {
  exception_globals *function = exception_globals_function();
  if (function != NULL) {
    void **globals = function();
    globals[0] = process->exceptions[0];
    globals[1] = process->exceptions[1];
  }
}

struct baton_process *baton_lua_here(lua_State *L) { return baton_lua_running(L); }

/* {======================================================
** Safepoints
** ======================================================= */

static void safepoint(lua_State *L, struct baton_process *process) {
  if (process->foreign_states == 0 && process->in_debugger != BATON_ALONE_IN_DEBUGGER)
    baton_safepoint(process->vm->executor);
  if (l_unlikely(process->killed)) baton_lua_count_hold(process);
  if (l_unlikely(process->killed | process->interrupted | process->evaluates)) {
    lua_unlock(L);
    baton_lua_raise_pending(L, process);
    lua_lock(L);
  }
}

/* Saves Lua's frame as before a hook. `pc` is the current instruction. */
static void save_frame(lua_State *L, const Instruction *pc) {
  CallInfo *ci = L->ci;
  ci->u.l.savedpc = pc + 1;
  if (!isIT(*pc)) L->top.p = ci->top.p; /* otherwise `top` is in use and correct */
}

/* Called at an instruction while a debugger traces calls. Returns as luaG_traceexec. */
static int trace_for_debugger(
    lua_State *L, const Instruction *pc, const struct baton_debugger_hooks *debugger) {
  struct baton_process *process = baton_lua_running(L);
  const Proto *function = ci_func(L->ci)->p;
  int keeps, result;
  if (process == NULL || process->in_debugger ||
      !((function->marked & BATON_PROTO_HAS_BREAKPOINT) | process->traced))
    return baton_stock_traceexec(L, pc);
  save_frame(L, pc);
  keeps = debugger->trap(L, process, pc);
  if (l_unlikely(process->killed || process->interrupted)) {
    lua_unlock(L);
    baton_lua_raise_pending(L, process);
    lua_lock(L);
  }
  result = baton_stock_traceexec(L, pc);
  if (!keeps && !(L->hookmask & BATON_HOOK_BIT)) return result;
  L->ci->u.l.trap = 1;
  return 1;
}

/* Called before a frame returns, while there are hooks. */
void baton_lua_pass_trap(lua_State *L) {
  CallInfo *ci = L->ci;
  if (L->hookmask & BATON_DEBUG_BIT && isLua(ci) && isLua(ci->previous))
    ci->u.l.trap |= ci->previous->u.l.trap;
}

static int trace(lua_State *L, const Instruction *pc) {
  if (l_unlikely(L->hookmask & BATON_DEBUG_BIT)) {
    const struct baton_debugger_hooks *debugger = baton_lua_debugger();
    if (debugger != NULL && baton_debugger_traces) return trace_for_debugger(L, pc, debugger);
    L->hookmask &= ~BATON_DEBUG_BIT; /* it has gone */
  }
  return baton_stock_traceexec(L, pc);
}

/* Counts an instruction of a simulated run. It comes here at every one, whatever hooks there
   are. */
static int trace_step(lua_State *L, const Instruction *pc) {
  struct baton_process *process = baton_lua_running(L);
  CallInfo *ci = L->ci;
  if (process != NULL &&
      (process->in_debugger == BATON_ALONE_IN_DEBUGGER
              ? baton_lua_evaluation_ends(process)
              : baton_lua_count_step(process->vm) ||
                  l_unlikely(baton_lua_kill_is_due(process)) ||
                  l_unlikely(process->interrupted))) {
    save_frame(L, pc);
    safepoint(L, process);
  }
  trace(L, pc);
  L->hookmask |= BATON_HOOK_BIT;
  ci->u.l.trap = 1;
  return 1;
}

/* Whether only a debugger has led here, and it wants nothing of this function. */
static inline int is_of_no_interest(const lua_State *L) {
  return (L->hookmask & ~(LUA_MASKCALL | LUA_MASKRET)) == BATON_DEBUG_BIT &&
      !(ci_func(L->ci)->p->marked & BATON_PROTO_HAS_BREAKPOINT) &&
      baton_debugger_traces == BATON_TRACES_BREAKPOINTS && baton_lua_debugger() != NULL;
}

LUAI_FUNC int luaG_traceexec(lua_State *L, const Instruction *pc) {
  if (l_unlikely(baton_simulated)) return trace_step(L, pc);
  if (is_of_no_interest(L)) { /* each call, while there are breakpoints */
    L->ci->u.l.trap = 0;
    return 0;
  }
  if (l_unlikely(L->hookmask & BATON_HOOK_BIT)) {
    struct baton_process *process = baton_lua_running(L);
    L->hookmask &= ~BATON_HOOK_BIT;
    if (process != NULL) {
      save_frame(L, pc);
      safepoint(L, process);
    }
  }
  return trace(L, pc);
}

/* }====================================================== */

/* {======================================================
** Entering, and the state of each process
** ======================================================= */

/*
** Sets the calling thread's errno. Compilers assume that errno's address does not change within a
** function. But after a slow enter, the process may be on another thread. The old address would
** overwrite the errno of the thread that it came from.
*/
static __attribute__((noinline)) void restore_errno(int value) {
  errno = value;
  __asm__ volatile("" ::: "memory");
}

/* Updates whether native threads are short. If so, calls of foreign functions are checked before
   they are made (policies.c). */
void baton_lua_watch_threads(struct baton_lua_vm *vm) {
  int are_short = (size_t)vm->outstanding >= baton_threads_for_calls(vm->executor);
  if (are_short == vm->threads_are_short) return;
  vm->threads_are_short = are_short;
  /* as in baton_lua_use_begins */
  __atomic_fetch_add(&baton_calls_watched, are_short ? 1 : -1, __ATOMIC_RELAXED);
}

LUAI_FUNC void luaD_shrinkstack(lua_State *L) {
  if (atomic_load_explicit(&outstanding, memory_order_relaxed) == 0) baton_stock_shrinkstack(L);
}

int baton_lua_calls_are_out(void) {
  return atomic_load_explicit(&outstanding, memory_order_relaxed) > 0;
}

/* Notes that the process is in a foreign call and the VM continues without it. */
static void begin_outstanding(struct baton_process *process) {
  process->retaken = 1;
  process->beside_since = baton_now();
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

/*
** Called when a C function uses the API a second time after a preempt request, with no VM
** instruction in between. If others may run beside it, it gives way here, as after a retake. If
** foreign frames are on the stack, the others run on other threads.
*/
static int give_way_in_call(lua_State *L, struct baton_process *process) {
  void *object;
  int verdict = 0;
  if (L->hookmask & BATON_HOOK_BIT) verdict = baton_seam_hooks.may_give_way(process, &object);
  if (verdict == 0) return 0;
  if (verdict == 1) {
    baton_safepoint(process->vm->executor);
    return 1;
  }
  baton_lua_use_begins(&process->use, process, object);
  baton_lua_keep_calls_in_use(process);
  begin_outstanding(process);
  process->pinned = 1;
  baton_safepoint_in_call(process->vm->executor);
  end_outstanding(process);
  baton_lua_use_ends(&process->use);
  return 1;
}

/* A call that others ran beside has returned; or C code in it calls back. Inside the VM. */
static void note_call(lua_State *L, const struct baton_process *process, uint64_t returned) {
  if (isLua(L->ci) || returned < process->beside_since) return;
  baton_note_call(baton_lua_called_name(L, L->ci), returned - process->beside_since);
}

void baton_lua_enter_cold(lua_State *L, uint32_t slow) {
  struct baton_process *process = baton_lua_running(L);
  uint64_t returned;
  int saved_errno;
  /* A state of a module's own, on any thread; or that of a host. */
  if (process == NULL && baton_seam_hooks.host_comes == NULL) return;
  saved_errno = errno;
  if (process == NULL) {
    baton_seam_hooks.host_comes(L);
    restore_errno(saved_errno);
    return;
  }
  if (slow & (BATON_SLOW_REVOKED | BATON_SLOW_CAS | BATON_SLOW_FORKED)) {
    process->saved_errno = saved_errno;
    returned = baton_now();
    keep_exceptions(process);
    if (process->calls_back)
      baton_enter_cold_pinned(process->vm->executor);
    else
      baton_enter_cold(process->vm->executor);
    process->vm->collector_caused_delay = 0;
    /* from here on perhaps on another thread */
    if (process->retaken) {
      note_call(L, process, returned);
      process->pinned |= process->calls_back;
      baton_lua_use_ends(&process->use);
      end_outstanding(process);
    }
  }
  if (baton_gate_here()->slow & BATON_SLOW_ATTENTION) {
    __atomic_fetch_and(&baton_gate_here()->slow, ~BATON_SLOW_ATTENTION, __ATOMIC_ACQ_REL);
    if (!give_way_in_call(L, process)) baton_lua_arm(L);
  }
  restore_errno(saved_errno);
}

/* Saves what belongs to the VM when it was retaken from the process's foreign call. */
void baton_lua_detach(struct baton_process *process) {
  global_State *g = process->global;
  process->gc_stopped = g->gcstp & GCSTPGC;
  g->gcstp &= cast_byte(~GCSTPGC);
  begin_outstanding(process);
}

/* Offloads a foreign call. If the process has moved, the switch has saved what belongs to the
   VM. */
enum baton_offload baton_lua_offload(struct baton_process *process) {
  enum baton_offload result;
  begin_outstanding(process);
  result = (enum baton_offload)baton_offload(process->vm->executor);
  if (result != BATON_OFFLOADED) end_outstanding(process);
  return result;
}

/* The process continues its foreign call on this thread. Outside the VM. */
void baton_lua_arrived(struct baton_process *process) {
  baton_gate_set_process(process);
  restore_exceptions(process);
}

/* The process of this thread continues elsewhere, and its record may be freed. Outside the VM. */
void baton_lua_departed(void) { baton_gate_set_process(NULL); }

/* In a fork's child, calls on other threads never return. */
void baton_lua_forget_calls(struct baton_lua_vm *vm) {
  vm->outstanding = 0;
  baton_lua_watch_threads(vm);
  atomic_store_explicit(&outstanding, 0, memory_order_relaxed);
}

void baton_lua_uncount_calls(struct baton_lua_vm *vm) {
  atomic_fetch_sub_explicit(&outstanding, vm->outstanding, memory_order_relaxed);
  vm->outstanding = 0;
  /* as in baton_lua_use_begins */
  if (vm->threads_are_short) __atomic_fetch_sub(&baton_calls_watched, 1, __ATOMIC_RELAXED);
  vm->threads_are_short = 0;
}

/* With fewer C levels, only the process's own base is on its C stack. */
#define BASE_LEVELS 2

/* Pins a process with foreign frames on its stack to this thread. */
static void update_pin(struct baton_process *process) {
  int pinned = process->outcome == BATON_ALIVE && baton_lua_has_foreign_frames(process);
  if (pinned != process->pinned) {
    process->pinned = (unsigned char)pinned;
    baton_set_pinned(process->vm->executor, process->sched_id, pinned);
  }
}

/* Saves errno if C code on the process's stack may read it after the switch. */
static inline void keep_errno(struct baton_process *from) {
  from->errno_kept = getCcalls(from->L) > BASE_LEVELS || from->resumed != NULL || from->pinned;
  if (l_unlikely(from->errno_kept)) { /* other C code than the process's base is on its stack */
    from->saved_errno = errno;
    update_pin(from);
    if (from->pinned) baton_lua_keep_calls_in_use(from);
  }
}

/* The slow path of a switch: a process is missing, Lua's state is not open yet, or the C++ runtime
   is loaded. */
static __attribute__((noinline)) void switch_exceptionally(
    struct baton_process *from, struct baton_process *to) {
  global_State *g;
  /* a VM that has closed its state has freed the record of its main process; the gate has a copy */
  if (to == NULL) from = baton_gate_process();
  g = from != NULL ? from->global : to != NULL ? to->global : NULL;
  if (from != NULL && g != NULL) {
    keep_errno(from);
    from->gc_stopped = g->gcstp & GCSTPGC;
    g->gcstp &= cast_byte(~GCSTPGC);
  }
  if (from != NULL) keep_exceptions(from);
  baton_gate_set_process(to);
  if (to == NULL) return;
  if (to->errno_kept) errno = to->saved_errno;
  if (g != NULL) g->gcstp |= to->gc_stopped;
  restore_exceptions(to);
}

void baton_lua_switched(struct baton_process *from, struct baton_process *to) {
  global_State *g;
  lu_byte stop;
  if (l_unlikely(
          from == NULL || to == NULL || exception_globals_function() != NULL ||
          (g = from->global) == NULL)) {
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

#if !defined(__APPLE__)
/* Copies the path of a loaded library if it is a C++ runtime: `path` has room for PATH_MAX. */
static int is_cxx_runtime(struct dl_phdr_info *library, size_t size, void *path) {
  static const char *const names[] = {"/libstdc++.so", "/libc++abi.so", "/libcxxrt.so"};
  size_t i;
  (void)size;
  for (i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strstr(library->dlpi_name, names[i]) != NULL) {
      snprintf(path, PATH_MAX, "%s", library->dlpi_name);
      return 1;
    }
  return 0;
}
#endif

/* The runtime is among the program's symbols only if the program is linked with it. A module brings
   it along for itself. It must stay loaded then. */
static void *find_exception_globals(void) {
  static const char name[] = "__cxa_get_globals";
  void *found = dlsym(RTLD_DEFAULT, name);
#if !defined(__APPLE__)
  char path[PATH_MAX];
  if (found == NULL && dl_iterate_phdr(is_cxx_runtime, path)) {
    void *runtime = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (runtime != NULL) found = dlsym(runtime, name);
  }
#endif
  return found;
}

/*
** Called at the start, and after a library was loaded: it may have loaded the C++ runtime. The look
** for a symbol waits while another thread runs a library's constructors. So this is called where a
** library is loaded, as that waits likewise, and others may run meanwhile.
*/
void baton_lua_note_exception_globals(void) {
  if (exception_globals_function() == NULL) {
    exception_globals *found;
    *(void **)(&found) = find_exception_globals();
    /* Relaxed: as in the load. */
    atomic_store_explicit(&noted_exception_globals, found, memory_order_relaxed);
  }
}

/* Makes recursion in a process fail at the same depth as in a script under `lua`. */
void baton_lua_set_base_depth(lua_State *L) { L->nCcalls = 1; }

/* }====================================================== */
