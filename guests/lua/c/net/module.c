/*
** require "baton.net", and vm.move for its objects: the descriptor goes to another VM with the rest
** of the record: what was read and not taken, the transport, the place below a listener's limit.
*/
#include "net/inside.h"

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

void baton_net_install_kinds(void) {
  static const struct baton_movable kind = {
      is_socket, check_socket, take_socket, push_socket, restore_socket};
  baton_move_register(&kind);
}

/* }====================================================== */

int baton_net_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"listen", baton_net_listen},
      {"connect", baton_net_connect}, {"udp", baton_net_udp}, {"tls", baton_net_tls},
      {NULL, NULL}};
  (void)baton_inline_caller(L);
  open_types(L);
  luaL_newlib(L, functions);
  return 1;
}
