/*
** require "baton.net", and vm.move for its objects: the descriptor goes to another VM with the rest
** of the record: what was read and not taken, the transport, the place below a listener's limit.
*/
#include "net/inside.h"
#include "modules/modules.h"
#include "process/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* {======================================================
** Metatables
** ======================================================= */

static const struct {
  int kind;
  const char *name;
  const luaL_Reg *methods;
  lua_CFunction collect;
} types[] = {
    {BATON_SEALED_CONNECTION, "baton.net.connection*", baton_net_connection_methods,
        baton_net_collect},
    {BATON_SEALED_LISTENER, "baton.net.listener*", baton_net_listener_methods,
        baton_net_collect_listener},
    {BATON_SEALED_DATAGRAMS, "baton.net.datagrams*", baton_net_datagram_methods,
        baton_net_collect_datagrams},
};

enum { TYPES = sizeof types / sizeof *types };

static void open_types(lua_State *L) {
  int i;
  baton_lua_push_sealed_metatable(L, BATON_SEALED_DATAGRAMS);
  if (!lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  for (i = 0; i < TYPES; i++) {
    baton_lua_note_quick_finalizer(types[i].collect);
    baton_lua_note_giving_finalizer(types[i].collect);
    baton_lua_push_new_metatable(L, types[i].name);
    lua_newtable(L);
    luaL_setfuncs(L, types[i].methods, 0);
    lua_getfield(L, -1, "close");
    lua_setfield(L, -3, "__close");
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, baton_net_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, types[i].collect);
    lua_setfield(L, -2, "__gc");
    baton_lua_keep_private(L, baton_lua_seal(types[i].kind));
  }
}

/* }====================================================== */

/* {======================================================
** vm.move
** ======================================================= */

static int type_at(lua_State *L, int index) {
  int type = 0;
  while (type < TYPES && baton_inline_test_sealed(L, index, types[type].kind) == NULL) type++;
  return type;
}

static int is_socket(lua_State *L, int index) { return type_at(L, index) < TYPES; }

/* The socket at `index`, and why it cannot be moved now, or NULL. */
static const char *why_not(lua_State *L, int index, struct baton_net_socket **socket) {
  const struct baton_process *process = baton_lua_running(L);
  if (process == NULL) return "the program is ending";
  *socket = baton_net_socket_at(L, index, types[type_at(L, index)].kind);
  if ((*socket)->simulated != NULL) return "a connection of a simulated run stays in its VM";
  if ((*socket)->departed != NULL) return "it was moved";
  if ((*socket)->descriptor < 0) return "it is closed";
  if ((*socket)->forks == process->vm->forks &&
      ((*socket)->waits > 0 || (*socket)->holders[0] != NULL || (*socket)->holders[1] != NULL))
    return "a process waits for it";
  return NULL;
}

static void check_socket(lua_State *L, int index) {
  struct baton_net_socket *socket;
  const char *why = why_not(L, index, &socket);
  if (why != NULL) luaL_argerror(L, index, lua_pushfstring(L, "cannot move it: %s", why));
}

/* Neither VM has the socket any more. By any thread. */
static void end_socket(struct baton_departed *departed, int has_arrived) {
  struct baton_net_departed *left = (struct baton_net_departed *)departed;
  if (!has_arrived) {
    void *record = (char *)left->record - sizeof(struct baton_net_socket);
    if (left->kind == BATON_SEALED_CONNECTION) {
      baton_net_strip(NULL, record);
      free(((struct baton_net_connection *)record)->fault_text);
    } else if (left->kind == BATON_SEALED_LISTENER) {
      baton_net_strip_listener(record);
    } else {
      free(((struct baton_net_datagrams *)record)->data);
    }
    close(left->descriptor);
  }
  free(left);
}

/* Called in the middle of a copy. */
static void *take_socket(lua_State *L, int index, const char **why) {
  struct baton_net_socket *socket;
  struct baton_net_departed *left;
  size_t size;
  char *record;
  *why = why_not(L, index, &socket);
  if (*why != NULL) return NULL;
  *why = "not enough memory";
  size = baton_net_size_of(types[type_at(L, index)].kind);
  left = malloc(sizeof *left + size);
  if (left == NULL) return NULL;
  record = (char *)(left + 1);
  memcpy(record, socket, size);
  left->kind = types[type_at(L, index)].kind;
  left->record = record + sizeof *socket;
  left->descriptor = baton_net_take_descriptor(L, socket);
  baton_departed_begin(&left->departed, end_socket);
  memset((char *)socket + sizeof *socket, 0, size - sizeof *socket);
  socket->departed = left;
  return left;
}

static int make(lua_State *L) {
  open_types(L);
  (void)baton_net_new_socket(L, (int)lua_tointeger(L, 1));
  return 1;
}

static void push_socket(lua_State *L, void *object) {
  struct baton_net_departed *left = object;
  struct baton_net_socket *socket;
  lua_pushcfunction(L, make);
  lua_pushinteger(L, left->kind);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    baton_departed_returns(&left->departed);
    lua_error(L);
  }
  socket = lua_touserdata(L, -1);
  memcpy((char *)socket + sizeof *socket, left->record,
      baton_net_size_of(left->kind) - sizeof *socket);
  baton_lua_enter(L); /* the number may have been another file's here */
  baton_descriptor_closes(baton_inline_caller(L)->vm->executor, (uint32_t)left->descriptor);
  baton_lua_leave(L);
  socket->descriptor = left->descriptor;
  if (left->kind == BATON_SEALED_CONNECTION)
    ((struct baton_net_connection *)socket)->is_drained = 0;
  baton_departed_arrives(&left->departed);
}

static void restore_socket(void *object) {
  struct baton_net_departed *left = object;
  baton_departed_returns(&left->departed);
}

/* }====================================================== */

/* {======================================================
** net.simulated
** ======================================================= */

static lua_Number number_option(lua_State *L, const char *name, lua_Number most) {
  lua_Number value = 0;
  lua_getfield(L, 1, name);
  if (!lua_isnil(L, -1)) {
    value = luaL_checknumber(L, -1);
    if (!(value >= 0 && value <= most))
      luaL_argerror(L, 1,
          lua_pushfstring(
              L, "option '%s': number from 0 to %f expected, got %f", name, most, value));
  }
  lua_pop(L, 1);
  return value;
}

/* When the socket at `index` may be ready next, without an act of another process. */
static uint64_t ready_at(lua_State *L, int index, int writes) {
  struct baton_net_connection *connection = baton_net_test(L, index);
  const struct baton_net_listener *listener = baton_inline_test_sealed(
      L, index, BATON_SEALED_LISTENER);
  if (listener != NULL)
    return listener->socket.simulated == NULL ? 0 : baton_port_next(listener->socket.simulated);
  if (connection == NULL || connection->socket.simulated == NULL) return 0;
  if (!writes && (connection->has_ended || baton_net_buffered(&connection->buffer) > 0)) return 0;
  return baton_link_next(connection->socket.simulated, writes);
}

/* The first time at which one of the sockets of a list may be ready. */
static uint64_t first_of(lua_State *L, int list, int writes) {
  uint64_t first = BATON_NO_DEADLINE;
  lua_Integer i;
  for (i = 1; i <= (lua_Integer)lua_rawlen(L, list); i++) {
    uint64_t at;
    lua_rawgeti(L, list, i);
    at = ready_at(L, lua_gettop(L), writes);
    lua_pop(L, 1);
    if (at < first) first = at;
  }
  return first;
}

/* await(readers, writers, timeout): waits until one of the sockets is ready. */
static int await_sockets(lua_State *L) {
  struct baton_process *process = baton_inline_caller(L);
  const uint64_t deadline = baton_net_deadline_at(L, 3, BATON_NO_DEADLINE);
  for (;;) {
    const uint64_t now = baton_now(), read_at = first_of(L, 1, 0), write_at = first_of(L, 2, 1);
    uint64_t until = read_at < write_at ? read_at : write_at;
    if (until <= now || deadline <= now) return 0;
    if (deadline < until) until = deadline;
    baton_net_await_stir(L, process, until);
  }
}

/* is_ready(socket, writes) */
static int is_socket_ready(lua_State *L) {
  lua_pushboolean(L, ready_at(L, 1, lua_toboolean(L, 2)) <= baton_now());
  return 1;
}

/* LuaSocket's module is on the top of the stack. */
static void simulate_sockets(lua_State *L) {
  const int module = lua_gettop(L);
  baton_lua_load_part(L, "simulated_sockets", "=simulated_sockets");
  lua_pushvalue(L, module);
  luaL_requiref(L, "baton.net", baton_net_open, 0);
  lua_pushcfunction(L, await_sockets);
  lua_pushcfunction(L, is_socket_ready);
  baton_lua_run_part(L, 4, 0);
}

/* net.simulated(options): what goes wrong from now on. Returns whether this is a simulated run. */
static int net_simulated(lua_State *L) {
  static const struct baton_net_option options[] = {{"delay", BATON_NET_SECONDS},
      {"loss", BATON_NET_SECONDS}, {"piece", BATON_NET_COUNT}, {"rate", BATON_NET_COUNT},
      {"drop", BATON_NET_SECONDS}, {"twice", BATON_NET_SECONDS}, {NULL, BATON_NET_ANY}};
  struct baton_faults faults;
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  baton_net_check_options(L, 1, options);
  faults.delay = (uint64_t)(number_option(L, "delay", 1e6) * 1e9);
  faults.loss = number_option(L, "loss", 1);
  faults.drop = number_option(L, "drop", 1);
  faults.twice = number_option(L, "twice", 1);
  faults.piece = (uint64_t)baton_net_count(L, 1, "piece", 0);
  faults.rate = (uint64_t)baton_net_count(L, 1, "rate", 0);
  if (baton_simulated) baton_loopback_set_faults(&faults);
  lua_pushboolean(L, baton_simulated);
  return 1;
}

/* }====================================================== */

int baton_net_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"listen", baton_net_listen},
      {"connect", baton_net_connect}, {"udp", baton_net_udp}, {"tls", baton_net_tls},
      {"simulated", net_simulated}, {NULL, NULL}};
  (void)baton_inline_caller(L);
  open_types(L);
  luaL_newlib(L, functions);
  return 1;
}

void baton_net_install_kinds(void) {
  static const struct baton_movable kind = {
      is_socket, check_socket, take_socket, push_socket, restore_socket};
  baton_move_register(&kind);
  baton_lua_simulate_sockets = simulate_sockets;
}
