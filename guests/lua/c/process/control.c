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

/* Makes the process that calls f(...). The stack has f and its arguments. Leaves only the
   handle. */
static struct baton_process *make_process(
    lua_State *L, struct baton_process *caller, struct baton_spawn_options *options, int name) {
  struct baton_process *process;
  luaL_checkstack(L, 6, "too many arguments");
  if (name) lua_pushvalue(L, name);
  process = baton_lua_new_process(L, caller->vm, options);
  if (process == NULL) lua_error(L);
  if (name) {
    size_t length;
    const char *text = lua_tolstring(L, -2, &length);
    baton_lua_set_name(process, text, length);
    lua_pushvalue(L, -2);
    lua_setiuservalue(L, -2, BATON_UV_NAME);
    lua_remove(L, -2);
  }
  lua_insert(L, 1);
  if (name) lua_remove(L, 2); /* the name was the first value, before f */
  lua_xmove(L, process->L, lua_gettop(L) - 1);
  return process;
}

struct baton_process *baton_lua_spawn(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_spawn_options options;
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

/* }====================================================== */

/* {======================================================
** Killing
** ======================================================= */

int baton_lua_kill_process(
    lua_State *L, struct baton_process *caller, struct baton_process *process, int handle) {
  const int again = process->killed;
  int outcome;
  lua_setiuservalue(L, handle, BATON_UV_REASON);
  process->killed = 1;
  if (!process->has_exit_hook && !process->is_watched && baton_lua_end_unstarted(L, process))
    return 0;
  baton_enter(L);
  if (again && process->holds > 0) process->abandoned = 1;
  baton_set_kill_hold(caller->vm->executor, process->sched_id, process->holds > 0);
  outcome = baton_kill(caller->vm->executor, process->sched_id);
  baton_leave(L);
  return outcome;
}

/* As a kill, but a process that is being killed already may run its closing methods. */
static void end_process(lua_State *L, struct baton_process *caller, struct baton_process *process,
    int handle, const char *reason) {
  if (process->killed || is_dead(process)) return;
  lua_pushstring(L, reason);
  baton_lua_kill_process(L, caller, process, handle);
}

/* A process that waits in os.execute holds the kill back until the command has ended. The end of
   the program does not wait for that. */
void baton_lua_end_at_last(lua_State *L, int index) {
  struct baton_process *caller = baton_lua_caller(L), *process = baton_lua_check_process(L, index);
  end_process(L, caller, process, index, "the program is ending");
  /* with more holds it is in a `<close>` method */
  if (!process->awaits_command || process->holds > 1 || is_dead(process)) return;
  baton_enter(L);
  baton_set_kill_hold(caller->vm->executor, process->sched_id, 0);
  baton_kill(caller->vm->executor, process->sched_id);
  baton_leave(L);
}

int baton_lua_end_process(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  end_process(L, caller, baton_lua_check_process(L, 1), 1, luaL_optstring(L, 2, "killed"));
  baton_lua_raise_pending(L, caller);
  return 0;
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
    baton_enter(L);
    count = baton_list(caller->vm->executor, records, capacity);
    baton_leave(L);
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
