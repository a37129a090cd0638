/*
** vm.move for sockets of LuaSocket: the descriptor goes to another VM, with the data that the
** module has read and nobody has received, the counts of bytes and the timeouts. Here the socket is
** closed, as by its method close.
**
** The object in the other VM is made by LuaSocket's own functions there.
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
  const char *name;               /* of the metatable */
  const char *module, *makers[2]; /* of an object for IPv4, and for IPv6 */
  int has_data;                   /* the module has a buffer of what it has read, and counts */
  const char *refusal;            /* NULL: it can be moved */
} kinds[] = {
    {"tcp{client}", "socket.core", {"tcp4", "tcp6"}, 1, NULL},
    {"tcp{server}", "socket.core", {"tcp4", "tcp6"}, 0, NULL},
    {"tcp{master}", "socket.core", {"tcp4", "tcp6"}, 0, NULL},
    {"udp{connected}", "socket.core", {"udp4", "udp6"}, 0, NULL},
    {"udp{unconnected}", "socket.core", {"udp4", "udp6"}, 0, NULL},
    {"unixstream{client}", "socket.unix", {"stream", "stream"}, 1, NULL},
    {"unixstream{server}", "socket.unix", {"stream", "stream"}, 0, NULL},
    {"unixstream{master}", "socket.unix", {"stream", "stream"}, 0, NULL},
    {"unixdgram{connected}", "socket.unix", {"dgram", "dgram"}, 0, NULL},
    {"unixdgram{unconnected}", "socket.unix", {"dgram", "dgram"}, 0, NULL},
    {"serial{client}", NULL, {NULL, NULL}, 0, "a serial port stays in its VM"},
    {"SSL:Connection", NULL, {NULL, NULL}, 0,
        "the state of its encryption stays in its VM; move the plain socket before ssl.wrap"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int kind_at(lua_State *L, int index) {
  int kind = 0;
  while (kind < KINDS && luaL_testudata(L, index, kinds[kind].name) == NULL) kind++;
  return kind;
}

static int is_socket(lua_State *L, int index) { return kind_at(L, index) < KINDS; }

/* {======================================================
** Leaving
** ======================================================= */

static void end_socket(struct baton_departed *departed, int has_arrived) {
  struct baton_departed_socket *socket = (struct baton_departed_socket *)departed;
  if (!has_arrived) close(socket->descriptor);
  free(socket->data);
  free(socket);
}

/* Finds the record of the first argument, which is of this kind, or makes it. Returns why it cannot
   be moved, or NULL. */
static const char *begin(lua_State *L, struct baton_try *call, int kind) {
  int is_busy;
  if (kinds[kind].refusal != NULL) return kinds[kind].refusal;
  *call = (struct baton_try){.process = baton_lua_running(L)};
  call->class = baton_socket_class_named(L, kinds[kind].name);
  if (call->process == NULL || call->class == NULL || call->class->setfd == NULL)
    return "its module was not loaded by require";
  call->socket = baton_socket_at(L, 1);
  if (call->socket == NULL && baton_socket_begin(L, call) == NULL)
    return "its module's objects have no user value";
  if (call->socket->departed != NULL) baton_socket_take_back(L, call);
  if (call->socket->departed != NULL) return "it was moved";
  if (call->socket->descriptor < 0) return "it has no descriptor: it is closed, or not yet bound";
  if (call->socket->waits > 0 || call->socket->holders[BATON_RECEIVES] != NULL ||
      call->socket->holders[BATON_SENDS] != NULL)
    return "a process waits for it";
  baton_lua_enter(L);
  is_busy = baton_lua_is_busy(call->process, lua_touserdata(L, 1));
  baton_lua_leave(L);
  return is_busy ? "a call of another process uses it" : NULL;
}

/* Raises an error if the socket, the only argument, cannot be moved now. */
static int check(lua_State *L) {
  struct baton_try call;
  const char *why = begin(L, &call, kind_at(L, 1));
  if (why != NULL) lua_pushstring(L, why);
  return why != NULL;
}

static void check_socket(lua_State *L, int index) {
  lua_pushcfunction(L, check);
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  if (!lua_isnil(L, -1))
    luaL_argerror(
        L, index, lua_pushfstring(L, "cannot move the socket: %s", lua_tostring(L, -1)));
  lua_pop(L, 1);
}

static void note_counts(
    lua_State *L, const struct baton_try *call, struct baton_departed_socket *departed) {
  int i;
  if (!departed->has_data) return;
  baton_socket_call(L, call->class->getstats, 3);
  for (i = 0; i < 3; i++) departed->counts[i] = lua_tonumber(L, i - 3);
  lua_pop(L, 3);
}

/* Takes the data out of the module's buffer. The object has no descriptor, so the module receives
   what is there and then finds that it is closed. Returns 0 without memory. */
static int note_data(
    lua_State *L, const struct baton_try *call, struct baton_departed_socket *departed) {
  const char *data;
  int is_dirty;
  if (!departed->has_data) return 1;
  baton_socket_call(L, call->class->dirty, 1);
  is_dirty = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (!is_dirty) return 1;
  lua_pushcfunction(L, call->class->receive);
  lua_pushvalue(L, 1);
  lua_pushliteral(L, "*a");
  lua_call(L, 2, 1);
  data = lua_tolstring(L, -1, &departed->size);
  departed->data = malloc(departed->size);
  if (departed->data == NULL) return 0;
  memcpy(departed->data, data, departed->size);
  lua_pop(L, 1);
  return 1;
}

static int is_inet6(int descriptor) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  return getsockname(descriptor, (struct sockaddr *)&address, &size) == 0 &&
      address.ss_family == AF_INET6;
}

struct taking {
  struct baton_departed_socket *departed;
  const char *why; /* why it cannot be moved, or NULL */
};

/* take(socket, struct taking) */
static int take(lua_State *L) {
  struct taking *taking = lua_touserdata(L, 2);
  struct baton_departed_socket *departed;
  struct baton_try call;
  const int kind = kind_at(L, 1);
  taking->why = begin(L, &call, kind);
  if (taking->why != NULL) return 0;
  departed = calloc(1, sizeof *departed);
  if (departed == NULL) return luaL_error(L, "not enough memory");
  taking->departed = departed;
  departed->kind = kind;
  departed->descriptor = baton_socket_descriptor(L, call.class);
  departed->has_data = kinds[kind].has_data && call.class->dirty != NULL &&
      call.class->getstats != NULL && call.class->setstats != NULL;
  departed->is_inet6 = is_inet6(departed->descriptor);
  departed->block = call.socket->block;
  departed->total = call.socket->total;
  departed->is_known = call.socket->is_known;
  note_counts(L, &call, departed);
  baton_socket_closes(L, &call);
  baton_socket_set_descriptor(L, call.class, -1);
  if (!note_data(L, &call, departed)) return luaL_error(L, "not enough memory");
  baton_departed_begin(&departed->departed, end_socket);
  call.socket->departed = departed;
  return 0;
}

/* attach(object, departed socket): gives the object the descriptor. */
static int attach(lua_State *L) {
  struct baton_departed_socket *departed = lua_touserdata(L, 2);
  struct baton_try call = {.process = baton_lua_running(L)};
  call.class = baton_socket_class_named(L, kinds[departed->kind].name);
  call.socket = baton_socket_at(L, 1);
  if (call.process == NULL || call.class == NULL || call.socket == NULL)
    return luaL_error(L, "LuaSocket was not loaded by require");
  baton_socket_attach(L, &call, departed);
  return 0;
}

static lu_byte stop_collector(lua_State *L) {
  lu_byte before;
  baton_lua_enter(L);
  before = G(L)->gcstp & GCSTPUSR;
  G(L)->gcstp |= GCSTPUSR;
  baton_lua_leave(L);
  return before;
}

static void restart_collector(lua_State *L, lu_byte before) {
  baton_lua_enter(L);
  G(L)->gcstp = cast_byte((G(L)->gcstp & ~GCSTPUSR) | before);
  baton_lua_leave(L);
}

/* Called in the middle of a copy. So no finalizer may run, and no error may be raised. */
static void *take_socket(lua_State *L, int index, const char **why) {
  struct taking taking = {NULL, NULL};
  const int top = lua_gettop(L);
  const lu_byte stopped = stop_collector(L);
  int status;
  index = lua_absindex(L, index);
  lua_pushcfunction(L, take);
  lua_pushvalue(L, index);
  lua_pushlightuserdata(L, &taking);
  status = lua_pcall(L, 2, 0, 0);
  if (status != LUA_OK && taking.departed != NULL) { /* it keeps its descriptor */
    taking.departed->size = 0;
    lua_pushcfunction(L, attach);
    lua_pushvalue(L, index);
    lua_pushlightuserdata(L, taking.departed);
    (void)lua_pcall(L, 2, 0, 0);
  }
  restart_collector(L, stopped);
  lua_settop(L, top);
  *why = taking.why != NULL ? taking.why : "not enough memory";
  if (status == LUA_OK && taking.why == NULL) return taking.departed;
  if (taking.departed != NULL) free(taking.departed->data);
  free(taking.departed);
  return NULL;
}

/* }====================================================== */

/* {======================================================
** Arriving
** ======================================================= */

/* Leaves a new object of the module on the stack, without a descriptor. */
static void make_object(lua_State *L, const struct baton_departed_socket *departed) {
  const char *maker = kinds[departed->kind].makers[departed->is_inet6];
  lua_getglobal(L, "require");
  lua_pushstring(L, kinds[departed->kind].module);
  lua_call(L, 1, 1);
  lua_getfield(L, -1, maker);
  lua_call(L, 0, 2);
  if (lua_isnil(L, -2)) luaL_error(L, "%s: %s", maker, lua_tostring(L, -1));
  lua_pop(L, 1);
  lua_getfield(L, -1, "close");
  lua_pushvalue(L, -2);
  lua_call(L, 1, 0);
  luaL_setmetatable(L, kinds[departed->kind].name);
}

/* Gives the object on the top one of its timeouts. */
static void set_timeout(lua_State *L, lua_Number seconds, const char *mode) {
  lua_getfield(L, -1, "settimeout");
  lua_pushvalue(L, -2);
  lua_pushnumber(L, seconds);
  lua_pushstring(L, mode);
  lua_call(L, 3, 0);
}

/* arrive(departed socket) -> object */
static int arrive(lua_State *L) {
  struct baton_departed_socket *departed = lua_touserdata(L, 1);
  make_object(L, departed);
  set_timeout(L, departed->block, "b");
  set_timeout(L, departed->total, "t");
  lua_pushcfunction(L, attach);
  lua_pushvalue(L, -2);
  lua_pushvalue(L, 1);
  lua_call(L, 2, 0);
  return 1;
}

static void push_socket(lua_State *L, void *object) {
  struct baton_departed_socket *departed = object;
  lua_pushcfunction(L, arrive);
  lua_pushlightuserdata(L, departed);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
    baton_departed_arrives(&departed->departed);
    return;
  }
  baton_departed_returns(&departed->departed);
  lua_error(L);
}

static void restore_socket(void *object) {
  struct baton_departed_socket *departed = object;
  baton_departed_returns(&departed->departed);
}

/* }====================================================== */

void baton_modules_install(void) {
  static const struct baton_movable kind = {
      is_socket, check_socket, take_socket, push_socket, restore_socket};
  baton_move_register(&kind);
}
