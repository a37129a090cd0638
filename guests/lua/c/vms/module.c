/*
** require "baton.vm". The functions about VMs are in Lua (lua/vm.lua), so the processes that wait
** in them wait as any other.
*/
#include "vms/vms.h"
#include "io/io.h"
#include "modules/modules.h"
#include "net/net.h"
#include "process/process.h"
#include "program/program.h"
#include "sharing/sharing.h"

/* Pushes the id and the name of this VM. */
static int this_vm(lua_State *L) {
  const struct baton_vm_start *start = baton_lua_here(L)->vm->start;
  lua_pushinteger(L, start != NULL ? (lua_Integer)start->id : 1);
  lua_pushstring(L, start != NULL ? start->name : "main");
  return 2;
}

/* halt(id, seconds): whether the VM has ended, or was halted. Called outside of the VM. */
static int halt(lua_State *L) {
  const lua_Integer id = luaL_checkinteger(L, 1);
  const lua_Number seconds = luaL_checknumber(L, 2);
  lua_pushboolean(L, baton_vms_halt((uint64_t)id, (uint64_t)(seconds * 1e9)));
  return 1;
}

/* load_workers(module). What they share with vm.lua is upvalue 1. */
static int load_workers(lua_State *L) {
  baton_lua_load_part(L, "vm_workers", "=baton.vm");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  baton_lua_run_part(L, 2, 0);
  return 0;
}

static int open_module(lua_State *L) {
  static const luaL_Reg functions[] = {{"start", baton_vms_start_one}, {"this", this_vm},
      {"halt", halt}, {"cores", baton_vms_cores}, {"list", baton_vms_list},
      {"is_waiting", baton_vms_is_waiting}, {"is_shared", baton_sharing_is_shared},
      {"refuse", baton_lua_refuse_argument}, {"type_given", baton_lua_type_given},
      {"raise", baton_lua_raise_with_trace}, {NULL, NULL}};
  static const char *const of_workers[] = {"map", "pool", NULL};
  lua_settop(L, 0);
  lua_newtable(L);
  baton_copying_functions(L);
  baton_sharing_functions(L);
  if (baton_lua_here(L) == NULL) return 1; /* a state of C code's own, without processes */
  luaL_newlib(L, functions);
  baton_lua_load_part(L, "vm", "=baton.vm");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  baton_lua_run_part(L, 2, 1); /* its function serve */
  baton_vms_keep_serve(L);
  lua_getfield(L, 2, "builtin");
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, load_workers, 1);
  baton_lua_load_later(L, of_workers, 3);
  lua_settop(L, 1);
  return 1;
}

void baton_vms_install(void) {
  baton_lua_note_vms(open_module, baton_vms_forget_start, baton_vms_halt_others);
  baton_sharing_install();
  baton_io_install();
  baton_modules_install();
  baton_net_install_kinds();
}
