/*
** p:link and p:monitor: notifications of a process's end.
**
** The ending process kills the processes linked with it, and prepares the messages while it can
** still allocate. It posts the messages in the same step in which it gets its outcome. So a
** receiver finds it dead, and nothing can fail or wait in between.
*/
#include "process/process.h"
#include "objects/objects.h"
#include "state/state.h"

#include <stdlib.h>

/* Key of the registry: a table with weak keys from handles to their watchers, which are two sets:
   { channels, processes }. */
static char watchers_key;

enum { WATCH_CHANNELS = 1, WATCH_PROCESSES };

/* The messages of an ending process. Freed after they are posted. */
struct baton_ending {
  size_t count;
  struct {
    uint64_t channel, value;
  } posts[];
};

/* {======================================================
** Watchers
** ======================================================= */

/* Pushes a set of watchers of the process whose handle is at `index`, or nil. */
static void push_watchers(lua_State *L, int index, int which) {
  index = lua_absindex(L, index);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &watchers_key);
  lua_pushvalue(L, index);
  if (lua_rawget(L, -2) != LUA_TNIL) {
    lua_rawgeti(L, -1, which);
    lua_replace(L, -2);
  }
  lua_remove(L, -2);
}

static void new_set(lua_State *L, int is_weak) {
  lua_newtable(L);
  if (!is_weak) return;
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

/* Adds the value at `watcher` to the watchers of the process at `index`. The set of channels is
   weak, so it keeps none alive. */
static void add_watcher(lua_State *L, int index, int which, int watcher) {
  baton_lua_check_process(L, index)->is_watched = 1;
  push_watchers(L, index, which);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &watchers_key);
    lua_pushvalue(L, index);
    lua_createtable(L, WATCH_PROCESSES, 0);
    new_set(L, 1);
    lua_rawseti(L, -2, WATCH_CHANNELS);
    new_set(L, 0);
    lua_rawseti(L, -2, WATCH_PROCESSES);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    push_watchers(L, index, which);
  }
  lua_pushvalue(L, watcher);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

static int push_dead(lua_State *L) {
  lua_pushboolean(L, 0);
  lua_pushliteral(L, "dead");
  return 2;
}

/* p:link([q]) */
static int process_link(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L), *one = baton_lua_check_process(L, 1), *other;
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 1);
    baton_lua_push_process(L, caller);
  }
  other = baton_lua_check_process(L, 2);
  luaL_argcheck(L, one != other, 2, "a process cannot be linked with itself");
  if (one->outcome != BATON_ALIVE || one->is_ending || other->outcome != BATON_ALIVE ||
      other->is_ending)
    return push_dead(L);
  add_watcher(L, 1, WATCH_PROCESSES, 2);
  add_watcher(L, 2, WATCH_PROCESSES, 1);
  lua_pushboolean(L, 1);
  return 1;
}

/* }====================================================== */

/* {======================================================
** The end
** ======================================================= */

/* Pushes the message for a channel: { process =, ended =, reason = }. The handle is at `process`,
   the reason at `reason`. */
static void push_message(lua_State *L, int process, int outcome, int reason) {
  static const char *const endings[] = {NULL, "returned", "failed", "killed"};
  lua_createtable(L, 0, 3);
  lua_pushvalue(L, process);
  lua_setfield(L, -2, "process");
  lua_pushstring(L, endings[outcome]);
  lua_setfield(L, -2, "ended");
  lua_pushvalue(L, reason);
  lua_setfield(L, -2, "reason");
}

/* Stores a message in the channel. Returns its token. */
static uint32_t store_message(
    lua_State *L, struct channel *channel, int process, int outcome, int reason) {
  uint32_t token;
  push_message(L, process, outcome, reason);
  baton_lua_enter(L);
  token = baton_lua_store_value(L, channel, lua_gettop(L));
  baton_lua_leave(L);
  lua_pop(L, 1);
  return token;
}

static struct channel *to_channel(lua_State *L, int index) {
  return (struct channel *)baton_lua_test_handle(L, index, BATON_CHANNEL);
}

/* Waits for the outcome of a process whose messages are already prepared. It comes soon. */
static void await_end(lua_State *L, struct baton_process *caller, struct baton_process *process) {
  struct baton_wake wake;
  baton_lua_check_may_wait(L, caller);
  baton_lua_enter(L);
  wake = baton_join(caller->vm->executor, process->sched_id, BATON_FOREVER);
  baton_lua_leave(L);
  baton_lua_after_wait(L, caller, wake);
}

/* p:monitor(channel) */
static int process_monitor(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L), *process = baton_lua_check_process(L, 1);
  struct channel *channel = to_channel(L, 2);
  if (channel == NULL) luaL_typeerror(L, 2, "channel");
  luaL_argcheck(L, channel->signals == 0, 2, "a channel of signals receives nothing else");
  lua_settop(L, 2);
  if (process->outcome == BATON_ALIVE && process->is_ending) await_end(L, caller, process);
  if (process->outcome == BATON_ALIVE) {
    add_watcher(L, 1, WATCH_CHANNELS, 2);
  } else { /* the message comes at once */
    uint64_t token;
    baton_lua_push_reason(L, process);
    token = store_message(L, channel, 1, process->outcome, 3);
    baton_lua_enter(L);
    (void)baton_channel_post(caller->vm->executor, channel->handle.id, token);
    baton_give_way(caller->vm->executor);
    baton_lua_leave(L);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* Prepares a message for each channel of the set on the top. The process at 1 ends, for the reason
   at 2. */
static void prepare_messages(lua_State *L, struct baton_process *process, int outcome) {
  const int set = lua_gettop(L);
  size_t count = 0;
  struct baton_ending *ending;
  for (lua_pushnil(L); lua_next(L, set); lua_pop(L, 1)) count++;
  if (count == 0) return;
  ending = process->ending = malloc(sizeof *ending + count * sizeof ending->posts[0]);
  if (ending == NULL) luaL_error(L, "not enough memory");
  ending->count = 0;
  for (lua_pushnil(L); lua_next(L, set) && ending->count < count;) {
    struct channel *channel = to_channel(L, -2);
    lua_pop(L, 1); /* the key keeps the channel alive */
    ending->posts[ending->count].value = store_message(L, channel, 1, outcome, 2);
    ending->posts[ending->count++].channel = channel->handle.id;
  }
  lua_settop(L, set);
}

/* Pushes the reason for killing linked processes: the process at 1 has failed with the error at
   2. */
static void push_reason_of_link(lua_State *L, struct baton_process *process) {
  baton_lua_push_title(L, process);
  lua_pushliteral(L, " failed: ");
  if (lua_type(L, 2) == LUA_TSTRING || lua_type(L, 2) == LUA_TNUMBER)
    lua_pushvalue(L, 2);
  else
    lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 2));
  lua_concat(L, 3);
}

/* Kills the processes of the set on the top, and removes the ending process from their sets. */
static void kill_linked(lua_State *L, struct baton_process *process, int outcome) {
  const int set = lua_gettop(L),
            is_bad =
                outcome == BATON_FAILED || (outcome == BATON_WAS_KILLED && process->killed_by_link);
  int reason;
  if (outcome == BATON_FAILED)
    push_reason_of_link(L, process);
  else
    lua_pushvalue(L, 2);
  reason = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, set);) {
    const int handle = lua_gettop(L) - 1;
    struct baton_process *linked = baton_lua_check_process(L, handle);
    push_watchers(L, handle, WATCH_PROCESSES);
    if (lua_istable(L, -1)) {
      lua_pushvalue(L, 1);
      lua_pushnil(L);
      lua_rawset(L, -3);
    }
    lua_settop(L, handle);
    if (!is_bad || linked->killed || linked->outcome != BATON_ALIVE || baton_lua_is_host(linked))
      continue;
    linked->killed_by_link = 1;
    lua_pushvalue(L, reason);
    baton_lua_kill_process(L, process, linked, handle);
    lua_settop(L, handle);
  }
}

/* Arguments: the handle, the reason, the outcome. */
static int prepare(lua_State *L) {
  struct baton_process *process = baton_lua_check_process(L, 1);
  const int outcome = (int)lua_tointeger(L, 3);
  push_watchers(L, 1, WATCH_PROCESSES);
  if (lua_istable(L, -1)) kill_linked(L, process, outcome);
  lua_settop(L, 3);
  push_watchers(L, 1, WATCH_CHANNELS);
  if (lua_istable(L, -1)) prepare_messages(L, process, outcome);
  lua_settop(L, 3);
  if (outcome == BATON_FAILED && process->scope != NULL) baton_lua_fail_scope(L, process);
  if (!process->is_watched) return 0;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &watchers_key);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  lua_rawset(L, -3);
  return 0;
}

void baton_lua_prepare_ending(struct baton_process *process, int outcome) {
  lua_State *L = process->L;
  struct baton_mark mark;
  const int fails_scope = outcome == BATON_FAILED && process->scope != NULL;
  if ((!process->is_watched && !fails_scope) || !lua_checkstack(L, 8)) return;
  process->is_ending = 1;
  baton_lua_enter(L);
  baton_lua_begin_hold(process, &mark, BATON_MARK_CLOSE);
  baton_lua_leave(L);
  lua_pushcfunction(L, prepare);
  baton_lua_push_process(L, process);
  if (outcome == BATON_FAILED)
    lua_pushvalue(L, 2); /* the error, above the message handler */
  else if (outcome == BATON_WAS_KILLED)
    baton_lua_push_reason(L, process);
  else
    lua_pushnil(L);
  lua_pushinteger(L, outcome);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {
    lua_writestringerror("%s: no memory to tell of the end of a process\n", process->vm->progname);
    lua_pop(L, 1);
  }
  baton_lua_enter(L);
  baton_lua_end_hold(process);
  baton_lua_leave(L);
}

void baton_lua_post_ending(struct baton_process *process) {
  size_t i;
  if (process->ending == NULL) return;
  for (i = 0; i < process->ending->count; i++)
    (void)baton_channel_post(
        process->vm->executor, process->ending->posts[i].channel, process->ending->posts[i].value);
  free(process->ending);
  process->ending = NULL;
}

/* }====================================================== */

static const luaL_Reg methods[] = {
    {"link", process_link}, {"monitor", process_monitor}, {NULL, NULL}};

/* Adds the methods to the table of methods on the top of the stack. */
void baton_lua_open_link_methods(lua_State *L) {
  luaL_setfuncs(L, methods, 0);
  /* the module is loaded for the first time */
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &watchers_key) == LUA_TNIL) {
    new_set(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &watchers_key);
  }
  lua_pop(L, 1);
}
