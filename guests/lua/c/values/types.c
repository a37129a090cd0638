/*
** C types as Lua values, and from their texts.
*/
#include "values/values.h"

#include <string.h>

static const char vm_key = 'v';     /* registry: the VM's ffi */
static const char types_key = 't';  /* registry: text without definitions -> type */
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

void baton_ffi_keep_vm(lua_State *L) {
  lua_rawsetp(L, LUA_REGISTRYINDEX, &vm_key);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &types_key);
}

/* The maximal size of the types and names that one byte of text declares, in bytes. */
#define BYTES_OF_TEXT 256
#define SHORT_TEXT 512 /* the reserve has enough memory for this much text */

void baton_ffi_get_room(lua_State *L, size_t text) {
  if (text <= SHORT_TEXT) baton_lua_check_memory(L);
  else baton_lua_get_room(L, text * BYTES_OF_TEXT);
}

/* {======================================================
** Texts
** ======================================================= */

void baton_ffi_push_type(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type) {
  struct type_value *value = lua_newuserdatauv(L, sizeof *value, 0);
  (void)vm;
  value->type = type;
  luaL_setmetatable(L, type_name);
}

/* Reads the arguments from `first` to `last`, which replace `$`. Pushes the memory of the list. */
static struct ffi_argument *read_arguments(
    lua_State *L, struct ffi_vm *vm, int first, int last, size_t *count) {
  int i;
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
      argument->type = baton_ffi_check_any_type(L, vm, i);
  }
  return list;
}

/* Pushes a key for a text with its arguments from `first` on. Texts and arguments for the same type
   have equal keys. */
static void push_key(lua_State *L, struct ffi_vm *vm, int index, int first) {
  int last = lua_gettop(L), i;
  luaL_checkstack(L, last + 4, "too many arguments");
  lua_pushvalue(L, index);
  for (i = first; i <= last; i++) {
    if (lua_type(L, i) == LUA_TNUMBER)
      lua_pushfstring(L, "%cn%I", 0, (LUAI_UACINT)luaL_checkinteger(L, i));
    else if (lua_type(L, i) == LUA_TSTRING)
      lua_pushfstring(L, "%cs%s", 0, lua_tostring(L, i));
    else
      lua_pushfstring(L, "%ct%p", 0, (const void *)baton_ffi_check_any_type(L, vm, i));
  }
  lua_concat(L, lua_gettop(L) - last);
}

/*
** Parses a text. Equal texts give the same type, even if they contain a structure without a tag. So
** a loop does not make new types. Only the first text may define a tag or a constant; a second one
** raises an error.
*/
static const struct ffi_type *parse_type(
    lua_State *L, struct ffi_vm *vm, int index, int arguments) {
  const struct ffi_type *type;
  struct type_value *value = NULL;
  struct ffi_argument *list = NULL;
  size_t size, count = 0;
  const char *text = lua_tolstring(L, index, &size);
  char *message = NULL;
  uint64_t definitions;
  int defines, key = lua_gettop(L) + 1;
  if (arguments == 0) lua_pushvalue(L, index);
  else push_key(L, vm, index, arguments);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &types_key);
  lua_pushvalue(L, key);
  if (lua_rawget(L, -2) == LUA_TUSERDATA) value = lua_touserdata(L, -1);
  if (value != NULL) {
    lua_settop(L, key - 1);
    return value->type;
  }
  lua_settop(L, key);
  if (arguments != 0) list = read_arguments(L, vm, arguments, key - 1, &count);
  baton_ffi_get_room(L, size);
  baton_lua_enter(L);
  definitions = baton_ffi_definitions(vm->state);
  type = baton_ffi_type(vm->state, text, size, list, count, &message);
  defines = baton_ffi_definitions(vm->state) != definitions;
  baton_lua_leave(L);
  if (type == NULL) baton_ffi_raise(L, message);
  if (!defines) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &types_key);
    lua_pushvalue(L, key);
    baton_ffi_push_type(L, vm, type);
    lua_rawset(L, -3);
  }
  lua_settop(L, key - 1);
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

static const struct ffi_type *referred(const struct ffi_type *type) {
  return type->flags & FFI_IS_REFERENCE ? type->element : type;
}

/* Here references stay references. */
const struct ffi_type *baton_ffi_check_any_type(lua_State *L, struct ffi_vm *vm, int index) {
  const struct ffi_type *type;
  if (lua_type(L, index) == LUA_TSTRING) return parse_type(L, vm, index, 0);
  type = baton_ffi_test_type(L, vm, index);
  if (type == NULL) luaL_typeerror(L, index, "type of C (a string, a type or a cdata)");
  return type;
}

const struct ffi_type *baton_ffi_check_type(lua_State *L, struct ffi_vm *vm, int index) {
  return referred(baton_ffi_check_any_type(L, vm, index));
}

int baton_ffi_cdef(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  size_t size, count;
  const char *text = luaL_checklstring(L, 1, &size);
  struct ffi_argument *list = read_arguments(L, vm, 2, lua_gettop(L), &count);
  char *message = NULL;
  int done;
  baton_ffi_get_room(L, size);
  baton_lua_enter(L);
  done = baton_ffi_declare(vm->state, text, size, list, count, &message);
  baton_lua_leave(L);
  lua_newtable(L); /* a name that was only declared may now be another type */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &types_key);
  if (!done) baton_ffi_raise(L, message);
  return 0;
}

int baton_ffi_typeof(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_cdata *cdata;
  const struct ffi_type *type;
  if (lua_type(L, 1) == LUA_TSTRING)
    type = parse_type(L, vm, 1, lua_gettop(L) > 1 ? 2 : 0);
  else
    type = baton_ffi_check_any_type(L, vm, 1);
  cdata = baton_ffi_test_cdata(L, vm, 1);
  if (cdata != NULL) type = baton_ffi_visible_type(L, vm, 1, cdata);
  baton_ffi_push_type(L, vm, type);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Metatables of types
** ======================================================= */

/* Forgets texts for this type. If they are used again they make another type without its
   metatable. */
static void forget_texts(lua_State *L, const struct ffi_type *type) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &types_key);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    struct type_value *value = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (value->type->plain != type->plain) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
  lua_pop(L, 1);
}

/* ffi.metatype(type, metatable) -> type */
int baton_ffi_metatype(lua_State *L) {
  struct ffi_vm *vm = baton_ffi_vm(L);
  const struct ffi_type *type = baton_ffi_check_type(L, vm, 1);
  struct ffi_type *plain = (struct ffi_type *)(size_t)type->plain;
  luaL_checktype(L, 2, LUA_TTABLE);
  if (type->kind != FFI_RECORD && type->kind != FFI_WIDE)
    return luaL_argerror(L, 1, "a structure, union, complex or vector expected");
  if (plain->metatable != 0)
    return luaL_error(L, "'%s' has a metatable already; it cannot be changed", type->name);
  lua_settop(L, 2);
  plain->metatable = luaL_ref(L, LUA_REGISTRYINDEX);
  forget_texts(L, type);
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

/* Looks in the type's own `__index`, for functions that need no object. */
static int type_index(lua_State *L) {
  struct type_value *value = luaL_checkudata(L, 1, type_name);
  if (baton_ffi_own_metamethod(L, value->type, "__index") && lua_istable(L, -1)) {
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
  }
  return luaL_error(
      L, "'ctype<%s>' has no member '%s'", value->type->name, luaL_tolstring(L, 2, NULL));
}

/* }====================================================== */

const struct ffi_type *baton_ffi_type_of_value(lua_State *L, int index) {
  struct type_value *value = luaL_checkudata(L, index, type_name);
  return value->type;
}

static const luaL_Reg type_methods[] = {
    {"__tostring", type_tostring}, {"__eq", type_eq}, {"__index", type_index}, {NULL, NULL}};

void baton_ffi_open_types(lua_State *L, lua_CFunction call) {
  if (luaL_newmetatable(L, type_name)) {
    luaL_setfuncs(L, type_methods, 0);
    lua_pushcfunction(L, call);
    lua_setfield(L, -2, "__call");
  }
  lua_pop(L, 1);
}
