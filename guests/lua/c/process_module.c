/*
** require "baton.process": processes. The objects, timers and settings have files of their own.
*/
#include "internals.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HANDLE "baton.process*"

/* {======================================================
** What all functions of the module share
** ======================================================= */

struct baton_process *baton_lua_caller(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (l_unlikely(process == NULL || process->vm->closing)) luaL_error(L, "no processes here: the program is ending, or this thread is not Baton's");
  return process;
}

/* The same, for where it counts. */
static inline struct baton_process *caller_of(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  return l_likely(process != NULL && !process->vm->closing) ? process : baton_lua_caller(L);
}

void baton_lua_check_may_wait(lua_State *L, struct baton_process *process) {
  if (process == process->vm->hook_process) luaL_error(L, "cannot wait in a scheduler or a switch hook");
  if (process->foreign_states > 0)
    luaL_error(L, "cannot wait inside a call on a state that belongs to another process");
}

baton_timeout baton_lua_check_timeout(lua_State *L, int index) {
  lua_Number seconds;
  if (lua_isnoneornil(L, index)) return BATON_FOREVER;
  seconds = luaL_checknumber(L, index);
  luaL_argcheck(L, seconds == seconds, index, "number expected, got NaN");
  if (seconds <= 0) return 0;
  if (seconds > 9.0e9) return BATON_FOREVER; /* 285 years */
  seconds = ceil(seconds * 1e9);
  return (baton_timeout)seconds;
}

int baton_lua_after_wait(lua_State *L, struct baton_process *process, struct baton_wake wake) {
  if (process->killed || process->interrupted || wake.reason == BATON_INTERRUPTED) {
    if (wake.reason == BATON_INTERRUPTED) process->interrupted = 1;
    baton_lua_raise_owed(L, process);
  }
  if (l_unlikely(wake.reason == BATON_FORBIDDEN)) luaL_error(L, "cannot wait inside process.critical");
  return (int)wake.reason;
}

int baton_lua_push_outcome(lua_State *L, int reason) {
  switch (reason) {
    case BATON_DONE: lua_pushboolean(L, 1); return 1;
    case BATON_ABANDONED: lua_pushboolean(L, 1); lua_pushliteral(L, "abandoned"); return 2;
    case BATON_TIMED_OUT: lua_pushnil(L); lua_pushliteral(L, "timeout"); return 2;
    case BATON_CLOSED: lua_pushnil(L); lua_pushliteral(L, "closed"); return 2;
    default: lua_pushnil(L); lua_pushliteral(L, "dead"); return 2;
  }
}

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

/* Makes the process that calls f(...), with the stack: f, arguments. Leaves the handle alone. */
static struct baton_process *make_process(lua_State *L, struct baton_process *caller, struct baton_spawn *options, int name) {
  int arguments = lua_gettop(L);
  struct baton_process *process;
  luaL_checkstack(L, 6, "too many arguments");
  if (name) lua_pushvalue(L, name);
  process = baton_lua_new_process(L, caller->vm, options);
  if (process == NULL) lua_error(L);
  if (name) {
    lua_pushvalue(L, -2);
    snprintf(process->name, sizeof process->name, "%s", lua_tostring(L, -1));
    lua_setiuservalue(L, -2, BATON_UV_NAME);
    lua_remove(L, -2);
  }
  lua_insert(L, 1);
  if (!lua_checkstack(process->L, arguments + 4)) luaL_error(L, "too many arguments");
  if (name) lua_remove(L, 2); /* the name stands first, before f */
  lua_xmove(L, process->L, lua_gettop(L) - 1);
  return process;
}

struct baton_process *baton_lua_spawn(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_spawn options;
  int name = 0;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  if (lua_istable(L, 1)) {
    luaL_checktype(L, 2, LUA_TFUNCTION);
    baton_lua_read_spawn_options(L, 1, &options);
    if (!lua_isnil(L, -1)) name = 1;
    lua_replace(L, 1);
    if (!name) lua_remove(L, 1);
  } else {
    luaL_checktype(L, 1, LUA_TFUNCTION);
  }
  return make_process(L, caller, &options, name);
}

static int process_spawn(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  baton_lua_spawn(L);
  baton_enter(L);
  baton_rs_give_way(caller->vm->executor);
  baton_leave(L);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Methods
** ======================================================= */

/* Pushes what p:join() returns of a process that has ended. */
static int push_results(lua_State *L, struct baton_process *process) {
  int i, count;
  if (!process->joined) {
    process->joined = 1;
    if (process->outcome == BATON_FAILED) process->vm->failures--;
  }
  if (process->outcome == BATON_WAS_KILLED) {
    lua_pushboolean(L, 0);
    if (lua_getiuservalue(L, 1, BATON_UV_REASON) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_pushliteral(L, "killed"); /* ended by a fork, in the child */
    }
    return 2;
  }
  lua_pushboolean(L, process->outcome == BATON_RETURNED);
  count = lua_gettop(process->L) - 1;
  luaL_checkstack(L, count + 1, "too many results");
  lua_checkstack(process->L, 1);
  for (i = 2; i <= count + 1; i++) {
    lua_pushvalue(process->L, i);
    lua_xmove(process->L, L, 1);
  }
  return count + 1;
}

static int process_join(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  if (process == caller) luaL_error(L, "a process cannot join itself");
  if (!is_dead(process)) {
    struct baton_wake wake;
    baton_lua_check_may_wait(L, caller);
    baton_enter(L);
    wake = baton_rs_join(caller->vm->executor, process->kernel_id, timeout);
    baton_leave(L);
    if (baton_lua_after_wait(L, caller, wake) == BATON_TIMED_OUT && !is_dead(process))
      return baton_lua_push_outcome(L, BATON_TIMED_OUT);
  }
  return push_results(L, process);
}

/* Kills `process` with the reason on the top of `L`, which is popped; the handle is at `handle`. Outside the VM. */
static int kill_process(lua_State *L, struct baton_process *caller, struct baton_process *process, int handle) {
  const int again = process->killed;
  int outcome;
  lua_setiuservalue(L, handle, BATON_UV_REASON);
  process->killed = 1;
  if (!process->has_exit_hook && baton_lua_end_unstarted(L, process)) return 0;
  baton_enter(L);
  if (again && process->holds > 0) process->abandoned = 1;
  baton_rs_set_kill_hold(caller->vm->executor, process->kernel_id, process->holds > 0);
  outcome = baton_rs_kill(caller->vm->executor, process->kernel_id);
  baton_leave(L);
  return outcome;
}

/* As by a kill, but for one that is being killed already: it may close in peace. `reason` is a literal. */
static void end_process(lua_State *L, struct baton_process *caller, struct baton_process *process, int handle, const char *reason) {
  if (process->killed || is_dead(process)) return;
  lua_pushstring(L, reason);
  kill_process(L, caller, process, handle);
}

int baton_lua_end_process(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  end_process(L, caller, baton_lua_check_process(L, 1), 1, "killed");
  baton_lua_raise_owed(L, caller);
  return 0;
}

static int process_kill(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  if (is_dead(process)) return push_acted(L, 1);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushliteral(L, "killed");
    lua_replace(L, 2);
  }
  if (process->killed) { /* the first reason stands */
    lua_getiuservalue(L, 1, BATON_UV_REASON);
    lua_replace(L, 2);
  }
  kill_process(L, caller, process, 1);
  baton_lua_raise_owed(L, caller);
  return push_acted(L, 0);
}

static int suspend_process(lua_State *L, struct baton_process *caller, struct baton_process *process) {
  int outcome, is_killed;
  if (process == caller) baton_lua_check_may_wait(L, caller);
  baton_enter(L);
  if (process == caller) baton_lua_hold_for_criticals(caller, 0);
  outcome = baton_rs_suspend(caller->vm->executor, process->kernel_id);
  is_killed = baton_lua_kill_is_due(caller);
  if (process == caller) baton_lua_hold_for_criticals(caller, 1);
  baton_leave(L);
  if (is_killed) baton_lua_raise_kill(L, caller);
  baton_lua_raise_owed(L, caller);
  return push_acted(L, outcome == 1);
}

static int process_suspend(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = lua_isnoneornil(L, 1) ? caller : baton_lua_check_process(L, 1);
  return is_dead(process) ? push_acted(L, 1) : suspend_process(L, caller, process);
}

static int process_suspend_method(lua_State *L) {
  baton_lua_check_process(L, 1);
  return process_suspend(L);
}

static int process_resume(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int outcome;
  if (is_dead(process)) return push_acted(L, 1);
  baton_enter(L);
  outcome = baton_rs_resume(caller->vm->executor, process->kernel_id);
  baton_leave(L);
  return push_acted(L, outcome == 1);
}

static int process_priority(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int priority;
  baton_enter(L);
  priority = baton_rs_priority(caller->vm->executor, process->kernel_id);
  baton_leave(L);
  lua_pushinteger(L, priority);
  return 1;
}

static int process_set_priority(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int priority = check_priority(L, 2);
  if (is_dead(process)) return push_acted(L, 1);
  baton_enter(L);
  baton_rs_set_priority(caller->vm->executor, process->kernel_id, priority);
  baton_leave(L);
  return push_acted(L, 0);
}

static int process_status(lua_State *L) {
  static const char *const names[] = {"running", "runnable", "waiting", "sleeping", "suspended", "foreign", "dead"};
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int state = BATON_STATE_DEAD;
  if (!is_dead(process)) {
    baton_enter(L);
    state = baton_rs_state(caller->vm->executor, process->kernel_id);
    baton_leave(L);
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
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  char thread[BATON_THREAD_NAME + 1], waits_for[BATON_BLOCKER];
  double cpu;
  size_t stack;
  baton_enter(L);
  cpu = baton_rs_cpu_time(caller->vm->executor, process->kernel_id);
  stack = baton_rs_stack_used(caller->vm->executor, process->kernel_id);
  baton_rs_bound_to(caller->vm->executor, process->kernel_id, thread, sizeof thread);
  baton_rs_blocker(caller->vm->executor, process->kernel_id, waits_for, sizeof waits_for);
  baton_leave(L);
  lua_createtable(L, 0, 5);
  lua_pushnumber(L, cpu);
  lua_setfield(L, -2, "cpu");
  lua_pushinteger(L, (lua_Integer)stack);
  lua_setfield(L, -2, "stack_used");
  lua_pushinteger(L, (lua_Integer)(process->stack_high - process->stack_low));
  lua_setfield(L, -2, "stack_size");
  set_text_or_false(L, "thread", thread);
  set_text_or_false(L, "waits_for", waits_for);
  return 1;
}

static int handle_index(lua_State *L) {
  struct baton_process *process = baton_lua_check_process(L, 1);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "id") == 0) {
    lua_pushinteger(L, (lua_Integer)process->id);
  } else if (strcmp(key, "name") == 0) {
    if (lua_getiuservalue(L, 1, BATON_UV_NAME) == LUA_TNIL)
      lua_pushfstring(L, "process %I", (LUAI_UACINT)process->id);
  } else if (strcmp(key, "daemon") == 0) {
    lua_pushboolean(L, process->daemon);
  } else if (strcmp(key, "data") == 0) {
    if (lua_getiuservalue(L, 1, BATON_UV_DATA) == LUA_TNIL) {
      lua_newtable(L);
      lua_pushvalue(L, -1);
      lua_setiuservalue(L, 1, BATON_UV_DATA);
    }
  } else {
    lua_pushvalue(L, 2);
    lua_rawget(L, lua_upvalueindex(1));
  }
  return 1;
}

static int handle_tostring(lua_State *L) {
  struct baton_process *process = baton_lua_check_process(L, 1);
  lua_getiuservalue(L, 1, BATON_UV_NAME);
  if (lua_isstring(L, -1))
    lua_pushfstring(L, "process: %I (%s)", (LUAI_UACINT)process->id, lua_tostring(L, -1));
  else
    lua_pushfstring(L, "process: %I", (LUAI_UACINT)process->id);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Functions about the caller and all
** ======================================================= */

static int process_current(lua_State *L) {
  baton_lua_push_process(L, baton_lua_caller(L));
  return 1;
}

/* Nothing is allocated once there is the list: a finalizer might wait, while processes end and their handles are collected. */
static int process_list(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  size_t capacity = (size_t)caller->vm->living + 1, count, i;
  uintptr_t *words;
  for (;;) {
    words = lua_newuserdatauv(L, capacity * sizeof *words, 0);
    lua_createtable(L, (int)capacity, 0);
    baton_enter(L);
    count = baton_rs_list(caller->vm->executor, words, capacity);
    baton_leave(L);
    if (count <= capacity) break;
    capacity = count + count / 8;
    lua_pop(L, 2);
  }
  for (i = 0; i < count; i++) {
    baton_lua_push_process(L, (struct baton_process *)words[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int process_yield(lua_State *L) {
  struct baton_process *caller = caller_of(L);
  if (l_likely(caller->foreign_states == 0)) {
    baton_enter(L);
    baton_rs_yield(caller->vm->executor);
    baton_leave(L);
  }
  if (l_unlikely(caller->killed || caller->interrupted)) baton_lua_raise_owed(L, caller);
  return 0;
}

static int sleep_until(lua_State *L, struct baton_process *caller, uint64_t until) {
  struct baton_wake wake;
  baton_lua_check_may_wait(L, caller);
  baton_enter(L);
  wake = baton_rs_sleep_until(caller->vm->executor, until);
  baton_leave(L);
  baton_lua_after_wait(L, caller, wake);
  lua_pushboolean(L, 1);
  return 1;
}

/* A time that has come already: others may go first. */
static int no_sleep(lua_State *L) {
  process_yield(L);
  lua_pushboolean(L, 1);
  return 1;
}

static int process_sleep(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  baton_timeout timeout;
  luaL_checknumber(L, 1);
  timeout = baton_lua_check_timeout(L, 1);
  if (timeout == 0) return no_sleep(L);
  return sleep_until(L, caller, timeout == BATON_FOREVER ? UINT64_MAX : baton_rs_now() + (uint64_t)timeout);
}

static int process_sleep_until(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  baton_timeout time;
  luaL_checknumber(L, 1);
  time = baton_lua_check_timeout(L, 1);
  if (time != BATON_FOREVER && (uint64_t)time <= baton_rs_now()) return no_sleep(L);
  return sleep_until(L, caller, time == BATON_FOREVER ? UINT64_MAX : (uint64_t)time);
}

static int process_now(lua_State *L) {
  lua_pushnumber(L, (lua_Number)baton_rs_now() * 1e-9);
  return 1;
}

/* }====================================================== */

/*
** Ends what there is beside the calling process: waits for the others if `wait`, then kills the rest (daemons), whose `<close>`
** variables get a bounded time. Returns the status to exit with. May raise while it waits.
*/
#define END_BOUND 2000000000 /* nanoseconds for killed processes to end */

static int kill_others(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  lua_Integer i, count;
  lua_settop(L, 0);
  process_list(L); /* the buffer and the table */
  count = (lua_Integer)lua_rawlen(L, 2);
  for (i = 1; i <= count; i++) {
    lua_rawgeti(L, 2, i);
    if (baton_lua_check_process(L, 3) != caller) end_process(L, caller, baton_lua_check_process(L, 3), 3, "the program is ending");
    lua_settop(L, 2);
  }
  {
    uint64_t until = baton_rs_now() + END_BOUND;
    for (i = 1; i <= count; i++) {
      uint64_t now = baton_rs_now();
      lua_rawgeti(L, 2, i);
      if (now < until && baton_lua_check_process(L, 3) != caller) {
        struct baton_process *process = baton_lua_check_process(L, 3);
        if (!is_dead(process)) {
          struct baton_wake wake;
          baton_enter(L);
          wake = baton_rs_join(caller->vm->executor, process->kernel_id, (baton_timeout)(until - now));
          baton_leave(L);
          (void)wake;
        }
      }
      lua_settop(L, 2);
    }
  }
  return 0;
}

int baton_lua_finish(lua_State *L, int wait) {
  struct baton_process *caller = baton_lua_caller(L);
  if (wait) {
    struct baton_wake wake;
    baton_enter(L);
    wake = baton_rs_wait_for_rest(caller->vm->executor, BATON_FOREVER);
    baton_leave(L);
    baton_lua_after_wait(L, caller, wake);
    return caller->vm->failures > 0;
  }
  baton_ffi_stop_visits(caller->vm);
  lua_pushcfunction(L, kill_others);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  return caller->vm->failures > 0;
}

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
                                     {"list", process_list},
                                     {"yield", process_yield},
                                     {"sleep", process_sleep},
                                     {"sleep_until", process_sleep_until},
                                     {"now", process_now},
                                     {"thread", baton_lua_thread},
                                     {"threads", baton_lua_threads},
                                     {NULL, NULL}};

/* The loader of "baton.process". */
int baton_lua_open_process(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  luaL_getmetatable(L, HANDLE);
  luaL_newlib(L, methods);
  baton_lua_open_hook_methods(L);
  lua_pushcclosure(L, handle_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, handle_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  baton_lua_push_process(L, caller->vm->main_process);
  lua_setfield(L, -2, "main");
  baton_lua_open_objects(L);
  baton_lua_open_timers(L);
  baton_lua_open_settings(L);
  baton_lua_open_scheduling(L);
  baton_lua_open_hooks(L);
  baton_lua_open_scope(L);
  return 1;
}
