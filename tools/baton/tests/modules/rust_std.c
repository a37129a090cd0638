/*
** A module whose calls are made by Rust's standard library (rust_std.rs), in the process that calls or in threads.
*/
#include <lauxlib.h>
#include <lua.h>

extern unsigned rust_std_waits(void);
extern unsigned rust_std_waits_in_threads(unsigned count);

/* here(): whether all went well */
static int rust_std_here(lua_State *L) {
  lua_pushboolean(L, rust_std_waits() == 0);
  return 1;
}

/* in_threads(count): the same */
static int rust_std_in_threads(lua_State *L) {
  lua_pushboolean(L, rust_std_waits_in_threads((unsigned)luaL_checkinteger(L, 1)) == 0);
  return 1;
}

static const luaL_Reg functions[] = {{"here", rust_std_here}, {"in_threads", rust_std_in_threads}, {NULL, NULL}};

int luaopen_rust_std(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
