/* Breaks what preemption depends on, as libraries and sandboxes do; and waits in the system, as
   libraries do. */
#define _GNU_SOURCE
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t calls;

static void count_call(int signal) {
  (void)signal;
  calls++;
}

/* take(): handles SIGURG itself */
static int take(lua_State *L) {
  (void)L;
  signal(SIGURG, count_call);
  return 0;
}

/* ignore(): has SIGURG ignored */
static int ignore(lua_State *L) {
  (void)L;
  signal(SIGURG, SIG_IGN);
  return 0;
}

/* calls() -> how often the handler of `take` was called */
static int get_calls(lua_State *L) {
  lua_pushinteger(L, calls);
  return 1;
}

/* block(): blocks SIGURG on this native thread */
static int block(lua_State *L) {
  sigset_t set;
  (void)L;
  sigemptyset(&set);
  sigaddset(&set, SIGURG);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  return 0;
}

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* refuse(all): all threads may not call tgkill any more. With `all`, neither rt_tgsigqueueinfo. */
static int refuse(lua_State *L) {
  const unsigned second = lua_toboolean(L, 1) ? SYS_rt_tgsigqueueinfo : SYS_tgkill;
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof steps / sizeof *steps, steps};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    return luaL_error(L, "the system has no seccomp: error %d", errno);
  return 0;
}
#endif

/* interrupted() -> how many waits were ended by a signal, until something comes on stdin */
static int interrupted(lua_State *L) {
  const struct timespec time = {0, 20000000};
  const struct timeval limit = {0, 20000};
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  int count = 0, ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return luaL_error(L, "no sockets");
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  while (poll(&input, 1, 0) == 0) {
    struct timeval rest = limit;
    char byte;
    count += poll(NULL, 0, 20) < 0 && errno == EINTR;
    count += select(0, NULL, NULL, NULL, &rest) < 0 && errno == EINTR;
    count += nanosleep(&time, NULL) < 0 && errno == EINTR;
    count += recv(ends[0], &byte, 1, 0) < 0 && errno == EINTR;
  }
  close(ends[0]);
  close(ends[1]);
  lua_pushinteger(L, count);
  return 1;
}

static const luaL_Reg functions[] = {{"take", take}, {"ignore", ignore}, {"calls", get_calls},
    {"block", block},
#if defined(__linux__)
    {"refuse", refuse},
#endif
    {"interrupted", interrupted}, {NULL, NULL}};

int luaopen_breaker(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
