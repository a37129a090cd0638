/*
** The collector: finalizers, which may wait here, major collections in steps (see seam.h), and the
** heaps of halted VMs.
*/
#include "seam/internals.h"

#include <time.h>

/* A renamed original; the others are in internals.h. */
LUAI_FUNC void baton_stock_fullgc(lua_State *L, int is_emergency);
LUAI_FUNC int baton_room_for_finalizers(lua_State *L);

/* {======================================================
** Major collections in steps
** ======================================================= */

/*
** Major collections in steps. In generational mode, Lua makes a major collection in one go. With
** 118 MB alive that takes 25 ms, and no other process runs meanwhile. If other processes live and
** the heap is large, incremental steps make it instead. Lua 5.5 always does so. See docs/adr/0040.
**
** Between two steps the collector is in a state that Lua 5.4 knows, the one after a "bad
** collection": an incremental heap with `lastatomic` not 0. So Lua can continue by itself if the
** other processes have ended or the heap is small by then. Its next collection makes the heap
** generational again.
**
**   state      gckind  lastatomic        the next step
**   minor      GEN     0                 a minor collection; `cycle` if a major one is due
**   bad        any     objects alive     `cycle`
**   cycle      INC     bytes alive       a part of the cycle. At its end: `returning` if less than
**                      before it         9/8 of that is alive, else the next `cycle`
**   returning  INC     RETURNS           marks a part. When all is marked, Lua's own step makes all
**                                        living objects old: `minor`
*/

/* Bytes. A smaller heap is collected in less than half of a slice. */
#define LARGE (16 << 20)

/* With this value, Lua's own step counts the next collection as a good one. */
#define RETURNS (~(lu_mem)0 / 2)

/* The number of objects that one step marks. */
#define MARKED_AT_ONCE 4096

/* Slots. Lua traverses a table in one go; a longer one takes a millisecond or more. */
#define LONG_TABLE (1 << 17)

int baton_lua_major_is_due(const struct baton_process *process, const global_State *g) {
  const lu_mem size = gettotalbytes(g), base = g->GCestimate;
  if (process == NULL || process->vm->living == 0) return 0;
  if (!process->vm->is_generational || size < LARGE) return 0;
  if (g->lastatomic != 0) return 1;
  return g->GCdebt > 0 && size > base + base / 100 * getgcparam(g->genmajormul);
}

void baton_lua_keep_generational(const struct baton_lua_vm *vm, global_State *g) {
  if (vm->is_generational && !isdecGCmodegen(g)) g->lastatomic = RETURNS;
}

static int is_marking(const global_State *g) {
  return g->gcstate == GCSpause || (g->gcstate == GCSpropagate && g->gray != NULL);
}

/* Whether the next step may take milliseconds if the heap is large: Lua starts a cycle after minor
   collections, traverses a long table, makes its atomic phase, or makes a minor collection. */
static int next_step_is_long(const global_State *g) {
  if (g->gckind == KGC_GEN) return 1;
  if (g->gcstate == GCSenteratomic) return 1;
  if (g->gcstate != GCSpropagate) return 0;
  if (g->gray == NULL) return 1;
  return g->gray->tt == LUA_VTABLE &&
      luaH_realasize(gco2t(g->gray)) + (lu_mem)sizenode(gco2t(g->gray)) >= LONG_TABLE;
}

/* Marks this many objects, one in each of Lua's steps. A step of the usual size might continue with
   the atomic phase or the sweep. Stops before a long piece of work. No finalizer is called
   meanwhile. */
static void mark(lua_State *L, global_State *g, int objects) {
  const lu_byte step_size = g->gcstepsize;
  int count;
  g->gcstepsize = 0;
  for (count = 0; count < objects && is_marking(g); count++) {
    if (count > 0 && objects == MARKED_AT_ONCE && next_step_is_long(g)) break;
    luaE_setdebt(g, 0);
    baton_stock_gc_step(L);
  }
  g->gcstepsize = step_size;
  luaE_setdebt(g, -((l_mem)1 << LUAI_GCSTEPSIZE));
}

/*
** Makes one step. Lua's own step works off the whole debt, and after a large allocation that is the
** whole cycle. Here a step has its usual size, and leaves the debt to later steps. A debt of more
** than a quarter of the heap is worked off at once, which bounds the garbage.
*/
static void make_part(lua_State *L, global_State *g, int is_returning) {
  const l_mem debt = g->GCdebt;
  const int is_late = debt > (l_mem)(gettotalbytes(g) / 4);
  if (!is_late) luaE_setdebt(g, 0);
  if (is_marking(g) && (is_returning || !is_late))
    mark(L, g, is_late ? INT_MAX : MARKED_AT_ONCE);
  else
    baton_stock_gc_step(L);
  if (!is_late && debt > 0 && g->gcstate != GCSpause) luaE_setdebt(g, g->GCdebt + debt);
}

void baton_lua_major_step(lua_State *L, int unused) {
  global_State *g = G(L);
  lu_mem before = g->lastatomic;
  (void)unused;
  if (before == RETURNS && g->gcstate == GCSpropagate && g->gray == NULL) {
    baton_stock_gc_step(L);
    return;
  }
  if (before != RETURNS && (g->gckind == KGC_GEN || g->gcstate == GCSpause))
    before = g->GCestimate;
  baton_stock_changemode(L, KGC_INC); /* lastatomic is 0 now, so Lua's step is incremental */
  make_part(L, g, before == RETURNS);
  if (before != RETURNS && g->gcstate == GCSpause && g->GCestimate < before + before / 8) {
    before = RETURNS;
    luaE_setdebt(g, 0);
  }
  g->lastatomic = before;
}

/* }====================================================== */

/*
** Collections that are abandoned. A finalizer may wait, and meanwhile other processes may collect.
** The collector's functions do not expect another phase or another mode when a finalizer returns.
** Continuing a cycle in a heap that became generational would free objects in use. So if the
** collector was called while a finalizer waited, the step that called the finalizer is abandoned.
** The next collection does the rest. See docs/adr/0020 and `struct baton_collection`.
*/

/* {======================================================
** Delays by the collector
** ======================================================= */

/* A cheap clock, in nanoseconds. */
static uint64_t coarse_now(void) {
  struct timespec now;
#if defined(CLOCK_MONOTONIC_COARSE)
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
  clock_gettime(CLOCK_MONOTONIC, &now);
#endif
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Bytes. Over a smaller heap, no piece of work is long enough for a warning, and the time is not
   read: that would be a quarter of a short step. */
#define TIMED (1 << 20)

/*
** Called at the end of a piece of the collector's work, which started at `began`. The monitor may
** have revoked this thread's right to enter without the VM's mutex, because it wants to warn of a
** delay. If the piece was at least half of that delay, the collector caused it.
*/
static void collector_ends(struct baton_process *process, uint64_t began) {
  if (l_likely((baton_gate_slow() & BATON_SLOW_REVOKED) == 0) || began == 0) return;
  if (2 * (coarse_now() - began) >= baton_warn_blocked(process->vm->executor))
    process->vm->collector_caused_delay = 1;
}

/* }====================================================== */

static void restore_deferred(struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  if (l_likely(vm->set_aside == NULL)) return;
  process->global->tobefnz = (GCObject *)vm->set_aside;
  vm->set_aside = NULL;
}

static void step(lua_State *L, int unused) {
  (void)unused;
  baton_stock_gc_step(L);
}

/* {======================================================
** The collector's time, for metrics
** ======================================================= */

/* Reading the clock twice would be a quarter of a short step. So each long piece of work is timed,
   and of the short ones one of SAMPLED, which stands for as many. It is not each SAMPLED-th: cycles
   of a small heap have the same few steps again and again. */
#define SAMPLED 8

/* 2^64 divided by the golden ratio: its multiples are evenly spread, also each n-th of them. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

/* For how many pieces the next one stands; 0: it is not timed. */
static unsigned weight_of_next(
    const struct baton_process *process, void (*work)(lua_State *L, int argument)) {
  if (work != step || next_step_is_long(process->global)) return 1;
  return process->vm->collections * SPREAD < UINT64_MAX / SAMPLED ? SAMPLED : 0;
}

static void note_time(struct baton_process *process, const struct baton_collection *collection) {
  const global_State *g = process->global;
  if (collection->weight > 0) {
    const uint64_t passed = baton_now() - collection->began;
    const uint64_t finalizers = collection->in_finalizers;
    if (passed > finalizers)
      process->vm->collector_time += (passed - finalizers) * collection->weight;
  }
  if (g->gcstate == GCSpause || g->gckind == KGC_GEN) process->vm->whole_collections++;
}

/* }====================================================== */

/* Does a piece of the collector's work. Returns 0 if it was abandoned. */
static int collect(lua_State *L, void (*work)(lua_State *L, int argument), int argument) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_collection collection;
  uint64_t began;
  int is_done;
  if (process == NULL) {
    work(L, argument);
    return 1;
  }
  process->vm->collections++;
  restore_deferred(process); /* an error of the collector may have skipped it */
  collection.previous = process->collection;
  collection.allows_hooks = L->allowhook;
  process->collection = &collection;
  began = gettotalbytes(G(L)) < TIMED ? 0 : coarse_now();
  collection.in_finalizers = 0;
  collection.weight = weight_of_next(process, work);
  collection.began = collection.weight > 0 ? baton_now() : 0;
  baton_trace_garbage(process->vm->executor, 1);
  /* ISO C allows setjmp as a whole condition, but not in an assignment (7.13.1.1). */
  if (_setjmp(collection.give_up) == 0) {
    work(L, argument);
    is_done = 1;
  } else {
    is_done = 0;
  }
  process->collection = collection.previous;
  restore_deferred(process);
  baton_trace_garbage(process->vm->executor, 0);
  note_time(process, &collection);
  if (is_done) collector_ends(process, began);
  return is_done;
}

/* Abandons the collection after a finalizer's call, which ended with `status`. First ends that call
   as the collector would do. */
static l_noret give_up_collection(lua_State *L, struct baton_collection *collection, int status) {
  L->ci->callstatus &= (unsigned short)~CIST_FIN;
  L->allowhook = collection->allows_hooks;
  G(L)->gcstp &= cast_byte(~GCSTPGC);
  if (status != LUA_OK) {
    luaE_warnerror(L, "__gc");
    L->top.p--;
  }
  _longjmp(collection->give_up, 1);
}

/* Whether a finalizer is one of the guest's that never wait. No process runs meanwhile, so nothing
   has to be prepared for that. */
static int is_quick(const TValue *finalizer) {
  return ttislcf(finalizer) && baton_lua_never_waits(fvalue(finalizer));
}

/* {======================================================
** The heap of a VM that was halted
** ======================================================= */

/*
** The heap of a VM that was halted, or could not begin. None of its code runs any more: nothing is
** unwound, no variable is closed, and no finalizer of the program or of a module is called. All
** objects are freed, with two exceptions:
**
** - Finalizers that give back what is outside of all heaps are called. They are noted by
**   baton_lua_note_giving_finalizer. The one of the buffers of Lua's library is of this kind.
** - A userdata whose finalizer belongs to somebody else is kept: C code may know its address.
*/

/* What this thread frees. */
static __thread struct {
  const global_State *global;  /* NULL: nothing */
  lua_CFunction of_buffers;    /* the finalizer of a buffer's box (lauxlib.c), if there is one */
} freed;

/* Called in place of luaD_pcall, by GCTM of lgc.c. The finalizer and its object are on the top. */
static int pass_over_finalizer(
    lua_State *L, Pfunc func, void *u, ptrdiff_t oldtop, ptrdiff_t ef) {
  global_State *g = G(L);
  const TValue *finalizer = s2v(L->top.p - 2);
  GCObject *object = gcvalue(s2v(L->top.p - 1));
  const lua_CFunction function = ttislcf(finalizer) ? fvalue(finalizer) : NULL;
  if (function != NULL && (function == freed.of_buffers || baton_lua_gives_back(function)))
    return luaD_pcall(L, func, u, oldtop, ef);
  L->top.p -= 2;
  if (object->tt == LUA_VUSERDATA && (function == NULL || !baton_lua_is_ours(function))) {
    lua_assert(g->allgc == object);
    g->allgc = object->next;
  }
  return LUA_OK;
}

static int find_finalizer_of_buffers(lua_State *L) {
  if (luaL_getmetatable(L, "_UBOX*") == LUA_TTABLE && lua_getfield(L, -1, "__gc") == LUA_TFUNCTION)
    freed.of_buffers = lua_tocfunction(L, -1);
  return 0;
}

/* Finalizers that a collection had put aside (calls/deferred_finalizers.c). */
static void restore_finalizers(struct baton_lua_vm *vm, global_State *g) {
  GCObject **link = &g->tobefnz;
  while (*link != NULL) link = &(*link)->next;
  *link = (GCObject *)vm->set_aside;
  vm->set_aside = NULL;
}

/* Leaves all frames of the main state, as lua_close does, but closes none of its variables. */
static void leave_frames(lua_State *L) {
  L->ci = &L->base_ci;
  L->ci->callstatus = CIST_C;
  L->top.p = L->stack.p + 1;
  L->tbclist.p = L->stack.p;
  L->errorJmp = NULL;
  L->errfunc = 0;
  L->nCcalls = 0;
  L->status = LUA_OK;
  L->hookmask = 0;
  L->allowhook = 0;
}

void baton_lua_free_heap(struct baton_lua_vm *vm) {
  lua_State *L = vm->main;
  global_State *g = G(L);
  freed.global = g;
  freed.of_buffers = NULL;
  g->gcstp = GCSTPGC;
  restore_finalizers(vm, g);
  leave_frames(L);
  lua_pushcfunction(L, find_finalizer_of_buffers);
  lua_pcall(L, 0, 0, 0); /* without memory, the buffers stay */
  leave_frames(L);
  baton_stock_close(L);
  baton_gate_leave();
  freed.global = NULL;
  vm->main = NULL;
}

/* }====================================================== */

LUAI_FUNC int baton_finalizer_pcall(
    lua_State *L, Pfunc func, void *u, ptrdiff_t oldtop, ptrdiff_t ef) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_mark mark;
  struct baton_use interrupted;
  void *object;
  lua_CFunction object_of;
  uint64_t before, began;
  int status;
  if (l_unlikely(process == NULL) && freed.global == G(L))
    return pass_over_finalizer(L, func, u, oldtop, ef);
  if (process == NULL || is_quick(s2v(L->top.p - 2))) return luaD_pcall(L, func, u, oldtop, ef);
  if (l_unlikely(process->vm->living > 0) && baton_seam_hooks.defer_finalizer(L, process))
    return LUA_OK;
  before = process->vm->collections;
  baton_lua_keep_generational(process->vm, G(L));
  /* The C function that this interrupts keeps its object in use meanwhile. */
  object = process->object;
  object_of = process->object_of;
  baton_lua_use_begins(&interrupted, process, baton_lua_object_of_running_call(process, L));
  /* The finalizer is no work of the collector's, and others may run meanwhile. */
  if (process->collection != NULL) baton_trace_garbage(process->vm->executor, 0);
  baton_lua_begin_hold(process, &mark, BATON_MARK_FINALIZER);
  began = baton_now();
  status = luaD_pcall(L, func, u, oldtop, ef);
  if (process->collection != NULL) process->collection->in_finalizers += baton_now() - began;
  baton_lua_end_hold(process);
  if (process->collection != NULL) baton_trace_garbage(process->vm->executor, 1);
  baton_lua_use_ends(&interrupted);
  process->object = object;
  process->object_of = object_of;
  if (l_unlikely(process->collection != NULL && process->vm->collections != before))
    give_up_collection(L, process->collection, status);
  process->vm->collections++; /* the collector continues */
  return status;
}

int baton_lua_is_finalizing(const struct baton_lua_vm *vm) {
  return vm->finalizing && vm->finalizer != NULL && vm->finalizer->outcome == BATON_ALIVE;
}

/*
** Puts off a long piece of work once, so that other processes run before it: they wait for the rest
** of this slice or for the piece, not for both. Meanwhile there is no debt, and the process reaches
** a safepoint. A large debt is worked off at once, as in `make_part`.
*/
static int gives_way_first(lua_State *L, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  global_State *g = G(L);
  enum { UNTIL_SAFEPOINT = 1 << 16 }; /* bytes */
  if (l_unlikely(vm->collector_gave_way || process->asks_for_step)) {
    vm->collector_gave_way = 0;
    process->asks_for_step = 0;
    luaE_setdebt(g, g->GCdebt + (l_mem)vm->collector_debt);
    vm->collector_debt = 0;
    return 0;
  }
  if (l_likely(gettotalbytes(g) < LARGE) || vm->living == 0 || baton_simulated) return 0;
  if (g->GCdebt > (l_mem)(gettotalbytes(g) / 4) || !next_step_is_long(g)) return 0;
  vm->collector_gave_way = 1;
  vm->collector_debt = g->GCdebt;
  baton_step_aside(vm->executor);
  baton_lua_arm(L);
  luaE_setdebt(g, -UNTIL_SAFEPOINT);
  return 1;
}

/* Only the process itself uses the mark, so this need not enter the VM. */
void baton_lua_make_next_step(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL) process->asks_for_step = 1;
}

void (*baton_lua_finalizers_have_run)(void *guard);

/* Called after a piece of work. Frozen values that were found dead wait for that. */
static void note_finalizers(const struct baton_process *process) {
  if (l_likely(process->vm->frozen_guard == NULL) || process->global->tobefnz != NULL) return;
  if (!(process->global->gcstp & GCSTPGC) && !baton_lua_is_finalizing(process->vm))
    baton_lua_finalizers_have_run(process->vm->frozen_guard);
}

/*
** Inside a finalizer, where the collector is stopped, a step collects nothing. So it does not
** disturb the step outside.
*/
LUAI_FUNC void luaC_step(lua_State *L) {
  global_State *g = G(L);
  struct baton_process *process = baton_lua_running(L);
  int was_finalizing;
  if (g->gcstp != 0) {
    baton_stock_gc_step(L);
    return;
  }
  if (process != NULL && gives_way_first(L, process)) return;
  was_finalizing = process != NULL && baton_lua_is_finalizing(process->vm);
  collect(L, baton_lua_major_is_due(process, g) ? baton_lua_major_step : step, 0);
  if (process != NULL) note_finalizers(process);
  if (l_unlikely(was_finalizing)) baton_seam_hooks.let_finalizers_run(L, process);
}

/* Retries after finalizers have waited. Bounded, since they may create new garbage each time. */
#define ATTEMPTS 1000

/* Gives back the memory of C stacks, too, and in an emergency their address space. */
LUAI_FUNC void luaC_fullgc(lua_State *L, int is_emergency) {
  const struct baton_process *process;
  int attempts = 0;
  while (!collect(L, baton_stock_fullgc, is_emergency) && attempts++ < ATTEMPTS) {
  }
  process = baton_lua_running(L);
  if (process == NULL) return;
  note_finalizers(process);
  if (is_emergency)
    (void)baton_unmap_stacks(process->vm->executor);
  else
    baton_trim_stacks(process->vm->executor);
}

LUAI_FUNC void luaC_changemode(lua_State *L, int mode) {
  const struct baton_process *process = baton_lua_running(L);
  int attempts = 0;
  if (process != NULL) process->vm->is_generational = mode == KGC_GEN;
  while (!collect(L, baton_stock_changemode, mode) && attempts++ < ATTEMPTS) {
  }
}

/* Whether finalizers are left to the daemon now. If so, calls those that never wait. */
static int leaves_finalizers(lua_State *L, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  if (vm->closing || !baton_lua_is_finalizing(vm)) {
    vm->seen_last = NULL;
    return 0;
  }
  baton_seam_hooks.leave_finalizers(L, process);
  return 1;
}

/*
** Finalizers wait for another collection if Lua's stack is nearly full. Lua 5.4.9 would use the
** slots that it reserves for handling an overflow, and keep them. The next overflow would then be
** reported as an error in error handling.
*/
LUAI_FUNC int baton_room_for_finalizers(lua_State *L) {
  const ptrdiff_t needed = L->top.p - L->stack.p + BASIC_STACK_SIZE;
  struct baton_process *process = baton_lua_running(L);
  if (needed > LUAI_MAXSTACK) return 0;
  if (process == NULL) return luaD_checkminstack(L);
  if (!baton_seam_hooks.make_room_for_finalizer(L)) return 0;
  return !leaves_finalizers(L, process);
}
