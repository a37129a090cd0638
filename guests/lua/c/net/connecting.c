/*
** net.connect and net.tls.
**
** The addresses of a name race (RFC 8305): each has a head start of a quarter of a second before
** the next one is tried as well, and none if it fails at once. The first connection is taken, and
** the other attempts end.
*/
#include "net/inside.h"
#include "system.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define HEAD_START 250000000u /* nanoseconds */
#define MOMENT 10000000u      /* until a full backlog of a Unix socket is tried again */

/* {======================================================
** The race
** ======================================================= */

/* Attempts to connect. The mark closes those that are left, also after an error. */
struct race {
  struct baton_turn_mark mark; /* must be first */
  struct baton_process *process;
  const struct baton_net_address *addresses;
  int count, next;  /* how many addresses there are, and the first that was not tried */
  int open;         /* attempts that go on */
  int descriptors[BATON_NET_MOST_ADDRESSES];
  int of[BATON_NET_MOST_ADDRESSES]; /* the address of each */
  int fault;        /* of the last attempt that failed */
  int is_full;      /* the backlog of a Unix socket is */
  uint64_t next_at; /* when the next address is tried */
};

static void drop(struct race *race, int which) {
  const int descriptor = race->descriptors[which];
  race->open--;
  memmove(&race->descriptors[which], &race->descriptors[which + 1],
      (size_t)(race->open - which) * sizeof(int));
  memmove(&race->of[which], &race->of[which + 1], (size_t)(race->open - which) * sizeof(int));
  if (descriptor < 0) return;
  baton_descriptor_closes(race->process->vm->executor, (uint32_t)descriptor);
  close(descriptor);
}

/* Inside the VM. */
static void end_race(struct baton_mark *mark) {
  struct race *race = (struct race *)mark;
  while (race->open > 0) drop(race, race->open - 1);
}

/* Takes an attempt out of the race: it has won. Returns its descriptor. */
static int take(struct race *race, int which, int *family) {
  const int descriptor = race->descriptors[which];
  *family = race->addresses[race->of[which]].at.any.sa_family;
  race->descriptors[which] = -1;
  return descriptor;
}

/* Begins the next attempt. */
__attribute__((noinline)) static void try_next(struct race *race) {
  const struct baton_net_address *address = &race->addresses[race->next];
  const int descriptor =
      baton_prepare_descriptor(socket(address->at.any.sa_family, BATON_STREAM, 0));
  race->is_full = 0;
  if (descriptor < 0 || (connect(descriptor, &address->at.any, address->size) != 0 &&
                            errno != EINPROGRESS && errno != EINTR)) {
    race->fault = errno;
    if (descriptor >= 0) close(descriptor);
    race->is_full = race->fault == EAGAIN && address->at.any.sa_family == AF_UNIX;
    race->next += !race->is_full;
    return;
  }
  race->descriptors[race->open] = descriptor;
  race->of[race->open++] = race->next++;
}

/* Whether an attempt has ended. `*fault` is why it has failed; 0: it has not. */
__attribute__((noinline)) static int has_ended(int descriptor, int *fault) {
  struct pollfd asked = {descriptor, POLLOUT, 0};
  socklen_t size = sizeof *fault;
  int found;
  do {
    found = poll(&asked, 1, 0);
  } while (found < 0 && errno == EINTR);
  *fault = 0;
  if (found == 0) return 0;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ERROR, fault, &size) != 0) *fault = errno;
  return 1;
}

/* The first attempt that has succeeded, or -1. Ends those that have failed. */
static int look(lua_State *L, struct race *race) {
  int i, fault;
  for (i = 0; i < race->open; i++) {
    if (!has_ended(race->descriptors[i], &fault)) continue;
    if (fault == 0) return i;
    race->fault = fault;
    race->next_at = 0;
    baton_lua_enter(L);
    drop(race, i--);
    baton_lua_leave(L);
  }
  return -1;
}

/* Waits until an attempt may have ended, or `until`. */
static void await_attempts(lua_State *L, struct race *race, uint64_t until) {
  struct baton_watch watches[BATON_NET_MOST_ADDRESSES];
  const void *vm = race->process->vm->executor;
  struct baton_wake wake = {0, 0, 0};
  int i, why;
  for (i = 0; i < race->open; i++) {
    watches[i].descriptor = (uint32_t)race->descriptors[i];
    watches[i].wants = BATON_WANTS_WRITE;
  }
  baton_lua_enter(L);
  if (race->open > 0) {
    why = baton_await_ready(vm, watches, (size_t)race->open, 0, baton_harvests(vm), until);
    wake.reason = why < 0 ? (uint32_t)BATON_TIMED_OUT : (uint32_t)why;
  } else {
    wake = baton_sleep_until(vm, until);
  }
  baton_lua_leave(L);
  (void)baton_inline_after_wait(L, race->process, wake);
}

/* Returns the descriptor of the first connection, or an error number, negative. */
static int run(lua_State *L, struct race *race, uint64_t deadline, int *family) {
  for (;;) {
    uint64_t now = baton_now(), until = deadline;
    int winner;
    while (race->next < race->count && (race->open == 0 || now >= race->next_at)) {
      const int before = race->open;
      try_next(race);
      if (race->is_full) break;
      if (race->open > before) race->next_at = now + HEAD_START;
    }
    winner = look(L, race);
    if (winner >= 0) return take(race, winner, family);
    if (race->open == 0 && race->next == race->count) return -race->fault;
    if (race->open == 0 && !race->is_full) continue;
    if (now >= deadline) return -ETIMEDOUT;
    if (race->is_full && now + MOMENT < until) until = now + MOMENT;
    if (!race->is_full && race->next < race->count && race->next_at < until)
      until = race->next_at;
    if (until > now) await_attempts(L, race, until);
  }
}

/* Connects to one of the addresses. Returns 0, or an error number, negative. */
static int connect_to(lua_State *L, struct baton_process *process,
    const struct baton_net_address *addresses, int count,
    struct baton_net_connection *connection, uint64_t deadline) {
  struct race race;
  int descriptor, family = AF_UNSPEC, yes = 1;
  memset(&race, 0, sizeof race);
  race.mark.ends = end_race;
  race.process = process;
  race.addresses = addresses;
  race.count = count;
  baton_inline_check_may_wait(L, process);
  baton_lua_enter(L);
  baton_lua_put_turn(process, &race.mark);
  baton_lua_leave(L);
  descriptor = run(L, &race, deadline, &family);
  baton_lua_enter(L);
  baton_lua_drop_turn(process);
  baton_lua_leave(L);
  if (descriptor < 0) return descriptor;
  baton_net_adopt(L, connection, descriptor, family);
  if (connection->is_tcp && baton_net_flag(L, 2, "nodelay", 1))
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return 0;
}

/* }====================================================== */

/* A connection that is being made in a simulated run. The mark ends it after an error. */
struct attempt {
  struct baton_turn_mark mark; /* must be first */
  struct baton_process *process;
  struct baton_net_connection *connection;
  int has_succeeded;
};

/* Inside the VM. */
static void end_attempt(struct baton_mark *mark) {
  struct attempt *attempt = (struct attempt *)mark;
  struct baton_net_socket *socket = &attempt->connection->socket;
  if (attempt->has_succeeded || socket->simulated == NULL) return;
  baton_link_close(socket->simulated);
  socket->simulated = NULL;
  socket->descriptor = -1;
  baton_queue_wake_all(attempt->process->vm->executor, attempt->process->vm->object_queue);
}

/* Waits until the connection is made. Returns whether it is. */
static int await_simulated(lua_State *L, struct baton_process *process,
    struct baton_net_connection *connection, uint64_t deadline) {
  struct attempt attempt = {{{NULL, BATON_MARK_TURN}, end_attempt}, process, connection, 0};
  enum baton_net_result result = BATON_NET_DONE;
  baton_lua_enter(L);
  baton_lua_put_turn(process, &attempt.mark);
  baton_lua_leave(L);
  while (result == BATON_NET_DONE && !baton_link_is_connected(connection->socket.simulated))
    result = baton_net_wait(L, process, &connection->socket, BATON_WANTS_WRITE, 0, deadline);
  attempt.has_succeeded = result == BATON_NET_DONE;
  baton_lua_enter(L);
  baton_lua_drop_turn(process);
  baton_lua_leave(L);
  return attempt.has_succeeded;
}

/* Connects in the network of a simulated run. Returns 0, or an error number, negative. */
static int connect_simulated(lua_State *L, struct baton_process *process, const char *text,
    struct baton_net_connection *connection, uint64_t deadline) {
  struct baton_link *link;
  int fault = baton_loopback_connect(text, process->vm, &link);
  while (fault == EAGAIN) {
    if (deadline <= baton_now()) return -ETIMEDOUT;
    baton_net_await_stir(L, process, deadline);
    fault = baton_loopback_connect(text, process->vm, &link);
  }
  if (fault != 0) return -fault;
  baton_net_adopt_simulated(L, connection, link);
  return await_simulated(L, process, connection, deadline) ? 0 : -ETIMEDOUT;
}

/* {======================================================
** net.tls, net.connect
** ======================================================= */

/* net.tls(connection, [options]): the module that has it is a file of its own. */
int baton_net_tls(lua_State *L) {
  (void)baton_net_check(L, 1);
  lua_settop(L, 2);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "baton.web");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "tls");
  lua_insert(L, 1);
  lua_settop(L, 3);
  lua_call(L, 2, LUA_MULTRET);
  return lua_gettop(L);
}

/* Pushes the options of TLS: those that are given, and the name of the host. */
static void push_tls_options(lua_State *L, const char *host) {
  lua_newtable(L);
  lua_pushstring(L, host);
  lua_setfield(L, -2, "name");
  if (lua_getfield(L, 2, "tls") == LUA_TTABLE) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -5);
    }
  }
  lua_pop(L, 1);
}

/* Puts TLS over the connection on the top of the stack. */
static int begin_tls(lua_State *L, struct baton_net_connection *connection, const char *host,
    uint64_t deadline) {
  const int top = lua_gettop(L);
  connection->deadline = deadline;
  lua_pushcfunction(L, baton_net_tls);
  lua_pushvalue(L, top);
  push_tls_options(L, host != NULL ? host : "");
  lua_call(L, 2, 2);
  connection->deadline = BATON_NO_DEADLINE;
  if (lua_toboolean(L, -2)) {
    lua_settop(L, top);
    return 1;
  }
  baton_net_close(L, connection);
  return 2;
}

static uint64_t deadline_of(lua_State *L) {
  uint64_t deadline = BATON_NO_DEADLINE;
  if (lua_istable(L, 2)) {
    lua_getfield(L, 2, "timeout");
    deadline = baton_net_deadline_at(L, lua_gettop(L), BATON_NO_DEADLINE);
    lua_pop(L, 1);
  }
  return deadline;
}

static int wants_tls(lua_State *L) {
  int wants = 0;
  if (lua_istable(L, 2)) {
    lua_getfield(L, 2, "tls");
    wants = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  return wants;
}

/* net.connect(address, [options]) */
int baton_net_connect(lua_State *L) {
  static const struct baton_net_option options[] = {{"timeout", BATON_NET_SECONDS},
      {"nodelay", BATON_NET_FLAG}, {"tls", BATON_NET_ANY}, {"max_line", BATON_NET_COUNT},
      {"max_all", BATON_NET_COUNT}, {NULL, BATON_NET_ANY}};
  struct baton_process *process = baton_inline_caller(L);
  struct baton_net_address addresses[BATON_NET_MOST_ADDRESSES];
  struct baton_net_connection *connection;
  struct baton_net_place place;
  uint64_t deadline;
  const char *why;
  int result, count = 0;
  lua_settop(L, 2);
  baton_net_check_options(L, 2, options);
  deadline = deadline_of(L);
  baton_net_read_place(L, 1, &place);
  if (l_likely(!baton_simulated)) {
    count = baton_net_find(L, process, &place, 0, deadline, addresses, &why);
    if (count == 0) {
      lua_pushnil(L);
      lua_pushstring(L, why);
      return 2;
    }
  }
  connection = baton_net_new_connection(L);
  connection->bounds = baton_net_read_bounds(L, 2);
  result = l_likely(!baton_simulated)
      ? connect_to(L, process, addresses, count, connection, deadline)
      : connect_simulated(L, process, place.text, connection, deadline);
  if (result == -ETIMEDOUT) {
    lua_pushnil(L);
    lua_pushliteral(L, "timeout");
    return 2;
  }
  if (result < 0) return baton_net_refused(L, place.text, -result);
  return wants_tls(L) ? begin_tls(L, connection, place.host, deadline) : 1;
}

/* }====================================================== */
