/*
** Variables as a frame sees them, and expressions that use them.
*/
#include "shown/inside.h"

#include <string.h>

void baton_debugger_push_function(lua_State *L, const struct baton_place *place) {
  luaL_checkstack(L, 4, NULL);
  lua_lock(L);
  setobj2s(L, L->top.p, s2v(place->ci->func.p));
  api_incr_top(L);
  lua_unlock(L);
}

/* The frame's state is not changed: it may be that of another process, in the middle of a call. */
const char *baton_debugger_push_local(lua_State *L, const struct baton_place *place, int n) {
  const char *name;
  StkId at = NULL;
  luaL_checkstack(L, 4, NULL);
  lua_lock(L);
  name = luaG_findlocal(place->L, place->ci, n, &at);
  if (name != NULL) {
    setobjs2s(L, L->top.p, at);
    api_incr_top(L);
  }
  lua_unlock(L);
  return name;
}

int baton_debugger_set_local(lua_State *L, const struct baton_place *place, int n) {
  StkId at = NULL;
  lua_lock(L);
  if (luaG_findlocal(place->L, place->ci, n, &at) != NULL) {
    setobjs2s(place->L, at, L->top.p - 1);
    L->top.p--;
  } else {
    at = NULL;
  }
  lua_unlock(L);
  return at != NULL;
}

/* The number of the local variable that the frame sees by this name: the last one. 0: none. */
static int local_of(lua_State *L, const struct baton_place *place, const char *name) {
  const char *found;
  int n, last = 0;
  if (!isLua(place->ci)) return 0;
  for (n = 1; (found = baton_debugger_push_local(L, place, n)) != NULL; n++) {
    if (strcmp(found, name) == 0) last = n;
    lua_pop(L, 1);
  }
  return last;
}

/* The number of the upvalue of the function at `index`; 0: none. */
static int upvalue_of(lua_State *L, int index, const char *name) {
  const char *found;
  int n;
  for (n = 1; (found = lua_getupvalue(L, index, n)) != NULL; n++) {
    lua_pop(L, 1);
    if (strcmp(found, name) == 0) return n;
  }
  return 0;
}

int baton_debugger_push_variable(
    lua_State *L, const struct baton_place *place, const char *name) {
  int n = local_of(L, place, name);
  if (n != 0) {
    baton_debugger_push_local(L, place, n);
    return 1;
  }
  baton_debugger_push_function(L, place);
  n = isLua(place->ci) ? upvalue_of(L, -1, name) : 0;
  if (n != 0) {
    lua_getupvalue(L, -1, n);
    lua_remove(L, -2);
    return 1;
  }
  lua_pop(L, 1);
  return 0;
}

int baton_debugger_set_variable(lua_State *L, const struct baton_place *place, const char *name) {
  int n = local_of(L, place, name);
  if (n != 0) return baton_debugger_set_local(L, place, n);
  baton_debugger_push_function(L, place);
  n = isLua(place->ci) ? upvalue_of(L, -1, name) : 0;
  if (n != 0) {
    lua_insert(L, -2);
    lua_setupvalue(L, -2, n);
    lua_pop(L, 1);
    return 1;
  }
  lua_pop(L, 1);
  return 0;
}

void baton_debugger_push_globals(lua_State *L, const struct baton_place *place) {
  if (place->ci == NULL || !baton_debugger_push_variable(L, place, "_ENV")) lua_pushglobaltable(L);
}

/* The frame in which an expression runs. Functions that the expression has made may be called
   later, or by other processes; then the frame is gone, or is not theirs to look at. */
struct environment {
  struct baton_place place; /* without a frame after the end of the expression */
  const struct baton_process *process;
};

static const struct baton_place *place_of_environment(lua_State *L) {
  static const struct baton_place nowhere = {NULL, NULL};
  const struct environment *environment = lua_touserdata(L, lua_upvalueindex(1));
  return environment->process == baton_lua_here(L) ? &environment->place : &nowhere;
}

/* __index of the environment of an expression. Its first upvalue is the record. */
static int get_variable(lua_State *L) {
  const struct baton_place *place = place_of_environment(L);
  if (place->ci != NULL && lua_type(L, 2) == LUA_TSTRING &&
      baton_debugger_push_variable(L, place, lua_tostring(L, 2)))
    return 1;
  baton_debugger_push_globals(L, place);
  lua_pushvalue(L, 2);
  lua_gettable(L, -2);
  return 1;
}

/* Its __newindex. */
static int put_variable(lua_State *L) {
  const struct baton_place *place = place_of_environment(L);
  lua_settop(L, 3);
  if (place->ci != NULL && lua_type(L, 2) == LUA_TSTRING &&
      baton_debugger_set_variable(L, place, lua_tostring(L, 2)))
    return 0;
  baton_debugger_push_globals(L, place);
  lua_replace(L, 1);
  lua_settable(L, 1);
  return 0;
}

/* Pushes the environment of an expression. */
static struct environment *push_environment(lua_State *L, const struct baton_place *place) {
  struct environment *environment;
  lua_createtable(L, 0, 0);
  lua_createtable(L, 0, 2);
  environment = lua_newuserdatauv(L, sizeof *environment, 0);
  environment->place = *place;
  environment->process = baton_lua_here(L);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, get_variable, 1);
  lua_setfield(L, -3, "__index");
  lua_pushcclosure(L, put_variable, 1);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  return environment;
}

/* Compiles an expression, or statements, for a frame. Pushes the function. Returns its environment,
   which the function keeps; NULL: the globals. */
static struct environment *compile(
    lua_State *L, const struct baton_place *place, const char *text, size_t size) {
  struct environment *environment;
  luaL_checkstack(L, 8, NULL);
  lua_pushliteral(L, "return ");
  lua_pushlstring(L, text, size);
  lua_concat(L, 2);
  if (luaL_loadbufferx(L, lua_tostring(L, -1), lua_rawlen(L, -1), "=expression", "t") != LUA_OK) {
    lua_pop(L, 2);
    if (luaL_loadbufferx(L, text, size, "=expression", "t") != LUA_OK) lua_error(L);
  } else {
    lua_remove(L, -2);
  }
  if (place->ci == NULL) return NULL; /* with the globals */
  environment = push_environment(L, place);
  lua_setupvalue(L, -2, 1);
  return environment;
}

void baton_debugger_run(lua_State *L, const struct baton_place *place, const char *text,
    size_t size, int results) {
  int extra = 0, status, function;
  struct environment *environment = compile(L, place, text, size);
  function = lua_gettop(L);
  lua_pushvalue(L, function); /* keeps the environment */
  if (place->ci != NULL && isLua(place->ci))
    while (baton_debugger_push_local(L, place, -(extra + 1)) != NULL) extra++;
  status = lua_pcall(L, extra, results, 0);
  if (environment != NULL) environment->place.L = NULL, environment->place.ci = NULL;
  lua_remove(L, function);
  if (status != LUA_OK) lua_error(L);
}
