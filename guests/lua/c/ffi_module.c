/*
** require "baton.ffi": the module's functions, and types as values.
*/
#include "ffi.h"

#include <errno.h>
#include <string.h>

static const char vm_key = 'v';     /* registry: the VM's ffi */
static const char types_key = 't';  /* registry: text that defines nothing -> type */
static const char type_name[] = "baton.ffi.type*";

struct type_value {
  const struct ffi_type *type;
};

struct ffi_vm *baton_ffi_vm(lua_State *L) {
  struct ffi_vm *vm;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &vm_key);
  vm = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return vm;
}

l_noret baton_ffi_raise(lua_State *L, char *message) {
  luaL_where(L, 1);
  lua_pushstring(L, message != NULL ? message : "not enough memory");
  baton_ffi_free_text(message);
  lua_concat(L, 2);
  lua_error(L);
  abort();
}

/* {======================================================
** Types
** ======================================================= */

void baton_ffi_push_type(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type) {
  struct type_value *value = lua_newuserdatauv(L, sizeof *value, 0);
  (void)vm;
  value->type = type;
  luaL_setmetatable(L, type_name);
}

/* What stands for `$`, from the argument `first` on; pushes the memory of the list. */
static struct ffi_argument *read_arguments(lua_State *L, struct ffi_vm *vm, int first, size_t *count) {
  int last = lua_gettop(L), i;
  struct ffi_argument *list;
  *count = last >= first ? (size_t)(last - first + 1) : 0;
  list = lua_newuserdatauv(L, (*count + 1) * sizeof *list, 0);
  memset(list, 0, (*count + 1) * sizeof *list);
  for (i = first; i <= last; i++) {
    struct ffi_argument *argument = &list[i - first];
    if (lua_type(L, i) == LUA_TNUMBER)
      argument->number = luaL_checkinteger(L, i);
    else if (lua_type(L, i) == LUA_TSTRING)
      argument->name = lua_tolstring(L, i, &argument->size);
    else
      argument->type = baton_ffi_check_type(L, vm, i);
  }
  return list;
}

static const struct ffi_type *parse_type(lua_State *L, struct ffi_vm *vm, int index, int arguments) {
  const struct ffi_type *type;
  struct ffi_argument *list;
  size_t size, count;
  const char *text = lua_tolstring(L, index, &size);
  char *message = NULL;
  uint64_t definitions;
  int defines;
  if (arguments == 0) { /* seen before? */
    struct type_value *value = NULL;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &types_key);
    lua_pushvalue(L, index);
    if (lua_rawget(L, -2) == LUA_TUSERDATA) value = lua_touserdata(L, -1);
    lua_pop(L, 2);
    if (value != NULL) return value->type;
    list = NULL;
    count = 0;
  } else {
    list = read_arguments(L, vm, arguments, &count);
  }
  baton_enter(L);
  definitions = baton_ffi_definitions(vm->state);
  type = baton_ffi_type(vm->state, text, size, list, count, &message);
  defines = baton_ffi_definitions(vm->state) != definitions;
  baton_leave(L);
  if (type == NULL) baton_ffi_raise(L, message);
  if (arguments != 0) {
    lua_pop(L, 1);
  } else if (!defines) { /* else it defines another type the next time */
    lua_rawgetp(L, LUA_REGISTRYINDEX, &types_key);
    lua_pushvalue(L, index);
    baton_ffi_push_type(L, vm, type);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  return type;
}

const struct ffi_type *baton_ffi_test_type(lua_State *L, struct ffi_vm *vm, int index) {
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  struct ffi_function *function = baton_ffi_test_function(L, index);
  struct type_value *value;
  if (cdata != NULL) return cdata->type;
  if (function != NULL) return function->type;
  value = luaL_testudata(L, index, type_name);
  return value != NULL ? value->type : NULL;
}

const struct ffi_type *baton_ffi_check_type(lua_State *L, struct ffi_vm *vm, int index) {
  const struct ffi_type *type;
  if (lua_type(L, index) == LUA_TSTRING) return parse_type(L, vm, index, 0);
  type = baton_ffi_test_type(L, vm, index);
  if (type == NULL) luaL_typeerror(L, index, "type of C (a string, a type or a cdata)");
  return type;
}

static int module_cdef(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  size_t size, count;
  const char *text = luaL_checklstring(L, 1, &size);
  struct ffi_argument *list = read_arguments(L, vm, 2, &count);
  char *message = NULL;
  int done;
  baton_enter(L);
  done = baton_ffi_declare(vm->state, text, size, list, count, &message);
  baton_leave(L);
  lua_newtable(L); /* a name that was predeclared may stand for another type now */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &types_key);
  if (!done) baton_ffi_raise(L, message);
  return 0;
}

static int module_typeof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type;
  if (lua_type(L, 1) == LUA_TSTRING)
    type = parse_type(L, vm, 1, lua_gettop(L) > 1 ? 2 : 0);
  else
    type = baton_ffi_check_type(L, vm, 1);
  baton_ffi_push_type(L, vm, type);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Objects
** ======================================================= */

/* Makes an object of `type`; what it is made of begins at the argument `first`. */
static int new_object(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int first) {
  int64_t size;
  int last = lua_gettop(L);
  void *data;
  if ((type->flags & FFI_IS_VARIABLE) || (type->kind == FFI_ARRAY && type->length == -1)) {
    lua_Integer count = baton_ffi_check_integer(L, vm, first++);
    luaL_argcheck(L, count >= 0, first - 1, "a length of 0 or more expected");
    if (type->kind == FFI_ARRAY) (void)baton_ffi_size(L, type->element);
    baton_enter(L);
    size = baton_ffi_size_with(vm->state, type, (uint64_t)count);
    baton_leave(L);
    if (size < 0) return luaL_error(L, "%I elements are too many for '%s'", count, type->name);
    if (type->kind == FFI_ARRAY) type = baton_ffi_derived(L, vm, type->element, FFI_TO_ARRAY, (uint64_t)count);
  } else {
    if (type->kind == FFI_VOID || type->kind == FFI_FUNCTION) return luaL_error(L, "there are no objects of type '%s'", type->name);
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
  struct type_value *value = luaL_checkudata(L, 1, type_name);
  if (baton_ffi_own_metamethod(L, value->type, "__new")) {
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  return new_object(L, vm, value->type, 2);
}

static int module_cast(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  struct ffi_cdata *cdata;
  luaL_checkany(L, 2);
  if (type->kind != FFI_POINTER && type->kind != FFI_INTEGER && type->kind != FFI_FLOATING && type->kind != FFI_BOOL)
    return luaL_error(L, "only numbers and pointers can be cast to, not '%s'", type->name);
  cdata = baton_ffi_push_new(L, vm, type->plain, (size_t)baton_ffi_size(L, type));
  baton_ffi_to_c(L, vm, type, cdata->data, 2, FFI_CAST);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Questions
** ======================================================= */

static int module_sizeof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  const struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  int64_t size = cdata != NULL ? baton_ffi_whole_size(L, 1, cdata) : type->size;
  if ((type->flags & FFI_IS_VARIABLE) && lua_gettop(L) > 1) {
    lua_Integer count = baton_ffi_check_integer(L, vm, 2);
    baton_enter(L);
    size = baton_ffi_size_with(vm->state, type, (uint64_t)count);
    baton_leave(L);
  }
  if (size < 0) return 0; /* as LuaJIT: nothing, if it is not known */
  lua_pushinteger(L, size);
  return 1;
}

static int module_alignof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1), *whole = type;
  while (whole->kind == FFI_ARRAY) whole = whole->element; /* one without a length has an alignment all the same */
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
  baton_enter(L);
  found = baton_ffi_field(vm->state, type, name, size, &field);
  baton_leave(L);
  if (!found) return 0;
  lua_pushinteger(L, (lua_Integer)field.offset);
  if (field.width == 0) return 1;
  lua_pushinteger(L, field.first);
  lua_pushinteger(L, field.width);
  return 3;
}

/* Whether ffi.istype takes something of type `b` for one of type `a`. */
static int is_taken_for(const struct ffi_type *a, const struct ffi_type *b) {
  if (a->plain == b->plain) return 1;
  if (a->kind == FFI_RECORD && b->kind == FFI_POINTER) return b->element->plain == a->plain;
  if (a->kind != b->kind) return 0;
  switch (a->kind) {
    case FFI_INTEGER: /* `long` and `long long` */
      return a->size == b->size && a->is_signed == b->is_signed && !((a->flags | b->flags) & FFI_IS_ENUM);
    case FFI_POINTER: return baton_ffi_is_alike(a->element, b->element);
    case FFI_ARRAY: /* an object of variable length has one by now */
      return ((a->flags & FFI_IS_VARIABLE) || a->length == b->length) && baton_ffi_is_alike(a->element, b->element);
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

/* ffi.tonumber(cdata): tonumber knows Lua's own values only. */
static int module_tonumber(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  if (cdata != NULL && cdata->type->kind == FFI_INTEGER && cdata->type->size == 8 && !cdata->type->is_signed) {
    uint64_t value = (uint64_t)baton_ffi_load_integer(cdata->type, cdata->data);
    if (value > INT64_MAX) lua_pushnumber(L, (lua_Number)value);
    else lua_pushinteger(L, (lua_Integer)value);
  } else if (cdata != NULL && (cdata->type->kind == FFI_INTEGER || cdata->type->kind == FFI_FLOATING)) {
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
      lua_pushlstring(L, text, strnlen(text, (size_t)cdata->type->size)); /* no further than the array goes */
    else
      lua_pushstring(L, text);
  }
  return 1;
}

static void *writable(lua_State *L, struct ffi_vm *vm) {
  int is_const;
  void *to = baton_ffi_address(L, vm, 1, &is_const);
  if (lua_type(L, 1) == LUA_TSTRING || is_const) luaL_argerror(L, 1, "memory that can be written to expected");
  return to;
}

static int module_copy(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  int is_const;
  void *to = writable(L, vm);
  const void *from = baton_ffi_address(L, vm, 2, &is_const);
  size_t size;
  if (lua_isnoneornil(L, 3)) {
    if (lua_type(L, 2) != LUA_TSTRING) return luaL_argerror(L, 3, "a length expected; only a string has its own");
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

/* {======================================================
** Metatables of types
** ======================================================= */

/* ffi.metatype(type, metatable) -> type */
static int module_metatype(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  struct ffi_type *plain = (struct ffi_type *)(size_t)type->plain;
  luaL_checktype(L, 2, LUA_TTABLE);
  if (type->kind != FFI_RECORD && type->kind != FFI_WIDE) return luaL_argerror(L, 1, "a structure, union, complex or vector expected");
  if (plain->metatable != 0) return luaL_error(L, "'%s' has a metatable already; it cannot be changed", type->name);
  lua_settop(L, 2);
  plain->metatable = luaL_ref(L, LUA_REGISTRYINDEX);
  baton_ffi_push_type(L, vm, type);
  return 1;
}

static int type_tostring(lua_State *L) {
  struct type_value *value = luaL_checkudata(L, 1, type_name);
  lua_pushfstring(L, "ctype<%s>", value->type->name);
  return 1;
}

static int type_eq(lua_State *L) {
  struct type_value *a = luaL_testudata(L, 1, type_name), *b = luaL_testudata(L, 2, type_name);
  lua_pushboolean(L, a != NULL && b != NULL && a->type == b->type);
  return 1;
}

/* What the type's own `__index` has: methods that need no object. */
static int type_index(lua_State *L) {
  struct type_value *value = luaL_checkudata(L, 1, type_name);
  if (baton_ffi_own_metamethod(L, value->type, "__index") && lua_istable(L, -1)) {
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
  }
  return luaL_error(L, "'ctype<%s>' has no member '%s'", value->type->name, luaL_tolstring(L, 2, NULL));
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

/* The VM's ffi: made first, so that it is collected last. */
static struct ffi_vm *open_vm(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  struct ffi_vm *vm;
  if (process == NULL) luaL_error(L, "baton.ffi can be loaded by a process of the program only");
  vm = lua_newuserdatauv(L, sizeof *vm, 0);
  memset(vm, 0, sizeof *vm);
  lua_newtable(L);
  lua_pushcfunction(L, vm_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &vm_key);
  vm->vm = process->vm;
  vm->vm->ffi = vm;
  baton_enter(L);
  /* It stays until the program ends: finalizers of what is older than this module may use its types. */
  vm->state = vm->vm->ffi_state = baton_ffi_new();
  vm->byte = known_type(vm, "char");
  vm->promoted = known_type(vm, "int");
  vm->integer = known_type(vm, "long");
  vm->uint64 = known_type(vm, "uint64_t");
  vm->number = known_type(vm, "double");
  vm->boolean = known_type(vm, "bool");
  vm->string = known_type(vm, "const char *");
  vm->pointer = known_type(vm, "void *");
  baton_leave(L);
  baton_ffi_open_cdata(L, vm);
  baton_ffi_open_callbacks(L);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &types_key);
  return vm;
}

static const luaL_Reg functions[] = {{"cdef", module_cdef}, {"typeof", module_typeof}, {"new", module_new}, {"cast", module_cast},
  {"sizeof", module_sizeof}, {"alignof", module_alignof}, {"offsetof", module_offsetof}, {"istype", module_istype},
  {"errno", module_errno}, {"abi", module_abi}, {"tonumber", module_tonumber}, {"string", module_string}, {"copy", module_copy},
  {"fill", module_fill}, {"metatype", module_metatype}, {"load", baton_ffi_load}, {"fn", baton_ffi_prepare_function},
  {"blocking", baton_ffi_blocking}, {"nonblocking", baton_ffi_nonblocking}, {"timeout", baton_ffi_timeout},
  {NULL, NULL}};

static const luaL_Reg type_methods[] = {{"__call", type_call}, {"__tostring", type_tostring}, {"__eq", type_eq}, {"__index", type_index}, {NULL, NULL}};

int baton_lua_open_ffi(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  if (vm == NULL) vm = open_vm(L);
  if (luaL_newmetatable(L, type_name)) luaL_setfuncs(L, type_methods, 0);
  lua_pop(L, 1);
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
