/*
** The life of a process: its body, and how it ends.
*/
#include "seam/internals.h"
#include "state/state.h"

/* Installed by the folders above. */
struct baton_life_hooks baton_life_hooks;

/* Prints the error value at index 1. Protected, as the value may have any __tostring. A value other
   than nil at index 2 means that __tostring is not called. */
static int print_failure(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  luaL_Buffer text;
  lua_settop(L, 2);
  baton_lua_push_title(L, process);
  if (lua_isnil(L, 2))
    luaL_tolstring(L, 1, NULL);
  else
    lua_pushfstring(L, "(error object is a %s value whose __tostring fails)", luaL_typename(L, 1));
  lua_replace(L, 2);
  baton_lua_push_process(L, process);
  lua_getiuservalue(L, -1, BATON_UV_TRACE);
  luaL_buffinit(L, &text);
  luaL_addstring(&text, process->vm->progname);
  luaL_addstring(&text, ": ");
  luaL_addstring(&text, lua_tostring(L, 3));
  luaL_addstring(&text, " failed: ");
  luaL_addstring(&text, luaL_optstring(L, 2, ""));
  luaL_addchar(&text, '\n');
  if (lua_type(L, 5) == LUA_TSTRING) {
    luaL_addstring(&text, lua_tostring(L, 5));
    luaL_addchar(&text, '\n');
  }
  luaL_pushresult(&text);
  baton_lua_write_error(L, 1);
  return 0;
}

/* Prints the error at `index`. A kill ends the printing. */
static void print_error(lua_State *L, struct baton_process *process, int index) {
  lua_pushcfunction(L, print_failure);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  lua_pop(L, 1);
  if (process->killed) return;
  if (lua_type(L, index) == LUA_TSTRING) { /* no memory for more */
    lua_writestringerror("%s: ", process->vm->progname);
    lua_writestringerror("a process failed: %s\n", lua_tostring(L, index));
    return;
  }
  lua_pushcfunction(L, print_failure);
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

static void report_failure(lua_State *L, struct baton_process *process) {
  int joiners;
  baton_lua_enter(L);
  joiners = baton_joiners(process->vm->executor, process->sched_id);
  baton_lua_leave(L);
  if (joiners == 0 && !process->quiet) print_error(L, process, 2);
}

void baton_lua_report_part(lua_State *L, struct baton_process *process) {
  process->vm->failures++;
  print_error(L, process, lua_gettop(L));
}

static int is_killed(struct baton_process *process) {
  return process->killed && baton_lua_kill_is_due(process);
}

/*
** Sets the outcome, as the last step. Until then, the process is alive, can be killed, and its
** joiners wait. What it has left on its stack is for them. Outside the VM.
*/
static void end_body(struct baton_process *process, enum baton_outcome outcome) {
  lua_State *L = process->L;
  if (outcome == BATON_WAS_KILLED) lua_settop(L, 0);
  baton_life_hooks.prepare_ending(process, outcome);
  baton_lua_enter(L);
  if (outcome == BATON_FAILED && !process->quiet) process->vm->failures++;
  process->outcome = (unsigned char)outcome;
  L->status = BATON_STATUS_ENDED;
  baton_life_hooks.post_ending(process);
  baton_lua_leave(L);
}

void baton_lua_run_body(struct baton_process *process) {
  lua_State *L = process->L;
  int status = LUA_ERRRUN, was_killed;
  if (!process->killed) {
    const int arguments = lua_gettop(L) - 2; /* above the message handler and the function */
    baton_lua_set_base_depth(L);
    status = lua_pcall(L, arguments, LUA_MULTRET, 1);
  } else {
    baton_life_hooks.ends_unstarted(L, process);
  }
  was_killed = is_killed(process); /* a kill may come after the last instruction, too */
  baton_life_hooks.run_exit_hook(process);
  if (!was_killed && status != LUA_OK) {
    report_failure(L, process);
    was_killed = is_killed(process);
  }
  end_body(process,
      was_killed             ? BATON_WAS_KILLED
          : status == LUA_OK ? BATON_RETURNED
                             : BATON_FAILED);
}
