/*
** Handles of objects: how they are made, named, found among the arguments and collected.
*/
#include "objects/waits.h"

#include <string.h>

static const char *const type_names[] = {"baton.semaphore*", "baton.mutex*", "baton.condition*",
    "baton.event*", "baton.channel*", NULL, NULL, "baton.rwlock*", "baton.barrier*",
    "baton.alarm*"};

struct baton_handle *baton_lua_new_handle(lua_State *L, int kind, size_t size, int values) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_handle *handle;
  baton_lua_check_memory_for_object(L, caller->vm, 0);
  handle = lua_newuserdatauv(L, size, values);
  memset(handle, 0, size);
  handle->seal = baton_inline_seal(kind);
  handle->vm = caller->vm;
  handle->kind = kind;
  baton_lua_set_sealed_metatable(L, kind);
  return handle;
}

void baton_lua_refuse_handle(lua_State *L, int kind) {
  static const char *const names[] = {"semaphore", "mutex", "condition", "event", "channel", NULL,
      NULL, "rwlock", "barrier", "timer"};
  luaL_typeerror(L, 1, names[kind]);
}

void baton_lua_check_options(lua_State *L) {
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    const int is_argument = lua_isinteger(L, -2) && lua_tointeger(L, -2) == 1;
    if (!is_argument && (key == NULL || strcmp(key, "name") != 0)) {
      luaL_tolstring(L, -2, NULL);
      luaL_argerror(L, 1, lua_pushfstring(L, "unknown option '%s'", lua_tostring(L, -1)));
    }
    lua_pop(L, 1);
  }
  lua_pushliteral(L, "name");
  if (lua_rawget(L, 1) != LUA_TSTRING && !lua_isnil(L, -1))
    luaL_argerror(
        L, 1, lua_pushfstring(L, "option 'name': string expected, got %s", luaL_typename(L, -1)));
  lua_pop(L, 1);
}

void baton_lua_take_options(lua_State *L) {
  if (lua_gettop(L) > 1) lua_settop(L, 1);
  if (lua_type(L, 1) != LUA_TTABLE) return;
  baton_lua_check_options(L);
  lua_rawgeti(L, 1, 1);
  lua_pushliteral(L, "name");
  lua_rawget(L, 1);
  lua_remove(L, 1);
}

void baton_lua_name_object(lua_State *L, struct baton_handle *handle) {
  char name[BATON_OBJECT_NAME];
  size_t length;
  const char *given = lua_type(L, 2) == LUA_TSTRING ? lua_tolstring(L, 2, &length) : NULL;
  if (given == NULL) return;
  baton_lua_escape(given, length, name, sizeof name);
  baton_lua_enter(L);
  baton_set_object_name(handle->vm->executor, handle->kind, handle->id, name);
  baton_lua_leave(L);
}

/* Works for any kind of handle. */
static int handle_tostring(lua_State *L) {
  char name[BATON_OBJECT_NAME] = "";
  struct baton_handle *handle = NULL;
  int kind;
  for (kind = BATON_SEMAPHORE; handle == NULL && kind <= BATON_ALARM; kind++)
    if (kind != BATON_TIMER) handle = baton_inline_test_sealed(L, 1, kind);
  if (handle == NULL) luaL_typeerror(L, 1, "object of baton.process");
  if (handle->id != 0) {
    baton_lua_enter(L);
    baton_object_name(handle->vm->executor, handle->kind, handle->id, name, sizeof name);
    baton_lua_leave(L);
  }
  lua_pushfstring(L, name[0] != '\0' ? "%s: %p (%s)" : "%s: %p", type_names[handle->kind],
      (void *)handle, name);
  return 1;
}

struct baton_handle *baton_lua_test_handle(lua_State *L, int index, int kind) {
  return baton_inline_test_sealed(L, index, kind);
}

int baton_lua_collect_handle(lua_State *L) {
  struct baton_handle *handle = NULL;
  int kind;
  for (kind = BATON_SEMAPHORE; handle == NULL && kind <= BATON_ALARM; kind++)
    if (kind != BATON_TIMER) handle = baton_inline_test_sealed(L, 1, kind);
  if (handle == NULL) luaL_typeerror(L, 1, "object of baton.process");
  if (handle->id != 0) {
    baton_lua_enter(L);
    baton_free(handle->vm->executor, handle->kind, handle->id);
    baton_lua_leave(L);
    handle->id = 0;
  }
  return 0;
}

void baton_lua_open_kind(lua_State *L, int kind, const luaL_Reg *type_methods, lua_CFunction gc) {
  baton_lua_new_sealed_metatable(L, kind, type_names[kind]);
  lua_newtable(L);
  luaL_setfuncs(L, type_methods, 0);
  lua_setfield(L, -2, "__index");
  baton_lua_note_quick_finalizer(gc != NULL ? gc : baton_lua_collect_handle);
  lua_pushcfunction(L, gc != NULL ? gc : baton_lua_collect_handle);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, handle_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
