/* fork, and functions around it. No child outlives its test: SIGALRM ends it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE_OF_A_CHILD 50 /* seconds */

static pid_t limited_fork(void) {
  pid_t pid = fork();
  if (pid == 0) alarm(LIFE_OF_A_CHILD);
  return pid;
}

static int do_fork(lua_State *L) {
  pid_t pid = limited_fork();
  if (pid < 0) return luaL_error(L, "fork: %s", strerror(errno));
  lua_pushinteger(L, (lua_Integer)pid);
  return 1;
}

/* fork_and_exit(status): the child ends without returning to Lua. */
static int fork_and_exit(lua_State *L) {
  int status = (int)luaL_checkinteger(L, 1);
  pid_t pid = limited_fork();
  if (pid == 0) _exit(status);
  if (pid < 0) return luaL_error(L, "fork: %s", strerror(errno));
  lua_pushinteger(L, (lua_Integer)pid);
  return 1;
}

#define DESCRIPTORS 256

/* The child's own files, with the numbers of sockets of its parent. */
static int own_files[DESCRIPTORS], own_file_count;

/* fork_and_replace_sockets(): a child that closes its parent's sockets and opens files instead,
   before it returns to Lua. */
static int fork_and_replace_sockets(lua_State *L) {
  const pid_t pid = limited_fork();
  int descriptor;
  struct stat found;
  if (pid < 0) return luaL_error(L, "fork: %s", strerror(errno));
  for (descriptor = 3; pid == 0 && descriptor < DESCRIPTORS; descriptor++) {
    int file;
    if (fstat(descriptor, &found) != 0 || !S_ISSOCK(found.st_mode)) continue;
    file = open("/dev/null", O_RDONLY);
    dup2(file, descriptor);
    close(file);
    own_files[own_file_count++] = descriptor;
  }
  lua_pushinteger(L, (lua_Integer)pid);
  return 1;
}

/* own_files(): how many files replace sockets, and how many of these are open. */
static int count_own_files(lua_State *L) {
  int i, open_count = 0;
  for (i = 0; i < own_file_count; i++)
    if (fcntl(own_files[i], F_GETFD) >= 0) open_count++;
  lua_pushinteger(L, own_file_count);
  lua_pushinteger(L, open_count);
  return 2;
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

/* A file whose read waits until it is released, and then forks. The data read is the result of
   that fork. */
static atomic_int released, forked;

static void wait_for(atomic_int *flag) {
  struct timespec a_moment = {0, 100000};
  while (!atomic_load(flag)) nanosleep(&a_moment, NULL);
}

static ssize_t forking_read(void *cookie, char *buffer, size_t size) {
  pid_t pid;
  (void)cookie;
  wait_for(&released);
  pid = limited_fork();
  atomic_store(&forked, 1);
  return snprintf(buffer, size, "%d\n", (int)pid);
}

static int close_stream(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

static int forking_stream(lua_State *L) {
  cookie_io_functions_t functions = {forking_read, NULL, NULL, NULL};
  luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
  stream->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  stream->f = fopencookie(NULL, "r", functions);
  if (stream->f == NULL) return luaL_error(L, "fopencookie: %s", strerror(errno));
  stream->closef = close_stream;
  return 1;
}

/* Lets the file's read continue. Only another process can call this meanwhile. */
static int release(lua_State *L) {
  (void)L;
  atomic_store(&released, 1);
  return 0;
}

/* The same, but returns after the fork: an exclusive call that is running at the fork. */
static int release_and_wait(lua_State *L) {
  (void)L;
  atomic_store(&released, 1);
  wait_for(&forked);
  return 0;
}

static int has_forked(lua_State *L) {
  lua_pushboolean(L, atomic_load(&forked));
  return 1;
}

static const luaL_Reg functions[] = {
    {"fork", do_fork},
    {"fork_and_exit", fork_and_exit},
    {"fork_and_replace_sockets", fork_and_replace_sockets},
    {"own_files", count_own_files},
    {"reap", reap},
    {"getpid", get_pid},
    {"forking_stream", forking_stream},
    {"release", release},
    {"release_and_wait", release_and_wait},
    {"has_forked", has_forked},
    {NULL, NULL},
};

int luaopen_forker(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
