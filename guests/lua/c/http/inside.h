/*
** The records of baton.http, for the files of this folder.
**
**   sessions.c   a server, and a connection with one: heads of requests are read
**   exchanges.c  a request with its reply: what a handler asks of it
**   bodies.c     the body of a request
**   heads.c      the head of a reply
**   replies.c    replies are sent, at once or as a stream
**   crate.c      patterns of routers, and the packing of replies
**   answers.c    replies that a client gets
**   files.c      files that are sent as replies
**   module.c     the module
**
** The server's loops are in ../../lua/http_server.lua, files in http_files.lua, gzip in
** http_packing.lua, WebSockets in http_websocket.lua, the client in http_client.lua. HTTP/2 is in
** guests/web. A session has one exchange at a time. An exchange that a program keeps after its end
** has no session any more, and refuses what would use it.
*/
#ifndef BATON_HTTP_INSIDE_H
#define BATON_HTTP_INSIDE_H

#include "seam/internals.h"
#include "baton_net.h"
#include "http/http.h"
#include "http/protocol.h"
#include "state/checks.h"

/* Figures of all servers of the program, for its metrics. They have the same order in
   guests/lua/src/inside/metrics/of_servers.rs. */
enum baton_http_figure {
  BATON_HTTP_SERVERS, /* that were made */
  BATON_HTTP_CONNECTIONS,
  BATON_HTTP_HANDLERS,
  BATON_HTTP_REFUSED,
  BATON_HTTP_SENT,    /* bytes of bodies */
  BATON_HTTP_REPLIES, /* with a status below 200; four others follow */
  BATON_HTTP_FIGURES = BATON_HTTP_REPLIES + 5
};
extern uint64_t baton_http_figures[BATON_HTTP_FIGURES];

/* Relaxed: each figure is read by itself, and nothing depends on it. */
static inline void baton_http_add(unsigned figure, uint64_t difference) {
  __atomic_fetch_add(&baton_http_figures[figure], difference, __ATOMIC_RELAXED);
}

/* Figures of one server. They have the same order in guests/lua/src/inside/top/servers.rs, which
   keeps them: observers read them in any thread, also when the server's VM has gone. */
enum baton_server_count {
  BATON_SERVER_ACCEPTED,
  BATON_SERVER_CONNECTIONS, /* now */
  BATON_SERVER_HANDLERS,    /* now */
  BATON_SERVER_REQUESTS,
  BATON_SERVER_REFUSED,
  BATON_SERVER_TIMEOUTS,
  BATON_SERVER_FAILURES,
  BATON_SERVER_HANDSHAKES, /* of TLS, that failed */
  BATON_SERVER_REPLIES,    /* with a status below 200; four others follow */
  BATON_SERVER_COUNTS = BATON_SERVER_REPLIES + 5
};

struct baton_http_server {
  const void *seal; /* must be first */
  uint64_t header_timeout, body_timeout, idle_timeout; /* nanoseconds; BATON_NO_DEADLINE: none */
  size_t max_header;
  uint64_t max_body;
  uint64_t max_handlers; /* 0: as many as there are connections */
  int stops;             /* each reply ends its connection */
  int compresses;        /* replies go by http_packing.lua */
  uint64_t *counts;      /* of enum baton_server_count; those of no server once it was collected */
};

/* Relaxed: each count is read by itself, and nothing depends on it. Only the server's VM writes. */
static inline uint64_t baton_http_count_of(const struct baton_http_server *server, unsigned which) {
  return __atomic_load_n(&server->counts[which], __ATOMIC_RELAXED);
}

static inline void baton_http_count(
    struct baton_http_server *server, unsigned which, uint64_t difference) {
  const uint64_t count = baton_http_count_of(server, which) + difference;
  __atomic_store_n(&server->counts[which], count, __ATOMIC_RELAXED);
}

/* The object's first user value is the connection, its second one the server. */
struct baton_http_session {
  const void *seal; /* must be first */
  struct baton_net_connection *connection;
  struct baton_http_server *server;
  struct baton_http_exchange *exchange; /* NULL: a handler has none */
  unsigned char has_begun;  /* a request has come */
  unsigned char is_idle;    /* it waits for the first byte of a request, or for TLS */
  unsigned char ends;       /* no other request is read */
  unsigned char has_unread; /* the client may still send: what it sends is read before the end */
  unsigned char is_counted; /* in the server's `open` */
  unsigned char is_upgraded; /* the program has the connection: it is not closed here */
};

enum baton_http_progress { BATON_HTTP_SILENT, BATON_HTTP_STREAMS, BATON_HTTP_REPLIED };

/* The object's user values: the session; a table or nil, the fields that programs set, and tables
   that were made for them; the body, once it was read. The fields and the bytes of the head follow
   the record. */
struct baton_http_exchange {
  const void *seal; /* must be first */
  struct baton_http_session *session; /* NULL: it has ended */
  uint64_t begun; /* baton_now when its head had come */
  /* of the request */
  struct baton_http_span method, target, path, query, host;
  struct baton_http_framing framing;
  struct baton_http_decoder decoder;
  uint64_t left;     /* bytes of the body that were not read, if it is not chunked */
  uint64_t received; /* bytes of the body that were read */
  uint64_t deadline; /* of the body; 0: not yet set */
  uint32_t count, size; /* fields, and bytes of the head */
  unsigned char is_head, is_continued, body_has_ended;
  uint16_t fault; /* the status that the body's failure asks for; 0: none */
  /* of the reply */
  enum baton_http_progress progress;
  uint16_t status;
  unsigned char is_chunked, has_no_body;
  unsigned char is_file;   /* it is sent by http_files.lua */
  unsigned char is_cut;    /* its end is missing, and no sign of it is sent */
  unsigned char is_packed; /* the stream goes by http_packing.lua */
  uint64_t sent; /* bytes of the reply's body */
  struct baton_http_field fields[];
};

static inline const char *baton_http_text(
    const struct baton_http_exchange *exchange, struct baton_http_span span) {
  return (const char *)(exchange->fields + exchange->count) + span.start;
}

static inline void baton_http_note_reply(struct baton_http_server *server, unsigned status) {
  const unsigned kind = status / 100;
  if (kind < 1 || kind > 5) return;
  baton_http_count(server, BATON_SERVER_REPLIES + kind - 1, 1);
  baton_http_add(BATON_HTTP_REPLIES + kind - 1, 1);
}

static inline struct baton_http_session *baton_http_check_session(lua_State *L, int index) {
  return baton_inline_check_sealed(L, index, BATON_SEALED_HTTP_SESSION, "session");
}

/* The time in so many nanoseconds. */
static inline uint64_t baton_http_deadline_in(uint64_t nanoseconds) {
  const uint64_t now = baton_now();
  return nanoseconds > BATON_NO_DEADLINE - now ? BATON_NO_DEADLINE : now + nanoseconds;
}

/* sessions.c */
extern const luaL_Reg baton_http_server_methods[], baton_http_session_methods[];
int baton_http_new_server(lua_State *L);
int baton_http_server_gc(lua_State *L);
int baton_http_new_session(lua_State *L);

/* exchanges.c */
struct baton_http_exchange *baton_http_check_exchange(lua_State *L, int index);
/* The same, where its session is used. */
struct baton_http_exchange *baton_http_check_open_exchange(lua_State *L, int index);
/* Pushes a new exchange. Its metatable is at `metatable`, the session at 1. */
struct baton_http_exchange *baton_http_push_exchange(lua_State *L, int metatable,
    const struct baton_http_head *head, const char *data);
/* Pushes the table of the exchange at `index`; the second, nil if there is none. */
void baton_http_push_table(lua_State *L, int index);
int baton_http_push_known_table(lua_State *L, int index);
extern const luaL_Reg baton_http_exchange_methods[];
void baton_http_open_exchanges(lua_State *L);

/* bodies.c */
/* Reads the rest of a body that nobody has read. Returns 0 if the connection has to end. */
int baton_http_drain(lua_State *L, struct baton_http_exchange *exchange);
/* Reads for a moment what a client still sends: otherwise the system tells it that the connection
   was reset, and it may lose the reply. */
void baton_http_linger(lua_State *L, struct baton_http_session *session);
int baton_http_blame(lua_State *L);
extern const luaL_Reg baton_http_body_methods[];

/* files.c */
/* Takes what was read of the file at `index`. It lies in the file. `unsent` becomes the bytes that
   are to be sent, with these. */
struct iovec baton_http_take_piece(lua_State *L, int index, uint64_t *unsent);
int baton_http_open_file(lua_State *L);
int baton_http_path_of_file(lua_State *L);
int baton_http_kind_of_file(lua_State *L);
void baton_http_open_files(lua_State *L);

/* heads.c */
/* The key of the fields that a program has set, in the table of an exchange. */
extern const char baton_http_reply_fields;
/* What a head says of its body. */
struct baton_http_reply {
  unsigned status;
  int is_stream;
  int keeps_alive, is_1_1; /* also results: fields of the program may end the connection */
  int is_head;             /* the program may give the length itself */
  uint64_t length;         /* of the body, unless it is a stream */
  int fields[2];           /* indices of tables with fields; 0: none */
};
/* The longest head that needs no memory. */
#define BATON_HTTP_ROOM 1024
/* Writes the head. `room` has BATON_HTTP_ROOM bytes; a longer head is in an object that is pushed.
   Wrong fields raise an error. Pushes one value. */
struct iovec baton_http_write_head(lua_State *L, struct baton_http_reply *reply, char *room);
/* Whether a reply of this status has no body. */
static inline int baton_http_has_no_body(unsigned status) { return status == 204 || status == 304; }

/* replies.c */
extern const luaL_Reg baton_http_reply_methods[];
int baton_http_end_stream(lua_State *L);
/* What the loops call, and programs cannot. */
int baton_http_finish(lua_State *L);
int baton_http_set_fields(lua_State *L);
int baton_http_compresses(lua_State *L);
int baton_http_pack_stream(lua_State *L);
int baton_http_pack_with(lua_State *L);
extern const luaL_Reg baton_http_raw_methods[];
int baton_http_fail(lua_State *L);
int baton_http_push_reason(lua_State *L);
int baton_http_upgrade(lua_State *L);
int baton_http_add_field(lua_State *L);
int baton_http_begin_file(lua_State *L);
int baton_http_go_on_with_file(lua_State *L);
/* session:refuse(status): the reply to a request that no handler gets. */
int baton_http_refuse(lua_State *L);

/* crate.c */
int baton_http_new_route_table(lua_State *L);
int baton_http_decode_text(lua_State *L);
int baton_http_new_packer_object(lua_State *L);
int baton_http_check_gzip(lua_State *L);
int baton_http_check_text(lua_State *L);
void baton_http_open_crate(lua_State *L);

/* answers.c */
int baton_http_read_answer(lua_State *L);
void baton_http_open_answers(lua_State *L);

#endif
