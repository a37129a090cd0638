/*
** The records of baton.net, for the files of this folder.
**
**   waiting.c      waits for a descriptor, for a turn, and for a place below a limit
**   buffers.c      the bytes of a connection that were read and not yet taken
**   connections.c  the record of a connection; its transport; the end of any socket
**   streams.c      reading and writing, for code in C
**   methods.c      the methods of connections
**   arguments.c    texts of addresses, and names; options
**   listeners.c    listeners
**   connecting.c   net.connect
**   datagrams.c    net.udp
**   module.c       the module; vm.move
**
** All of this is used inside the VM, or in functions that no other process runs beside: only a wait
** lets others run. A wait may continue on another thread, so `errno` is read in the function that
** made the system call, which does not wait.
*/
#ifndef BATON_NET_INSIDE_H
#define BATON_NET_INSIDE_H

#include "seam/internals.h"
#include "net/net.h"
#include "loopback/loopback.h"
#include "sharing/sharing.h"
#include "state/checks.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What is common to connections, listeners and sockets for datagrams: the head of their records,
   which lie in their objects. */
struct baton_net_socket {
  const void *seal; /* must be first */
  int descriptor;   /* -1: it is closed, was moved, or was never open. A closed one stays so */
  unsigned forks;   /* of the VM, when `holders` was set */
  struct baton_process *holders[2]; /* by way: the process whose turn it is */
  int waiting;      /* processes that wait for their turn */
  int waits;        /* processes that wait for the descriptor */
  struct baton_net_departed *departed; /* what vm.move has sent, until the object is closed */
  /* in a simulated run, a baton_link, a listener's baton_port, or a baton_mailbox for datagrams.
     The descriptor is a number that the system does not have */
  void *simulated;
};

/* A socket on its way to another VM. `bytes` is the record's, without the head. */
struct baton_net_departed {
  struct baton_departed departed; /* must be first */
  int kind;                       /* BATON_SEALED_CONNECTION, ... */
  int descriptor;
  void *record;
};

/* What was read and not yet taken: `data` from `start` to `end`. */
struct baton_net_buffer {
  char *data; /* NULL: none */
  size_t start, end, room;
};

/* How many connections of a listener may be open: of the listener and its connections, in any
   VM. */
struct baton_net_places;

/* The bounds of what a program's method collects from a peer. */
struct baton_net_bounds {
  size_t line, all; /* bytes of read "line" and read "all" */
};

struct baton_net_connection {
  struct baton_net_socket socket; /* must be first */
  struct baton_net_buffer buffer;
  /* what was read before the transport was installed, for it to read */
  struct baton_net_buffer early;
  const struct baton_net_transport *transport; /* NULL: it is plain */
  void *state;
  struct baton_net_places *places; /* NULL: its listener has no limit */
  uint64_t deadline;
  uint64_t timeout;  /* nanoseconds for each method without a timeout; BATON_NO_DEADLINE: none */
  int64_t news;      /* of the descriptor, before the last attempt to read */
  int fault;         /* errno of the last failure */
  char *fault_text;  /* NULL: the system's */
  struct baton_net_bounds bounds;
  unsigned char is_tcp;
  unsigned char is_drained; /* the last attempt to read has emptied the system's buffer */
  unsigned char is_vain;    /* and nothing has come since: an attempt would find nothing */
  unsigned char has_ended;  /* the peer has ended its half */
  unsigned char has_moved;  /* bytes, since processes that wait in a simulated run were told */
};

struct baton_net_listener {
  struct baton_net_socket socket; /* must be first */
  struct baton_net_places *places; /* NULL: without a limit */
  struct baton_net_bounds bounds;  /* of its connections */
  int family;
  char *path;       /* of the file that it has made, and removes at its end; NULL: none */
  dev_t device;     /* of that file */
  ino_t file;
  unsigned char nodelay;
  unsigned char has_warned; /* that descriptors are short */
};

struct baton_net_datagrams {
  struct baton_net_socket socket; /* must be first */
  int family;
  char *data; /* for what is received; NULL: not yet */
};

/* What is in a baton_net_turn. */
struct baton_net_held {
  struct baton_turn_mark mark;
  struct baton_net_socket *socket; /* NULL: the process had the turn already */
  struct baton_process *process;
  unsigned way;
};
_Static_assert(sizeof(struct baton_net_held) <= sizeof(struct baton_net_turn), "it has room");

/* {======================================================
** waiting.c
** ======================================================= */

/* Waits until the descriptor may be ready. BATON_NET_DONE: try again. `harvests` was read before
   the attempt that would have blocked. */
enum baton_net_result baton_net_wait(lua_State *L, struct baton_process *process,
    struct baton_net_socket *socket, unsigned wants, uint64_t harvests, uint64_t deadline);
/* In a simulated run: waits until somebody stirs, or `until`. */
void baton_net_await_stir(lua_State *L, struct baton_process *process, uint64_t until);
/* In a simulated run: something has changed, so processes that wait look again. */
void baton_net_stir(lua_State *L);
/* Waits until another process has given its turn back, and takes the turn unless it is the calling
   process's already. */
void baton_net_hold(lua_State *L, struct baton_process *process, struct baton_net_socket *socket,
    struct baton_net_held *held, enum baton_net_way way);
void baton_net_let_go(lua_State *L, struct baton_net_held *held);
/* Whether another process has the turn. */
static inline int baton_net_is_held(const struct baton_net_socket *socket,
    const struct baton_process *process, enum baton_net_way way) {
  return l_unlikely(socket->holders[way] != NULL) && socket->holders[way] != process &&
      socket->forks == process->vm->forks;
}
/* The argument at `index`, a timeout, as a deadline. `otherwise`: nanoseconds if there is none. */
uint64_t baton_net_deadline_at(lua_State *L, int index, uint64_t otherwise);
/* The time in so many nanoseconds. 0 and BATON_NO_DEADLINE stay what they are. */
uint64_t baton_net_deadline_in(uint64_t nanoseconds);
/* The places of a new listener, with a reference of its own; NULL without memory. */
struct baton_net_places *baton_net_new_places(lua_Integer limit);
/* Waits until a place is free. Nobody else takes it before the next wait. */
enum baton_net_result baton_net_await_place(lua_State *L, struct baton_process *process,
    struct baton_net_socket *listener, struct baton_net_places *places, uint64_t deadline);
/* A new connection takes a place, and gives it back at its end. `places` may be NULL. */
void baton_net_take_place(struct baton_net_places *places);
void baton_net_leave_place(struct baton_net_places *places);
/* The listener has ended. */
void baton_net_end_places(struct baton_net_places *places);

/* }====================================================== */

/* {======================================================
** buffers.c
** ======================================================= */

#define BATON_NET_ROOM 16384 /* bytes of a buffer at first */

static inline size_t baton_net_buffered(const struct baton_net_buffer *buffer) {
  return buffer->end - buffer->start;
}
/* Makes room for more bytes at the end, if `wanted` are to be there together. Returns 0 without
   memory. */
int baton_net_make_room(
    struct baton_lua_vm *vm, struct baton_net_buffer *buffer, size_t wanted);
/* Gives the memory back. `vm` may be NULL. */
void baton_net_drop_buffer(struct baton_lua_vm *vm, struct baton_net_buffer *buffer);

/* }====================================================== */

/* {======================================================
** connections.c
** ======================================================= */

/* The bytes of a kind's record. */
size_t baton_net_size_of(int kind);
/* The socket at `index`, with what has come back of it. Without one, the first returns NULL, and
   the second raises an error. */
void *baton_net_socket_at(lua_State *L, int index, int kind);
void *baton_net_socket_at_1(lua_State *L, int kind);
/* Pushes a new object of a kind, without a descriptor. */
void *baton_net_new_socket(lua_State *L, int kind);
/* Ends the waits for the socket's descriptor, and takes the descriptor away, which the caller
   closes. Negative: there is none. */
int baton_net_take_descriptor(lua_State *L, struct baton_net_socket *socket);
/* Pushes a new connection without a descriptor. */
struct baton_net_connection *baton_net_new_connection(lua_State *L);
/* Gives a connection its descriptor. */
void baton_net_adopt(
    lua_State *L, struct baton_net_connection *connection, int descriptor, int family);
/* Gives a connection of a simulated run its end. */
void baton_net_adopt_simulated(
    lua_State *L, struct baton_net_connection *connection, struct baton_link *link);
/* Frees what is outside of the heap, apart from the descriptor and the text of its fault. `vm` may
   be NULL. */
void baton_net_strip(struct baton_lua_vm *vm, struct baton_net_connection *connection);
/* __gc of connections, and __tostring of all objects */
int baton_net_collect(lua_State *L);
int baton_net_tostring(lua_State *L);

/* }====================================================== */

/* {======================================================
** arguments.c
** ======================================================= */

struct baton_net_address {
  socklen_t size;
  union {
    struct sockaddr any;
    struct sockaddr_in of_4;
    struct sockaddr_in6 of_6;
    struct sockaddr_un local;
  } at;
};

/* How many addresses of one name are used. */
#define BATON_NET_MOST_ADDRESSES 16

/* What a text of an address says. */
struct baton_net_place {
  const char *text;  /* all of it */
  const char *host;  /* NULL: a path. It is on Lua's stack, as a string of its own */
  const char *port;
  int is_local;      /* it is a path, and `address` is set */
  struct baton_net_address address;
};

/* Reads the address at `index`, and pushes two values that keep its parts. Raises an error if it is
   none. */
void baton_net_read_place(lua_State *L, int index, struct baton_net_place *place);
/* Finds the addresses of a place, looking a name up while others run. An empty host is any address
   if `is_passive`, else this machine's. Returns their number; 0: `*why` says why there is none. */
int baton_net_find(lua_State *L, struct baton_process *process,
    const struct baton_net_place *place, int is_passive, uint64_t deadline,
    struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES], const char **why);
/* Pushes its text. */
void baton_net_push_address(lua_State *L, const struct baton_net_address *address);
/* address() and peer() of a socket's descriptor: the text, or nil and why. */
int baton_net_push_own(lua_State *L, const struct baton_net_socket *socket);
int baton_net_push_peer(lua_State *L, const struct baton_net_socket *socket);
/* Pushes `nil, "address: message", number` for an error of the system. Returns 3. */
int baton_net_refused(lua_State *L, const char *address, int number);

/* }====================================================== */

/* {======================================================
** arguments.c: options of the functions that make sockets
** ======================================================= */

enum baton_net_option_type { BATON_NET_FLAG, BATON_NET_COUNT, BATON_NET_SECONDS, BATON_NET_ANY };
struct baton_net_option {
  const char *name;
  enum baton_net_option_type type;
};
/* Checks the options at `index`, which may be none: unknown names and wrong types raise an error.
   The list ends with NULL. */
void baton_net_check_options(lua_State *L, int index, const struct baton_net_option *options);
/* The value of one of them, or what it is without one. */
int baton_net_flag(lua_State *L, int index, const char *name, int otherwise);
lua_Integer baton_net_count(lua_State *L, int index, const char *name, lua_Integer otherwise);
struct baton_net_bounds baton_net_read_bounds(lua_State *L, int index);

/* }====================================================== */

/* listeners.c, connecting.c, datagrams.c */
int baton_net_listen(lua_State *L);
void baton_net_strip_listener(struct baton_net_listener *listener);
int baton_net_collect_listener(lua_State *L);
int baton_net_collect_datagrams(lua_State *L);
int baton_net_connect(lua_State *L);
int baton_net_tls(lua_State *L);
int baton_net_udp(lua_State *L);
/* The methods of each kind, in methods.c, listeners.c and datagrams.c. */
extern const luaL_Reg baton_net_connection_methods[], baton_net_listener_methods[],
    baton_net_datagram_methods[];

#endif
