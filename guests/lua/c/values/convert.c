/*
** Converting Lua values to bytes of C, and back.
*/
#include "values/values.h"
#include "sharing/sharing.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* {======================================================
** Numbers
** ======================================================= */

int64_t baton_ffi_load_integer(const struct ffi_type *type, const void *from) {
  int64_t value = 0;
  switch (type->size) {
    case 1:
      return type->is_signed ? (int64_t) * (const int8_t *)from : (int64_t) * (const uint8_t *)from;
    case 2: {
      uint16_t narrow;
      memcpy(&narrow, from, sizeof narrow);
      return type->is_signed ? (int64_t)(int16_t)narrow : (int64_t)narrow;
    }
    case 4: {
      uint32_t narrow;
      memcpy(&narrow, from, sizeof narrow);
      return type->is_signed ? (int64_t)(int32_t)narrow : (int64_t)narrow;
    }
    default: memcpy(&value, from, 8); return value;
  }
}

static double load_floating(const struct ffi_type *type, const void *from) {
  if (type->size == sizeof(double)) {
    double value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  if (type->size == sizeof(float)) {
    float value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  long double value;
  memcpy(&value, from, sizeof value);
  return (double)value;
}

static void store_integer(const struct ffi_type *type, void *to, int64_t value) {
  memcpy(to, &value, (size_t)type->size); /* the low bytes: all our targets are little-endian */
}

static void store_floating(const struct ffi_type *type, void *to, double value) {
  if (type->size == sizeof(double)) {
    memcpy(to, &value, sizeof value);
  } else if (type->size == sizeof(float)) {
    float narrow = (float)value;
    memcpy(to, &narrow, sizeof narrow);
  } else {
    long double wide = value;
    memcpy(to, &wide, sizeof wide);
  }
}

lua_Integer baton_ffi_check_integer(lua_State *L, struct ffi_vm *vm, int index) {
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  int64_t value;
  if (cdata == NULL || cdata->type->kind != FFI_INTEGER) return luaL_checkinteger(L, index);
  value = baton_ffi_load_integer(cdata->type, cdata->data);
  luaL_argcheck(
      L, value >= 0 || cdata->type->is_signed, index, "number has no integer representation");
  return value;
}

/* Converts a float to an integer as in C. Where C does not define the result, it does not trap. */
static int64_t integer_of(double value) {
  if (value >= -9223372036854775808.0 && value < 9223372036854775808.0) return (int64_t)value;
  if (value >= 9223372036854775808.0 && value < 18446744073709551616.0)
    return (int64_t)(uint64_t)value;
  return INT64_MIN;
}

/* }====================================================== */

/* {======================================================
** To Lua
** ======================================================= */

static void push_integer(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int64_t value) {
  if (value < 0 && !type->is_signed && type->size == 8) {
    struct ffi_cdata *cdata = baton_ffi_push_new(L, vm, vm->uint64, 8);
    memcpy(cdata->data, &value, 8);
  } else {
    lua_pushinteger(L, value);
  }
}

void baton_ffi_to_lua(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, const void *from, int owner) {
  void *address;
  switch (type->kind) {
    case FFI_VOID: lua_pushnil(L); break;
    case FFI_BOOL: lua_pushboolean(L, *(const char *)from != 0); break;
    case FFI_INTEGER: push_integer(L, vm, type, baton_ffi_load_integer(type, from)); break;
    case FFI_FLOATING: lua_pushnumber(L, load_floating(type, from)); break;
    case FFI_POINTER:
      memcpy(&address, from, sizeof address);
      if ((type->flags & FFI_IS_REFERENCE) && address != NULL)
        baton_ffi_to_lua(L, vm, type->element, address, 0);
      else baton_ffi_push_pointer(L, vm, type, address);
      break;
    case FFI_WIDE:
      memcpy(baton_ffi_push_new(L, vm, type, (size_t)type->size)->data, from, (size_t)type->size);
      break;
    default: baton_ffi_push_reference(L, vm, type, (void *)(size_t)from, owner); break;
  }
}

void baton_ffi_push_field(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int owner) {
  uint64_t low = 0, high = 0, bits;
  unsigned bytes = (field->first + field->width + 7u) / 8;
  if (field->width == 0) {
    baton_ffi_to_lua(L, vm, field->type, record + field->offset, owner);
    return;
  }
  memcpy(&low, record + field->offset, bytes < 8 ? bytes : 8);
  if (bytes > 8) memcpy(&high, record + field->offset + 8, 1);
  bits = low >> field->first;
  if (field->first > 0) bits |= high << (64 - field->first);
  bits <<= 64 - field->width;
  if (field->type->kind == FFI_BOOL)
    lua_pushboolean(L, bits != 0);
  else if (field->type->is_signed)
    lua_pushinteger(L, (int64_t)bits >> (64 - field->width));
  else
    push_integer(L, vm, field->type, (int64_t)(bits >> (64 - field->width)));
}

/* }====================================================== */

/* {======================================================
** To C
** ======================================================= */

static l_noret cannot_convert(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, enum ffi_how how) {
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  struct ffi_function *function = baton_ffi_test_function(L, index);
  const char *from = cdata != NULL ? cdata->type->name
      : function != NULL           ? function->type->name
                                   : luaL_typename(L, index);
  const char *message = lua_pushfstring(L, "cannot convert '%s' to '%s'", from, type->name);
  if (how == FFI_PASS && index > 0) baton_ffi_wrong_argument(L, index, message);
  luaL_error(L, "%s", message);
  abort();
}

/* Converts a number of Lua or C to an integer. Returns 0 for other values. */
static int as_integer(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, int64_t *value) {
  struct ffi_cdata *cdata;
  switch (lua_type(L, index)) {
    case LUA_TNUMBER:
      *value = lua_isinteger(L, index) ? lua_tointeger(L, index)
                                       : integer_of(lua_tonumber(L, index));
      return 1;
    case LUA_TBOOLEAN: *value = lua_toboolean(L, index); return type->kind == FFI_BOOL;
    case LUA_TSTRING: {
      size_t size;
      const char *name = lua_tolstring(L, index, &size);
      int found = 0;
      if (type->flags & FFI_IS_ENUM) {
        baton_lua_enter(L);
        found = baton_ffi_enumerator(vm->state, type, name, size, value);
        baton_lua_leave(L);
      }
      return found;
    }
    case LUA_TUSERDATA:
      cdata = baton_ffi_test_cdata(L, vm, index);
      if (cdata == NULL) return 0;
      switch (cdata->type->kind) {
        case FFI_BOOL: *value = *(char *)cdata->data != 0; return 1;
        case FFI_INTEGER: *value = baton_ffi_load_integer(cdata->type, cdata->data); return 1;
        case FFI_FLOATING: *value = integer_of(load_floating(cdata->type, cdata->data)); return 1;
        default: return 0;
      }
    default: return 0;
  }
}

static int as_floating(lua_State *L, struct ffi_vm *vm, int index, double *value) {
  struct ffi_cdata *cdata;
  if (lua_type(L, index) == LUA_TNUMBER) {
    *value = lua_tonumber(L, index);
    return 1;
  }
  cdata = baton_ffi_test_cdata(L, vm, index);
  if (cdata == NULL) return 0;
  if (cdata->type->kind == FFI_FLOATING) {
    *value = load_floating(cdata->type, cdata->data);
    return 1;
  }
  if (cdata->type->kind == FFI_INTEGER) {
    int64_t integer = baton_ffi_load_integer(cdata->type, cdata->data);
    *value = cdata->type->is_signed || cdata->type->size < 8 ? (double)integer
                                                             : (double)(uint64_t)integer;
    return 1;
  }
  return 0;
}

int baton_ffi_is_alike(const struct ffi_type *a, const struct ffi_type *b) {
  if (a->plain == b->plain) return 1;
  if (a->kind != b->kind) return 0;
  if (a->kind == FFI_INTEGER) return a->size == b->size && a->size > 0;
  return a->kind == FFI_POINTER && a->element->is_const == b->element->is_const &&
      baton_ffi_is_alike(a->element, b->element);
}

/* Whether a pointer to `from` converts to a pointer to `to` without a cast. */
static int is_compatible(const struct ffi_type *from, const struct ffi_type *to) {
  if (baton_ffi_is_constant(from) && !baton_ffi_is_constant(to)) return 0;
  if (from->kind == FFI_VOID || to->kind == FFI_VOID) return 1;
  if (from->kind == FFI_ARRAY && to->kind == FFI_ARRAY)
    return is_compatible(from->element, to->element);
  return baton_ffi_is_alike(from, to);
}

static void *pointer_from_cdata(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, enum ffi_how how) {
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  const struct ffi_type *from = cdata->type, *pointee;
  void *address = cdata->data;
  if (type->flags & FFI_IS_REFERENCE) { /* the address of the object itself */
    if (is_compatible(from, type->element)) return address;
    if (how == FFI_CAST && from->kind != FFI_POINTER) return address;
  }
  switch (from->kind) {
    case FFI_POINTER:
      pointee = from->element;
      memcpy(&address, cdata->data, sizeof address);
      break;
    case FFI_ARRAY: pointee = from->element; break;
    case FFI_RECORD: case FFI_WIDE: pointee = from; break;
    case FFI_INTEGER:
      if (how == FFI_CAST) return (void *)(size_t)baton_ffi_load_integer(from, cdata->data);
      /* FALLTHROUGH */
    default: cannot_convert(L, vm, type, index, how);
  }
  /* An array of arrays is the address of its first element, too. */
  if (how != FFI_CAST && !is_compatible(pointee, type->element))
    cannot_convert(L, vm, type, index, how);
  return address;
}

/* Whether a pointer to this type takes the bytes of a buffer without a cast. */
static int is_of_bytes(const struct ffi_type *pointee) {
  return pointee->kind == FFI_VOID || (pointee->kind == FFI_INTEGER && pointee->size == 1);
}

static void *to_pointer(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, enum ffi_how how) {
  const struct ffi_type *pointee = type->element;
  struct ffi_function *function;
  switch (lua_type(L, index)) {
    case LUA_TNIL: case LUA_TNONE: return NULL;
    case LUA_TSTRING:
      if (how == FFI_CAST || baton_ffi_takes_strings(pointee))
        return (void *)(size_t)lua_tostring(L, index);
      break;
    case LUA_TLIGHTUSERDATA: return lua_touserdata(L, index);
    case LUA_TNUMBER:
      if (how == FFI_CAST)
        return (void *)(size_t)(lua_isinteger(L, index) ? lua_tointeger(L, index)
                                                        : integer_of(lua_tonumber(L, index)));
      break;
    case LUA_TUSERDATA: {
      luaL_Stream *stream;
      void *bytes;
      int is_frozen;
      if (baton_ffi_test_cdata(L, vm, index) != NULL)
        return pointer_from_cdata(L, vm, type, index, how);
      bytes = baton_sharing_buffer_at(L, index, &is_frozen);
      if (bytes != NULL) {
        if (is_frozen && !baton_ffi_is_constant(pointee))
          luaL_argerror(L, index, "the buffer is frozen (a pointer to const expected)");
        if (how == FFI_CAST || is_of_bytes(pointee)) return bytes;
        break;
      }
      stream = luaL_testudata(L, index, LUA_FILEHANDLE);
      if (stream != NULL) return stream->f;
      if (how == FFI_CAST || pointee->kind == FFI_VOID) return lua_touserdata(L, index);
      break;
    }
    case LUA_TFUNCTION:
      function = baton_ffi_test_function(L, index);
      if (function != NULL) {
        if (how != FFI_CAST && pointee->kind != FFI_VOID && pointee->plain != function->type->plain)
          break;
        return (void *)function->address;
      }
      if (pointee->kind == FFI_FUNCTION)
        return baton_value_hooks.new_callback(L, vm, pointee, index, how == FFI_PASS);
      break;
    default: break;
  }
  cannot_convert(L, vm, type, index, how);
}

void baton_ffi_to_c(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *to,
    int index, enum ffi_how how) {
  int64_t integer;
  double number;
  void *address;
  struct ffi_cdata *cdata;
  switch (type->kind) {
    case FFI_BOOL:
      if (!as_integer(L, vm, type, index, &integer)) cannot_convert(L, vm, type, index, how);
      *(char *)to = integer != 0;
      return;
    case FFI_INTEGER:
      if (!as_integer(L, vm, type, index, &integer)) {
        cdata = how == FFI_CAST ? baton_ffi_test_cdata(L, vm, index) : NULL;
        if (how == FFI_CAST && (cdata != NULL || lua_type(L, index) == LUA_TFUNCTION)) {
          int is_const;
          integer = (int64_t)(size_t)baton_ffi_address(L, vm, index, &is_const);
        } else {
          cannot_convert(L, vm, type, index, how);
        }
      }
      store_integer(type, to, integer);
      return;
    case FFI_FLOATING:
      if (!as_floating(L, vm, index, &number)) cannot_convert(L, vm, type, index, how);
      store_floating(type, to, number);
      return;
    case FFI_POINTER:
      address = to_pointer(L, vm, type, index, how);
      memcpy(to, &address, sizeof address);
      return;
    case FFI_WIDE: case FFI_ARRAY: case FFI_RECORD:
      cdata = baton_ffi_test_cdata(L, vm, index);
      if (cdata != NULL && cdata->type->plain == type->plain) {
        memcpy(to, cdata->data, (size_t)baton_ffi_size(L, type));
        return;
      }
      if (how == FFI_ASSIGN || lua_type(L, index) == LUA_TTABLE) {
        index = lua_absindex(L, index);
        baton_ffi_initialize(L, vm, type, to, type->size, index, index);
        return;
      }
      cannot_convert(L, vm, type, index, how);
    default: cannot_convert(L, vm, type, index, how);
  }
}

void baton_ffi_store_field(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int index) {
  int64_t value;
  unsigned i;
  char *at = record + field->offset;
  if (field->width == 0) {
    baton_ffi_to_c(L, vm, field->type, at, index, FFI_ASSIGN);
    return;
  }
  if (!as_integer(L, vm, field->type, index, &value))
    cannot_convert(L, vm, field->type, index, FFI_ASSIGN);
  if (field->type->kind == FFI_BOOL) value = value != 0;
  for (i = 0; i < field->width;) { /* byte by byte, as it may cross any boundary */
    unsigned bit = field->first + i, shift = bit % 8, count = 8 - shift;
    unsigned char mask;
    if (count > field->width - i) count = field->width - i;
    mask = (unsigned char)(((1u << count) - 1) << shift);
    at[bit / 8] = (char)((at[bit / 8] & ~mask) | (((uint64_t)value >> i << shift) & mask));
    i += count;
  }
}

/* }====================================================== */

/* {======================================================
** Initializers
** ======================================================= */

static void initialize_array(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, char *to,
    int64_t size, int first, int last) {
  const struct ffi_type *element = type->element;
  int64_t each = element->size, length = each > 0 ? size / each : 0, i = 0;
  int is_table = last == first && lua_type(L, first) == LUA_TTABLE;
  if (last == first && lua_type(L, first) == LUA_TSTRING && element->kind == FFI_INTEGER &&
      element->size == 1) {
    size_t bytes;
    const char *text = lua_tolstring(L, first, &bytes);
    if ((int64_t)bytes > length)
      luaL_error(L, "a string of %I bytes does not fit into '%s'", (lua_Integer)bytes, type->name);
    memcpy(to, text, bytes + ((int64_t)bytes < length));
    return;
  }
  if (is_table) {
    int64_t shift = 1, given;
    if (element->kind != FFI_RECORD && element->kind != FFI_ARRAY) {
      if (lua_rawgeti(L, first, 0) != LUA_TNIL) shift = 0; /* the table begins at 0 */
      lua_pop(L, 1);
    }
    given = (int64_t)lua_rawlen(L, first) + 1 - shift;
    if (given > length)
      luaL_error(L, "too many initializers for '%s': %I", type->name, (lua_Integer)given);
    for (; i < given; i++) {
      lua_rawgeti(L, first, i + shift);
      baton_ffi_to_c(L, vm, element, to + i * each, -1, FFI_ASSIGN);
      lua_pop(L, 1);
    }
  } else {
    if (last - first + 1 > length)
      luaL_error(L, "too many initializers for '%s': %d", type->name, last - first + 1);
    for (; i <= last - first; i++)
      baton_ffi_to_c(L, vm, element, to + i * each, first + (int)i, FFI_ASSIGN);
  }
  if (i == 1) /* a single value initializes all elements */
    for (; i < length; i++) memcpy(to + i * each, to, (size_t)each);
}

/* Whether this is an array at the end of a structure whose length is given when an object is
   made. */
static int is_tail(const struct ffi_type *type) {
  return type->kind == FFI_ARRAY && ((type->flags & FFI_IS_VARIABLE) || type->length == -1);
}

/* Initializes a member with the value at the top. The last member of an object of `size` bytes may
   be longer than its type says. */
static void initialize_member(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int64_t size) {
  int value = lua_gettop(L);
  if (is_tail(field->type))
    baton_ffi_initialize(
        L, vm, field->type, record + field->offset, size - (int64_t)field->offset, value, value);
  else
    baton_ffi_store_field(L, vm, field, record, value);
}

static void initialize_by_name(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type,
    char *to, int64_t size, int table) {
  lua_pushnil(L);
  while (lua_next(L, table)) {
    struct ffi_field field;
    size_t length;
    const char *name;
    int found;
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "the name of a member of '%s' expected as key, got %s", type->name,
          luaL_typename(L, -2));
    name = lua_tolstring(L, -2, &length);
    baton_lua_enter(L);
    found = baton_ffi_field(vm->state, type, name, length, &field);
    baton_lua_leave(L);
    if (!found) luaL_error(L, "'%s' has no member '%s'", type->name, name);
    initialize_member(L, vm, &field, to, size);
    lua_pop(L, 1);
  }
}

static void initialize_record(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type,
    char *to, int64_t size, int first, int last) {
  int is_table = last == first && lua_type(L, first) == LUA_TTABLE;
  size_t i, item, given;
  if (is_table && lua_rawgeti(L, first, 1) == LUA_TNIL) {
    lua_pop(L, 1);
    initialize_by_name(L, vm, type, to, size, first);
    return;
  }
  if (is_table) lua_pop(L, 1);
  given = is_table ? (size_t)lua_rawlen(L, first) : (size_t)(last - first + 1);
  for (i = 0; i < given; i++) {
    struct ffi_field field;
    int found;
    baton_lua_enter(L);
    found =
        (i == 0 || !(type->flags & FFI_IS_UNION)) && baton_ffi_field_at(vm->state, type, i, &field);
    baton_lua_leave(L);
    if (!found) luaL_error(L, "too many initializers for '%s': %I", type->name, (lua_Integer)given);
    if (is_table)
      lua_rawgeti(L, first, (lua_Integer)i + 1);
    else
      lua_pushvalue(L, first + (int)i);
    if (is_tail(field.type) && lua_isnumber(L, -1)) { /* its elements may follow without a table */
      lua_pop(L, 1);
      if (!is_table) {
        baton_ffi_initialize(L, vm, field.type, to + field.offset, size - (int64_t)field.offset,
            first + (int)i, last);
        return;
      }
      if (given > INT_MAX / 2) luaL_error(L, "too many initializers for '%s'", type->name);
      luaL_checkstack(L, (int)(given - i), "too many initializers");
      for (item = i; item < given; item++) lua_rawgeti(L, first, (lua_Integer)item + 1);
      baton_ffi_initialize(L, vm, field.type, to + field.offset, size - (int64_t)field.offset,
          lua_gettop(L) - (int)(given - i) + 1, lua_gettop(L));
      lua_pop(L, (int)(given - i));
      return;
    }
    initialize_member(L, vm, &field, to, size);
    lua_pop(L, 1);
  }
}

void baton_ffi_initialize(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *to,
    int64_t size, int first, int last) {
  struct ffi_cdata *cdata;
  if (last < first) return;
  luaL_checkstack(L, 8, "nested initializers");
  cdata = last == first ? baton_ffi_test_cdata(L, vm, first) : NULL;
  if (cdata != NULL && cdata->type->plain == type->plain && cdata->type->size >= 0) {
    int64_t given = baton_ffi_whole_size(L, first, cdata);
    memcpy(to, cdata->data, (size_t)(given < size ? given : size));
  } else if (type->kind == FFI_ARRAY) {
    initialize_array(L, vm, type, to, size, first, last);
  } else if (type->kind == FFI_RECORD && (cdata == NULL || cdata->type->kind != FFI_RECORD)) {
    initialize_record(L, vm, type, to, size, first, last);
  } else if (type->flags & FFI_IS_COMPLEX) {
    if (last > first + 1) luaL_error(L, "too many initializers for '%s'", type->name);
    baton_ffi_to_c(L, vm, type->element, to, first, FFI_ASSIGN);
    if (last > first)
      baton_ffi_to_c(L, vm, type->element, (char *)to + type->element->size, last, FFI_ASSIGN);
  } else if (type->kind == FFI_WIDE || type->kind == FFI_RECORD) {
    cannot_convert(L, vm, type, first, FFI_ASSIGN);
  } else {
    if (last > first) luaL_error(L, "too many initializers for '%s'", type->name);
    baton_ffi_to_c(L, vm, type, to, first, FFI_ASSIGN);
  }
}

/* }====================================================== */

void *baton_ffi_address(lua_State *L, struct ffi_vm *vm, int index, int *is_const) {
  struct ffi_cdata *cdata = baton_ffi_test_cdata(L, vm, index);
  struct ffi_function *function;
  void *address;
  *is_const = 0;
  if (cdata != NULL) {
    switch (cdata->type->kind) {
      case FFI_BOOL: case FFI_INTEGER: case FFI_FLOATING: case FFI_WIDE:
        lua_pushfstring(L, "cannot convert '%s' to 'void *'", cdata->type->name);
        baton_ffi_wrong_argument(L, index, lua_tostring(L, -1));
        break;
      default: break;
    }
    *is_const = baton_ffi_is_constant(
        cdata->type->kind == FFI_POINTER ? cdata->type->element : cdata->type);
    if (cdata->type->kind != FFI_POINTER) return cdata->data;
    memcpy(&address, cdata->data, sizeof address);
    return address;
  }
  if ((function = baton_ffi_test_function(L, index)) != NULL) return (void *)function->address;
  *is_const = 1;
  if (lua_type(L, index) == LUA_TSTRING) return (void *)(size_t)lua_tostring(L, index);
  if ((address = baton_sharing_buffer_at(L, index, is_const)) != NULL) return address;
  *is_const = 0;
  if (lua_isuserdata(L, index)) return lua_touserdata(L, index);
  luaL_typeerror(L, index, "pointer, array, structure or string");
  return NULL;
}
