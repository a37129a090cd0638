/* A module that handles signals as luaposix does. It keeps the state on which it was opened. Its
   signal handler sets a hook there, and the hook calls the function of the program. */
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <unistd.h>

static lua_State *kept;
static const char function_key = 'f';
static volatile sig_atomic_t pending;

static void run(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  for (; pending > 0; pending--) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &function_key);
    lua_call(L, 0, 0);
  }
}

static void on_signal(int number) {
  (void)number;
  pending++;
  lua_sethook(kept, run, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* on_usr1(f) */
static int on_usr1(lua_State *L) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &function_key);
  sigemptyset(&action.sa_mask);
  return luaL_fileresult(L, sigaction(SIGUSR1, &action, NULL) == 0, NULL);
}

static int raise_usr1(lua_State *L) {
  lua_pushinteger(L, raise(SIGUSR1));
  return 1;
}

static int pid(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

int luaopen_signal_hook(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"on_usr1", on_usr1}, {"raise", raise_usr1}, {"pid", pid}, {NULL, NULL}};
  kept = L;
  luaL_newlib(L, functions);
  return 1;
}
