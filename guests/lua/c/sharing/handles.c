/*
** Handles of objects outside of all heaps, and their metatables.
*/
#include "sharing/inside.h"

#include <string.h>

static const char *const kind_names[BATON_SEALS] = {
    [BATON_SEALED_SHARED_CHANNEL] = "baton.vm.channel*",
    [BATON_SEALED_WORDS] = "baton.vm.words*",
    [BATON_SEALED_MESSAGE] = "baton.vm.message*",
    [BATON_SEALED_BUFFER] = "baton.vm.buffer*",
    [BATON_SEALED_MOVED] = "baton.vm.moved*",
    [BATON_SEALED_DICT] = "baton.vm.dict*",
};

/* What the metatables have. Written before there is a VM. */
static struct {
  const luaL_Reg *methods, *more_methods, *metamethods;
} kinds[BATON_SEALS];

static const char *const expected[BATON_SEALS] = {
    [BATON_SEALED_SHARED_CHANNEL] = "channel between VMs",
    [BATON_SEALED_WORDS] = "shared words",
    [BATON_SEALED_BUFFER] = "buffer",
    [BATON_SEALED_DICT] = "shared dictionary",
};

struct baton_handle *baton_shared_new_handle(lua_State *L, int kind, size_t size) {
  struct baton_process *caller = baton_inline_caller(L);
  struct baton_handle *handle;
  baton_lua_check_memory_for_object(L, caller->vm, 0);
  handle = lua_newuserdatauv(L, size, 0);
  memset(handle, 0, size);
  handle->seal = baton_inline_seal(kind);
  handle->vm = caller->vm;
  handle->kind = kind;
  baton_shared_set_metatable(L, kind);
  return handle;
}

/* make(kind, size) -> a handle */
static int make(lua_State *L) {
  baton_shared_new_handle(L, (int)lua_tointeger(L, 1), (size_t)lua_tointeger(L, 2));
  return 1;
}

void baton_shared_push(
    lua_State *L, int kind, size_t size, void *object, void (*release)(void *object)) {
  lua_pushcfunction(L, make);
  lua_pushinteger(L, kind);
  lua_pushinteger(L, (lua_Integer)size);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
    release(object);
    lua_error(L);
  }
  ((struct baton_handle *)lua_touserdata(L, -1))->id = (uintptr_t)object;
}

struct baton_handle *baton_shared_check(lua_State *L, int index, int kind) {
  struct baton_handle *handle = baton_inline_test_sealed(L, index, kind);
  if (l_unlikely(handle == NULL)) luaL_typeerror(L, index, expected[kind]);
  return handle;
}

struct baton_handle *baton_shared_check_live(lua_State *L, int index, int kind) {
  struct baton_handle *handle = baton_shared_check(L, index, kind);
  if (l_unlikely(handle->id == 0)) luaL_argerror(L, index, "the object was collected");
  return handle;
}

int baton_shared_tostring(lua_State *L) {
  const struct baton_sealed *sealed = baton_inline_large_userdata(L, 1);
  const int kind = sealed != NULL ? baton_inline_kind_of(sealed) : -1;
  if (kind < 0 || kind_names[kind] == NULL) luaL_typeerror(L, 1, "object of baton.vm");
  lua_pushfstring(L, "%s: %p", kind_names[kind],
      (void *)(size_t)((const struct baton_handle *)sealed)->id);
  return 1;
}

void baton_shared_install_kind(
    int kind, const luaL_Reg *methods, const luaL_Reg *metamethods) {
  const luaL_Reg *entry;
  kinds[kind].methods = methods;
  kinds[kind].metamethods = metamethods;
  for (entry = metamethods; entry->name != NULL; entry++)
    if (strcmp(entry->name, "__gc") == 0) {
      baton_lua_note_quick_finalizer(entry->func);
      baton_lua_note_giving_finalizer(entry->func);
    }
}

void baton_shared_add_methods(int kind, const luaL_Reg *methods) {
  kinds[kind].more_methods = methods;
}

/* Makes the metatable of a kind, and pushes it. It is kept when it is whole. */
static void open_kind(lua_State *L, int kind) {
  baton_lua_push_new_metatable(L, kind_names[kind]);
  lua_newtable(L);
  luaL_setfuncs(L, kinds[kind].methods, 0);
  if (kinds[kind].more_methods != NULL) luaL_setfuncs(L, kinds[kind].more_methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, baton_shared_tostring);
  lua_setfield(L, -2, "__tostring");
  luaL_setfuncs(L, kinds[kind].metamethods, 0);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, baton_lua_seal(kind));
}

void baton_shared_set_metatable(lua_State *L, int kind) {
  baton_lua_push_sealed_metatable(L, kind);
  if (l_unlikely(lua_isnil(L, -1))) {
    lua_pop(L, 1);
    open_kind(L, kind);
  }
  lua_setmetatable(L, -2);
}
