/*
** The module's functions that make shared objects.
*/
#include "sharing/inside.h"

void baton_sharing_install(void) {
  baton_shared_install_channels();
  baton_shared_install_words();
  baton_shared_install_buffers();
  baton_shared_install_formats();
  baton_shared_install_moving();
  baton_shared_install_dict();
}

void baton_sharing_open(lua_State *L) { baton_shared_note_formats(L); }

void baton_sharing_functions(lua_State *L) {
  static const luaL_Reg functions[] = {{"channel", baton_shared_new_channel},
      {"shared", baton_shared_new_words}, {"buffer", baton_shared_new_buffer},
      {"move", baton_shared_move}, {"dict", baton_shared_new_dict}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
