/*
** The function of lua/vm.lua with which a VM begins. Programs do not see it.
*/
#include "vms/vms.h"

static char serve_key;

void baton_vms_keep_serve(lua_State *L) { baton_lua_keep_private(L, &serve_key); }

void baton_vms_push_serve(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "baton.vm");
  lua_call(L, 1, 0);
  baton_lua_push_private(L, &serve_key);
}
