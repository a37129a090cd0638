/*
** net.udp: sockets for datagrams.
*/
#include "net/inside.h"
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST 65535 /* bytes of a datagram */

static struct baton_net_datagrams *datagrams_at_1(lua_State *L) {
  return baton_net_socket_at_1(L, BATON_SEALED_DATAGRAMS);
}

static int push_failure(lua_State *L, enum baton_net_result result, int fault) {
  lua_pushnil(L);
  lua_pushstring(L, result == BATON_NET_TIMED_OUT ? "timeout"
          : result == BATON_NET_CLOSED              ? "closed"
                                                    : strerror(fault));
  return 2;
}

static int open_at(const struct baton_net_address *address, int reuses_port) {
  const int family = address->at.any.sa_family, yes = 1;
  int fault = 0;
#if defined(__linux__)
  const int descriptor = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
#else
  const int descriptor = baton_prepare_descriptor(socket(family, SOCK_DGRAM, 0));
#endif
  if (descriptor < 0) return -errno;
  if (reuses_port && setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0)
    fault = errno;
  if (fault == 0 && bind(descriptor, &address->at.any, address->size) != 0) fault = errno;
  if (fault == 0) return descriptor;
  close(descriptor);
  return -fault;
}

/* Opens a socket in the network of a simulated run. */
static int open_simulated(lua_State *L, struct baton_process *process, const char *text) {
  const int shares = baton_net_flag(L, 2, "reuseport", 0);
  struct baton_net_datagrams *datagrams = baton_net_new_socket(L, BATON_SEALED_DATAGRAMS);
  struct baton_mailbox *box;
  const int fault = baton_mailbox_open(text, shares, process->vm, &box);
  if (fault != 0) return baton_net_refused(L, text, fault);
  datagrams->socket.simulated = box;
  datagrams->socket.descriptor = baton_loopback_number();
  return 1;
}

/* net.udp(address, [options]) */
int baton_net_udp(lua_State *L) {
  static const struct baton_net_option options[] = {
      {"reuseport", BATON_NET_FLAG}, {NULL, BATON_NET_ANY}};
  struct baton_process *process = baton_inline_caller(L);
  struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES];
  struct baton_net_datagrams *datagrams;
  struct baton_net_place place;
  const char *why;
  int descriptor = -1, i, count;
  lua_settop(L, 2);
  baton_net_check_options(L, 2, options);
  baton_net_read_place(L, 1, &place);
  luaL_argcheck(L, !place.is_local, 1, "datagrams have an address of the network");
  if (baton_simulated) return open_simulated(L, process, place.text);
  datagrams = baton_net_new_socket(L, BATON_SEALED_DATAGRAMS);
  lua_insert(L, 3);
  count = baton_net_find(L, process, &place, 1, BATON_NO_DEADLINE, addresses, &why);
  if (count == 0) {
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
  }
  for (i = 0; i < count && descriptor < 0; i++) {
    descriptor = open_at(&addresses[i], baton_net_flag(L, 2, "reuseport", 0));
    datagrams->family = addresses[i].at.any.sa_family;
  }
  if (descriptor < 0) return baton_net_refused(L, place.text, -descriptor);
  baton_lua_enter(L); /* the number may have been another file's */
  baton_descriptor_closes(process->vm->executor, (uint32_t)descriptor);
  baton_lua_leave(L);
  datagrams->socket.descriptor = descriptor;
  lua_settop(L, 3);
  return 1;
}

/* {======================================================
** Sending and receiving
** ======================================================= */

__attribute__((noinline)) static ssize_t transmit(
    int descriptor, const char *data, size_t size, const struct baton_net_address *to) {
  ssize_t sent;
  do {
    sent = sendto(descriptor, data, size, 0, &to->at.any, to->size);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}

__attribute__((noinline)) static ssize_t receive(
    int descriptor, char *data, struct baton_net_address *from) {
  ssize_t got;
  do {
    from->size = sizeof from->at;
    got = recvfrom(descriptor, data, LARGEST, 0, &from->at.any, &from->size);
  } while (got < 0 && errno == EINTR);
  return got < 0 ? -errno : got;
}

/* A socket of IPv6 sends to an address of IPv4 by the address of IPv6 that stands for it. */
static void map(struct baton_net_address *address) {
  const struct sockaddr_in of_4 = address->at.of_4;
  memset(&address->at, 0, sizeof address->at);
  address->at.of_6.sin6_family = AF_INET6;
  address->at.of_6.sin6_port = of_4.sin_port;
  address->at.of_6.sin6_addr.s6_addr[10] = address->at.of_6.sin6_addr.s6_addr[11] = 0xff;
  memcpy(&address->at.of_6.sin6_addr.s6_addr[12], &of_4.sin_addr, sizeof of_4.sin_addr);
  address->size = sizeof address->at.of_6;
}

/* The first address of the place that the socket's family reaches. Returns 0 if there is none. */
static int choose(
    struct baton_net_datagrams *datagrams, struct baton_net_address *addresses, int count) {
  int i;
  for (i = 0; i < count; i++) {
    if (addresses[i].at.any.sa_family != datagrams->family) continue;
    addresses[0] = addresses[i];
    return 1;
  }
  if (count == 0 || datagrams->family != AF_INET6) return 0;
  map(&addresses[0]);
  return 1;
}

/* Sends in the network of a simulated run. */
static int send_simulated(lua_State *L, struct baton_net_datagrams *datagrams,
    const struct baton_net_place *to, const char *data, size_t size) {
  int fault;
  if (datagrams->socket.descriptor < 0) return push_failure(L, BATON_NET_CLOSED, 0);
  fault = baton_mailbox_send(datagrams->socket.simulated, to->text, data, size);
  if (fault != 0) return push_failure(L, BATON_NET_FAILED, fault);
  baton_net_stir(L);
  lua_pushboolean(L, 1);
  return 1;
}

/* u:send_to(data, address) */
static int datagrams_send_to(lua_State *L) {
  struct baton_net_datagrams *datagrams = datagrams_at_1(L);
  struct baton_process *process = baton_inline_caller(L);
  struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES];
  struct baton_net_place place;
  enum baton_net_result result;
  const char *why = "the address is of another family";
  size_t size;
  const char *data = luaL_checklstring(L, 2, &size);
  int count;
  baton_net_read_place(L, 3, &place);
  luaL_argcheck(L, !place.is_local, 3, "datagrams have an address of the network");
  if (l_unlikely(baton_simulated)) return send_simulated(L, datagrams, &place, data, size);
  count = baton_net_find(L, process, &place, 0, BATON_NO_DEADLINE, addresses, &why);
  if (!choose(datagrams, addresses, count)) {
    lua_pushnil(L);
    lua_pushstring(L, count > 0 ? "the address is of another family" : why);
    return 2;
  }
  for (;;) {
    const uint64_t harvests = baton_harvests(process->vm->executor);
    ssize_t sent;
    if (datagrams->socket.descriptor < 0) return push_failure(L, BATON_NET_CLOSED, 0);
    sent = transmit(datagrams->socket.descriptor, data, size, &addresses[0]);
    if (sent >= 0) break;
    if (sent != -EAGAIN && sent != -EWOULDBLOCK)
      return push_failure(L, BATON_NET_FAILED, (int)-sent);
    result = baton_net_wait(
        L, process, &datagrams->socket, BATON_WANTS_WRITE, harvests, BATON_NO_DEADLINE);
    if (result != BATON_NET_DONE) return push_failure(L, result, 0);
  }
  lua_pushboolean(L, 1);
  return 1;
}

/* Receives what has arrived in a simulated run. Returns the number of results; 0: nothing has. */
static int receive_simulated(lua_State *L, struct baton_net_datagrams *datagrams) {
  char from[BATON_LOOPBACK_TEXT];
  const ssize_t got = baton_mailbox_receive(datagrams->socket.simulated, datagrams->data, from);
  if (got < 0) return 0;
  lua_pushlstring(L, datagrams->data, (size_t)got);
  lua_pushstring(L, from);
  return 2;
}

/* u:receive_from([timeout]) -> data, address */
static int datagrams_receive_from(lua_State *L) {
  struct baton_net_datagrams *datagrams = datagrams_at_1(L);
  struct baton_process *process = baton_inline_caller(L);
  const uint64_t deadline = baton_net_deadline_at(L, 2, BATON_NO_DEADLINE);
  struct baton_net_address from;
  enum baton_net_result result = BATON_NET_DONE;
  for (;;) {
    const uint64_t harvests = baton_harvests(process->vm->executor);
    ssize_t got;
    if (datagrams->socket.descriptor < 0) return push_failure(L, BATON_NET_CLOSED, 0);
    if (datagrams->data == NULL) datagrams->data = malloc(LARGEST);
    if (datagrams->data == NULL) return push_failure(L, BATON_NET_FAILED, ENOMEM);
    if (l_unlikely(datagrams->socket.simulated != NULL)) {
      const int results = receive_simulated(L, datagrams);
      if (results > 0) return results;
      got = -EAGAIN;
    } else {
      got = receive(datagrams->socket.descriptor, datagrams->data, &from);
    }
    if (got >= 0) {
      lua_pushlstring(L, datagrams->data, (size_t)got);
      baton_net_push_address(L, &from);
      return 2;
    }
    if (got == -ECONNREFUSED) continue; /* of a datagram that was sent */
    if (got != -EAGAIN && got != -EWOULDBLOCK)
      return push_failure(L, BATON_NET_FAILED, (int)-got);
    if (deadline == 0 || result == BATON_NET_TIMED_OUT)
      return push_failure(L, BATON_NET_TIMED_OUT, 0);
    result = baton_net_wait(L, process, &datagrams->socket, BATON_WANTS_READ, harvests, deadline);
    if (result == BATON_NET_CLOSED) return push_failure(L, result, 0);
  }
}

/* }====================================================== */

static void end(lua_State *L, struct baton_net_datagrams *datagrams) {
  const int descriptor = baton_net_take_descriptor(L, &datagrams->socket);
  free(datagrams->data);
  datagrams->data = NULL;
  if (descriptor >= 0) close(descriptor);
}

static int datagrams_close(lua_State *L) {
  end(L, datagrams_at_1(L));
  lua_pushboolean(L, 1);
  return 1;
}

int baton_net_collect_datagrams(lua_State *L) {
  struct baton_net_datagrams *datagrams = baton_inline_test_sealed(L, 1, BATON_SEALED_DATAGRAMS);
  if (datagrams == NULL) return luaL_typeerror(L, 1, "socket for datagrams");
  end(L, datagrams);
  return 0;
}

static int datagrams_address(lua_State *L) {
  return baton_net_push_own(L, &datagrams_at_1(L)->socket);
}

const luaL_Reg baton_net_datagram_methods[] = {{"send_to", datagrams_send_to},
    {"receive_from", datagrams_receive_from}, {"address", datagrams_address},
    {"close", datagrams_close}, {NULL, NULL}};
