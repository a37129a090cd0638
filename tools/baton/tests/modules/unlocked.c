/* Uses the API functions that never take Lua's lock, while other processes collect garbage and
   move stacks. */
#include <lauxlib.h>
#include <lua.h>

/* stress(rounds, callback): reads its stack with every such function around calls of callback.
   Returns the sum of the values read. */
static int stress(lua_State *L) {
  lua_Integer rounds = luaL_checkinteger(L, 1), sum = 0;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_newtable(L);
  lua_pushliteral(L, "0x10");
  for (lua_Integer i = 0; i < rounds; i++) {
    lua_pushvalue(L, 2);
    lua_pushinteger(L, i);
    lua_call(L, 1, 1);
    sum += lua_tointeger(L, -1);
    lua_rawseti(L, 3, i % 7 + 1);
    if (lua_type(L, 3) != LUA_TTABLE || lua_gettop(L) != 4 || !lua_isstring(L, 4)) {
      return luaL_error(L, "the stack changed at round %d", (int)i);
    }
    sum += (lua_Integer)lua_rawlen(L, 3) + (lua_Integer)lua_rawlen(L, 4);
    if (lua_stringtonumber(L, "0x10") != 5) return luaL_error(L, "not a number");
    sum += lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pushinteger(L, sum);
  return 1;
}

static const luaL_Reg functions[] = {{"stress", stress}, {NULL, NULL}};

int luaopen_unlocked(lua_State *L) {
  luaL_newlib(L, functions);
  return 1;
}
