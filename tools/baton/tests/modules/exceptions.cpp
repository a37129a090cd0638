// A module in C++ that throws exceptions above and below calls of Lua, as bindings do that turn
// exceptions into errors. It calls functions on the main state, whatever process calls it.
extern "C" {
#include <lauxlib.h>
#include <lua.h>
}

#include <stdexcept>
#include <string>

static lua_State *main_state(lua_State *L) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *found = lua_tothread(L, -1);
  lua_pop(L, 1);
  return found;
}

// Raises what `f` throws as an error. No C++ object lives across the jump.
template <typename F> static int guarded(lua_State *L, F f) {
  try {
    return f();
  } catch (const std::exception &error) {
    lua_pushstring(L, error.what());
  }
  return lua_error(L);
}

// raise(message): throws, and raises what was thrown.
static int raise(lua_State *L) {
  return guarded(L, [L]() -> int { throw std::runtime_error(luaL_checkstring(L, 1)); });
}

// call(f): calls it on the main state, and throws what it raises.
static int call(lua_State *L) {
  return guarded(L, [L] {
    lua_State *there = main_state(L);
    lua_settop(L, 1);
    if (!lua_checkstack(there, 2)) throw std::runtime_error("no room");
    lua_xmove(L, there, 1);
    if (lua_pcall(there, 0, 1, 0) != LUA_OK) {
      std::string message = luaL_tolstring(there, -1, nullptr);
      lua_pop(there, 2);
      throw std::runtime_error(message);
    }
    lua_xmove(there, L, 1);
    return 1;
  });
}

// while_caught(message, f): calls `f` in a handler, and throws the exception on. Returns its
// message.
static int while_caught(lua_State *L) {
  return guarded(L, [L] {
    try {
      try {
        throw std::runtime_error(luaL_checkstring(L, 1));
      } catch (...) {
        lua_pushvalue(L, 2);
        if (lua_pcall(L, 0, 0, 0) != LUA_OK) throw std::logic_error("the function has failed");
        throw;
      }
    } catch (const std::runtime_error &error) {
      lua_pushstring(L, error.what());
    }
    return 1;
  });
}

extern "C" int luaopen_exceptions(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"raise", raise}, {"call", call}, {"while_caught", while_caught}, {nullptr, nullptr}};
  luaL_newlib(L, functions);
  return 1;
}
