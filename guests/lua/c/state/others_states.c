/*
** Inspecting states that other processes run on. Lua's functions follow a state's frames and
** allocate meanwhile. So a finalizer could run and wait, the frames would change, and their
** functions and coroutines could be collected. So the collector is stopped during the inspection,
** for the calling process only.
*/
#include "seam/internals.h"
#include "state/state.h"
#include "lualib.h"

#include <string.h>

/* The renamed original. */
LUALIB_API void baton_stock_traceback(lua_State *L, lua_State *L1, const char *msg, int level);

struct inspection {
  struct baton_mark mark;
  struct baton_process *process; /* NULL: the collector was not stopped */
  l_mem paid;                    /* the collector's total at the beginning */
};

/* `inspection` stays on the C stack until `end_inspection`. An error ends it, too. */
static void begin_inspection(lua_State *L, const lua_State *other, struct inspection *inspection) {
  inspection->process = baton_lua_running(L);
  if (other == L || G(L)->gcstp & GCSTPGC) inspection->process = NULL;
  if (inspection->process == NULL) return;
  baton_lua_enter(L);
  inspection->paid = G(L)->totalbytes;
  baton_lua_stop_collector(inspection->process, &inspection->mark);
  baton_lua_leave(L);
}

static void end_inspection(lua_State *L, const struct inspection *inspection) {
  if (inspection->process == NULL) return;
  baton_lua_enter(L);
  baton_lua_restart_collector(inspection->process);
  /* each step that the collector skipped has reduced its debt */
  luaE_setdebt(G(L), (l_mem)gettotalbytes(G(L)) - inspection->paid);
  baton_lua_leave(L);
}

/*
** Raises its first argument, an error from another process. While its frame exists, as in a message
** handler, a traceback of the state continues with its second argument.
*/
int baton_lua_raise_with_trace(lua_State *L) {
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  return lua_error(L);
}

static int is_raising(const CallInfo *ci) {
  return ttislcf(s2v(ci->func.p)) && fvalue(s2v(ci->func.p)) == baton_lua_raise_with_trace;
}

/* If `other` is raising an error from another process, pushes the traceback of that error. */
static int push_trace_of_error(lua_State *L, const lua_State *other) {
  const CallInfo *ci;
  int is_there = 0;
  baton_lua_enter(L);
  for (ci = other->ci; ci != &other->base_ci && !is_raising(ci);) ci = ci->previous;
  if (ci != &other->base_ci && ttisstring(s2v(ci->func.p + 2))) {
    setobj2s(L, L->top.p, s2v(ci->func.p + 2));
    api_incr_top(L);
    is_there = 1;
  }
  baton_lua_leave(L);
  return is_there;
}

/* A module's callbacks run on the permanent state on which the module was opened, as parts of the
   process that calls the module. Returns the state of that call, or NULL. */
static lua_State *caller_of_permanent(lua_State *L1) {
  const struct baton_process *process = baton_lua_running(L1);
  const struct baton_resumed *resumed;
  if (process == NULL || !(L1->base_ci.callstatus & BATON_BASE_IS_PERMANENT)) return NULL;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (resumed->L == L1) return resumed->previous != NULL ? resumed->previous->L : process->L;
  return NULL;
}

/* Adds the frames of a state to the traceback on the top of `L`. */
static void add_frames_of(lua_State *L, lua_State *L1) {
  static const char title[] = "stack traceback:";
  luaL_checkstack(L, LUA_MINSTACK, "traceback");
  baton_stock_traceback(L, L1, NULL, 0);
  lua_pushstring(L, lua_tostring(L, -1) + sizeof title - 1);
  lua_remove(L, -2);
  lua_concat(L, 2);
}

LUALIB_API void luaL_traceback(lua_State *L, lua_State *L1, const char *msg, int level) {
  struct inspection inspection;
  begin_inspection(L, L1, &inspection);
  baton_stock_traceback(L, L1, msg, level);
  luaL_checkstack(L, 3, NULL);
  if (push_trace_of_error(L, L1)) {
    lua_pushliteral(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
  while ((L1 = caller_of_permanent(L1)) != NULL) add_frames_of(L, L1);
  end_inspection(L, &inspection);
}

static lua_CFunction stock_getinfo;

/* debug.getinfo([thread,] f [, what]) */
static int getinfo(lua_State *L) {
  struct inspection inspection;
  int count;
  begin_inspection(L, lua_isthread(L, 1) ? lua_tothread(L, 1) : L, &inspection);
  count = stock_getinfo(L);
  end_inspection(L, &inspection);
  return count;
}

/* Replaces debug.getinfo. */
void baton_lua_open_debug(lua_State *L) {
  lua_getglobal(L, LUA_DBLIBNAME);
  lua_getfield(L, -1, "getinfo");
  if (lua_iscfunction(L, -1) && baton_lua_is_ours(lua_tocfunction(L, -1)))
    stock_getinfo = lua_tocfunction(L, -1);
  lua_pushcfunction(L, getinfo);
  lua_setfield(L, -3, "getinfo");
  lua_pop(L, 2);
}

/* {======================================================
** Errors about wrong arguments, for functions of the guest that are written in Lua
** ======================================================= */

/*
** refuse(level, number, name, text): raises an error about an argument of the function at this
** level, at the place that called it, as luaL_argerror does for functions in C. `level` is that of
** `error`. The name of a method begins with a colon; its arguments count from 1 after the object,
** which has the number 0.
*/
int baton_lua_refuse_argument(lua_State *L) {
  const int level = (int)luaL_checkinteger(L, 1);
  int number = (int)luaL_checkinteger(L, 2);
  const char *name = luaL_checkstring(L, 3), *text = luaL_checkstring(L, 4), *hint = "";
  const int is_method = name[0] == ':', is_object = is_method && number == 0;
  lua_Debug called;
  int by_colon;
  called.namewhat = "";
  if (lua_getstack(L, level - 1, &called)) lua_getinfo(L, "n", &called);
  by_colon = strcmp(called.namewhat, "method") == 0;
  name += is_method;
  if (is_method && !by_colon) number++;
  if (!is_method && by_colon) number--;
  if (is_object && !by_colon) hint = "; a method is called with a colon, as in object:";
  luaL_where(L, level);
  if (number == 0)
    lua_pushfstring(L, "calling '%s' on bad self (%s)", name, text);
  else
    lua_pushfstring(L, "bad argument #%d to '%s' (%s%s%s)", number, name, text, hint,
        hint[0] != '\0' ? name : "");
  lua_concat(L, 2);
  return lua_error(L);
}

/* type_given(...): the type of the first argument, as messages name it. */
int baton_lua_type_given(lua_State *L) {
  if (lua_isnone(L, 1))
    lua_pushliteral(L, "no value");
  else if (luaL_getmetafield(L, 1, "__name") != LUA_TSTRING)
    lua_pushstring(L, lua_islightuserdata(L, 1) ? "light userdata" : luaL_typename(L, 1));
  return 1;
}

/* }====================================================== */
