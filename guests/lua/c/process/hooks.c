/*
** Hooks of a program in the scheduler: process.set_scheduler, p:on_switch and p:on_exit.
**
** A scheduler and switch hooks run as the *hook process*, which counts as ended. It has its own Lua
** state and uses the executor's stack. So these hooks can inspect and change all processes, but
** they cannot wait. An exit hook runs in its own process.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/state.h"

#include <stdio.h>
#include <string.h>

/* Keys of private values: a table from handles to tables of hooks, with weak keys; the scheduler;
   the hook process. */
static char hooks_key, scheduler_key, hook_process_key;

enum { HOOK_EXIT = 1, HOOK_IN, HOOK_OUT };

/* {======================================================
** The hook process
** ======================================================= */

/* Makes the hook process if there is none. */
static void need_hook_process(lua_State *L, struct baton_lua_vm *vm) {
  struct baton_process *process;
  if (vm->hook_process != NULL) return;
  process = lua_newuserdatauv(L, sizeof *process, BATON_UV_COUNT);
  memset(process, 0, sizeof *process);
  process->seal = baton_lua_seal(BATON_SEALED_PROCESS);
  process->vm = vm;
  process->global = G(L);
  process->outcome = BATON_RETURNED; /* no function may change it */
  process->foreign_states = 1;       /* it never gives way */
  baton_lua_set_sealed_metatable(L, BATON_SEALED_PROCESS);
  process->L = lua_newthread(L);
  lua_sethook(process->L, NULL, 0, 0);
  lua_setiuservalue(L, -2, BATON_UV_THREAD);
  baton_lua_set_name(process, "hook", 4);
  lua_pushliteral(L, "hook");
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  baton_lua_keep_private(L, &hook_process_key);
  vm->hook_process = process;
}

/* Returns the argument of the body that begins. Raises an error if the program calls the body,
   which debug.getinfo can find. */
static void *take_argument(lua_State *L) {
  struct baton_lua_vm *vm = baton_lua_caller(L)->vm;
  void *argument = vm->hook_argument;
  vm->hook_argument = NULL;
  if (argument == NULL) luaL_error(L, "not a function to call");
  lua_settop(L, 0);
  lua_pushnil(L);
  return argument;
}

/* Calls `body` in protected mode as the hook process. Inside the VM before and after, while no
   process runs on this thread. */
static void run_as_hook(struct baton_lua_vm *vm, lua_CFunction body, void *argument) {
  struct baton_process *process = vm->hook_process;
  lua_State *L = process->L;
  baton_gate_set_process(process);
  baton_gate_leave();
  baton_lua_set_base_depth(L);
  lua_settop(L, 0);
  lua_pushcfunction(L, body);
  vm->hook_argument = argument;
  /* an error means that there is no memory even for a message */
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_settop(L, 0);
  baton_lua_enter(L);
  /* An error may have skipped the ends of these. */
  process->marks = NULL;
  process->resumed = NULL;
  process->collection = NULL;
  process->holds = process->criticals = 0;
  process->foreign_states = 1;
  baton_gate_set_process(NULL);
}

/* Reports the error of a hook, which is on the top, and pops it. The hook process cannot wait until
   the report is read. */
static void report(lua_State *L, const char *whose, const char *what, const char *then) {
  const struct baton_process *process = baton_lua_here(L);
  size_t size;
  const char *text;
  luaL_tolstring(L, -1, NULL);
  lua_pushfstring(
      L, "%s: %s %s: %s%s\n", process->vm->progname, whose, what, lua_tostring(L, -1), then);
  text = lua_tolstring(L, -1, &size);
  if (process == process->vm->hook_process)
    baton_lua_post_notice(text, size);
  else
    baton_lua_write_error(L, 1);
  lua_pop(L, process == process->vm->hook_process ? 3 : 2);
}

/* }====================================================== */

/* {======================================================
** The scheduler
** ======================================================= */

struct scheduler_choice {
  struct baton_process *current, *suggested;
  uint64_t chosen;
};

static void push_process_or_nil(lua_State *L, struct baton_process *process) {
  if (process != NULL)
    baton_lua_push_process(L, process);
  else
    lua_pushnil(L);
}

/* Removes a scheduler that has failed. */
static void remove_scheduler(lua_State *L, struct baton_lua_vm *vm) {
  lua_pushnil(L);
  baton_lua_keep_private(L, &scheduler_key);
  baton_lua_enter(L);
  baton_set_scheduler_hook(vm->executor, 0);
  baton_lua_leave(L);
}

static int choose(lua_State *L) {
  struct scheduler_choice *choice = take_argument(L);
  struct baton_process *chosen;
  int status;
  baton_lua_push_private(L, &scheduler_key);
  push_process_or_nil(L, choice->current);
  baton_lua_push_process(L, choice->suggested);
  status = lua_pcall(L, 2, 1, 0);
  if (status == LUA_OK && lua_isnil(L, -1)) return 0;
  chosen = baton_lua_test_sealed(L, -1, BATON_SEALED_PROCESS);
  if (status == LUA_OK && chosen != NULL) {
    choice->chosen = chosen->sched_id;
    return 0;
  }
  remove_scheduler(L, baton_lua_here(L)->vm); /* the scheduler may have ended the suggested one */
  if (status == LUA_OK) lua_pushfstring(L, "process or nil expected, got %s", luaL_typename(L, -1));
  report(L, "the scheduler", status == LUA_OK ? "returned rubbish" : "failed",
      "; it is not used any more");
  return 0;
}

/* The scheduler's id of the process that the program has chosen to run; 0 for the default. */
uint64_t baton_lua_scheduler_hook(struct baton_process *current, struct baton_process *suggested) {
  struct scheduler_choice choice;
  choice.current = current;
  choice.suggested = suggested;
  choice.chosen = 0;
  run_as_hook(suggested->vm, choose, &choice);
  return choice.chosen;
}

/* process.set_scheduler(f) */
static int process_set_scheduler(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  int on = !lua_isnil(L, 1);
  luaL_checkany(L, 1);
  if (on) luaL_checktype(L, 1, LUA_TFUNCTION);
  need_hook_process(L, caller->vm);
  lua_settop(L, 1);
  baton_lua_keep_private(L, &scheduler_key);
  baton_lua_enter(L);
  baton_set_scheduler_hook(caller->vm->executor, on);
  baton_lua_leave(L);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Hooks of a process
** ======================================================= */

/* Pushes the table of hooks of the process whose handle is at `index`, or nil. */
static void push_hooks(lua_State *L, int index) {
  index = lua_absindex(L, index);
  baton_lua_push_private(L, &hooks_key);
  lua_pushvalue(L, index);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

/* Pushes the table of hooks, and makes it if there is none. */
static void need_hooks(lua_State *L, int index) {
  push_hooks(L, index);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  lua_createtable(L, HOOK_OUT, 0);
  baton_lua_push_private(L, &hooks_key);
  lua_pushvalue(L, index);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

static void check_hook(lua_State *L, int index) {
  if (!lua_isnoneornil(L, index)) luaL_checktype(L, index, LUA_TFUNCTION);
}

struct hooked_switch {
  struct baton_process *from, *to;
};

/* Where the handles of both processes are on the stack. */
enum { HANDLE_OF_FROM = 2, HANDLE_OF_TO };

/* Calls a switch hook of the process whose handle is at `index`. If the hook fails, the hooks of
   the process are removed. */
static void call_switch_hook(lua_State *L, int index, int which) {
  struct baton_process *process = baton_lua_test_sealed(L, index, BATON_SEALED_PROCESS);
  if (process == NULL || !process->has_switch_hooks) return;
  push_hooks(L, index);
  lua_rawgeti(L, -1, which);
  if (!lua_isnil(L, -1)) {
    lua_pushvalue(L, index);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
      process->has_switch_hooks = 0;
      baton_lua_enter(L);
      baton_set_switch_hook(process->vm->executor, process->sched_id, 0);
      baton_lua_leave(L);
      baton_lua_push_title(L, process);
      lua_pushfstring(L, "%s: its on_switch hook", lua_tostring(L, -1));
      lua_pushvalue(L, -3);
      report(L, lua_tostring(L, -2), "failed", "; it is not called any more");
    }
  }
  lua_settop(L, HANDLE_OF_TO);
}

/* A hook may end the other process. The handles on the stack keep both records. */
static int call_switch_hooks(lua_State *L) {
  struct hooked_switch *hooked = take_argument(L);
  push_process_or_nil(L, hooked->from);
  push_process_or_nil(L, hooked->to);
  call_switch_hook(L, HANDLE_OF_FROM, HOOK_OUT);
  if (hooked->to != NULL && hooked->to->outcome == BATON_ALIVE)
    call_switch_hook(L, HANDLE_OF_TO, HOOK_IN);
  return 0;
}

void baton_lua_switch_hook(struct baton_process *from, struct baton_process *to) {
  struct hooked_switch hooked;
  hooked.from = from;
  hooked.to = to;
  run_as_hook((from != NULL ? from : to)->vm, call_switch_hooks, &hooked);
}

/* p:on_switch(fin, fout) */
static int process_on_switch(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int on = !lua_isnoneornil(L, 2) || !lua_isnoneornil(L, 3);
  check_hook(L, 2);
  check_hook(L, 3);
  if (process->outcome != BATON_ALIVE) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "dead");
    return 2;
  }
  need_hook_process(L, caller->vm);
  lua_settop(L, 3);
  need_hooks(L, 1);
  lua_insert(L, 2);
  lua_rawseti(L, 2, HOOK_OUT);
  lua_rawseti(L, 2, HOOK_IN);
  process->has_switch_hooks = (unsigned char)on;
  baton_lua_enter(L);
  baton_set_switch_hook(caller->vm->executor, process->sched_id, on);
  baton_lua_leave(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* p:on_exit(f) */
static int process_on_exit(lua_State *L) {
  struct baton_process *process = baton_lua_check_process(L, 1);
  baton_lua_caller(L);
  check_hook(L, 2);
  if (process->outcome != BATON_ALIVE || process->has_ended) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "dead");
    return 2;
  }
  lua_settop(L, 2);
  process->has_exit_hook = !lua_isnil(L, 2);
  need_hooks(L, 1);
  lua_insert(L, 2);
  lua_rawseti(L, 2, HOOK_EXIT);
  lua_pushboolean(L, 1);
  return 1;
}

/* Calls the exit hook of the calling process with its handle. */
static int call_exit_hook(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (!process->has_ended) luaL_error(L, "not a function to call");
  lua_settop(L, 0);
  baton_lua_push_process(L, process);
  push_hooks(L, 1);
  lua_rawgeti(L, 2, HOOK_EXIT);
  lua_pushvalue(L, 1);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return 0;
  baton_lua_push_title(L, process);
  lua_pushfstring(L, "%s: its on_exit hook", lua_tostring(L, -1));
  lua_pushvalue(L, -3);
  report(L, lua_tostring(L, -2), "failed", "");
  return 0;
}

/* Calls the exit hook after the body of the calling process has ended. The hook holds kills back,
   as a `__close` method does. */
void baton_lua_run_exit_hook(struct baton_process *process) {
  lua_State *L = process->L;
  struct baton_mark mark;
  process->has_ended = 1;
  if (!process->has_exit_hook || !lua_checkstack(L, 4)) return;
  baton_lua_enter(L);
  baton_lua_begin_hold(process, &mark, BATON_MARK_CLOSE);
  baton_lua_leave(L);
  lua_pushcfunction(L, call_exit_hook);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  baton_lua_enter(L);
  baton_lua_end_hold(process);
  baton_lua_leave(L);
}

/* }====================================================== */

static const luaL_Reg hook_methods[] = {
    {"on_switch", process_on_switch}, {"on_exit", process_on_exit}, {NULL, NULL}};
static const luaL_Reg hook_functions[] = {{"set_scheduler", process_set_scheduler}, {NULL, NULL}};

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_hooks(lua_State *L) {
  luaL_setfuncs(L, hook_functions, 0);
  baton_lua_push_private(L, &hooks_key);
  if (!lua_isnil(L, -1)) { /* the module is loaded a second time */
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  baton_lua_keep_private(L, &hooks_key);
}

/* Adds the methods to the table of methods on the top of the stack. */
void baton_lua_open_hook_methods(lua_State *L) { luaL_setfuncs(L, hook_methods, 0); }
