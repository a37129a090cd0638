/*
** require "baton.vm".
*/
#include "vms/vms.h"
#include "program/program.h"
#include "copying/copying.h"
#include "sharing/sharing.h"

static int open_module(lua_State *L) {
  lua_newtable(L);
  baton_copying_functions(L);
  baton_sharing_functions(L);
  return 1;
}

void baton_vms_install(void) {
  baton_lua_note_vm_module(open_module);
  baton_sharing_install();
}
