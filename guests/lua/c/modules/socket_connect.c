/*
** connect of TCP sockets. Helper threads look names up (name_lookups.c). Then one address after the
** other is tried.
**
** With a timeout of 0, LuaSocket tries only one address, and the object keeps its family. So if a
** name has addresses of several families, a descriptor of ours makes the connection, and the object
** takes it over.
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"
#include "system.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_number(const char *host) {
  struct in_addr address;
  return inet_pton(AF_INET, host, &address) == 1 || strchr(host, ':') != NULL;
}

static int family_of(const char *address) {
  return strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
}

/* The message for an error of getaddrinfo, as in LuaSocket. */
static const char *look_up_error(int error) {
  switch (error) {
    case EAI_AGAIN: return "temporary failure in name resolution";
    case EAI_BADFLAGS: return "invalid value for ai_flags";
    case EAI_FAIL: return "non-recoverable failure in name resolution";
    case EAI_FAMILY: return "ai_family not supported";
    case EAI_MEMORY: return "memory allocation failure";
    case EAI_NONAME: return "host or service not provided, or not known";
    case EAI_SERVICE: return "service not supported for socket type";
    case EAI_SOCKTYPE: return "ai_socktype not supported";
    default: return gai_strerror(error);
  }
}

static const char *connect_error(int error) {
  switch (error) {
    case ECONNREFUSED: return "connection refused";
    case EACCES: return "permission denied";
    case ETIMEDOUT: return "timeout";
    default: return strerror(error);
  }
}

static int fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* {======================================================
** One family: the object connects
** ======================================================= */

static int try_address(lua_State *L, struct baton_try *call, const char *address) {
  int count;
  lua_pushvalue(L, lua_upvalueindex(BATON_UV_ORIGINAL));
  lua_pushvalue(L, 1);
  lua_pushstring(L, address);
  lua_pushvalue(L, 3);
  call->harvests = baton_harvests(call->process->vm->executor);
  count = lua_gettop(L) - 4;
  lua_call(L, 3, LUA_MULTRET);
  return lua_gettop(L) - count;
}

/* Whether the results say that the system is still connecting. */
static int goes_on(lua_State *L, int count) {
  return count >= 2 && lua_type(L, 1 - count) == LUA_TSTRING &&
      strcmp(lua_tostring(L, 1 - count), strerror(EALREADY)) == 0;
}

static int connect_to(lua_State *L, struct baton_try *call, const char *address) {
  unsigned wants = BATON_WANTS_WRITE;
  int count = try_address(L, call, address);
  baton_socket_note_descriptor(L, call);
  call->start = 0;
  while (baton_socket_would_wait(L, count, &wants) || goes_on(L, count)) {
    lua_pop(L, count);
    if (!baton_socket_wait(L, call, BATON_WANTS_WRITE)) return fail(L, "timeout");
    if (call->socket->descriptor < 0) return fail(L, "closed");
    count = try_address(L, call, address);
  }
  return count;
}

/* }====================================================== */

/* {======================================================
** Several families: a descriptor of ours connects
** ======================================================= */

/* Begins to connect. Returns the descriptor, or -1 with errno. `service` is the number or the name
   of a port. */
static int begin_connection(const char *address, const char *service) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
  int descriptor;
  if (getaddrinfo(address, service, &hints, &found) != 0) {
    errno = EINVAL;
    return -1;
  }
  descriptor = baton_prepare_descriptor(socket(found->ai_family, BATON_STREAM, 0));
  if (descriptor >= 0 && connect(descriptor, found->ai_addr, found->ai_addrlen) != 0 &&
      errno != EINPROGRESS) {
    const int error = errno;
    close(descriptor);
    descriptor = -1;
    errno = error;
  }
  freeaddrinfo(found);
  return descriptor;
}

static int error_of(int descriptor) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* Closes a held descriptor. Called by its finalizer, too, after an error. */
static void let_go(lua_State *L, int *held) {
  const struct baton_process *process = baton_lua_running(L);
  if (*held < 0) return;
  if (process != NULL) {
    baton_lua_enter(L);
    baton_descriptor_closes(process->vm->executor, (uint32_t)*held);
    baton_lua_leave(L);
  }
  close(*held);
  *held = -1;
}

static int close_held(lua_State *L) {
  int *held = lua_touserdata(L, 1);
  if (held != NULL) let_go(L, held);
  return 0;
}

static int *push_held(lua_State *L) {
  int *descriptor = lua_newuserdatauv(L, sizeof *descriptor, 0);
  *descriptor = -1;
  if (luaL_newmetatable(L, "baton.held descriptor")) {
    lua_pushcfunction(L, close_held);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return descriptor;
}

/* Waits until the connection is made, within the object's timeout. Returns 0, or an error number as
   from connect. */
static int await_connection(lua_State *L, struct baton_try *call, int descriptor) {
  struct baton_socket *socket = call->socket;
  const int own = socket->descriptor;
  int came;
  struct sockaddr_storage peer;
  socklen_t size;
  call->start = 0;
  for (;;) {
    const int error = error_of(descriptor);
    if (error != 0) return error;
    size = sizeof peer;
    if (getpeername(descriptor, (struct sockaddr *)&peer, &size) == 0) return 0;
    socket->descriptor = descriptor; /* no other process uses the object: it is not connected */
    /* renews the registration, as earlier events are unknown */
    call->harvests = baton_harvests(call->process->vm->executor) - 1;
    came = baton_socket_wait(L, call, BATON_WANTS_WRITE);
    socket->descriptor = own;
    if (!came) return ETIMEDOUT;
  }
}

/* Makes the object a socket of the address's family, and gives it the connection. Returns the
   number of results. */
static int take_over(lua_State *L, struct baton_try *call, const char *address, int connection) {
  int descriptor, count;
  lua_getfield(L, 1, "bind");
  lua_pushvalue(L, 1);
  lua_pushstring(L, family_of(address) == AF_INET6 ? "::" : "0.0.0.0");
  lua_pushinteger(L, 0);
  lua_call(L, 3, 2);
  if (lua_isnil(L, -2)) return 2;
  lua_pop(L, 2);
  baton_socket_note_descriptor(L, call);
  descriptor = call->socket->descriptor;
  if (descriptor < 0 || baton_replace_descriptor(connection, descriptor) < 0)
    return fail(L, strerror(descriptor < 0 ? EBADF : errno));
  /* it is connected already, but LuaSocket must note that it is a client */
  count = try_address(L, call, address);
  lua_pop(L, count);
  baton_socket_note_descriptor(L, call);
  lua_pushnumber(L, 1);
  return 1;
}

static int connect_to_families(lua_State *L, struct baton_try *call, int addresses) {
  const char *service = luaL_checkstring(L, 3);
  int *held = push_held(L);
  int error = ECONNREFUSED;
  lua_Integer i, count = (lua_Integer)lua_rawlen(L, addresses);
  for (i = 1; i <= count; i++) {
    const char *address;
    lua_rawgeti(L, addresses, i);
    address = lua_tostring(L, -1);
    *held = begin_connection(address, service);
    error = *held < 0 ? errno : await_connection(L, call, *held);
    if (error == 0) {
      const int results = take_over(L, call, address, *held);
      let_go(L, held);
      return results;
    }
    let_go(L, held);
    lua_pop(L, 1);
  }
  return fail(L, connect_error(error));
}

/* }====================================================== */

/* The family of the object's socket, or AF_UNSPEC if it has none yet. */
static int family_of_socket(const struct baton_socket *socket) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (socket->descriptor < 0 ||
      getsockname(socket->descriptor, (struct sockaddr *)&address, &size) != 0)
    return AF_UNSPEC;
  return address.ss_family;
}

static int is_of_several_families(lua_State *L, int addresses) {
  lua_Integer i, count = (lua_Integer)lua_rawlen(L, addresses);
  int first = 0;
  for (i = 1; i <= count; i++) {
    int family;
    lua_rawgeti(L, addresses, i);
    family = family_of(lua_tostring(L, -1));
    lua_pop(L, 1);
    if (first == 0) first = family;
    if (family != first) return 1;
  }
  return 0;
}

int baton_socket_connect(lua_State *L) {
  struct baton_try call;
  const char *host;
  int error, addresses, count = 0;
  lua_Integer i;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  if (!baton_socket_may_wait(&call) || baton_simulated || baton_socket_is_at_once(call.socket) ||
      !lua_isstring(L, 2) || !lua_isstring(L, 3) || strcmp(host = lua_tostring(L, 2), "*") == 0)
    return baton_socket_change(L);
  lua_settop(L, 3);
  if (call.socket->descriptor < 0) baton_socket_note_descriptor(L, &call);
  if (is_number(host)) return connect_to(L, &call, host);
  error = baton_lua_look_up_name(
      L, call.process, host, family_of_socket(call.socket), BATON_NO_DEADLINE);
  if (error != 0) return fail(L, look_up_error(error));
  addresses = lua_gettop(L);
  if (family_of_socket(call.socket) == AF_UNSPEC && is_of_several_families(L, addresses))
    return connect_to_families(L, &call, addresses);
  for (i = 1; i <= (lua_Integer)lua_rawlen(L, addresses); i++) {
    lua_settop(L, addresses);
    lua_rawgeti(L, addresses, i);
    count = connect_to(L, &call, lua_tostring(L, -1));
    if (lua_toboolean(L, -count)) break;
  }
  return count;
}
