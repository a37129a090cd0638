/*
** LuaSocket and LuaSec: their objects never wait in C.
**
** The module's own timeout of each socket stays 0. Each method is tried without waiting. If it
** returns "timeout", "wantread" or "wantwrite", the process waits in a function of ours, not pinned
** to a thread. Then it tries the method again for the remaining data. The program's
** timeouts are kept beside the object.
**
**   sockets.c            the record of a socket; the wait; turns
**   socket_drained.c     whether an attempt to receive would find nothing
**   socket_methods.c     receive, send, accept, close and similar methods
**   socket_connect.c     connect
**   socket_functions.c   socket.select, socket.sleep, socket.connect; the table of modules and
**                        classes
**   socket_moving.c      vm.move
**   name_lookups.c       names of hosts, looked up by helper threads
**
** A process cannot wait in a critical section, a finalizer, a scheduler, or at the end of the
** program. There the method is called with the program's own timeouts, and the module itself waits.
*/
#ifndef BATON_SOCKETS_H
#define BATON_SOCKETS_H

#include "seam/guest.h"
#include "sharing/sharing.h"

enum baton_way { BATON_RECEIVES, BATON_SENDS };

/* The record of a socket: a userdata, the first user value of the module's object. Used inside the
   VM, or in functions that no other process runs beside. */
struct baton_socket {
  const void *kind;         /* distinguishes these from other userdata */
  lua_Number block, total;  /* the program's timeouts in seconds; negative: none */
  int descriptor;           /* -1: none */
  unsigned forks;           /* of the VM, when `holders` was set */
  unsigned char is_native;  /* the module's own timeout may differ from 0 */
  /* others know the descriptor's number, and may give it to another file without a word */
  unsigned char is_known;
  /* the last attempt to receive had to wait, and that wait has timed out */
  unsigned char is_drained;
  int64_t news;             /* of the descriptor, before that wait */
  /* for socket_drained.c */
  unsigned char has_sent;   /* since the last call of receive */
  int protocol;             /* of the descriptor; negative: not known yet */
  unsigned receiving;       /* calls of receive that have not ended their first attempt */
  int64_t news_before;      /* of the descriptor, before the last attempt after a wait; or -1 */
  lua_Number received;      /* bytes, when the module's buffer was last known to be empty */
  struct baton_process *holders[2]; /* by way: the process whose turn it is */
  int waiting;              /* the number of processes that wait for their turn */
  int waits;                /* the number of processes that wait for the descriptor */
  /* what vm.move has sent, until the object is closed; or NULL */
  struct baton_departed_socket *departed;
};

/* A socket on its way to another VM. */
struct baton_departed_socket {
  struct baton_departed departed; /* must be first */
  int kind;                       /* for socket_moving.c */
  int descriptor, is_inet6, has_data, is_known;
  lua_Number block, total; /* the program's timeouts */
  /* if it has data: what getstats returns; what was read and not yet received */
  lua_Number counts[3];
  size_t size;
  char *data;
};

/* A class of objects: functions of the module. */
struct baton_socket_class {
  lua_CFunction getfd, settimeout, gettimeout; /* gettimeout may be NULL */
  int is_plain;  /* no layer of the module's buffers data above the system's socket */
  int may_be_tcp;
  /* for streams: whether the module has data in its buffer; its counts of bytes. Otherwise NULL. */
  lua_CFunction dirty, getstats;
  lua_CFunction setfd, receive, setstats; /* for vm.move; the last one is NULL for datagrams */
};

/* Upvalues of each function of ours that replaces a method. */
enum { BATON_UV_CLASS = 1, BATON_UV_ORIGINAL };

/* A turn: the right to use a way of a socket. The record stays on the C stack until the turn ends.
   An error ends it, too. */
struct baton_turn {
  struct baton_turn_mark mark;
  struct baton_socket *socket;
  struct baton_process *process;
  unsigned ways; /* a set of bits */
};

/* The call of a method, with all its attempts. */
struct baton_try {
  struct baton_process *process;
  struct baton_socket *socket;
  const struct baton_socket_class *class;
  uint64_t harvests; /* before the last attempt */
  uint64_t start;    /* when the first wait began; 0: it has not waited */
  int64_t news;      /* of the descriptor, before the last attempt after a wait */
};

/* sockets.c */
/* The record of the object that is the first argument. NULL: the method must be called natively.
   `process` is set in any case. */
struct baton_socket *baton_socket_of_call(lua_State *L, struct baton_try *call);
/* The record of the value at `index`, or NULL. */
struct baton_socket *baton_socket_at(lua_State *L, int index);
/* Whether the calling method may wait in a function of ours, and would. */
int baton_socket_may_wait(const struct baton_try *call);
/* Whether the program's timeout is 0. */
int baton_socket_is_at_once(const struct baton_socket *socket);
/* Calls the method with the program's own timeouts. Returns the number of results. */
int baton_socket_call_natively(lua_State *L, struct baton_try *call);
/* Calls the method with the first `count` values of the stack. Returns the number of results, which
   are on the top. */
int baton_socket_try(lua_State *L, struct baton_try *call, int count);
/* Whether the results of an attempt, the last `count` values, say that it must wait. Sets what
   for. */
int baton_socket_would_wait(lua_State *L, int count, unsigned *wants);
/* Waits. Returns 0 when the time is over. Raises a kill. */
int baton_socket_wait(lua_State *L, struct baton_try *call, unsigned wants);
/* Raises an error: in a simulated run, nothing waits for a descriptor. */
int baton_socket_refuse_simulated(lua_State *L);
/* The news of the descriptor. Inside the VM. */
static inline int64_t baton_socket_news(const struct baton_try *call) {
  return baton_descriptor_news(call->process->vm->executor, (uint32_t)call->socket->descriptor);
}
/* Calls a function of the module with the object. Leaves `results` values. */
void baton_socket_call(lua_State *L, lua_CFunction function, int results);
void baton_socket_take_turn(
    lua_State *L, struct baton_try *call, struct baton_turn *turn, unsigned ways);
void baton_socket_give_turn_back(lua_State *L, struct baton_turn *turn);
/* Reads the descriptor again, as it may have changed. */
void baton_socket_note_descriptor(lua_State *L, struct baton_try *call);
/* From now on each wait registers the descriptor anew, as others know its number. */
void baton_socket_is_known(lua_State *L, struct baton_try *call);
/* Wakes the processes that wait for the socket, as it is about to be closed. */
void baton_socket_closes(lua_State *L, struct baton_try *call);

/* Makes the record of the first argument, which has none. NULL if it cannot have one. */
struct baton_socket *baton_socket_begin(lua_State *L, struct baton_try *call);
/* The descriptor of the first argument, as the module has it. */
int baton_socket_descriptor(lua_State *L, const struct baton_socket_class *class);
/* Calls a function of the module with the first argument and a descriptor. */
void baton_socket_set_descriptor(
    lua_State *L, const struct baton_socket_class *class, int descriptor);
/* Gives the first argument, which has no descriptor, what has left its object or another one. */
void baton_socket_attach(
    lua_State *L, struct baton_try *call, const struct baton_departed_socket *from);
/* Gives the first argument what vm.move has sent, if that was never received. */
void baton_socket_take_back(lua_State *L, struct baton_try *call);

/* socket_drained.c */
/* Waits if the last wait timed out, and nothing has come since. */
void baton_socket_wait_if_drained(lua_State *L, struct baton_try *call);
/* Whether it is worth asking baton_socket_is_drained. */
int baton_socket_may_be_drained(lua_State *L, struct baton_try *call);
/* Whether an attempt to receive would find nothing. The calling process has the turn, until it has
   waited. */
int baton_socket_is_drained(lua_State *L, struct baton_try *call);
/* Before and after an attempt to receive that follows a wait. */
void baton_socket_note_news(lua_State *L, struct baton_try *call);
/* `is_sole`: no call without the turn was under way when the wait began. */
void baton_socket_note_attempt(const struct baton_try *call, int is_sole, int would_wait);

/* socket_functions.c */
/* Adapts the loaded module on the top of the stack. Returns 0 if it is none of these. */
int baton_socket_adapt(lua_State *L, const char *name);
/* The class of the objects with this metatable in the registry; NULL if it is not adapted. */
const struct baton_socket_class *baton_socket_class_named(lua_State *L, const char *name);

/* socket_methods.c, socket_connect.c */
int baton_socket_receive(lua_State *L);
int baton_socket_setstats(lua_State *L);
int baton_socket_send(lua_State *L);
/* and all methods that read and are tried again with the same arguments */
int baton_socket_accept(lua_State *L);
int baton_socket_send_datagram(lua_State *L);
int baton_socket_handshake(lua_State *L);
int baton_socket_close(lua_State *L);
int baton_socket_settimeout(lua_State *L);
int baton_socket_gettimeout(lua_State *L);
int baton_socket_change(lua_State *L); /* for methods that may change the descriptor */
int baton_socket_setfd(lua_State *L);
int baton_socket_call_through(lua_State *L);
int baton_socket_use(lua_State *L); /* for methods that do not wait */
int baton_socket_connect(lua_State *L);

#endif
