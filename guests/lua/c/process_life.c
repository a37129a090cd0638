/*
** The life of a process: its record and handle, its body, and how it ends.
*/
#include "internals.h"
#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE "baton.process*"

/* {======================================================
** Handles
** ======================================================= */

static Udata *handle_of(struct baton_process *process) {
  return cast(Udata *, cast_charp(process) - udatamemoffset(BATON_UV_COUNT));
}

void baton_lua_push_process(lua_State *L, struct baton_process *process) {
  baton_enter(L);
  setuvalue(L, s2v(L->top.p), handle_of(process));
  api_incr_top(L);
  baton_leave(L);
}

/* A living process's handle is held by that of the one before it, after the main process's. Inside the VM. */
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

/* Must be done while the VM is ours: once the handle is let go, a collection may free the record. Inside the VM. */
static void let_go_of_handle(struct baton_process *process) {
  struct baton_process *previous = process->previous_live;
  Udata *handle = handle_of(process), *before = handle_of(previous);
  setobj(process->L, &before->uv[BATON_UV_NEXT - 1].uv, &handle->uv[BATON_UV_NEXT - 1].uv);
  luaC_barrierback(process->L, obj2gco(before), &before->uv[BATON_UV_NEXT - 1].uv);
  setnilvalue(&handle->uv[BATON_UV_NEXT - 1].uv);
  process->vm->living--;
  previous->next_live = process->next_live;
  if (process->next_live != NULL) process->next_live->previous_live = previous;
}

struct baton_process *baton_lua_check_process(lua_State *L, int index) {
  struct baton_process *process = luaL_testudata(L, index, HANDLE);
  if (process == NULL) luaL_typeerror(L, index, "process");
  return process;
}

/* The process's name, or "process N". */
void baton_lua_push_name(lua_State *L, struct baton_process *process) {
  baton_lua_push_process(L, process);
  if (lua_getiuservalue(L, -1, BATON_UV_NAME) != LUA_TSTRING) {
    lua_pop(L, 1);
    lua_pushfstring(L, "process %I", (LUAI_UACINT)process->id);
  }
  lua_remove(L, -2);
}

/*
** Each young collection visits all threads, so with many processes it must not come after every 20 % of growth: making a million of them
** would visit each many times over. A program that sets its own collector parameters afterwards has its way.
*/
#define MANY_PROCESSES 16384
#define MINOR_GROWTH 100 /* percent */

static void pace_collector(lua_State *L, struct baton_vm *vm) {
  if (vm->living == MANY_PROCESSES && G(L)->genminormul < MINOR_GROWTH) G(L)->genminormul = MINOR_GROWTH;
}

/*
** Makes a process that will call the function below the `n` arguments on the top of `L`, and leaves its handle in their place.
** Returns NULL and a message on the top of the stack when there cannot be another one.
*/
struct baton_process *baton_lua_new_process(lua_State *L, struct baton_vm *vm, struct baton_spawn *options) {
  char message[BATON_MESSAGE];
  struct baton_process *process = lua_newuserdatauv(L, sizeof *process, BATON_UV_COUNT);
  memset(process, 0, sizeof *process);
  process->vm = vm;
  process->outcome = BATON_RETURNED; /* until there is a kernel process behind it, nothing is to be forgotten */
  luaL_setmetatable(L, HANDLE);
  process->L = lua_newthread(L);
  lua_setiuservalue(L, -2, BATON_UV_THREAD);
  process->global = G(L);
  process->quiet = options->quiet != 0;
  process->daemon = options->daemon != 0;
  process->id = ++vm->next_id;
  pace_collector(L, vm);
  options->word = (uintptr_t)process;
  lua_sethook(process->L, NULL, 0, 0); /* hooks are a matter of each process */
  baton_lua_begin_steps(process->L);
  message[0] = '\0';
  baton_enter(L);
  process->kernel_id = baton_rs_spawn(vm->executor, options, message, sizeof message);
  if (process->kernel_id != 0) {
    process->outcome = BATON_ALIVE;
    hold_handle(L, process);
  }
  if (options->thread[0] != '\0') baton_lua_watch_threads(vm);
  baton_leave(L);
  if (process->kernel_id == 0) {
    lua_pop(L, 1);
    lua_pushstring(L, message);
    return NULL;
  }
  return process;
}

/* A process made for a timer that will never fire it: its handle may be collected, and with it the process is forgotten. */
void baton_lua_abandon_prepared(lua_State *L, struct baton_process *process) {
  baton_enter(L);
  process->outcome = BATON_WAS_KILLED;
  let_go_of_handle(process);
  baton_leave(L);
}

/* Kills a process that has not run: it ends at once. Returns 0 if it has run. */
int baton_lua_end_unstarted(lua_State *L, struct baton_process *process) {
  int ended;
  baton_enter(L);
  ended = baton_rs_end_unstarted(process->vm->executor, process->kernel_id);
  if (ended) {
    process->outcome = BATON_WAS_KILLED;
    let_go_of_handle(process);
  }
  baton_leave(L);
  if (ended) lua_settop(process->L, 0);
  return ended;
}

/* In a fork's child: nothing of the process runs any more, and its C stack is gone. Inside the VM. */
void baton_lua_end_in_place(struct baton_process *process) {
  process->outcome = BATON_WAS_KILLED;
  process->marks = NULL;
  process->resumed = NULL;
  process->collection = NULL;
  process->holds = 0;
  process->foreign_states = 0;
  process->retaken = 0;
  process->use.object = NULL;
  process->parked_on = NULL;
  process->waiting_for = NULL;
  if (process != process->vm->main_process) let_go_of_handle(process);
}

static int handle_gc(lua_State *L) {
  struct baton_process *process = luaL_checkudata(L, 1, HANDLE);
  if (process->outcome != BATON_ALIVE && process->kernel_id != 0) {
    baton_enter(L);
    baton_rs_forget(process->vm->executor, process->kernel_id);
    process->kernel_id = 0;
    baton_leave(L);
  }
  return 0;
}

/* }====================================================== */

/* {======================================================
** Bodies
** ======================================================= */

/* The message handler at a process's base: keeps the traceback for the report and for p:traceback(). */
int baton_lua_keep_traceback(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (process == NULL || process->killed) return 1;
  baton_lua_push_process(L, process);
  luaL_traceback(L, L, NULL, 1);
  lua_setiuservalue(L, -2, BATON_UV_TRACE);
  lua_settop(L, 1);
  return 1;
}

/* Protected: the error value may have any __tostring. The error value is at index 1, a text for it, or nil, at index 2. */
static int print_failure(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  lua_settop(L, 2);
  baton_lua_push_name(L, process);
  if (lua_isnil(L, 2)) {
    luaL_tolstring(L, 1, NULL);
    lua_replace(L, 2);
  }
  baton_lua_push_process(L, process);
  lua_getiuservalue(L, -1, BATON_UV_TRACE);
  fflush(stdout);
  lua_writestringerror("%s: ", process->vm->progname);
  lua_writestringerror("process '%s' failed: ", lua_tostring(L, 3));
  lua_writestringerror("%s\n", lua_tostring(L, 2));
  if (lua_isstring(L, -1)) lua_writestringerror("%s\n", lua_tostring(L, -1));
  return 0;
}

/* Prints the error at `index`. */
static void print_error(lua_State *L, int index) {
  lua_pushcfunction(L, print_failure);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  lua_pop(L, 1);
  lua_pushcfunction(L, print_failure);
  lua_pushvalue(L, index);
  lua_pushfstring(L, "(error object is a %s value whose __tostring fails)", luaL_typename(L, index));
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

static void report_failure(lua_State *L, struct baton_process *process) {
  int joiners;
  process->vm->failures++;
  baton_enter(L);
  joiners = baton_rs_joiners(process->vm->executor, process->kernel_id);
  baton_leave(L);
  if (joiners > 0 || process->quiet) return;
  process->reported = 1;
  print_error(L, 2);
}

void baton_lua_report_part(lua_State *L, struct baton_process *process) {
  process->vm->failures++;
  print_error(L, lua_gettop(L));
}

static void run_body(struct baton_process *process) {
  lua_State *L = process->L;
  int status = LUA_ERRRUN, was_killed;
  if (!process->killed) {
    int arguments = lua_gettop(L) - 1;
    lua_pushcfunction(L, baton_lua_keep_traceback);
    lua_insert(L, 1);
    baton_lua_set_base_depth(L);
    status = lua_pcall(L, arguments, LUA_MULTRET, 1);
  }
  was_killed = process->killed && baton_lua_kill_is_due(process);
  baton_lua_run_exit_hook(process);
  if (was_killed) { /* perhaps when it was to do nothing more than to return */
    process->outcome = BATON_WAS_KILLED;
    lua_settop(L, 0);
  } else if (status == LUA_OK) {
    process->outcome = BATON_RETURNED;
  } else {
    process->outcome = BATON_FAILED;
    report_failure(L, process);
  }
}

/* The life of a process on its own C stack. Inside the VM at both ends. */
void baton_lua_run(struct baton_process *process) {
  baton_rs_stack_bounds(process->vm->executor, process->kernel_id, &process->stack_guard, &process->stack_low, &process->stack_high);
  baton_gate_leave();
  if (process->body != NULL) {
    baton_lua_main(process, process->body, process->argc, process->argv);
    (void)baton_gate_enter(); /* the state is closed: there is nothing to enter but the executor */
    return;
  }
  run_body(process);
  if (process->vm->heir == process && baton_lua_end_as_main(process)) {
    (void)baton_gate_enter(); /* as above */
    return;
  }
  baton_enter(process->L);
  let_go_of_handle(process);
}

/* }====================================================== */

/* Metamethods that belong to the handle's life; the methods are added by process_module.c. */
void baton_lua_open_handles(lua_State *L) {
  luaL_newmetatable(L, HANDLE);
  lua_pushcfunction(L, handle_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
