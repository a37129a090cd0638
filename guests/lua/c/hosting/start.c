/*
** A state that a program embeds: how it is made, and the start of its VM.
*/
#include "seam/internals.h"
#include "hosting/hosting.h"
#include "copying/copying.h"
#include "process/process.h"
#include "program/program.h"
#include "state/state.h"
#include "vms/vms.h"
#include "lualib.h"
#include "baton_lua.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The renamed original. */
LUALIB_API lua_State *baton_stock_newstate(void);

/* {======================================================
** The start
** ======================================================= */

/* Called when a thread that is in no process of the state's VM uses the state. Its gate says that
   it is inside: that is true at the end, if the VM is hosted. */
static void come(lua_State *L) {
  struct baton_lua_vm *vm = baton_hosted_vm_of(L);
  if (vm == NULL || vm->closing || baton_gate_here()->carrier != 0) return;
  if (!baton_host_is_at_home(vm->host)) {
    baton_lua_warn("baton: a Lua state with processes is used on another thread than the one that "
                   "started them. Have that thread make the call, or start a VM for this one "
                   "(require \"baton.vm\").\n");
    abort();
  }
  baton_host_come(vm->host);
}

static void install(void) {
  baton_vms_install();
  baton_lua_install_guest(baton_host_keep_place);
  baton_seam_hooks.host_closes = baton_hosted_close;
  baton_seam_hooks.host_enters = baton_hosted_enter;
  baton_seam_hooks.host_comes = come;
}

/* Ends a VM that has just been made. Outside the VM, before it has a main process of its own. */
static void give_up(lua_State *L, struct baton_lua_vm *vm) {
  baton_hosted_remove(vm);
  baton_lua_enter(L);
  baton_lua_stop(vm->executor);
  baton_host_end(vm->host);
}

/* Makes the records and the VM. Raises an error. */
static struct baton_process *make(lua_State *L) {
  char message[BATON_MESSAGE] = "not enough memory";
  struct baton_lua_vm *vm = baton_lua_make_vm("lua");
  struct baton_process *process;
  if (vm == NULL) luaL_error(L, "%s", message);
  process = baton_lua_make_main(vm, NULL);
  if (process == NULL) {
    baton_lua_free_vm(vm);
    luaL_error(L, "%s", message);
  }
  vm->main = G(L)->mainthread;
  vm->global = G(L);
  process->L = vm->main;
  process->global = vm->global;
  process->keeps_thread = 1;
  /* Its stack is the program's, and may be any: no other process is ever on it. */
  process->stack_guard = process->stack_low = 1;
  process->stack_high = INTPTR_MAX;
  vm->host = baton_host_new(vm, process, message, sizeof message); /* or frees the record */
  if (vm->host == NULL) {
    free(process);
    luaL_error(L, "cannot start processes: %s", message);
  }
  if (!baton_hosted_add(vm)) {
    baton_host_come(vm->host);
    baton_lua_stop(vm->executor);
    baton_host_end(vm->host);
    free(process);
    luaL_error(L, "not enough memory");
  }
  return process;
}

/* The argument is the first record. */
static int open_all(lua_State *L) {
  lua_pushcfunction(L, baton_lua_open_vm);
  lua_insert(L, 1);
  lua_call(L, 1, 0);
  baton_lua_adapt(L);
  return 0;
}

/* The parts that are written in Lua use the libraries. A program may take them from its scripts
   afterwards, and leave them in the registry's table of modules. */
static void check_libraries(lua_State *L) {
  static const char *const libraries[] = {LUA_GNAME, LUA_LOADLIBNAME, LUA_COLIBNAME, LUA_TABLIBNAME,
      LUA_IOLIBNAME, LUA_OSLIBNAME, LUA_STRLIBNAME, LUA_MATHLIBNAME, LUA_UTF8LIBNAME,
      LUA_DBLIBNAME};
  size_t i;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    if (!lua_istable(L, -1) || lua_getfield(L, -1, libraries[i]) != LUA_TTABLE)
      luaL_error(L, "processes need Lua's library '%s': open all of them (luaL_openlibs) before",
          libraries[i]);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void baton_hosted_start(lua_State *L) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  struct baton_process *process;
  struct baton_lua_vm *vm = baton_hosted_vm_of(L);
  int failed;
  if (vm != NULL) return;
  if (L != G(L)->mainthread)
    luaL_error(L, "processes cannot be started in a coroutine: require 'baton.process' before");
  if (baton_gate_here()->carrier != 0)
    luaL_error(L, "cannot start processes: this thread is in another state with processes");
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  check_libraries(L);
  if ((failed = baton_host_handle_signals()) != 0)
    luaL_error(L, "cannot handle signals: %s", strerror(failed));
  pthread_once(&once, install);
  process = make(L);
  vm = process->vm;
  baton_host_come(vm->host);
  baton_lua_leave(L);
  lua_pushcfunction(L, open_all);
  lua_pushlightuserdata(L, process);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) {
    free(process); /* its copy is in the handle */
    return;
  }
  /* The handle may have the record's copy: the VM ends with neither. */
  if (vm->main_process == NULL) free(process);
  give_up(L, vm);
  lua_error(L);
}

/* }====================================================== */

/* {======================================================
** New states
** ======================================================= */

static const char *const starters[] = {"baton.process", "baton.vm", "baton.ffi", "baton.inspect",
    "baton.cluster", "baton.json", "baton.json.safe", "baton.log", "baton.net", "baton.web", NULL};

/* The loader of a module that needs processes: starts them, and opens it. */
static int start_and_open(lua_State *L) {
  lua_settop(L, 1);
  baton_hosted_start(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushvalue(L, 1);
  lua_rawget(L, 2); /* what the start has put there */
  lua_pushvalue(L, 1);
  lua_pushliteral(L, ":preload:");
  lua_call(L, 2, 1);
  return 1;
}

static int prepare(lua_State *L) {
  const char *const *name;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (name = starters; *name != NULL; name++) {
    lua_pushcfunction(L, start_and_open);
    lua_setfield(L, -2, *name);
  }
  return 0;
}

/* Lets the state have processes. Returns it, or NULL if there is no memory. */
static lua_State *prepared(lua_State *L) {
  if (L == NULL || baton_lua_is_interpreter()) return L;
  lua_pushcfunction(L, prepare);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

LUALIB_API lua_State *luaL_newstate(void) { return prepared(baton_stock_newstate()); }

lua_State *baton_lua_newstate(lua_Alloc allocator, void *argument) {
  if (allocator == NULL) return luaL_newstate();
  return prepared(lua_newstate(allocator, argument));
}

static int start(lua_State *L) {
  baton_hosted_start(L);
  return 0;
}

int baton_lua_start(lua_State *L) {
  lua_pushcfunction(L, start);
  return lua_pcall(L, 0, 0, 0);
}

/* }====================================================== */
