/*
** The half of the module in C.
**
** cluster.h, module.c   the engine (src/lua.rs) for the files of lua/
** pack.c                a value becomes bytes
** unpack.c              bytes become a value
**
** Everything else is in Lua (lua/), so the processes that wait can be killed, and
** others go on.
**
** Values are MessagePack behind one byte, the version. In version 2, a map comes before the value:
** the work that it belongs to (lua/work.lua). Strings are `str` if they are UTF-8, else
** `bin`; both become strings. A table with the keys 1 to n is an array, any other one a map, and an
** empty one an array. Integers have 64 bits, all floats are `float 64`. There is no code, and no
** extension type.
*/
#ifndef BATON_CLUSTER_H
#define BATON_CLUSTER_H

#include "baton.h"
#include "baton_module.h"
#include "lauxlib.h"

/* module.c */
/* Opens the module. */
int baton_cluster_open(lua_State *L);

#define BATON_VALUES_VERSION 1
#define BATON_VALUES_WITH_WORK 2 /* the version of those that follow a map */
#define BATON_VALUES_DEPTH 100 /* tables within tables */

/* pack.c */
/* pack(name, value) -> bytes. `name` is how the error calls the value. */
int baton_cluster_pack(lua_State *L);
/* pack_list(name, ...) -> bytes of an array of all values, nil included. */
int baton_cluster_pack_list(lua_State *L);

/* unpack.c */
/* unpack(bytes) -> true, value; or false, what is wrong */
int baton_cluster_unpack(lua_State *L);
/* unpack_list(bytes) -> true, values of the array...; or false, what is wrong */
int baton_cluster_unpack_list(lua_State *L);
/* work_of(bytes) -> the map before the value, or nil */
int baton_cluster_work_of(lua_State *L);

#endif
