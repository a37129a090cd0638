/*
** vm.buffer: bytes outside of all heaps. bytes.c has their memory, and formats.c has pack and
** unpack.
*/
#include "sharing/buffers.h"

#include <stdlib.h>
#include <string.h>

static int is_moved(const struct buffer *buffer) {
  return buffer->owner != baton_bytes_owner(buffer->bytes);
}

struct buffer *baton_shared_check_buffer(lua_State *L, int index) {
  struct buffer *buffer = (struct buffer *)baton_shared_check(L, index, BATON_SEALED_BUFFER);
  if (l_unlikely(buffer->bytes == NULL)) luaL_argerror(L, index, "the buffer was collected");
  if (l_unlikely(is_moved(buffer))) luaL_argerror(L, index, "the buffer was moved");
  return buffer;
}

struct buffer *baton_shared_check_writable(lua_State *L) {
  struct buffer *buffer = baton_shared_check_buffer(L, 1);
  if (l_unlikely(baton_bytes_are_frozen(buffer->bytes)))
    luaL_argerror(L, 1, "the buffer is frozen (read-only)");
  return buffer;
}

/* {======================================================
** Making and ending
** ======================================================= */

/* Pushes a handle without memory. */
static struct buffer *new_handle(lua_State *L) {
  return (struct buffer *)baton_shared_new_handle(L, BATON_SEALED_BUFFER, sizeof(struct buffer));
}

/* Gives a handle memory. It takes over a reference. */
static void set_bytes(
    struct buffer *buffer, struct baton_bytes *bytes, size_t offset, size_t length) {
  buffer->handle.id = (uintptr_t)bytes;
  buffer->bytes = bytes;
  buffer->owner = baton_bytes_owner(bytes);
  buffer->offset = offset;
  buffer->length = length;
}

/* Lets the collector know of the memory, so that buffers are collected as their bytes demand. */
static void count_for_collector(lua_State *L, size_t size) {
  const size_t kilobytes = size >> 10;
  if (kilobytes > 0) lua_gc(L, LUA_GCSTEP, kilobytes > INT_MAX ? INT_MAX : (int)kilobytes);
}

int baton_shared_new_buffer(lua_State *L) {
  const char *text = NULL;
  size_t size;
  struct buffer *buffer;
  struct baton_bytes *bytes;
  if (lua_type(L, 1) == LUA_TSTRING) {
    text = lua_tolstring(L, 1, &size);
  } else {
    const lua_Integer count = luaL_checkinteger(L, 1);
    luaL_argcheck(L, count >= 0, 1, "size must not be negative");
    size = (size_t)count;
  }
  count_for_collector(L, size);
  buffer = new_handle(L);
  bytes = baton_bytes_new(size);
  if (bytes == NULL) luaL_error(L, "not enough memory");
  if (text != NULL) memcpy(bytes->memory, text, size);
  set_bytes(buffer, bytes, 0, size);
  return 1;
}

static int buffer_gc(lua_State *L) {
  struct buffer *buffer = (struct buffer *)baton_shared_check(L, 1, BATON_SEALED_BUFFER);
  struct baton_bytes *bytes = buffer->bytes;
  if (bytes == NULL) return 0;
  /* a finalizer of the program may still have the handle */
  buffer->bytes = NULL;
  baton_bytes_release(bytes);
  return 0;
}

/* }====================================================== */

/* {======================================================
** Bytes and numbers
** ======================================================= */

enum number { U8, I8, U16, I16, U32, I32, U64, I64, F32, F64 };
static const char *const number_names[] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64", NULL};
static const size_t number_sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

/* The place of a number of `size` bytes at argument 2. */
static unsigned char *check_place(lua_State *L, const struct buffer *buffer, size_t size) {
  const lua_Integer place = luaL_checkinteger(L, 2);
  if (place < 1 || (lua_Unsigned)place > buffer->length ||
      size > buffer->length - ((size_t)place - 1))
    luaL_argerror(L, 2, "position is out of the buffer");
  return baton_shared_bytes_of(buffer) + place - 1;
}

static int buffer_get(lua_State *L) {
  const struct buffer *buffer = baton_shared_check_buffer(L, 1);
  const int type = luaL_checkoption(L, 3, "u8", number_names);
  const unsigned char *at = check_place(L, buffer, number_sizes[type]);
  union { uint64_t u; int64_t i; uint16_t u16; uint32_t u32; float f; double d; } value = {0};
  memcpy(&value, at, number_sizes[type]);
  switch ((enum number)type) {
    case U8: lua_pushinteger(L, *at); break;
    case I8: lua_pushinteger(L, (signed char)*at); break;
    case U16: lua_pushinteger(L, value.u16); break;
    case I16: lua_pushinteger(L, (int16_t)value.u16); break;
    case U32: lua_pushinteger(L, value.u32); break;
    case I32: lua_pushinteger(L, (int32_t)value.u32); break;
    case U64: case I64: lua_pushinteger(L, value.i); break;
    case F32: lua_pushnumber(L, (lua_Number)value.f); break;
    case F64: lua_pushnumber(L, (lua_Number)value.d); break;
  }
  return 1;
}

static int buffer_set(lua_State *L) {
  const struct buffer *buffer = baton_shared_check_writable(L);
  const int type = luaL_checkoption(L, 4, "u8", number_names);
  unsigned char *at = check_place(L, buffer, number_sizes[type]);
  if (type == F64) {
    const double number = luaL_checknumber(L, 3);
    memcpy(at, &number, sizeof number);
  } else if (type == F32) {
    const float number = (float)luaL_checknumber(L, 3);
    memcpy(at, &number, sizeof number);
  } else {
    const lua_Integer integer = luaL_checkinteger(L, 3);
    const int bits = (int)number_sizes[type] * 8, is_signed = type % 2;
    const lua_Integer limit = bits == 64 ? 0 : (lua_Integer)1 << (bits - is_signed);
    luaL_argcheck(L, bits == 64 || (integer < limit && integer >= (is_signed ? -limit : 0)), 3,
        "number does not fit");
    switch (number_sizes[type]) {
      case 1: *at = (unsigned char)integer; break;
      case 2: { const uint16_t low = (uint16_t)integer; memcpy(at, &low, sizeof low); break; }
      case 4: { const uint32_t low = (uint32_t)integer; memcpy(at, &low, sizeof low); break; }
      default: memcpy(at, &integer, sizeof integer); break;
    }
  }
  return 0;
}

/* Reads the range at arguments 2 and 3, as string.sub does. */
static void check_range(
    lua_State *L, const struct buffer *buffer, size_t *offset, size_t *length) {
  const lua_Integer size = (lua_Integer)buffer->length;
  lua_Integer first = luaL_optinteger(L, 2, 1), last = luaL_optinteger(L, 3, -1);
  if (first < 0) first = first < -size ? 1 : size + first + 1;
  if (first == 0) first = 1;
  if (last < 0) last = last < -size ? 0 : size + last + 1;
  if (last > size) last = size;
  *length = first > last ? 0 : (size_t)(last - first + 1);
  *offset = *length == 0 ? 0 : (size_t)first - 1;
}

static int buffer_string(lua_State *L) {
  const struct buffer *buffer = baton_shared_check_buffer(L, 1);
  size_t offset, length;
  check_range(L, buffer, &offset, &length);
  lua_pushlstring(L, (const char *)baton_shared_bytes_of(buffer) + offset, length);
  return 1;
}

static int buffer_slice(lua_State *L) {
  const struct buffer *buffer = baton_shared_check_buffer(L, 1);
  size_t offset, length;
  check_range(L, buffer, &offset, &length);
  baton_bytes_hold(buffer->bytes);
  baton_shared_push_buffer(L, buffer->bytes, buffer->offset + offset, length);
  return 1;
}

static int buffer_length(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)baton_shared_check_buffer(L, 1)->length);
  return 1;
}

static int buffer_pointer(lua_State *L) {
  lua_pushlightuserdata(L, baton_shared_bytes_of(baton_shared_check_buffer(L, 1)));
  return 1;
}

static int buffer_freeze(lua_State *L) {
  baton_bytes_freeze(baton_shared_check_buffer(L, 1)->bytes);
  lua_settop(L, 1);
  return 1;
}

static int buffer_is_frozen(lua_State *L) {
  lua_pushboolean(L, baton_bytes_are_frozen(baton_shared_check_buffer(L, 1)->bytes));
  return 1;
}

void *baton_sharing_buffer_at(lua_State *L, int index, int *is_const) {
  const struct buffer *buffer;
  if (baton_lua_test_sealed(L, index, BATON_SEALED_BUFFER) == NULL) return NULL;
  buffer = baton_shared_check_buffer(L, index);
  *is_const = baton_bytes_are_frozen(buffer->bytes);
  return baton_shared_bytes_of(buffer);
}

/* }====================================================== */

/* {======================================================
** Sending
** ======================================================= */

/* A part of some bytes, with a reference to them. */
struct part {
  struct baton_bytes *bytes;
  size_t offset, length;
};

static struct part *new_part(struct baton_bytes *bytes, size_t offset, size_t length) {
  struct part *part = malloc(sizeof *part);
  if (part == NULL) return NULL;
  part->bytes = bytes;
  part->offset = offset;
  part->length = length;
  baton_bytes_hold(bytes);
  return part;
}

static struct part *part_of(const struct buffer *buffer) {
  return new_part(buffer->bytes, buffer->offset, buffer->length);
}

static void *hold_part_again(void *object) {
  const struct part *part = object;
  return new_part(part->bytes, part->offset, part->length);
}

static void release_part(void *object) {
  struct part *part = object;
  baton_bytes_release(part->bytes);
  free(part);
}

static void release_bytes(void *bytes) { baton_bytes_release(bytes); }

void baton_shared_push_buffer(
    lua_State *L, struct baton_bytes *bytes, size_t offset, size_t length) {
  baton_shared_push(L, BATON_SEALED_BUFFER, sizeof(struct buffer), bytes, release_bytes);
  set_bytes(lua_touserdata(L, -1), bytes, offset, length);
}

static void push_part(lua_State *L, void *object) {
  struct part *part = object;
  const struct part taken = *part;
  free(part);
  baton_shared_push_buffer(L, taken.bytes, taken.offset, taken.length);
}

static int is_buffer(lua_State *L, int index) {
  return baton_lua_test_sealed(L, index, BATON_SEALED_BUFFER) != NULL;
}

/* Why a buffer cannot be sent at all. */
static const char *why_not(const struct buffer *buffer) {
  if (buffer->bytes == NULL) return "it was collected";
  return is_moved(buffer) ? "it was moved" : NULL;
}

static void *hold_buffer(lua_State *L, int index, const char **why) {
  const struct buffer *buffer = baton_lua_test_sealed(L, index, BATON_SEALED_BUFFER);
  *why = why_not(buffer);
  if (*why != NULL) return NULL;
  *why = "neither moved nor frozen: send vm.move(b), or call b:freeze()";
  if (!baton_bytes_are_frozen(buffer->bytes)) return NULL;
  *why = "not enough memory";
  return part_of(buffer);
}

static void check_movable(lua_State *L, int index) { baton_shared_check_buffer(L, index); }

static void *take_buffer(lua_State *L, int index, const char **why) {
  const struct buffer *buffer = baton_lua_test_sealed(L, index, BATON_SEALED_BUFFER);
  struct part *part;
  *why = why_not(buffer);
  if (*why != NULL) return NULL;
  *why = "not enough memory";
  part = part_of(buffer);
  if (part != NULL) baton_bytes_set_owner(buffer->bytes, buffer->owner + 1);
  return part;
}

static void restore_buffer(void *object) {
  struct part *part = object;
  baton_bytes_set_owner(part->bytes, baton_bytes_owner(part->bytes) - 1);
  release_part(part);
}

void baton_shared_install_buffers(void) {
  static const luaL_Reg methods[] = {{"get", buffer_get}, {"set", buffer_set},
      {"string", buffer_string}, {"slice", buffer_slice}, {"pointer", buffer_pointer},
      {"freeze", buffer_freeze}, {"is_frozen", buffer_is_frozen}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {
      {"__gc", buffer_gc}, {"__len", buffer_length}, {NULL, NULL}};
  static const struct baton_sendable kind = {
      is_buffer, hold_buffer, push_part, release_part, hold_part_again, NULL};
  static const struct baton_movable movable = {
      is_buffer, check_movable, take_buffer, push_part, restore_buffer};
  baton_shared_install_kind(BATON_SEALED_BUFFER, methods, metamethods);
  baton_copy_register(&kind);
  baton_move_register(&movable);
}

/* }====================================================== */
