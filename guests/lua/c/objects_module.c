/*
** Channel, select, semaphore, mutex, condition, event (rwlock and barrier: locks_module.c). The kernel has the objects; here are their handles, and the values that
** channels carry: a value waits in the channel's table under a small number (its token), which is what the kernel passes on.
*/
#include "objects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct channel {
  struct baton_handle handle; /* must be first: freed like the others */
  uint32_t *free_tokens;
  uint32_t free_count, free_capacity, next_token;
};

static const char *const type_names[] = {"baton.semaphore*", "baton.mutex*",  "baton.condition*", "baton.event*", "baton.channel*",
                                         NULL,               NULL,            "baton.rwlock*",    "baton.barrier*"};

struct baton_handle *baton_lua_new_handle(lua_State *L, int kind, size_t size, int values) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_handle *handle = lua_newuserdatauv(L, size, values);
  memset(handle, 0, size);
  handle->vm = caller->vm;
  handle->kind = kind;
  luaL_setmetatable(L, type_names[kind]);
  return handle;
}

struct baton_handle *baton_lua_check_handle(lua_State *L, int kind) {
  static const char *const names[] = {"semaphore", "mutex", "condition", "event", "channel", NULL, NULL, "rwlock", "barrier"};
  struct baton_handle *handle = luaL_testudata(L, 1, type_names[kind]);
  if (handle == NULL) luaL_typeerror(L, 1, names[kind]);
  return handle;
}

/* Of the kind that is upvalue 1. */
static int handle_gc(lua_State *L) {
  struct baton_handle *handle = luaL_checkudata(L, 1, type_names[lua_tointeger(L, lua_upvalueindex(1))]);
  if (handle->id != 0) {
    baton_enter(L);
    baton_rs_free(handle->vm->executor, handle->kind, handle->id);
    baton_leave(L);
    handle->id = 0;
  }
  return 0;
}

struct baton_process *baton_lua_waiter(lua_State *L, baton_timeout timeout) {
  struct baton_process *caller = baton_lua_caller(L);
  if (timeout != 0) baton_lua_check_may_wait(L, caller);
  return caller;
}

/* {======================================================
** Semaphore
** ======================================================= */

static int semaphore_new(lua_State *L) {
  lua_Integer count = luaL_optinteger(L, 1, 0);
  struct baton_handle *handle;
  luaL_argcheck(L, count >= 0, 1, "count must not be negative");
  handle = baton_lua_new_handle(L, BATON_SEMAPHORE, sizeof *handle, 0);
  baton_enter(L);
  handle->id = baton_rs_semaphore_new(handle->vm->executor, (uint64_t)count);
  baton_leave(L);
  return 1;
}

static int semaphore_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_SEMAPHORE);
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT_FOR(L, caller, baton_rs_semaphore_wait(handle->vm->executor, handle->id, timeout),
                 baton_rs_semaphore_signal(handle->vm->executor, handle->id, 1), reason);
  return baton_lua_push_outcome(L, reason);
}

static int semaphore_signal(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_SEMAPHORE);
  lua_Integer n = luaL_optinteger(L, 2, 1);
  int fits;
  luaL_argcheck(L, n >= 0, 2, "count must not be negative");
  baton_enter(L);
  fits = baton_rs_semaphore_count(handle->vm->executor, handle->id) <= (uint64_t)(LUA_MAXINTEGER - n);
  if (fits) baton_rs_semaphore_signal(handle->vm->executor, handle->id, (uint64_t)n);
  baton_leave(L);
  luaL_argcheck(L, fits, 2, "count would be more than math.maxinteger");
  return 0;
}

static int semaphore_count(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_SEMAPHORE);
  uint64_t count;
  baton_enter(L);
  count = baton_rs_semaphore_count(handle->vm->executor, handle->id);
  baton_leave(L);
  lua_pushinteger(L, (lua_Integer)count);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Mutex
** ======================================================= */

static int mutex_new(lua_State *L) {
  struct baton_handle *handle = baton_lua_new_handle(L, BATON_MUTEX, sizeof *handle, 0);
  baton_enter(L);
  handle->id = baton_rs_mutex_new(handle->vm->executor);
  baton_leave(L);
  return 1;
}

static int lock(lua_State *L, struct baton_handle *handle, baton_timeout timeout) {
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT_FOR(L, caller, baton_rs_mutex_lock(handle->vm->executor, handle->id, timeout),
                 baton_rs_mutex_unlock(handle->vm->executor, handle->id), reason);
  if (reason == BATON_MISUSE) luaL_error(L, "the mutex is already locked by this process (it is not recursive)");
  return reason;
}

static int mutex_lock(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_MUTEX);
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  return baton_lua_push_outcome(L, lock(L, handle, timeout));
}

static void unlock(lua_State *L, struct baton_handle *handle) {
  int refused;
  baton_enter(L);
  refused = baton_rs_mutex_unlock(handle->vm->executor, handle->id);
  baton_leave(L);
  if (refused) luaL_error(L, "the mutex is not locked by this process (only its owner can unlock it)");
}

static int mutex_unlock(lua_State *L) {
  unlock(L, baton_lua_check_handle(L, BATON_MUTEX));
  return 0;
}

/* Unlocks the mutex that is upvalue 1: the closing value of m:with. */
static int release(lua_State *L) {
  struct baton_handle *handle = lua_touserdata(L, lua_upvalueindex(1));
  baton_enter(L);
  (void)baton_rs_mutex_unlock(handle->vm->executor, handle->id); /* f may have unlocked it itself */
  baton_leave(L);
  return 0;
}

static int with_done(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  lua_closeslot(L, 1);
  return lua_gettop(L) - 1;
}

/* The function may yield, if it is called in a coroutine. */
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

static int condition_new(lua_State *L) {
  struct baton_handle *handle;
  baton_lua_check_handle(L, BATON_MUTEX);
  handle = baton_lua_new_handle(L, BATON_CONDITION, sizeof *handle, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  baton_enter(L);
  handle->id = baton_rs_condition_new(handle->vm->executor);
  baton_leave(L);
  return 1;
}

static int condition_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_CONDITION), *mutex;
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_wake wake;
  int reason;
  lua_getiuservalue(L, 1, 1);
  mutex = lua_touserdata(L, -1);
  baton_enter(L);
  wake = baton_rs_condition_wait(handle->vm->executor, handle->id, mutex->id, timeout);
  baton_leave(L);
  if (wake.reason == BATON_MISUSE) luaL_error(L, "the condition's mutex is not locked by this process");
  reason = baton_lua_after_wait(L, caller, wake);
  return baton_lua_push_outcome(L, reason == BATON_DONE && wake.value != 0 ? BATON_ABANDONED : reason); /* the mutex was */
}

static int condition_wake(lua_State *L, int all) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_CONDITION);
  baton_enter(L);
  baton_rs_condition_signal(handle->vm->executor, handle->id, all);
  baton_leave(L);
  return 0;
}

static int condition_signal(lua_State *L) { return condition_wake(L, 0); }
static int condition_broadcast(lua_State *L) { return condition_wake(L, 1); }

/* }====================================================== */

/* {======================================================
** Event
** ======================================================= */

static int event_new(lua_State *L) {
  struct baton_handle *handle = baton_lua_new_handle(L, BATON_EVENT, sizeof *handle, 0);
  baton_enter(L);
  handle->id = baton_rs_event_new(handle->vm->executor);
  baton_leave(L);
  return 1;
}

static int event_wait(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_EVENT);
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  int reason;
  BATON_WAIT(L, caller, baton_rs_event_wait(handle->vm->executor, handle->id, timeout), reason);
  return baton_lua_push_outcome(L, reason);
}

static int event_change(lua_State *L, int on) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_EVENT);
  baton_enter(L);
  baton_rs_event_set(handle->vm->executor, handle->id, on);
  baton_leave(L);
  return 0;
}

static int event_set(lua_State *L) { return event_change(L, 1); }
static int event_clear(lua_State *L) { return event_change(L, 0); }

static int event_is_set(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_EVENT);
  int on;
  baton_enter(L);
  on = baton_rs_event_is_set(handle->vm->executor, handle->id);
  baton_leave(L);
  lua_pushboolean(L, on);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Channel
** ======================================================= */

/* Puts the value at `index` into the channel's table (on the top of the stack) under a token. */
static uint32_t store_value(lua_State *L, struct channel *channel, int index) {
  uint32_t token = channel->free_count > 0 ? channel->free_tokens[--channel->free_count] : ++channel->next_token;
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, (lua_Integer)token);
  return token;
}

static void free_token(lua_State *L, struct channel *channel, uint32_t token) {
  if (channel->free_count == channel->free_capacity) {
    uint32_t capacity = channel->free_capacity == 0 ? 8 : channel->free_capacity * 2;
    uint32_t *larger = realloc(channel->free_tokens, capacity * sizeof *larger);
    if (larger == NULL) luaL_error(L, "not enough memory");
    channel->free_tokens = larger;
    channel->free_capacity = capacity;
  }
  channel->free_tokens[channel->free_count++] = token;
}

/* Takes the value of a token out of the table on the top of the stack, and pushes it. */
static void take_value(lua_State *L, struct channel *channel, uint32_t token) {
  lua_rawgeti(L, -1, (lua_Integer)token);
  lua_pushnil(L);
  lua_rawseti(L, -3, (lua_Integer)token);
  free_token(L, channel, token);
}

static int channel_new(lua_State *L) {
  lua_Integer capacity = luaL_optinteger(L, 1, 0);
  struct channel *channel;
  luaL_argcheck(L, capacity >= 0, 1, "capacity must not be negative");
  channel = (struct channel *)baton_lua_new_handle(L, BATON_CHANNEL, sizeof *channel, 1);
  lua_newtable(L);
  lua_setiuservalue(L, -2, 1);
  baton_enter(L);
  channel->handle.id = baton_rs_channel_new(channel->handle.vm->executor, (uint64_t)capacity);
  baton_leave(L);
  return 1;
}

static int channel_gc(lua_State *L) {
  struct channel *channel = luaL_checkudata(L, 1, type_names[BATON_CHANNEL]);
  free(channel->free_tokens);
  channel->free_tokens = NULL;
  channel->free_count = channel->free_capacity = 0;
  return handle_gc(L);
}

static int channel_send(lua_State *L) {
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  baton_timeout timeout = baton_lua_check_timeout(L, 3);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_wake wake;
  uint32_t token;
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "value expected (nil cannot be sent)");
  lua_getiuservalue(L, 1, 1);
  token = store_value(L, channel, 2);
  baton_enter(L);
  wake = baton_rs_channel_send(channel->handle.vm->executor, channel->handle.id, token, timeout);
  baton_leave(L);
  if (wake.reason != BATON_DONE) take_value(L, channel, token);
  return baton_lua_push_outcome(L, baton_lua_after_wait(L, caller, wake));
}

/* Receives from the channel at index 1; pushes the value, or `nil, why`. */
static int receive(lua_State *L, struct channel *channel, baton_timeout timeout) {
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_wake wake;
  int reason;
  lua_getiuservalue(L, 1, 1);
  baton_enter(L);
  wake = baton_rs_channel_receive(channel->handle.vm->executor, channel->handle.id, timeout);
  baton_leave(L);
  if (wake.reason == BATON_DONE) take_value(L, channel, (uint32_t)wake.value);
  reason = baton_lua_after_wait(L, caller, wake);
  return reason == BATON_DONE ? 1 : baton_lua_push_outcome(L, reason);
}

static int channel_receive(lua_State *L) {
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  return receive(L, channel, baton_lua_check_timeout(L, 2));
}

static int channel_next(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  return receive(L, lua_touserdata(L, 1), BATON_FOREVER);
}

static int channel_values(lua_State *L) {
  baton_lua_check_handle(L, BATON_CHANNEL);
  lua_settop(L, 1);
  lua_pushcclosure(L, channel_next, 1);
  return 1;
}

static int channel_close(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_CHANNEL);
  baton_enter(L);
  baton_rs_channel_close(handle->vm->executor, handle->id);
  baton_leave(L);
  return 0;
}

static int channel_length(lua_State *L) {
  struct baton_handle *handle = baton_lua_check_handle(L, BATON_CHANNEL);
  uint64_t length;
  baton_enter(L);
  length = baton_rs_channel_length(handle->vm->executor, handle->id);
  baton_leave(L);
  lua_pushinteger(L, (lua_Integer)length);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Select
** ======================================================= */

#define MOST_CASES 10000

/* Reads case `i` of the table at index 1: leaves its channel's table of values on the stack, and the channel in `channels`. */
static void read_case(lua_State *L, int i, struct baton_case *cases, struct channel **channels) {
  int type = lua_rawgeti(L, 1, i + 1);
  int at = lua_gettop(L);
  if (type == LUA_TTABLE) {
    lua_rawgeti(L, at, 1);
    lua_rawgeti(L, at, 2);
    if (lua_isnil(L, -1))
      luaL_argerror(L, 1, lua_pushfstring(L, "case %d: {channel, value} expected (nil cannot be sent)", i + 1));
    cases[i].sends = 1;
  } else {
    lua_pushvalue(L, at);
    lua_pushnil(L);
  }
  channels[i] = luaL_testudata(L, at + 1, type_names[BATON_CHANNEL]);
  if (channels[i] == NULL)
    luaL_argerror(L, 1, lua_pushfstring(L, "case %d: channel or {channel, value} expected, got %s", i + 1, luaL_typename(L, at)));
  cases[i].channel = channels[i]->handle.id;
  lua_getiuservalue(L, at + 1, 1);
  lua_replace(L, at); /* at: values, at + 1: channel, at + 2: value to send */
}

static int process_select(lua_State *L) {
  baton_timeout timeout = baton_lua_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_case *cases;
  struct channel **channels;
  struct baton_wake wake;
  lua_Integer length;
  int i, count, reason;
  luaL_checktype(L, 1, LUA_TTABLE);
  length = luaL_len(L, 1);
  luaL_argcheck(L, length >= 0, 1, "number of cases must not be negative");
  luaL_argcheck(L, length <= MOST_CASES, 1, "too many cases (the limit is 10000)");
  count = (int)length;
  luaL_argcheck(L, count > 0 || timeout != BATON_FOREVER, 1, "no cases and no timeout: this would wait for ever");
  lua_settop(L, 2);
  cases = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *cases, 0);
  memset(cases, 0, (size_t)(count + 1) * sizeof *cases);
  channels = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *channels, 0);
  luaL_checkstack(L, 3 * count + 4, "too many cases");
  for (i = 0; i < count; i++) read_case(L, i, cases, channels);
  for (i = 0; i < count; i++) { /* nothing raises between the stores and the wait but lack of memory */
    if (!cases[i].sends) continue;
    lua_pushvalue(L, 5 + 3 * i);
    cases[i].value = store_value(L, channels[i], 7 + 3 * i);
    lua_pop(L, 1);
  }
  baton_enter(L);
  wake = baton_rs_select(caller->vm->executor, cases, (size_t)count, timeout);
  baton_leave(L);
  for (i = 0; i < count; i++) {
    int done = wake.reason == BATON_DONE && (int)wake.case_index == i;
    if (!cases[i].sends || done) continue;
    lua_pushvalue(L, 5 + 3 * i);
    take_value(L, channels[i], (uint32_t)cases[i].value);
    lua_pop(L, 2);
  }
  i = (int)wake.case_index;
  if (wake.reason == BATON_DONE && !cases[i].sends) {
    lua_pushvalue(L, 5 + 3 * i);
    take_value(L, channels[i], (uint32_t)wake.value);
  } else {
    lua_pushboolean(L, 1);
  }
  reason = baton_lua_after_wait(L, caller, wake);
  if (reason != BATON_DONE && reason != BATON_CLOSED) return baton_lua_push_outcome(L, reason);
  lua_pushinteger(L, i + 1);
  if (reason == BATON_CLOSED) {
    lua_pushnil(L);
    lua_pushliteral(L, "closed");
    return 3;
  }
  lua_insert(L, -2);
  return 2;
}

/* }====================================================== */

static const luaL_Reg semaphore_methods[] = {
    {"wait", semaphore_wait}, {"signal", semaphore_signal}, {"count", semaphore_count}, {NULL, NULL}};
static const luaL_Reg mutex_methods[] = {{"lock", mutex_lock}, {"unlock", mutex_unlock}, {"with", mutex_with}, {NULL, NULL}};
static const luaL_Reg condition_methods[] = {
    {"wait", condition_wait}, {"signal", condition_signal}, {"broadcast", condition_broadcast}, {NULL, NULL}};
static const luaL_Reg event_methods[] = {
    {"set", event_set}, {"clear", event_clear}, {"wait", event_wait}, {"is_set", event_is_set}, {NULL, NULL}};
static const luaL_Reg channel_methods[] = {{"send", channel_send},     {"receive", channel_receive},
                                           {"close", channel_close},   {"values", channel_values},
                                           {NULL, NULL}};
static const luaL_Reg constructors[] = {{"semaphore", semaphore_new}, {"mutex", mutex_new}, {"condition", condition_new},
                                        {"event", event_new},         {"channel", channel_new}, {"select", process_select},
                                        {NULL, NULL}};

void baton_lua_open_kind(lua_State *L, int kind, const luaL_Reg *type_methods, lua_CFunction gc) {
  luaL_newmetatable(L, type_names[kind]);
  lua_newtable(L);
  luaL_setfuncs(L, type_methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushinteger(L, kind);
  lua_pushcclosure(L, gc != NULL ? gc : handle_gc, 1);
  lua_setfield(L, -2, "__gc");
  if (kind == BATON_CHANNEL) {
    lua_pushcfunction(L, channel_length);
    lua_setfield(L, -2, "__len");
  }
  lua_pop(L, 1);
}

/* Adds the constructors to the module's table on the top of the stack. */
void baton_lua_open_objects(lua_State *L) {
  baton_lua_open_kind(L, BATON_SEMAPHORE, semaphore_methods, NULL);
  baton_lua_open_kind(L, BATON_MUTEX, mutex_methods, NULL);
  baton_lua_open_kind(L, BATON_CONDITION, condition_methods, NULL);
  baton_lua_open_kind(L, BATON_EVENT, event_methods, NULL);
  baton_lua_open_kind(L, BATON_CHANNEL, channel_methods, channel_gc);
  luaL_setfuncs(L, constructors, 0);
  baton_lua_open_locks(L);
}
