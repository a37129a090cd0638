/*
** TLS as a transport of a connection. The session (src/tls/session.rs) is given the bytes that have
** come, and gives those to send. All waits are those of baton.net.
*/
#include "web.h"

#include <errno.h>
#include <string.h>

/* {======================================================
** What src/c/tls.rs has
** ======================================================= */

struct tls_context;
struct tls_context *baton_web_context_new(void);
void baton_web_context_free(struct tls_context *context);
void baton_web_context_certificate(
    struct tls_context *context, struct web_bytes certificate, struct web_bytes key);
void baton_web_context_authorities(struct tls_context *context, struct web_bytes given);
void baton_web_context_verify(struct tls_context *context, int verify);
void baton_web_context_protocol(struct tls_context *context, struct web_bytes name);
void baton_web_context_finish(struct tls_context *context);
/* Returns 0 and writes why it failed. */
int baton_web_context_reload(const struct tls_context *context, struct web_room message);

/* Reads what a side needs, unless that was done. Returns 0 and writes why it failed. */
int baton_web_context_prepare(
    const struct tls_context *context, int is_server, struct web_room message);

struct tls_session;
/* Returns NULL and writes why it failed. */
struct tls_session *baton_web_session_new(const struct tls_context *context, int is_server,
    struct web_bytes name, struct web_room message);
void baton_web_session_free(struct tls_session *session);
/* Takes what has come, once all decrypted bytes were read. Returns 0 after a failure. */
int baton_web_session_feed(struct tls_session *session, struct web_bytes bytes);
/* Returns a number of bytes, or an enum session_found. */
ssize_t baton_web_session_read(struct tls_session *session, void *room, size_t size);
/* Encrypts as many bytes of the parts as there is room for, in as few records as possible. */
ssize_t baton_web_session_write(
    struct tls_session *session, const struct iovec *parts, int count);
void baton_web_session_finish(struct tls_session *session);
int baton_web_session_has_output(const struct tls_session *session);
int baton_web_session_is_handshaking(const struct tls_session *session);
/* Gives what is to be sent to `send`, which returns how many bytes it took, or a negative number.
   Returns whether it took all. */
typedef ssize_t (*session_send)(void *argument, const struct iovec *parts, int count);
int baton_web_session_flush(struct tls_session *session, session_send send, void *argument);
void baton_web_session_failure(const struct tls_session *session, struct web_room message);

enum session_found {
  SESSION_NOTHING = 0,
  SESSION_END = -1,     /* the peer has said that it sends no more */
  SESSION_CUT_OFF = -2, /* it has not, and the connection has ended */
  SESSION_FAILED = -3
};

struct tls_facts {
  struct web_bytes version, cipher, protocol, name, certificate;
  int is_resumed;
};
/* What is known of a session; valid until the next call. */
void baton_web_session_facts(struct tls_session *session, struct tls_facts *facts);

/* }====================================================== */

/* {======================================================
** The transport
** ======================================================= */

/* A call of the connection's, and what its plain connection said last. */
struct plain {
  struct baton_net_connection *connection;
  ssize_t said;
};

static ssize_t send_plain(void *argument, const struct iovec *parts, int count) {
  struct plain *plain = argument;
  plain->said = baton_net_plain_write(plain->connection, parts, count);
  return plain->said;
}

/* Sends what the session has for the peer. */
static ssize_t flush(void *state, struct baton_net_connection *connection) {
  struct plain plain = {connection, 0};
  return baton_web_session_flush(state, send_plain, &plain) ? 0 : plain.said;
}

/* Notes the session's failure. The peer is told by an alert, as far as there is room for it. */
static ssize_t fail(struct tls_session *session, struct baton_net_connection *connection) {
  char message[BATON_WEB_MESSAGE];
  (void)flush(session, connection);
  baton_web_session_failure(session, (struct web_room){message, sizeof message});
  baton_net_set_fault(connection, 0, message);
  return BATON_NET_FAULTY;
}

/* Takes what has come. Returns a positive number, 0 at the end, or what to wait for. The room is
   the thread's, and not on a process's stack: a stack that has once been so deep stays so large. */
static ssize_t take(struct tls_session *session, struct baton_net_connection *connection) {
  static __thread char bytes[16384];
  const ssize_t size = baton_net_plain_read(connection, bytes, sizeof bytes);
  if (size < 0) return size;
  if (!baton_web_session_feed(session, (struct web_bytes){size > 0 ? bytes : NULL, (size_t)size}))
    return fail(session, connection);
  return size;
}

static ssize_t handshake(void *state, struct baton_net_connection *connection) {
  for (;;) {
    ssize_t done = flush(state, connection);
    if (done != 0) return done;
    if (!baton_web_session_is_handshaking(state)) return 0;
    done = take(state, connection);
    if (done < 0) return done;
  }
}

static ssize_t transport_read(
    void *state, struct baton_net_connection *connection, void *data, size_t size) {
  for (;;) {
    const ssize_t found = baton_web_session_read(state, data, size);
    ssize_t done;
    switch (found) {
      case SESSION_END: return 0;
      case SESSION_FAILED: return fail(state, connection);
      case SESSION_CUT_OFF:
        baton_net_set_fault(connection, 0,
            "the connection was cut off: it has ended, and the peer has not said so by TLS");
        return BATON_NET_FAULTY;
      case SESSION_NOTHING: break;
      default: return found;
    }
    done = take(state, connection);
    /* An answer that does not fit now goes out with what is written next. */
    if (baton_web_session_has_output(state)) (void)flush(state, connection);
    if (done < 0) return done;
  }
}

static ssize_t transport_write(void *state, struct baton_net_connection *connection,
    const struct iovec *parts, int count) {
  for (;;) {
    const ssize_t taken = baton_web_session_write(state, parts, count);
    ssize_t done;
    if (taken < 0) return fail(state, connection);
    done = flush(state, connection);
    if (taken > 0) return taken; /* what is not sent yet, `flush` sends */
    if (done != 0) return done;
  }
}

static ssize_t transport_shutdown(void *state, struct baton_net_connection *connection) {
  baton_web_session_finish(state);
  return flush(state, connection);
}

static void transport_close(void *state) { baton_web_session_free(state); }

static const struct baton_net_transport transport = {"tls", transport_read, transport_write, flush,
    handshake, transport_shutdown, transport_close};

/* }====================================================== */

/* {======================================================
** Contexts
** ======================================================= */

#define CONTEXT "baton.web: TLS"

static struct tls_context **check_context(lua_State *L, int index) {
  return (struct tls_context **)luaL_checkudata(L, index, CONTEXT);
}

static int context_gc(lua_State *L) {
  struct tls_context **place = check_context(L, 1), *context = *place;
  *place = NULL;
  if (context != NULL) baton_web_context_free(context);
  return 0;
}

/* Calls `add` with each string of a list in the field. */
static void add_list(lua_State *L, struct tls_context *context, const char *field,
    void (*add)(struct tls_context *, struct web_bytes)) {
  lua_Integer i;
  if (lua_getfield(L, 1, field) == LUA_TTABLE) {
    for (i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
      add(context, baton_web_bytes(L, -1));
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* context{certs={CERT, KEY, ...}, ca=, verify=, alpn={...}} -> context. The options have been
   checked; `verify` is a number. */
static int context_new(lua_State *L) {
  struct tls_context **place, *context;
  lua_Integer i;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  baton_module_check_memory(L);
  place = (struct tls_context **)lua_newuserdatauv(L, sizeof *place, 0);
  *place = NULL;
  luaL_setmetatable(L, CONTEXT);
  *place = context = baton_web_context_new();
  lua_getfield(L, 1, "certs");
  for (i = 1; lua_rawgeti(L, 3, i) == LUA_TSTRING; i += 2) {
    lua_rawgeti(L, 3, i + 1);
    baton_web_context_certificate(context, baton_web_bytes(L, -2), baton_web_bytes(L, -1));
    lua_settop(L, 3);
  }
  lua_settop(L, 2);
  if (lua_getfield(L, 1, "ca") == LUA_TSTRING)
    baton_web_context_authorities(context, baton_web_bytes(L, -1));
  lua_getfield(L, 1, "verify");
  baton_web_context_verify(context, (int)lua_tointeger(L, -1));
  lua_settop(L, 2);
  add_list(L, context, "alpn", baton_web_context_protocol);
  baton_web_context_finish(context);
  return 1;
}

static int true_or_why(lua_State *L, int is_done, const char *why) {
  if (is_done) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* reload(context) -> true; or nil, why. Others run while files are read. */
static int context_reload(lua_State *L) {
  struct tls_context *context = *check_context(L, 1);
  char message[BATON_WEB_MESSAGE];
  const int is_done =
      baton_web_context_reload(context, (struct web_room){message, sizeof message});
  return true_or_why(L, is_done, message);
}

/* prepare(context, is_server) -> true; or nil, why. Others run while files are read: a system has
   150 authorities. */
static int context_prepare(lua_State *L) {
  struct tls_context *context = *check_context(L, 1);
  char message[BATON_WEB_MESSAGE];
  const int is_done = baton_web_context_prepare(
      context, lua_toboolean(L, 2), (struct web_room){message, sizeof message});
  return true_or_why(L, is_done, message);
}

/* }====================================================== */

/* {======================================================
** Connections
** ======================================================= */

/* Closes the connection, and returns nil and why. */
static int give_up(lua_State *L, struct baton_net_connection *connection, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  baton_net_close(L, connection);
  return 2;
}

/* begin(connection, context, is_server, name, timeout) -> connection; or nil, why, and the
   connection is closed */
static int begin(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  struct tls_context *context = *check_context(L, 2);
  const int is_server = lua_toboolean(L, 3);
  const struct web_bytes name = baton_web_bytes(L, 4);
  const uint64_t deadline = baton_web_deadline(L, 5);
  char message[BATON_WEB_MESSAGE];
  struct tls_session *session;
  enum baton_net_result result;
  if (baton_net_transport_name(connection) != NULL)
    return luaL_argerror(L, 1, "the connection has TLS already");
  baton_module_check_memory(L);
  session = baton_web_session_new(
      context, is_server, name, (struct web_room){message, sizeof message});
  if (session == NULL) return give_up(L, connection, message);
  if (!baton_net_install(connection, &transport, session)) {
    baton_web_session_free(session);
    if (!baton_net_is_open(connection))
      return baton_net_push_result(L, connection, BATON_NET_CLOSED);
    return luaL_argerror(L, 1, "another process uses the connection");
  }
  result = baton_net_handshake(L, connection, deadline);
  if (result != BATON_NET_DONE) {
    const int results = baton_net_push_result(L, connection, result);
    baton_net_close(L, connection);
    return results;
  }
  lua_settop(L, 1);
  return 1;
}

static void set_bytes(lua_State *L, const char *field, struct web_bytes bytes) {
  if (bytes.at == NULL) return;
  lua_pushlstring(L, bytes.at, bytes.size);
  lua_setfield(L, -2, field);
}

/* facts(connection) -> a table of what is known of its TLS; or nil, if it has none */
static int facts(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  struct tls_session *session = baton_net_transport_state(connection, &transport);
  struct tls_facts known;
  if (session == NULL) return 0;
  lua_createtable(L, 0, 6);
  baton_web_session_facts(session, &known);
  set_bytes(L, "version", known.version);
  set_bytes(L, "cipher", known.cipher);
  set_bytes(L, "alpn", known.protocol);
  set_bytes(L, "name", known.name);
  set_bytes(L, "certificate", known.certificate);
  lua_pushboolean(L, known.is_resumed);
  lua_setfield(L, -2, "resumed");
  return 1;
}

void baton_web_open_tls(lua_State *L) {
  static const luaL_Reg functions[] = {{"context", context_new}, {"reload", context_reload},
      {"prepare", context_prepare}, {"begin", begin}, {"facts", facts}, {NULL, NULL}};
  if (luaL_newmetatable(L, CONTEXT)) {
    lua_pushcfunction(L, context_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    baton_module_note(context_gc, BATON_MODULE_IS_QUICK | BATON_MODULE_GIVES_BACK);
  }
  lua_pop(L, 1);
  baton_module_note(context_reload, BATON_MODULE_LETS_RUN);
  baton_module_note(context_prepare, BATON_MODULE_LETS_RUN);
  luaL_setfuncs(L, functions, 0);
}

/* }====================================================== */
