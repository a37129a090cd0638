/*
** process.critical, process.shield and process.yield_to.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/state.h"

/* process.critical(f, ...) */
static int process_critical(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_mark mark;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  baton_lua_enter(L);
  baton_lua_begin_critical(caller, &mark);
  baton_lua_leave(L);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  baton_lua_enter(L);
  baton_lua_end_critical(caller);
  baton_give_way(caller->vm->executor);
  baton_lua_leave(L);
  baton_lua_raise_pending(L, caller);
  return lua_gettop(L);
}

/* process.yield_to(p) */
static int process_yield_to(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_process *process = baton_lua_check_process(L, 1);
  int is_dead = process->outcome != BATON_ALIVE;
  if (caller->foreign_states == 0) {
    baton_lua_enter(L);
    baton_yield_to(caller->vm->executor, process->sched_id);
    baton_lua_leave(L);
  }
  baton_lua_raise_pending(L, caller);
  lua_pushboolean(L, !is_dead);
  if (!is_dead) return 1;
  lua_pushliteral(L, "dead");
  return 2;
}

static const luaL_Reg functions[] = {
    {"critical", process_critical}, {"shield", baton_lua_shield}, {"yield_to", process_yield_to},
    {NULL, NULL}};

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_scheduling(lua_State *L) { luaL_setfuncs(L, functions, 0); }
