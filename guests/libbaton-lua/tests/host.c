/* A program with a loop of its own that embeds Lua, as it would with liblua5.4. The argument
   chooses the case. */
#include "baton_lua.h"
#include "lauxlib.h"
#include "lualib.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)

static void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "expected: %s\n", what);
  exit(1);
}

/* {======================================================
** Helpers
** ======================================================= */

static void run(lua_State *L, const char *script) {
  if (luaL_dostring(L, script) == LUA_OK) return;
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(1);
}

static lua_Integer number(lua_State *L, const char *name) {
  lua_Integer value;
  lua_getglobal(L, name);
  value = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return value;
}

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  expect(L != NULL, "a state");
  luaL_openlibs(L);
  return L;
}

/* How many entries a directory of /proc has. */
static int count(const char *path) {
  DIR *directory = opendir(path);
  int entries = 0;
  while (readdir(directory) != NULL) entries++;
  closedir(directory);
  return entries - 2;
}

static int threads(void) { return count("/proc/self/task"); }
static int descriptors(void) { return count("/proc/self/fd"); }

static int handles_signal(int signal) {
  struct sigaction action;
  sigaction(signal, NULL, &action);
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

/* Waits for the descriptor. Returns whether it is readable. */
static int wait_for(lua_State *L, int timeout) {
  struct pollfd watched;
  int ready;
  watched.fd = baton_lua_descriptor(L);
  watched.events = POLLIN;
  watched.revents = 0;
  do { /* again after a signal */
    ready = poll(&watched, 1, timeout);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

/* A loop of the usual form, until the global is true. */
static void loop_until(lua_State *L, const char *name) {
  const uint64_t until = baton_lua_now() + 20000 * MILLISECOND;
  for (;;) {
    const int end = baton_lua_run_until(L, BATON_LUA_NO_DEADLINE);
    int is_true;
    lua_getglobal(L, name);
    is_true = lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (is_true) return;
    expect(end == BATON_LUA_IDLE, "a turn that ends since nothing can run");
    expect(baton_lua_now() < until, name);
    baton_lua_run_until(L, 0); /* the host came above, to read the global */
    wait_for(L, 1000);
  }
}

/* }====================================================== */

/* {======================================================
** Cases
** ======================================================= */

/* Without processes it is plain Lua. */
static void plain(void) {
  const int before = descriptors();
  lua_State *L = new_state();
  run(L, "local co = coroutine.wrap(function() coroutine.yield(7) end); seven = co()");
  expect(number(L, "seven") == 7, "Lua");
  expect(baton_lua_descriptor(L) == -1, "no descriptor");
  expect(baton_lua_run_until(L, BATON_LUA_NO_DEADLINE) == BATON_LUA_IDLE, "nothing to run");
  expect(baton_lua_next_deadline(L) == BATON_LUA_NO_DEADLINE, "nothing is due");
  expect(threads() == 1 && descriptors() == before, "neither threads nor descriptors");
  expect(!handles_signal(SIGURG) && !handles_signal(SIGINT) && !handles_signal(SIGSEGV),
      "no signal handlers");
  lua_close(L);
}

/* A call into Lua waits, fails, uses coroutines and metamethods, while others run. */
static void calls(void) {
  lua_State *L = new_state();
  run(L, "process = require 'baton.process'\n"
         "count = 0\n"
         "process.spawn(function() while true do process.sleep(0.001); count = count + 1 end end)\n"
         "process.sleep(0.02)\n"
         "assert(count > 0)");
  expect(!handles_signal(SIGINT) && !handles_signal(SIGQUIT),
      "only the preemption signal and faults have handlers");
  expect(luaL_dostring(L, "process.yield() error 'on purpose'") != LUA_OK, "an error");
  expect(strstr(lua_tostring(L, -1), "on purpose") != NULL, "its message");
  lua_pop(L, 1);
  baton_lua_run_until(L, 0);
  run(L, "object = setmetatable({}, {__index = function(_, key)\n"
         "  process.sleep(0.005) return key .. '!' end})");
  baton_lua_run_until(L, 0);
  lua_getglobal(L, "object");
  lua_getfield(L, -1, "field"); /* calls the metamethod, which waits */
  expect(strcmp(lua_tostring(L, -1), "field!") == 0, "a metamethod that waits");
  lua_pop(L, 2);
  run(L, "function steps(...) for i = 1, 3 do process.sleep(0.002) coroutine.yield(i) end end");
  baton_lua_run_until(L, 0);
  {
    lua_State *co = lua_newthread(L);
    int i, results;
    lua_getglobal(co, "steps");
    for (i = 1; i <= 3; i++) {
      expect(lua_resume(co, L, 0, &results) == LUA_YIELD, "a yield");
      expect(lua_tointeger(co, -1) == i, "its value");
      lua_pop(co, results);
      baton_lua_run_until(L, 0);
    }
    lua_pop(L, 1);
  }
  run(L, "assert(not pcall(function() process.main:kill() end))\n"
         "assert(process.current() == process.main)\n"
         "local p = process.spawn(function() process.sleep(0.01) return 'done' end)\n"
         "local _, result = p:join()\n"
         "assert(result == 'done')");
  lua_close(L);
}

static int sockets[2];

static int read_socket(lua_State *L) {
  char bytes[64];
  const ssize_t size = read(sockets[1], bytes, sizeof bytes);
  if (size < 0) return luaL_error(L, "%s", strerror(errno));
  lua_pushlstring(L, bytes, (size_t)size);
  return 1;
}

static int write_socket(lua_State *L) {
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  lua_pushboolean(L, write(sockets[1], bytes, size) == (ssize_t)size);
  return 1;
}

/* A loop by poll: it asks over a socket, a script in the background answers, and others sleep and
   block meanwhile. */
static void loop(void) {
  lua_State *L = new_state();
  int answers = 0, turns = 0;
  const uint64_t until = baton_lua_now() + 30000 * MILLISECOND;
  expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0, "sockets");
  lua_register(L, "read", read_socket);
  lua_register(L, "write", write_socket);
  lua_pushinteger(L, sockets[1]);
  lua_setglobal(L, "fd");
  run(L, "local process = require 'baton.process'\n"
         "slept, blocked, ticks = 0, 0, 0\n"
         "process.spawn(function()\n"
         "  while process.select{{fd = fd, 'r'}} do write('answer to ' .. read()) end\n"
         "end)\n"
         "process.spawn(function() for i = 1, 20 do process.sleep(0.002) slept = i end end)\n"
         "process.spawn(function()\n"
         "  for i = 1, 3 do\n"
         "    local pipe = io.popen('sleep 0.02; echo x')\n"
         "    assert(pipe:read() == 'x')\n"
         "    blocked = i\n"
         "  end\n"
         "end)\n"
         "function tick() ticks = ticks + 1 return ticks end");
  expect(write(sockets[0], "1", 1) == 1, "a question");
  while (answers < 50 || number(L, "slept") < 20 || number(L, "blocked") < 3) {
    struct pollfd watched[2];
    int ready, end = baton_lua_run_until(L, baton_lua_now() + 50 * MILLISECOND);
    expect(end >= 0, "a turn");
    memset(watched, 0, sizeof watched);
    watched[0].fd = sockets[0];
    watched[1].fd = baton_lua_descriptor(L);
    watched[0].events = watched[1].events = POLLIN;
    do { /* again after a signal */
      ready = poll(watched, 2, 5000);
    } while (ready < 0 && errno == EINTR);
    expect(ready > 0, "something to do within 5 s");
    if (watched[0].revents) {
      char bytes[64];
      const ssize_t size = read(sockets[0], bytes, sizeof bytes);
      expect(size == 11 && memcmp(bytes, "answer to 1", 11) == 0, "the answer");
      answers++;
      expect(write(sockets[0], "1", 1) == 1, "a question");
    }
    turns++;
    lua_getglobal(L, "tick");
    expect(lua_pcall(L, 0, 1, 0) == LUA_OK && lua_tointeger(L, -1) == turns, "a call");
    lua_pop(L, 1);
    expect(baton_lua_now() < until, "all within 30 s");
  }
  lua_close(L);
  close(sockets[0]);
  close(sockets[1]);
}

/* Frames with 2 ms for scripts, while a script loops for ever. */
static void frames(void) {
  lua_State *L = new_state();
  uint64_t longest = 0;
  int i;
  run(L, "local process = require 'baton.process'\n"
         "n = 0\n"
         "process.spawn(function() while true do n = n + 1 end end)\n"
         "function update() return n end");
  for (i = 0; i < 100; i++) {
    const uint64_t begin = baton_lua_now();
    uint64_t took;
    lua_Integer before, after;
    expect(baton_lua_run_until(L, begin + 2 * MILLISECOND) == BATON_LUA_TIME_IS_UP,
        "a script that loops is interrupted");
    took = baton_lua_now() - begin;
    if (took > longest) longest = took;
    expect(baton_lua_next_deadline(L) <= baton_lua_now(), "more to do");
    expect(wait_for(L, 0), "the descriptor says so");
    before = number(L, "n");
    usleep(1000); /* the frame itself */
    after = number(L, "n");
    expect(before == after, "a script does not run outside of its time");
    lua_getglobal(L, "update");
    expect(lua_pcall(L, 0, 1, 0) == LUA_OK && lua_tointeger(L, -1) == after, "a call");
    lua_pop(L, 1);
  }
  expect(number(L, "n") > 1000, "frames beside a script");
  expect(longest < 1000 * MILLISECOND, "a frame"); /* a busy machine may delay any one of them */
  lua_close(L);
}

/* The loop need not know what its calls into Lua have done. */
static void spawned_later(void) {
  lua_State *L = new_state();
  run(L, "process = require 'baton.process'");
  while (baton_lua_run_until(L, BATON_LUA_NO_DEADLINE) != BATON_LUA_IDLE) {}
  expect(!wait_for(L, 10), "nothing to do");
  run(L, "process.spawn(function() process.sleep(0.005) done = true end)");
  expect(wait_for(L, 5000), "something to do after a call");
  loop_until(L, "done");
  lua_close(L);
}

static size_t in_use;

static void *allocate(void *argument, void *block, size_t old, size_t size) {
  void *result;
  (void)argument;
  if (block == NULL) old = 0;
  if (size == 0) {
    free(block);
    in_use -= old;
    return NULL;
  }
  result = realloc(block, size);
  if (result != NULL) in_use += size - old;
  return result;
}

/* lua_close ends all: processes, threads, descriptors, memory. */
static void closed(void) {
  int i, before = -1;
  for (i = 0; i < 5; i++) {
    lua_State *L = baton_lua_newstate(allocate, NULL);
    expect(L != NULL, "a state");
    luaL_openlibs(L);
    lua_pushlightuserdata(L, &i);
    lua_setglobal(L, "address");
    run(L, "local process = require 'baton.process'\n"
           "for i = 1, 20 do\n"
           "  process.spawn(function()\n"
           "    local mark <close> = setmetatable({}, {__close = function() process.yield() end})\n"
           "    process.sleep(1000)\n"
           "  end)\n"
           "end\n"
           "process.spawn(function() while true do end end)\n"
           "for i = 1, 3 do process.spawn(function() io.popen('sleep 0.01'):close() end) end\n"
           "process.sleep(0.05)");
    baton_lua_run_until(L, baton_lua_now() + MILLISECOND);
    lua_close(L);
    expect(in_use == 0, "no memory of Lua's");
    if (before < 0) before = descriptors(); /* what the program keeps, such as the monitor's */
    expect(descriptors() == before, "no more descriptors");
  }
  expect(threads() <= 2, "no thread but the program's and the monitor's");
}

/* Whether a child of the program runs, or has ended and nobody has waited for it. */
static int has_children(void) {
  siginfo_t child;
  return waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* lua_close in the middle of commands, and of their start, leaves nothing of them behind. */
static void commands(void) {
  int i, before = -1;
  for (i = 0; i < 8; i++) {
    lua_State *L = new_state();
    run(L, "local process = require 'baton.process'\n"
           "local function detach(f) process.spawn({daemon = true}, f) end\n"
           "for i = 1, 2 do detach(function() os.execute('sleep 0.02') end) end\n"
           "detach(function() pipe = io.popen('sleep 0.02; echo') pipe:read() end)");
    baton_lua_run_until(L, i % 2 == 0 ? 0 : baton_lua_now() + MILLISECOND);
    lua_close(L);
    if (before < 0) {
      while (has_children()) usleep(1000);
      before = descriptors(); /* what the program keeps, such as the monitor's */
    }
  }
  while (has_children()) usleep(1000); /* for ever, if one stays a zombie */
  for (i = 0; i < 20000 && threads() > 2; i++) usleep(1000);
  expect(threads() <= 2, "no thread but the program's and the monitor's");
  expect(descriptors() <= before, "no more descriptors");
}

static void *use(void *state) {
  lua_pushinteger(state, 1);
  return NULL;
}

/* Another thread cannot use the state. */
static void other_thread(void) {
  lua_State *L = new_state();
  pthread_t thread;
  run(L, "require 'baton.process'");
  baton_lua_run_until(L, 0);
  pthread_create(&thread, NULL, use, L);
  pthread_join(thread, NULL);
}

/* A second state beside one with processes stays plain. */
static void two(void) {
  lua_State *L = new_state(), *other = new_state();
  run(L, "process = require 'baton.process'\n"
         "process.spawn(function() while true do process.sleep(0.001) n = (n or 0) + 1 end end)");
  run(other, "x = string.rep('y', 3)");
  expect(luaL_dostring(other, "require 'baton.process'") != LUA_OK, "a refusal");
  expect(strstr(lua_tostring(other, -1), "another state with processes") != NULL, "its reason");
  baton_lua_run_until(L, 0);
  run(other, "x = x .. 'z'");
  run(L, "process.sleep(0.01) assert(n > 0)");
  lua_close(other);
  lua_close(L);
}

/* A process may call the program, which runs the others: a modal dialog. */
static int dialog(lua_State *L) {
  lua_Integer before = number(L, "n");
  int i;
  for (i = 0; i < 100 && number(L, "n") < before + 3; i++) {
    expect(baton_lua_run_until(L, BATON_LUA_NO_DEADLINE) == BATON_LUA_IDLE, "a turn in a call");
    wait_for(L, 1000);
  }
  lua_pushinteger(L, number(L, "n") - before);
  return 1;
}

static int run_within(lua_State *L) {
  lua_pushboolean(L, baton_lua_run_until(L, 0) == -EBUSY);
  return 1;
}

static void nested(void) {
  lua_State *L = new_state();
  lua_register(L, "dialog", dialog);
  lua_register(L, "run_within", run_within);
  run(L, "process = require 'baton.process'\n"
         "n = 0\n"
         "process.spawn(function() while true do process.sleep(0.001) n = n + 1 end end)\n"
         "assert(dialog() >= 3)\n"
         "local p = process.spawn(run_within)\n"
         "assert(select(2, p:join()) == true)");
  lua_close(L);
}

/* What the program has replaced stays. */
static int own_print(lua_State *L) {
  lua_pushinteger(L, number(L, "printed") + 1);
  lua_setglobal(L, "printed");
  return 0;
}

static void replaced(void) {
  lua_State *L = new_state();
  lua_register(L, "print", own_print);
  run(L, "debug = nil\n"
         "local process = require 'baton.process'\n"
         "print('x')\n"
         "process.spawn(print, 'x'):join()\n"
         "os.exit = os.exit");
  expect(number(L, "printed") == 2, "the program's own print");
  lua_close(L);
  L = new_state(); /* a sandbox */
  run(L, "io, os, debug, coroutine = nil\n"
         "local process = require 'baton.process' process.sleep(0.001)\n"
         "assert(io == nil and os == nil and debug == nil and coroutine == nil)");
  expect(baton_lua_start(L) == LUA_OK, "the same again");
  lua_close(L);
  L = luaL_newstate(); /* without most libraries */
  luaL_requiref(L, LUA_GNAME, luaopen_base, 1);
  lua_pop(L, 1);
  expect(baton_lua_start(L) != LUA_OK, "a refusal");
  expect(strstr(lua_tostring(L, -1), "luaL_openlibs") != NULL, "what to do");
  lua_close(L);
}

typedef int callback_function(int);

static callback_function *callback;

void keep_callback(callback_function *function); /* the script calls it by the ffi */
void keep_callback(callback_function *function) { callback = function; }

/* The program calls a callback of the ffi from its loop. */
static void called_back(void) {
  lua_State *L = new_state();
  run(L, "local ffi = require 'baton.ffi'\n"
         "process = require 'baton.process'\n"
         "called = ffi.cast('int (*)(int)', function(n) process.sleep(0.002) return n + 1 end)\n"
         "ffi.cdef 'void keep_callback(int (*)(int));'\n"
         "ffi.C.keep_callback(called)");
  baton_lua_run_until(L, 0);
  expect(callback(41) == 42, "an answer to a host that has gone");
  expect(callback(1) == 2, "an answer to one that is here");
  lua_close(L);
}

static int blocks(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  return sigismember(&mask, signal);
}

static void *await_signal(void *set) {
  int signal = 0;
  expect(sigwait(set, &signal) == 0 && signal == SIGTERM, "a signal for the program's thread");
  return NULL;
}

/* A program that blocks all signals, and takes them on a thread. */
static void blocked(void) {
  const uint64_t limit = 5000 * MILLISECOND;
  uint64_t begun;
  sigset_t all;
  pthread_t waiter;
  lua_State *L;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  expect(pthread_create(&waiter, NULL, await_signal, &all) == 0, "a thread");
  L = new_state();
  run(L, "process = require 'baton.process'\n"
         "process.spawn(function() while true do end end)\n"
         "process.spawn(function() process.sleep(0.01) came = 1 end)");
  begun = baton_lua_now();
  while (number(L, "came") == 0 && baton_lua_now() < begun + limit)
    baton_lua_run_until(L, baton_lua_now() + 5 * MILLISECOND);
  expect(number(L, "came") == 1, "processes that are preempted");
  baton_lua_run_until(L, 0);
  expect(blocks(SIGURG), "the program's mask while no process runs");
  run(L, "process.sleep(0.001)");
  expect(blocks(SIGTERM), "the other signals blocked all the time");
  lua_close(L);
  expect(blocks(SIGURG), "the program's mask at the end");
  kill(getpid(), SIGTERM);
  pthread_join(waiter, NULL);
}

static __attribute__((noinline)) int endless(volatile char *outer) {
  volatile char frame[512];
  if (outer != NULL && outer[0] != 0) return 0; /* never true */
  frame[0] = 0;
  return endless(frame) + frame[0];
}

static int use_up_stack(lua_State *L) {
  lua_pushinteger(L, endless(NULL));
  return 1;
}

/* A process of the program uses up its C stack. */
static void overflows(void) {
  lua_State *L = new_state();
  lua_register(L, "use_up_stack", use_up_stack);
  run(L, "require('baton.process').spawn({name = 'the digger'}, use_up_stack)");
  loop_until(L, "never");
}

static void end_well(int signal) {
  (void)signal;
  if (write(STDOUT_FILENO, "done\n", 5) == 5) _exit(0);
}

/* The same in a program that handles faults itself. */
static void handles_faults(void) {
  struct sigaction own = {.sa_handler = end_well, .sa_flags = SA_ONSTACK}, now;
  lua_State *L = new_state();
  sigaction(SIGSEGV, &own, NULL);
  sigaction(SIGBUS, &own, NULL);
  run(L, "require 'baton.process'");
  lua_close(L);
  sigaction(SIGSEGV, NULL, &now);
  expect(now.sa_handler == end_well, "the program's own handler");
  overflows();
}

/* A fault of the program's own, which no stack is used up by. */
static void fails(void) {
  lua_State *L = new_state();
  run(L, "require 'baton.process'");
  expect(handles_signal(SIGSEGV) && handles_signal(SIGBUS), "handlers of faults");
  raise(SIGSEGV);
}

/* }====================================================== */

static const struct {
  const char *name;
  void (*run)(void);
} CASES[] = {{"plain", plain}, {"calls", calls}, {"loop", loop}, {"frames", frames},
    {"spawned_later", spawned_later}, {"closed", closed}, {"commands", commands},
    {"other_thread", other_thread}, {"two", two}, {"nested", nested}, {"replaced", replaced},
    {"called_back", called_back}, {"blocked", blocked}, {"overflows", overflows},
    {"handles_faults", handles_faults}, {"fails", fails}};

int main(int argc, char **argv) {
  size_t i;
  for (i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
    if (argc == 2 && strcmp(CASES[i].name, argv[1]) == 0) {
      CASES[i].run();
      puts("done");
      return 0;
    }
  }
  expect(0, "the name of a case");
  return 1;
}
