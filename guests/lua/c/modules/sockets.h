/*
** LuaSocket and LuaSec: their objects never wait in C.
**
** The module's own timeout of a socket is 0 for ever. A method is tried; if it says "timeout",
** "wantread" or "wantwrite", the process waits here, in a frame of ours, on no particular thread,
** and the method is tried again with what is left. The timeouts that the program has set are kept
** beside the object.
**
**   sockets.c            what is kept about a socket; the wait; turns
**   socket_methods.c     receive, send, accept, close and their relatives
**   socket_connect.c     connect
**   socket_functions.c   socket.select, socket.sleep, socket.connect; which modules and classes
**                        there are
**   name_lookups.c       names, looked up by helper threads
**
** Where a process cannot wait (in a critical section, a finalizer, a scheduler, at the program's
** end), the method is called with the program's own timeouts, and the module waits.
*/
#ifndef BATON_SOCKETS_H
#define BATON_SOCKETS_H

#include "seam/guest.h"

enum baton_way { BATON_RECEIVES, BATON_SENDS };

/* What is kept about a socket: a userdata, the first user value of the module's object. Inside the
   VM, or in functions that nobody runs beside. */
struct baton_socket {
  const void *kind;         /* tells these from other userdata */
  lua_Number block, total;  /* the program's timeouts in seconds; negative: none */
  int descriptor;           /* -1: none yet, or none any more */
  unsigned forks;           /* of the VM, when the holders were noted */
  unsigned char is_native;  /* the module's timeout may be another than 0 */
  /* the last attempt to receive had to wait, and its wait has timed out */
  unsigned char is_drained;
  int64_t news;             /* events of the descriptor before that wait */
  struct baton_process *holders[2]; /* by way: whose turn it is, which waits */
  int waiting;              /* processes that wait for their turn */
};

/* A class of objects: functions of the module. */
struct baton_socket_class {
  lua_CFunction getfd, settimeout, gettimeout; /* gettimeout may be NULL */
  int is_plain;  /* what the kernel has is all there is: nothing is kept by a layer between */
};

/* Upvalues of each function here that takes a method's place. */
enum { BATON_UV_CLASS = 1, BATON_UV_ORIGINAL };

/* A way of a socket while its holder waits. It stays on the C stack until the end; an error ends
   it, too. */
struct baton_turn {
  struct baton_turn_mark mark;
  struct baton_socket *socket;
  struct baton_process *process;
  unsigned ways; /* bits */
};

/* An attempt at a method. */
struct baton_try {
  struct baton_process *process;
  struct baton_socket *socket;
  const struct baton_socket_class *class;
  uint64_t harvests; /* before the last attempt */
  uint64_t start;    /* when the waits of the method began; 0: they have not */
};

/* sockets.c */
/* What is kept about the object that is the first argument; NULL: the module is to do as it likes.
   `process` is set in any case. */
struct baton_socket *baton_socket_of_call(lua_State *L, struct baton_try *call);
/* The same of the value at `index`, if something is kept about it. */
struct baton_socket *baton_socket_at(lua_State *L, int index);
/* Whether the calling method may wait in a frame of ours, and would. */
int baton_socket_may_wait(const struct baton_try *call);
/* Whether the program wants no wait at all. */
int baton_socket_is_at_once(const struct baton_socket *socket);
/* Calls the method as the program would, with its own timeouts. Answers the number of results. */
int baton_socket_call_natively(lua_State *L, struct baton_try *call);
/* Calls the method with the first `count` values of the stack. Answers the number of results, which
   are on the top. */
int baton_socket_try(lua_State *L, struct baton_try *call, int count);
/* Whether the results of an attempt, the last `count` values, say that it would wait; and what
   for. */
int baton_socket_would_wait(lua_State *L, int count, unsigned *wants);
/* The process waits. Answers 0 when its time is over. Raises a kill. */
int baton_socket_wait(lua_State *L, struct baton_try *call, unsigned wants);
/* Raises: nothing waits for a descriptor in a simulated run. */
int baton_socket_refuse_simulated(lua_State *L);
/* Whether a receiver has to wait: what there was is known to be received. It has waited, then. */
void baton_socket_wait_if_drained(lua_State *L, struct baton_try *call);
void baton_socket_take_turn(
    lua_State *L, struct baton_try *call, struct baton_turn *turn, unsigned ways);
void baton_socket_give_turn_back(lua_State *L, struct baton_turn *turn);
/* The descriptor may be another one. */
void baton_socket_note_descriptor(lua_State *L, struct baton_try *call);
/* Processes that wait are told that it closes. */
void baton_socket_closes(lua_State *L, struct baton_try *call);

/* socket_functions.c */
/* the loaded module is on the top of the stack; 0: none of these */
int baton_socket_adapt(lua_State *L, const char *name);

/* socket_methods.c, socket_connect.c */
int baton_socket_receive(lua_State *L);
int baton_socket_send(lua_State *L);
/* and all else that is tried again with the same arguments, and reads */
int baton_socket_accept(lua_State *L);
int baton_socket_send_datagram(lua_State *L);
int baton_socket_handshake(lua_State *L);
int baton_socket_close(lua_State *L);
int baton_socket_settimeout(lua_State *L);
int baton_socket_gettimeout(lua_State *L);
int baton_socket_change(lua_State *L); /* methods after which the descriptor may be another one */
int baton_socket_call_through(lua_State *L);
int baton_socket_connect(lua_State *L);

/* name_lookups.c */
/* Pushes a table of addresses in numbers. Answers 0, or an error of getaddrinfo. Raises a kill. */
int baton_lua_look_up_name(
    lua_State *L, struct baton_process *process, const char *host, int family);

#endif
