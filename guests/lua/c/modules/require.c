/*
** require: each module is loaded once. Other processes that require it meanwhile wait. If the load
** fails, they load it themselves. A compiled module is opened on a Lua state that lives as long as
** the VM. Many modules keep the state that they were opened with.
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "ffi/ffi.h"
#include "io/io.h"
#include "json/json.h"
#include "process/process.h"
#include "calls/calls.h"
#include "state/state.h"
#include "lualib.h"

#include <stdio.h>
#include <string.h>

/* A load in progress: on the C stack of the require that does it, and listed in its VM. Guarded by
   the VM lock. */
struct baton_load {
  struct baton_load *next;
  struct baton_process *loader;
  const char *name; /* points into the string that is require's argument */
};

/* {======================================================
** Compiled modules
** ======================================================= */

/* Calls the opening function (upvalue 1) with its arguments on a new state that is never
   collected. */
static int open_on_permanent_state(lua_State *L) {
  int arguments = lua_gettop(L), status;
  lua_State *permanent = lua_newthread(L);
  baton_lua_keep_private(L, permanent);
  if (arguments > 0)
    lua_pushvalue(L, 1); /* the module's name, from require: it stays here */
  else
    lua_pushnil(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_rotate(L, 1, 2);
  lua_xmove(L, permanent, arguments + 1);
  permanent->nCcalls = getCcalls(L);
  permanent->base_ci.callstatus |= BATON_BASE_IS_PERMANENT;
  status = lua_pcall(permanent, arguments, LUA_MULTRET, 0);
  if (status != LUA_OK) {
    lua_xmove(permanent, L, 1);
    return lua_error(L);
  }
  arguments = lua_gettop(permanent);
  luaL_checkstack(L, arguments + 4, "too many results");
  lua_settop(L, 1); /* the module's name */
  lua_xmove(permanent, L, arguments);
  if (lua_type(L, 1) == LUA_TSTRING)
    baton_lua_module_loaded(
        L, lua_tostring(L, 1), lua_tocfunction(L, lua_upvalueindex(1)), arguments > 0 ? 2 : 1);
  return arguments;
}

/*
** coroutine.running. A module may call back on its permanent state. That state is not a coroutine
** and cannot yield. There, the function returns the calling process's own state, and says that it
** is the main one, as under `lua`.
*/
static int running(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  int is_main = lua_pushthread(L);
  if (!is_main && process != NULL) {
    baton_lua_push_private(L, L);
    is_main = lua_isthread(L, -1);
    lua_pop(L, 1);
    if (is_main) {
      baton_lua_enter(L);
      setthvalue(L, s2v(L->top.p - 1), process->L);
      process->shows_thread = 1;
      baton_lua_leave(L);
    }
  }
  lua_pushboolean(L, is_main);
  return 2;
}

/* The loader of the module "ffi", if the environment asks for it. Programs that find this module
   take their interpreter for LuaJIT. */
static int require_ffi(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "baton.ffi");
  lua_call(L, 1, 1);
  return 1;
}

void baton_lua_offer_ffi(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, require_ffi);
  lua_setfield(L, -2, "ffi");
  lua_pop(L, 1);
}

/* Wraps a searcher of package.searchers (upvalue 1) whose loaders may be C functions of modules. */
static int search(lua_State *L) {
  int results;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, LUA_MULTRET);
  results = lua_gettop(L);
  if (results > 0 && lua_iscfunction(L, 1) && !baton_lua_is_ours(lua_tocfunction(L, 1))) {
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, open_on_permanent_state, 1);
    lua_replace(L, 1);
  }
  return results;
}

/* }====================================================== */

/* {======================================================
** require
** ======================================================= */

/*
** Leaves the loader and its data on the top of the stack, or raises an error with the messages of
** all searchers. The table of searchers and the buffer stay below them until the caller returns.
** They must not be moved: the buffer may be a to-be-closed slot.
*/
static void find_loader(lua_State *L, const char *name) {
  luaL_Buffer said;
  int i;
  if (lua_getfield(L, lua_upvalueindex(1), "searchers") != LUA_TTABLE)
    luaL_error(L, "'package.searchers' must be a table");
  luaL_buffinit(L, &said);
  for (i = 1; lua_rawgeti(L, 3, i) != LUA_TNIL; i++) {
    lua_pushstring(L, name);
    lua_call(L, 1, 2);
    if (lua_isfunction(L, -2)) return;
    lua_pop(L, 1);
    if (lua_isstring(L, -1)) {
      lua_pushliteral(L, "\n\t");
      lua_insert(L, -2);
      lua_concat(L, 2);
      luaL_addvalue(&said);
    } else {
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
  if (strcmp(name, "ffi") == 0)
    luaL_addstring(&said, "\n\tno BATON_FFI=1 in the environment, which names 'baton.ffi' so");
  luaL_pushresult(&said);
  luaL_error(L, "module '%s' not found:%s", name, lua_tostring(L, -1));
}

static void raise_cycle(
    lua_State *L, struct baton_process *caller, struct baton_process *loader, const char *name) {
  baton_lua_push_title(L, caller);
  baton_lua_push_title(L, loader);
  luaL_error(L,
      "cycle in require: %s wants module '%s', which %s is loading; but that one waits for module "
      "'%s', "
      "and so for %s",
      lua_tostring(L, -2), name, lua_tostring(L, -1), loader->wanted, lua_tostring(L, -2));
}

/* The other process that is loading the module, or NULL. */
static struct baton_process *other_loader(struct baton_process *caller, const char *name) {
  const struct baton_load *load = caller->vm->loads;
  while (load != NULL && strcmp(load->name, name) != 0) load = load->next;
  return load != NULL && load->loader != caller ? load->loader : NULL;
}

/* Waits while another process loads the module. Returns whether it is loaded; if so, its value is
   on the top of the stack. */
static int wait_while_loading(lua_State *L, struct baton_process *caller, const char *name) {
  for (;;) {
    struct baton_process *loader, *link;
    struct baton_wake wake;
    lua_getfield(L, 2, name);
    if (lua_toboolean(L, -1)) return 1;
    lua_pop(L, 1);
    loader = caller != NULL ? other_loader(caller, name) : NULL;
    if (loader == NULL) return 0;
    for (link = loader; link != NULL; link = link->waiting_for)
      if (link == caller) raise_cycle(L, caller, loader, name);
    baton_lua_check_may_wait(L, caller);
    baton_lua_push_process(L, loader); /* keeps it alive while `waiting_for` names it */
    caller->waiting_for = loader;
    caller->wanted = name;
    baton_lua_enter(L);
    wake = baton_queue_wait(caller->vm->executor, caller->vm->require_queue, BATON_FOREVER);
    baton_lua_leave(L);
    caller->waiting_for = NULL;
    lua_pop(L, 1);
    baton_lua_after_wait(L, caller, wake);
  }
}

/* Stack: name, table of loaded modules. Leaves the module and its loader's data on the top. */
static void load_module(lua_State *L, const char *name) {
  find_loader(L, name);
  lua_rotate(L, -2, 1);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -3);
  lua_call(L, 2, 1);
  baton_lua_adapt_module(L, name);
  if (!lua_isnil(L, -1))
    lua_setfield(L, 2, name);
  else
    lua_pop(L, 1);
  if (lua_getfield(L, 2, name) == LUA_TNIL) {
    lua_pushboolean(L, 1);
    lua_copy(L, -1, -2);
    lua_setfield(L, 2, name);
  }
  lua_rotate(L, -2, 1);
}

static void load_listed(lua_State *L, void *load) {
  load_module(L, ((struct baton_load *)load)->name);
}

/* Ends a load and wakes the processes that wait for it; they check again. Inside the VM. */
static void end_load(struct baton_lua_vm *vm, struct baton_load *load) {
  struct baton_load **link = &vm->loads;
  while (*link != load) link = &(*link)->next;
  *link = load->next;
  baton_queue_wake_all(vm->executor, vm->require_queue);
}

/*
** Loads a module in the list of loads, where others see it. They are woken however the load ends. A
** `<close>` variable could not do that: a coroutine that ends with an error does not close its
** variables. lua_pcall cannot do it: message handlers must run where the error is raised.
*/
static void load_for_all(lua_State *L, struct baton_process *caller, const char *name) {
  struct baton_lua_vm *vm = caller->vm;
  struct baton_load load = {NULL, caller, name};
  int status;
  baton_lua_enter(L);
  load.next = vm->loads;
  vm->loads = &load;
  baton_lua_leave(L);
  status = luaD_rawrunprotected(L, load_listed, &load);
  if (status == LUA_OK) baton_lua_enter(L); /* an error is caught inside the VM */
  end_load(vm, &load);
  if (status != LUA_OK) luaD_throw(L, status);
  baton_lua_leave(L);
}

/* In a fork's child, the loads of the other processes never end: removes them. */
void baton_lua_keep_loads_of(struct baton_process *survivor) {
  struct baton_load **link = &survivor->vm->loads;
  while (*link != NULL) {
    if ((*link)->loader == survivor)
      link = &(*link)->next;
    else
      *link = (*link)->next;
  }
}

static int require(lua_State *L) {
  struct baton_process *caller = baton_lua_here(L);
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (wait_while_loading(L, caller, name)) return 1;
  if (caller != NULL && caller->vm->main_process != NULL)
    load_for_all(L, caller, name);
  else
    load_module(L, name);
  return 2;
}

/* }====================================================== */

void baton_lua_open_require(lua_State *L) {
  int i;
  baton_lua_note_exception_globals(); /* of an executable that is linked with the C++ runtime */
  if (lua_getglobal(L, LUA_COLIBNAME) == LUA_TTABLE) {
    lua_pushcfunction(L, running);
    lua_setfield(L, -2, "running");
  }
  lua_pop(L, 1);
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, require, 1);
  lua_setglobal(L, "require");
  lua_getfield(L, -1, "searchers");
  for (i = 1; i <= 4; i++) {
    if (i == 2) continue; /* its loaders are Lua functions */
    lua_rawgeti(L, -1, i);
    /* it loads libraries; its data belong to the call, or are behind the API */
    if (i > 2) baton_lua_note_function(lua_tocfunction(L, -1));
    lua_pushcclosure(L, search, 1);
    lua_rawseti(L, -2, i);
  }
  lua_getfield(L, -2, "preload");
  lua_pushcfunction(L, baton_lua_open_process);
  lua_setfield(L, -2, "baton.process");
  lua_pushcfunction(L, baton_lua_open_ffi);
  lua_setfield(L, -2, "baton.ffi");
  lua_pushcfunction(L, baton_lua_open_inspect);
  lua_setfield(L, -2, "baton.inspect");
  lua_pushcfunction(L, baton_json_open);
  lua_setfield(L, -2, "baton.json");
  lua_pushcfunction(L, baton_json_open_safe);
  lua_setfield(L, -2, "baton.json.safe");
  lua_pushcfunction(L, baton_lua_open_log);
  lua_setfield(L, -2, "baton.log");
  lua_pop(L, 3);
}
