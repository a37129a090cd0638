/*
** Libraries in Lua: `lib.name` is a function, the value of a variable, or a constant.
**
** The metatable's `__index` is a table of the names found so far. That table's own `__index`
** resolves the others. So a function that was used before takes one raw access.
*/
#include "ffi/inside.h"

#include <stdlib.h>
#include <string.h>

struct library {
  void *handle; /* NULL: not loaded, or closed */
};

static const char library_key = 'l'; /* registry: the library `C` */

static struct library *check_library(lua_State *L, int index) {
  struct library *library = NULL;
  if (lua_type(L, index) == LUA_TUSERDATA && lua_getmetatable(L, index)) {
    lua_pushliteral(L, "ffi.library");
    if (lua_rawget(L, -2) == LUA_TBOOLEAN) library = lua_touserdata(L, index);
    lua_pop(L, 2);
  }
  if (library == NULL) luaL_typeerror(L, index, "library");
  return library;
}

/* Finds a declared name in a library. Fills `symbol`, and returns the address (NULL for a
   constant). Raises an error if there is none. */
static void *look_up(lua_State *L, struct ffi_vm *vm, struct library *library, const char *name,
    size_t size, struct ffi_symbol *symbol) {
  char *message = NULL;
  void *address = NULL;
  int found;
  baton_lua_check_memory(L);
  baton_lua_enter(L);
  found = baton_ffi_symbol(vm->state, name, size, symbol);
  baton_lua_leave(L);
  if (!found) luaL_error(L, "missing declaration of '%s'; declare it by ffi.cdef", name);
  if (symbol->type != NULL) {
    if (library->handle == NULL) {
      baton_ffi_free_text(symbol->link_name);
      luaL_error(L, "the library that '%s' is looked up in is closed", name);
    }
    address = baton_ffi_library_symbol(library->handle, symbol->link_name, &message);
    baton_ffi_free_text(symbol->link_name);
    if (address == NULL) baton_ffi_raise(L, message);
    /* the size of a structure is needed only when it is used */
    if (symbol->type->flags & FFI_IS_ENUM) (void)baton_ffi_size(L, symbol->type);
  }
  return address;
}

/* Upvalues: the VM's ffi, the library. Arguments: the table of names found so far, a name. */
static int resolve(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, lua_upvalueindex(1));
  struct library *library = lua_touserdata(L, lua_upvalueindex(2));
  struct ffi_symbol symbol;
  size_t size;
  const char *name = luaL_checklstring(L, 2, &size);
  void *address;
  luaL_checktype(L, 1, LUA_TTABLE);
  address = look_up(L, vm, library, name, size, &symbol);
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(2)); /* 3 */
  if (symbol.type != NULL && symbol.type->kind != FFI_FUNCTION) { /* a variable: read each time */
    baton_ffi_to_lua(L, vm, symbol.type, address, 3);
    return 1;
  }
  if (symbol.type == NULL)
    lua_pushinteger(L, symbol.value);
  else
    baton_ffi_push_function(L, vm, symbol.type, address, name, 3);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

static int library_newindex(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, lua_upvalueindex(1));
  struct library *library = check_library(L, 1);
  struct ffi_symbol symbol;
  size_t size;
  const char *name = luaL_checklstring(L, 2, &size);
  void *address;
  address = look_up(L, vm, library, name, size, &symbol);
  if (symbol.type == NULL || symbol.type->kind == FFI_FUNCTION || symbol.type->is_const)
    return luaL_error(L, "'%s' is no variable that can be written to", name);
  baton_ffi_to_c(L, vm, symbol.type, address, 3, FFI_ASSIGN);
  return 0;
}

/* A library that is loaded at the end of its VM. */
struct ffi_left {
  struct ffi_left *next;
  void *handle;
};

static void note_left(struct baton_lua_vm *vm, void *handle) {
  struct ffi_left *left = handle != NULL ? malloc(sizeof *left) : NULL;
  if (left == NULL) return;
  left->handle = handle;
  left->next = vm->ffi_left;
  vm->ffi_left = left;
}

void baton_ffi_leave_libraries(struct baton_lua_vm *vm) {
  while (vm->ffi_left != NULL) {
    struct ffi_left *left = vm->ffi_left;
    vm->ffi_left = left->next;
    baton_ffi_library_leave_loaded(left->handle);
    free(left);
  }
}

static int library_gc(lua_State *L) {
  struct ffi_vm *vm = lua_touserdata(L, lua_upvalueindex(1));
  struct library *library = check_library(L, 1);
  if (vm->vm->closing) { /* later finalizers may call into it: it stays loaded */
    note_left(vm->vm, library->handle);
    return 0;
  }
  if (library->handle != NULL) baton_ffi_library_close(library->handle);
  library->handle = NULL;
  return 0;
}

static int library_tostring(lua_State *L) {
  lua_pushfstring(L, "library: %p", (void *)check_library(L, 1));
  return 1;
}

/* Pushes a library that is not loaded yet. */
static struct library *push_library(lua_State *L, struct ffi_vm *vm) {
  static const luaL_Reg methods[] = {{"__newindex", library_newindex}, {"__gc", library_gc},
      {"__tostring", library_tostring}, {NULL, NULL}};
  struct library *library = lua_newuserdatauv(L, sizeof *library, 0);
  library->handle = NULL;
  lua_newtable(L);
  lua_pushlightuserdata(L, vm);
  luaL_setfuncs(L, methods, 1);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "ffi.library");
  lua_pushliteral(L, "library");
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "ffi");
  lua_setfield(L, -2, "__metatable");
  lua_newtable(L); /* the names found so far */
  lua_newtable(L);
  lua_pushlightuserdata(L, vm);
  lua_pushvalue(L, -5);
  lua_pushcclosure(L, resolve, 2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  return library;
}

/* ffi.load(name [, global]) */
int baton_ffi_load(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  size_t size;
  const char *name = luaL_checklstring(L, 1, &size);
  struct library *library = push_library(L, vm);
  char *message = NULL;
  baton_lua_check_memory(L);
  baton_lua_offload_load();
  library->handle = baton_ffi_library_load(name, size, lua_toboolean(L, 2), &message);
  if (library->handle == NULL) baton_ffi_raise(L, message);
  baton_lua_note_exception_globals();
  return 1;
}

void baton_ffi_push_program(lua_State *L, struct ffi_vm *vm) {
  char *message = NULL;
  push_library(L, vm)->handle = baton_ffi_library_load(NULL, 0, 0, &message);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &library_key);
}

/* ffi.fn(prototype [, library]) */
int baton_ffi_prepare_function(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  struct library *library;
  struct ffi_symbol symbol;
  char *message = NULL;
  void *address;
  int found;
  baton_ffi_get_room(L, size);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &library_key);
    lua_replace(L, 2);
  }
  library = check_library(L, 2);
  if (library->handle == NULL) return luaL_argerror(L, 2, "the library is closed");
  baton_lua_enter(L);
  found = baton_ffi_prototype(vm->state, text, size, &symbol, &message);
  baton_lua_leave(L);
  if (!found) baton_ffi_raise(L, message);
  address = symbol.type->kind == FFI_FUNCTION
      ? baton_ffi_library_symbol(library->handle, symbol.link_name, &message)
      : NULL;
  lua_pushstring(L, symbol.link_name);
  baton_ffi_free_text(symbol.link_name);
  if (symbol.type->kind != FFI_FUNCTION)
    return luaL_error(L, "a function's prototype expected, got the type '%s'", symbol.type->name);
  if (address == NULL) baton_ffi_raise(L, message);
  baton_ffi_push_function(L, vm, symbol.type, address, lua_tostring(L, -1), 2);
  return 1;
}
