/*
** Making cdata, and functions about their types.
*/
#include "values/values.h"

#include <string.h>

static const TValue *value_at(lua_State *L, int index) {
  StkId slot = index > 0 ? L->ci->func.p + index : L->top.p + index;
  if (index <= LUA_REGISTRYINDEX || slot >= L->top.p) return NULL;
  return s2v(slot);
}

struct ffi_cdata *baton_ffi_test_cdata(lua_State *L, const struct ffi_vm *vm, int index) {
  const TValue *value = value_at(L, index);
  Udata *udata;
  if (value == NULL || !ttisfulluserdata(value)) return NULL;
  udata = uvalue(value);
  if (udata->metatable != vm->plain && (udata->metatable != vm->finalized || vm->finalized == NULL))
    return NULL;
  return (struct ffi_cdata *)(void *)getudatamem(udata);
}

/* {======================================================
** Making
** ======================================================= */

static struct ffi_cdata *push_cdata(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, size_t size, int values) {
  struct ffi_cdata *cdata = lua_newuserdatauv(L, sizeof *cdata + size, values);
  cdata->type = type;
  cdata->data = cdata + 1;
  /* no write barrier: the object is new, and the table is in the registry */
  uvalue(s2v(L->top.p - 1))->metatable = vm->plain;
  return cdata;
}

/* Extra bytes for the alignment of an object. Lua's memory is aligned to 16. */
static size_t spare_of(const struct ffi_type *type) { return type->align > 16 ? type->align : 0; }

struct ffi_cdata *baton_ffi_push_new(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, size_t size) {
  size_t spare = spare_of(type);
  struct ffi_cdata *cdata = push_cdata(L, vm, type, size + spare, 0);
  if (spare > 0) cdata->data = (void *)(((size_t)cdata->data + spare - 1) & ~(spare - 1));
  memset(cdata->data, 0, size);
  return cdata;
}

int64_t baton_ffi_whole_size(lua_State *L, int index, const struct ffi_cdata *cdata) {
  const struct ffi_type *type = cdata->type;
  /* less than 1 if the bytes belong to another object */
  int64_t made = (int64_t)(lua_rawlen(L, index) - sizeof *cdata) - (int64_t)spare_of(type);
  return type->kind == FFI_RECORD && (type->flags & (FFI_IS_VARIABLE | FFI_IS_FLEXIBLE)) &&
          made > type->size
      ? made
      : type->size;
}

void baton_ffi_push_pointer(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *address) {
  struct ffi_cdata *cdata = push_cdata(L, vm, type->plain, sizeof address, 0);
  memcpy(cdata->data, &address, sizeof address);
}

void baton_ffi_push_reference(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *data, int owner) {
  struct ffi_cdata *cdata;
  if (owner != 0) owner = lua_absindex(L, owner);
  cdata = push_cdata(L, vm, type, 0, owner != 0);
  cdata->data = data;
  if (owner != 0) {
    lua_pushvalue(L, owner);
    lua_setiuservalue(L, -2, 1);
  }
}

/* }====================================================== */

/* {======================================================
** Types
** ======================================================= */

int64_t baton_ffi_size(lua_State *L, const struct ffi_type *type) {
  if (type->size < 0)
    luaL_error(L, "the size of '%s' is not known; define it, or give its length", type->name);
  return type->size;
}

int baton_ffi_takes_strings(const struct ffi_type *pointee) {
  return pointee->is_const &&
      (pointee->kind == FFI_VOID || (pointee->kind == FFI_INTEGER && pointee->size == 1));
}

l_noret baton_ffi_raise(lua_State *L, char *message) {
  luaL_where(L, 1);
  lua_pushstring(L, message != NULL ? message : "not enough memory");
  baton_ffi_free_text(message);
  lua_concat(L, 2);
  lua_error(L);
  abort();
}

const struct ffi_type *baton_ffi_derived(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int how, uint64_t length) {
  const struct ffi_type *derived;
  baton_lua_check_memory(L);
  baton_lua_enter(L);
  derived = baton_ffi_derive(vm->state, type, how, length);
  baton_lua_leave(L);
  return derived;
}

const struct ffi_type *baton_ffi_visible_type(
    lua_State *L, struct ffi_vm *vm, int index, const struct ffi_cdata *cdata) {
  const char *own = (const char *)cdata, *data = cdata->data;
  const struct ffi_type *type = cdata->type;
  if (data >= own && data < own + lua_rawlen(L, index)) return type;
  return baton_ffi_derived(L, vm, type, FFI_TO_REFERENCE, 0);
}

int baton_ffi_own_metamethod(lua_State *L, const struct ffi_type *type, const char *event) {
  if (type->kind == FFI_POINTER && type->element->kind == FFI_RECORD) type = type->element;
  if (type->plain->metatable == 0) return 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, type->plain->metatable);
  lua_pushstring(L, event);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pop(L, 2);
    return 0;
  }
  lua_remove(L, -2);
  return 1;
}

/* }====================================================== */
