/*
** Calls from Lua to C functions.
**
** A C function that Lua calls runs outside of the VM already. So a foreign call needs no step to
** leave the VM, and it may be retaken (retake_policy.c lists `baton_ffi_call`). It reads its
** arguments from its own frame. They stay on the stack until the call returns, and keep the memory
** that they point to alive.
*/
#include "ffi/inside.h"

#include <errno.h>
#include <string.h>

/* {======================================================
** Around the call
** ======================================================= */

/* A volatile pointer: after a move to another thread, errno has another address. */
#if defined(__APPLE__) || defined(__FreeBSD__)
static int *(*volatile errno_place)(void) = __error;
#else
static int *(*volatile errno_place)(void) = __errno_location;
#endif

/* Links the call, so that callbacks find it, and restores the process's errno. It may return on
   another thread. */
static inline void begin_call(
    lua_State *L, struct ffi_function *function, struct ffi_outer_call *call) {
  /* Relaxed, here and below: see baton_ffi_set_skip */
  uint32_t skip = __atomic_load_n(&function->skip, __ATOMIC_RELAXED);
  struct baton_process *process;
  call->L = L;
  call->began = 0;
  call->error = 0;
  call->called_back = 0;
  if (l_likely(skip > 0))
    __atomic_store_n(&function->skip, skip - 1, __ATOMIC_RELAXED);
  else
    baton_ffi_ask(L, function, call);
  call->process = process = baton_lua_running(L);
  if (l_likely(process != NULL)) {
    call->previous = process->ffi_call;
    process->ffi_call = call;
    *errno_place() = process->ffi_errno;
  }
}

static inline void end_call(
    lua_State *L, struct ffi_function *function, struct ffi_outer_call *call) {
  struct baton_process *process = call->process;
  if (l_likely(process != NULL)) {
    process->ffi_errno = *errno_place();
    process->ffi_call = call->previous;
    if (l_unlikely(call->began != 0 || call->called_back)) baton_ffi_learn(L, function, call);
  }
  if (l_unlikely(call->error != 0)) { /* from a callback */
    lua_settop(L, call->error);
    lua_error(L);
  }
}

/* }====================================================== */

/* {======================================================
** Through libffi
** ======================================================= */

static l_noret wrong_count(lua_State *L, const struct ffi_function *function, int given) {
  luaL_error(L, "wrong number of arguments to '%s' (%d expected%s, got %d)",
      function->name[0] != 0 ? function->name : function->type->name, (int)function->type->count,
      function->type->flags & FFI_IS_VARIADIC ? " at least" : "", given);
  abort();
}

/* The C type of a value that is passed after the fixed arguments. */
static const struct ffi_type *type_of_further(lua_State *L, struct ffi_vm *vm, int index) {
  struct ffi_cdata *cdata;
  switch (lua_type(L, index)) {
    case LUA_TNUMBER: return lua_isinteger(L, index) ? vm->integer : vm->number;
    case LUA_TBOOLEAN: return vm->boolean;
    case LUA_TSTRING: return vm->string;
    case LUA_TUSERDATA:
      cdata = baton_ffi_test_cdata(L, vm, index);
      if (cdata == NULL) return vm->pointer;
      if (cdata->type->kind == FFI_ARRAY)
        return baton_ffi_derived(L, vm, cdata->type->element, FFI_TO_POINTER, 0);
      /* C promotes these. */
      if (cdata->type->kind == FFI_FLOATING && cdata->type->size < vm->number->size)
        return vm->number;
      if (cdata->type->kind == FFI_INTEGER && cdata->type->size < vm->promoted->size)
        return vm->promoted;
      return cdata->type->plain;
    default: return vm->pointer;
  }
}

#define MOST_ARGUMENTS 255

/* Arguments lie on the C stack up to this many bytes, their addresses included. Beyond that they
   lie in Lua's memory. */
#define SMALL_ARGUMENTS 512

/* The common case: a Lua number for a C number of the same width. Returns 0 for all others. */
static inline int place_plainly(const TValue *value, const struct ffi_type *type, char *to) {
  if (ttisinteger(value) && type->kind == FFI_INTEGER && type->size >= 4) {
    int32_t narrow = (int32_t)ivalue(value);
    if (type->size == 4) memcpy(to, &narrow, sizeof narrow);
    else memcpy(to, &ivalue(value), sizeof(lua_Integer));
    return 1;
  }
  if (ttisfloat(value) && type->kind == FFI_FLOATING && type->size == sizeof(double)) {
    memcpy(to, &fltvalue(value), sizeof(double));
    return 1;
  }
  return 0;
}

/* Converts the arguments. The converted values follow the list of their addresses. */
static void place_arguments(lua_State *L, const struct ffi_function *function,
    const struct ffi_type *const *further, int given, void **arguments) {
  struct ffi_vm *vm = function->vm;
  const struct ffi_type *type = function->type;
  char *area = (char *)arguments + (size_t)(given + 1) / 2 * 16;
  int fixed = (int)type->count, i;
  for (i = 0; i < given; i++) {
    const struct ffi_type *parameter = i < fixed ? type->parameters[i] : further[i - fixed];
    size_t size = (size_t)baton_ffi_size(L, parameter);
    memset(area, 0, size < 8 ? 8 : size);
    if (!place_plainly(s2v(L->ci->func.p + i + 1), parameter, area))
      baton_ffi_to_c(L, vm, parameter, area, i + 1, FFI_PASS);
    arguments[i] = area;
    if (i >= fixed && parameter->kind == FFI_BOOL) *(int32_t *)(void *)area = *area != 0;
    area += ((size < 8 ? 8 : size) + 15) & ~(size_t)15;
  }
}

/* Makes the call and pushes its result. A call with a timeout may outlive the process, so it writes
   its result to Lua's memory. */
static int call_placed(lua_State *L, struct ffi_function *function,
    const struct ffi_prepared *prepared, void **arguments, int is_timed) {
  const struct ffi_type *answer = function->type->element;
  int is_object = answer->kind == FFI_RECORD || answer->kind == FFI_WIDE;
  _Alignas(16) char word[16]; /* as large as any number, and as a register */
  void *result = word;
  if (is_object || is_timed)
    result = baton_ffi_push_new(L, function->vm, is_object ? answer->plain : function->vm->byte,
        prepared->result_size < sizeof word ? sizeof word : prepared->result_size)
                 ->data;
  if (is_timed) {
    baton_ffi_call_timed(L, function, prepared, arguments, result);
  } else {
    struct ffi_outer_call call;
    begin_call(L, function, &call);
    baton_ffi_call_prepared(prepared, function->address, arguments, result);
    end_call(L, function, &call);
  }
  if (answer->kind == FFI_VOID) return 0;
  if (!is_object) baton_ffi_to_lua(L, function->vm, answer, result, 0);
  return 1;
}

static int call_prepared(lua_State *L, struct ffi_function *function) {
  const struct ffi_type *type = function->type, *further[MOST_ARGUMENTS];
  const struct ffi_prepared *prepared = function->prepared;
  _Alignas(16) char small[SMALL_ARGUMENTS];
  void **arguments = (void **)(void *)small;
  size_t needed;
  int given = lua_gettop(L), fixed = (int)type->count,
      is_timed = function->is_timed && baton_ffi_may_time(L), i;
  if (given != fixed && (given < fixed || !(type->flags & FFI_IS_VARIADIC)))
    wrong_count(L, function, given);
  if (given > MOST_ARGUMENTS)
    luaL_error(L, "at most %d arguments can be passed, got %d", MOST_ARGUMENTS, given);
  luaL_checkstack(L, 8, "too many arguments");
  for (i = fixed; i < given; i++) further[i - fixed] = type_of_further(L, function->vm, i + 1);
  if (given > fixed)
    prepared = baton_ffi_prepare_for(L, function->vm, type, further, (size_t)(given - fixed));
  needed = (size_t)(given + 1) / 2 * 16 + prepared->area;
  if (is_timed || needed > sizeof small) arguments = lua_newuserdatauv(L, needed, 0);
  place_arguments(L, function, further, given, arguments);
  return call_placed(L, function, prepared, arguments, is_timed);
}

/* }====================================================== */

/* {======================================================
** Directly
** ======================================================= */

/* Converts a simple value to an argument in a register. Returns 0 if the value is not simple. */
static inline int take_argument(const TValue *value, enum ffi_code code, const struct ffi_vm *vm,
    uint64_t *integer, double *floating) {
  switch (code) {
    case CODE_INT32:
      if (!ttisinteger(value)) return 0;
      *integer = (uint64_t)(int32_t)ivalue(value);
      return 1;
    case CODE_UINT32:
      if (!ttisinteger(value)) return 0;
      *integer = (uint32_t)ivalue(value);
      return 1;
    case CODE_INT64: case CODE_UINT64:
      if (!ttisinteger(value)) return 0;
      *integer = (uint64_t)ivalue(value);
      return 1;
    case CODE_DOUBLE:
      if (ttisfloat(value)) *floating = fltvalue(value);
      else if (ttisinteger(value)) *floating = (double)ivalue(value);
      else return 0;
      return 1;
    case CODE_STRING:
      if (ttisstring(value)) {
        *integer = (uint64_t)(size_t)getstr(tsvalue(value));
        return 1;
      }
      /* FALLTHROUGH */
    case CODE_POINTER: {
      const Udata *udata;
      const struct ffi_cdata *cdata;
      if (ttisnil(value)) {
        *integer = 0;
        return 1;
      }
      if (!ttisfulluserdata(value)) return 0;
      udata = uvalue(value);
      if (udata->metatable != vm->plain && udata->metatable != vm->finalized) return 0;
      cdata = (const struct ffi_cdata *)(const void *)getudatamem(udata);
      if (cdata->type->kind == FFI_POINTER) {
        memcpy(integer, cdata->data, sizeof *integer);
        return 2; /* its type is still to be compared */
      }
      *integer = (uint64_t)(size_t)cdata->data;
      return cdata->type->kind == FFI_ARRAY ? 2 : 0;
    }
    default: return 0;
  }
}

/* Any other argument, by the general rules. May raise an error. */
static void convert_argument(lua_State *L, const struct ffi_function *function, int index,
    uint64_t *integer, double *floating) {
  const struct ffi_type *type = function->type->parameters[index];
  uint64_t bits = 0;
  baton_ffi_to_c(L, function->vm, type, &bits, index + 1, FFI_PASS);
  if (type->kind == FFI_FLOATING)
    memcpy(floating, &bits, sizeof bits);
  else
    *integer = type->kind == FFI_INTEGER ? (uint64_t)baton_ffi_load_integer(type, &bits) : bits;
}

static int push_answer(lua_State *L, const struct ffi_function *function, uint64_t bits) {
  double number;
  switch ((enum ffi_code)function->result) {
    case CODE_VOID: return 0;
    case CODE_INT32: lua_pushinteger(L, (int32_t)bits); return 1;
    case CODE_UINT32: lua_pushinteger(L, (uint32_t)bits); return 1;
    case CODE_INT64: lua_pushinteger(L, (lua_Integer)bits); return 1;
    case CODE_UINT64:
      if ((int64_t)bits < 0) baton_ffi_to_lua(L, function->vm, function->type->element, &bits, 0);
      else lua_pushinteger(L, (lua_Integer)bits);
      return 1;
    case CODE_DOUBLE:
      memcpy(&number, &bits, sizeof number);
      lua_pushnumber(L, number);
      return 1;
    default: baton_ffi_to_lua(L, function->vm, function->type->element, &bits, 0); return 1;
  }
}

/* The rules that fit most pointers: the same pointee, or any for `void *`. `const` may be added. */
static inline int is_plainly_compatible(const struct ffi_type *from, const struct ffi_type *to) {
  return from == to ||
      ((from->plain == to->plain || to->kind == FFI_VOID) && (!from->is_const || to->is_const));
}

static int call_quickly(lua_State *L, struct ffi_function *function) {
  struct baton_ffi_registers registers;
  struct ffi_outer_call call;
  uint64_t bits, *integer = registers.integer;
  double *floating = registers.floating;
  int i, count = function->count;
  if (l_unlikely(L->top.p - (L->ci->func.p + 1) != count)) wrong_count(L, function, lua_gettop(L));
  registers.integer[0] = registers.integer[1] = 0;
  for (i = 0; i < count; i++) {
    const TValue *value = s2v(L->ci->func.p + i + 1);
    enum ffi_code code = (enum ffi_code)function->codes[i];
    int is_floating = code == CODE_DOUBLE || code == CODE_FLOAT;
    int taken = take_argument(value, code, function->vm, integer, floating);
    if (taken == 2) {
      const struct ffi_cdata *cdata =
          (const struct ffi_cdata *)(const void *)getudatamem(uvalue(value));
      taken = is_plainly_compatible(cdata->type->element, function->type->parameters[i]->element);
    }
    if (l_unlikely(!taken)) convert_argument(L, function, i, integer, floating);
    if (is_floating) floating++;
    else integer++;
  }
  begin_call(L, function, &call);
  bits = baton_ffi_call_direct(function->address, (enum baton_ffi_kind)function->prepared->kind,
                               (enum baton_ffi_answer)function->prepared->answer, &registers);
  end_call(L, function, &call);
  return push_answer(L, function, bits);
}

int baton_ffi_call(lua_State *L) {
  struct ffi_function *function = baton_ffi_function_in(s2v(L->ci->func.p));
  return l_likely(function->is_quick) ? call_quickly(L, function) : call_prepared(L, function);
}

/* }====================================================== */
