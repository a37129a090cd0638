/*
** A server, and a connection with one: the heads of requests are read.
**
** The first byte of a request is waited for as long as an idle connection may last. From then on
** the whole head has to come within one time: it helps nobody to send a byte now and then.
*/
#include "http/inside.h"

#include <string.h>

static struct baton_http_server *check_server(lua_State *L, int index) {
  return baton_inline_check_sealed(L, index, BATON_SEALED_HTTP_SERVER, "server");
}

/* {======================================================
** Servers
** ======================================================= */

static lua_Number number_of(lua_State *L, const char *name) {
  lua_Number number;
  lua_getfield(L, 1, name);
  number = luaL_optnumber(L, -1, 0);
  lua_pop(L, 1);
  return number;
}

static uint64_t time_of(lua_State *L, const char *name) {
  const lua_Number seconds = number_of(L, name);
  return seconds >= 1e9 ? BATON_NO_DEADLINE : (uint64_t)(seconds * 1e9);
}

uint64_t baton_http_figures[BATON_HTTP_FIGURES];

/* For the metrics of the program. */
uint64_t baton_http_figure(unsigned figure) {
  return figure < BATON_HTTP_FIGURES
      ? __atomic_load_n(&baton_http_figures[figure], __ATOMIC_RELAXED)
      : 0;
}

/* The Rust half (src/inside/top/servers.rs): makes the counts of a server in the VM with this
   executor. Observers see them until the server is not listed any more; they stay until they are
   freed. */
uint64_t *baton_server_counts_new(const void *executor, const char *name, const char *address);
void baton_server_counts_unlist(uint64_t *counts);
void baton_server_counts_free(uint64_t *counts);

/* What sessions count that outlive their server: objects are collected in any order at the end. */
static uint64_t of_no_server[BATON_SERVER_COUNTS];

/* server(options, address): the options are checked. */
int baton_http_new_server(lua_State *L) {
  const void *executor = baton_inline_caller(L)->vm->executor;
  struct baton_http_server *server;
  const char *address = luaL_optstring(L, 2, "closed"), *name;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_getfield(L, 1, "name");
  name = luaL_checkstring(L, -1);
  baton_lua_check_memory(L);
  server = lua_newuserdatauv(L, sizeof *server, 0);
  memset(server, 0, sizeof *server);
  server->seal = baton_inline_seal(BATON_SEALED_HTTP_SERVER);
  server->counts = baton_server_counts_new(executor, name, address);
  baton_http_add(BATON_HTTP_SERVERS, 1);
  baton_lua_set_sealed_metatable(L, BATON_SEALED_HTTP_SERVER);
  server->header_timeout = time_of(L, "header_timeout");
  server->body_timeout = time_of(L, "body_timeout");
  server->idle_timeout = time_of(L, "idle_timeout");
  server->max_header = (size_t)number_of(L, "max_header");
  server->max_body = (uint64_t)number_of(L, "max_body");
  server->max_handlers = (uint64_t)number_of(L, "max_handlers");
  lua_getfield(L, 1, "compress");
  server->compresses = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return 1;
}

/* __gc */
int baton_http_server_gc(lua_State *L) {
  struct baton_http_server *server = check_server(L, 1);
  if (server->counts == of_no_server) return 0;
  baton_server_counts_free(server->counts);
  server->counts = of_no_server;
  return 0;
}

/* server:unlist(): it has stopped, and observers do not see it any more. */
static int server_unlist(lua_State *L) {
  struct baton_http_server *server = check_server(L, 1);
  if (server->counts != of_no_server) baton_server_counts_unlist(server->counts);
  return 0;
}

/* server:stop(): each reply ends its connection from now on. */
static int server_stop(lua_State *L) {
  check_server(L, 1)->stops = 1;
  return 0;
}

/* server:count("failures") */
static int server_count(lua_State *L) {
  struct baton_http_server *server = check_server(L, 1);
  static const char *const names[] = {"failures", "timeouts", "handshakes", "refused", NULL};
  static const unsigned char counts[] = {BATON_SERVER_FAILURES, BATON_SERVER_TIMEOUTS,
      BATON_SERVER_HANDSHAKES, BATON_SERVER_REFUSED};
  const unsigned count = counts[luaL_checkoption(L, 2, NULL, names)];
  baton_http_count(server, count, 1);
  if (count == BATON_SERVER_REFUSED) baton_http_add(BATON_HTTP_REFUSED, 1);
  return 0;
}

/* Notes that a handler begins. Returns whether there are too many. */
static int begin_handler(struct baton_http_server *server) {
  baton_http_count(server, BATON_SERVER_REQUESTS, 1);
  baton_http_count(server, BATON_SERVER_HANDLERS, 1);
  baton_http_add(BATON_HTTP_HANDLERS, 1);
  return server->max_handlers > 0 &&
      baton_http_count_of(server, BATON_SERVER_HANDLERS) > server->max_handlers;
}

static void end_handler(struct baton_http_server *server) {
  baton_http_count(server, BATON_SERVER_HANDLERS, (uint64_t)-1);
  baton_http_add(BATON_HTTP_HANDLERS, (uint64_t)-1);
}

/* For requests that are no exchanges: those of HTTP/2. */

/* server:enter(): a handler begins. Returns whether there are too many. */
static int server_enter(lua_State *L) {
  lua_pushboolean(L, begin_handler(check_server(L, 1)));
  return 1;
}

/* server:leave(): a handler ends */
static int server_leave(lua_State *L) {
  end_handler(check_server(L, 1));
  return 0;
}

/* server:note(status, size): a reply begins with this status, or goes on if it is 0. So many bytes
   of its body are sent. */
static int server_note(lua_State *L) {
  struct baton_http_server *server = check_server(L, 1);
  const lua_Integer status = luaL_checkinteger(L, 2), size = luaL_checkinteger(L, 3);
  if (status >= 100 && status <= 999) baton_http_note_reply(server, (unsigned)status);
  baton_http_add(BATON_HTTP_SENT, (uint64_t)size);
  return 0;
}

/* server:open(): how many connections and handlers there are */
static int server_open(lua_State *L) {
  const struct baton_http_server *server = check_server(L, 1);
  lua_pushinteger(L, (lua_Integer)baton_http_count_of(server, BATON_SERVER_CONNECTIONS));
  lua_pushinteger(L, (lua_Integer)baton_http_count_of(server, BATON_SERVER_HANDLERS));
  return 2;
}

/* server:stats() */
static int server_stats(lua_State *L) {
  const struct baton_http_server *server = check_server(L, 1);
  static const char *const names[BATON_SERVER_REPLIES] = {"accepted", "connections", "handlers",
      "requests", "refused", "timeouts", "failures", "handshakes"};
  unsigned i;
  lua_createtable(L, 0, BATON_SERVER_REPLIES + 1);
  for (i = 0; i < BATON_SERVER_REPLIES; i++) {
    lua_pushinteger(L, (lua_Integer)baton_http_count_of(server, i));
    lua_setfield(L, -2, names[i]);
  }
  lua_createtable(L, 5, 0); /* replies[2]: how many had a status from 200 to 299 */
  for (i = BATON_SERVER_REPLIES; i < BATON_SERVER_COUNTS; i++) {
    lua_pushinteger(L, (lua_Integer)baton_http_count_of(server, i));
    lua_rawseti(L, -2, (lua_Integer)(i - BATON_SERVER_REPLIES + 1));
  }
  lua_setfield(L, -2, "replies");
  return 1;
}

const luaL_Reg baton_http_server_methods[] = {{"stop", server_stop}, {"unlist", server_unlist},
    {"count", server_count}, {"open", server_open}, {"stats", server_stats},
    {"enter", server_enter}, {"leave", server_leave}, {"note", server_note}, {NULL, NULL}};

/* }====================================================== */

/* {======================================================
** Sessions
** ======================================================= */

/* session(connection, server) */
int baton_http_new_session(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  struct baton_http_server *server = check_server(L, 2);
  struct baton_http_session *session;
  baton_lua_check_memory(L);
  session = lua_newuserdatauv(L, sizeof *session, 2);
  memset(session, 0, sizeof *session);
  session->seal = baton_inline_seal(BATON_SEALED_HTTP_SESSION);
  session->connection = connection;
  session->server = server;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 2);
  baton_lua_set_sealed_metatable(L, BATON_SEALED_HTTP_SESSION);
  session->is_counted = session->is_idle = 1; /* idle until a request begins */
  baton_http_count(server, BATON_SERVER_ACCEPTED, 1);
  baton_http_count(server, BATON_SERVER_CONNECTIONS, 1);
  baton_http_add(BATON_HTTP_CONNECTIONS, 1);
  return 1;
}

static void leave_exchange(struct baton_http_session *session) {
  if (session->exchange == NULL) return;
  session->exchange->session = NULL;
  session->exchange = NULL;
  end_handler(session->server);
}

/* session:close(), and at the end of its scope */
static int session_close(lua_State *L) {
  struct baton_http_session *session = baton_http_check_session(L, 1);
  if (!session->is_counted) return 0;
  session->is_counted = 0;
  session->ends = 1;
  leave_exchange(session);
  baton_http_count(session->server, BATON_SERVER_CONNECTIONS, (uint64_t)-1);
  baton_http_add(BATON_HTTP_CONNECTIONS, (uint64_t)-1);
  if (!session->is_upgraded) baton_net_close(L, session->connection);
  return 0;
}

/* session:linger(): reads what a client still sends, for a moment */
static int session_linger(lua_State *L) {
  struct baton_http_session *session = baton_http_check_session(L, 1);
  if (session->has_unread && session->is_counted) baton_http_linger(L, session);
  return 0;
}

/* session:is_idle(): whether it waits for a request, and whether one has come before */
static int session_is_idle(lua_State *L) {
  const struct baton_http_session *session = baton_http_check_session(L, 1);
  lua_pushboolean(L, session->is_idle);
  lua_pushboolean(L, session->has_begun);
  return 2;
}

/* }====================================================== */

/* {======================================================
** The next request
** ======================================================= */

/* Ends the exchange before. Returns whether another request may come. */
static int settle(lua_State *L, struct baton_http_session *session) {
  struct baton_http_exchange *exchange = session->exchange;
  if (exchange == NULL) return !session->ends;
  if (exchange->progress != BATON_HTTP_REPLIED) session->ends = 1;
  if (!session->ends && !baton_http_drain(L, exchange)) session->ends = 1;
  if (session->ends && !exchange->body_has_ended) session->has_unread = 1;
  leave_exchange(session);
  return !session->ends;
}

/* Waits for the first byte of a head. */
static enum baton_net_result await_first(lua_State *L, struct baton_http_session *session) {
  const struct baton_http_server *server = session->server;
  enum baton_net_result result;
  session->is_idle = 1;
  result = baton_net_fill(L, session->connection, 1,
      baton_http_deadline_in(session->has_begun ? server->idle_timeout : server->header_timeout));
  session->is_idle = 0;
  return result;
}

/* Waits for a head. Returns 0 if it has come, or the status of a refusal, or -1: the connection
   ends. */
static int await_head(
    lua_State *L, struct baton_http_session *session, struct baton_http_head *head) {
  struct baton_net_connection *connection = session->connection;
  const struct baton_http_server *server = session->server;
  uint64_t deadline = 0;
  size_t seen = 0, size;
  const char *data = baton_net_view(connection, &size);
  session->is_idle = 0;
  if (size == 0) {
    if (session->has_begun && server->stops) return -1;
    if (await_first(L, session) != BATON_NET_DONE) return -1;
    data = baton_net_view(connection, &size);
  }
  for (;;) {
    const uint32_t status = baton_http_parse(data, size, &seen, server->max_header, head);
    enum baton_net_result result;
    if (status != BATON_HTTP_PARTIAL) return (int)status;
    if (deadline == 0) deadline = baton_http_deadline_in(server->header_timeout);
    result = baton_net_fill(L, connection, size + 1, deadline);
    if (result == BATON_NET_TIMED_OUT) return 408;
    if (result != BATON_NET_DONE) return -1;
    data = baton_net_view(connection, &size);
  }
}

static int refuse(lua_State *L, struct baton_http_session *session, int status) {
  lua_pushnil(L);
  if (status < 0) return 1;
  session->ends = session->has_unread = 1;
  baton_http_count(session->server, BATON_SERVER_REFUSED, 1);
  baton_http_add(BATON_HTTP_REFUSED, 1);
  if (status == 408) baton_http_count(session->server, BATON_SERVER_TIMEOUTS, 1);
  lua_pushinteger(L, status);
  return 2;
}

/* session:next(): the next request, and true if there are too many; or nil, and the status of a
   refusal if the client is to be told. Ends the exchange before. */
static int session_next(lua_State *L) {
  struct baton_http_session *session = baton_http_check_session(L, 1);
  struct baton_http_server *server = session->server;
  struct baton_http_exchange *exchange;
  struct baton_http_head head;
  size_t size;
  int status;
  lua_settop(L, 1);
  if (l_unlikely(!settle(L, session))) return 0;
  status = await_head(L, session, &head);
  if (l_unlikely(status != 0)) return refuse(L, session, status);
  exchange = baton_http_push_exchange(L, lua_upvalueindex(1), &head,
      baton_net_view(session->connection, &size));
  baton_net_consume(session->connection, head.size);
  if (l_unlikely(!head.framing.is_chunked && head.framing.length > server->max_body))
    return refuse(L, session, 413);
  exchange->session = session;
  session->exchange = exchange;
  session->has_begun = 1;
  lua_pushboolean(L, begin_handler(server));
  return 2;
}

/* session:has_preface(): whether the client begins with HTTP/2. Waits for as many bytes as tell. */
static int session_has_preface(lua_State *L) {
  static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  struct baton_http_session *session = baton_http_check_session(L, 1);
  const uint64_t deadline = baton_http_deadline_in(session->server->header_timeout);
  int is_known = 0, is_preface = 0;
  while (!is_known) {
    size_t size;
    const char *data = baton_net_view(session->connection, &size);
    const size_t known = size < sizeof preface - 1 ? size : sizeof preface - 1;
    const int is_other = known > 0 && memcmp(data, preface, known) != 0;
    is_preface = !is_other && known == sizeof preface - 1;
    is_known = is_other || is_preface ||
        baton_net_fill(L, session->connection, size + 1, deadline) != BATON_NET_DONE;
  }
  lua_pushboolean(L, is_preface);
  return 1;
}

/* }====================================================== */

const luaL_Reg baton_http_session_methods[] = {{"next", session_next}, {"close", session_close},
    {"refuse", baton_http_refuse}, {"linger", session_linger}, {"is_idle", session_is_idle},
    {"has_preface", session_has_preface}, {NULL, NULL}};
