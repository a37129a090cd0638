/*
** C functions as Lua values: closures of one Lua function, each with a record of the C function
** that it calls.
*/
#include "values/values.h"

#include <string.h>

struct baton_value_hooks baton_value_hooks;

static int is_function(const TValue *value) {
  return ttypetag(value) == LUA_VCCL && clCvalue(value)->f == baton_value_hooks.call;
}

struct ffi_function *baton_ffi_running_function(lua_State *L) {
  return baton_ffi_function_in(s2v(L->ci->func.p));
}

struct ffi_function *baton_ffi_test_function(lua_State *L, int index) {
  StkId slot = index > 0 ? L->ci->func.p + index : L->top.p + index;
  if (index <= LUA_REGISTRYINDEX || slot >= L->top.p || !is_function(s2v(slot))) return NULL;
  return baton_ffi_function_in(s2v(slot));
}

l_noret baton_ffi_wrong_argument(lua_State *L, int index, const char *message) {
  const TValue *running = s2v(L->ci->func.p);
  if (is_function(running) && baton_ffi_function_in(running)->name[0] != 0)
    luaL_error(L, "bad argument #%d to '%s' (%s)", index, baton_ffi_function_in(running)->name,
        message);
  luaL_argerror(L, index, message);
  abort();
}

const struct ffi_prepared *baton_ffi_prepare_for(lua_State *L, struct ffi_vm *vm,
    const struct ffi_type *type, const struct ffi_type **further, size_t count) {
  const struct ffi_prepared *prepared;
  char *message = NULL;
  baton_lua_check_memory(L);
  baton_lua_enter(L);
  prepared = baton_ffi_prepare(vm->state, type, further, count, &message);
  baton_lua_leave(L);
  if (prepared == NULL) baton_ffi_raise(L, message);
  return prepared;
}

void baton_ffi_set_skip(struct ffi_function *function, uint32_t skip) {
  function->ahead = skip;
  /* Relaxed: a count that may be wrong by a few */
  __atomic_store_n(&function->skip, skip, __ATOMIC_RELAXED);
}

void baton_ffi_declare_class(struct ffi_function *function, enum ffi_class class) {
  baton_ffi_set_skip(function, baton_ffi_policy_begin(function->policy, class));
}

static enum ffi_code code_of(const struct ffi_type *type) {
  switch (type->kind) {
    case FFI_VOID: return CODE_VOID;
    case FFI_BOOL: return CODE_BOOL;
    case FFI_INTEGER:
      if (type->flags & FFI_IS_ENUM) return CODE_OTHER; /* an argument may be a name */
      if (type->size == 4) return type->is_signed ? CODE_INT32 : CODE_UINT32;
      if (type->size == 8) return type->is_signed ? CODE_INT64 : CODE_UINT64;
      return CODE_SMALL;
    case FFI_FLOATING:
      return type->size == 8 ? CODE_DOUBLE : type->size == 4 ? CODE_FLOAT : CODE_OTHER;
    case FFI_POINTER: return baton_ffi_takes_strings(type->element) ? CODE_STRING : CODE_POINTER;
    default: return CODE_OTHER;
  }
}

void baton_ffi_push_function(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type,
    void *address, const char *name, int library) {
  struct ffi_function *function;
  const struct ffi_prepared *prepared;
  uint64_t i;
  if (library != 0) library = lua_absindex(L, library);
  prepared = baton_ffi_prepare_for(L, vm, type, NULL, 0);
  function = lua_newuserdatauv(L, sizeof *function + strlen(name) + 1, library != 0);
  memset(function, 0, sizeof *function);
  strcpy(function->name, name);
  function->vm = vm;
  baton_ffi_declare_class(function, FFI_AUTO);
  memcpy(&function->address, &address, sizeof address);
  function->type = type->plain;
  function->prepared = prepared;
  function->is_quick = prepared->kind != BATON_FFI_BY_LIBFFI;
  function->result = (unsigned char)code_of(type->element);
  if (function->is_quick) {
    function->count = (unsigned char)type->count;
    for (i = 0; i < type->count; i++)
      function->codes[i] = (unsigned char)code_of(type->parameters[i]);
  }
  if (library != 0) {
    lua_pushvalue(L, library);
    lua_setiuservalue(L, -2, 1);
  }
  lua_pushcclosure(L, baton_value_hooks.call, 1);
}
