/*
** Semaphore, mutex, condition, event. The scheduler has the objects. This file has their Lua
** functions. Channels are in channels.c, rwlock and barrier in locks.c, timers in alarms.c, and
** select in select.c.
*/
#include "objects/waits.h"

/* {======================================================
** Semaphore
** ======================================================= */

static int semaphore_new(lua_State *L) {
  lua_Integer count;
  struct baton_handle *handle;
  baton_lua_take_options(L);
  count = luaL_optinteger(L, 1, 0);
  luaL_argcheck(L, count >= 0, 1, "count must not be negative");
  handle = baton_lua_new_handle(L, BATON_SEMAPHORE, sizeof *handle, 0);
  baton_lua_enter(L);
  handle->id = baton_semaphore_new(handle->vm->executor, (uint64_t)count);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int semaphore_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_SEMAPHORE);
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT_FOR(L, caller, baton_semaphore_wait(handle->vm->executor, handle->id, timeout),
                 baton_semaphore_signal(handle->vm->executor, handle->id, 1), reason);
  return baton_inline_push_outcome(L, reason);
}

static int semaphore_signal(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_SEMAPHORE);
  lua_Integer n = luaL_optinteger(L, 2, 1);
  int fits;
  luaL_argcheck(L, n >= 0, 2, "count must not be negative");
  baton_lua_enter(L);
  fits = baton_semaphore_signal(handle->vm->executor, handle->id, (uint64_t)n);
  baton_lua_leave(L);
  luaL_argcheck(L, fits, 2, "count would be more than math.maxinteger");
  return 0;
}

static int semaphore_count(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_SEMAPHORE);
  uint64_t count;
  baton_lua_enter(L);
  count = baton_semaphore_count(handle->vm->executor, handle->id);
  baton_lua_leave(L);
  lua_pushinteger(L, (lua_Integer)count);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Mutex
** ======================================================= */

static int mutex_new(lua_State *L) {
  struct baton_handle *handle;
  baton_lua_take_options(L);
  handle = baton_lua_new_handle(L, BATON_MUTEX, sizeof *handle, 0);
  baton_lua_enter(L);
  handle->id = baton_mutex_new(handle->vm->executor);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int lock(lua_State *L, struct baton_handle *handle, baton_timeout timeout) {
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT_FOR(L, caller,
      baton_mutex_lock(handle->vm->executor, handle->id, timeout == BATON_FOREVER ? 0 : timeout),
      baton_mutex_give_back(handle->vm->executor, handle->id, is_abandoned_), reason);
  if (reason == BATON_TIMED_OUT && timeout == BATON_FOREVER) { /* another process has it */
    baton_lua_check_cycle(L, handle);
    BATON_WAIT_FOR(L, caller, baton_mutex_lock(handle->vm->executor, handle->id, timeout),
        baton_mutex_give_back(handle->vm->executor, handle->id, is_abandoned_), reason);
  }
  if (reason == BATON_MISUSE)
    luaL_error(L, "the mutex is already locked by this process (it is not recursive)");
  return reason;
}

static int mutex_lock(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_MUTEX);
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  return baton_inline_push_outcome(L, lock(L, handle, timeout));
}

static void unlock(lua_State *L, struct baton_handle *handle) {
  int refused;
  baton_lua_enter(L);
  refused = baton_mutex_unlock(handle->vm->executor, handle->id);
  baton_lua_leave(L);
  if (refused)
    luaL_error(L, "the mutex is not locked by this process (only its owner can unlock it)");
}

static int mutex_unlock(lua_State *L) {
  unlock(L, baton_lua_check_handle(L, BATON_MUTEX));
  return 0;
}

/* Unlocks the mutex in upvalue 1. This is the __close method of m:with. */
static int release(lua_State *L) {
  struct baton_handle *handle = lua_touserdata(L, lua_upvalueindex(1));
  baton_lua_enter(L);
  (void)baton_mutex_unlock(handle->vm->executor, handle->id); /* f may have unlocked it */
  baton_lua_leave(L);
  return 0;
}

static int with_done(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_closeslot(L, 1);
  return lua_gettop(L) - 1;
}

/* m:with(f, ...). `f` may yield if it is called in a coroutine. */
static int mutex_with(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_MUTEX);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lock(L, handle, BATON_FOREVER);
  lua_createtable(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, release, 1);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  lua_replace(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, with_done);
  return with_done(L, LUA_OK, 0);
}

/* }====================================================== */

/* {======================================================
** Condition
** ======================================================= */

struct condition {
  struct baton_handle handle;
  /* The instruction of the program that signalled when that last woke nobody. Only compared. */
  const void *function;
  int pc;
};

static int condition_new(lua_State *L) {
  struct baton_handle *handle;
  baton_lua_take_options(L);
  baton_lua_check_handle(L, BATON_MUTEX);
  handle = baton_lua_new_handle(L, BATON_CONDITION, sizeof(struct condition), 1);
  ((struct condition *)handle)->function = NULL;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  baton_lua_enter(L);
  handle->id = baton_condition_new(handle->vm->executor);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int condition_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_CONDITION), *mutex;
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_wake wake;
  int reason;
  lua_getiuservalue(L, 1, 1);
  mutex = lua_touserdata(L, -1);
  BATON_WAIT_FOR(L, caller,
      wake = baton_condition_wait(handle->vm->executor, handle->id, mutex->id, timeout),
      baton_condition_signal(handle->vm->executor, handle->id, 0), reason);
  if (reason == BATON_MISUSE)
    luaL_error(L, "the condition's mutex is not locked by this process");
  /* a value other than 0: the mutex was abandoned */
  return baton_inline_push_outcome(
      L, reason == BATON_DONE && wake.value != 0 ? BATON_ABANDONED : reason);
}

/* Notes where the program has signalled, for reports. A program signals at few places, again and
   again. Inside the VM. */
static void note_place(lua_State *L, struct condition *condition) {
  char place[BATON_SITE];
  int pc = 0;
  const void *function = baton_lua_program_function(L, &pc);
  if (function == condition->function && pc == condition->pc) return;
  condition->function = function;
  condition->pc = pc;
  baton_lua_place(baton_inline_caller(L), place, sizeof place);
  baton_condition_set_place(condition->handle.vm->executor, condition->handle.id, place);
}

static int condition_wake(lua_State *L, int all) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_CONDITION);
  baton_lua_enter(L);
  if (baton_condition_signal(handle->vm->executor, handle->id, all) == 0)
    note_place(L, (struct condition *)handle);
  baton_lua_leave(L);
  return 0;
}

static int condition_signal(lua_State *L) { return condition_wake(L, 0); }
static int condition_broadcast(lua_State *L) { return condition_wake(L, 1); }

/* }====================================================== */

/* {======================================================
** Event
** ======================================================= */

static int event_new(lua_State *L) {
  struct baton_handle *handle;
  baton_lua_take_options(L);
  handle = baton_lua_new_handle(L, BATON_EVENT, sizeof *handle, 0);
  baton_lua_enter(L);
  handle->id = baton_event_new(handle->vm->executor);
  baton_lua_leave(L);
  baton_lua_name_object(L, handle);
  return 1;
}

static int event_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_EVENT);
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT(L, caller, baton_event_wait(handle->vm->executor, handle->id, timeout), reason);
  return baton_inline_push_outcome(L, reason);
}

static int event_change(lua_State *L, int on) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_EVENT);
  baton_lua_enter(L);
  baton_event_set(handle->vm->executor, handle->id, on);
  baton_lua_leave(L);
  return 0;
}

static int event_set(lua_State *L) { return event_change(L, 1); }
static int event_clear(lua_State *L) { return event_change(L, 0); }

static int event_is_set(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_EVENT);
  int on;
  baton_lua_enter(L);
  on = baton_event_is_set(handle->vm->executor, handle->id);
  baton_lua_leave(L);
  lua_pushboolean(L, on);
  return 1;
}

/* }====================================================== */

static const luaL_Reg semaphore_methods[] = {{"wait", semaphore_wait}, {"signal", semaphore_signal},
    {"count", semaphore_count}, {NULL, NULL}};
static const luaL_Reg mutex_methods[] = {
    {"lock", mutex_lock}, {"unlock", mutex_unlock}, {"with", mutex_with}, {NULL, NULL}};
static const luaL_Reg condition_methods[] = {{"wait", condition_wait}, {"signal", condition_signal},
    {"broadcast", condition_broadcast}, {NULL, NULL}};
static const luaL_Reg event_methods[] = {{"set", event_set}, {"clear", event_clear},
    {"wait", event_wait}, {"is_set", event_is_set}, {NULL, NULL}};
static const luaL_Reg constructors[] = {{"semaphore", semaphore_new}, {"mutex", mutex_new},
    {"condition", condition_new}, {"event", event_new}, {NULL, NULL}};

/* Adds the constructors to the module's table on the top of the stack. */
void baton_lua_open_objects(lua_State *L) {
  baton_lua_open_kind(L, BATON_SEMAPHORE, semaphore_methods, NULL);
  baton_lua_open_kind(L, BATON_MUTEX, mutex_methods, NULL);
  baton_lua_open_kind(L, BATON_CONDITION, condition_methods, NULL);
  baton_lua_open_kind(L, BATON_EVENT, event_methods, NULL);
  luaL_setfuncs(L, constructors, 0);
  baton_lua_open_channels(L);
  baton_lua_open_locks(L);
  baton_lua_open_alarms(L);
  baton_lua_open_select(L);
  baton_lua_open_context(L);
}
