/*
** The server's side of HTTP/2 over connections. The state machine (src/http2) takes what has come,
** and has what is to be sent. lua/http2.lua has the processes.
**
** One process reads (`take`). One at a time writes (`flush`). All others only change the state, and
** never wait. What `flush` gives to the system stays at its place until all of it was sent, and
** `written` counts how far the system has come. So a process that is killed in its wait leaves the
** rest to the next one, and no frame is torn.
*/
#include "web.h"

#include <string.h>

/* {======================================================
** What src/c/http2.rs has
** ======================================================= */

struct http2;
struct http2 *baton_web_http2_new(uint32_t streams, uint32_t header, uint64_t now);
void baton_web_http2_free(struct http2 *http2);
/* Takes what has come. No bytes: the connection has ended. */
void baton_web_http2_feed(struct http2 *http2, struct web_bytes bytes, uint64_t now);
int baton_web_http2_wants_input(const struct http2 *http2);
/* When a head, or another frame but data, has begun that has not ended; 0: there is none. */
uint64_t baton_web_http2_begun(const struct http2 *http2);
/* How many streams are kept. */
size_t baton_web_http2_count(const struct http2 *http2);

enum http2_kind { NOTHING, REQUEST, MOVED, RESET, OVER };
struct http2_change {
  int kind;
  uint32_t stream;
  struct web_bytes method, target, host; /* of OVER: `method` says why */
  size_t count;                          /* fields */
  int has_body;
};
/* What it writes is valid until the next call of `next` or `release`. */
void baton_web_http2_next(struct http2 *http2, struct http2_change *change);
int baton_web_http2_has_changes(const struct http2 *http2);
struct http2_field {
  struct web_bytes name, value;
};
struct http2_field baton_web_http2_field(const struct http2 *http2, size_t number);
void baton_web_http2_release(struct http2 *http2);

enum http2_result { HTTP2_NOTHING = 0, HTTP2_END = -1, HTTP2_LOST = -2 };
/* Returns a number of bytes, which are valid until the next call, or a result. */
ssize_t baton_web_http2_read(
    struct http2 *http2, uint32_t stream, size_t most, struct web_bytes *part);
/* Tells a client that waits with its body to send it. */
void baton_web_http2_go_on(struct http2 *http2, uint32_t stream);
/* Adds a field to the reply that begins next. Returns 0 if there cannot be such a field. */
int baton_web_http2_add(struct http2 *http2, struct web_bytes name, struct web_bytes value);
void baton_web_http2_clear(struct http2 *http2);
/* Return how many bytes were taken, or HTTP2_LOST. `is_last`: the reply ends with the last one. */
ssize_t baton_web_http2_respond(struct http2 *http2, uint32_t stream, uint16_t status,
    struct web_bytes data, int is_last);
ssize_t baton_web_http2_send(
    struct http2 *http2, uint32_t stream, struct web_bytes data, int is_last);
void baton_web_http2_reset(struct http2 *http2, uint32_t stream, uint32_t reason);
void baton_web_http2_forget(struct http2 *http2, uint32_t stream);
void baton_web_http2_shut_down(struct http2 *http2);
void baton_web_http2_abort(struct http2 *http2, uint32_t reason, struct web_bytes why);
/* How many bytes are not sent; the next of them, which stay where they are until all of them were
   sent; and that so many of them were. */
size_t baton_web_http2_pending(const struct http2 *http2);
struct web_bytes baton_web_http2_leaving(struct http2 *http2);
void baton_web_http2_sent(struct http2 *http2, size_t size);

/* }====================================================== */

/* {======================================================
** Engines
** ======================================================= */

#define ENGINE "baton.web: HTTP/2"
#define MOST_LINGERED (1 << 20) /* bytes that are read after the end */

struct engine {
  struct http2 *http2;
  size_t written;           /* of what leaves, since that was last counted as sent */
  size_t lingered;          /* bytes that came after the end */
  unsigned char is_over;    /* nothing that comes is looked at */
};

static struct engine *check(lua_State *L) { return luaL_checkudata(L, 1, ENGINE); }

static struct http2 *check_http2(lua_State *L) { return check(L)->http2; }

static uint32_t check_stream(lua_State *L) { return (uint32_t)luaL_checkinteger(L, 2); }

static int engine_gc(lua_State *L) {
  struct engine *engine = check(L);
  struct http2 *http2 = engine->http2;
  engine->http2 = NULL;
  if (http2 != NULL) baton_web_http2_free(http2);
  return 0;
}

/* new(max_streams, max_header) -> engine */
static int engine_new(lua_State *L) {
  const uint32_t streams = (uint32_t)luaL_checkinteger(L, 1);
  const uint32_t header = (uint32_t)luaL_checkinteger(L, 2);
  struct engine *engine;
  baton_module_check_memory(L);
  engine = lua_newuserdatauv(L, sizeof *engine, 0);
  memset(engine, 0, sizeof *engine);
  luaL_setmetatable(L, ENGINE);
  engine->http2 = baton_web_http2_new(streams, header, baton_now());
  return 1;
}

/* }====================================================== */

/* {======================================================
** Reading and writing
** ======================================================= */

static int push_outcome(lua_State *L, const struct baton_net_connection *connection,
    enum baton_net_result result) {
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  lua_pushboolean(L, 1);
  return 1;
}

/* take(engine, connection, timeout) -> true; or nil, why. Waits for bytes. The end of what the
   client sends is "closed", and the engine knows of it. After the end of the engine, what comes is
   dropped. */
static int take(lua_State *L) {
  struct engine *engine = check(L);
  struct baton_net_connection *connection = baton_net_check(L, 2);
  const enum baton_net_result result =
      baton_net_fill(L, connection, 1, baton_web_deadline(L, 3));
  struct web_bytes bytes = {NULL, 0};
  if (result == BATON_NET_TIMED_OUT) return baton_net_push_result(L, connection, result);
  if (result == BATON_NET_DONE) bytes.at = baton_net_view(connection, &bytes.size);
  if (engine->is_over && (engine->lingered += bytes.size) > MOST_LINGERED)
    return baton_net_push_result(L, connection, BATON_NET_CLOSED);
  if (!engine->is_over) {
    baton_module_check_memory(L);
    baton_web_http2_feed(engine->http2, bytes, baton_now());
  }
  if (result == BATON_NET_DONE) baton_net_consume(connection, bytes.size);
  return push_outcome(L, connection, result);
}

static void count_sent(struct engine *engine) {
  const size_t written = engine->written;
  engine->written = 0;
  baton_web_http2_sent(engine->http2, written);
}

/* flush(engine, connection, timeout) -> true; or nil, why. Sends until nothing is left to send.
   Each wait has the time. */
static int flush(lua_State *L) {
  struct engine *engine = check(L);
  struct baton_net_connection *connection = baton_net_check(L, 2);
  enum baton_net_result result = BATON_NET_DONE;
  struct baton_net_turn turn;
  baton_net_begin(L, connection, &turn, BATON_NET_WRITES);
  while (result == BATON_NET_DONE) {
    struct web_bytes leaving;
    struct iovec part;
    count_sent(engine);
    leaving = baton_web_http2_leaving(engine->http2);
    if (leaving.size == 0) break;
    part.iov_base = (void *)leaving.at;
    part.iov_len = leaving.size;
    result = baton_net_write(
        L, connection, &part, 1, &engine->written, baton_web_deadline(L, 3));
  }
  baton_net_end(L, &turn);
  return push_outcome(L, connection, result);
}

/* pending(engine) -> how many bytes are not sent, and whether something has happened */
static int pending(lua_State *L) {
  const struct engine *engine = check(L);
  lua_pushinteger(
      L, (lua_Integer)(baton_web_http2_pending(engine->http2) - engine->written));
  lua_pushboolean(L, baton_web_http2_has_changes(engine->http2));
  return 2;
}

/* state(engine) -> whether more may be taken; how many streams there are; for how many seconds a
   head is on its way, or nil */
static int state(lua_State *L) {
  const struct http2 *http2 = check_http2(L);
  const uint64_t begun = baton_web_http2_begun(http2);
  lua_pushboolean(L, baton_web_http2_wants_input(http2));
  lua_pushinteger(L, (lua_Integer)baton_web_http2_count(http2));
  if (begun == 0) return 2;
  lua_pushnumber(L, (lua_Number)(baton_now() - begun) / 1e9);
  return 3;
}

/* }====================================================== */

/* {======================================================
** Events
** ======================================================= */

static void push_bytes(lua_State *L, struct web_bytes bytes) {
  lua_pushlstring(L, bytes.at, bytes.size);
}

/* Pushes a table: names to values. Several values have commas between. */
static void push_fields(lua_State *L, const struct http2 *http2, size_t count) {
  size_t i;
  lua_createtable(L, 0, (int)count);
  for (i = 0; i < count; i++) {
    const struct http2_field field = baton_web_http2_field(http2, i);
    push_bytes(L, field.name);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TSTRING) {
      lua_pushstring(L, strcmp(lua_tostring(L, -2), "cookie") == 0 ? "; " : ", ");
      push_bytes(L, field.value);
      lua_concat(L, 3);
    } else {
      lua_pop(L, 1);
      push_bytes(L, field.value);
    }
    lua_rawset(L, -3);
  }
}

/* next(engine) -> nil; "request", stream, method, target, host, fields, has_body; "moved", stream;
   "reset", stream; or "over", why */
static int next(lua_State *L) {
  static const char *const names[] = {NULL, "request", "moved", "reset", "over"};
  struct engine *engine = check(L);
  struct http2_change change;
  baton_web_http2_next(engine->http2, &change);
  lua_pushstring(L, names[change.kind]);
  switch (change.kind) {
    case NOTHING: return 1;
    case OVER:
      engine->is_over = 1;
      push_bytes(L, change.method);
      return 2;
    case REQUEST:
      lua_pushinteger(L, change.stream);
      push_bytes(L, change.method);
      push_bytes(L, change.target);
      push_bytes(L, change.host);
      push_fields(L, engine->http2, change.count);
      lua_pushboolean(L, change.has_body);
      baton_web_http2_release(engine->http2);
      return 7;
    default: lua_pushinteger(L, change.stream); return 2;
  }
}

/* }====================================================== */

/* {======================================================
** Streams
** ======================================================= */

/* read(engine, stream, most) -> bytes; false: none have come; nil: the body has ended; or nil,
   "closed" */
static int read_body(lua_State *L) {
  struct http2 *http2 = check_http2(L);
  struct web_bytes part;
  const ssize_t size =
      baton_web_http2_read(http2, check_stream(L), (size_t)luaL_checkinteger(L, 3), &part);
  switch (size) {
    case HTTP2_NOTHING: lua_pushboolean(L, 0); return 1;
    case HTTP2_END: lua_pushnil(L); return 1;
    case HTTP2_LOST:
      lua_pushnil(L);
      lua_pushliteral(L, "closed");
      return 2;
    default:
      push_bytes(L, part);
      baton_web_http2_release(http2);
      return 1;
  }
}

/* go_on(engine, stream): tells a client that waits with its body to send it */
static int go_on(lua_State *L) {
  baton_web_http2_go_on(check_http2(L), check_stream(L));
  return 0;
}

static int push_taken(lua_State *L, ssize_t size) {
  if (size >= 0) {
    lua_pushinteger(L, size);
    return 1;
  }
  lua_pushnil(L);
  lua_pushliteral(L, "closed");
  return 2;
}

/* respond(engine, stream, status, fields, data, is_last) -> how many bytes were taken; or nil,
   "closed"; or false, and the name of a field that cannot be sent. The fields are a list: a name, a
   value, and so on. */
static int respond(lua_State *L) {
  struct http2 *http2 = check_http2(L);
  const uint32_t stream = check_stream(L);
  const uint16_t status = (uint16_t)luaL_checkinteger(L, 3);
  const struct web_bytes data = baton_web_bytes(L, 5);
  const int is_last = lua_toboolean(L, 6);
  lua_Integer i;
  luaL_checktype(L, 4, LUA_TTABLE);
  lua_settop(L, 5);
  baton_module_check_memory(L);
  baton_web_http2_clear(http2);
  for (i = 1; lua_rawgeti(L, 4, i) == LUA_TSTRING; i += 2) {
    lua_rawgeti(L, 4, i + 1);
    if (!baton_web_http2_add(http2, baton_web_bytes(L, 6), baton_web_bytes(L, 7))) {
      lua_pushboolean(L, 0);
      lua_pushvalue(L, 6);
      return 2;
    }
    lua_settop(L, 5);
  }
  return push_taken(L, baton_web_http2_respond(http2, stream, status, data, is_last));
}

/* send(engine, stream, data, from, is_last) -> how many bytes were taken of those behind the first
   `from` ones; or nil, "closed" */
static int send(lua_State *L) {
  struct http2 *http2 = check_http2(L);
  struct web_bytes data = baton_web_bytes(L, 3);
  const size_t from = (size_t)luaL_checkinteger(L, 4);
  luaL_argcheck(L, from <= data.size, 4, "a place in the data expected");
  data.at += from;
  data.size -= from;
  baton_module_check_memory(L);
  return push_taken(
      L, baton_web_http2_send(http2, check_stream(L), data, lua_toboolean(L, 5)));
}

/* reset(engine, stream, reason) */
static int reset(lua_State *L) {
  baton_web_http2_reset(check_http2(L), check_stream(L), (uint32_t)luaL_checkinteger(L, 3));
  return 0;
}

/* forget(engine, stream): nobody uses it any more */
static int forget(lua_State *L) {
  baton_web_http2_forget(check_http2(L), check_stream(L));
  return 0;
}

/* shut_down(engine): no new requests are taken */
static int shut_down(lua_State *L) {
  baton_web_http2_shut_down(check_http2(L));
  return 0;
}

/* abort(engine, reason, why) */
static int abort_all(lua_State *L) {
  baton_web_http2_abort(
      check_http2(L), (uint32_t)luaL_checkinteger(L, 2), baton_web_bytes(L, 3));
  return 0;
}

/* }====================================================== */

/* Adds the table `http2` with its functions to the one on the top. */
void baton_web_open_http2(lua_State *L) {
  static const luaL_Reg functions[] = {{"new", engine_new}, {"take", take}, {"flush", flush},
      {"pending", pending}, {"state", state}, {"next", next}, {"read", read_body},
      {"go_on", go_on},
      {"respond", respond}, {"send", send}, {"reset", reset}, {"forget", forget},
      {"shut_down", shut_down}, {"abort", abort_all}, {NULL, NULL}};
  if (luaL_newmetatable(L, ENGINE)) {
    lua_pushcfunction(L, engine_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    baton_module_note(engine_gc, BATON_MODULE_IS_QUICK | BATON_MODULE_GIVES_BACK);
  }
  lua_pop(L, 1);
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  lua_setfield(L, -2, "http2");
}
