/*
** b:pack and b:unpack, by the formats of string.pack. Alignment counts from the given position.
**
** Lua's own functions do it, which this file notes before a program can replace them. They are at
** the same addresses in all VMs. So packing makes a string of what is written, and unpacking one of
** what is read: of the format's size, or, for a format without a fixed size, of a piece that grows
** until it is long enough. A format that alone needs more room than there is is not packed.
*/
#include "sharing/buffers.h"
#include "lualib.h"

#include <string.h>

#define FIRST_PIECE 256

/* Lua's functions. Written when the program's first state is opened, and not later. */
static lua_CFunction pack, unpack, packsize;

/* The position at argument `index`, from 0. One behind the end is a position, too. */
static size_t check_position(lua_State *L, int index, const struct buffer *buffer) {
  const lua_Integer position = luaL_optinteger(L, index, 1);
  if (position < 1 || (lua_Unsigned)position > buffer->length + (lua_Unsigned)1)
    luaL_argerror(L, index, "position is out of the buffer");
  return (size_t)position - 1;
}

/* Raises an error if what is written by the format at index 2 is longer than `room`, whatever its
   strings are. Only an option 'c' makes it long. */
static void check_room(lua_State *L, size_t room) {
  const char *format = lua_tostring(L, 2);
  luaL_Buffer fixed;
  if (strchr(format, 'c') == NULL) return;
  lua_pushcfunction(L, packsize);
  luaL_buffinit(L, &fixed); /* the format without strings that have any length */
  while (*format != '\0') {
    const char option = *format++;
    if (option != 's' && option != 'z') luaL_addchar(&fixed, option);
    if (option == 's') format += strspn(format, "0123456789");
  }
  luaL_pushresult(&fixed);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK)
    luaL_argcheck(L, (lua_Unsigned)lua_tointeger(L, -1) <= room, 3, "the buffer is too short");
  else if (strstr(luaL_optstring(L, -1, ""), "too large") != NULL)
    luaL_argerror(L, 3, "the buffer is too short");
  lua_pop(L, 1); /* packing raises other errors itself */
}

/* b:pack(format, position, ...) -> the position behind it */
static int buffer_pack(lua_State *L) {
  const struct buffer *buffer = baton_shared_check_writable(L);
  size_t position, size;
  const char *text;
  luaL_checkstring(L, 2);
  luaL_checkinteger(L, 3);
  position = check_position(L, 3, buffer);
  check_room(L, buffer->length - position);
  lua_pushcfunction(L, pack);
  lua_replace(L, 3);
  lua_pushvalue(L, 2);
  lua_insert(L, 4);
  lua_call(L, lua_gettop(L) - 3, 1);
  /* a metamethod may have moved the buffer meanwhile */
  buffer = baton_shared_check_writable(L);
  text = lua_tolstring(L, -1, &size);
  luaL_argcheck(L, size <= buffer->length - position, 3, "the buffer is too short");
  memcpy(baton_shared_bytes_of(buffer) + position, text, size);
  lua_pushinteger(L, (lua_Integer)(position + size) + 1);
  return 1;
}

/* The size of the format at index 2, or -1 if it has none. */
static lua_Integer size_of_format(lua_State *L) {
  lua_Integer size = -1;
  lua_pushcfunction(L, packsize);
  lua_pushvalue(L, 2);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) size = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return size;
}

/* Calls string.unpack for `size` bytes at `position`. */
static int unpack_piece(lua_State *L, size_t position, size_t size) {
  const struct buffer *buffer = baton_shared_check_buffer(L, 1);
  lua_settop(L, 3);
  lua_pushcfunction(L, unpack);
  lua_pushvalue(L, 2);
  lua_pushlstring(L, (const char *)baton_shared_bytes_of(buffer) + position, size);
  return lua_pcall(L, 2, LUA_MULTRET, 0);
}

/* b:unpack(format, [position=1]) -> values..., the position behind them */
static int buffer_unpack(lua_State *L) {
  const struct buffer *buffer = baton_shared_check_buffer(L, 1);
  size_t position, left, size;
  lua_Integer fixed;
  luaL_checkstring(L, 2);
  position = check_position(L, 3, buffer);
  left = buffer->length - position;
  lua_settop(L, 3);
  fixed = size_of_format(L);
  size = fixed >= 0 ? (size_t)fixed : FIRST_PIECE;
  while (unpack_piece(L, position, size < left ? size : left) != LUA_OK) {
    if (size >= left || fixed >= 0) return lua_error(L);
    size = size > left / 4 ? left : size * 4;
  }
  lua_pushinteger(L, lua_tointeger(L, -1) + (lua_Integer)position);
  lua_replace(L, -2);
  return lua_gettop(L) - 3;
}

void baton_shared_install_formats(void) {
  static const luaL_Reg methods[] = {
      {"pack", buffer_pack}, {"unpack", buffer_unpack}, {NULL, NULL}};
  baton_shared_add_methods(BATON_SEALED_BUFFER, methods);
}

/* The function of that name in the table on the top of the stack. */
static lua_CFunction function_named(lua_State *L, const char *name) {
  lua_CFunction function;
  lua_getfield(L, -1, name);
  function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  return function;
}

void baton_shared_note_formats(lua_State *L) {
  if (packsize != NULL) return;
  lua_getglobal(L, LUA_STRLIBNAME);
  pack = function_named(L, "pack");
  unpack = function_named(L, "unpack");
  packsize = function_named(L, "packsize");
  lua_pop(L, 1);
}
