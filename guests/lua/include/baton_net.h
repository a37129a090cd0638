/*
** Connections of baton.net, for code in C that speaks a protocol over them: baton.http in the
** program, and modules that are files (baton_module.h includes this). Lua's own view of them is
** docs/book/src/reference-net.md.
**
** A function that takes a lua_State may wait. The process waits in the poller, holds no thread, and
** may go on on another one. While it waits, others run, and it may be killed: then the function
** raises an error of Lua's, and does not return. So its caller has nothing to give back that no
** value of Lua holds, and there is no frame of Rust between the caller and Lua. The functions
** without a lua_State neither wait nor raise errors.
**
** Deadlines are absolute times of baton_now, or BATON_NO_DEADLINE. One in the past: do not wait.
** The connection's own deadline (baton_net_set_deadline) bounds each wait as well.
**
** One process at a time reads, and one at a time writes. Others wait for their turn. A process that
** needs several calls together takes the turn itself (baton_net_begin).
*/
#ifndef BATON_NET_H
#define BATON_NET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "lua.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connection. Lies in its object of Lua: the caller keeps that on its stack. */
struct baton_net_connection;

/* How a call has ended. */
enum baton_net_result {
  BATON_NET_DONE,      /* as asked for */
  BATON_NET_END,       /* the peer sends nothing more, and what was asked for is not all there */
  BATON_NET_TIMED_OUT, /* the deadline has passed */
  BATON_NET_CLOSED,    /* this end was closed, by whatever process, or moved to another VM */
  BATON_NET_FAILED     /* the system, or the transport, has refused: baton_net_fault */
};

/* {======================================================
** Connections
** ======================================================= */

/* The connection at `index`. The first raises an error if there is another value. The second
   returns NULL. */
struct baton_net_connection *baton_net_check(lua_State *L, int index);
struct baton_net_connection *baton_net_test(lua_State *L, int index);

/* Pushes `nil, why` for a result that is not BATON_NET_DONE: "closed", "timeout", or what the fault
   says. Both BATON_NET_END and BATON_NET_CLOSED are "closed". Returns 2. */
int baton_net_push_result(
    lua_State *L, const struct baton_net_connection *connection, enum baton_net_result result);
/* errno of the last failure; 0: none, or only a text (baton_net_fault_text, never NULL). */
int baton_net_fault(const struct baton_net_connection *connection);
const char *baton_net_fault_text(const struct baton_net_connection *connection);

/* Until when all waits for the connection last, whoever waits. */
void baton_net_set_deadline(struct baton_net_connection *connection, uint64_t deadline);
uint64_t baton_net_deadline(const struct baton_net_connection *connection);

/* Whether it was neither closed nor moved. */
int baton_net_is_open(const struct baton_net_connection *connection);
/* Closes it at once: unsent data that the system has are still sent. Ends the waits of other
   processes. A transport says no goodbye: see baton_net_shutdown. Closing twice does nothing. */
void baton_net_close(lua_State *L, struct baton_net_connection *connection);
/* Ends what is sent: the peer reads the end. Reading goes on. */
enum baton_net_result baton_net_shutdown(
    lua_State *L, struct baton_net_connection *connection, uint64_t deadline);

/* The turn to read or to write, over several calls; on the C stack of the function that takes it.
   An error ends it, too. Calls of the same process take no further turn while it lasts. */
enum baton_net_way { BATON_NET_READS, BATON_NET_WRITES };
struct baton_net_turn {
  void *room[8]; /* private */
};
void baton_net_begin(lua_State *L, struct baton_net_connection *connection,
    struct baton_net_turn *turn, enum baton_net_way way);
void baton_net_end(lua_State *L, struct baton_net_turn *turn);

/* }====================================================== */

/* {======================================================
** Reading
** ======================================================= */

/*
** Waits until at least `wanted` bytes are buffered, in one piece. Returns BATON_NET_DONE then, and
** never otherwise. The caller bounds `wanted`: the buffer grows to hold it. For what comes next,
** ask for one byte more than there is. With a deadline of 0 it only takes what has arrived.
**
** While nothing is buffered, a connection that waits has no buffer.
*/
enum baton_net_result baton_net_fill(
    lua_State *L, struct baton_net_connection *connection, size_t wanted, uint64_t deadline);
/* What is buffered. The address holds until the next baton_net_fill, baton_net_read or close. */
const char *baton_net_view(const struct baton_net_connection *connection, size_t *size);
/* Takes the first `size` bytes of them away. */
void baton_net_consume(struct baton_net_connection *connection, size_t size);
/* Reads up to `size` bytes, at least one, to `data`: first what is buffered, else past the
   buffer. For long bodies. `data` must stay where it is while the process waits. */
enum baton_net_result baton_net_read(lua_State *L, struct baton_net_connection *connection,
    void *data, size_t size, size_t *got, uint64_t deadline);

/* }====================================================== */

/* {======================================================
** Writing
** ======================================================= */

/* Writes all parts, by one system call if the peer keeps up. Changes the array: the parts that are
   left begin where the writing has ended. `written`, unless it is NULL, becomes the number of bytes
   that were written. It is right at each wait as well: in a place that outlives the call, it says
   what a killed process has written. After any result but BATON_NET_DONE the stream may end in the
   middle. */
enum baton_net_result baton_net_write(lua_State *L, struct baton_net_connection *connection,
    struct iovec *parts, int count, size_t *written, uint64_t deadline);

/* }====================================================== */

/* {======================================================
** Transports: TLS, for instance, over the plain connection
** ======================================================= */

/* What the functions of a transport return in place of a number of bytes. */
enum {
  BATON_NET_WANTS_READ = -1,  /* call again when the plain connection may be read */
  BATON_NET_WANTS_WRITE = -2, /* or written */
  BATON_NET_FAULTY = -3       /* it has failed, and has called baton_net_set_fault */
};

/*
** The functions of a transport. None waits, calls Lua, or raises an error. They move bytes of the
** plain connection by baton_net_plain_read and baton_net_plain_write. They are called one at a
** time, on any thread.
*/
struct baton_net_transport {
  const char *name; /* "tls" */
  /* Reads at most `size` bytes. 0: the peer has ended its half, and has said so. */
  ssize_t (*read)(
      void *state, struct baton_net_connection *connection, void *data, size_t size);
  /* Takes bytes of the parts, at least one, and sends what it can. Returns how many it has taken:
     the rest is offered again. What it has taken and could not send is sent by its `flush`. */
  ssize_t (*write)(void *state, struct baton_net_connection *connection,
      const struct iovec *parts, int count);
  /* Sends what `write` and others have left. Called until it returns 0. */
  ssize_t (*flush)(void *state, struct baton_net_connection *connection);
  /* Goes on with its beginning. Called until it returns 0. NULL: it has none. */
  ssize_t (*handshake)(void *state, struct baton_net_connection *connection);
  /* Says goodbye. Called until it returns 0. The plain connection's half is ended afterwards. */
  ssize_t (*shutdown)(void *state, struct baton_net_connection *connection);
  /* Frees the state. The plain connection is closed afterwards. Also called by the collector, on
     any thread, and not while another function of the transport runs. */
  void (*close)(void *state);
};

/* Puts a transport over the connection, which takes the state over. What is buffered is the
   transport's to read. Returns 0, and takes nothing, if the connection is not open, has a transport
   already, a process uses it, or memory is out. */
int baton_net_install(struct baton_net_connection *connection,
    const struct baton_net_transport *transport, void *state);
/* Waits until the transport's handshake is done. */
enum baton_net_result baton_net_handshake(
    lua_State *L, struct baton_net_connection *connection, uint64_t deadline);
/* The state of the connection's transport if it is this one; else NULL. */
void *baton_net_transport_state(const struct baton_net_connection *connection,
    const struct baton_net_transport *transport);
/* The name of its transport; NULL: it is plain. */
const char *baton_net_transport_name(const struct baton_net_connection *connection);

/* For the functions of a transport. They return a number of bytes, 0 at the end of what is read, or
   one of the numbers above. */
ssize_t baton_net_plain_read(struct baton_net_connection *connection, void *data, size_t size);
ssize_t baton_net_plain_write(
    struct baton_net_connection *connection, const struct iovec *parts, int count);
/* Notes why a function returns BATON_NET_FAULTY: an errno or 0, and a text, which is copied; NULL:
   the system's text. */
void baton_net_set_fault(
    struct baton_net_connection *connection, int number, const char *text);

/* }====================================================== */

#ifdef __cplusplus
}
#endif

#endif
