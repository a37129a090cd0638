/*
** process.notify and process.listen_fds: the protocol between a service and its manager
** (sd_notify(3), sd_listen_fds(3)). It needs no library: notify sends a datagram to the socket in
** NOTIFY_SOCKET, and listen_fds returns LISTEN_FDS descriptors, counted from 3.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* on systems where a datagram raises no SIGPIPE */
#endif

#define FIRST_PASSED 3 /* SD_LISTEN_FDS_START */
#define MOST_PASSED 10000
#define NO_DEADLINE UINT64_MAX

struct datagram {
  int descriptor;
  const char *text;
  size_t length;
  int fault; /* errno; 0: it is sent */
};

/* Sends without waiting. Returns nonzero if it has succeeded or failed for good. */
static int try_to_send(void *argument, int which, unsigned ready) {
  struct datagram *datagram = argument;
  ssize_t sent;
  (void)which;
  (void)ready;
  do {
    sent =
        send(datagram->descriptor, datagram->text, datagram->length, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  datagram->fault = sent < 0 ? errno : 0;
  return datagram->fault != EAGAIN && datagram->fault != EWOULDBLOCK;
}

/* Returns the length of the address, or 0 if it is not the address of a Unix socket. A name that
   begins with '@' is abstract. */
static socklen_t read_address(const char *name, struct sockaddr_un *address) {
  const size_t length = strlen(name);
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof address->sun_path)
    return 0;
  memcpy(address->sun_path, name, length);
  if (name[0] == '@') address->sun_path[0] = '\0';
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
}

/* A socket that sends to the address, or -1 with errno. */
static int connect_to(const struct sockaddr_un *address, socklen_t length) {
  int fault, descriptor = socket(AF_UNIX, SOCK_DGRAM, 0);
  if (descriptor < 0) return -1;
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  if (connect(descriptor, (const struct sockaddr *)address, length) == 0) return descriptor;
  fault = errno;
  close(descriptor);
  errno = fault;
  return -1;
}

/* Sends the datagram, and waits until it is sent or the deadline. Returns why the wait ended. */
static int send_in_time(
    lua_State *L, struct baton_process *caller, struct datagram *datagram, baton_timeout timeout) {
  struct baton_watch watch;
  int why;
  watch.descriptor = (uint32_t)datagram->descriptor;
  watch.wants = BATON_WANTS_WRITE;
  if (try_to_send(datagram, -1, 0)) return BATON_DONE;
  if (timeout == 0) return BATON_TIMED_OUT;
  baton_lua_enter(L);
  why = baton_wait_ready(caller->vm->executor, &watch, 1,
      timeout == BATON_FOREVER ? NO_DEADLINE : baton_now() + (uint64_t)timeout, try_to_send,
      datagram);
  baton_lua_leave(L);
  return why;
}

/* process.notify(text, [timeout]) */
static int process_notify(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  const char *name = getenv("NOTIFY_SOCKET");
  struct datagram datagram;
  struct sockaddr_un address;
  socklen_t length;
  struct baton_wake wake = {0, 0, 0};
  baton_timeout timeout;
  int why;
  datagram.text = luaL_checklstring(L, 1, &datagram.length);
  luaL_argcheck(L, datagram.length > 0, 1, "text expected, such as READY=1");
  timeout = baton_lua_check_timeout(L, 2);
  if (timeout != 0) baton_lua_check_may_wait(L, caller);
  if (name == NULL || name[0] == '\0') {
    lua_pushboolean(L, 0);
    return 1;
  }
  length = read_address(name, &address);
  if (length == 0) {
    luaL_pushfail(L);
    lua_pushfstring(L, "NOTIFY_SOCKET: '%s' is neither a path nor an abstract name", name);
    return 2;
  }
  datagram.descriptor = connect_to(&address, length);
  if (datagram.descriptor < 0) return luaL_fileresult(L, 0, name);
  why = send_in_time(L, caller, &datagram, timeout);
  close(datagram.descriptor);
  if (why < 0) luaL_error(L, "the socket of NOTIFY_SOCKET cannot be waited for here");
  wake.reason = (uint32_t)why;
  why = baton_lua_after_wait(L, caller, wake);
  if (why != BATON_DONE) return baton_lua_push_outcome(L, why);
  errno = datagram.fault;
  return luaL_fileresult(L, datagram.fault == 0, name);
}

/* The number in a variable of the environment; -1: none. */
static long number_of(const char *variable) {
  const char *text = getenv(variable);
  char *end;
  long number;
  if (text == NULL || text[0] < '0' || text[0] > '9') return -1;
  errno = 0;
  number = strtol(text, &end, 10);
  return *end == '\0' && errno == 0 ? number : -1;
}

/* Pushes the name of the next descriptor, and moves `names` past it. A descriptor without a name is
   "unknown", as in systemd. */
static void push_name(lua_State *L, const char **names) {
  const size_t length = strcspn(*names, ":");
  if (length > 0)
    lua_pushlstring(L, *names, length);
  else
    lua_pushliteral(L, "unknown");
  *names += length;
  if (**names == ':') (*names)++;
}

/* process.listen_fds() */
static int process_listen_fds(lua_State *L) {
  const char *names = getenv("LISTEN_FDNAMES");
  long i, count = number_of("LISTEN_PID") == (long)getpid() ? number_of("LISTEN_FDS") : 0;
  if (count > MOST_PASSED) luaL_error(L, "LISTEN_FDS: at most %d descriptors", MOST_PASSED);
  if (names == NULL) names = "";
  lua_newtable(L);
  for (i = 0; i < count; i++) {
    const int descriptor = FIRST_PASSED + (int)i, flags = fcntl(descriptor, F_GETFD);
    if (flags < 0) luaL_error(L, "LISTEN_FDS: descriptor %d is not open", descriptor);
    fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC); /* the program's commands do not inherit it */
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, descriptor);
    lua_setfield(L, -2, "fd");
    push_name(L, &names);
    lua_setfield(L, -2, "name");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"notify", process_notify}, {"listen_fds", process_listen_fds}, {NULL, NULL}};

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_systemd(lua_State *L) { luaL_setfuncs(L, functions, 0); }
