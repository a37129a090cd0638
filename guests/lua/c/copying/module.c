/*
** The functions of `baton.vm` that copy values.
*/
#include "copying/block.h"

void baton_copying_functions(lua_State *L) {
  static const luaL_Reg functions[] = {{"class", baton_copy_class}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
