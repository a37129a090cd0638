/*
** Replies: sent at once by one system call, or as a stream.
*/
#include "http/inside.h"

#include <stdio.h>
#include <string.h>

#define PIECE (256 * 1024) /* bytes for which a slow client has the time of a body each */
#define MOST_AT_ONCE 32    /* arguments of write in one system call */
#define LEAST_PACKED 1024  /* bytes of a body, as in http_packing.lua */

/* {======================================================
** What is sent
** ======================================================= */

static void check_silent(lua_State *L, const struct baton_http_exchange *exchange) {
  if (exchange->progress != BATON_HTTP_SILENT)
    luaL_error(L, "the reply has begun already: a request has one reply");
}

/* Shifts `body, fields` to `200, body, fields`. The arguments begin at 2. Returns the status. */
static unsigned read_status(lua_State *L) {
  lua_Integer status;
  lua_settop(L, 4);
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushinteger(L, 200);
    lua_insert(L, 2);
    lua_settop(L, 4);
  }
  if (lua_type(L, 2) != LUA_TNUMBER)
    luaL_error(L, "status of a reply, or its text, expected, got %s", luaL_typename(L, 2));
  status = lua_isinteger(L, 2) ? lua_tointeger(L, 2) : 0;
  if (status < 200 || status > 999)
    luaL_error(L, "status of a reply: 200 to 999 expected, got %s", luaL_tolstring(L, 2, NULL));
  return (unsigned)status;
}

/* Notes the fields: those of the call at `index`, and those that were set before. */
static void read_fields(lua_State *L, int index, struct baton_http_reply *reply) {
  reply->fields[0] = reply->fields[1] = 0;
  if (!lua_isnil(L, index)) {
    luaL_checktype(L, index, LUA_TTABLE);
    reply->fields[0] = index;
  }
  if (baton_http_push_known_table(L, 1) &&
      lua_rawgetp(L, -1, &baton_http_reply_fields) == LUA_TTABLE)
    reply->fields[1] = lua_gettop(L);
}

static struct baton_http_reply begin(
    const struct baton_http_exchange *exchange, unsigned status, int is_stream) {
  const struct baton_http_session *session = exchange->session;
  return (struct baton_http_reply){.status = status,
      .is_stream = is_stream,
      .keeps_alive =
          exchange->framing.keeps_alive && !session->ends && !session->server->stops,
      .is_1_1 = exchange->framing.is_1_1,
      .is_head = exchange->is_head};
}

static void note(struct baton_http_exchange *exchange, const struct baton_http_reply *reply) {
  exchange->status = (uint16_t)reply->status;
  baton_http_note_reply(exchange->session->server, reply->status);
  if (!reply->keeps_alive) exchange->session->ends = 1;
}

/* Writes parts. A long one is written in pieces: each has its own time. */
static enum baton_net_result write_all(
    lua_State *L, struct baton_http_session *session, struct iovec *parts, int count) {
  const uint64_t timeout = session->server->body_timeout;
  struct iovec rest = parts[count - 1];
  enum baton_net_result result;
  if (l_unlikely(rest.iov_len > PIECE)) parts[count - 1].iov_len = PIECE;
  result = baton_net_write(
      L, session->connection, parts, count, NULL, baton_http_deadline_in(timeout));
  while (l_unlikely(result == BATON_NET_DONE && rest.iov_len > PIECE)) {
    struct iovec piece;
    rest.iov_base = (char *)rest.iov_base + PIECE;
    rest.iov_len -= PIECE;
    piece = rest;
    if (piece.iov_len > PIECE) piece.iov_len = PIECE;
    result = baton_net_write(
        L, session->connection, &piece, 1, NULL, baton_http_deadline_in(timeout));
  }
  return result;
}

static int push_outcome(
    lua_State *L, struct baton_http_session *session, enum baton_net_result result) {
  if (l_unlikely(result != BATON_NET_DONE)) {
    session->ends = 1;
    return baton_net_push_result(L, session->connection, result);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Packing
** ======================================================= */

/* The table of http_packing.lua is kept by this key. */
static const char packing = 0;

/* pack_with(table) */
int baton_http_pack_with(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  baton_lua_keep_private(L, &packing);
  return 0;
}

/* Calls a function of http_packing.lua with all arguments. */
static int call_packing(lua_State *L, const char *name) {
  baton_lua_push_private(L, &packing);
  lua_getfield(L, -1, name);
  lua_insert(L, 1);
  lua_pop(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* set_fields(exchange): the table of fields that were set; or nil */
int baton_http_set_fields(lua_State *L) {
  (void)baton_http_check_exchange(L, 1);
  if (!baton_http_push_known_table(L, 1)) return 0;
  lua_rawgetp(L, -1, &baton_http_reply_fields);
  return 1;
}

/* compresses(exchange): whether the server was asked for it */
int baton_http_compresses(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  lua_pushboolean(L, exchange->session != NULL && exchange->session->server->compresses);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Replies at once
** ======================================================= */

static int close_stream(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  struct baton_http_session *session = exchange->session;
  struct iovec part = {(char *)(size_t)"0\r\n\r\n", 5};
  if (exchange->progress != BATON_HTTP_STREAMS || exchange->session == NULL) {
    lua_pushboolean(L, 1);
    return 1;
  }
  exchange->progress = BATON_HTTP_REPLIED;
  if (exchange->is_file || exchange->is_cut) session->ends = 1; /* something is missing */
  if (exchange->has_no_body || !exchange->is_chunked || exchange->is_cut)
    return push_outcome(L, session, BATON_NET_DONE);
  return push_outcome(L, session, write_all(L, session, &part, 1));
}

/* stream:close() */
static int exchange_close(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  const int is_open = exchange->progress == BATON_HTTP_STREAMS && exchange->session != NULL;
  if (l_unlikely(exchange->is_packed && is_open)) return call_packing(L, "close");
  return close_stream(L);
}

/* __close of a stream: what an error or a kill has cut off does not end as if it were whole. */
int baton_http_end_stream(lua_State *L) {
  return lua_isnoneornil(L, 2) ? exchange_close(L) : 0;
}

static const char *read_body(lua_State *L, size_t *size) {
  *size = 0;
  if (lua_isnil(L, 3)) return NULL;
  if (!lua_isstring(L, 3))
    luaL_error(L, "body of a reply: string expected, got %s%s", luaL_typename(L, 3),
        lua_istable(L, 3) ? "; res:json(status, value) sends a table" : "");
  return lua_tolstring(L, 3, size);
}

static int send_reply(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  struct baton_http_session *session = exchange->session;
  struct baton_http_reply reply;
  struct iovec parts[2];
  char room[BATON_HTTP_ROOM];
  const char *body;
  size_t size;
  check_silent(L, exchange);
  reply = begin(exchange, read_status(L), 0);
  body = read_body(L, &size);
  reply.length = size;
  read_fields(L, 4, &reply);
  parts[0] = baton_http_write_head(L, &reply, room);
  note(exchange, &reply);
  exchange->progress = BATON_HTTP_REPLIED;
  if (exchange->is_head || baton_http_has_no_body(reply.status)) size = 0;
  exchange->sent = size;
  baton_http_add(BATON_HTTP_SENT, size);
  parts[1].iov_base = (char *)(size_t)body;
  parts[1].iov_len = size;
  return push_outcome(L, session, write_all(L, session, parts, size > 0 ? 2 : 1));
}

/* res:send([status,] body, fields) */
static int exchange_send(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  if (l_likely(!exchange->session->server->compresses)) return send_reply(L);
  check_silent(L, exchange);
  (void)read_status(L);
  if (lua_type(L, 3) != LUA_TSTRING || lua_rawlen(L, 3) < LEAST_PACKED) return send_reply(L);
  return call_packing(L, "send");
}

/* finish(exchange, status, body, fields): after a handler has returned these */
int baton_http_finish(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  if (exchange->progress == BATON_HTTP_STREAMS) return exchange_close(L);
  if (exchange->progress == BATON_HTTP_REPLIED || exchange->session == NULL) return 0;
  if (lua_isnoneornil(L, 2))
    return luaL_error(L, "the handler has neither sent a reply nor returned a status");
  return exchange_send(L);
}

/* reason(status): its words */
int baton_http_push_reason(lua_State *L) {
  size_t size;
  const char *reason = baton_http_reason((uint32_t)luaL_checkinteger(L, 1), &size);
  lua_pushlstring(L, reason, size);
  return 1;
}

/* fail(exchange, status): the status and its words */
int baton_http_fail(lua_State *L) {
  size_t size;
  const char *reason = baton_http_reason((uint32_t)luaL_checkinteger(L, 2), &size);
  lua_settop(L, 2);
  lua_pushlstring(L, reason, size);
  return exchange_send(L);
}

/* Checks the arguments (exchange, name, value), and pushes the table with the fields that were set.
   It is at 5. */
static void push_set_fields(lua_State *L) {
  check_silent(L, baton_http_check_open_exchange(L, 1));
  luaL_checkstring(L, 2);
  luaL_checkany(L, 3);
  lua_settop(L, 3);
  baton_http_push_table(L, 1);
  if (lua_rawgetp(L, 4, &baton_http_reply_fields) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, 4, &baton_http_reply_fields);
}

/* add(exchange, name, value): one more field of that name */
int baton_http_add_field(lua_State *L) {
  push_set_fields(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 5) != LUA_TTABLE) {
    lua_newtable(L);
    lua_insert(L, 6);
    if (lua_isnil(L, 7)) lua_pop(L, 1);
    else lua_rawseti(L, 6, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 6);
    lua_rawset(L, 5);
  }
  lua_pushvalue(L, 3);
  lua_rawseti(L, 6, (lua_Integer)lua_rawlen(L, 6) + 1);
  return 0;
}

/* res:set(name, value): a field of the reply that is sent later; nil takes it away */
static int exchange_set(lua_State *L) {
  push_set_fields(L);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, -3);
  lua_settop(L, 1);
  return 1;
}

/* exchange:progress(): nil, "streams" or "replied" */
static int exchange_progress(lua_State *L) {
  static const char *const words[] = {NULL, "streams", "replied"};
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  lua_pushstring(L, words[exchange->progress]);
  return 1;
}

/* upgrade(exchange, head) -> connection, server; or nil and why. Sends the head, whose status is
   101. The connection is the program's from then on. Nothing is sent, and nothing returned, if the
   request has a body or the server stops. */
int baton_http_upgrade(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  struct baton_http_session *session = exchange->session;
  enum baton_net_result result;
  struct iovec part;
  lua_settop(L, 2);
  part.iov_base = (char *)(size_t)luaL_checklstring(L, 2, &part.iov_len);
  check_silent(L, exchange);
  if (!exchange->body_has_ended || session->server->stops) return 0;
  exchange->status = 101;
  exchange->progress = BATON_HTTP_REPLIED;
  baton_http_note_reply(session->server, 101);
  session->ends = 1;
  lua_getiuservalue(L, 1, 1);
  result = write_all(L, session, &part, 1);
  if (result != BATON_NET_DONE) return push_outcome(L, session, result);
  if (exchange->session == NULL) return 0; /* closed by another process, while it waited */
  session->is_upgraded = 1;
  lua_getiuservalue(L, 3, 1);
  lua_getiuservalue(L, 3, 2);
  return 2;
}

int baton_http_refuse(lua_State *L) {
  struct baton_http_session *session = baton_http_check_session(L, 1);
  const unsigned status = (unsigned)luaL_checkinteger(L, 2) % 1000;
  struct baton_http_reply reply = {.status = status, .is_1_1 = 1};
  struct iovec parts[2];
  char room[BATON_HTTP_ROOM];
  const char *reason;
  size_t size;
  reason = baton_http_reason(status, &size);
  reply.length = size;
  parts[0] = baton_http_write_head(L, &reply, room);
  parts[1].iov_base = (char *)(size_t)reason;
  parts[1].iov_len = size;
  baton_http_note_reply(session->server, status);
  session->ends = 1;
  return push_outcome(L, session, write_all(L, session, parts, 2));
}

/* }====================================================== */

/* {======================================================
** Streams
** ======================================================= */

static int begin_stream(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  struct baton_http_session *session = exchange->session;
  struct baton_http_reply reply;
  struct iovec part;
  char room[BATON_HTTP_ROOM];
  enum baton_net_result result;
  check_silent(L, exchange);
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 3);
    lua_pushinteger(L, 200);
    lua_replace(L, 2);
  }
  lua_settop(L, 3);
  lua_pushnil(L); /* no body */
  lua_insert(L, 3);
  reply = begin(exchange, read_status(L), 1);
  exchange->is_chunked = exchange->framing.is_1_1;
  exchange->has_no_body = exchange->is_head || baton_http_has_no_body(reply.status);
  /* the body ends with the connection */
  if (!exchange->is_chunked && !exchange->has_no_body) reply.keeps_alive = 0;
  read_fields(L, 4, &reply);
  part = baton_http_write_head(L, &reply, room);
  note(exchange, &reply);
  exchange->progress = BATON_HTTP_STREAMS;
  result = write_all(L, session, &part, 1);
  if (result != BATON_NET_DONE) return push_outcome(L, session, result);
  lua_settop(L, 1);
  return 1;
}

/* res:stream([status], [fields]): sends the head, and returns the same object */
static int exchange_stream(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  if (l_likely(!exchange->session->server->compresses)) return begin_stream(L);
  check_silent(L, exchange);
  lua_settop(L, 3);
  if (lua_isnil(L, 2)) {
    lua_pushinteger(L, 200);
    lua_replace(L, 2);
  }
  luaL_checkinteger(L, 2);
  return call_packing(L, "stream");
}

/* pack_stream(exchange): the rest of the stream goes by http_packing.lua */
int baton_http_pack_stream(lua_State *L) {
  baton_http_check_open_exchange(L, 1)->is_packed = 1;
  return 0;
}

/* Notes the arguments from `first` on, at most MOST_AT_ONCE. Returns their number. */
static int note_parts(lua_State *L, int first, int top, struct iovec *parts, size_t *all) {
  int count = 0;
  *all = 0;
  while (count < MOST_AT_ONCE && first + count <= top) {
    size_t size;
    const char *text = lua_tolstring(L, first + count, &size);
    parts[count].iov_base = (char *)(size_t)text;
    parts[count++].iov_len = size;
    *all += size;
  }
  return count;
}

/* One chunk. */
static int write_stream(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  struct baton_http_session *session = exchange->session;
  const int top = lua_gettop(L);
  struct iovec parts[MOST_AT_ONCE + 2];
  enum baton_net_result result = BATON_NET_DONE;
  int i;
  if (exchange->progress != BATON_HTTP_STREAMS || exchange->is_file)
    luaL_error(L, "%s", exchange->progress == BATON_HTTP_SILENT
            ? "res:stream() comes before the first write"
            : "the stream was closed");
  for (i = 2; i <= top; i++) (void)luaL_checklstring(L, i, NULL);
  if (exchange->has_no_body) return push_outcome(L, session, result);
  for (i = 2; i <= top && result == BATON_NET_DONE; i += MOST_AT_ONCE) {
    char line[20];
    size_t all;
    int count = note_parts(L, i, top, parts + 1, &all);
    if (all == 0) continue; /* an empty chunk would be the end */
    parts[0].iov_base = line;
    parts[0].iov_len = 0;
    if (exchange->is_chunked) {
      parts[0].iov_len = (size_t)snprintf(line, sizeof line, "%zx\r\n", all);
      parts[++count].iov_base = (char *)(size_t)"\r\n";
      parts[count].iov_len = 2;
    }
    exchange->sent += all;
    baton_http_add(BATON_HTTP_SENT, all);
    result = baton_net_write(L, session->connection, parts, count + 1, NULL,
        baton_http_deadline_in(session->server->body_timeout));
  }
  return push_outcome(L, session, result);
}

/* }====================================================== */

/* stream:write(s, ...) */
static int exchange_write(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  int i;
  if (l_likely(!exchange->is_packed) || exchange->progress != BATON_HTTP_STREAMS)
    return write_stream(L);
  for (i = lua_gettop(L); i >= 2; i--) (void)luaL_checklstring(L, i, NULL);
  return call_packing(L, "write");
}

/* {======================================================
** Files
** ======================================================= */

/* Sends what was read of the file at 2, after `parts[0]` if that is there. */
static int send_piece(lua_State *L, struct baton_http_exchange *exchange, struct iovec *parts,
    struct iovec piece, uint64_t unsent) {
  struct baton_http_session *session = exchange->session;
  enum baton_net_result result;
  parts[1] = piece;
  exchange->sent += piece.iov_len;
  baton_http_add(BATON_HTTP_SENT, piece.iov_len);
  result = parts[0].iov_len > 0 ? write_all(L, session, parts, piece.iov_len > 0 ? 2 : 1)
                                : write_all(L, session, parts + 1, 1);
  if (result == BATON_NET_DONE && unsent == piece.iov_len)
    exchange->progress = BATON_HTTP_REPLIED;
  return push_outcome(L, session, result);
}

/* begin_file(exchange, file, status, fields): sends the head, and what was read of the file */
int baton_http_begin_file(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  struct baton_http_reply reply;
  struct iovec parts[2], piece;
  char room[BATON_HTTP_ROOM];
  uint64_t unsent;
  check_silent(L, exchange);
  lua_settop(L, 4);
  reply = begin(exchange, (unsigned)luaL_checkinteger(L, 3), 0);
  piece = baton_http_take_piece(L, 2, &unsent);
  reply.length = unsent;
  read_fields(L, 4, &reply);
  parts[0] = baton_http_write_head(L, &reply, room);
  note(exchange, &reply);
  exchange->is_file = 1;
  exchange->progress = BATON_HTTP_STREAMS;
  return send_piece(L, exchange, parts, piece, exchange->is_head ? piece.iov_len : unsent);
}

/* go_on(exchange, file): sends what was read since. Without a file, the reply is cut off. */
int baton_http_go_on_with_file(lua_State *L) {
  struct baton_http_exchange *exchange = baton_http_check_open_exchange(L, 1);
  struct iovec parts[2] = {{NULL, 0}, {NULL, 0}}, piece;
  uint64_t unsent;
  if (lua_isnoneornil(L, 2)) {
    exchange->session->ends = exchange->is_cut = 1;
    return 0;
  }
  piece = baton_http_take_piece(L, 2, &unsent);
  return send_piece(L, exchange, parts, piece, unsent);
}

/* }====================================================== */

const luaL_Reg baton_http_reply_methods[] = {{"send", exchange_send}, {"set", exchange_set},
    {"progress", exchange_progress}, {"stream", exchange_stream}, {"write", exchange_write},
    {"close", exchange_close}, {NULL, NULL}};

const luaL_Reg baton_http_raw_methods[] = {{"send", send_reply}, {"stream", begin_stream},
    {"write", write_stream}, {"close", close_stream}, {NULL, NULL}};
