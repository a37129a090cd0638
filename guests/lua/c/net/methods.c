/*
** The methods of connections.
*/
#include "net/inside.h"

#include <string.h>

#define MOST_AT_ONCE 32 /* arguments of write in one system call */

static struct baton_net_connection *connection_at_1(lua_State *L) {
  return baton_net_socket_at_1(L, BATON_SEALED_CONNECTION);
}

/* {======================================================
** Reading
** ======================================================= */

/* Pushes the first bytes of the buffer and takes them away. */
static int push_first(
    lua_State *L, struct baton_net_connection *connection, size_t size, size_t taken) {
  size_t buffered;
  lua_pushlstring(L, baton_net_view(connection, &buffered), size);
  baton_net_consume(connection, taken);
  return 1;
}

static int too_long(lua_State *L) {
  lua_pushnil(L);
  lua_pushliteral(L, "too long");
  return 2;
}

static int read_count(
    lua_State *L, struct baton_net_connection *connection, lua_Integer count, uint64_t deadline) {
  enum baton_net_result result;
  luaL_argcheck(L, count >= 0, 2, "number of bytes expected, got a negative number");
  result = baton_net_fill(L, connection, (size_t)count, deadline);
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  return push_first(L, connection, (size_t)count, (size_t)count);
}

static int read_some(lua_State *L, struct baton_net_connection *connection, uint64_t deadline) {
  const enum baton_net_result result = baton_net_fill(L, connection, 1, deadline);
  size_t size;
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  (void)baton_net_view(connection, &size);
  return push_first(L, connection, size, size);
}

static int read_line(lua_State *L, struct baton_net_connection *connection, uint64_t deadline) {
  const size_t most = connection->bounds.line;
  struct baton_net_turn turn;
  size_t seen = 0, size; /* bytes without a line's end */
  baton_net_begin(L, connection, &turn, BATON_NET_READS);
  for (;;) {
    const char *data = baton_net_view(connection, &size);
    const char *found = size > seen ? memchr(data + seen, '\n', size - seen) : NULL;
    enum baton_net_result result;
    if (found != NULL) {
      const size_t taken = (size_t)(found - data) + 1;
      const size_t length = taken > 1 && found[-1] == '\r' ? taken - 2 : taken - 1;
      baton_net_end(L, &turn);
      return length > most ? too_long(L) : push_first(L, connection, length, taken);
    }
    seen = size;
    if (seen > most + 1) break; /* with "\r", which may belong to the end */
    result = baton_net_fill(L, connection, size + 1, deadline);
    if (result != BATON_NET_DONE) {
      baton_net_end(L, &turn);
      return baton_net_push_result(L, connection, result);
    }
  }
  baton_net_end(L, &turn);
  return too_long(L);
}

static int read_all(lua_State *L, struct baton_net_connection *connection, uint64_t deadline) {
  struct baton_net_turn turn;
  enum baton_net_result result = BATON_NET_DONE;
  size_t size = 0;
  baton_net_begin(L, connection, &turn, BATON_NET_READS);
  while (result == BATON_NET_DONE && size <= connection->bounds.all) {
    result = baton_net_fill(L, connection, size + 1, deadline);
    (void)baton_net_view(connection, &size);
  }
  baton_net_end(L, &turn);
  if (size > connection->bounds.all) return too_long(L);
  if (result != BATON_NET_END) return baton_net_push_result(L, connection, result);
  return push_first(L, connection, size, size);
}

/* conn:read([what], [timeout]) */
static int connection_read(lua_State *L) {
  struct baton_net_connection *connection = connection_at_1(L);
  const uint64_t deadline = baton_net_deadline_at(L, 3, connection->timeout);
  const char *what;
  if (lua_type(L, 2) == LUA_TNUMBER)
    return read_count(L, connection, luaL_checkinteger(L, 2), deadline);
  what = lua_isnoneornil(L, 2) ? "line" : luaL_checkstring(L, 2);
  if (strcmp(what, "line") == 0) return read_line(L, connection, deadline);
  if (strcmp(what, "some") == 0) return read_some(L, connection, deadline);
  if (strcmp(what, "all") == 0) return read_all(L, connection, deadline);
  return luaL_argerror(L, 2,
      lua_pushfstring(
          L, "number of bytes, 'line', 'some' or 'all' expected, got '%s'", what));
}

static int next_line(lua_State *L) {
  struct baton_net_connection *connection = connection_at_1(L);
  return read_line(L, connection, baton_net_deadline_in(connection->timeout));
}

/* for line in conn:lines() do */
static int connection_lines(lua_State *L) {
  (void)connection_at_1(L);
  lua_pushcfunction(L, next_line);
  lua_pushvalue(L, 1);
  return 2;
}

/* }====================================================== */

/* {======================================================
** Writing
** ======================================================= */

static int push_unwritten(lua_State *L, const struct baton_net_connection *connection,
    enum baton_net_result result, size_t written) {
  baton_net_push_result(L, connection, result);
  lua_pushinteger(L, (lua_Integer)written);
  return 3;
}

/* Notes the arguments from `first` on, at most MOST_AT_ONCE. Returns how many. */
static int note_parts(lua_State *L, int first, int top, struct iovec *parts) {
  int count = 0;
  while (count < MOST_AT_ONCE && first + count <= top) {
    size_t size;
    const char *text = lua_tolstring(L, first + count, &size);
    parts[count].iov_base = (char *)(size_t)text;
    parts[count++].iov_len = size;
  }
  return count;
}

/* conn:write(s, ...) */
static int connection_write(lua_State *L) {
  struct baton_net_connection *connection = connection_at_1(L);
  const uint64_t deadline = baton_net_deadline_in(connection->timeout);
  const int top = lua_gettop(L);
  enum baton_net_result result = BATON_NET_DONE;
  struct iovec parts[MOST_AT_ONCE];
  struct baton_net_turn turn;
  size_t all = 0;
  int i;
  for (i = 2; i <= top; i++) (void)luaL_checklstring(L, i, NULL);
  if (l_unlikely(top > MOST_AT_ONCE + 1))
    baton_net_begin(L, connection, &turn, BATON_NET_WRITES);
  for (i = 2; i <= top && result == BATON_NET_DONE; i += MOST_AT_ONCE) {
    size_t written;
    const int count = note_parts(L, i, top, parts);
    result = baton_net_write(L, connection, parts, count, &written, deadline);
    all += written;
  }
  if (l_unlikely(top > MOST_AT_ONCE + 1)) baton_net_end(L, &turn);
  if (result != BATON_NET_DONE) return push_unwritten(L, connection, result, all);
  lua_pushboolean(L, 1);
  return 1;
}

/* conn:shutdown([timeout]) */
static int connection_shutdown(lua_State *L) {
  struct baton_net_connection *connection = connection_at_1(L);
  const uint64_t deadline = baton_net_deadline_at(L, 2, connection->timeout);
  const enum baton_net_result result = baton_net_shutdown(L, connection, deadline);
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  lua_pushboolean(L, 1);
  return 1;
}

/* conn:close(), which a transport may precede by a goodbye, as far as that needs no wait. */
static int connection_close(lua_State *L) {
  struct baton_net_connection *connection = connection_at_1(L);
  if (connection->transport != NULL && connection->socket.descriptor >= 0)
    (void)connection->transport->shutdown(connection->state, connection);
  baton_net_close(L, connection);
  lua_pushboolean(L, 1);
  return 1;
}

/* }====================================================== */

static int connection_peer(lua_State *L) {
  return baton_net_push_peer(L, &connection_at_1(L)->socket);
}

static int connection_address(lua_State *L) {
  return baton_net_push_own(L, &connection_at_1(L)->socket);
}

/* conn:timeout(seconds or nil) */
static int connection_timeout(lua_State *L) {
  struct baton_net_connection *connection = connection_at_1(L);
  const baton_timeout timeout = baton_inline_check_timeout(L, 2);
  connection->timeout = timeout < 0 ? BATON_NO_DEADLINE : (uint64_t)timeout;
  lua_settop(L, 1);
  return 1;
}

const luaL_Reg baton_net_connection_methods[] = {{"read", connection_read},
    {"lines", connection_lines}, {"write", connection_write}, {"shutdown", connection_shutdown},
    {"close", connection_close}, {"peer", connection_peer}, {"address", connection_address},
    {"timeout", connection_timeout}, {NULL, NULL}};
