/*
** Deferred finalizers. Some finalizers would wait for an object that another process's call uses.
** Such a finalizer is left to a daemon process, and the process that triggered the collection
** continues. All later finalizers are left to the daemon, too, so they keep their order.
**
** While there are other processes, these are deferred:
**
**   a C function of a module      if the object or the module is in use (policies.c)
**   an open file                  if it is in use, or not on a disk: closing it may block
**   a Lua function, or an object  if any object is in use, since it may call anything
**   of the ffi
**   all others                    if an earlier one was deferred; but the guest's own, which never
**                                 wait, are called at once
**
** The objects stay in Lua's own list, `tobefnz`, as they do in an emergency collection. The list
** keeps them alive and in order, and lua_close calls the rest. The daemon waits until the first
** object is free, and only then takes it from the list. So a daemon that is killed while it waits
** leaves it there.
**
** The daemon has the priority of the process that needed it. If a process collects again while the
** daemon has work, it gives way to the daemon once, so that garbage does not pile up.
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "state/state.h"
#include "lualib.h"

#include <string.h>
#include <sys/stat.h>

#define DAEMON "finalizers"

/* {======================================================
** Which finalizers are deferred
** ======================================================= */

static lua_CFunction c_function(const TValue *value) {
  if (ttislcf(value)) return fvalue(value);
  return ttisCclosure(value) ? clCvalue(value)->f : NULL;
}

/* The file, if the object is an open file of Lua's; else NULL. */
static luaL_Stream *open_file(const struct baton_lua_vm *vm, const TValue *object) {
  luaL_Stream *stream;
  if (!ttisfulluserdata(object) || uvalue(object)->metatable == NULL ||
      uvalue(object)->metatable != vm->files)
    return NULL;
  stream = (luaL_Stream *)getudatamem(uvalue(object));
  return stream->closef != NULL && stream->f != NULL ? stream : NULL;
}

static int is_on_disk(FILE *file) {
  struct stat status;
  return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode);
}

/* Whether the process may give way to the daemon here, in the middle of a collection. */
static int may_give_way(const struct baton_process *process) {
  const struct baton_lua_vm *vm = process->vm;
  if (vm->closing || vm->ending || process == vm->hook_process || process == vm->finalizer)
    return 0;
  if (process->criticals > 0 || process->foreign_states > 0 || process->cooperative) return 0;
  return baton_lua_is_on_own_stack(process);
}

static int is_preemptive(const struct baton_lua_vm *vm) {
  double value = 1;
  const char *text;
  baton_parameter(vm->executor, "preemptive", &value, &text);
  return value != 0;
}

/* The guest's finalizer that calls the program's, for objects of the ffi. Written once. */
static lua_CFunction calling_finalizer;

void baton_lua_note_calling_finalizer(lua_CFunction function) { calling_finalizer = function; }

enum conduct { NEVER_WAITS, IS_FREE /* would not wait now */, WOULD_WAIT };

/* What a call of the finalizer for the object would do now. `awaited` becomes the object that it
   would wait for, if that is known. */
static enum conduct conduct_of(struct baton_process *process, const TValue *finalizer,
    const TValue *object, const void **awaited) {
  const lua_CFunction function = c_function(finalizer);
  const int is_anything_used = process->vm->busy_count > 0 && may_give_way(process);
  luaL_Stream *stream;
  *awaited = NULL;
  if (function == NULL) return is_anything_used ? WOULD_WAIT : IS_FREE;
  if (!baton_lua_is_ours(function)) {
    *awaited = baton_lua_finalizer_waits_for(process, function, object);
    return *awaited != NULL ? WOULD_WAIT : IS_FREE;
  }
  if (function == calling_finalizer) return is_anything_used ? WOULD_WAIT : IS_FREE;
  if ((stream = open_file(process->vm, object)) == NULL)
    return baton_lua_never_waits(function) ? NEVER_WAITS : IS_FREE;
  if (baton_lua_is_busy(process, stream->f)) *awaited = stream->f;
  return *awaited != NULL || (may_give_way(process) && !is_on_disk(stream->f)) ? WOULD_WAIT
                                                                               : IS_FREE;
}

/* }====================================================== */

/* {======================================================
** Lua's list
** ======================================================= */

#define COLORS (bitmask(BLACKBIT) | WHITEBITS)

/* Takes the object that `link` points to from the list, as udata2finalize of lgc.c does. It may do
   so at any time, even when a sweep is about to continue behind the object. */
static GCObject *take(struct baton_lua_vm *vm, global_State *g, GCObject **link) {
  GCObject *object = *link;
  if (g->sweepgc == &object->next) g->sweepgc = link;
  if (vm->seen_last == object) vm->seen_last = NULL;
  *link = object->next;
  object->next = g->allgc;
  g->allgc = object;
  resetbit(object->marked, FINALIZEDBIT);
  if (issweepphase(g))
    object->marked = cast_byte((object->marked & ~COLORS) | luaC_white(g));
  else if (getage(object) == G_OLD1)
    g->firstold1 = object;
  return object;
}

/* Undoes `take` for the object just taken, which is the first in the list of all objects. */
static void give_back(global_State *g, GCObject *object) {
  lua_assert(g->allgc == object);
  if (g->firstold1 == object) g->firstold1 = object->next;
  g->allgc = object->next;
  object->next = g->tobefnz;
  g->tobefnz = object;
  l_setbit(object->marked, FINALIZEDBIT);
}

static void call(lua_State *L, void *unused) {
  (void)unused;
  luaD_callnoyield(L, L->top.p - 2, 0);
}

/* Calls the finalizer of the object that `link` points to, as GCTM of lgc.c does. */
static void finalize(lua_State *L, struct baton_lua_vm *vm, GCObject **link) {
  global_State *g = G(L);
  const lu_byte allows_hooks = L->allowhook, stop = g->gcstp & GCSTPGC;
  const unsigned short is_finalizing = L->ci->callstatus & CIST_FIN;
  const TValue *finalizer;
  TValue object;
  int status;
  setgcovalue(L, &object, take(vm, g, link));
  finalizer = luaT_gettmbyobj(L, &object, TM_GC);
  if (notm(finalizer)) return;
  g->gcstp |= GCSTPGC;
  L->allowhook = 0;
  setobj2s(L, L->top.p++, finalizer);
  setobj2s(L, L->top.p++, &object);
  L->ci->callstatus |= CIST_FIN;
  status = baton_finalizer_pcall(L, call, NULL, savestack(L, L->top.p - 2), 0);
  L->ci->callstatus = cast(unsigned short, (L->ci->callstatus & ~CIST_FIN) | is_finalizing);
  L->allowhook = allows_hooks;
  g->gcstp = cast_byte((g->gcstp & ~GCSTPGC) | stop);
  if (l_unlikely(status != LUA_OK)) {
    luaE_warnerror(L, "__gc");
    L->top.p--;
  }
}

/* }====================================================== */

/* {======================================================
** The daemon
** ======================================================= */

/* Waits until the object of the first finalizer is free. Inside the VM before and after. */
static void await_first(lua_State *L, struct baton_process *process) {
  const global_State *g = G(L);
  for (;;) {
    const void *awaited;
    const TValue *finalizer;
    TValue object;
    if (g->tobefnz == NULL) return;
    setgcovalue(L, &object, g->tobefnz);
    finalizer = luaT_gettmbyobj(L, &object, TM_GC);
    if (notm(finalizer)) return;
    conduct_of(process, finalizer, &object, &awaited);
    if (awaited == NULL || !baton_lua_wait_for_object(L, process, awaited)) return;
  }
}

/* The daemon's body. It ends when it is killed. In a fork's child that a finalizer has made, it
   ends with the program. */
static int run_finalizers(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  struct baton_lua_vm *vm = process->vm;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  for (;;) {
    struct baton_wake wake;
    baton_lua_enter(L);
    while (G(L)->tobefnz != NULL) {
      await_first(L, process);
      if (G(L)->tobefnz != NULL) finalize(L, vm, &G(L)->tobefnz);
    }
    vm->finalizing = 0;
    baton_queue_wake_all(vm->executor, vm->finalized_queue);
    if (vm->heir == process) {
      baton_lua_leave(L);
      return 0;
    }
    wake = baton_queue_wait(vm->executor, vm->finalizer_queue, BATON_FOREVER);
    baton_lua_leave(L);
    baton_lua_after_wait(L, process, wake);
  }
}

/* start(): makes the daemon. It may run as soon as this returns. */
static int start(lua_State *L) {
  struct baton_process *caller = baton_lua_here(L), *process;
  struct baton_spawn_options options;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  options.daemon = 1;
  options.quiet = 1;
  lua_pushliteral(L, DAEMON);
  process = baton_lua_new_process(L, caller->vm, &options);
  if (process == NULL) return lua_error(L);
  baton_lua_forget_context(process);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  baton_lua_set_name(process, DAEMON, sizeof DAEMON - 1);
  lua_pushcfunction(L, run_finalizers);
  lua_xmove(L, process->L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &caller->vm->finalizer);
  caller->vm->finalizer = process;
  return 0;
}

static void call_start(lua_State *L, void *unused) {
  (void)unused;
  setfvalue(s2v(L->top.p), start);
  L->top.p++;
  luaD_callnoyield(L, L->top.p - 1, 0);
}

/* Returns 0 if there is no memory for a daemon. The collector is stopped. */
static int has_daemon(lua_State *L, struct baton_lua_vm *vm) {
  if (vm->finalizer != NULL && vm->finalizer->outcome == BATON_ALIVE) return 1;
  if (luaD_pcall(L, call_start, NULL, savestack(L, L->top.p), 0) == LUA_OK) return 1;
  L->top.p--;
  return 0;
}

static void wake_daemon(struct baton_lua_vm *vm, const struct baton_process *caller) {
  const int priority = baton_priority(vm->executor, caller->sched_id);
  if (!vm->finalizing || baton_priority(vm->executor, vm->finalizer->sched_id) < priority)
    baton_set_priority(vm->executor, vm->finalizer->sched_id, priority);
  vm->finalizing = 1;
  baton_queue_wake_all(vm->executor, vm->finalizer_queue);
}

/* }====================================================== */

/* {======================================================
** From the collector
** ======================================================= */

int baton_lua_defer_finalizer(lua_State *L, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  global_State *g = G(L);
  GCObject *object = gcvalue(s2v(L->top.p - 1));
  const void *awaited;
  if (vm->closing || process == vm->finalizer || g->allgc != object) return 0;
  if (conduct_of(process, s2v(L->top.p - 2), s2v(L->top.p - 1), &awaited) != WOULD_WAIT) return 0;
  give_back(g, object);
  if (!vm->ending) {
    if (!has_daemon(L, vm)) {
      take(vm, g, &g->tobefnz);
      return 0;
    }
    wake_daemon(vm, process);
  }
  /* lgc.c continues until the list is empty. The objects return to it before the next collection */
  if (g->gckind == KGC_GEN) {
    vm->set_aside = g->tobefnz;
    g->tobefnz = NULL;
  }
  L->top.p -= 2;
  return 1;
}

/* Calls the guest's own finalizers that never wait, as they may free much memory. The others keep
   their places. */
static void call_those_that_never_wait(lua_State *L, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  GCObject **link = vm->seen_last != NULL ? &((GCObject *)vm->seen_last)->next : &G(L)->tobefnz;
  while (*link != NULL) {
    const void *awaited;
    const TValue *finalizer;
    TValue object;
    setgcovalue(L, &object, *link);
    finalizer = luaT_gettmbyobj(L, &object, TM_GC);
    if (!notm(finalizer) && conduct_of(process, finalizer, &object, &awaited) == NEVER_WAITS) {
      finalize(L, vm, link);
    } else {
      vm->seen_last = *link;
      link = &(*link)->next;
    }
  }
}

void baton_lua_leave_finalizers(lua_State *L, struct baton_process *process) {
  if (process != process->vm->finalizer) wake_daemon(process->vm, process);
  call_those_that_never_wait(L, process);
}

/* Yields once to the daemon. The C function that this interrupts keeps its object in use
   meanwhile. */
void baton_lua_let_finalizers_run(lua_State *L, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  struct baton_use interrupted;
  void *object = process->object;
  const lua_CFunction object_of = process->object_of;
  if (!baton_lua_is_finalizing(vm) || !may_give_way(process) || !is_preemptive(vm)) return;
  if (baton_state(vm->executor, vm->finalizer->sched_id) != BATON_STATE_RUNNABLE) return;
  baton_lua_use_begins(&interrupted, process, baton_lua_object_of_running_call(process, L));
  baton_yield_to(vm->executor, vm->finalizer->sched_id);
  baton_lua_use_ends(&interrupted);
  process->object = object;
  process->object_of = object_of;
}

/* The number of slices that a collection gives to the daemon. Bounded: it may never finish. */
#define MOST_SLICES 1000
/* Nanoseconds between two checks while the daemon is in a call or sleeps. */
#define MOMENT 1000000

void baton_lua_await_finalizers(lua_State *L, struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  int slices;
  if (!may_give_way(process)) return;
  baton_lua_enter(L);
  for (slices = 0; slices < MOST_SLICES && baton_lua_is_finalizing(vm) && !process->killed &&
       !process->interrupted;
       slices++) {
    const int state = baton_state(vm->executor, vm->finalizer->sched_id);
    if (state == BATON_STATE_RUNNABLE)
      baton_yield_to(vm->executor, vm->finalizer->sched_id);
    else if (state == BATON_STATE_FOREIGN || state == BATON_STATE_SLEEPING)
      baton_queue_wait(vm->executor, vm->finalized_queue, MOMENT);
    else
      break; /* it waits for a process, perhaps for the caller */
  }
  baton_lua_leave(L);
}

/* }====================================================== */
