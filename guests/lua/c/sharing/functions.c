/*
** The module's functions that make shared objects.
*/
#include "sharing/inside.h"

void baton_sharing_install(void) {
  baton_shared_install_channels();
  baton_shared_install_words();
}

void baton_sharing_open(lua_State *L) {
  baton_shared_open_channels(L);
  baton_shared_open_words(L);
}

void baton_sharing_functions(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"channel", baton_shared_new_channel}, {"shared", baton_shared_new_words}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
