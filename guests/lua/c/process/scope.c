/*
** process.timeout and process.scope: processes that do not outlive a call.
**
** A caller can only be switched from and killed where it waits.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/checks.h"

#include <string.h>

static int is_dead(const struct baton_process *process) { return process->outcome != BATON_ALIVE; }

/* Returns whether it has ended. */
static int await_end(lua_State *L, struct baton_process *caller, struct baton_process *child,
    baton_timeout timeout) {
  struct baton_wake wake;
  if (is_dead(child)) return 1;
  baton_inline_check_may_wait(L, caller);
  baton_lua_enter(L);
  wake = baton_join(caller->vm->executor, child->sched_id, timeout);
  baton_lua_leave(L);
  return baton_inline_after_wait(L, caller, wake) != BATON_TIMED_OUT || is_dead(child);
}

/* Raises the error of the child, whose handle is at index 2. A message handler's traceback
   continues with that of the child. */
static int raise_failure(lua_State *L, struct baton_process *child) {
  static const char begin[] = "stack traceback:";
  const char *trace;
  lua_settop(L, 2);
  baton_lua_push_results(L, child); /* false and the error */
  lua_pushcfunction(L, baton_lua_raise_with_trace);
  lua_pushvalue(L, 4);
  lua_getfield(L, 2, "name");
  lua_getfield(L, 2, "traceback");
  lua_pushvalue(L, 2);
  lua_call(L, 1, 1);
  trace = lua_tostring(L, -1);
  if (strncmp(trace, begin, sizeof begin - 1) == 0) trace += sizeof begin - 1;
  lua_pushfstring(L, "raised in process '%s':%s", lua_tostring(L, -2), trace);
  lua_replace(L, -3);
  lua_pop(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

/* {======================================================
** process.timeout(seconds, f, ...)
** ======================================================= */

/*
** The guard is there before the
** process, and is closed when the call ends, however it ends. By then the process has ended, unless
** the call was left by an error: a kill, an interrupt. Then the guard ends the process and waits
** for that.
*/
struct guard {
  struct baton_process *child; /* its handle is the user value; NULL: there is none yet */
};

/* The guard's __close. */
static int end_child(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *child = ((struct guard *)lua_touserdata(L, 1))->child;
  if (child == NULL || is_dead(child)) return 0;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  baton_lua_end_other(L, caller, child, 2, "killed");
  baton_lua_raise_pending(L, caller);
  await_end(L, caller, child, BATON_FOREVER);
  return 0;
}

/* The results of the call: those of the child count if it ended in time, or before its kill reached
   it. */
static int push_outcome(lua_State *L, struct baton_process *child) {
  int count;
  if (child->outcome == BATON_FAILED) return raise_failure(L, child);
  count = baton_lua_push_results(L, child);
  if (child->outcome == BATON_WAS_KILLED) {
    lua_pushnil(L);
    lua_replace(L, -1 - count);
  }
  return count;
}

/* Puts a guard that will be closed in the place of the first argument. */
static struct guard *push_guard(lua_State *L) {
  struct guard *guard = lua_newuserdatauv(L, sizeof *guard, 1);
  guard->child = NULL;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_setmetatable(L, -2);
  lua_replace(L, 1);
  lua_toclose(L, 1);
  return guard;
}

static int process_timeout(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_process *child;
  struct guard *guard;
  struct baton_spawn_options options;
  baton_timeout timeout;
  luaL_checktype(L, 1, LUA_TNUMBER);
  if (lua_tonumber(L, 1) != lua_tonumber(L, 1))
    luaL_argerror(L, 1, "number expected, got NaN");
  luaL_checktype(L, 2, LUA_TFUNCTION);
  if (lua_tonumber(L, 1) <= 0) return baton_lua_push_outcome(L, BATON_TIMED_OUT);
  timeout = baton_inline_check_timeout(L, 1);
  guard = push_guard(L);
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  child = baton_lua_spawn_quiet(L, caller, 2, &options);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, 1, 1);
  guard->child = child;
  baton_lua_limit_time(child, timeout);
  baton_lua_push_process(L, caller);
  lua_setiuservalue(L, 2, BATON_UV_DATA); /* its data are the caller's */
  if (!await_end(L, caller, child, timeout)) {
    lua_pushliteral(L, "timeout");
    baton_lua_kill_process(L, caller, child, 2);
    baton_lua_raise_pending(L, caller);
    await_end(L, caller, child, BATON_FOREVER);
  }
  return push_outcome(L, child);
}

static void open_timeout(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, end_child);
  lua_setfield(L, -2, "__close");
  lua_pushliteral(L, "process.timeout");
  lua_setfield(L, -2, "__name");
  lua_pushcclosure(L, process_timeout, 1);
  lua_setfield(L, -2, "timeout");
}

/* }====================================================== */

/* {======================================================
** process.scope([options,] f)
** ======================================================= */

/*
** The living processes of a scope are in two lists: those that nobody has told to end, and those
** that were told by the scope. A process is added before it can run. It leaves its list in the same
** step in which it ends (state/handles.c). A process's handle keeps the scope alive. The VM lock
** guards the lists.
**
** | what happens | what the scope does |
** |---|---|
** | the function returns | it waits for its processes |
** | a process fails | it notes the first one, takes no others, and ends the rest |
** | it is cancelled, or its time is over | the same, but it returns nil and the reason |
** | the call ends, however it does | it ends what is left, waits, and raises the noted error |
*/
struct baton_scope {
  const void *seal;
  struct baton_process *members, *told;
  unsigned char is_over, has_failed, is_cancelled;
  lua_Integer unnamed; /* how many got a name of the scope's */
};

/* User values: the handle of the process that has failed; why the scope was cancelled; its name. */
enum { SCOPE_FAILED = 1, SCOPE_REASON, SCOPE_NAME, SCOPE_VALUES = 3 };

static void add_to(struct baton_process **list, struct baton_process *process) {
  process->scope_next = *list;
  process->scope_place = list;
  if (*list != NULL) (*list)->scope_place = &process->scope_next;
  *list = process;
}

/* Takes the first process that was not told to end into the other list. Pushes its handle, or
   returns NULL. */
static struct baton_process *take_member(lua_State *L, struct baton_scope *scope) {
  struct baton_process *process = scope->members;
  if (process == NULL) return NULL;
  baton_lua_push_process(L, process);
  baton_lua_enter(L);
  scope->members = process->scope_next;
  if (scope->members != NULL) scope->members->scope_place = &scope->members;
  add_to(&scope->told, process);
  baton_lua_leave(L);
  return process;
}

/* Tells all processes but the caller to end. No others can be added any more. */
static void end_members(lua_State *L, struct baton_process *caller, struct baton_scope *scope) {
  struct baton_process *process;
  while ((process = take_member(L, scope)) != NULL) {
    if (process != caller) baton_lua_end_other(L, caller, process, lua_gettop(L), "killed");
    lua_pop(L, 1);
  }
}

/* Waits until no process is left. Returns 0 if the time was over before; `deadline` is 0 if there
   is none. */
static int await_members(
    lua_State *L, struct baton_process *caller, struct baton_scope *scope, uint64_t deadline) {
  struct baton_process *process;
  while ((process = scope->members != NULL ? scope->members : scope->told) != NULL) {
    baton_timeout timeout = BATON_FOREVER;
    int has_ended;
    if (process == caller) luaL_error(L, "a process cannot join itself");
    if (deadline != 0) {
      const uint64_t now = baton_now();
      timeout = now < deadline ? (baton_timeout)(deadline - now) : 0;
    }
    baton_lua_push_process(L, process);
    has_ended = await_end(L, caller, process, timeout);
    lua_pop(L, 1);
    if (!has_ended) return 0;
  }
  return 1;
}

void baton_lua_fail_scope(lua_State *L, struct baton_process *process) {
  struct baton_scope *scope = process->scope;
  if (scope->has_failed || scope->is_cancelled) return;
  scope->has_failed = 1;
  lua_getiuservalue(L, 1, BATON_UV_SCOPE);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, SCOPE_FAILED);
  end_members(L, process, scope);
  lua_pop(L, 1);
}

static void cancel(lua_State *L, struct baton_process *caller, struct baton_scope *scope, int index,
    const char *reason) {
  if (!scope->is_cancelled && !scope->has_failed) {
    scope->is_cancelled = 1;
    if (reason != NULL) lua_pushstring(L, reason);
    lua_setiuservalue(L, index, SCOPE_REASON);
  }
  end_members(L, caller, scope);
}

/* Raises an error if the scope takes no more processes. */
static void check_is_open(lua_State *L, const struct baton_scope *scope) {
  if (scope->is_over) luaL_error(L, "the scope has ended");
  if (scope->is_cancelled) luaL_error(L, "the scope was cancelled");
  if (scope->has_failed) luaL_error(L, "a process of the scope has failed");
}

/* Adds a process that calls f(...), which are at `first` and above, to the scope at `index`. Its
   name is at `name`; 0: it has none. Leaves the handle in the place of f. */
static struct baton_process *add_member(lua_State *L, struct baton_process *caller, int index,
    int first, struct baton_spawn_options *options, int name) {
  struct baton_scope *scope = lua_touserdata(L, index);
  struct baton_process *process = baton_lua_spawn_quiet(L, caller, first, options);
  /* A finalizer may have run meanwhile, and have ended the scope. */
  if (l_unlikely(scope->is_over || scope->is_cancelled || scope->has_failed)) {
    baton_lua_end_unstarted(L, process);
    check_is_open(L, scope);
  }
  if (name != 0) baton_lua_give_name(L, process, name);
  lua_pushvalue(L, index);
  lua_setiuservalue(L, first, BATON_UV_SCOPE);
  baton_lua_enter(L);
  process->scope = scope;
  add_to(&scope->members, process);
  baton_lua_leave(L);
  return process;
}

static struct baton_scope *check_scope(lua_State *L, const char *method) {
  struct baton_scope *scope = baton_inline_test_sealed(L, 1, BATON_SEALED_SCOPE);
  const char *given;
  if (l_likely(scope != NULL)) return scope;
  lua_settop(L, lua_gettop(L) > 0 ? 1 : 0);
  baton_lua_type_given(L);
  given = lua_tostring(L, -1);
  luaL_argerror(L, 1,
      lua_pushfstring(L, "scope expected, got %s; a method is called with a colon, as in object:%s",
          given, method));
  return NULL;
}

/* Pushes the name of the scope's next process without a name of its own. Returns 0 and pushes
   nothing if the scope has none. */
static int push_next_name(lua_State *L, struct baton_scope *scope) {
  if (lua_getiuservalue(L, 1, SCOPE_NAME) == LUA_TNIL) {
    lua_pop(L, 1);
    return 0;
  }
  lua_pushfstring(L, "%s/%I", lua_tostring(L, -1), (LUAI_UACINT)++scope->unnamed);
  lua_remove(L, -2);
  return 1;
}

/* scope:spawn([options,] f, ...): as process.spawn, but only the scope reports a failure. */
static int scope_spawn(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_scope *scope = check_scope(L, "spawn");
  struct baton_spawn_options options;
  const int has_options = lua_istable(L, 2);
  baton_timeout time_left = BATON_FOREVER;
  int first = has_options ? 3 : 2, name = 0;
  luaL_checktype(L, first, LUA_TFUNCTION);
  check_is_open(L, scope);
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  if (has_options) {
    baton_lua_read_spawn_options(L, 2, &options, &time_left); /* pushes the name */
    if (!lua_isnil(L, -1) || (lua_pop(L, 1), push_next_name(L, scope))) name = 2;
    if (name != 0) lua_replace(L, name);
  } else if (push_next_name(L, scope)) {
    lua_insert(L, 2);
    name = 2;
    first = 3;
  }
  baton_lua_limit_time(add_member(L, caller, 1, first, &options, name), time_left);
  baton_lua_enter(L);
  baton_give_way(caller->vm->executor);
  baton_lua_leave(L);
  return 1;
}

/* scope:cancel([reason]). If the caller is a process of the scope, it ends here. */
static int scope_cancel(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_scope *scope = check_scope(L, "cancel");
  if (scope->is_over) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "dead");
    return 2;
  }
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_pushliteral(L, "cancelled");
    lua_replace(L, 2);
  }
  cancel(L, caller, scope, 1, NULL);
  lua_settop(L, 1);
  if (caller->scope == scope) {
    baton_lua_push_process(L, caller);
    baton_lua_end_other(L, caller, caller, 2, "killed");
  }
  baton_lua_raise_pending(L, caller);
  lua_pushboolean(L, 1);
  return 1;
}

/* The end of the call. The first failure of a process is raised, even instead of an error in the
   function, as that may result from it. */
static int scope_close(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_scope *scope = check_scope(L, "close");
  scope->is_over = 1;
  end_members(L, caller, scope);
  baton_lua_raise_pending(L, caller);
  await_members(L, caller, scope, 0);
  if (!scope->has_failed) return 0;
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, SCOPE_FAILED);
  return raise_failure(L, baton_lua_check_process(L, 2));
}

/* Pushes a scope that will be closed. */
static struct baton_scope *push_scope(lua_State *L) {
  struct baton_scope *scope = lua_newuserdatauv(L, sizeof *scope, SCOPE_VALUES);
  memset(scope, 0, sizeof *scope);
  scope->seal = baton_inline_seal(BATON_SEALED_SCOPE);
  baton_lua_set_sealed_metatable(L, BATON_SEALED_SCOPE);
  lua_toclose(L, lua_gettop(L));
  return scope;
}

static int push_reason(lua_State *L, int index) {
  lua_pushnil(L);
  lua_getiuservalue(L, index, SCOPE_REASON);
  return 2;
}

/* The function has returned. The stack has it, the scope and the results. */
static int after_function(lua_State *L, int status, lua_KContext context) {
  struct baton_scope *scope = lua_touserdata(L, 2);
  (void)status;
  (void)context;
  luaL_checkstack(L, LUA_MINSTACK, "too many results"); /* the results may fill it */
  await_members(L, baton_inline_caller(L), scope, 0);
  return scope->is_cancelled ? push_reason(L, 2) : lua_gettop(L) - 2;
}

/* Leaves the timeout on the stack, and then the name. */
static void read_scope_options(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    const int is_timeout = strcmp(key, "timeout") == 0;
    const int wanted = is_timeout ? LUA_TNUMBER : LUA_TSTRING;
    if (!is_timeout && strcmp(key, "name") != 0) {
      luaL_tolstring(L, -2, NULL);
      luaL_argerror(L, 1, lua_pushfstring(L, "unknown option '%s'", lua_tostring(L, -1)));
    }
    if (lua_type(L, -1) != wanted || (is_timeout && lua_tonumber(L, -1) != lua_tonumber(L, -1)))
      luaL_argerror(L, 1,
          lua_pushfstring(L, "option '%s': %s expected, got %s", key, lua_typename(L, wanted),
              lua_type(L, -1) == wanted ? "NaN" : luaL_typename(L, -1)));
  }
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_pushliteral(L, "timeout");
  lua_rawget(L, 1);
  lua_pushliteral(L, "name");
  lua_rawget(L, 1);
}

/* The results of the call are those of its first process, whose handle is on the top. */
static int push_results_of(lua_State *L, int scope, struct baton_process *process) {
  int count;
  if (((struct baton_scope *)lua_touserdata(L, scope))->is_cancelled) return push_reason(L, scope);
  if (process->outcome == BATON_FAILED) return 0; /* closing the scope raises its error */
  count = baton_lua_push_results(L, process);
  if (process->outcome == BATON_RETURNED) return count - 1;
  lua_pushnil(L);
  lua_replace(L, -1 - count);
  return count;
}

/* The function runs as a process of the scope, so that it can be ended, too. */
static int scope_with_options(lua_State *L, struct baton_process *caller) {
  enum { F = 2, TIMEOUT, NAME, SCOPE, PROCESS };
  struct baton_spawn_options options;
  struct baton_process *process;
  struct baton_scope *scope;
  baton_timeout timeout = BATON_FOREVER;
  read_scope_options(L);
  if (!lua_isnil(L, TIMEOUT)) {
    if (lua_tonumber(L, TIMEOUT) <= 0) return baton_lua_push_outcome(L, BATON_TIMED_OUT);
    timeout = baton_inline_check_timeout(L, TIMEOUT);
  }
  scope = push_scope(L);
  lua_pushvalue(L, NAME);
  lua_setiuservalue(L, SCOPE, SCOPE_NAME);
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  lua_pushvalue(L, F);
  lua_pushvalue(L, SCOPE);
  process = add_member(
      L, caller, SCOPE, PROCESS, &options, lua_isnil(L, NAME) ? 0 : NAME);
  baton_lua_limit_time(process, timeout);
  if (!await_members(L, caller, scope,
          timeout == BATON_FOREVER ? 0 : baton_now() + (uint64_t)timeout)) {
    cancel(L, caller, scope, SCOPE, "timeout");
    baton_lua_raise_pending(L, caller);
    await_members(L, caller, scope, 0);
  }
  return push_results_of(L, SCOPE, process);
}

static int process_scope(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  if (lua_istable(L, 1)) return scope_with_options(L, caller);
  if (!lua_isfunction(L, 1)) luaL_typeerror(L, 1, "function or table of options");
  lua_settop(L, 1);
  push_scope(L);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_callk(L, 1, LUA_MULTRET, 0, after_function);
  return after_function(L, LUA_OK, 0);
}

static const luaL_Reg scope_methods[] = {
    {"spawn", scope_spawn}, {"cancel", scope_cancel}, {NULL, NULL}};

/* }====================================================== */

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_scope(lua_State *L) {
  baton_lua_new_sealed_metatable(L, BATON_SEALED_SCOPE, "baton.scope*");
  luaL_newlib(L, scope_methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, scope_close);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
  lua_pushcfunction(L, process_scope);
  lua_setfield(L, -2, "scope");
  open_timeout(L);
}
