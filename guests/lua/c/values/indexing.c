/*
** Indexing, calling and finalizing cdata.
*/
#include "values/values.h"
#include "calls/calls.h"

#include <string.h>

/* Registry: cdata -> its finalizer. The keys are weak. */
static const char finalizers_key = 'f';
/* Registry: address -> the Lua function for the C function there, once it was called through a
   pointer. The values are weak. */
static const char functions_key = 'a';

/* {======================================================
** Indexing
** ======================================================= */

static int is_function_pointer(const struct ffi_type *type) {
  return type->kind == FFI_POINTER && type->element->kind == FFI_FUNCTION;
}

static struct ffi_vm *vm_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

/* What a key selects in a cdata. */
enum found { NOTHING, ELEMENT, MEMBER };

static char *contents(lua_State *L, struct ffi_cdata *cdata) {
  void *address = cdata->data;
  if (cdata->type->kind != FFI_POINTER) return address;
  memcpy(&address, cdata->data, sizeof address);
  if (address == NULL) luaL_error(L, "attempt to index a NULL pointer ('%s')", cdata->type->name);
  return address;
}

static enum found find_element(
    lua_State *L, struct ffi_cdata *cdata, struct ffi_field *field, char **base) {
  const struct ffi_type *type = cdata->type;
  lua_Integer index;
  int is_integer;
  if (type->kind != FFI_POINTER && type->kind != FFI_ARRAY && !(type->flags & FFI_IS_COMPLEX))
    return NOTHING;
  index = lua_tointegerx(L, 2, &is_integer);
  if (!is_integer) index = (lua_Integer)luaL_checknumber(L, 2);
  if (type->element->kind == FFI_VOID || type->element->kind == FFI_FUNCTION)
    luaL_error(L, "'%s' has no elements; cast it to a pointer to what is there", type->name);
  *base = contents(L, cdata);
  field->type = type->element;
  field->offset = (uint64_t)(index * baton_ffi_size(L, type->element));
  field->width = 0;
  return ELEMENT;
}

/* Registry: the names of cached members. */
static const char members_key = 'm';

static struct ffi_known_member *place_of_member(
    struct ffi_vm *vm, const struct ffi_type *type, const TString *name) {
  size_t mixed = ((size_t)type >> 6) * 31 + ((size_t)name >> 5);
  return &vm->members[mixed % FFI_KNOWN_MEMBERS];
}

/* Finds the member of a structure with the name at 2, in the cache or from the Rust half. Only
   short strings are cached. */
static int look_up_member(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, struct ffi_field *field) {
  const TValue *key = s2v(L->ci->func.p + 2);
  struct ffi_known_member *known = NULL;
  size_t size;
  const char *name;
  int found;
  if (l_likely(ttisshrstring(key))) { /* there is only one short string for each text */
    known = place_of_member(vm, type, tsvalue(key));
    if (l_likely(known->type == type && known->name == tsvalue(key))) {
      *field = known->field;
      return 1;
    }
  }
  name = lua_tolstring(L, 2, &size);
  baton_lua_enter(L);
  found = baton_ffi_field(vm->state, type, name, size, field);
  baton_lua_leave(L);
  if (!found || known == NULL) return found;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &members_key);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
  known->type = type;
  known->name = tsvalue(s2v(L->ci->func.p + 2));
  known->field = *field;
  return 1;
}

static enum found find_member(lua_State *L, struct ffi_vm *vm, struct ffi_cdata *cdata,
    struct ffi_field *field, char **base) {
  const struct ffi_type *type = cdata->type;
  if (type->flags & FFI_IS_COMPLEX) {
    const char *name = lua_tostring(L, 2);
    if (strcmp(name, "re") != 0 && strcmp(name, "im") != 0) return NOTHING;
    *base = cdata->data;
    field->type = type->element;
    field->offset = name[0] == 'i' ? (uint64_t)type->element->size : 0;
    field->width = 0;
    return MEMBER;
  }
  if (type->kind == FFI_POINTER) type = type->element;
  if (type->kind != FFI_RECORD) return NOTHING;
  if (!look_up_member(L, vm, type, field)) return NOTHING;
  *base = contents(L, cdata);
  return MEMBER;
}

static enum found find(lua_State *L, struct ffi_vm *vm, struct ffi_cdata *cdata,
    struct ffi_field *field, char **base) {
  struct ffi_cdata *key;
  switch (lua_type(L, 2)) {
    case LUA_TNUMBER: return find_element(L, cdata, field, base);
    case LUA_TSTRING: return find_member(L, vm, cdata, field, base);
    case LUA_TUSERDATA:
      key = baton_ffi_test_cdata(L, vm, 2);
      if (key == NULL || key->type->kind != FFI_INTEGER) return NOTHING;
      lua_pushinteger(L, baton_ffi_load_integer(key->type, key->data));
      lua_replace(L, 2);
      return find_element(L, cdata, field, base);
    default: return NOTHING;
  }
}

static l_noret no_such_key(lua_State *L, const struct ffi_type *type) {
  if (lua_type(L, 2) == LUA_TSTRING)
    luaL_error(L, "'%s' has no member '%s'", type->name, lua_tostring(L, 2));
  luaL_error(L, "'%s' cannot be indexed with '%s'", type->name, luaL_typename(L, 2));
  abort();
}

/* Applies a metamethod `__index`, which is at the top: a function or a value to index. Leaves the
   result. */
static int index_by(lua_State *L) {
  if (lua_isfunction(L, -1)) {
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 2, 1);
  } else {
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
  }
  return 1;
}

static int cdata_index(lua_State *L) {
  struct ffi_vm *vm = vm_of(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  struct ffi_field field;
  char *base = NULL;
  if (cdata == NULL) return luaL_typeerror(L, 1, "cdata");
  if (find(L, vm, cdata, &field, &base) != NOTHING) {
    baton_ffi_push_field(L, vm, &field, base, cdata->type->kind == FFI_POINTER ? 0 : 1);
    return 1;
  }
  if (baton_ffi_own_metamethod(L, cdata->type, "__index")) return index_by(L);
  if (lua_type(L, 2) == LUA_TSTRING && is_function_pointer(cdata->type) &&
      baton_value_hooks.callback_method(L, cdata, lua_tostring(L, 2)))
    return 1;
  no_such_key(L, cdata->type);
}

static int cdata_newindex(lua_State *L) {
  struct ffi_vm *vm = vm_of(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  struct ffi_field field;
  char *base = NULL;
  if (cdata == NULL) return luaL_typeerror(L, 1, "cdata");
  if (find(L, vm, cdata, &field, &base) != NOTHING) {
    if (baton_ffi_is_constant(field.type) ||
        (cdata->type->kind == FFI_RECORD && cdata->type->is_const))
      return luaL_error(L, "attempt to write to a constant ('%s')", field.type->name);
    if (field.type->flags & FFI_IS_REFERENCE) {
      char *place;
      memcpy(&place, base + field.offset, sizeof place);
      if (place == NULL)
        return luaL_error(L, "attempt to write through a NULL reference ('%s')", field.type->name);
      if (field.type->element->is_const)
        return luaL_error(L, "attempt to write to a constant ('%s')", field.type->element->name);
      baton_ffi_to_c(L, vm, field.type->element, place, 3, FFI_ASSIGN);
      return 0;
    }
    baton_ffi_store_field(L, vm, &field, base, 3);
    return 0;
  }
  lua_settop(L, 3);
  if (baton_ffi_own_metamethod(L, cdata->type, "__newindex")) {
    if (lua_isfunction(L, -1)) {
      lua_insert(L, 1);
      lua_call(L, 3, 0);
    } else {
      lua_replace(L, 1);
      lua_settable(L, 1);
    }
    return 0;
  }
  no_such_key(L, cdata->type);
}

/* }====================================================== */

/* {======================================================
** Calling and finalizing
** ======================================================= */

/* Pushes the function of `type` at `address`. */
static void push_pointed(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *address) {
  struct ffi_function *known;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &functions_key);
  lua_rawgetp(L, -1, address);
  known = baton_ffi_test_function(L, -1);
  if (known == NULL || known->type != type->plain) {
    lua_pop(L, 1);
    baton_ffi_push_function(L, vm, type, address, "", 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, -3, address);
  }
  lua_remove(L, -2);
}

static int cdata_call(lua_State *L) {
  struct ffi_vm *vm = vm_of(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  void *address;
  if (cdata == NULL) return luaL_typeerror(L, 1, "cdata");
  if (baton_ffi_own_metamethod(L, cdata->type, "__call")) {
    lua_insert(L, 1);
  } else {
    if (!is_function_pointer(cdata->type))
      return luaL_error(L, "attempt to call '%s', which is no function", cdata->type->name);
    memcpy(&address, cdata->data, sizeof address);
    if (address == NULL)
      return luaL_error(L, "attempt to call a NULL pointer ('%s')", cdata->type->name);
    push_pointed(L, vm, cdata->type->element, address);
    lua_replace(L, 1);
  }
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int cdata_gc(lua_State *L) {
  lua_settop(L, 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &finalizers_key);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, 2) == LUA_TNIL) return 0;
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  lua_rawset(L, 2);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

/* Whether the value can be called. Every cdata has a __call, but it works only for function
   pointers and for types with a metamethod __call. */
static int is_callable(lua_State *L, struct ffi_vm *vm, int index) {
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  int has_method;
  if (cdata != NULL && is_function_pointer(cdata->type)) return 1;
  has_method = cdata != NULL ? baton_ffi_own_metamethod(L, cdata->type, "__call")
                             : luaL_getmetafield(L, index, "__call") != LUA_TNIL;
  if (has_method) lua_pop(L, 1);
  return has_method || lua_isfunction(L, index);
}

/* ffi.gc(cdata, finalizer | nil) -> cdata */
int baton_ffi_gc(lua_State *L) {
  struct ffi_vm *vm = vm_of(L);
  lua_settop(L, 2);
  if (baton_ffi_test_cdata(L, vm, 1) == NULL) return luaL_typeerror(L, 1, "cdata");
  if (!lua_isnil(L, 2) && !is_callable(L, vm, 2))
    return luaL_typeerror(L, 2, "function, callable object or nil");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &finalizers_key);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_rawset(L, 3);
  if (!lua_isnil(L, 2)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, vm);
    lua_setmetatable(L, 1);
  }
  lua_settop(L, 1);
  return 1;
}

static const luaL_Reg methods[] = {
    {"__index", cdata_index}, {"__newindex", cdata_newindex}, {"__call", cdata_call}, {NULL, NULL}};

/* Makes a metatable and keeps it in the registry under `key`. The key of the one with __gc is the
   address of `vm`; the other's is the address of its field. */
static void open_metatable(lua_State *L, struct ffi_vm *vm, void *key) {
  lua_newtable(L);
  lua_pushlightuserdata(L, vm);
  luaL_setfuncs(L, methods, 1);
  baton_ffi_open_numbers(L, vm);
  lua_pushliteral(L, "cdata");
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "ffi");
  lua_setfield(L, -2, "__metatable");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

static void open_weak_table(lua_State *L, const char *mode, const void *key) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void baton_ffi_note_finalizer(void) { baton_lua_note_calling_finalizer(cdata_gc); }

void baton_ffi_open_cdata(lua_State *L, struct ffi_vm *vm) {
  open_metatable(L, vm, &vm->plain);
  vm->plain = hvalue(s2v(L->top.p - 1));
  lua_pop(L, 1);
  open_metatable(L, vm, vm);
  vm->finalized = hvalue(s2v(L->top.p - 1));
  lua_pushcfunction(L, cdata_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &members_key);
  open_weak_table(L, "k", &finalizers_key);
  open_weak_table(L, "v", &functions_key);
}

/* }====================================================== */
