/*
** process.after and process.every. Each firing is a process that was made beforehand, so that firing needs no Lua memory; a firing of
** `every` makes the next one before it calls the function.
*/
#include "guest.h"

#include <math.h>
#include <string.h>

#define TIMER "baton.timer*"

struct timer {
  struct baton_vm *vm;
  uint64_t id;
  int periodic;
};

/* Makes the process of the next firing: it will call `fire` with the timer, then f and its arguments (upvalue table at `packed`). */
static struct baton_process *prepare(lua_State *L, struct baton_vm *vm, int timer, int packed);

/* fire(timer, packed): the body of a firing. */
static int fire(lua_State *L) {
  struct timer *timer = luaL_checkudata(L, 1, TIMER);
  lua_Integer i, count;
  if (timer->periodic && timer->id != 0) {
    struct baton_process *next = prepare(L, timer->vm, 1, 2);
    int taken;
    baton_enter(L);
    taken = baton_rs_timer_prepare(timer->vm->executor, timer->id, next->kernel_id);
    baton_leave(L);
    if (!taken) baton_lua_abandon_prepared(L, next);
  }
  lua_getfield(L, 2, "n");
  count = lua_tointeger(L, -1);
  lua_pop(L, 1);
  luaL_checkstack(L, (int)count, "too many arguments");
  for (i = 1; i <= count; i++) lua_rawgeti(L, 2, i);
  lua_call(L, (int)count - 1, 0);
  return 0;
}

static struct baton_process *prepare(lua_State *L, struct baton_vm *vm, int timer, int packed) {
  struct baton_spawn options;
  struct baton_process *process;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  options.by_timer = 1;
  process = baton_lua_new_process(L, vm, &options);
  if (process == NULL) lua_error(L);
  lua_pop(L, 1); /* the registry keeps the handle */
  lua_pushcfunction(L, fire);
  lua_pushvalue(L, timer);
  lua_pushvalue(L, packed);
  lua_xmove(L, process->L, 3);
  return process;
}

static int new_timer(lua_State *L, int periodic) {
  struct baton_process *caller = baton_lua_caller(L);
  lua_Number seconds = luaL_checknumber(L, 1);
  struct timer *timer;
  struct baton_process *prepared;
  uint64_t period;
  int i, count = lua_gettop(L) - 1;
  luaL_argcheck(L, seconds == seconds, 1, "number expected, got NaN");
  luaL_argcheck(L, !periodic || seconds >= 1e-9, 1, "period must be positive");
  luaL_argcheck(L, seconds <= 9.0e9, 1, "time out of range (at most 9e9 seconds)");
  luaL_checktype(L, 2, LUA_TFUNCTION);
  period = seconds <= 0 ? 0 : (uint64_t)ceil(seconds * 1e9);
  lua_createtable(L, count, 1);
  for (i = 1; i <= count; i++) {
    lua_pushvalue(L, i + 1);
    lua_rawseti(L, -2, i);
  }
  lua_pushinteger(L, count);
  lua_setfield(L, -2, "n");
  timer = lua_newuserdatauv(L, sizeof *timer, 0);
  timer->vm = caller->vm;
  timer->id = 0;
  timer->periodic = periodic;
  luaL_setmetatable(L, TIMER);
  prepared = prepare(L, caller->vm, lua_gettop(L), lua_gettop(L) - 1);
  baton_enter(L);
  timer->id = baton_rs_timer_new(caller->vm->executor, baton_rs_now() + period, periodic ? period : 0, prepared->kernel_id);
  baton_leave(L);
  return 1;
}

static int process_after(lua_State *L) { return new_timer(L, 0); }
static int process_every(lua_State *L) { return new_timer(L, 1); }

static int timer_cancel(lua_State *L) {
  struct timer *timer = luaL_checkudata(L, 1, TIMER);
  struct baton_process *prepared;
  baton_lua_caller(L);
  baton_enter(L);
  prepared = (struct baton_process *)baton_rs_timer_cancel(timer->vm->executor, timer->id);
  baton_leave(L);
  if (prepared != NULL) baton_lua_abandon_prepared(L, prepared);
  return 0;
}

static int timer_stats(lua_State *L) {
  struct timer *timer = luaL_checkudata(L, 1, TIMER);
  uint64_t fired = 0, skipped = 0;
  baton_lua_caller(L);
  baton_enter(L);
  baton_rs_timer_stats(timer->vm->executor, timer->id, &fired, &skipped);
  baton_leave(L);
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, (lua_Integer)fired);
  lua_setfield(L, -2, "fired");
  lua_pushinteger(L, (lua_Integer)skipped);
  lua_setfield(L, -2, "skipped");
  return 1;
}

static int timer_gc(lua_State *L) {
  struct timer *timer = luaL_checkudata(L, 1, TIMER);
  if (timer->id != 0) {
    baton_enter(L);
    baton_rs_free(timer->vm->executor, BATON_TIMER, timer->id);
    baton_leave(L);
  }
  return 0;
}

static const luaL_Reg methods[] = {{"cancel", timer_cancel}, {"stats", timer_stats}, {NULL, NULL}};
static const luaL_Reg functions[] = {{"after", process_after}, {"every", process_every}, {NULL, NULL}};

/* Adds after and every to the module's table on the top of the stack. */
void baton_lua_open_timers(lua_State *L) {
  luaL_newmetatable(L, TIMER);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, timer_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
