/*
** require "baton.ffi": the module's functions.
*/
#include "ffi/inside.h"
#include "process/process.h"
#include "calls/calls.h"

#include <errno.h>
#include <string.h>

/* {======================================================
** Objects
** ======================================================= */

/* Whether a length is given for a structure with a flexible array at its end. */
static int takes_length(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index) {
  const struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  if (type->kind != FFI_RECORD || !(type->flags & FFI_IS_FLEXIBLE)) return 0;
  return lua_type(L, index) == LUA_TNUMBER || (cdata != NULL && cdata->type->kind == FFI_INTEGER);
}

/* Makes an object of `type`. Its initial values begin at the argument `first`. */
static int new_object(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int first) {
  int64_t size;
  int last = lua_gettop(L);
  void *data;
  if ((type->flags & FFI_IS_VARIABLE) || (type->kind == FFI_ARRAY && type->length == -1) ||
      takes_length(L, vm, type, first)) {
    lua_Integer count = baton_ffi_check_integer(L, vm, first++);
    luaL_argcheck(L, count >= 0, first - 1, "a length of 0 or more expected");
    if (type->kind == FFI_ARRAY) (void)baton_ffi_size(L, type->element);
    baton_lua_enter(L);
    size = baton_ffi_size_with(vm->state, type, (uint64_t)count);
    baton_lua_leave(L);
    if (size < 0) return luaL_error(L, "%I elements are too many for '%s'", count, type->name);
    if (type->kind == FFI_ARRAY)
      type = baton_ffi_derived(L, vm, type->element, FFI_TO_ARRAY, (uint64_t)count);
  } else {
    if (type->kind == FFI_VOID || type->kind == FFI_FUNCTION)
      return luaL_error(L, "there are no objects of type '%s'", type->name);
    size = baton_ffi_size(L, type);
  }
  if (size > (int64_t)1 << 47) return luaL_error(L, "not enough memory for '%s'", type->name);
  data = baton_ffi_push_new(L, vm, type, (size_t)size)->data;
  if (type->kind == FFI_POINTER && last >= first) {
    baton_ffi_to_c(L, vm, type, data, first, FFI_ASSIGN);
  } else {
    baton_ffi_initialize(L, vm, type, data, size, first, last);
  }
  if (type->kind == FFI_RECORD && baton_ffi_own_metamethod(L, type, "__gc")) {
    lua_pushlightuserdata(L, vm);
    lua_pushcclosure(L, baton_ffi_gc, 1);
    lua_insert(L, -2);
    lua_pushvalue(L, -3);
    lua_insert(L, -2);
    lua_call(L, 2, 0);
  }
  return 1;
}

static int module_new(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  return new_object(L, vm, baton_ffi_check_type(L, vm, 1), 2);
}

static int type_call(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_type_of_value(L, 1);
  if (baton_ffi_own_metamethod(L, type, "__new")) {
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  return new_object(L, vm, type->flags & FFI_IS_REFERENCE ? type->element : type, 2);
}

static int module_cast(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_any_type(L, vm, 1);
  struct ffi_cdata *cdata;
  luaL_checkany(L, 2);
  if (type->flags & FFI_IS_REFERENCE) {
    void *address;
    baton_ffi_to_c(L, vm, type, &address, 2, FFI_CAST);
    if (address == NULL) return luaL_argerror(L, 2, "a NULL pointer");
    baton_ffi_push_reference(L, vm, type->element, address, lua_isuserdata(L, 2) ? 2 : 0);
    return 1;
  }
  if (type->kind != FFI_POINTER && type->kind != FFI_INTEGER && type->kind != FFI_FLOATING &&
      type->kind != FFI_BOOL)
    return luaL_error(L, "only numbers and pointers can be cast to, not '%s'", type->name);
  cdata = baton_ffi_push_new(L, vm, type->plain, (size_t)baton_ffi_size(L, type));
  baton_ffi_to_c(L, vm, type, cdata->data, 2, FFI_CAST);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Types and sizes
** ======================================================= */

static int module_sizeof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  const struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  int64_t size = cdata != NULL ? baton_ffi_whole_size(L, 1, cdata) : type->size;
  if ((type->flags & (FFI_IS_VARIABLE | FFI_IS_FLEXIBLE)) && lua_gettop(L) > 1) {
    lua_Integer count = baton_ffi_check_integer(L, vm, 2);
    baton_lua_enter(L);
    size = baton_ffi_size_with(vm->state, type, (uint64_t)count);
    baton_lua_leave(L);
  }
  if (size < 0) return 0; /* unknown: returns nothing, as LuaJIT does */
  lua_pushinteger(L, size);
  return 1;
}

static int module_alignof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1), *whole = type;
  /* an array without a length has an alignment, too */
  while (whole->kind == FFI_ARRAY) whole = whole->element;
  if (whole->kind == FFI_RECORD || (whole->flags & FFI_IS_ENUM)) (void)baton_ffi_size(L, whole);
  lua_pushinteger(L, type->align);
  return 1;
}

static int module_offsetof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  size_t size;
  const char *name = luaL_checklstring(L, 2, &size);
  struct ffi_field field;
  int found;
  baton_lua_enter(L);
  found = baton_ffi_field(vm->state, type, name, size, &field);
  baton_lua_leave(L);
  if (!found) return 0;
  lua_pushinteger(L, (lua_Integer)field.offset);
  if (field.width == 0) return 1;
  lua_pushinteger(L, field.first);
  lua_pushinteger(L, field.width);
  return 3;
}

/* Whether ffi.istype accepts type `b` for type `a`. */
static int is_taken_for(const struct ffi_type *a, const struct ffi_type *b) {
  if (a->plain == b->plain) return 1;
  if (a->kind == FFI_RECORD && b->kind == FFI_POINTER) return b->element->plain == a->plain;
  if (a->kind != b->kind) return 0;
  switch (a->kind) {
    case FFI_INTEGER: /* `long` and `long long` */
      return a->size == b->size && a->is_signed == b->is_signed &&
          !((a->flags | b->flags) & FFI_IS_ENUM);
    case FFI_POINTER: return baton_ffi_is_alike(a->element, b->element);
    case FFI_ARRAY: /* an object of variable length has its length here */
      return ((a->flags & FFI_IS_VARIABLE) || a->length == b->length) &&
          baton_ffi_is_alike(a->element, b->element);
    default: return 0;
  }
}

static int module_istype(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 2);
  lua_pushboolean(L, cdata != NULL && is_taken_for(type, cdata->type));
  return 1;
}

static int module_errno(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  int *place = process != NULL ? &process->ffi_errno : &errno, old = *place;
  if (!lua_isnoneornil(L, 1)) *place = (int)luaL_checkinteger(L, 1);
  lua_pushinteger(L, old);
  return 1;
}

static int module_abi(lua_State *L) {
  static const char *const true_here[] = {"le", "64bit", "fpu", "hardfp", "eabi"};
  const char *name = luaL_checkstring(L, 1);
  size_t i, count = 3;
#if defined(__aarch64__)
  count = 5;
#endif
  for (i = 0; i < count; i++)
    if (strcmp(name, true_here[i]) == 0) {
      lua_pushboolean(L, 1);
      return 1;
    }
  lua_pushboolean(L, 0);
  return 1;
}

/* ffi.isnull(pointer). Needed since a pointer never equals nil. A reference or an array is never
   null. */
static int module_isnull(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  int is_null = 0;
  luaL_checkany(L, 1);
  if (cdata != NULL && cdata->type->kind == FFI_POINTER) {
    void *address;
    memcpy(&address, cdata->data, sizeof address);
    is_null = address == NULL;
  } else if (cdata != NULL && (cdata->type->kind == FFI_ARRAY || cdata->type->kind == FFI_RECORD)) {
    is_null = cdata->data == NULL;
  } else if (lua_type(L, 1) == LUA_TLIGHTUSERDATA) {
    is_null = lua_touserdata(L, 1) == NULL;
  } else if (lua_isnil(L, 1)) {
    is_null = 1;
  } else if (baton_ffi_test_function(L, 1) == NULL) {
    return luaL_typeerror(L, 1, "pointer");
  }
  lua_pushboolean(L, is_null);
  return 1;
}

/* ffi.tonumber(cdata). Lua's tonumber knows only Lua's own values. */
static int module_tonumber(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  if (cdata != NULL && cdata->type->kind == FFI_INTEGER && cdata->type->size == 8 &&
      !cdata->type->is_signed) {
    uint64_t value = (uint64_t)baton_ffi_load_integer(cdata->type, cdata->data);
    if (value > INT64_MAX) lua_pushnumber(L, (lua_Number)value);
    else lua_pushinteger(L, (lua_Integer)value);
  } else if (cdata != NULL &&
      (cdata->type->kind == FFI_INTEGER || cdata->type->kind == FFI_FLOATING)) {
    baton_ffi_to_lua(L, vm, cdata->type, cdata->data, 0);
  } else if (lua_type(L, 1) == LUA_TNUMBER) {
    lua_settop(L, 1);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

/* }====================================================== */

/* {======================================================
** Memory
** ======================================================= */

static int module_string(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  int is_const;
  const char *text = baton_ffi_address(L, vm, 1, &is_const);
  if (lua_type(L, 1) == LUA_TSTRING && lua_isnoneornil(L, 2)) {
    lua_pushstring(L, text); /* up to its first zero byte, as C sees it */
    return 1;
  }
  if (text == NULL) return luaL_argerror(L, 1, "a NULL pointer");
  if (!lua_isnoneornil(L, 2)) {
    lua_Integer size = baton_ffi_check_integer(L, vm, 2);
    luaL_argcheck(L, size >= 0, 2, "a length of 0 or more expected");
    lua_pushlstring(L, text, (size_t)size);
  } else {
    const struct ffi_type *element = cdata != NULL ? cdata->type->element : NULL;
    if (cdata == NULL || element == NULL || !(element->kind == FFI_VOID || element->size == 1))
      return luaL_argerror(L, 1, "a pointer to or an array of char expected, or a length with it");
    if (cdata->type->kind == FFI_ARRAY && cdata->type->size >= 0)
      /* no further than the end of the array */
      lua_pushlstring(L, text, strnlen(text, (size_t)cdata->type->size));
    else
      lua_pushstring(L, text);
  }
  return 1;
}

static void *writable(lua_State *L, struct ffi_vm *vm) {
  int is_const;
  void *to = baton_ffi_address(L, vm, 1, &is_const);
  if (lua_type(L, 1) == LUA_TSTRING || is_const)
    luaL_argerror(L, 1, "memory that can be written to expected");
  return to;
}

static int module_copy(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  int is_const;
  void *to = writable(L, vm);
  const void *from = baton_ffi_address(L, vm, 2, &is_const);
  size_t size;
  if (lua_isnoneornil(L, 3)) {
    if (lua_type(L, 2) != LUA_TSTRING)
      return luaL_argerror(L, 3, "a length expected; only a string has its own");
    lua_tolstring(L, 2, &size);
    size++; /* with the zero byte */
  } else {
    lua_Integer given = baton_ffi_check_integer(L, vm, 3);
    luaL_argcheck(L, given >= 0, 3, "a length of 0 or more expected");
    size = (size_t)given;
  }
  if (size > 0 && (to == NULL || from == NULL)) return luaL_error(L, "a NULL pointer");
  memmove(to, from, size);
  return 0;
}

static int module_fill(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  void *to = writable(L, vm);
  lua_Integer size = baton_ffi_check_integer(L, vm, 2);
  int byte = lua_isnoneornil(L, 3) ? 0 : (int)baton_ffi_check_integer(L, vm, 3);
  luaL_argcheck(L, size >= 0, 2, "a length of 0 or more expected");
  if (size > 0 && to == NULL) return luaL_error(L, "a NULL pointer");
  memset(to, byte, (size_t)size);
  return 0;
}

/* }====================================================== */

static int vm_gc(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  baton_ffi_close_callbacks(vm);
  vm->vm->ffi = NULL;
  return 0;
}

static const struct ffi_type *known_type(struct ffi_vm *vm, const char *name) {
  char *message = NULL;
  return baton_ffi_type(vm->state, name, strlen(name), NULL, 0, &message);
}

/* Makes the VM's ffi. It is made before all its objects, so it is collected last. */
static struct ffi_vm *open_vm(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  struct ffi_vm *vm;
  baton_lua_check_memory(L);
  if (process == NULL) luaL_error(L, "baton.ffi can be loaded by a process of the program only");
  vm = lua_newuserdatauv(L, sizeof *vm, 0);
  memset(vm, 0, sizeof *vm);
  lua_newtable(L);
  baton_lua_note_giving_finalizer(vm_gc);
  lua_pushcfunction(L, vm_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  baton_ffi_keep_vm(L);
  vm->vm = process->vm;
  vm->vm->ffi = vm;
  baton_lua_enter(L);
  /* Kept until the VM has ended: finalizers of older objects may use its types. */
  vm->state = vm->vm->ffi_state = baton_ffi_new();
  vm->byte = known_type(vm, "char");
  vm->promoted = known_type(vm, "int");
  vm->integer = known_type(vm, "long");
  vm->uint64 = known_type(vm, "uint64_t");
  vm->number = known_type(vm, "double");
  vm->boolean = known_type(vm, "bool");
  vm->string = known_type(vm, "const char *");
  vm->pointer = known_type(vm, "void *");
  baton_lua_leave(L);
  baton_ffi_open_cdata(L, vm);
  baton_ffi_open_callbacks(L, vm);
  return vm;
}

static const luaL_Reg functions[] = {{"cdef", baton_ffi_cdef}, {"typeof", baton_ffi_typeof},
    {"new", module_new}, {"cast", module_cast}, {"sizeof", module_sizeof},
    {"alignof", module_alignof}, {"offsetof", module_offsetof}, {"istype", module_istype},
    {"errno", module_errno}, {"abi", module_abi}, {"tonumber", module_tonumber},
    {"isnull", module_isnull}, {"string", module_string}, {"copy", module_copy},
    {"fill", module_fill}, {"metatype", baton_ffi_metatype}, {"load", baton_ffi_load},
    {"fn", baton_ffi_prepare_function}, {"blocking", baton_ffi_blocking},
    {"nonblocking", baton_ffi_nonblocking}, {"timeout", baton_ffi_timeout}, {NULL, NULL}};

int baton_lua_open_ffi(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  if (vm == NULL) vm = open_vm(L);
  baton_ffi_open_types(L, type_call);
  luaL_newlib(L, functions);
  lua_pushlightuserdata(L, vm);
  lua_pushcclosure(L, baton_ffi_gc, 1);
  lua_setfield(L, -2, "gc");
  baton_ffi_push_program(L, vm);
  lua_setfield(L, -2, "C");
  baton_ffi_push_pointer(L, vm, vm->pointer, NULL);
  lua_setfield(L, -2, "nullptr");
#if defined(__APPLE__)
  lua_pushliteral(L, "OSX");
#elif defined(__linux__)
  lua_pushliteral(L, "Linux");
#else
  lua_pushliteral(L, "POSIX");
#endif
  lua_setfield(L, -2, "os");
#if defined(__aarch64__)
  lua_pushliteral(L, "arm64");
#else
  lua_pushliteral(L, "x64");
#endif
  lua_setfield(L, -2, "arch");
  return 1;
}

/* A VM whose state was not closed, or with calls that have not returned, keeps them. What C has
   kept of callbacks uses no types any more. */
void baton_ffi_free_types(struct baton_lua_vm *vm) {
  if (!vm->closing || vm->outstanding > 0 || baton_ffi_is_calling(vm)) return;
  baton_ffi_leave_libraries(vm);
  baton_ffi_free(vm->ffi_state);
  vm->ffi_state = NULL;
}

void baton_ffi_install(void) {
  baton_value_hooks = (struct baton_value_hooks){
      .call = baton_ffi_call,
      .new_callback = baton_ffi_new_callback,
      .callback_method = baton_ffi_callback_method,
  };
  baton_lua_note_function_with_retake_hook(baton_ffi_call, baton_ffi_note_retaken);
  baton_lua_note_function(baton_ffi_load);
  baton_ffi_note_finalizer();
  baton_lua_set_queued_calls_test(baton_ffi_has_queued_calls);
  baton_lua_set_limit_hook(baton_ffi_limit_changed);
}
