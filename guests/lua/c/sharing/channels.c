/*
** vm.channel: channels between VMs. A message is a block with a copy of the value.
*/
#include "sharing/inside.h"

#include <string.h>

#define DEFAULT_CAPACITY 64
#define DEFAULT_BYTES ((lua_Integer)16 << 20)
#define MOST_CAPACITY ((lua_Integer)1 << 30)

static struct baton_shared_channel *channel_of(const struct baton_handle *handle) {
  return (struct baton_shared_channel *)(size_t)handle->id;
}

static struct baton_shared_channel *check_channel(lua_State *L) {
  return channel_of(baton_shared_check_live(L, 1, BATON_SEALED_SHARED_CHANNEL));
}

static size_t size_of_message(const void *message) { return baton_block_size(message); }
static void free_message(void *message) { baton_block_free(message); }
static void visit_message(const void *message, struct baton_visitor *visitor) {
  baton_block_visit(message, visitor);
}
static const struct baton_message_kind messages = {
    size_of_message, free_message, visit_message};

/* {======================================================
** Making a channel
** ======================================================= */

/* The number of bytes in the options on the top of the stack. */
static lua_Integer check_bytes(lua_State *L, int options) {
  lua_Integer bytes = DEFAULT_BYTES;
  int is_integer = 1;
  lua_getfield(L, options, "bytes");
  if (!lua_isnil(L, -1)) bytes = lua_tointegerx(L, -1, &is_integer);
  luaL_argcheck(L, is_integer && bytes >= 1, options, "option 'bytes': positive integer expected");
  lua_pop(L, 1);
  return bytes;
}

/* Raises an error for an unknown option. */
static void check_options(lua_State *L, int options) {
  lua_pushnil(L);
  while (lua_next(L, options)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(key, "bytes") != 0 && strcmp(key, "name") != 0) {
      luaL_tolstring(L, -2, NULL);
      luaL_argerror(L, options, lua_pushfstring(L, "unknown option '%s'", lua_tostring(L, -1)));
    }
    lua_pop(L, 1);
  }
}

/* Leaves the name on the stack. */
static const char *check_name(lua_State *L, int options) {
  if (lua_getfield(L, options, "name") != LUA_TSTRING && !lua_isnil(L, -1))
    luaL_argerror(L, options,
        lua_pushfstring(L, "option 'name': string expected, got %s", luaL_typename(L, -1)));
  return lua_isnil(L, -1) ? "" : lua_tostring(L, -1);
}

/* vm.channel([capacity], {bytes=, name=}) */
int baton_shared_new_channel(lua_State *L) {
  lua_Integer capacity, bytes = DEFAULT_BYTES;
  const char *given = "";
  char name[BATON_OBJECT_NAME];
  struct baton_handle *handle;
  int options = 2;
  if (lua_istable(L, 1)) options = 1;
  capacity = options == 1 ? DEFAULT_CAPACITY : luaL_optinteger(L, 1, DEFAULT_CAPACITY);
  luaL_argcheck(L, capacity != 0, 1,
      "capacity must be at least 1 (a channel between VMs has no rendezvous)");
  luaL_argcheck(L, capacity >= 1, 1, "capacity must not be negative");
  luaL_argcheck(L, capacity <= MOST_CAPACITY, 1, "capacity is too large");
  if (!lua_isnoneornil(L, options)) {
    luaL_checktype(L, options, LUA_TTABLE);
    check_options(L, options);
    bytes = check_bytes(L, options);
    given = check_name(L, options);
  }
  baton_lua_escape(given, strlen(given), name, sizeof name);
  handle = baton_shared_new_handle(L, BATON_SEALED_SHARED_CHANNEL, sizeof *handle);
  handle->id = (uintptr_t)baton_shared_channel_new(
      (uint64_t)capacity, (uint64_t)bytes, name, &messages);
  return 1;
}

static int channel_gc(lua_State *L) {
  struct baton_handle *handle = baton_shared_check(L, 1, BATON_SEALED_SHARED_CHANNEL);
  if (handle->id != 0) baton_shared_channel_release(channel_of(handle));
  handle->id = 0;
  return 0;
}

/* }====================================================== */

/* {======================================================
** Sending and receiving
** ======================================================= */

static struct baton_block *copy_value(lua_State *L, int index) {
  struct baton_block *block = baton_copy_out(L, index, 1, "value");
  if (block == NULL) luaL_error(L, "%s", lua_tostring(L, -1));
  return block;
}

static int channel_send(lua_State *L) {
  struct baton_shared_channel *channel = check_channel(L);
  const baton_timeout timeout = baton_inline_check_timeout(L, 3);
  struct baton_process *caller = baton_shared_waiter(L, timeout);
  struct baton_block *block;
  struct baton_wake wake;
  luaL_argcheck(L, !lua_isnoneornil(L, 2), 2, "value expected (nil cannot be sent)");
  baton_lua_check_memory_for_object(L, caller->vm, 0);
  block = copy_value(L, 2);
  baton_lua_enter(L);
  wake = baton_shared_send(caller->vm->executor, channel, block, timeout);
  baton_lua_leave(L);
  if (wake.reason != BATON_DONE) baton_block_free(block);
  return baton_lua_push_outcome(L, baton_inline_after_wait(L, caller, wake));
}

/* If the caller is about to raise an error, returns the message, and raises it. */
static void give_back(lua_State *L, struct baton_process *caller,
    struct baton_shared_channel *channel, struct baton_wake wake) {
  const enum baton_pending pending = baton_lua_pending(caller);
  if (pending == BATON_PENDING_NOTHING || wake.reason != BATON_DONE) return;
  baton_lua_enter(L);
  baton_shared_give_back(caller->vm->executor, channel, (void *)(size_t)wake.value);
  baton_lua_leave(L);
  baton_lua_raise(L, caller, pending);
}

/* Receives; pushes the value, or `nil, why`. */
static int receive(lua_State *L, struct baton_shared_channel *channel, baton_timeout timeout) {
  struct baton_process *caller = baton_shared_waiter(L, timeout);
  struct baton_wake wake;
  int reason;
  baton_lua_check_memory_for_object(L, caller->vm, 0);
  baton_lua_enter(L);
  wake = baton_shared_receive(caller->vm->executor, channel, timeout);
  baton_lua_leave(L);
  if (l_unlikely(caller->killed || caller->interrupted)) give_back(L, caller, channel, wake);
  reason = baton_inline_after_wait(L, caller, wake);
  if (reason == BATON_DONE) return baton_copy_in(L, (struct baton_block *)(size_t)wake.value);
  return baton_lua_push_outcome(L, reason);
}

static int channel_receive(lua_State *L) {
  struct baton_shared_channel *channel = check_channel(L);
  return receive(L, channel, baton_inline_check_timeout(L, 2));
}

static int channel_next(lua_State *L) {
  lua_settop(L, 0);
  lua_pushvalue(L, lua_upvalueindex(1));
  return receive(L, check_channel(L), BATON_FOREVER);
}

static int channel_values(lua_State *L) {
  check_channel(L);
  lua_settop(L, 1);
  lua_pushcclosure(L, channel_next, 1);
  return 1;
}

static int channel_close(lua_State *L) {
  struct baton_shared_channel *channel = check_channel(L);
  const struct baton_process *caller = baton_inline_caller(L);
  baton_lua_enter(L);
  baton_shared_close(caller->vm->executor, channel);
  baton_lua_leave(L);
  return 0;
}

static int channel_length(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)baton_shared_channel_length(check_channel(L)));
  return 1;
}

/* "baton.vm.channel*: 0x55d0c8a3 (jobs)" */
static int channel_tostring(lua_State *L) {
  char name[BATON_OBJECT_NAME];
  baton_shared_channel_name(check_channel(L), name, sizeof name);
  baton_shared_tostring(L);
  if (name[0] != '\0') lua_pushfstring(L, "%s (%s)", lua_tostring(L, -1), name);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Cases of a select
** ======================================================= */

/* The copy of a value to send, on its way to the select. */
struct message_box {
  const void *seal; /* must be first */
  struct baton_block *block;
};

static int box_gc(lua_State *L) {
  struct message_box *box = baton_lua_check_sealed(L, 1, BATON_SEALED_MESSAGE, "message");
  baton_block_free(box->block);
  box->block = NULL;
  return 0;
}

static void pack(lua_State *L, int index) {
  struct message_box *box = lua_newuserdatauv(L, sizeof *box, 0);
  box->seal = baton_lua_seal(BATON_SEALED_MESSAGE);
  box->block = NULL;
  baton_shared_set_metatable(L, BATON_SEALED_MESSAGE);
  box->block = copy_value(L, index);
  lua_replace(L, index);
}

static uint64_t unpack(void *opaque) {
  struct message_box *box = opaque;
  struct baton_block *block = box->block;
  box->block = NULL;
  return (uintptr_t)block;
}

static void push(lua_State *L, uint64_t message) {
  baton_copy_in(L, (struct baton_block *)(size_t)message);
}

/* }====================================================== */

/* {======================================================
** Sending a channel
** ======================================================= */

static int is_channel(lua_State *L, int index) {
  return baton_lua_test_sealed(L, index, BATON_SEALED_SHARED_CHANNEL) != NULL;
}

static void *hold_channel(lua_State *L, int index, const char **why) {
  struct baton_shared_channel *channel =
      channel_of(baton_lua_test_sealed(L, index, BATON_SEALED_SHARED_CHANNEL));
  *why = "it was collected";
  if (channel != NULL) baton_shared_channel_hold(channel);
  return channel;
}

static void *hold_channel_again(void *object) {
  baton_shared_channel_hold(object);
  return object;
}

static void release_channel(void *object) { baton_shared_channel_release(object); }

static void visit_channel(void *object, struct baton_visitor *visitor) {
  baton_visit_channel(visitor, object);
}

static void push_channel(lua_State *L, void *object) {
  baton_shared_push(
      L, BATON_SEALED_SHARED_CHANNEL, sizeof(struct baton_handle), object, release_channel);
}

struct baton_shared_channel *baton_sharing_hold_channel(lua_State *L, int index) {
  struct baton_shared_channel *channel =
      channel_of(baton_shared_check(L, index, BATON_SEALED_SHARED_CHANNEL));
  baton_shared_channel_hold(channel);
  return channel;
}

void baton_sharing_push_channel(lua_State *L, struct baton_shared_channel *channel) {
  baton_shared_channel_hold(channel);
  push_channel(L, channel);
}

void baton_shared_install_channels(void) {
  static const luaL_Reg methods[] = {{"send", channel_send}, {"receive", channel_receive},
      {"close", channel_close}, {"values", channel_values}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__gc", channel_gc}, {"__len", channel_length},
      {"__tostring", channel_tostring}, {NULL, NULL}};
  static const luaL_Reg none[] = {{NULL, NULL}}, of_box[] = {{"__gc", box_gc}, {NULL, NULL}};
  static const struct baton_sendable kind = {
      is_channel, hold_channel, push_channel, release_channel, hold_channel_again,
      visit_channel};
  static const struct baton_shared_cases cases = {pack, unpack, push};
  baton_shared_install_kind(BATON_SEALED_MESSAGE, none, of_box);
  baton_shared_install_kind(BATON_SEALED_SHARED_CHANNEL, methods, metamethods);
  baton_copy_register(&kind);
  baton_shared_cases = cases;
}

/* }====================================================== */
