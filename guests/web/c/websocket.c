/*
** Sockets of WebSocket over connections. The state machine (src/websocket) takes what has come, and
** has what is to be sent, answers to pings and closes among it.
**
** One process at a time writes. What it gives to the system stays at its place until all of it was
** sent, and `written` counts in the engine how far the system has come. So a process that is killed
** in its wait leaves the rest to the next one, and no frame is torn.
**
** A process that receives sends answers, too, but waits for the peer only if many are unsent: the
** peer may itself wait until we have received.
*/
#include "web.h"

#include <string.h>

/* {======================================================
** What src/c/websocket.rs has
** ======================================================= */

struct websocket;
struct websocket *baton_web_socket_new(int is_server, size_t message, size_t frame);
void baton_web_socket_free(struct websocket *socket);
/* Takes what has come. No bytes: the connection has ended. */
void baton_web_socket_feed(struct websocket *socket, struct web_bytes bytes);

enum websocket_kind {
  NOTHING, /* before more has come */
  TEXT,
  BINARY,
  PING,
  PONG,
  CLOSED,  /* by the peer, with `code`, and `data` as its reason */
  CUT_OFF, /* the connection has ended without a close */
  FAILED   /* the peer breaks the protocol or a limit; `data` says how */
};
struct websocket_event {
  int kind, code;
  struct web_bytes data; /* valid until the next call of `next` or `forget` */
};
void baton_web_socket_next(struct websocket *socket, struct websocket_event *event);
void baton_web_socket_forget(struct websocket *socket);
/* Returns 1; 0 if this side or the peer has closed; -1 if a text is not UTF-8. */
int baton_web_socket_send(struct websocket *socket, int kind, struct web_bytes data);
/* Returns 0 if the reason is not UTF-8. */
int baton_web_socket_close(struct websocket *socket, int code, struct web_bytes reason);
/* How many bytes are not sent; the next of them, which stay where they are until all of them were
   sent; and that so many of them were. */
size_t baton_web_socket_pending(const struct websocket *socket);
struct web_bytes baton_web_socket_leaving(struct websocket *socket);
void baton_web_socket_sent(struct websocket *socket, size_t size);
/* Writes the proof that a server has understood this key. */
void baton_web_socket_accept(struct web_bytes key, struct web_room room);
/* Writes a new key. Returns 0 if the system gives no random bytes. */
int baton_web_socket_key(struct web_room room);

/* }====================================================== */

/* {======================================================
** Engines
** ======================================================= */

#define ENGINE "baton.web: a WebSocket"

struct engine {
  struct websocket *socket;
  size_t written;            /* of what leaves, since that was last counted as sent */
  unsigned char is_writing;  /* a process has the turn to write, and may wait */
  unsigned char has_ended;   /* nothing more is received */
  unsigned char is_asked;    /* the peer was sent a ping, and nothing has come since */
  uint64_t silence;          /* nanoseconds until the peer is asked; or BATON_NO_DEADLINE */
  int code;                  /* the peer's, if it has closed; else 0 */
};

/* How many unsent bytes of answers a process that receives does not wait for. */
#define MOST_UNSENT 65536

static struct engine *check(lua_State *L) { return luaL_checkudata(L, 1, ENGINE); }

static int engine_gc(lua_State *L) {
  struct engine *engine = check(L);
  struct websocket *socket = engine->socket;
  engine->socket = NULL;
  if (socket != NULL) baton_web_socket_free(socket);
  return 0;
}

/* Called when a function that writes ends, by an error or a kill, too. */
static int stop_writing(lua_State *L) {
  check(L)->is_writing = 0;
  return 0;
}

/* engine(is_server, max_message, max_frame, keepalive) -> engine. A peer that sends nothing for
   `keepalive` seconds is sent a ping, and is given up after as many again. */
static int engine_new(lua_State *L) {
  const int is_server = lua_toboolean(L, 1);
  const size_t message = (size_t)luaL_checkinteger(L, 2), frame = (size_t)luaL_checkinteger(L, 3);
  struct engine *engine;
  baton_module_check_memory(L);
  engine = lua_newuserdatauv(L, sizeof *engine, 0);
  memset(engine, 0, sizeof *engine);
  luaL_setmetatable(L, ENGINE);
  engine->silence = lua_isnoneornil(L, 4) ? BATON_NO_DEADLINE
                                          : (uint64_t)(luaL_checknumber(L, 4) * 1e9);
  engine->socket = baton_web_socket_new(is_server, message, frame);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Sending
** ======================================================= */

static void count_sent(struct engine *engine) {
  baton_web_socket_sent(engine->socket, engine->written);
  engine->written = 0;
}

/* Writes what leaves until nothing does. The calling process has the turn, or does not wait. */
static enum baton_net_result drain(lua_State *L, struct engine *engine,
    struct baton_net_connection *connection, uint64_t deadline) {
  for (;;) {
    enum baton_net_result result;
    struct web_bytes leaving;
    struct iovec part;
    count_sent(engine);
    leaving = baton_web_socket_leaving(engine->socket);
    if (leaving.size == 0) return BATON_NET_DONE;
    part.iov_base = (void *)leaving.at;
    part.iov_len = leaving.size;
    result = baton_net_write(L, connection, &part, 1, &engine->written, deadline);
    if (result != BATON_NET_DONE) {
      count_sent(engine);
      return result;
    }
  }
}

/* Takes the turn to write, until baton_net_end and the end of the calling function. */
static void begin_writing(lua_State *L, struct engine *engine,
    struct baton_net_connection *connection, struct baton_net_turn *turn) {
  baton_net_begin(L, connection, turn, BATON_NET_WRITES);
  lua_pushvalue(L, 1);
  lua_toclose(L, -1);
  engine->is_writing = 1;
}

/* send(engine, connection, kind, data, timeout) -> true; nil, why; or false: the text is not
   UTF-8 */
static int send(lua_State *L) {
  struct engine *engine = check(L);
  struct baton_net_connection *connection = baton_net_check(L, 2);
  const int kind = (int)luaL_checkinteger(L, 3);
  const struct web_bytes data = baton_web_bytes(L, 4);
  const uint64_t deadline = baton_web_deadline(L, 5);
  struct baton_net_turn turn;
  enum baton_net_result result;
  int taken = 0;
  baton_module_check_memory(L);
  begin_writing(L, engine, connection, &turn);
  /* What others have left goes first, so no more than one message is ever unsent. */
  result = drain(L, engine, connection, deadline);
  if (result == BATON_NET_DONE) {
    taken = baton_web_socket_send(engine->socket, kind, data);
    if (taken > 0) result = drain(L, engine, connection, deadline);
  }
  baton_net_end(L, &turn);
  if (taken < 0) { /* the text is not UTF-8 */
    lua_pushboolean(L, 0);
    return 1;
  }
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  if (taken == 0) return baton_net_push_result(L, connection, BATON_NET_CLOSED);
  lua_pushboolean(L, 1);
  return 1;
}

/* shut(engine, connection, code, reason, timeout) -> true; or nil, why. Begins to close. */
static int shut(lua_State *L) {
  struct engine *engine = check(L);
  struct baton_net_connection *connection = baton_net_check(L, 2);
  const int code = (int)luaL_checkinteger(L, 3);
  const struct web_bytes reason = baton_web_bytes(L, 4);
  const uint64_t deadline = baton_web_deadline(L, 5);
  struct baton_net_turn turn;
  enum baton_net_result result;
  int taken;
  if (deadline == 0 && engine->is_writing) /* whoever writes may wait for long */
    return baton_net_push_result(L, connection, BATON_NET_TIMED_OUT);
  begin_writing(L, engine, connection, &turn);
  taken = baton_web_socket_close(engine->socket, code, reason);
  result = drain(L, engine, connection, deadline);
  baton_net_end(L, &turn);
  if (!taken) return luaL_error(L, "the reason is not UTF-8");
  if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
  lua_pushboolean(L, 1);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Receiving
** ======================================================= */

/* Sends answers. Returns BATON_NET_DONE also if some are left that need no wait now. */
static enum baton_net_result answer(lua_State *L, struct engine *engine,
    struct baton_net_connection *connection, uint64_t deadline) {
  const size_t pending = baton_web_socket_pending(engine->socket);
  enum baton_net_result result = BATON_NET_DONE;
  if (pending == 0) return BATON_NET_DONE;
  if (pending > MOST_UNSENT || engine->has_ended) {
    const int top = lua_gettop(L);
    struct baton_net_turn turn;
    begin_writing(L, engine, connection, &turn);
    result = drain(L, engine, connection, deadline);
    baton_net_end(L, &turn);
    lua_settop(L, top); /* ends the writing */
    return result;
  }
  if (!engine->is_writing) result = drain(L, engine, connection, 0);
  return result == BATON_NET_TIMED_OUT ? BATON_NET_DONE : result;
}

static void push_event(lua_State *L, const struct websocket_event *event) {
  lua_pushlstring(L, event->data.at, event->data.size);
  lua_pushstring(L, event->kind == TEXT ? "text" : "binary");
}

/* Reads what still comes, for a moment: a connection that is closed before would be reset, and the
   peer might not read why. */
static void let_it_read(lua_State *L, struct baton_net_connection *connection) {
  const uint64_t deadline = baton_now() + UINT64_C(1000000000);
  size_t size, all = 0;
  while (all < MOST_UNSENT * 16 &&
      baton_net_fill(L, connection, 1, deadline) == BATON_NET_DONE) {
    (void)baton_net_view(connection, &size);
    baton_net_consume(connection, size);
    all += size;
  }
}

/* The last event has come. Tells the peer, as far as it listens. Pushes nil, why, code, reason. */
static int finish(lua_State *L, struct engine *engine, struct baton_net_connection *connection,
    const struct websocket_event *event) {
  enum { LONGEST = 5 }; /* seconds to wait for a peer that does not listen */
  const uint64_t deadline = baton_now() + LONGEST * UINT64_C(1000000000);
  engine->has_ended = 1;
  lua_pushnil(L);
  switch (event->kind) {
    case CLOSED:
      engine->code = event->code;
      lua_pushliteral(L, "closed");
      lua_pushinteger(L, event->code);
      lua_pushlstring(L, event->data.at, event->data.size);
      break;
    case FAILED: lua_pushlstring(L, event->data.at, event->data.size); break;
    default: lua_pushliteral(L, "the connection was cut off: the peer has not closed it");
  }
  baton_web_socket_forget(engine->socket);
  if (answer(L, engine, connection, deadline) == BATON_NET_DONE && event->kind != CUT_OFF &&
      baton_net_shutdown(L, connection, deadline) == BATON_NET_DONE && event->kind == FAILED)
    let_it_read(L, connection);
  baton_net_close(L, connection);
  return event->kind == CLOSED ? 4 : 2;
}

/* Waits for more, and asks a peer that is silent whether it is there. */
static enum baton_net_result fill(lua_State *L, struct engine *engine,
    struct baton_net_connection *connection, uint64_t deadline) {
  for (;;) {
    const uint64_t then = engine->silence == BATON_NO_DEADLINE ? BATON_NO_DEADLINE
                                                               : baton_now() + engine->silence;
    const enum baton_net_result result =
        baton_net_fill(L, connection, 1, then < deadline ? then : deadline);
    if (result != BATON_NET_TIMED_OUT || deadline <= then || engine->is_asked) return result;
    engine->is_asked = 1;
    (void)baton_web_socket_send(engine->socket, PING, (struct web_bytes){"", 0});
    (void)answer(L, engine, connection, deadline);
  }
}

/* Waits for more. Returns BATON_NET_DONE also at the end. */
static enum baton_net_result take(lua_State *L, struct engine *engine,
    struct baton_net_connection *connection, uint64_t deadline) {
  const enum baton_net_result result = fill(L, engine, connection, deadline);
  struct web_bytes bytes = {NULL, 0};
  if (result == BATON_NET_DONE) {
    engine->is_asked = 0;
    bytes.at = baton_net_view(connection, &bytes.size);
    baton_web_socket_feed(engine->socket, bytes);
    baton_net_consume(connection, bytes.size);
    return BATON_NET_DONE;
  }
  if (result != BATON_NET_END) return result;
  baton_web_socket_feed(engine->socket, bytes);
  return BATON_NET_DONE;
}

/* The peer has not answered a ping. Pushes nil and why. */
static int give_up(lua_State *L, struct engine *engine, struct baton_net_connection *connection) {
  engine->has_ended = 1;
  baton_net_close(L, connection);
  lua_pushnil(L);
  lua_pushliteral(L, "the peer does not answer");
  return 2;
}

/* receive(engine, connection, timeout) -> data, "text" or "binary"; or nil, why; or nil, "closed",
   code, reason. After all but "timeout" the connection is closed. */
static int receive(lua_State *L) {
  struct engine *engine = check(L);
  struct baton_net_connection *connection = baton_net_check(L, 2);
  const uint64_t deadline = baton_web_deadline(L, 3);
  struct baton_net_turn turn;
  int results = 0;
  lua_settop(L, 3);
  baton_module_check_memory(L);
  baton_net_begin(L, connection, &turn, BATON_NET_READS);
  while (results == 0) {
    enum baton_net_result result;
    struct websocket_event event;
    if (engine->has_ended) {
      results = baton_net_push_result(L, connection, BATON_NET_CLOSED);
      break;
    }
    baton_web_socket_next(engine->socket, &event);
    if (event.kind == TEXT || event.kind == BINARY) {
      push_event(L, &event);
      baton_web_socket_forget(engine->socket);
      results = 2;
      break;
    }
    if (event.kind >= CLOSED) {
      results = finish(L, engine, connection, &event);
      break;
    }
    result = answer(L, engine, connection, deadline);
    if (result == BATON_NET_DONE && event.kind == NOTHING)
      result = take(L, engine, connection, deadline);
    if (result == BATON_NET_TIMED_OUT && baton_now() < deadline)
      results = give_up(L, engine, connection);
    else if (result != BATON_NET_DONE)
      results = baton_net_push_result(L, connection, result);
  }
  baton_net_end(L, &turn);
  return results;
}

/* }====================================================== */

/* accept(key) -> the proof that a server has understood it */
static int accept(lua_State *L) {
  char proof[40];
  baton_web_socket_accept(baton_web_bytes(L, 1), (struct web_room){proof, sizeof proof});
  lua_pushstring(L, proof);
  return 1;
}

/* key() -> a client's key */
static int key(lua_State *L) {
  char text[40];
  if (!baton_web_socket_key((struct web_room){text, sizeof text}))
    return luaL_error(L, "the system gives no random bytes");
  lua_pushstring(L, text);
  return 1;
}

/* The size of the head at the beginning of `text`, with its empty line; 0: it is not whole. */
static size_t size_of_head(const char *text, size_t size) {
  size_t i;
  for (i = 4; i <= size; i++)
    if (memcmp(text + i - 4, "\r\n\r\n", 4) == 0) return i;
  return 0;
}

/* head(connection, most, timeout) -> the head of a message of HTTP; or nil, why */
static int head(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  const size_t most = (size_t)luaL_checkinteger(L, 2);
  const uint64_t deadline = baton_web_deadline(L, 3);
  size_t size = 0;
  for (;;) {
    const enum baton_net_result result = baton_net_fill(L, connection, size + 1, deadline);
    const char *text = baton_net_view(connection, &size);
    const size_t whole = size_of_head(text, size);
    if (whole > 0) {
      lua_pushlstring(L, text, whole);
      baton_net_consume(connection, whole);
      return 1;
    }
    if (result != BATON_NET_DONE) return baton_net_push_result(L, connection, result);
    if (size >= most) {
      lua_pushnil(L);
      lua_pushfstring(L, "the head has more than %d bytes", (int)most);
      return 2;
    }
  }
}

void baton_web_open_websocket(lua_State *L) {
  static const luaL_Reg functions[] = {{"engine", engine_new}, {"send", send}, {"shut", shut},
      {"receive", receive}, {"accept", accept}, {"key", key}, {"head", head}, {NULL, NULL}};
  if (luaL_newmetatable(L, ENGINE)) {
    lua_pushcfunction(L, engine_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, stop_writing);
    lua_setfield(L, -2, "__close");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    baton_module_note(engine_gc, BATON_MODULE_IS_QUICK | BATON_MODULE_GIVES_BACK);
  }
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
