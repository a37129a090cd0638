/*
** What the functions of baton.net are given: addresses and options.
**
** An address is "host:port", "[host]:port" for a host with colons, ":port", or "unix:path". A path
** that begins with "@" is a name in the system's own space (unix(7)).
*/
#include "net/inside.h"
#include "modules/modules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* {======================================================
** Texts of addresses
** ======================================================= */

static int refuse_address(lua_State *L, int index, const char *why) {
  return luaL_argerror(L, index,
      lua_pushfstring(L,
          "address expected, as '127.0.0.1:8080', '[::1]:8080', 'localhost:8080' or "
          "'unix:/run/x', got '%s'%s",
          lua_tostring(L, index), why));
}

static void read_path(lua_State *L, int index, const char *path, struct baton_net_place *place) {
  struct sockaddr_un *local = &place->address.at.local;
  const size_t length = strlen(path);
  if (length == 0 || length >= sizeof local->sun_path)
    refuse_address(L, index, lua_pushfstring(L, ", whose path has %d bytes of 1 to %d",
        (int)length, (int)sizeof local->sun_path - 1));
  memset(local, 0, sizeof *local);
  local->sun_family = AF_UNIX;
  memcpy(local->sun_path, path, length);
  if (path[0] == '@') local->sun_path[0] = '\0';
  place->is_local = 1;
  place->address.size =
      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@'));
}

static int is_port(const char *text) {
  const size_t length = strspn(text, "0123456789");
  return length > 0 && length <= 5 && text[length] == '\0' && atoi(text) <= 65535;
}

void baton_net_read_place(lua_State *L, int index, struct baton_net_place *place) {
  size_t size;
  const char *text = luaL_checklstring(L, index, &size), *colon = strrchr(text, ':');
  const char *first = text, *end = colon;
  memset(place, 0, sizeof *place);
  place->text = text;
  if (strlen(text) != size) refuse_address(L, index, ", which has a zero byte");
  if (strncmp(text, "unix:", 5) == 0) {
    read_path(L, index, text + 5, place);
    return;
  }
  if (colon == NULL || !is_port(colon + 1))
    refuse_address(L, index, ", which does not end with a colon and a port");
  place->port = colon + 1;
  if (text[0] == '[' && colon > text && colon[-1] == ']') {
    first++;
    end--;
  } else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
    refuse_address(L, index, ", where brackets belong around the host");
  }
  place->host = lua_pushlstring(L, first, (size_t)(end - first));
}

void baton_net_push_address(lua_State *L, const struct baton_net_address *address) {
  char host[NI_MAXHOST];
  if (address->at.any.sa_family == AF_UNIX) {
    const size_t head = offsetof(struct sockaddr_un, sun_path);
    const char *path = address->at.local.sun_path;
    const size_t size = address->size > head ? address->size - head : 0;
    if (size > 0 && path[0] == '\0')
      lua_pushfstring(L, "unix:@%s", lua_pushlstring(L, path + 1, size - 1));
    else
      lua_pushfstring(L, "unix:%s", lua_pushlstring(L, path, strnlen(path, size)));
    lua_remove(L, -2);
    return;
  }
  if (getnameinfo(&address->at.any, address->size, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
    strcpy(host, "?");
  if (address->at.any.sa_family == AF_INET6 &&
      IN6_IS_ADDR_V4MAPPED(&address->at.of_6.sin6_addr)) /* it has come by a listener of both */
    lua_pushfstring(
        L, "%s:%d", strrchr(host, ':') + 1, (int)ntohs(address->at.of_6.sin6_port));
  else if (address->at.any.sa_family == AF_INET6)
    lua_pushfstring(L, "[%s]:%d", host, (int)ntohs(address->at.of_6.sin6_port));
  else
    lua_pushfstring(L, "%s:%d", host, (int)ntohs(address->at.of_4.sin_port));
}

static int push_of(lua_State *L, const struct baton_net_socket *socket, const char *simulated,
    int (*ask)(int descriptor, struct sockaddr *address, socklen_t *size)) {
  struct baton_net_address address = {.size = sizeof address.at};
  const int descriptor = socket->descriptor;
  if (simulated != NULL) {
    lua_pushstring(L, simulated);
    return 1;
  }
  memset(&address.at, 0, sizeof address.at);
  if (descriptor >= 0 && ask(descriptor, &address.at.any, &address.size) == 0) {
    baton_net_push_address(L, &address);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, descriptor < 0 || errno == ENOTCONN ? "closed" : strerror(errno));
  return 2;
}

static int ask_own(int descriptor, struct sockaddr *address, socklen_t *size) {
  return getsockname(descriptor, address, size);
}

static int ask_peer(int descriptor, struct sockaddr *address, socklen_t *size) {
  return getpeername(descriptor, address, size);
}

int baton_net_push_own(lua_State *L, const struct baton_net_socket *socket) {
  const char *simulated = NULL;
  if (socket->simulated != NULL)
    simulated = socket->seal == baton_inline_seal(BATON_SEALED_LISTENER)
        ? baton_port_address(socket->simulated)
        : socket->seal == baton_inline_seal(BATON_SEALED_DATAGRAMS)
        ? baton_mailbox_address(socket->simulated)
        : baton_link_address(socket->simulated);
  return push_of(L, socket, simulated, ask_own);
}

int baton_net_push_peer(lua_State *L, const struct baton_net_socket *socket) {
  return push_of(
      L, socket, socket->simulated != NULL ? baton_link_peer(socket->simulated) : NULL, ask_peer);
}

int baton_net_refused(lua_State *L, const char *address, int number) {
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", address, strerror(number));
  lua_pushinteger(L, number);
  return 3;
}

/* }====================================================== */

/* {======================================================
** Addresses of a place
** ======================================================= */

/* Reads a number of a host. Returns 0 if it is a name. Asks no server. */
static int read_number(const char *host, const char *port, struct baton_net_address *address) {
  const struct addrinfo hints = {
      .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found;
  struct in_addr of_4;
  if (strchr(host, ':') == NULL && inet_pton(AF_INET, host, &of_4) != 1) return 0;
  if (getaddrinfo(host, port, &hints, &found) != 0) return 0;
  memcpy(&address->at, found->ai_addr, found->ai_addrlen);
  address->size = found->ai_addrlen;
  freeaddrinfo(found);
  return 1;
}

/* Reads the table of numbers on the top of the stack. The families alternate, beginning with the
   first one's (RFC 8305, section 4). */
static int read_numbers(lua_State *L, const char *port,
    struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES]) {
  struct baton_net_address found[BATON_NET_MOST_ADDRESSES];
  const lua_Integer given = (lua_Integer)lua_rawlen(L, -1);
  int count = 0, taken = 0, next[2] = {0, 0}, turn = 0;
  lua_Integer i;
  for (i = 1; i <= given && count < BATON_NET_MOST_ADDRESSES; i++) {
    lua_rawgeti(L, -1, i);
    count += read_number(lua_tostring(L, -1), port, &found[count]);
    lua_pop(L, 1);
  }
  while (taken < count) {
    const sa_family_t first = found[0].at.any.sa_family;
    int *at = &next[turn];
    while (*at < count && (found[*at].at.any.sa_family == first) != (turn == 0)) ++*at;
    if (*at < count) addresses[taken++] = found[(*at)++];
    turn = !turn;
  }
  return count;
}

int baton_net_find(lua_State *L, struct baton_process *process,
    const struct baton_net_place *place, int is_passive, uint64_t deadline,
    struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES], const char **why) {
  int error, count;
  if (place->is_local) {
    addresses[0] = place->address;
    return 1;
  }
  if (place->host[0] == '\0' || strcmp(place->host, "*") == 0) {
    (void)read_number(is_passive ? "::" : "127.0.0.1", place->port, &addresses[0]);
    (void)read_number(is_passive ? "0.0.0.0" : "::1", place->port, &addresses[1]);
    return 2;
  }
  if (read_number(place->host, place->port, &addresses[0])) return 1;
  baton_inline_check_may_wait(L, process);
  error = baton_lua_look_up_name(L, process, place->host, AF_UNSPEC, deadline);
  if (error == BATON_NAME_TIMED_OUT) {
    *why = "timeout";
    return 0;
  }
  if (error != 0) {
    *why = lua_pushfstring(L, "%s: %s", place->text, gai_strerror(error));
    return 0;
  }
  count = read_numbers(L, place->port, addresses);
  lua_pop(L, 1);
  *why = lua_pushfstring(L, "%s: the name has no address", place->text);
  return count;
}

/* }====================================================== */

/* {======================================================
** Options
** ======================================================= */

static void check_option(
    lua_State *L, int index, const char *name, enum baton_net_option_type type) {
  static const char *const expected[] = {
      "boolean", "number from 1 on", "number of seconds", "value"};
  int is_right = 1;
  switch (type) {
    case BATON_NET_FLAG: is_right = lua_isboolean(L, -1); break;
    case BATON_NET_COUNT: is_right = lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1; break;
    case BATON_NET_SECONDS:
      is_right = lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) == lua_tonumber(L, -1);
      break;
    default: break;
  }
  if (is_right) return;
  luaL_tolstring(L, -1, NULL);
  luaL_argerror(L, index,
      lua_pushfstring(
          L, "option '%s': %s expected, got %s", name, expected[type], lua_tostring(L, -1)));
}

void baton_net_check_options(lua_State *L, int index, const struct baton_net_option *options) {
  if (lua_isnoneornil(L, index)) return;
  luaL_checktype(L, index, LUA_TTABLE);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    const struct baton_net_option *option = options;
    while (option->name != NULL && (key == NULL || strcmp(option->name, key) != 0)) option++;
    if (option->name == NULL) {
      luaL_tolstring(L, -2, NULL);
      luaL_argerror(L, index, lua_pushfstring(L, "unknown option '%s'", lua_tostring(L, -1)));
    }
    check_option(L, index, key, option->type);
    lua_pop(L, 1);
  }
}

/* Pushes an option, or nil. */
static void push_option(lua_State *L, int index, const char *name) {
  if (lua_isnoneornil(L, index)) {
    lua_pushnil(L);
    return;
  }
  lua_pushstring(L, name);
  lua_rawget(L, index);
}

int baton_net_flag(lua_State *L, int index, const char *name, int otherwise) {
  int value;
  push_option(L, index, name);
  value = lua_isnil(L, -1) ? otherwise : lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

lua_Integer baton_net_count(lua_State *L, int index, const char *name, lua_Integer otherwise) {
  lua_Integer value;
  push_option(L, index, name);
  value = lua_isnil(L, -1) ? otherwise : lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

struct baton_net_bounds baton_net_read_bounds(lua_State *L, int index) {
  struct baton_net_bounds bounds;
  bounds.line = (size_t)baton_net_count(L, index, "max_line", 65536);
  bounds.all = (size_t)baton_net_count(L, index, "max_all", 67108864);
  return bounds;
}

/* }====================================================== */
