/*
** process.timer: a point in time that processes wait for, alone or in a select.
*/
#include "objects/waits.h"

#include <math.h>

/* The time at which a timer that is set now goes off; 0: at once. */
static uint64_t check_due(lua_State *L, int index) {
  lua_Number seconds = luaL_checknumber(L, index);
  luaL_argcheck(L, seconds == seconds, index, "number expected, got NaN");
  if (seconds <= 0) return 0;
  return seconds > 9.0e9 ? UINT64_MAX : baton_now() + (uint64_t)ceil(seconds * 1e9);
}

static int timer_new(lua_State *L) {
  uint64_t due;
  struct baton_handle *handle;
  baton_lua_take_options(L);
  due = check_due(L, 1);
  handle = baton_lua_new_handle(L, BATON_ALARM, sizeof *handle, 0);
  baton_lua_enter(L);
  handle->id = baton_alarm_new(handle->vm->executor, due);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int timer_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_ALARM);
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT(L, caller, baton_alarm_wait(handle->vm->executor, handle->id, timeout), reason);
  return baton_inline_push_outcome(L, reason);
}

static int timer_set(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_ALARM);
  uint64_t due = check_due(L, 2);
  baton_lua_enter(L);
  baton_alarm_set(handle->vm->executor, handle->id, due);
  baton_give_way(handle->vm->executor); /* to its waiters, if it is due */
  baton_lua_leave(L);
  return 0;
}

static int timer_cancel(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_ALARM);
  int was_set;
  baton_lua_enter(L);
  was_set = baton_alarm_cancel(handle->vm->executor, handle->id);
  baton_lua_leave(L);
  lua_pushboolean(L, was_set);
  return 1;
}

static int timer_has_fired(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_ALARM);
  int has_fired;
  baton_lua_enter(L);
  has_fired = baton_alarm_has_gone_off(handle->vm->executor, handle->id);
  baton_lua_leave(L);
  lua_pushboolean(L, has_fired);
  return 1;
}

static const luaL_Reg methods[] = {{"wait", timer_wait}, {"set", timer_set},
    {"cancel", timer_cancel}, {"has_fired", timer_has_fired}, {NULL, NULL}};

/* Adds process.timer to the module's table on the top of the stack. */
void baton_lua_open_alarms(lua_State *L) {
  baton_lua_open_kind(L, BATON_ALARM, methods, NULL);
  lua_pushcfunction(L, timer_new);
  lua_setfield(L, -2, "timer");
}
