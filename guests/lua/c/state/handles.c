/*
** Handles and records of processes: making, holding and ending them.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <string.h>

static Udata *handle_of(struct baton_process *process) {
  return cast(Udata *, cast_charp(process) - udatamemoffset(BATON_UV_COUNT));
}

void baton_lua_push_process(lua_State *L, struct baton_process *process) {
  baton_lua_enter(L);
  setuvalue(L, s2v(L->top.p), handle_of(process));
  api_incr_top(L);
  baton_lua_leave(L);
}

/* Links a living process's handle behind the main process's, so that each handle keeps the next one
   alive. Inside the VM. */
static void hold_handle(lua_State *L, struct baton_process *process) {
  struct baton_process *main_process = process->vm->main_process;
  Udata *handle = handle_of(process), *main_handle = handle_of(main_process);
  setobj(L, &handle->uv[BATON_UV_NEXT - 1].uv, &main_handle->uv[BATON_UV_NEXT - 1].uv);
  luaC_barrierback(L, obj2gco(handle), &handle->uv[BATON_UV_NEXT - 1].uv);
  setuvalue(L, &main_handle->uv[BATON_UV_NEXT - 1].uv, handle);
  luaC_barrierback(L, obj2gco(main_handle), &main_handle->uv[BATON_UV_NEXT - 1].uv);
  process->previous_live = main_process;
  process->next_live = main_process->next_live;
  if (process->next_live != NULL) process->next_live->previous_live = process;
  main_process->next_live = process;
  process->vm->living++;
}

/* The process leaves its scope, which waits for it. Inside the VM. */
static void leave_scope(struct baton_process *process) {
  *process->scope_place = process->scope_next;
  if (process->scope_next != NULL) process->scope_next->scope_place = process->scope_place;
  process->scope = NULL;
}

/* Unlinks the handle. A collection may free the record afterwards, so this must happen inside the
   VM. */
static void let_go_of_handle(struct baton_process *process) {
  struct baton_process *previous = process->previous_live;
  Udata *handle = handle_of(process), *before = handle_of(previous);
  if (l_unlikely(process->debugged != NULL)) baton_seam_hooks.debugged_ends(process);
  if (process->scope != NULL) leave_scope(process);
  setobj(process->L, &before->uv[BATON_UV_NEXT - 1].uv, &handle->uv[BATON_UV_NEXT - 1].uv);
  luaC_barrierback(process->L, obj2gco(before), &before->uv[BATON_UV_NEXT - 1].uv);
  setnilvalue(&handle->uv[BATON_UV_NEXT - 1].uv);
  process->vm->living--;
  previous->next_live = process->next_live;
  if (process->next_live != NULL) process->next_live->previous_live = previous;
}

struct baton_process *baton_lua_check_process(lua_State *L, int index) {
  return baton_lua_check_sealed(L, index, BATON_SEALED_PROCESS, "process");
}

/*
** Each young collection visits all Lua threads. With the default growth of 20 %, making a million
** processes would visit each of them many times. So with many processes the growth is raised. A
** program may set the collector's parameters afterwards.
*/
#define MANY_PROCESSES 16384
#define MINOR_GROWTH 100 /* percent */

static void pace_collector(lua_State *L, struct baton_lua_vm *vm) {
  if (vm->living == MANY_PROCESSES && G(L)->genminormul < MINOR_GROWTH)
    G(L)->genminormul = MINOR_GROWTH;
}

/* Whether the chunk is one of ours. These spawn processes for their callers. */
static int is_ours(TString *source) {
  const char *name = getstr(source);
  if (l_likely(name[0] != '=')) return 0;
  return strncmp(name, "=process.", 9) == 0 || strncmp(name, "=baton.", 7) == 0;
}

const void *baton_lua_program_function(const lua_State *L, int *pc) {
  const CallInfo *ci = L->ci;
  while (ci != NULL &&
      (!isLua(ci) || ci_func(ci)->p->source == NULL || is_ours(ci_func(ci)->p->source)))
    ci = ci->previous;
  if (ci == NULL) return NULL;
  *pc = pcRel(ci->u.l.savedpc, ci_func(ci)->p);
  return ci_func(ci)->p;
}

/* {======================================================
** Data that follows the work, and its deadline (objects/context.c)
**
** The record has the address. The first slot of the process's Lua thread, which Lua leaves nil at
** that level, keeps the table alive. In the main state, that slot has the private table, which
** keeps the table of the main process then.
** ======================================================= */

static const char main_context;

void baton_lua_set_context(lua_State *L, struct baton_process *process) {
  struct Table *context;
  if (process == process->vm->main_process) {
    lua_pushvalue(L, -1);
    baton_lua_keep_private(L, &main_context);
  }
  baton_lua_enter(L);
  context = ttistable(s2v(L->top.p - 1)) ? hvalue(s2v(L->top.p - 1)) : NULL;
  process->context = context;
  if (process != process->vm->main_process) setobjs2s(L, process->L->stack.p, L->top.p - 1);
  L->top.p--;
  baton_lua_leave(L);
}

/* A new process has the context of the one that spawns it. Threads need no barrier. */
static void inherit_context(
    lua_State *L, struct baton_process *process, const struct baton_process *spawner) {
  process->context = spawner->context;
  sethvalue2s(L, process->L->stack.p, process->context);
}

void baton_lua_forget_context(struct baton_process *process) {
  process->context = NULL;
  setnilvalue(s2v(process->L->stack.p));
}

void baton_lua_limit_time(struct baton_process *process, baton_timeout left) {
  uint64_t deadline;
  if (left < 0) return; /* BATON_FOREVER */
  deadline = baton_now() + (uint64_t)left;
  if (process->deadline == 0 || deadline < process->deadline) process->deadline = deadline;
}

/* }====================================================== */

/*
** Notes where a process was spawned. Its handle is on the top of the stack. The place is in the
** innermost Lua function of the program on `L`. If there is none, as with a timer's process, the
** process takes the place of the calling process. Also passes the context and the deadline on.
** Inside the VM.
*/
static void note_spawn_site(lua_State *L, struct baton_process *process) {
  struct baton_process *spawner = baton_lua_running(L);
  TValue *kept = &handle_of(process)->uv[BATON_UV_SITE - 1].uv;
  const void *function = baton_lua_program_function(L, &process->spawn_pc);
  if (function != NULL) {
    process->spawn_function = function;
    setgcovalue(L, kept, obj2gco((Proto *)function));
  } else if (spawner != NULL) {
    process->spawn_function = spawner->spawn_function;
    process->spawn_pc = spawner->spawn_pc;
    setobj(L, kept, &handle_of(spawner)->uv[BATON_UV_SITE - 1].uv);
  }
  if (spawner != NULL) process->deadline = spawner->deadline;
  if (l_unlikely(spawner != NULL && spawner->context != NULL))
    inherit_context(L, process, spawner);
  luaC_barrierback(L, obj2gco(handle_of(process)), kept);
}

/* {======================================================
** Lua threads of ended processes, kept for others
**
** They form a list: the main process's handle has the first, and the second slot of each one's
** stack has the next. Threads need no barrier, as the collector visits them again at its end.
** ======================================================= */

#define MOST_WARM 64
#define MOST_WARM_STACK (2 * BASIC_STACK_SIZE) /* in slots */
#define MOST_WARM_FRAMES 16

static TValue *thread_of(struct baton_process *process) {
  return &handle_of(process)->uv[BATON_UV_THREAD - 1].uv;
}

/*
** Whether nothing is left of the process on its Lua thread, and nothing else can use it. A module
** in C may have kept the address of the thread, as lsqlite3 keeps that of the one that opened a
** database. So all loaded modules in C must be known not to.
*/
static int is_reusable(const struct baton_process *process) {
  const lua_State *L = process->L;
  return !process->shows_thread && !baton_lua_modules_keep_threads() &&
      process != process->vm->heir && L->ci == &L->base_ci && L->openupval == NULL &&
      L->tbclist.p == L->stack.p && stacksize(L) <= MOST_WARM_STACK &&
      L->nci <= MOST_WARM_FRAMES && process->vm->warm_threads < MOST_WARM;
}

/* The process has ended, and does not leave the VM any more: keeps its Lua thread for another one,
   if it can be. */
static void end_thread(struct baton_process *process) {
  lua_State *L = process->L;
  struct baton_process *main_process = process->vm->main_process;
  /* above the message handler */
  const int results = process->outcome == BATON_RETURNED ? (int)(L->top.p - (L->stack.p + 2)) : 0;
  if (process->outcome == BATON_FAILED || results > 1 || !is_reusable(process)) return;
  if (l_unlikely(process->context != NULL)) baton_lua_forget_context(process);
  if (results == 1) {
    setobj(L, thread_of(process), s2v(L->stack.p + 2));
  } else {
    setnilvalue(thread_of(process));
  }
  luaC_barrierback(L, obj2gco(handle_of(process)), thread_of(process));
  process->results = (unsigned char)results;
  process->has_no_thread = 1;
  process->L = process->vm->main;
  L->status = LUA_OK;
  setobj2s(L, L->stack.p + 1, thread_of(main_process));
  L->top.p = L->stack.p + 2;
  setthvalue(L, thread_of(main_process), L);
  luaC_barrierback(L, obj2gco(handle_of(main_process)), thread_of(main_process));
  process->vm->warm_threads++;
}

/* Takes a kept thread for a process, as new. Returns 0 if there is none. Inside the VM. */
static int take_warm_thread(lua_State *L, struct baton_process *process) {
  TValue *first = thread_of(process->vm->main_process);
  lua_State *taken;
  if (!ttisthread(first)) return 0;
  taken = thvalue(first);
  setobj(L, first, s2v(taken->stack.p + 1));
  luaC_barrierback(L, obj2gco(handle_of(process->vm->main_process)), first);
  process->vm->warm_threads--;
  taken->top.p = taken->stack.p + 1;
  taken->hook = NULL;
  taken->hookmask = L->hookmask & BATON_DEBUG_BIT;
  taken->basehookcount = 0;
  taken->allowhook = 1;
  taken->oldpc = 0;
  resethookcount(taken);
  memcpy(lua_getextraspace(taken), lua_getextraspace(G(L)->mainthread), LUA_EXTRASPACE);
  process->L = taken;
  setthvalue(L, thread_of(process), taken);
  luaC_barrierback(L, obj2gco(handle_of(process)), thread_of(process));
  return 1;
}

/* The message handler at a process's base. Keeps the traceback for the report and for
   p:traceback(). */
int baton_lua_keep_traceback(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (process == NULL || process->killed) return 1;
  baton_lua_push_process(L, process);
  luaL_traceback(L, L, NULL, 1);
  lua_setiuservalue(L, -2, BATON_UV_TRACE);
  lua_settop(L, 1);
  return 1;
}

/* Gives the process, whose handle is on the top of the stack, a Lua thread with its message
   handler, and with room for `values` more. Returns 0 without memory. */
static int begin_thread(lua_State *L, struct baton_process *process, int values) {
  int is_warm;
  baton_lua_enter(L);
  is_warm = take_warm_thread(L, process);
  baton_lua_leave(L);
  if (!is_warm) {
    process->L = lua_newthread(L);
    lua_setiuservalue(L, -2, BATON_UV_THREAD);
    lua_sethook(process->L, NULL, 0, 0); /* each process has its own hooks */
  }
  baton_lua_begin_steps(process->L);
  if (values + 4 > LUA_MINSTACK && !lua_checkstack(process->L, values + 4)) return 0;
  baton_lua_enter(L);
  setfvalue(s2v(process->L->top.p), baton_lua_keep_traceback);
  process->L->top.p++;
  baton_lua_leave(L);
  return 1;
}

/* }====================================================== */

/* Sets the handle's metatable, which has no finalizer. */
static void set_metatable(lua_State *L, struct baton_process *process) {
  Udata *handle = handle_of(process);
  baton_lua_enter(L);
  handle->metatable = process->vm->process_metatable;
  luaC_objbarrier(L, handle, handle->metatable);
  baton_lua_leave(L);
}

/* Gives the process to the scheduler. Returns 0, and a message, if it does not take the process. */
static int enlist(lua_State *L, struct baton_process *process,
    const struct baton_spawn_options *options, char *message) {
  struct baton_lua_vm *vm = process->vm;
  message[0] = '\0';
  baton_lua_enter(L);
  process->sched_id = baton_spawn(vm->executor, options, message, BATON_MESSAGE);
  if (process->sched_id != 0) {
    process->outcome = BATON_ALIVE;
    note_spawn_site(L, process);
    hold_handle(L, process);
  }
  if (options->thread[0] != '\0') baton_lua_watch_threads(vm);
  baton_lua_leave(L);
  return process->sched_id != 0;
}

/*
** Makes a process that will call the function below the `n` arguments on the top of `L`. Leaves its
** handle in their place. If it cannot, returns NULL and leaves a message on the top of the stack.
*/
struct baton_process *baton_lua_new_process(
    lua_State *L, struct baton_lua_vm *vm, struct baton_spawn_options *options) {
  char message[BATON_MESSAGE];
  int values = lua_gettop(L), again = 0;
  struct baton_process *process;
  baton_lua_check_memory_for_object(L, vm, 0);
  process = lua_newuserdatauv(L, sizeof *process, BATON_UV_COUNT);
  memset(process, 0, sizeof *process);
  process->seal = baton_lua_seal(BATON_SEALED_PROCESS);
  process->vm = vm;
  process->outcome = BATON_RETURNED; /* until the scheduler has it */
  set_metatable(L, process);
  if (!begin_thread(L, process, values)) { /* now: later, nothing may fail */
    lua_pop(L, 1);
    lua_pushstring(L, values > LUAI_MAXSTACK / 2 ? "too many arguments" : "not enough memory");
    return NULL;
  }
  process->global = G(L);
  process->quiet = options->quiet != 0;
  process->daemon = options->daemon != 0;
  process->cooperative = options->preemptible == 0;
  process->id = ++vm->next_id;
  pace_collector(L, vm);
  options->size = sizeof *options;
  options->user_data = (uintptr_t)process;
  while (l_unlikely(!enlist(L, process, options, message)) && !again) {
    if (!baton_lua_memory_is_short()) break;
    baton_lua_free_memory(L); /* there was no stack */
    again = 1;
  }
  if (process->sched_id == 0) {
    lua_pop(L, 1);
    lua_pushstring(L, message);
    return NULL;
  }
  return process;
}

/* Forgets a process that was killed and is on no stack. Its handle may be collected then. Inside
   the VM. */
static void forget_killed(struct baton_process *process) {
  if (process->outcome == BATON_ALIVE) process->outcome = BATON_WAS_KILLED;
  process->L->status = BATON_STATUS_ENDED;
  process->last.priority = baton_priority(process->vm->executor, process->sched_id);
  process->last.time = baton_time_used(process->vm->executor, process->sched_id);
  baton_forget(process->vm->executor, process->sched_id);
  process->sched_id = 0;
  let_go_of_handle(process);
}

/* Called when the timer that the process was made for will never start it. */
void baton_lua_abandon_prepared(lua_State *L, struct baton_process *process) {
  baton_lua_enter(L);
  forget_killed(process);
  baton_lua_leave(L);
}

/* Kills a process that has not run. It ends at once. Returns 0 if it has run. */
int baton_lua_end_unstarted(lua_State *L, struct baton_process *process) {
  int ended;
  baton_lua_enter(L);
  ended = baton_end_unstarted(process->vm->executor, process->sched_id);
  if (ended) forget_killed(process);
  baton_lua_leave(L);
  if (!ended) return 0;
  baton_life_hooks.ends_unstarted(L, process);
  lua_settop(process->L, 0);
  baton_lua_enter(L);
  baton_give_way(process->vm->executor); /* to a process that joins it */
  baton_lua_leave(L);
  return 1;
}

/* Ends a process in a fork's child, where its C stack is gone. Inside the VM. */
void baton_lua_end_in_place(struct baton_process *process) {
  process->marks = NULL;
  process->resumed = NULL;
  process->collection = NULL;
  process->holds = 0;
  process->foreign_states = 0;
  process->retaken = 0;
  process->use.object = NULL;
  baton_lua_forget_uses(process);
  process->waiting_for = NULL;
  if (process != process->vm->main_process)
    forget_killed(process);
  else
    process->outcome = BATON_WAS_KILLED;
}

/* Ends the record's life. Called last by the process, inside the VM. */
void baton_lua_end_record(struct baton_process *process) {
  if (l_unlikely(process->uses != NULL)) baton_lua_forget_uses(process);
  end_thread(process);
  process->last = baton_end(process->vm->executor);
  process->sched_id = 0;
  let_go_of_handle(process);
}

void baton_lua_push_reason(lua_State *L, struct baton_process *process) {
  if (process->outcome == BATON_FAILED) {
    lua_checkstack(process->L, 1);
    lua_pushvalue(process->L, 2);
    lua_xmove(process->L, L, 1);
  } else if (process->outcome == BATON_RETURNED) {
    lua_pushnil(L);
  } else {
    baton_lua_push_process(L, process);
    if (lua_getiuservalue(L, -1, BATON_UV_REASON) == LUA_TNIL) {
      lua_pop(L, 1);
      /* otherwise ended by a fork, in the fork's child */
      lua_pushstring(L, process->killed ? "killed from outside" : "killed");
    }
    lua_remove(L, -2);
  }
}

int baton_lua_push_results(lua_State *L, struct baton_process *process) {
  int i, count;
  if (!process->joined) {
    process->joined = 1;
    if (process->outcome == BATON_FAILED && !process->quiet) process->vm->failures--;
  }
  if (process->outcome == BATON_WAS_KILLED) {
    lua_pushboolean(L, 0);
    baton_lua_push_reason(L, process);
    return 2;
  }
  lua_pushboolean(L, process->outcome == BATON_RETURNED);
  if (process->has_no_thread) {
    if (process->results > 0) {
      baton_lua_enter(L);
      setobj2s(L, L->top.p, thread_of(process));
      api_incr_top(L);
      baton_lua_leave(L);
    }
    return 1 + process->results;
  }
  count = lua_gettop(process->L) - 1;
  luaL_checkstack(L, count + 1, "too many results");
  lua_checkstack(process->L, 1);
  for (i = 2; i <= count + 1; i++) {
    lua_pushvalue(process->L, i);
    lua_xmove(process->L, L, 1);
  }
  return count + 1;
}

struct baton_process *baton_lua_interrupt_target(const struct baton_lua_vm *vm) {
  return vm->heir != NULL ? vm->heir : vm->main_process;
}

/* Makes the handle's metatable. process/module.c adds the methods. A handle needs no finalizer: the
   scheduler has forgotten a process before its handle can be collected. */
void baton_lua_open_handles(lua_State *L, struct baton_lua_vm *vm) {
  baton_lua_new_sealed_metatable(L, BATON_SEALED_PROCESS, "baton.process*");
  vm->process_metatable = hvalue(s2v(L->top.p - 1));
  lua_pop(L, 1);
}
