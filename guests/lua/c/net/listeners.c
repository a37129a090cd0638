/*
** Listeners: net.listen, and their methods.
**
** Where the system is short of descriptors or memory, accept fails at once, and the connection
** stays in the backlog. So the process waits a moment, and warns once.
*/
#include "net/inside.h"
#include "system.h"

#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 1024
#define MOMENT 50000000u /* nanoseconds until accept is tried again without descriptors */

static struct baton_net_listener *listener_at_1(lua_State *L) {
  return baton_net_socket_at_1(L, BATON_SEALED_LISTENER);
}

/* {======================================================
** Making one
** ======================================================= */

/* What the options say. */
struct wishes {
  int backlog, reuses_port, nodelay;
  lua_Integer limit; /* 0: none */
  struct baton_net_bounds bounds;
};

static void read_wishes(lua_State *L, int index, struct wishes *wishes) {
  static const struct baton_net_option options[] = {{"backlog", BATON_NET_COUNT},
      {"reuseport", BATON_NET_FLAG}, {"limit", BATON_NET_COUNT}, {"nodelay", BATON_NET_FLAG},
      {"max_line", BATON_NET_COUNT}, {"max_all", BATON_NET_COUNT}, {NULL, BATON_NET_ANY}};
  baton_net_check_options(L, index, options);
  wishes->backlog = (int)baton_net_count(L, index, "backlog", BACKLOG);
  wishes->limit = baton_net_count(L, index, "limit", 0);
  wishes->reuses_port = baton_net_flag(L, index, "reuseport", 0);
  wishes->nodelay = baton_net_flag(L, index, "nodelay", 1);
  wishes->bounds = baton_net_read_bounds(L, index);
}

static int set(int descriptor, int level, int option, int value) {
  return setsockopt(descriptor, level, option, &value, sizeof value);
}

/* Whether the file of a Unix socket is there, and nobody listens to it. */
static int is_left_over(const struct baton_net_address *address) {
  struct stat status;
  int descriptor, is_refused;
  if (stat(address->at.local.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return 0;
  descriptor = baton_prepare_descriptor(socket(AF_UNIX, BATON_STREAM, 0));
  if (descriptor < 0) return 0;
  is_refused =
      connect(descriptor, &address->at.any, address->size) != 0 && errno == ECONNREFUSED;
  close(descriptor);
  return is_refused;
}

static int bind_to(int descriptor, const struct baton_net_address *address) {
  if (bind(descriptor, &address->at.any, address->size) == 0) return 0;
  if (errno != EADDRINUSE) return errno;
  if (address->at.any.sa_family != AF_UNIX || !is_left_over(address)) return EADDRINUSE;
  if (unlink(address->at.local.sun_path) != 0) return errno;
  return bind(descriptor, &address->at.any, address->size) == 0 ? 0 : errno;
}

/* Returns a descriptor that listens, or an error number, negative. */
static int listen_at(const struct baton_net_address *address, const struct wishes *wishes) {
  const int family = address->at.any.sa_family;
  const int descriptor = baton_prepare_descriptor(socket(family, BATON_STREAM, 0));
  int fault = 0;
  if (descriptor < 0) return -errno;
  if (family != AF_UNIX) (void)set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) /* any address of IPv6 is any of IPv4, too */
    (void)set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY,
        !IN6_IS_ADDR_UNSPECIFIED(&address->at.of_6.sin6_addr));
  if (wishes->reuses_port && set(descriptor, SOL_SOCKET, SO_REUSEPORT, 1) != 0) fault = errno;
  if (fault == 0) fault = bind_to(descriptor, address);
  if (fault == 0 && listen(descriptor, wishes->backlog) != 0) fault = errno;
  if (fault == 0) return descriptor;
  close(descriptor);
  return -fault;
}

/* Notes which file the listener has made. */
static void note_file(
    struct baton_net_listener *listener, const struct baton_net_address *address) {
  struct stat status;
  const char *path = address->at.local.sun_path;
  if (address->at.any.sa_family != AF_UNIX || path[0] == '\0' || stat(path, &status) != 0) return;
  listener->path = path[0] == '/' ? strdup(path) : realpath(path, NULL);
  listener->device = status.st_dev;
  listener->file = status.st_ino;
}

static void remove_file(struct baton_net_listener *listener) {
  struct stat status;
  char *path = listener->path;
  listener->path = NULL;
  if (path != NULL && stat(path, &status) == 0 && status.st_dev == listener->device &&
      status.st_ino == listener->file)
    (void)unlink(path);
  free(path);
}

/* The family of a descriptor that was passed; 0 if it does not listen to a stream. */
static int family_of(int descriptor) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  int type = 0, listens = 0;
  socklen_t size_of_int = sizeof type;
  if (getsockname(descriptor, (struct sockaddr *)&address, &size) != 0 ||
      getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size_of_int) != 0 ||
      type != SOCK_STREAM)
    return 0;
  size_of_int = sizeof listens;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size_of_int) != 0 || !listens)
    return 0;
  return address.ss_family;
}

/* Takes over a descriptor of process.listen_fds(): a number, or a table with the field `fd`. */
static int adopt_passed(lua_State *L, struct baton_net_listener *listener) {
  lua_Integer descriptor;
  if (lua_istable(L, 1)) {
    lua_getfield(L, 1, "fd");
    lua_replace(L, 1);
  }
  descriptor = luaL_checkinteger(L, 1);
  listener->family = descriptor >= 0 && descriptor <= INT_MAX ? family_of((int)descriptor) : 0;
  if (listener->family == 0)
    luaL_argerror(L, 1,
        lua_pushfstring(L, "descriptor of a stream that listens expected, got %d",
            (int)descriptor));
  fcntl((int)descriptor, F_SETFD, FD_CLOEXEC);
  fcntl((int)descriptor, F_SETFL, fcntl((int)descriptor, F_GETFL) | O_NONBLOCK);
  return (int)descriptor;
}

/* A second descriptor of another listener's socket, or an error number, negative. */
static int share(lua_State *L, struct baton_net_listener *listener) {
  const struct baton_net_listener *other = baton_inline_test_sealed(L, 1, BATON_SEALED_LISTENER);
  int descriptor;
  if (other->socket.simulated != NULL)
    luaL_argerror(L, 1, "in a simulated run, a listener has its address alone");
  if (other->socket.descriptor < 0) return -EBADF;
  listener->family = other->family;
  descriptor = fcntl(other->socket.descriptor, F_DUPFD_CLOEXEC, 0);
  return descriptor < 0 ? -errno : descriptor;
}

static int open_one(lua_State *L, struct baton_net_listener *listener,
    const struct baton_net_place *place, const struct wishes *wishes, int *descriptor) {
  struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES];
  const char *why;
  const int count = baton_net_find(
      L, baton_inline_caller(L), place, 1, BATON_NO_DEADLINE, addresses, &why);
  int i;
  if (count == 0) {
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
  }
  for (i = 0; i < count; i++) {
    *descriptor = listen_at(&addresses[i], wishes);
    listener->family = addresses[i].at.any.sa_family;
    if (*descriptor >= 0) {
      note_file(listener, &addresses[i]);
      return 0;
    }
  }
  return baton_net_refused(L, place->text, -*descriptor);
}

/* Listens in the network of a simulated run. Returns the number of results if that is refused. */
static int listen_simulated(lua_State *L, struct baton_net_listener *listener,
    const struct baton_net_place *place, const struct wishes *wishes) {
  struct baton_port *port;
  const int fault = baton_port_open(
      place->text, wishes->backlog, wishes->reuses_port, baton_inline_caller(L)->vm, &port);
  if (fault != 0) return baton_net_refused(L, place->text, fault);
  listener->socket.simulated = port;
  listener->socket.descriptor = baton_loopback_number();
  lua_pushvalue(L, 3);
  return 1;
}

/* net.listen(address, [options]) */
int baton_net_listen(lua_State *L) {
  struct baton_net_listener *listener;
  struct baton_net_place place;
  struct wishes wishes;
  int descriptor;
  lua_settop(L, 2);
  read_wishes(L, 2, &wishes);
  listener = baton_net_new_socket(L, BATON_SEALED_LISTENER);
  listener->bounds = wishes.bounds;
  listener->nodelay = (unsigned char)wishes.nodelay;
  if (wishes.limit > 0) {
    listener->places = baton_net_new_places(wishes.limit);
    if (listener->places == NULL) return luaL_error(L, "not enough memory");
  }
  if (lua_type(L, 1) == LUA_TNUMBER || lua_istable(L, 1)) {
    descriptor = adopt_passed(L, listener);
  } else if (baton_inline_test_sealed(L, 1, BATON_SEALED_LISTENER) != NULL) {
    descriptor = share(L, listener);
    if (descriptor < 0) return baton_net_refused(L, "the listener", -descriptor);
  } else {
    int refused;
    baton_net_read_place(L, 1, &place);
    if (baton_simulated) return listen_simulated(L, listener, &place, &wishes);
    refused = open_one(L, listener, &place, &wishes, &descriptor);
    if (refused > 0) return refused;
  }
  /* on Linux, connections have it from their listener */
  if (listener->family != AF_UNIX && listener->nodelay)
    (void)set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  baton_lua_enter(L); /* the number may have been another file's */
  baton_descriptor_closes(baton_inline_caller(L)->vm->executor, (uint32_t)descriptor);
  baton_lua_leave(L);
  listener->socket.descriptor = descriptor;
  lua_pushvalue(L, 3);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Accepting
** ======================================================= */

/* Returns a descriptor, or an error number, negative. */
__attribute__((noinline)) static int accept_one(int listener) {
  int descriptor;
  do {
#if defined(__linux__)
    descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
    descriptor = baton_prepare_descriptor(accept(listener, NULL, NULL));
#endif
  } while (descriptor < 0 && errno == EINTR);
  return descriptor < 0 ? -errno : descriptor;
}

static void warn_once(lua_State *L, struct baton_net_listener *listener, int number) {
  if (listener->has_warned) return;
  listener->has_warned = 1;
  baton_net_push_own(L, &listener->socket);
  baton_lua_warn("baton.net: %s cannot accept: %s; connections wait until some are closed (raise "
                 "the limit by 'ulimit -n', or lower the option 'limit' of net.listen)",
      lua_isnil(L, -2) ? "a listener" : lua_tostring(L, -1), strerror(number));
  lua_pop(L, 1);
}

/* Waits a moment, or until the listener is closed: nothing urgent comes to it. */
static enum baton_net_result await_resources(lua_State *L, struct baton_process *process,
    struct baton_net_listener *listener, int number, uint64_t deadline) {
  const uint64_t then = baton_now() + MOMENT;
  enum baton_net_result result;
  warn_once(L, listener, number);
  if (deadline < then) return BATON_NET_TIMED_OUT;
  result = baton_net_wait(L, process, &listener->socket, BATON_WANTS_PRIORITY,
      baton_harvests(process->vm->executor), then);
  return result == BATON_NET_TIMED_OUT ? BATON_NET_DONE : result;
}

static int is_short(int number) {
  return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

/* Whether accept fails for ever. Other errors are those of one connection (accept(2)). */
static int is_broken(int number) {
  return number == EBADF || number == EINVAL || number == ENOTSOCK || number == EOPNOTSUPP ||
      number == EFAULT;
}

/* A connection that has arrived: a descriptor, or an error number, negative. In a simulated run,
   `*link` is the connection. */
static int take_one(struct baton_net_listener *listener, struct baton_link **link) {
  if (l_likely(listener->socket.simulated == NULL))
    return accept_one(listener->socket.descriptor);
  *link = baton_port_take(listener->socket.simulated);
  return *link != NULL ? 0 : -EAGAIN;
}

/* Waits for a connection. Returns its descriptor, or a negative number and the result. */
static int await_connection(lua_State *L, struct baton_process *process,
    struct baton_net_listener *listener, uint64_t deadline, struct baton_link **link,
    enum baton_net_result *result) {
  int is_over = 0;
  for (;;) {
    uint64_t harvests;
    int descriptor;
    *result = baton_net_await_place(L, process, &listener->socket, listener->places, deadline);
    if (*result != BATON_NET_DONE) return -1;
    if (listener->socket.descriptor < 0) {
      *result = BATON_NET_CLOSED;
      return -1;
    }
    harvests = baton_harvests(process->vm->executor);
    descriptor = take_one(listener, link);
    if (descriptor >= 0) return descriptor;
    if (is_broken(-descriptor)) {
      *result = BATON_NET_FAILED;
      return descriptor;
    }
    if (is_short(-descriptor)) {
      *result = await_resources(L, process, listener, -descriptor, deadline);
    } else if (descriptor == -EAGAIN || descriptor == -EWOULDBLOCK) {
      *result = BATON_NET_TIMED_OUT;
      if (is_over || deadline == 0) return -1;
      *result = baton_net_wait(
          L, process, &listener->socket, BATON_WANTS_READ, harvests, deadline);
      is_over = *result == BATON_NET_TIMED_OUT;
      if (is_over) *result = BATON_NET_DONE;
    }
    if (*result != BATON_NET_DONE) return -1;
  }
}

/* l:accept([timeout]) */
static int listener_accept(lua_State *L) {
  struct baton_net_listener *listener = listener_at_1(L);
  const uint64_t deadline = baton_net_deadline_at(L, 2, BATON_NO_DEADLINE);
  struct baton_process *process = baton_inline_caller(L);
  struct baton_net_connection *connection = baton_net_new_connection(L);
  struct baton_link *link = NULL;
  enum baton_net_result result;
  const int descriptor = await_connection(L, process, listener, deadline, &link, &result);
  if (descriptor < 0) {
    lua_pushnil(L);
    lua_pushstring(L, result == BATON_NET_TIMED_OUT ? "timeout"
            : result == BATON_NET_CLOSED                ? "closed"
                                                        : strerror(-descriptor));
    return 2;
  }
#if !defined(__linux__)
  if (listener->nodelay) (void)set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
#endif
  connection->bounds = listener->bounds;
  connection->places = listener->places;
  baton_net_take_place(connection->places);
  if (l_unlikely(link != NULL)) baton_net_adopt_simulated(L, connection, link);
  else baton_net_adopt(L, connection, descriptor, listener->family);
  return 1;
}

/* }====================================================== */

/* {======================================================
** The end
** ======================================================= */

void baton_net_strip_listener(struct baton_net_listener *listener) {
  remove_file(listener);
  baton_net_end_places(listener->places);
  listener->places = NULL;
}

/* The file goes first: another listener may make a new one once this one has ended. */
static void end(lua_State *L, struct baton_net_listener *listener) {
  const int descriptor = baton_net_take_descriptor(L, &listener->socket);
  baton_net_strip_listener(listener);
  if (descriptor >= 0) close(descriptor);
}

static int listener_close(lua_State *L) {
  end(L, listener_at_1(L));
  lua_pushboolean(L, 1);
  return 1;
}

int baton_net_collect_listener(lua_State *L) {
  struct baton_net_listener *listener = baton_inline_test_sealed(L, 1, BATON_SEALED_LISTENER);
  if (listener == NULL) return luaL_typeerror(L, 1, "listener");
  end(L, listener);
  return 0;
}

static int listener_address(lua_State *L) {
  return baton_net_push_own(L, &listener_at_1(L)->socket);
}

/* }====================================================== */

const luaL_Reg baton_net_listener_methods[] = {{"accept", listener_accept},
    {"address", listener_address}, {"close", listener_close}, {NULL, NULL}};
