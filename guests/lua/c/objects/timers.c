/*
** process.after and process.every. Each firing has a process that was made beforehand, so firing
** allocates no Lua memory. A firing of `every` makes the process for the next one before it calls
** the function. Who kills a firing before it runs makes that process in its place.
*/
#include "objects/objects.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define TIMER "baton.timer*"

struct timer {
  const void *seal; /* must be first */
  struct baton_lua_vm *vm;
  uint64_t id;
  int periodic;
};

/* Makes the process of the next firing. It will call `fire` with the timer and the table at
   `packed`, which has f and its arguments. */
static struct baton_process *prepare(lua_State *L, struct baton_lua_vm *vm, int timer, int packed);

/* prepare_next(timer, packed) */
static int prepare_next(lua_State *L) {
  struct timer *timer = baton_lua_check_sealed(L, 1, BATON_TIMER, "timer");
  luaL_checktype(L, 2, LUA_TTABLE);
  if (timer->periodic && timer->id != 0) {
    struct baton_process *next = prepare(L, timer->vm, 1, 2);
    int taken;
    baton_lua_enter(L);
    taken = baton_timer_prepare(timer->vm->executor, timer->id, next->sched_id);
    baton_lua_leave(L);
    if (!taken) baton_lua_abandon_prepared(L, next);
  }
  return 0;
}

/* fire(timer, packed): the body of a firing. */
static int fire(lua_State *L) {
  lua_Integer i, count;
  prepare_next(L);
  lua_getfield(L, 2, "n");
  count = lua_tointeger(L, -1);
  lua_pop(L, 1);
  /* a program may have found this function and called it */
  luaL_argcheck(L, count >= 1 && count < INT_MAX, 2, "no function");
  luaL_checkstack(L, (int)count, "too many arguments");
  for (i = 1; i <= count; i++) lua_rawgeti(L, 2, i);
  lua_call(L, (int)count - 1, 0);
  return 0;
}

static struct baton_process *prepare(lua_State *L, struct baton_lua_vm *vm, int timer, int packed) {
  struct baton_spawn_options options;
  struct baton_process *process;
  memset(&options, 0, sizeof options);
  options.preemptible = 1;
  options.by_timer = 1;
  process = baton_lua_new_process(L, vm, &options);
  if (process == NULL) lua_error(L);
  if (lua_getfield(L, packed, "name") == LUA_TSTRING) {
    size_t length;
    const char *name = lua_tolstring(L, -1, &length);
    baton_lua_set_name(process, name, length);
    lua_setiuservalue(L, -2, BATON_UV_NAME);
  } else {
    lua_pop(L, 1);
  }
  lua_pop(L, 1); /* the registry keeps the handle */
  lua_pushcfunction(L, fire);
  lua_pushvalue(L, timer);
  lua_pushvalue(L, packed);
  lua_xmove(L, process->L, 3);
  return process;
}

void baton_lua_timer_goes_on(lua_State *L, struct baton_process *process) {
  enum { FUNCTION = 2, TIMER_AT, PACKED };
  lua_State *ended = process->L;
  if (process->vm->ending || lua_tocfunction(ended, FUNCTION) != fire) return;
  if (!lua_checkstack(L, PACKED) || !lua_checkstack(ended, 1)) return;
  lua_pushcfunction(L, prepare_next);
  lua_pushvalue(ended, TIMER_AT);
  if (L != ended) lua_xmove(ended, L, 1);
  lua_pushvalue(ended, PACKED);
  if (L != ended) lua_xmove(ended, L, 1);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1); /* no memory: the timer has ended */
}

/* Reads the first argument: a number, or {number, name="..."} with the name of the fired
   processes. */
static lua_Number check_seconds(lua_State *L) {
  lua_Number seconds;
  if (lua_type(L, 1) != LUA_TTABLE) return luaL_checknumber(L, 1);
  baton_lua_check_options(L);
  if (lua_rawgeti(L, 1, 1) != LUA_TNUMBER)
    luaL_argerror(L, 1,
        lua_pushfstring(L, "number of seconds expected as the first in the table, got %s",
            luaL_typename(L, -1)));
  seconds = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return seconds;
}

/* Seconds: 285 years. A longer time is as good as this one: the timer never fires. */
#define LONGEST 9.0e9

static int new_timer(lua_State *L, int periodic) {
  struct baton_process *caller = baton_lua_caller(L);
  lua_Number seconds = check_seconds(L);
  struct timer *timer;
  struct baton_process *prepared;
  uint64_t period;
  int i, count = lua_gettop(L) - 1;
  luaL_argcheck(L, seconds == seconds, 1, "number expected, got NaN");
  if (periodic && seconds < 1e-9)
    luaL_argerror(
        L, 1, lua_pushfstring(L, "period of at least 1e-9 seconds expected, got %f", seconds));
  if (periodic && seconds > LONGEST)
    luaL_argerror(
        L, 1, lua_pushfstring(L, "period of at most 9e9 seconds expected, got %f", seconds));
  luaL_checktype(L, 2, LUA_TFUNCTION);
  period = seconds <= 0 ? 0 : (uint64_t)ceil((seconds < LONGEST ? seconds : LONGEST) * 1e9);
  baton_lua_check_memory_for_object(L, caller->vm, 0);
  lua_createtable(L, count, 1);
  for (i = 1; i <= count; i++) {
    lua_pushvalue(L, i + 1);
    lua_rawseti(L, -2, i);
  }
  lua_pushinteger(L, count);
  lua_setfield(L, -2, "n");
  if (lua_type(L, 1) == LUA_TTABLE) {
    lua_getfield(L, 1, "name");
    lua_setfield(L, -2, "name");
  }
  timer = lua_newuserdatauv(L, sizeof *timer, 0);
  timer->seal = baton_lua_seal(BATON_TIMER);
  timer->vm = caller->vm;
  timer->id = 0;
  timer->periodic = periodic;
  baton_lua_set_sealed_metatable(L, BATON_TIMER);
  prepared = prepare(L, caller->vm, lua_gettop(L), lua_gettop(L) - 1);
  baton_lua_enter(L);
  timer->id = baton_timer_new(
      caller->vm->executor, baton_now() + period, periodic ? period : 0, prepared->sched_id);
  baton_lua_leave(L);
  return 1;
}

static int process_after(lua_State *L) { return new_timer(L, 0); }
static int process_every(lua_State *L) { return new_timer(L, 1); }

static int timer_cancel(lua_State *L) {
  struct timer *timer = baton_lua_check_sealed(L, 1, BATON_TIMER, "timer");
  struct baton_process *prepared;
  baton_lua_caller(L);
  baton_lua_enter(L);
  prepared = (struct baton_process *)baton_timer_cancel(timer->vm->executor, timer->id);
  baton_lua_leave(L);
  if (prepared != NULL) baton_lua_abandon_prepared(L, prepared);
  return 0;
}

static int timer_stats(lua_State *L) {
  struct timer *timer = baton_lua_check_sealed(L, 1, BATON_TIMER, "timer");
  uint64_t fired = 0, skipped = 0;
  baton_lua_caller(L);
  baton_lua_enter(L);
  baton_timer_stats(timer->vm->executor, timer->id, &fired, &skipped);
  baton_lua_leave(L);
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, (lua_Integer)fired);
  lua_setfield(L, -2, "fired");
  lua_pushinteger(L, (lua_Integer)skipped);
  lua_setfield(L, -2, "skipped");
  return 1;
}

static int timer_gc(lua_State *L) {
  struct timer *timer = baton_lua_check_sealed(L, 1, BATON_TIMER, "timer");
  if (timer->id != 0) {
    baton_lua_enter(L);
    baton_free(timer->vm->executor, BATON_TIMER, timer->id);
    baton_lua_leave(L);
  }
  return 0;
}

static const luaL_Reg methods[] = {{"cancel", timer_cancel}, {"stats", timer_stats}, {NULL, NULL}};
static const luaL_Reg functions[] = {
    {"after", process_after}, {"every", process_every}, {NULL, NULL}};

/* Adds after and every to the module's table on the top of the stack. */
void baton_lua_open_timers(lua_State *L) {
  baton_lua_new_sealed_metatable(L, BATON_TIMER, TIMER);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  baton_lua_note_quick_finalizer(timer_gc);
  lua_pushcfunction(L, timer_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
