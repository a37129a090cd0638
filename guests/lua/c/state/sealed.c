/*
** Sealed objects: a program cannot forge or change them, even with the library debug.
**
** Our objects are full userdata that begin with a seal: an address in `baton_lua_seals`. Their
** functions check the seal. They do not rely on the metatable, which debug.setmetatable can
** replace. The library debug cannot set the user values of our objects, the upvalues of C
** functions, or the slots of their frames.
**
** A private table holds what else must stay alive or be found again. The collector finds it in the
** slot below the main state's stack. It is not in the registry.
*/
#include "state/checks.h"
#include "lualib.h"

const char baton_lua_seals[BATON_SEALS];

/* {======================================================
** Seals
** ======================================================= */

const void *baton_lua_seal(int kind) { return baton_inline_seal(kind); }

void *baton_lua_test_sealed(lua_State *L, int index, int kind) {
  return baton_inline_test_sealed(L, index, kind);
}

void *baton_lua_check_sealed(lua_State *L, int index, int kind, const char *name) {
  return baton_inline_check_sealed(L, index, kind, name);
}

static const struct baton_sealed *sealed_at(lua_State *L, int index) {
  const struct baton_sealed *sealed = baton_inline_large_userdata(L, index);
  return sealed != NULL && baton_inline_kind_of(sealed) >= 0 ? sealed : NULL;
}

void baton_lua_push_new_metatable(lua_State *L, const char *name) {
  if (!luaL_newmetatable(L, name)) { /* it existed, or the program has set the key */
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
  }
}

void baton_lua_new_sealed_metatable(lua_State *L, int kind, const char *name) {
  baton_lua_push_new_metatable(L, name);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, &baton_lua_seals[kind]);
}

void baton_lua_push_sealed_metatable(lua_State *L, int kind) {
  baton_lua_push_private(L, &baton_lua_seals[kind]);
}

void baton_lua_set_sealed_metatable(lua_State *L, int kind) {
  baton_lua_push_sealed_metatable(L, kind);
  lua_setmetatable(L, -2);
}

/* }====================================================== */

/* {======================================================
** The private table
** ======================================================= */

/* Lua does not use that slot: at other levels it has the function. */
static TValue *table_of_ours(lua_State *L) { return s2v(G(L)->mainthread->stack.p); }

void baton_lua_open_private(lua_State *L) {
  lua_newtable(L);
  baton_lua_enter(L);
  setobj(L, table_of_ours(L), s2v(L->top.p - 1));
  L->top.p--;
  baton_lua_leave(L);
}

static void push_table(lua_State *L) {
  baton_lua_enter(L);
  setobj2s(L, L->top.p, table_of_ours(L));
  api_incr_top(L);
  baton_lua_leave(L);
}

void baton_lua_push_private(lua_State *L, const void *key) {
  push_table(L);
  lua_rawgetp(L, -1, key);
  lua_remove(L, -2);
}

void baton_lua_keep_private(lua_State *L, const void *key) {
  push_table(L);
  lua_insert(L, -2);
  lua_rawsetp(L, -2, key);
  lua_pop(L, 1);
}

/* }====================================================== */

/* {======================================================
** The library debug
** ======================================================= */

/* To a program, our objects have no user values. */
static int get_user_value(lua_State *L) {
  if (sealed_at(L, 1) == NULL) return lua_tocfunction(L, lua_upvalueindex(1))(L);
  luaL_pushfail(L);
  return 1;
}

/* Leaves the upvalues of C functions alone, as these rely on them. */
static int set_upvalue(lua_State *L) {
  if (!lua_iscfunction(L, 1)) return lua_tocfunction(L, lua_upvalueindex(1))(L);
  luaL_checkany(L, 3);
  luaL_checkinteger(L, 2);
  return 0;
}

static int is_of_c(lua_State *L, int level) {
  lua_Debug ar;
  return lua_getstack(L, level, &ar) && lua_getinfo(L, "S", &ar) && *ar.what == 'C';
}

static int set_local(lua_State *L) {
  const int arg = lua_isthread(L, 1) ? 1 : 0;
  lua_State *other = arg ? lua_tothread(L, 1) : L;
  if (!lua_isinteger(L, arg + 1) || !is_of_c(other, (int)lua_tointeger(L, arg + 1)))
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
  luaL_checkany(L, arg + 3);
  luaL_checkinteger(L, arg + 2);
  luaL_pushfail(L);
  return 1;
}

static void replace(lua_State *L, const char *name, lua_CFunction ours) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, ours, 1);
  lua_setfield(L, -2, name);
}

void baton_lua_guard_debug(lua_State *L) {
  lua_getglobal(L, LUA_DBLIBNAME);
  replace(L, "getuservalue", get_user_value);
  replace(L, "setuservalue", get_user_value);
  replace(L, "setupvalue", set_upvalue);
  replace(L, "setlocal", set_local);
  lua_pop(L, 1);
}

/* }====================================================== */
