/*
** The record of a connection, its transport, and its end.
*/
#include "net/inside.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* {======================================================
** Sockets of any kind
** ======================================================= */

static const struct {
  const char *name;
  size_t size; /* of the record */
} kinds[BATON_SEALS] = {
    [BATON_SEALED_CONNECTION] = {"connection", sizeof(struct baton_net_connection)},
    [BATON_SEALED_LISTENER] = {"listener", sizeof(struct baton_net_listener)},
    [BATON_SEALED_DATAGRAMS] = {"socket for datagrams", sizeof(struct baton_net_datagrams)},
};

size_t baton_net_size_of(int kind) { return kinds[kind].size; }

/* The object has again what vm.move has sent, since nobody received it. */
static void take_back(struct baton_net_socket *socket) {
  struct baton_net_departed *departed = socket->departed;
  if (!baton_departed_is_back(&departed->departed)) return;
  memcpy((char *)socket + sizeof *socket, departed->record,
      kinds[departed->kind].size - sizeof *socket);
  socket->descriptor = departed->descriptor;
  socket->departed = NULL;
  baton_departed_arrives(&departed->departed);
}

void *baton_net_socket_at(lua_State *L, int index, int kind) {
  struct baton_net_socket *socket = baton_inline_test_sealed(L, index, kind);
  if (l_unlikely(socket != NULL && socket->departed != NULL)) take_back(socket);
  return socket;
}

void *baton_net_socket_at_1(lua_State *L, int kind) {
  void *socket = baton_net_socket_at(L, 1, kind);
  if (l_unlikely(socket == NULL)) luaL_typeerror(L, 1, kinds[kind].name);
  return socket;
}

void *baton_net_new_socket(lua_State *L, int kind) {
  struct baton_net_socket *socket;
  baton_lua_check_memory(L);
  socket = lua_newuserdatauv(L, kinds[kind].size, 0);
  memset(socket, 0, kinds[kind].size);
  socket->seal = baton_inline_seal(kind);
  socket->descriptor = -1;
  baton_lua_set_sealed_metatable(L, kind);
  return socket;
}

static void end_simulated(struct baton_net_socket *socket) {
  void *simulated = socket->simulated;
  socket->simulated = NULL;
  if (socket->seal == baton_inline_seal(BATON_SEALED_LISTENER))
    baton_port_close(simulated);
  else if (socket->seal == baton_inline_seal(BATON_SEALED_DATAGRAMS))
    baton_mailbox_close(simulated);
  else
    baton_link_close(simulated);
}

int baton_net_take_descriptor(lua_State *L, struct baton_net_socket *socket) {
  const struct baton_process *process = baton_lua_running(L);
  const int descriptor = socket->descriptor;
  if (l_unlikely(socket->departed != NULL)) baton_departed_drop(&socket->departed->departed);
  socket->departed = NULL;
  socket->descriptor = -1;
  if (l_unlikely(socket->simulated != NULL)) {
    end_simulated(socket);
    baton_net_stir(L);
    return -1;
  }
  if (descriptor < 0 || process == NULL) return descriptor; /* of a heap that was halted */
  baton_lua_enter(L);
  baton_descriptor_closes(process->vm->executor, (uint32_t)descriptor);
  baton_lua_leave(L);
  return descriptor;
}

int baton_net_tostring(lua_State *L) {
  const struct baton_net_socket *socket = lua_touserdata(L, 1);
  int kind = BATON_SEALED_CONNECTION;
  while (kind <= BATON_SEALED_DATAGRAMS && baton_inline_test_sealed(L, 1, kind) == NULL) kind++;
  if (kind > BATON_SEALED_DATAGRAMS) return luaL_typeerror(L, 1, "object of baton.net");
  lua_pushfstring(L, "baton.net %s%s: %p", kinds[kind].name,
      socket->descriptor < 0 ? " (closed)" : "", (const void *)socket);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Connections
** ======================================================= */

struct baton_net_connection *baton_net_new_connection(lua_State *L) {
  struct baton_net_connection *connection = baton_net_new_socket(L, BATON_SEALED_CONNECTION);
  connection->deadline = connection->timeout = BATON_NO_DEADLINE;
  connection->news = -1;
  return connection;
}

void baton_net_adopt(
    lua_State *L, struct baton_net_connection *connection, int descriptor, int family) {
  connection->is_tcp = family == AF_INET || family == AF_INET6;
#ifdef SO_NOSIGPIPE
  const int yes = 1;
  (void)setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes);
#endif
  baton_lua_enter(L); /* the number may have been another file's, which was closed without a word */
  baton_descriptor_closes(baton_inline_caller(L)->vm->executor, (uint32_t)descriptor);
  baton_lua_leave(L);
  connection->socket.descriptor = descriptor;
}

void baton_net_adopt_simulated(
    lua_State *L, struct baton_net_connection *connection, struct baton_link *link) {
  connection->socket.simulated = link;
  connection->socket.descriptor = baton_loopback_number();
  baton_net_stir(L);
}

void baton_net_strip(struct baton_lua_vm *vm, struct baton_net_connection *connection) {
  const struct baton_net_transport *transport = connection->transport;
  baton_net_drop_buffer(vm, &connection->buffer);
  baton_net_drop_buffer(vm, &connection->early);
  baton_net_leave_place(connection->places);
  connection->places = NULL;
  connection->transport = NULL;
  if (transport != NULL) transport->close(connection->state);
  connection->state = NULL;
}

struct baton_net_connection *baton_net_test(lua_State *L, int index) {
  return baton_net_socket_at(L, index, BATON_SEALED_CONNECTION);
}

struct baton_net_connection *baton_net_check(lua_State *L, int index) {
  struct baton_net_connection *connection = baton_net_socket_at(L, index, BATON_SEALED_CONNECTION);
  if (l_unlikely(connection == NULL)) luaL_typeerror(L, index, "connection");
  return connection;
}

int baton_net_is_open(const struct baton_net_connection *connection) {
  return connection->socket.descriptor >= 0;
}

void baton_net_set_deadline(struct baton_net_connection *connection, uint64_t deadline) {
  connection->deadline = deadline;
}

uint64_t baton_net_deadline(const struct baton_net_connection *connection) {
  return connection->deadline;
}

void baton_net_close(lua_State *L, struct baton_net_connection *connection) {
  const struct baton_process *process = baton_lua_running(L);
  const int descriptor = baton_net_take_descriptor(L, &connection->socket);
  const int had_place = connection->places != NULL;
  baton_net_strip(process != NULL ? process->vm : NULL, connection);
  if (l_unlikely(baton_simulated && had_place)) baton_net_stir(L);
  if (descriptor >= 0) close(descriptor);
}

int baton_net_collect(lua_State *L) {
  struct baton_net_connection *connection =
      baton_inline_test_sealed(L, 1, BATON_SEALED_CONNECTION);
  if (connection == NULL) return luaL_typeerror(L, 1, "connection");
  baton_net_close(L, connection);
  free(connection->fault_text);
  connection->fault_text = NULL;
  return 0;
}

/* }====================================================== */

/* {======================================================
** Faults
** ======================================================= */

void baton_net_set_fault(struct baton_net_connection *connection, int number, const char *text) {
  free(connection->fault_text);
  connection->fault_text = text != NULL ? strdup(text) : NULL;
  connection->fault = number;
}

int baton_net_fault(const struct baton_net_connection *connection) { return connection->fault; }

const char *baton_net_fault_text(const struct baton_net_connection *connection) {
  if (connection->fault_text != NULL) return connection->fault_text;
  return connection->fault != 0 ? strerror(connection->fault) : "the connection has failed";
}

int baton_net_push_result(
    lua_State *L, const struct baton_net_connection *connection, enum baton_net_result result) {
  const int number = connection->fault;
  lua_pushnil(L);
  if (result == BATON_NET_TIMED_OUT)
    lua_pushliteral(L, "timeout");
  else if (result != BATON_NET_FAILED || number == EPIPE || number == ECONNRESET)
    lua_pushliteral(L, "closed");
  else
    lua_pushstring(L, baton_net_fault_text(connection));
  return 2;
}

/* }====================================================== */

/* {======================================================
** Transports
** ======================================================= */

int baton_net_install(struct baton_net_connection *connection,
    const struct baton_net_transport *transport, void *state) {
  struct baton_net_socket *socket = &connection->socket;
  if (socket->descriptor < 0 || connection->transport != NULL || socket->waits > 0 ||
      socket->holders[BATON_NET_READS] != NULL || socket->holders[BATON_NET_WRITES] != NULL)
    return 0;
  connection->early = connection->buffer;
  connection->buffer = (struct baton_net_buffer){NULL, 0, 0, 0};
  connection->transport = transport;
  connection->state = state;
  return 1;
}

void *baton_net_transport_state(const struct baton_net_connection *connection,
    const struct baton_net_transport *transport) {
  return connection->transport == transport ? connection->state : NULL;
}

const char *baton_net_transport_name(const struct baton_net_connection *connection) {
  return connection->transport != NULL ? connection->transport->name : NULL;
}

/* }====================================================== */
