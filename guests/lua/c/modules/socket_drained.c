/*
** Which attempts to receive would find nothing (sockets.h).
**
** Most attempts that fail are the first ones after a process has sent something: the other end has
** yet to answer. Such an attempt is left out if it would certainly fail. The process waits at once,
** and tries afterwards. It is left out only if the process would wait anyway: its timeout is not 0,
** and after a timeout it still makes its last attempt. So each result is the system's.
**
** A socket is *drained* if nothing has come since the system said that it is empty. The system says
** so by a read that fails, or that returns fewer bytes than the caller has room for (epoll(7), for
** streams). The module makes the reads, so we know of them only what it counts:
**
** - `dirty` says whether the module's buffer has data. `getstats` counts the bytes that have left
**   the buffer. So between two moments when the buffer is empty, the count grows by what was read.
**   `setstats` changes it, so it is noted.
**   If that is less than SHORT, each of these reads had room for more.
** - `news` (baton_descriptor_news) changes with each event that the owner takes out of the poller.
**   The registration is kept and edge-triggered: what comes after an event is taken out causes
**   another event.
**
** is_drained() finds all of this at a moment E:
**
**   1. the module's buffer is empty; no other process is in a call of receive, or can begin one
**   2. since the last such moment, more than 0 and less than SHORT bytes were read
**   3. `news` is still what it was before an attempt, and that attempt has ended
**   4. no event has told of more than data
**   5. it is a TCP socket
**
** **No data is missed.** Let R be the last read before E. By 1 and 2, R failed or was short. So the
** socket was empty at R. By 3, R was not before `news` was read: the attempt itself read, as it
** began with an empty buffer, after a wait during which no other process could fill it. What comes
** after R causes an event after R. By 3, the owner has taken none out between R and E. So the event
** is still in the poller, and ends the wait. If the owner takes it out between E and the wait, the
** count of harvests has changed, and the wait renews the registration, which reports what is ready
** (vm/idle/descriptors.rs).
**
** Some things end a read early although there is more to read: the end of the stream, an error, and
** out-of-band data. If one of these was there when the last event was taken out, that event told of
** it (4). If it came later, its own event is still in the poller. Sockets of other protocols have
** more such things (5). A program that gives a TCP socket a protocol of its own (TCP_ULP) or
** SO_RCVLOWAT, by a foreign call, must receive with a timeout of 0.
**
** 3 needs care: an attempt that never ended, by an error or a kill, proves nothing. So
** `news_before` is set when the attempt has ended, to what was read before it. Several processes on
** one socket attempt in any order. The one that sets `news_before` last has made its own attempt
** after it read its own `news`. If a call without the turn was under way when the wait began, it
** may fill the module's buffer, and the attempt proves nothing. 1 holds until the wait begins, as a
** call of receive is counted before it looks for a turn.
**
** Tests: lua/sockets/drained.lua; `cargo xtask soak net`.
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* Fewer bytes than any version of LuaSocket reads at once (8192). */
#define SHORT 4096
/* With fewer runnable processes, an attempt costs less than the wait that it may save. */
#define MANY 4

void baton_socket_wait_if_drained(lua_State *L, struct baton_try *call) {
  struct baton_socket *socket = call->socket;
  int is_drained;
  if (l_likely(!socket->is_drained)) return;
  if (!call->class->is_plain || baton_socket_is_at_once(socket) || socket->descriptor < 0 ||
      baton_simulated)
    return;
  /* read first: an event that comes after the check below renews the registration */
  call->harvests = baton_harvests(call->process->vm->executor);
  baton_lua_enter(L);
  is_drained = socket->news >= 0 && baton_socket_news(call) == socket->news;
  baton_lua_leave(L);
  if (is_drained) (void)baton_socket_wait(L, call, BATON_WANTS_READ);
}

int baton_socket_may_be_drained(lua_State *L, struct baton_try *call) {
  struct baton_socket *socket = call->socket;
  int are_many;
  if (!socket->has_sent) return 0;
  socket->has_sent = 0;
  if (socket->news_before < 0 || socket->news_before & BATON_NEWS_OF_MORE ||
      socket->receiving != 1 || baton_socket_is_at_once(socket) || baton_simulated ||
      !call->class->may_be_tcp)
    return 0;
  baton_lua_enter(L);
  are_many = baton_runnable_count(call->process->vm->executor) >= MANY;
  baton_lua_leave(L);
  return are_many;
}

/* Whether the descriptor is a TCP socket. The system is asked once. */
static int is_tcp(struct baton_socket *socket) {
#ifdef SO_PROTOCOL
  if (socket->protocol < 0) {
    int protocol;
    socklen_t size = sizeof protocol;
    socket->protocol =
        getsockopt(socket->descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 ? protocol
                                                                                       : 0;
  }
  return socket->protocol == IPPROTO_TCP;
#else
  (void)socket;
  return 0;
#endif
}

static int has_buffered(lua_State *L, const struct baton_try *call) {
  int has;
  baton_socket_call(L, call->class->dirty, 1);
  has = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return has;
}

/* The number of bytes that were read since the buffer was last found empty. It is empty now. */
static lua_Number read_since(lua_State *L, const struct baton_try *call) {
  const lua_Number before = call->socket->received;
  baton_socket_call(L, call->class->getstats, 1);
  call->socket->received = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return call->socket->received - before;
}

int baton_socket_is_drained(lua_State *L, struct baton_try *call) {
  struct baton_socket *socket = call->socket;
  lua_Number read;
  int is_same;
  /* checked while the process has the turn, and before the buffer: no other can begin from here */
  if (socket->receiving != 1 || socket->descriptor < 0) return 0;
  /* read first: an event that comes after the check below renews the registration */
  call->harvests = baton_harvests(call->process->vm->executor);
  if (has_buffered(L, call)) return 0;
  read = read_since(L, call);
  if (!(read > 0 && read < SHORT)) return 0;
  baton_lua_enter(L);
  is_same = baton_socket_news(call) == socket->news_before;
  baton_lua_leave(L);
  return is_same && is_tcp(socket);
}

void baton_socket_note_news(lua_State *L, struct baton_try *call) {
  baton_lua_enter(L);
  call->news = baton_socket_news(call);
  baton_lua_leave(L);
}

void baton_socket_note_attempt(const struct baton_try *call, int is_sole, int would_wait) {
  call->socket->news_before = is_sole ? call->news : -1;
  if (!would_wait) call->socket->is_drained = 0;
}
