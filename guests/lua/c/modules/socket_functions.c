/*
** The functions of LuaSocket that wait, and the tables of functions and methods that are replaced
** when a module is loaded (sockets.h).
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

/* {======================================================
** socket.select
** ======================================================= */

struct watches {
  struct baton_watch *all; /* in a userdata on the stack */
  size_t count, room;
};

static void add_watch(
    lua_State *L, struct watches *watches, int place, int descriptor, unsigned wants) {
  if (descriptor < 0) return;
  if (watches->count == watches->room) {
    const size_t room = watches->room == 0 ? 16 : 2 * watches->room;
    struct baton_watch *all = lua_newuserdatauv(L, room * sizeof *all, 0);
    if (watches->count > 0) memcpy(all, watches->all, watches->count * sizeof *all);
    lua_replace(L, place);
    watches->all = all;
    watches->room = room;
  }
  watches->all[watches->count].descriptor = (uint32_t)descriptor;
  watches->all[watches->count++].wants = wants;
}

/* The descriptor of the object on the top of the stack, found as LuaSocket does; -1: none. */
static int descriptor_of(lua_State *L) {
  const struct baton_socket *socket = baton_socket_at(L, -1);
  int descriptor = -1;
  if (socket != NULL && socket->descriptor >= 0) return socket->descriptor;
  lua_pushliteral(L, "getfd");
  lua_gettable(L, -2);
  if (!lua_isnil(L, -1)) {
    lua_pushvalue(L, -2);
    lua_call(L, 1, 1);
    if (lua_isnumber(L, -1)) descriptor = (int)lua_tonumber(L, -1);
  }
  lua_pop(L, 1);
  return descriptor;
}

static void watch_objects(
    lua_State *L, struct watches *watches, int place, int table, unsigned wants) {
  lua_Integer i;
  if (!lua_istable(L, table)) return;
  for (i = 1; lua_geti(L, table, i) != LUA_TNIL; i++) {
    add_watch(L, watches, place, descriptor_of(L), wants);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Whether nothing is ready, by the results of a select with timeout 0, which are on the top. */
static int is_nothing_ready(lua_State *L, int count) {
  return count == 3 && lua_type(L, -1) == LUA_TSTRING &&
      strcmp(lua_tostring(L, -1), "timeout") == 0;
}

enum { SELECT_ARGUMENTS = 3, SELECT_WATCHES };

static int select_on(lua_State *L, struct baton_process *process, uint64_t deadline) {
  const void *vm = process->vm->executor;
  struct baton_try call = {.process = process};
  for (;;) {
    struct watches watches = {NULL, 0, 0};
    struct baton_wake wake = {0, 0, 0};
    const int count = baton_socket_try(L, &call, SELECT_ARGUMENTS);
    int why;
    if (!is_nothing_ready(L, count) || deadline <= baton_now()) return count;
    lua_settop(L, SELECT_WATCHES);
    watch_objects(L, &watches, SELECT_WATCHES, 1, BATON_WANTS_READ);
    watch_objects(L, &watches, SELECT_WATCHES, 2, BATON_WANTS_WRITE);
    if (watches.count > 0 && baton_simulated) baton_socket_refuse_simulated(L);
    baton_lua_enter(L);
    if (watches.count == 0)
      why = (int)baton_sleep_until(vm, deadline).reason;
    else
      why = baton_await_ready(vm, watches.all, watches.count, 0, call.harvests, deadline);
    baton_lua_leave(L);
    if (why < 0) luaL_error(L, "a descriptor given to select cannot be waited for");
    wake.reason = (uint32_t)why;
    baton_lua_after_wait(L, process, wake);
  }
}

static int socket_select(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  const int is_usual = lua_isnoneornil(L, 3) || lua_type(L, 3) == LUA_TNUMBER;
  lua_Number timeout;
  if (process == NULL || !is_usual || !baton_lua_may_wait_here(process))
    return baton_socket_call_through(L);
  timeout = luaL_optnumber(L, 3, -1);
  if (timeout == 0) return baton_socket_call_through(L);
  lua_settop(L, 2);
  lua_pushinteger(L, 0);
  lua_pushnil(L); /* the watches */
  if (!(timeout > 0 && timeout < 9.0e9)) return select_on(L, process, BATON_NO_DEADLINE);
  return select_on(L, process, baton_now() + (uint64_t)(timeout * 1e9));
}

/* }====================================================== */

/* Whether getfd is called for a select: by LuaSocket's own, or by ours. */
static int is_for_select(lua_State *L) {
  const CallInfo *ci = L->ci->previous;
  int frames;
  for (frames = 0; frames < 2 && ci != NULL && ci != &L->base_ci; frames++, ci = ci->previous)
    if (!isLua(ci) && baton_lua_function_of(ci) == socket_select) return 1;
  return 0;
}

/* object:getfd(). A select does not tell the program what it asks. */
static int socket_getfd(lua_State *L) {
  struct baton_try call;
  if (baton_socket_of_call(L, &call) != NULL && !is_for_select(L)) baton_socket_is_known(L, &call);
  return baton_socket_call_through(L);
}

/* {======================================================
** socket.sleep and socket.connect
** ======================================================= */

static int socket_sleep(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  const lua_Number seconds = luaL_checknumber(L, 1);
  struct baton_wake wake;
  if (process == NULL || !baton_lua_may_wait_here(process) || !(seconds > 0))
    return baton_socket_call_through(L);
  baton_lua_enter(L);
  wake = baton_sleep_until(process->vm->executor,
      seconds < 9.0e9 ? baton_now() + (uint64_t)(seconds * 1e9) : BATON_NO_DEADLINE);
  baton_lua_leave(L);
  baton_lua_after_wait(L, process, wake);
  return 0;
}

/* Calls a method of the object at index 6 with values of the stack. Returns whether it succeeded.
   If not, its results are on the top. */
static int has_done(lua_State *L, const char *method, int first, int count) {
  int i;
  lua_getfield(L, 6, method);
  lua_pushvalue(L, 6);
  for (i = 0; i < count; i++) lua_pushvalue(L, first + i);
  lua_call(L, 1 + count, 2);
  if (lua_isnil(L, -2)) return 0;
  lua_pop(L, 2);
  return 1;
}

static int give_up(lua_State *L) {
  lua_getfield(L, 6, "close");
  lua_pushvalue(L, 6);
  lua_call(L, 1, 0);
  return 2;
}

/* socket.connect(address, port [, local address [, local port [, family]]]). Upvalue 3 is the
   module. */
static int socket_connect(lua_State *L) {
  static const char *const families[] = {"unspec", "inet", "inet6", NULL};
  static const char *const makers[] = {"tcp", "tcp4", "tcp6"};
  struct baton_process *process = baton_lua_running(L);
  int family;
  if (process == NULL || !baton_lua_may_wait_here(process)) return baton_socket_call_through(L);
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  luaL_optstring(L, 3, NULL);
  luaL_optstring(L, 4, "0");
  family = luaL_checkoption(L, 5, "unspec", families);
  lua_settop(L, 5);
  if (lua_isnil(L, 4)) {
    lua_pushliteral(L, "0");
    lua_replace(L, 4);
  }
  lua_getfield(L, lua_upvalueindex(3), makers[family]);
  lua_call(L, 0, 2);
  if (lua_isnil(L, -2)) return 2;
  lua_pop(L, 1);
  if (!lua_isnil(L, 3) && !has_done(L, "bind", 3, 2)) return give_up(L);
  if (!has_done(L, "connect", 1, 2)) return give_up(L);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Replacing
** ======================================================= */

struct replacement {
  const char *name;
  lua_CFunction function;
};

/* Of all classes. Their objects may have come back from a move that failed. */
static const struct replacement of_all[] = {{"getpeername", baton_socket_use},
    {"getsockname", baton_socket_use}, {"getfd", socket_getfd}, {"getfamily", baton_socket_use},
    {"getoption", baton_socket_use}, {"setoption", baton_socket_use}, {"listen", baton_socket_use},
    {"shutdown", baton_socket_use}, {"dirty", baton_socket_use}, {"getstats", baton_socket_use},
    {NULL, NULL}};

static const struct replacement of_streams[] = {{"receive", baton_socket_receive},
    {"send", baton_socket_send}, {"accept", baton_socket_accept}, {"connect", baton_socket_connect},
    {"bind", baton_socket_change}, {"setfd", baton_socket_setfd}, {"close", baton_socket_close},
    {"__gc", baton_socket_close}, {"settimeout", baton_socket_settimeout},
    {"gettimeout", baton_socket_gettimeout}, {"setstats", baton_socket_setstats}, {NULL, NULL}};

static const struct replacement of_datagrams[] = {{"receive", baton_socket_accept},
    {"receivefrom", baton_socket_accept}, {"send", baton_socket_send_datagram},
    {"sendto", baton_socket_send_datagram}, {"setsockname", baton_socket_change},
    {"setpeername", baton_socket_change}, {"setfd", baton_socket_setfd},
    {"close", baton_socket_close}, {"__gc", baton_socket_close},
    {"settimeout", baton_socket_settimeout}, {"gettimeout", baton_socket_gettimeout}, {NULL, NULL}};

/* Sending to a full receiver does not wait: an unconnected socket always counts as writable.
   connect does not wait: no event could be polled for. */
static const struct replacement of_unix_streams[] = {{"receive", baton_socket_receive},
    {"send", baton_socket_send}, {"accept", baton_socket_accept}, {"connect", baton_socket_change},
    {"bind", baton_socket_change}, {"setfd", baton_socket_setfd}, {"close", baton_socket_close},
    {"__gc", baton_socket_close}, {"settimeout", baton_socket_settimeout},
    {"gettimeout", baton_socket_gettimeout}, {NULL, NULL}};

static const struct replacement of_unix_datagrams[] = {{"receive", baton_socket_accept},
    {"receivefrom", baton_socket_accept}, {"send", baton_socket_send_datagram},
    {"sendto", baton_socket_change}, {"bind", baton_socket_change},
    {"connect", baton_socket_change}, {"setfd", baton_socket_setfd}, {"close", baton_socket_close},
    {"__gc", baton_socket_close}, {"settimeout", baton_socket_settimeout},
    {"gettimeout", baton_socket_gettimeout}, {NULL, NULL}};

static const struct replacement of_connections[] = {{"receive", baton_socket_receive},
    {"send", baton_socket_send}, {"dohandshake", baton_socket_handshake},
    {"setfd", baton_socket_change}, {"close", baton_socket_close}, {"__gc", baton_socket_close},
    {"settimeout", baton_socket_settimeout}, {NULL, NULL}};

static const struct {
  const char *module;
  const char *classes[3];
  const struct replacement *replacements;
  int is_plain;
} adapted[] = {
    {"socket.core", {"tcp{master}", "tcp{client}", "tcp{server}"}, of_streams, 1},
    {"socket.core", {"udp{connected}", "udp{unconnected}"}, of_datagrams, 1},
    {"socket.unix", {"unixstream{master}", "unixstream{client}", "unixstream{server}"},
        of_unix_streams, 1},
    {"socket.unix", {"unixdgram{connected}", "unixdgram{unconnected}"}, of_unix_datagrams, 1},
    {"socket.unix", {"unix{master}", "unix{client}", "unix{server}"}, of_unix_streams, 1},
    {"socket.serial", {"serial{client}"}, of_unix_streams, 1},
    {"ssl.core", {"SSL:Connection"}, of_connections, 0},
};

/* The function of that name in the methods at `methods`, or NULL. */
static lua_CFunction method_named(lua_State *L, int methods, const char *name) {
  lua_CFunction function;
  lua_getfield(L, methods, name);
  function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return function;
}

/* Replaces functions in the table at `table`. Equal functions stay equal: `made` maps the replaced
   ones to ours. */
static void replace(
    lua_State *L, int table, const struct replacement *replacements, int class, int made) {
  for (; replacements->name != NULL; replacements++) {
    lua_pushstring(L, replacements->name);
    if (lua_rawget(L, table) != LUA_TFUNCTION || lua_tocfunction(L, -1) == NULL) {
      lua_pop(L, 1);
      continue;
    }
    lua_pushvalue(L, -1);
    if (lua_rawget(L, made) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_pushvalue(L, class);
      lua_pushvalue(L, -2);
      lua_pushcclosure(L, replacements->function, 2);
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, made);
    }
    lua_pushstring(L, replacements->name);
    lua_pushvalue(L, -2);
    lua_rawset(L, table);
    lua_pop(L, 2);
  }
}

/* Adapts the classes of one kind. They share their functions and one `struct
   baton_socket_class`. */
static void adapt_classes(lua_State *L, size_t which) {
  struct baton_socket_class *class;
  int kept, made, i;
  class = lua_newuserdatauv(L, sizeof *class, 1);
  memset(class, 0, sizeof *class);
  class->is_plain = adapted[which].is_plain;
  kept = lua_gettop(L);
  lua_newtable(L); /* the classes' metatables */
  lua_newtable(L); /* functions that were replaced */
  made = lua_gettop(L);
  for (i = 0; i < 3 && adapted[which].classes[i] != NULL; i++) {
    int metatable, methods;
    if (luaL_getmetatable(L, adapted[which].classes[i]) != LUA_TTABLE) {
      lua_pop(L, 1);
      continue;
    }
    metatable = lua_gettop(L);
    lua_pushliteral(L, "__index");
    if (lua_rawget(L, metatable) == LUA_TTABLE) {
      methods = lua_gettop(L);
      if (class->settimeout == NULL) {
        class->getfd = method_named(L, methods, "getfd");
        class->settimeout = method_named(L, methods, "settimeout");
        class->gettimeout = method_named(L, methods, "gettimeout");
        class->setfd = method_named(L, methods, "setfd");
        class->receive = method_named(L, methods, "receive");
        class->setstats = method_named(L, methods, "setstats");
        if (adapted[which].replacements != of_connections) {
          class->dirty = method_named(L, methods, "dirty");
          class->getstats = method_named(L, methods, "getstats");
        }
      }
      if (class->getfd != NULL && class->settimeout != NULL) {
        replace(L, methods, adapted[which].replacements, kept, made);
        replace(L, metatable, adapted[which].replacements, kept, made);
        replace(L, methods, of_all, kept, made);
        lua_pushvalue(L, metatable);
        lua_pushboolean(L, 1);
        lua_rawset(L, kept + 1);
      }
    }
    lua_settop(L, made);
  }
  class->may_be_tcp = adapted[which].replacements == of_streams && class->dirty != NULL &&
      class->getstats != NULL;
  lua_pushvalue(L, kept + 1);
  lua_setiuservalue(L, kept, 1);
  lua_pushvalue(L, kept);
  baton_lua_keep_private(L, &adapted[which]);
  lua_settop(L, kept - 1);
}

const struct baton_socket_class *baton_socket_class_named(lua_State *L, const char *name) {
  const struct baton_socket_class *class;
  size_t which;
  int i;
  for (which = 0; which < sizeof adapted / sizeof *adapted; which++)
    for (i = 0; i < 3 && adapted[which].classes[i] != NULL; i++) {
      if (strcmp(adapted[which].classes[i], name) != 0) continue;
      baton_lua_push_private(L, &adapted[which]);
      class = lua_touserdata(L, -1);
      lua_pop(L, 1);
      return class;
    }
  return NULL;
}

/* In a simulated run: socket.gettime() -> the date, in seconds */
static int socket_gettime(lua_State *L) {
  lua_pushnumber(L, baton_lua_simulated_date());
  return 1;
}

/* Replaces a function of the module on the top of the stack. */
static void replace_function(lua_State *L, const char *name, lua_CFunction function) {
  const int module = lua_gettop(L);
  lua_getfield(L, module, name);
  if (lua_tocfunction(L, -1) != NULL) {
    lua_pushnil(L);
    lua_insert(L, -2);
    lua_pushvalue(L, module);
    lua_pushcclosure(L, function, 3);
    lua_setfield(L, module, name);
  }
  lua_settop(L, module);
}

void (*baton_lua_simulate_sockets)(lua_State *L);

int baton_socket_adapt(lua_State *L, const char *name) {
  size_t i;
  int is_known = 0;
  luaL_checkstack(L, 20, NULL);
  for (i = 0; i < sizeof adapted / sizeof *adapted; i++) {
    if (strcmp(adapted[i].module, name) != 0) continue;
    adapt_classes(L, i);
    is_known = 1;
  }
  if (is_known && lua_istable(L, -1) && strcmp(name, "socket.core") == 0) {
    replace_function(L, "select", socket_select);
    replace_function(L, "sleep", socket_sleep);
    replace_function(L, "connect", socket_connect);
    if (baton_simulated) {
      replace_function(L, "gettime", socket_gettime);
      baton_lua_simulate_sockets(L);
    }
  }
  return is_known;
}

/* }====================================================== */
