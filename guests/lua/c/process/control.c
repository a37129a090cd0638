/*
** Spawning, killing and listing processes, for the module's functions and for other files.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/state.h"

#include <string.h>

static int is_dead(const struct baton_process *process) { return process->outcome != BATON_ALIVE; }

/* {======================================================
** Spawning
** ======================================================= */

/* Moves f and its arguments, which begin at index `first`, to the process. The handle, which is
   above them, is left at `place`. */
static void pass_call(lua_State *L, struct baton_process *process, int first, int place) {
  lua_State *to = process->L;
  StkId value, handle;
  baton_lua_enter(L);
  value = L->ci->func.p + first;
  handle = L->top.p - 1;
  for (; value < handle; value++) {
    setobjs2s(to, to->top.p, value);
    to->top.p++;
  }
  setobjs2s(L, L->ci->func.p + place, handle);
  L->top.p = L->ci->func.p + place + 1;
  baton_lua_leave(L);
}

void baton_lua_give_name(lua_State *L, struct baton_process *process, int index) {
  size_t length;
  const char *text = lua_tolstring(L, index, &length);
  baton_lua_set_name(process, text, length);
  lua_pushvalue(L, index);
  lua_setiuservalue(L, -2, BATON_UV_NAME);
}

/* Makes the process that calls f(...). The stack has f and its arguments; below them, the name if
   there is one. Leaves only the handle. */
static struct baton_process *make_process(lua_State *L, struct baton_process *caller,
    struct baton_spawn_options *options, int has_name) {
  struct baton_process *process = baton_lua_new_process(L, caller->vm, options);
  if (process == NULL) lua_error(L);
  if (has_name) baton_lua_give_name(L, process, 1);
  pass_call(L, process, has_name ? 2 : 1, 1);
  return process;
}

struct baton_process *baton_lua_spawn_quiet(lua_State *L, struct baton_process *caller, int first,
    struct baton_spawn_options *options) {
  struct baton_process *process;
  options->quiet = 1;
  process = baton_lua_new_process(L, caller->vm, options);
  if (process == NULL) lua_error(L);
  pass_call(L, process, first, first);
  return process;
}

struct baton_process *baton_lua_spawn(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_spawn_options options;
  struct baton_process *process;
  baton_timeout time_left = BATON_FOREVER;
  int has_name = 0;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  if (lua_istable(L, 1)) {
    luaL_checktype(L, 2, LUA_TFUNCTION);
    baton_lua_read_spawn_options(L, 1, &options, &time_left);
    has_name = !lua_isnil(L, -1);
    lua_replace(L, 1);
    if (!has_name) lua_remove(L, 1);
  } else {
    luaL_checktype(L, 1, LUA_TFUNCTION);
  }
  process = make_process(L, caller, &options, has_name);
  baton_lua_limit_time(process, time_left);
  return process;
}

/* }====================================================== */

/* {======================================================
** Killing
** ======================================================= */

/*
** A kill that finds the process in a shield starts a watcher, a daemon. So does a shield that
** begins while a kill is held back. If the same shield still holds the kill back when its time is
** over, the watcher kills again, and a second kill ends a hold. A kill from outside of the program
** starts no watcher: whoever makes it can repeat it.
*/

/* The number of the outermost shield; 0: there is none. */
static uint64_t shield_of(const struct baton_process *process) {
  const struct baton_mark *mark;
  uint64_t number = 0;
  for (mark = process->marks; mark != NULL; mark = mark->previous)
    if (mark->kind == BATON_MARK_SHIELD)
      number = ((const struct baton_shield_mark *)(const void *)mark)->number;
  return number;
}

static void watch_shield(lua_State *L, struct baton_process *process, int handle);

int baton_lua_kill_process(
    lua_State *L, struct baton_process *caller, struct baton_process *process, int handle) {
  const int again = process->killed;
  int outcome;
  if (baton_lua_is_host(process)) { /* its code is the program's, and ends by itself */
    lua_pop(L, 1);
    return 0;
  }
  if (!again && shield_of(process) != 0) watch_shield(L, process, handle);
  lua_setiuservalue(L, handle, BATON_UV_REASON);
  process->killed = 1;
  if (!process->has_exit_hook && !process->is_watched && baton_lua_end_unstarted(L, process))
    return 0;
  baton_lua_enter(L);
  if (again && process->holds > 0) process->abandoned = 1;
  if (process->holds > 0) baton_lua_request_safepoint(process); /* it counts the time from there */
  baton_set_kill_hold(caller->vm->executor, process->sched_id, process->holds > 0);
  outcome = baton_kill(caller->vm->executor, process->sched_id);
  baton_lua_leave(L);
  return outcome;
}

/* The parameter `shield`. */
static baton_timeout time_of_shields(struct baton_process *caller) {
  const char *text;
  double seconds = 0;
  (void)baton_parameter(caller->vm->executor, "shield", &seconds, &text);
  return (baton_timeout)(seconds * 1e9);
}

/* The watcher's body: (process, number of the shield). */
static int limit_shield(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L), *process = baton_lua_check_process(L, 1);
  struct baton_wake wake;
  baton_lua_enter(L);
  wake = baton_join(caller->vm->executor, process->sched_id, time_of_shields(caller));
  baton_lua_leave(L);
  if (baton_lua_after_wait(L, caller, wake) != BATON_TIMED_OUT) return 0;
  if (process->outcome != BATON_ALIVE) return 0;
  if (shield_of(process) != (uint64_t)lua_tointeger(L, 2)) return 0;
  lua_getiuservalue(L, 1, BATON_UV_REASON);
  baton_lua_kill_process(L, caller, process, 1);
  return 0;
}

/* (options, limit_shield, process, number) */
static int spawn_watcher(lua_State *L) {
  (void)baton_lua_spawn(L);
  return 0;
}

static void watch_shield(lua_State *L, struct baton_process *process, int handle) {
  handle = lua_absindex(L, handle);
  luaL_checkstack(L, 6, NULL);
  lua_pushcfunction(L, spawn_watcher);
  lua_createtable(L, 0, 3);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "daemon");
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "quiet");
  lua_pushliteral(L, "shield");
  lua_setfield(L, -2, "name");
  lua_pushcfunction(L, limit_shield);
  lua_pushvalue(L, handle);
  lua_pushinteger(L, (lua_Integer)shield_of(process));
  /* Without a watcher the shield has no limit: a failure is no reason not to kill. */
  if (lua_pcall(L, 4, 0, 0) != LUA_OK) lua_pop(L, 1);
}

void baton_lua_end_other(lua_State *L, struct baton_process *caller, struct baton_process *process,
    int handle, const char *reason) {
  if (process->killed || is_dead(process)) return;
  lua_pushstring(L, reason);
  baton_lua_kill_process(L, caller, process, handle);
}

/* A process that waits in os.execute holds the kill back until the command has ended. The end of
   the program does not wait for that. */
void baton_lua_end_at_last(lua_State *L, int index) {
  struct baton_process *caller = baton_lua_caller(L), *process = baton_lua_check_process(L, index);
  baton_lua_end_other(L, caller, process, index, "the program is ending");
  /* with more holds it is in a `<close>` method */
  if (!process->awaits_command || process->holds > 1 || is_dead(process)) return;
  baton_lua_enter(L);
  baton_set_kill_hold(caller->vm->executor, process->sched_id, 0);
  baton_kill(caller->vm->executor, process->sched_id);
  baton_lua_leave(L);
}

int baton_lua_end_process(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  baton_lua_end_other(L, caller, baton_lua_check_process(L, 1), 1, luaL_optstring(L, 2, "killed"));
  baton_lua_raise_pending(L, caller);
  return 0;
}

/* process.shield(f, ...) */
int baton_lua_shield(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_shield_mark shield;
  int is_first;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  is_first = shield_of(caller) == 0;
  shield.number = ++caller->vm->shields;
  baton_lua_enter(L);
  baton_lua_begin_hold(caller, &shield.mark, BATON_MARK_SHIELD);
  baton_lua_leave(L);
  if (caller->killed && is_first) {
    baton_lua_push_process(L, caller);
    watch_shield(L, caller, -1);
    lua_pop(L, 1);
  }
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  baton_lua_enter(L);
  baton_lua_end_hold(caller);
  baton_lua_leave(L);
  baton_lua_raise_pending(L, caller);
  return lua_gettop(L);
}

/* }====================================================== */

/* process.list(). Leaves the buffer and the table on the stack. Nothing is allocated after the list
   is read: a finalizer might wait, and meanwhile processes could end and their handles be
   collected. */
int baton_lua_list(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  size_t capacity = (size_t)caller->vm->living + 1, count, i;
  uintptr_t *records;
  for (;;) {
    records = lua_newuserdatauv(L, capacity * sizeof *records, 0);
    lua_createtable(L, (int)capacity, 0);
    baton_lua_enter(L);
    count = baton_list(caller->vm->executor, records, capacity);
    baton_lua_leave(L);
    if (count <= capacity) break;
    capacity = count + count / 8;
    lua_pop(L, 2);
  }
  for (i = 0; i < count; i++) {
    baton_lua_push_process(L, (struct baton_process *)records[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}
