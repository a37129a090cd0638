/*
** A transport over connections of baton.net: each byte is xored. It begins with a byte of each side
** and ends with one, takes little at once, and sends little at once. So each of its functions has
** to be called again.
*/
#include <stdlib.h>
#include <string.h>

#include "lauxlib.h"
#include "baton_net.h"

#define KEY 0x5a
#define HELLO 'H'
#define GOODBYE 'B'
#define MOST 1000 /* bytes that it takes at once */

struct state {
  unsigned char waiting[MOST]; /* to be sent */
  size_t count;
  int has_greeted, was_greeted, has_ended;
};

static int frees; /* how many states were freed */

static ssize_t flush(void *argument, struct baton_net_connection *connection) {
  struct state *state = argument;
  while (state->count > 0) {
    struct iovec part = {state->waiting, state->count < 300 ? state->count : 300};
    const ssize_t sent = baton_net_plain_write(connection, &part, 1);
    if (sent < 0) return sent;
    state->count -= (size_t)sent;
    memmove(state->waiting, state->waiting + sent, state->count);
  }
  return 0;
}

static ssize_t read_plain(void *argument, struct baton_net_connection *connection, void *data,
    size_t size) {
  unsigned char *bytes = data;
  ssize_t got, i;
  (void)argument;
  got = baton_net_plain_read(connection, data, size < 700 ? size : 700);
  for (i = 0; i < got; i++) bytes[i] ^= KEY;
  if (got > 0 && bytes[got - 1] == GOODBYE + 128) return got - 1;
  return got;
}

static ssize_t write_plain(void *argument, struct baton_net_connection *connection,
    const struct iovec *parts, int count) {
  struct state *state = argument;
  const ssize_t left = flush(argument, connection);
  size_t taken = 0;
  int i;
  if (left < 0) return left;
  for (i = 0; i < count; i++) {
    const unsigned char *bytes = parts[i].iov_base;
    size_t j;
    for (j = 0; j < parts[i].iov_len && state->count < MOST; j++, taken++)
      state->waiting[state->count++] = bytes[j] ^ KEY;
  }
  return (ssize_t)taken;
}

static ssize_t handshake(void *argument, struct baton_net_connection *connection) {
  struct state *state = argument;
  ssize_t result;
  if (!state->has_greeted) state->waiting[state->count++] = HELLO;
  state->has_greeted = 1;
  result = flush(argument, connection);
  if (result < 0 || state->was_greeted) return result;
  {
    char byte;
    result = baton_net_plain_read(connection, &byte, 1);
    if (result < 0) return result;
    if (result == 0 || byte != HELLO) {
      baton_net_set_fault(connection, 0, "the other side does not greet");
      return BATON_NET_FAULTY;
    }
  }
  state->was_greeted = 1;
  return 0;
}

static ssize_t end(void *argument, struct baton_net_connection *connection) {
  struct state *state = argument;
  if (!state->has_ended && state->count < MOST)
    state->waiting[state->count++] = (GOODBYE + 128) ^ KEY;
  state->has_ended = 1;
  return flush(argument, connection);
}

static void free_state(void *argument) {
  frees++;
  free(argument);
}

static const struct baton_net_transport transport = {
    "xor", read_plain, write_plain, flush, handshake, end, free_state};

/* install(connection) -> the connection, or nil and why */
static int install(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  struct state *state = calloc(1, sizeof *state);
  enum baton_net_result result;
  if (!baton_net_install(connection, &transport, state)) {
    free(state);
    return luaL_error(L, "not installed");
  }
  result = baton_net_handshake(L, connection, baton_net_deadline(connection));
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  lua_settop(L, 1);
  return 1;
}

/* read(connection, size): up to `size` bytes past the buffer, or nil and why */
static int read_some(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  const size_t size = (size_t)luaL_checkinteger(L, 2);
  char *room = lua_newuserdatauv(L, size + 1, 0);
  size_t got;
  const enum baton_net_result result =
      baton_net_read(L, connection, room, size, &got, UINT64_MAX);
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  lua_pushlstring(L, room, got);
  return 1;
}

/* info(connection): the transport's name, whether it is open, the fault; and the states freed */
static int info(lua_State *L) {
  struct baton_net_connection *connection = baton_net_test(L, 1);
  if (connection == NULL) return 0;
  lua_pushstring(L, baton_net_transport_name(connection));
  lua_pushboolean(L, baton_net_is_open(connection));
  lua_pushboolean(L, baton_net_transport_state(connection, &transport) != NULL);
  lua_pushinteger(L, frees);
  return 4;
}

int luaopen_net_transport(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"install", install}, {"read", read_some}, {"info", info}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
