/*
** Arithmetic, comparison and text of cdata.
*/
#include "values/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct ffi_vm *vm_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

static const char *const events[] = {"__add", "__sub", "__mul", "__mod", "__pow", "__div", "__idiv",
    "__band", "__bor", "__bxor", "__shl", "__shr", "__unm", "__bnot"};
/* They have the order of Lua's operators. */
_Static_assert(
    LUA_OPADD == 0 && LUA_OPIDIV == 6 && LUA_OPBAND == 7 && LUA_OPUNM == 12 && LUA_OPBNOT == 13,
    "events by operator");

/* An operand: a number of either kind, or an address. */
struct operand {
  enum { IS_OTHER, IS_SIGNED, IS_UNSIGNED, IS_FLOATING, IS_ADDRESS } kind;
  int64_t integer;
  double floating;
  char *address;
  const struct ffi_type *type;
};

static struct operand read_operand(lua_State *L, struct ffi_vm *vm, int index) {
  struct operand operand = {IS_OTHER, 0, 0, NULL, NULL};
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  struct ffi_function *function;
  if (lua_type(L, index) == LUA_TNUMBER) {
    operand.kind = lua_isinteger(L, index) ? IS_SIGNED : IS_FLOATING;
    operand.integer = lua_tointeger(L, index);
    operand.floating = lua_tonumber(L, index);
  } else if (cdata != NULL) {
    operand.type = cdata->type;
    switch (cdata->type->kind) {
      case FFI_POINTER:
        operand.kind = IS_ADDRESS;
        memcpy(&operand.address, cdata->data, sizeof operand.address);
        break;
      case FFI_ARRAY: case FFI_RECORD: case FFI_FUNCTION:
        operand.kind = IS_ADDRESS;
        operand.address = cdata->data;
        break;
      case FFI_BOOL: case FFI_INTEGER:
        operand.integer = baton_ffi_load_integer(cdata->type, cdata->data);
        operand.kind = cdata->type->size == 8 && !cdata->type->is_signed ? IS_UNSIGNED : IS_SIGNED;
        operand.floating = operand.kind == IS_UNSIGNED ? (double)(uint64_t)operand.integer
                                                       : (double)operand.integer;
        break;
      case FFI_FLOATING:
        baton_ffi_to_lua(L, vm, cdata->type, cdata->data, 0);
        operand.floating = lua_tonumber(L, -1);
        lua_pop(L, 1);
        operand.kind = IS_FLOATING;
        break;
      default: break;
    }
  } else if ((function = baton_ffi_test_function(L, index)) != NULL) {
    operand.kind = IS_ADDRESS;
    operand.type = function->type;
    operand.address = (char *)(size_t)function->address;
  }
  return operand;
}

/* Calls a metamethod of an operand's own type for this many results. Returns 0 if there is none. */
static int try_own_for(lua_State *L, struct ffi_vm *vm, const char *event, int results) {
  int i;
  for (i = 1; i <= 2; i++) {
    struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, i);
    if (cdata != NULL && baton_ffi_own_metamethod(L, cdata->type, event)) {
      lua_pushvalue(L, 1);
      lua_pushvalue(L, 2);
      lua_call(L, 2, results);
      return 1;
    }
  }
  return 0;
}

static int try_own(lua_State *L, struct ffi_vm *vm, const char *event) {
  return try_own_for(L, vm, event, 1);
}

static l_noret no_arithmetic(lua_State *L, struct ffi_vm *vm) {
  const char *names[2];
  int i;
  for (i = 0; i < 2; i++) {
    struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, i + 1);
    names[i] = cdata != NULL ? cdata->type->name : luaL_typename(L, i + 1);
  }
  luaL_error(L, "attempt to perform arithmetic on '%s' and '%s'", names[0], names[1]);
  abort();
}

static int pointer_arithmetic(
    lua_State *L, struct ffi_vm *vm, int operator, struct operand * a, struct operand *b) {
  const struct ffi_type *element;
  int64_t size, steps;
  if (operator == LUA_OPADD && b->kind == IS_ADDRESS) {
    struct operand *c = a;
    a = b;
    b = c;
  }
  if (a->kind != IS_ADDRESS || (operator!= LUA_OPADD && operator!= LUA_OPSUB)) no_arithmetic(L, vm);
  if (a->type->kind != FFI_POINTER && a->type->kind != FFI_ARRAY) no_arithmetic(L, vm);
  element = a->type->element;
  size = element->kind == FFI_VOID ? 1 : baton_ffi_size(L, element);
  if (b->kind == IS_ADDRESS) {
    if (operator!= LUA_OPSUB || b->type->element == NULL ||
        b->type->element->plain != element->plain)
      no_arithmetic(L, vm);
    if (size == 0) luaL_error(L, "the elements of '%s' have no size", a->type->name);
    lua_pushinteger(L, (a->address - b->address) / size);
    return 1;
  }
  if (b->kind == IS_OTHER) no_arithmetic(L, vm);
  steps = b->kind == IS_FLOATING ? (int64_t)b->floating : b->integer;
  if (operator == LUA_OPSUB) steps = -steps;
  baton_ffi_push_pointer(L, vm,
      a->type->kind == FFI_POINTER ? a->type : baton_ffi_derived(L, vm, element, FFI_TO_POINTER, 0),
      (char *)((size_t)a->address + (size_t)(steps * size)));
  return 1;
}

static uint64_t unsigned_arithmetic(lua_State *L, int operator, uint64_t a, uint64_t b) {
  switch (operator) {
    case LUA_OPADD: return a + b;
    case LUA_OPSUB: return a - b;
    case LUA_OPMUL: return a * b;
    case LUA_OPBAND: return a & b;
    case LUA_OPBOR: return a | b;
    case LUA_OPBXOR: return a ^ b;
    case LUA_OPSHL: return b < 64 ? a << b : 0;
    case LUA_OPSHR: return b < 64 ? a >> b : 0;
    case LUA_OPUNM: return -a;
    case LUA_OPBNOT: return ~a;
    case LUA_OPPOW: {
      uint64_t power = 1;
      for (; b > 0; b >>= 1, a *= a)
        if (b & 1) power *= a;
      return power;
    }
    default:
      if (b == 0)
        luaL_error(
            L, operator== LUA_OPMOD ? "attempt to perform 'n%%%%0'" : "attempt to divide by zero");
      return operator == LUA_OPMOD ? a % b : a / b;
  }
}

static int arithmetic(lua_State *L, int operator) {
  struct ffi_vm *vm = vm_of(L);
  struct operand a, b;
  if (try_own(L, vm, events[operator])) return 1;
  a = read_operand(L, vm, 1);
  b = read_operand(L, vm, 2);
  if (a.kind == IS_ADDRESS || b.kind == IS_ADDRESS)
    return pointer_arithmetic(L, vm, operator, & a, &b);
  if (a.kind == IS_OTHER || b.kind == IS_OTHER) no_arithmetic(L, vm);
  if (a.kind == IS_UNSIGNED || b.kind == IS_UNSIGNED) {
    if (a.kind != IS_FLOATING && b.kind != IS_FLOATING) {
      uint64_t result = unsigned_arithmetic(L, operator, (uint64_t)a.integer, (uint64_t)b.integer);
      baton_ffi_to_lua(L, vm, vm->uint64, &result, 0);
      return 1;
    }
  }
  /* Otherwise both are Lua numbers. */
  if (a.kind == IS_SIGNED) lua_pushinteger(L, a.integer);
  else lua_pushnumber(L, a.floating);
  if (operator != LUA_OPUNM && operator != LUA_OPBNOT) {
    if (b.kind == IS_SIGNED) lua_pushinteger(L, b.integer);
    else lua_pushnumber(L, b.floating);
  }
  lua_arith(L, operator);
  return 1;
}

static int cdata_arithmetic(lua_State *L) {
  return arithmetic(L, (int)lua_tointeger(L, lua_upvalueindex(2)));
}

/* {======================================================
** Comparison
** ======================================================= */

/* Compares two operands. Returns a negative number, 0 or 1; 2 if one is NaN or not comparable. */
static int compare(lua_State *L, struct ffi_vm *vm, int *is_comparable) {
  struct operand a = read_operand(L, vm, 1), b = read_operand(L, vm, 2);
  *is_comparable = 1;
  if (a.kind == IS_ADDRESS && b.kind == IS_ADDRESS)
    return a.address < b.address ? -1 : a.address > b.address;
  if (a.kind == IS_OTHER || b.kind == IS_OTHER || a.kind == IS_ADDRESS || b.kind == IS_ADDRESS) {
    *is_comparable = 0;
    return 2;
  }
  if (a.kind == IS_FLOATING || b.kind == IS_FLOATING)
    return a.floating < b.floating ? -1
        : a.floating > b.floating  ? 1
        : a.floating == b.floating ? 0
                                   : 2;
  /* A negative number is less than every unsigned one. */
  if (a.kind == IS_SIGNED && b.kind == IS_UNSIGNED && a.integer < 0) return -1;
  if (a.kind == IS_UNSIGNED && b.kind == IS_SIGNED && b.integer < 0) return 1;
  if (a.kind == IS_UNSIGNED || b.kind == IS_UNSIGNED)
    return (uint64_t)a.integer < (uint64_t)b.integer ? -1
                                                     : (uint64_t)a.integer > (uint64_t)b.integer;
  return a.integer < b.integer ? -1 : a.integer > b.integer;
}

static int cdata_eq(lua_State *L) {
  int is_comparable;
  if (try_own(L, vm_of(L), "__eq")) return 1;
  lua_pushboolean(L, compare(L, vm_of(L), &is_comparable) == 0);
  return 1;
}

static int order(lua_State *L, const char *event, int most) {
  int is_comparable, result;
  if (try_own(L, vm_of(L), event)) return 1;
  result = compare(L, vm_of(L), &is_comparable);
  if (!is_comparable)
    return luaL_error(
        L, "attempt to compare '%s' with '%s'", luaL_typename(L, 1), luaL_typename(L, 2));
  lua_pushboolean(L, result <= most);
  return 1;
}

static int cdata_lt(lua_State *L) { return order(L, "__lt", -1); }
static int cdata_le(lua_State *L) { return order(L, "__le", 0); }

/* }====================================================== */

/* Calls the metamethod of a type's own metatable, with the name in upvalue 2, or raises an
   error. */
static int cdata_own(lua_State *L) {
  const char *event = lua_tostring(L, lua_upvalueindex(2));
  int results = strcmp(event, "__pairs") == 0 ? 3 : 1;
  if (try_own_for(L, vm_of(L), event, results)) return results;
  return luaL_error(L, "cdata has no metamethod %s; ffi.metatype can give it one",
      lua_tostring(L, lua_upvalueindex(2)));
}

static void *contents_of(const struct ffi_cdata *cdata) {
  void *address = cdata->data;
  if (cdata->type->kind == FFI_POINTER) memcpy(&address, cdata->data, sizeof address);
  return address;
}

/* Appends one part of a complex number as LuaJIT writes it. A NaN has no sign. */
static void add_part(luaL_Buffer *text, double part, const char *sign) {
  char digits[40];
  luaL_addstring(text, isnan(part) || !signbit(part) ? sign : "");
  snprintf(digits, sizeof digits, "%.14g", isnan(part) ? fabs(part) : part);
  luaL_addstring(text, digits[0] == '-' && isnan(part) ? digits + 1 : digits);
}

static double part_of(const struct ffi_type *type, const char *at) {
  double value;
  float single;
  long double wide;
  switch (type->size) {
    case sizeof single: memcpy(&single, at, sizeof single); return single;
    case sizeof value: memcpy(&value, at, sizeof value); return value;
    default: memcpy(&wide, at, sizeof wide); return (double)wide;
  }
}

/* Pushes a complex number such as "1.5-2i". After inf and nan, a capital I ends it. */
static void push_complex(lua_State *L, const struct ffi_cdata *cdata) {
  const struct ffi_type *part = cdata->type->element;
  const double imaginary = part_of(part, (const char *)cdata->data + part->size);
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  add_part(&text, part_of(part, cdata->data), "");
  add_part(&text, imaginary, "+");
  luaL_addchar(&text, isfinite(imaginary) ? 'i' : 'I');
  luaL_pushresult(&text);
}

static int cdata_tostring(lua_State *L) {
  const char *name;
  struct ffi_vm *vm = vm_of(L);
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, 1);
  void *address;
  if (cdata == NULL) return luaL_typeerror(L, 1, "cdata");
  lua_settop(L, 1);
  if (baton_ffi_own_metamethod(L, cdata->type, "__tostring")) {
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
  }
  /* as luaL_tolstring does */
  if (baton_ffi_own_metamethod(L, cdata->type, "__name") && lua_type(L, -1) == LUA_TSTRING) {
    lua_pushfstring(L, "%s: %p", lua_tostring(L, -1), contents_of(cdata));
    return 1;
  }
  address = cdata->data;
  name = baton_ffi_visible_type(L, vm, 1, cdata)->name;
  switch (cdata->type->kind) {
    case FFI_BOOL: case FFI_INTEGER: case FFI_FLOATING:
      if (cdata->type->size == 8 && cdata->type->kind == FFI_INTEGER && !cdata->type->is_signed) {
        char text[32];
        snprintf(text, sizeof text, "%lluULL",
            (unsigned long long)baton_ffi_load_integer(cdata->type, cdata->data));
        lua_pushstring(L, text);
      } else {
        baton_ffi_to_lua(L, vm, cdata->type, cdata->data, 0);
        luaL_tolstring(L, -1, NULL);
      }
      return 1;
    case FFI_WIDE:
      if (!(cdata->type->flags & FFI_IS_COMPLEX)) break;
      push_complex(L, cdata);
      return 1;
    case FFI_POINTER: memcpy(&address, cdata->data, sizeof address); break;
    default: break;
  }
  if (address == NULL)
    lua_pushfstring(L, "cdata<%s>: NULL", name);
  else
    lua_pushfstring(L, "cdata<%s>: %p", name, address);
  return 1;
}

void baton_ffi_open_numbers(lua_State *L, struct ffi_vm *vm) {
  static const luaL_Reg others[] = {{"__eq", cdata_eq}, {"__lt", cdata_lt}, {"__le", cdata_le},
      {"__tostring", cdata_tostring}, {NULL, NULL}};
  static const char *const own[] = {"__len", "__concat", "__pairs", "__close"};
  size_t i;
  lua_pushlightuserdata(L, vm);
  luaL_setfuncs(L, others, 1);
  for (i = 0; i < sizeof events / sizeof events[0]; i++) {
    lua_pushlightuserdata(L, vm);
    lua_pushinteger(L, (lua_Integer)i);
    lua_pushcclosure(L, cdata_arithmetic, 2);
    lua_setfield(L, -2, events[i]);
  }
  for (i = 0; i < sizeof own / sizeof own[0]; i++) {
    lua_pushlightuserdata(L, vm);
    lua_pushstring(L, own[i]);
    lua_pushcclosure(L, cdata_own, 2);
    lua_setfield(L, -2, own[i]);
  }
}
