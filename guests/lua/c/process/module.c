/*
** require "baton.process": processes. The objects, timers and settings have files of their own.
*/
#include "state/checks.h"
#include "process/process.h"
#include "objects/objects.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* {======================================================
** Helpers of the module's functions
** ======================================================= */

static int push_acted(lua_State *L, int dead) {
  if (!dead) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  lua_pushliteral(L, "dead");
  return 2;
}

static int is_dead(const struct baton_process *process) { return process->outcome != BATON_ALIVE; }

/* }====================================================== */

/* {======================================================
** Spawning
** ======================================================= */

static int check_priority(lua_State *L, int index) {
  lua_Integer priority = luaL_checkinteger(L, index);
  luaL_argcheck(L, priority >= 1 && priority <= 80, index, "priority out of range (1 to 80)");
  return (int)priority;
}

static int process_spawn(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  baton_lua_spawn(L);
  baton_lua_enter(L);
  baton_give_way(caller->vm->executor);
  baton_lua_leave(L);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Methods
** ======================================================= */

static int process_join(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  if (process == caller) luaL_error(L, "a process cannot join itself");
  if (!is_dead(process)) {
    struct baton_wake wake;
    baton_inline_check_may_wait(L, caller);
    baton_lua_enter(L);
    wake = baton_join(caller->vm->executor, process->sched_id, timeout);
    baton_lua_leave(L);
    if (baton_inline_after_wait(L, caller, wake) == BATON_TIMED_OUT && !is_dead(process))
      return baton_lua_push_outcome(L, BATON_TIMED_OUT);
  }
  return baton_lua_push_results(L, process);
}

static int process_kill(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  if (is_dead(process)) return push_acted(L, 1);
  if (baton_lua_is_host(process))
    luaL_error(L, "the main process is the program that embeds Lua: it cannot be killed");
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushliteral(L, "killed");
    lua_replace(L, 2);
  }
  if (process->killed) { /* the first reason stands */
    lua_getiuservalue(L, 1, BATON_UV_REASON);
    lua_replace(L, 2);
  }
  baton_lua_kill_process(L, caller, process, 1);
  baton_lua_raise_pending(L, caller);
  return push_acted(L, 0);
}

static int suspend_process(
    lua_State *L, struct baton_process *caller, struct baton_process *process) {
  int outcome, is_killed;
  if (process == caller) baton_inline_check_may_wait(L, caller);
  baton_lua_enter(L);
  if (process == caller) baton_lua_hold_for_criticals(caller, 0);
  outcome = baton_suspend(caller->vm->executor, process->sched_id);
  is_killed = baton_lua_kill_is_due(caller);
  if (process == caller) baton_lua_hold_for_criticals(caller, 1);
  baton_lua_leave(L);
  if (is_killed) baton_lua_raise_kill(L, caller);
  baton_lua_raise_pending(L, caller);
  return push_acted(L, outcome == 1);
}

static int process_suspend(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = lua_isnoneornil(L, 1) ? caller : baton_lua_check_process(L, 1);
  return is_dead(process) ? push_acted(L, 1) : suspend_process(L, caller, process);
}

static int process_suspend_method(lua_State *L) {
  baton_lua_check_process(L, 1);
  return process_suspend(L);
}

static int process_resume(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int outcome;
  if (is_dead(process)) return push_acted(L, 1);
  baton_lua_enter(L);
  outcome = baton_resume(caller->vm->executor, process->sched_id);
  baton_lua_leave(L);
  return push_acted(L, outcome == 1);
}

static int process_priority(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int priority;
  baton_lua_enter(L);
  priority = process->sched_id == 0 ? process->last.priority
                                    : baton_priority(caller->vm->executor, process->sched_id);
  baton_lua_leave(L);
  lua_pushinteger(L, priority);
  return 1;
}

static int process_set_priority(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int priority = check_priority(L, 2);
  if (is_dead(process)) return push_acted(L, 1);
  baton_lua_enter(L);
  baton_set_priority(caller->vm->executor, process->sched_id, priority);
  baton_lua_leave(L);
  return push_acted(L, 0);
}

static int process_status(lua_State *L) {
  static const char *const names[] = {
      "running", "runnable", "waiting", "sleeping", "suspended", "foreign", "dead"};
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int state = BATON_STATE_DEAD;
  if (!is_dead(process)) {
    baton_lua_enter(L);
    state = baton_state(caller->vm->executor, process->sched_id);
    baton_lua_leave(L);
  }
  lua_pushstring(L, names[state]);
  return 1;
}

static int process_traceback(lua_State *L) {
  struct baton_process *process = baton_lua_check_process(L, 1);
  if (!is_dead(process)) {
    lua_State *top = process->resumed != NULL ? process->resumed->L : process->L;
    luaL_traceback(L, top, NULL, top == L ? 1 : 0);
  } else if (lua_getiuservalue(L, 1, BATON_UV_TRACE) == LUA_TNIL) {
    lua_pushliteral(L, "stack traceback:");
  }
  return 1;
}

static void set_text_or_false(lua_State *L, const char *field, const char *text) {
  if (text[0] != '\0')
    lua_pushstring(L, text);
  else
    lua_pushboolean(L, 0);
  lua_setfield(L, -2, field);
}

static int process_stats_method(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  char thread[BATON_THREAD_NAME + 1], waits_for[BATON_BLOCKER], site[BATON_SITE];
  struct baton_time_used time;
  size_t stack;
  baton_lua_enter(L);
  time = process->sched_id == 0 ? process->last.time
                                : baton_time_used(caller->vm->executor, process->sched_id);
  stack = baton_stack_used(caller->vm->executor, process->sched_id);
  baton_bound_to(caller->vm->executor, process->sched_id, thread, sizeof thread);
  baton_blocker(caller->vm->executor, process->sched_id, waits_for, sizeof waits_for);
  baton_lua_leave(L);
  lua_createtable(L, 0, 7);
  lua_pushnumber(L, time.cpu);
  lua_setfield(L, -2, "cpu");
  lua_pushnumber(L, time.running);
  lua_setfield(L, -2, "running");
  lua_pushinteger(L, (lua_Integer)stack);
  lua_setfield(L, -2, "stack_used");
  lua_pushinteger(L, baton_lua_is_host(process)
          ? 0
          : (lua_Integer)(process->stack_high - process->stack_low));
  lua_setfield(L, -2, "stack_size");
  set_text_or_false(L, "thread", thread);
  set_text_or_false(L, "waits_for", waits_for);
  set_text_or_false(L, "spawned_at", baton_lua_spawn_site(process, site, sizeof site));
  return 1;
}

/* Pushes a table with the names of the fields that `handle_index` knows, for the prompt. */
static void push_fields(lua_State *L) {
  static const char *const names[] = {"id", "name", "daemon", "data"};
  size_t i;
  lua_createtable(L, 0, (int)(sizeof names / sizeof names[0]));
  for (i = 0; i < sizeof names / sizeof names[0]; i++) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, names[i]);
  }
}

/* Pushes the method of that name, if there is one. Upvalue 1 is the table of methods, upvalue 2
   that of fields. No method is named as a field. */
static int push_method(lua_State *L, const TValue *key) {
  const TValue *method;
  if (!ttisshrstring(key)) return 0;
  method = luaH_getshortstr(hvalue(&clCvalue(s2v(L->ci->func.p))->upvalue[0]), tsvalue(key));
  if (isempty(method)) return 0;
  baton_lua_enter(L);
  setobj2s(L, L->top.p, method);
  api_incr_top(L);
  baton_lua_leave(L);
  return 1;
}

/* Pushes the data of the process at index 1: a table, made when it is first needed. That of a
   process of process.timeout is its caller's, whose handle is in its place until then. */
static void push_data(lua_State *L) {
  int owner = 1;
  lua_getiuservalue(L, 1, BATON_UV_DATA);
  while (lua_type(L, -1) == LUA_TUSERDATA) {
    owner = lua_gettop(L);
    lua_getiuservalue(L, owner, BATON_UV_DATA);
    luaL_checkstack(L, 3, NULL);
  }
  if (lua_isnil(L, -1)) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, owner, BATON_UV_DATA);
  }
  if (owner == 1) return;
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, BATON_UV_DATA);
}

static int handle_index(lua_State *L) {
  struct baton_process *process = baton_inline_check_sealed(L, 1, BATON_SEALED_PROCESS, "process");
  const char *key;
  if (l_likely(L->top.p > L->ci->func.p + 2 && push_method(L, s2v(L->ci->func.p + 2)))) return 1;
  lua_settop(L, 2);
  key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "id") == 0) {
    lua_pushinteger(L, (lua_Integer)process->id);
  } else if (strcmp(key, "name") == 0) {
    if (lua_getiuservalue(L, 1, BATON_UV_NAME) == LUA_TNIL)
      lua_pushfstring(L, "process %I", (LUAI_UACINT)process->id);
  } else if (strcmp(key, "daemon") == 0) {
    lua_pushboolean(L, process->daemon);
  } else if (strcmp(key, "data") == 0) {
    push_data(L);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

static int handle_tostring(lua_State *L) {
  baton_lua_push_title(L, baton_lua_check_process(L, 1));
  return 1;
}

/* }====================================================== */

/* {======================================================
** Functions about the calling process and all processes
** ======================================================= */

static int process_current(lua_State *L) {
  baton_lua_push_process(L, baton_inline_caller(L));
  return 1;
}

static int process_yield(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  if (l_likely(caller->foreign_states == 0)) {
    baton_lua_enter(L);
    baton_yield(caller->vm->executor);
    baton_lua_leave(L);
  }
  if (l_unlikely(caller->killed || caller->interrupted)) baton_lua_raise_pending(L, caller);
  return 0;
}

static int sleep_until(lua_State *L, struct baton_process *caller, uint64_t until) {
  struct baton_wake wake;
  baton_inline_check_may_wait(L, caller);
  baton_lua_enter(L);
  wake = baton_sleep_until(caller->vm->executor, until);
  baton_lua_leave(L);
  baton_inline_after_wait(L, caller, wake);
  lua_pushboolean(L, 1);
  return 1;
}

/* Sleeps until a time that has passed: only yields. */
static int no_sleep(lua_State *L) {
  process_yield(L);
  lua_pushboolean(L, 1);
  return 1;
}

static int process_sleep(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  baton_timeout timeout;
  luaL_checknumber(L, 1);
  timeout = baton_inline_check_timeout(L, 1);
  if (timeout == 0) return no_sleep(L);
  return sleep_until(
      L, caller, timeout == BATON_FOREVER ? UINT64_MAX : baton_now() + (uint64_t)timeout);
}

static int process_sleep_until(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  baton_timeout time;
  luaL_checknumber(L, 1);
  time = baton_inline_check_timeout(L, 1);
  if (time != BATON_FOREVER && (uint64_t)time <= baton_now()) return no_sleep(L);
  return sleep_until(L, caller, time == BATON_FOREVER ? UINT64_MAX : (uint64_t)time);
}

static int process_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)baton_now() * 1e-9);
  return 1;
}

/* }====================================================== */

static const luaL_Reg methods[] = {{"join", process_join},
                                   {"kill", process_kill},
                                   {"suspend", process_suspend_method},
                                   {"resume", process_resume},
                                   {"priority", process_priority},
                                   {"set_priority", process_set_priority},
                                   {"bind", baton_lua_bind},
                                   {"status", process_status},
                                   {"traceback", process_traceback},
                                   {"stats", process_stats_method},
                                   {NULL, NULL}};

static const luaL_Reg functions[] = {{"spawn", process_spawn},
                                     {"suspend", process_suspend},
                                     {"current", process_current},
                                     {"list", baton_lua_list},
                                     {"yield", process_yield},
                                     {"sleep", process_sleep},
                                     {"sleep_until", process_sleep_until},
                                     {"now", process_now},
                                     {"thread", baton_lua_thread},
                                     {"threads", baton_lua_threads},
                                     {NULL, NULL}};

/* The loader of "baton.process". */
int baton_lua_open_process(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  baton_lua_push_sealed_metatable(L, BATON_SEALED_PROCESS);
  luaL_newlib(L, methods);
  baton_lua_open_hook_methods(L);
  baton_lua_open_link_methods(L);
  push_fields(L);
  lua_pushcclosure(L, handle_index, 2);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, handle_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  baton_lua_push_process(L, caller->vm->main_process);
  lua_setfield(L, -2, "main");
  baton_lua_open_objects(L);
  baton_lua_open_signals(L);
  baton_lua_open_systemd(L);
  baton_lua_open_timers(L);
  baton_lua_open_settings(L);
  baton_lua_open_scheduling(L);
  baton_lua_open_hooks(L);
  baton_lua_open_scope(L);
  baton_lua_open_parts(L);
  return 1;
}

/* Installs the hooks, whether or not the module is loaded. */
void baton_lua_install_process(void) {
  baton_life_hooks = (struct baton_life_hooks){
      .run_exit_hook = baton_lua_run_exit_hook,
      .prepare_ending = baton_lua_prepare_ending,
      .post_ending = baton_lua_post_ending,
      .ends_unstarted = baton_lua_timer_goes_on,
  };
  baton_lua_index_of_methods = handle_index;
}
