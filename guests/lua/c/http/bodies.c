/*
** The body of a request: read when a handler asks for it, never more than the server's bound.
**
** What of the body has come is at the beginning of the connection's buffer. `left` bytes of it are
** known to be data: of all of the body, or of the chunk that the decoder has found last.
*/
#include "http/inside.h"

#include <string.h>

#define MOST_DRAINED (256 * 1024) /* bytes of a body that nobody reads */
#define LINGER 1000000000u        /* nanoseconds */
#define MOST_LINGERED (1 << 20)   /* bytes */

enum part { PART, ENDED, FAILED };

static void consume(struct baton_http_exchange *exchange, size_t size) {
  baton_net_consume(exchange->session->connection, size);
  exchange->left -= size;
  exchange->received += size;
  if (exchange->left == 0 && !exchange->framing.is_chunked) exchange->body_has_ended = 1;
}

static enum part fail(struct baton_http_exchange *exchange, uint16_t status) {
  exchange->fault = status;
  if (exchange->session == NULL) return FAILED; /* closed by another process, while it waited */
  exchange->session->ends = exchange->session->has_unread = 1;
  return FAILED;
}

static enum part fail_by(struct baton_http_exchange *exchange, enum baton_net_result result) {
  if (result == BATON_NET_TIMED_OUT && exchange->session != NULL)
    baton_http_count(exchange->session->server, BATON_SERVER_TIMEOUTS, 1);
  return fail(exchange, result == BATON_NET_TIMED_OUT ? 408 : 400);
}

/* Called before the first byte is read: the time begins, and the client may send. */
static enum baton_net_result begin(lua_State *L, struct baton_http_exchange *exchange) {
  static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
  struct iovec part = {(char *)(size_t)go_on, sizeof go_on - 1};
  if (exchange->deadline != 0) return BATON_NET_DONE;
  exchange->deadline = baton_http_deadline_in(exchange->session->server->body_timeout);
  if (!exchange->framing.expects || exchange->progress != BATON_HTTP_SILENT) return BATON_NET_DONE;
  exchange->is_continued = 1;
  return baton_net_write(
      L, exchange->session->connection, &part, 1, NULL, exchange->deadline);
}

/* Lets the decoder find the next data. */
static enum part decode(struct baton_http_exchange *exchange, size_t *size) {
  struct baton_net_connection *connection = exchange->session->connection;
  const char *data = baton_net_view(connection, size);
  const struct baton_http_piece piece =
      baton_http_next_piece(&exchange->decoder, data, *size);
  if (piece.what == BATON_HTTP_BAD) return fail(exchange, 400);
  baton_net_consume(connection, piece.skip);
  *size -= piece.skip;
  exchange->left = piece.size;
  if (exchange->received + piece.size > exchange->session->server->max_body)
    return fail(exchange, 413);
  if (piece.what == BATON_HTTP_END) exchange->body_has_ended = 1;
  return exchange->body_has_ended ? ENDED : PART;
}

/* Waits for the next part of the body, which lies in the buffer. */
static enum part next_part(lua_State *L, struct baton_http_exchange *exchange, const char **data,
    size_t *size, uint64_t deadline) {
  struct baton_net_connection *connection;
  enum baton_net_result result;
  size_t wanted;
  if (exchange->body_has_ended) return ENDED;
  if (exchange->fault != 0 || exchange->session == NULL) return FAILED;
  connection = exchange->session->connection;
  result = begin(L, exchange);
  if (result != BATON_NET_DONE) return fail_by(exchange, result);
  if (exchange->deadline < deadline) deadline = exchange->deadline;
  for (;;) {
    (void)baton_net_view(connection, size);
    wanted = 1;
    if (exchange->left == 0) { /* it is chunked, as it has not ended */
      const enum part part = decode(exchange, size);
      if (part != PART) return part;
      if (exchange->left == 0) wanted = *size + 1;
    }
    if (exchange->left > 0 && *size > 0) break;
    result = baton_net_fill(L, connection, wanted, deadline);
    if (result != BATON_NET_DONE) return fail_by(exchange, result);
    if (exchange->session == NULL) return FAILED; /* another process has closed it */
  }
  *data = baton_net_view(connection, size);
  if (*size > exchange->left) *size = (size_t)exchange->left;
  return PART;
}

static int push_failure(lua_State *L, const struct baton_http_exchange *exchange) {
  lua_pushnil(L);
  lua_pushstring(L, exchange->fault == 413 ? "too large"
          : exchange->fault == 408         ? "timeout"
          : exchange->framing.is_chunked   ? "malformed"
                                           : "closed");
  return 2;
}

/* req:body([max]): all of the body; or nil and why. A second call returns it again. */
static int exchange_body(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  const lua_Integer wanted = luaL_optinteger(L, 2, LUA_MAXINTEGER);
  const uint64_t max = wanted < 0 ? 0 : (uint64_t)wanted;
  enum part part = PART;
  luaL_Buffer body;
  size_t all = 0;
  lua_settop(L, 1);
  if (lua_getiuservalue(L, 1, 3) == LUA_TSTRING) return 1;
  exchange = baton_http_check_open_exchange(L, 1);
  lua_settop(L, 1);
  if (!exchange->framing.is_chunked && exchange->left > max) fail(exchange, 413);
  luaL_buffinit(L, &body);
  while (part == PART) {
    const char *data;
    size_t size;
    part = next_part(L, exchange, &data, &size, BATON_NO_DEADLINE);
    if (part == PART) {
      if ((all += size) > max) part = fail(exchange, 413);
      else luaL_addlstring(&body, data, size);
      if (part == PART) consume(exchange, size);
    }
  }
  if (part == FAILED) return push_failure(L, exchange);
  luaL_pushresult(&body);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, 3);
  return 1;
}

/* req:read([size]): the next part of the body, nil at its end; or nil and why. */
static int exchange_read(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  const lua_Integer most = luaL_optinteger(L, 2, 65536);
  const char *data;
  size_t size;
  luaL_argcheck(L, most > 0, 2, "number of bytes, at least 1, expected");
  switch (next_part(L, exchange, &data, &size, BATON_NO_DEADLINE)) {
    case ENDED: lua_pushnil(L); return 1;
    case FAILED: return push_failure(L, exchange);
    default: break;
  }
  if (size > (size_t)most) size = (size_t)most;
  lua_pushlstring(L, data, size);
  consume(exchange, size);
  return 1;
}

/* The status that the failure of the body asks for; nil without a failure. */
static int exchange_fault(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  if (exchange->fault == 0) return 0;
  lua_pushinteger(L, exchange->fault);
  return 1;
}

/* blame(exchange, status): what the client has sent is wrong. If the handler fails, the reply has
   this status. */
int baton_http_blame(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  const lua_Integer status = luaL_checkinteger(L, 2);
  if (exchange->fault == 0) (void)fail(exchange, (uint16_t)status);
  return 0;
}

int baton_http_drain(lua_State *L, struct baton_http_exchange *exchange) {
  const uint64_t deadline = baton_http_deadline_in(LINGER);
  uint64_t drained = 0;
  enum part part = PART;
  if (exchange->body_has_ended) return 1;
  /* the client may send the body, or the next request: nobody can tell */
  if (exchange->framing.expects && !exchange->is_continued) return 0;
  if (!exchange->framing.is_chunked && exchange->left > MOST_DRAINED) return 0;
  while (part == PART && drained <= MOST_DRAINED) {
    const char *data;
    size_t size;
    part = next_part(L, exchange, &data, &size, deadline);
    if (part != PART) break;
    consume(exchange, size);
    drained += size;
  }
  return part == ENDED;
}

void baton_http_linger(lua_State *L, struct baton_http_session *session) {
  const uint64_t deadline = baton_http_deadline_in(LINGER);
  struct baton_net_connection *connection = session->connection;
  enum baton_net_result result = baton_net_shutdown(L, connection, deadline);
  uint64_t all = 0;
  while (result == BATON_NET_DONE && all < MOST_LINGERED) {
    size_t size;
    (void)baton_net_view(connection, &size);
    baton_net_consume(connection, size);
    all += size;
    result = baton_net_fill(L, connection, 1, deadline);
  }
}

const luaL_Reg baton_http_body_methods[] = {
    {"body", exchange_body}, {"read", exchange_read}, {"fault", exchange_fault}, {NULL, NULL}};
