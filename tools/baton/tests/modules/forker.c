/* fork and what belongs to it. */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int do_fork(lua_State *L) {
  pid_t pid = fork();
  if (pid < 0) return luaL_error(L, "fork: %s", strerror(errno));
  lua_pushinteger(L, (lua_Integer)pid);
  return 1;
}

/* reap(pid): the exit status once the child has ended, nil before. Does not wait. */
static int reap(lua_State *L) {
  int status = 0;
  pid_t pid = waitpid((pid_t)luaL_checkinteger(L, 1), &status, WNOHANG);
  if (pid < 0) return luaL_error(L, "waitpid: %s", strerror(errno));
  if (pid == 0) {
    lua_pushnil(L);
  } else {
    lua_pushinteger(L, WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status));
  }
  return 1;
}

static int get_pid(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)getpid());
  return 1;
}

static const luaL_Reg functions[] = {{"fork", do_fork}, {"reap", reap}, {"getpid", get_pid}, {NULL, NULL}};

int luaopen_forker(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
