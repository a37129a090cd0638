/*
** Another program takes from the same pipe or socket as this one, so that what was ready may be gone.
*/
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int ends[2]; /* what is taken from, and given to */
static pid_t rival;
static atomic_int *taken; /* by the rival; shared with it */

static int take_one(void) {
  char byte;
  return (int)read(ends[0], &byte, 1);
}

/* begin("pipe" or "socket") */
static int rivals_begin(lua_State *L) {
  const int is_pipe = strcmp(luaL_checkstring(L, 1), "pipe") == 0;
  taken = mmap(NULL, sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (taken == MAP_FAILED || (is_pipe ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) != 0) return luaL_error(L, "nothing to take from");
  rival = fork();
  if (rival == 0) {
    close(ends[1]);
    while (take_one() == 1) atomic_fetch_add(taken, 1);
    _exit(0);
  }
  return 0;
}

static int rivals_give(lua_State *L) {
  lua_pushboolean(L, write(ends[1], "x", 1) == 1);
  return 1;
}

/* take() -> 1, or -1 without anything */
static int rivals_take(lua_State *L) {
  lua_pushinteger(L, take_one());
  return 1;
}

/* How many the rival has taken. */
static int rivals_taken(lua_State *L) {
  lua_pushinteger(L, atomic_load(taken));
  return 1;
}

/* pause(ms): parks */
static int rivals_pause(lua_State *L) {
  lua_pushinteger(L, poll(NULL, 0, (int)luaL_checkinteger(L, 1)));
  return 1;
}

static int rivals_finish(lua_State *L) {
  (void)L;
  kill(rival, SIGKILL);
  while (waitpid(rival, NULL, 0) < 0) {
  }
  close(ends[0]);
  close(ends[1]);
  munmap(taken, sizeof *taken);
  return 0;
}

static const luaL_Reg functions[] = {{"begin", rivals_begin}, {"give", rivals_give},   {"take", rivals_take},     {"taken", rivals_taken},
                                     {"pause", rivals_pause}, {"finish", rivals_finish}, {NULL, NULL}};

int luaopen_rivals(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
