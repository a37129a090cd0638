/*
** Blocking calls from where nothing may park, made by a library that is listed: other threads, signal handlers, children. And calls that park, and ways to
** close what they wait for.
*/
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void wait_a_little(void) {
  struct timespec time = {0, 5000000};
  poll(NULL, 0, 5);
  nanosleep(&time, NULL);
  usleep(1000);
}

static void *in_thread(void *argument) {
  wait_a_little();
  return argument;
}

static int bystander_thread(lua_State *L) {
  pthread_t thread;
  void *result = NULL;
  if (pthread_create(&thread, NULL, in_thread, &thread) != 0) return luaL_error(L, "no thread");
  pthread_join(thread, &result);
  lua_pushboolean(L, result == &thread);
  return 1;
}

static int status_of(lua_State *L, pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 1;
}

/* vfork(descriptor): the child waits, replaces the descriptor, and closes it, which its parent keeps. */
static int bystander_vfork(lua_State *L) {
  const int descriptor = (int)luaL_checkinteger(L, 1);
  const pid_t child = vfork();
  if (child == 0) {
    wait_a_little();
    dup2(STDIN_FILENO, descriptor);
    close(descriptor);
    _exit(7);
  }
  return status_of(L, child);
}

static int bystander_fork(lua_State *L) {
  const int descriptor = (int)luaL_checkinteger(L, 1);
  const pid_t child = fork();
  if (child == 0) {
    wait_a_little();
    dup2(STDIN_FILENO, descriptor);
    close(descriptor);
    _exit(8);
  }
  return status_of(L, child);
}

static int bystander_spawn(lua_State *L) {
  const int descriptor = (int)luaL_checkinteger(L, 1);
  char *arguments[] = {"sh", "-c", "exit 9", NULL};
  posix_spawn_file_actions_t actions;
  pid_t child;
  int error;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, descriptor);
  posix_spawn_file_actions_addclose(&actions, descriptor);
  error = posix_spawnp(&child, "sh", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return luaL_error(L, "no child: %s", strerror(error));
  return status_of(L, child);
}

static volatile sig_atomic_t handled;

static void handle(int signal) {
  (void)signal;
  wait_a_little();
  handled = 1;
}

/* A handler on a stack of its own. */
static int bystander_signal(lua_State *L) {
  stack_t stack = {.ss_size = 65536}, before;
  struct sigaction action = {.sa_flags = SA_ONSTACK}, old;
  stack.ss_sp = malloc(stack.ss_size);
  action.sa_handler = handle;
  if (sigaltstack(&stack, &before) != 0 || sigaction(SIGUSR2, &action, &old) != 0) return luaL_error(L, "no handler");
  pthread_kill(pthread_self(), SIGUSR2);
  sigaction(SIGUSR2, &old, NULL);
  sigaltstack(&before, NULL);
  free(stack.ss_sp);
  lua_pushboolean(L, handled);
  return 1;
}

/* A handler on the stack of what it interrupts. */
static int bystander_signal_here(lua_State *L) {
  struct sigaction action = {.sa_flags = 0}, old;
  handled = 0;
  action.sa_handler = handle;
  if (sigaction(SIGUSR2, &action, &old) != 0) return luaL_error(L, "no handler");
  pthread_kill(pthread_self(), SIGUSR2);
  sigaction(SIGUSR2, &old, NULL);
  lua_pushboolean(L, handled);
  return 1;
}

/* The same, set by `signal`. */
static int bystander_old_signal(lua_State *L) {
  void (*const old)(int) = signal(SIGUSR2, handle);
  handled = 0;
  pthread_kill(pthread_self(), SIGUSR2);
  lua_pushboolean(L, signal(SIGUSR2, old) == handle && handled);
  return 1;
}

static sigjmp_buf before_signal;

static void leave(int signal) {
  (void)signal;
  siglongjmp(before_signal, 1);
}

/* jump(ms): parks, after a handler that does not return */
static int bystander_jump(lua_State *L) {
  void (*const old)(int) = signal(SIGUSR2, leave);
  if (sigsetjmp(before_signal, 1) == 0) pthread_kill(pthread_self(), SIGUSR2);
  signal(SIGUSR2, old);
  lua_pushinteger(L, poll(NULL, 0, (int)luaL_checkinteger(L, 1)));
  return 1;
}

/* wait(ms): parks */
static int bystander_wait(lua_State *L) {
  lua_pushinteger(L, poll(NULL, 0, (int)luaL_checkinteger(L, 1)));
  return 1;
}

/* read(descriptor) -> a byte, or why there is none. Parks */
static int bystander_read(lua_State *L) {
  char byte;
  const ssize_t result = read((int)luaL_checkinteger(L, 1), &byte, 1);
  if (result < 0) lua_pushstring(L, strerror(errno));
  else lua_pushlstring(L, &byte, (size_t)result);
  return 1;
}

#define HIGH 500 /* above all that the program has open */

/* pair() -> two sockets, the first of which has a high number */
static int bystander_pair(lua_State *L) {
  int pair[2], high;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || (high = fcntl(pair[0], F_DUPFD, HIGH)) < 0) return luaL_error(L, "no sockets");
  close(pair[0]);
  lua_pushinteger(L, high);
  lua_pushinteger(L, pair[1]);
  return 2;
}

static int bystander_close(lua_State *L) {
  lua_pushboolean(L, close((int)luaL_checkinteger(L, 1)) == 0);
  return 1;
}

static int bystander_closefrom(lua_State *L) {
  closefrom((int)luaL_checkinteger(L, 1));
  lua_pushboolean(L, 1);
  return 1;
}

/* These make a file of the descriptor first. */
static int bystander_fclose(lua_State *L) {
  lua_pushboolean(L, fclose(fdopen((int)luaL_checkinteger(L, 1), "r")) == 0);
  return 1;
}

static int bystander_freopen(lua_State *L) {
  FILE *file = freopen("/dev/null", "r", fdopen((int)luaL_checkinteger(L, 1), "r"));
  lua_pushboolean(L, file != NULL && fclose(file) == 0);
  return 1;
}

static const luaL_Reg functions[] = {{"thread", bystander_thread},
                                     {"vfork", bystander_vfork},
                                     {"fork", bystander_fork},
                                     {"spawn", bystander_spawn},
                                     {"signal", bystander_signal},
                                     {"signal_here", bystander_signal_here},
                                     {"old_signal", bystander_old_signal},
                                     {"jump", bystander_jump},
                                     {"wait", bystander_wait},
                                     {"read", bystander_read},
                                     {"pair", bystander_pair},
                                     {"close", bystander_close},
                                     {"closefrom", bystander_closefrom},
                                     {"fclose", bystander_fclose},
                                     {"freopen", bystander_freopen},
                                     {NULL, NULL}};

int luaopen_bystander(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
