/*
** Channels. A value waits in the channel's table. The scheduler passes on its key, a small number
** called token.
*/
#include "objects/waits.h"

#include <stdlib.h>

/* The slots that a table of values has room for at first. */
#define FIRST_VALUES 4

static uint32_t take_token(struct channel *channel) {
  return channel->free_count > 0 ? channel->free_tokens[--channel->free_count]
                                 : ++channel->next_token;
}

static void free_token(struct channel *channel, uint32_t token) {
  if (channel->free_count == channel->free_capacity) {
    uint32_t capacity = channel->free_capacity == 0 ? 8 : channel->free_capacity * 2;
    uint32_t *larger = realloc(channel->free_tokens, capacity * sizeof *larger);
    if (larger == NULL) return; /* the token is never used again */
    channel->free_tokens = larger;
    channel->free_capacity = capacity;
  }
  channel->free_tokens[channel->free_count++] = token;
}

/* The table of a channel's values. */
static Table *values_of(const struct channel *channel) {
  const char *memory = (const char *)channel;
  const Udata *userdata = (const Udata *)(memory - udatamemoffset(1));
  return hvalue(&userdata->uv[0].uv);
}

/* The slot of a token in the array part, or NULL. */
static TValue *slot_of(const Table *values, uint32_t token) {
  return token - 1u < values->alimit ? &values->array[token - 1u] : NULL;
}

uint32_t baton_lua_store_value(lua_State *L, struct channel *channel, int index) {
  Table *values = values_of(channel);
  TValue *value = s2v(L->ci->func.p + index);
  const uint32_t token = take_token(channel);
  TValue *slot = slot_of(values, token);
  if (l_likely(slot != NULL)) {
    setobj2t(L, slot, value);
  } else {
    luaH_setint(L, values, (lua_Integer)token, value);
  }
  luaC_barrierback(L, obj2gco(values), value);
  return token;
}

void baton_lua_take_value(lua_State *L, struct channel *channel, uint32_t token) {
  Table *values = values_of(channel);
  TValue *slot = slot_of(values, token);
  if (l_unlikely(slot == NULL)) slot = (TValue *)(size_t)luaH_getint(values, (lua_Integer)token);
  setobj2s(L, L->top.p, slot);
  api_incr_top(L);
  if (channel->signals != 0) return; /* the value stays for the next time */
  if (l_likely(!isabstkey(slot))) setnilvalue(slot);
  free_token(channel, token);
}

void baton_lua_give_back_value(lua_State *L, struct channel *channel, uint32_t token) {
  if (channel->signals == 0) token = baton_lua_store_value(L, channel, lua_gettop(L));
  baton_channel_give_back(channel->handle.vm->executor, channel->handle.id, token);
}

struct channel *baton_lua_new_channel(lua_State *L, lua_Integer capacity) {
  struct channel *channel =
      (struct channel *)baton_lua_new_handle(L, BATON_CHANNEL, sizeof *channel, 1);
  lua_createtable(L, FIRST_VALUES, 0);
  lua_setiuservalue(L, -2, 1);
  baton_lua_enter(L);
  channel->handle.id = baton_channel_new(channel->handle.vm->executor, (uint64_t)capacity);
  baton_lua_leave(L);
  return channel;
}

static int channel_new(lua_State *L) {
  lua_Integer capacity;
  struct channel *channel;
  baton_lua_take_options(L);
  capacity = luaL_optinteger(L, 1, 0);
  luaL_argcheck(L, capacity >= 0, 1, "capacity must not be negative");
  channel = baton_lua_new_channel(L, capacity);
  baton_lua_name_object(L, (struct baton_handle *)channel);
  return 1;
}

static int channel_gc(lua_State *L) {
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  baton_lua_enter(L);
  if (channel->source != NULL) channel->source->end(channel);
  baton_lua_leave(L);
  free(channel->free_tokens);
  channel->free_tokens = NULL;
  channel->free_count = channel->free_capacity = 0;
  return baton_lua_collect_handle(L);
}

static int channel_send(lua_State *L) {
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  baton_timeout timeout = baton_inline_check_timeout(L, 3);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  struct baton_wake wake;
  uint32_t token;
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "value expected (nil cannot be sent)");
  if (channel->signals != 0) luaL_error(L, "nothing can be sent to a channel of signals");
  baton_lua_check_memory_for_object(L, caller->vm, channel->handle.id);
  baton_lua_enter(L);
  token = baton_lua_store_value(L, channel, 2);
  wake = baton_channel_send(channel->handle.vm->executor, channel->handle.id, token, timeout);
  if (l_unlikely(wake.reason != BATON_DONE)) baton_lua_take_value(L, channel, token);
  baton_lua_leave(L);
  return baton_inline_push_outcome(L, baton_inline_after_wait(L, caller, wake));
}

/* Receives a value, pushes it, and writes its token. Inside the VM. */
static struct baton_wake take_next(lua_State *L, struct channel *channel, baton_timeout timeout,
    uint32_t *token) {
  struct baton_lua_vm *vm = channel->handle.vm;
  struct baton_wake wake;
  if (channel->source != NULL) channel->source->deliver(vm);
  wake = baton_channel_receive(vm->executor, channel->handle.id, timeout);
  *token = (uint32_t)wake.value;
  if (l_likely(wake.reason == BATON_DONE)) baton_lua_take_value(L, channel, *token);
  return wake;
}

/* Receives from the channel at index 1; pushes the value, or `nil, why`. */
static int receive(lua_State *L, struct channel *channel, baton_timeout timeout) {
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  uint32_t token = 0;
  int reason;
  BATON_WAIT_FOR(L, caller, take_next(L, channel, timeout, &token),
      baton_lua_give_back_value(L, channel, token), reason);
  return reason == BATON_DONE ? 1 : baton_inline_push_outcome(L, reason);
}

static int channel_receive(lua_State *L) {
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  return receive(L, channel, baton_inline_check_timeout(L, 2));
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
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  baton_lua_enter(L);
  if (channel->source != NULL) channel->source->end(channel);
  baton_channel_close(channel->handle.vm->executor, channel->handle.id);
  baton_lua_leave(L);
  return 0;
}

static int channel_length(lua_State *L) {
  struct channel *channel = (struct channel *)baton_lua_check_handle(L, BATON_CHANNEL);
  uint64_t length;
  baton_lua_enter(L);
  if (channel->source != NULL) channel->source->deliver(channel->handle.vm);
  length = baton_channel_length(channel->handle.vm->executor, channel->handle.id);
  baton_lua_leave(L);
  lua_pushinteger(L, (lua_Integer)length);
  return 1;
}

static const luaL_Reg channel_methods[] = {{"send", channel_send},     {"receive", channel_receive},
                                           {"close", channel_close},   {"values", channel_values},
                                           {NULL, NULL}};

/* Adds the constructor to the module's table on the top of the stack. */
void baton_lua_open_channels(lua_State *L) {
  baton_lua_open_kind(L, BATON_CHANNEL, channel_methods, channel_gc);
  baton_lua_push_sealed_metatable(L, BATON_CHANNEL);
  lua_pushcfunction(L, channel_length);
  lua_setfield(L, -2, "__len");
  lua_pop(L, 1);
  lua_pushcfunction(L, channel_new);
  lua_setfield(L, -2, "channel");
}
