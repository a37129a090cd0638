/*
** Lua's libraries, with what processes need of them.
*/
#include "seam/internals.h"
#include "program/program.h"
#include "calls/calls.h"
#include "copying/copying.h"
#include "http/http.h"
#include "io/io.h"
#include "modules/modules.h"
#include "net/net.h"
#include "process/process.h"
#include "sharing/sharing.h"
#include "state/state.h"
#include "lualib.h"

#include <stdlib.h>
#include <string.h>

static int is_open(lua_State *L, const char *library) {
  const int is_table = lua_getglobal(L, library) == LUA_TTABLE;
  lua_pop(L, 1);
  return is_table;
}

/* suggestions.rs */
void baton_lua_check_environment(void);

static int is_switched_on(lua_State *L, const char *variable) {
  const char *text = getenv(variable);
  if (text == NULL || strcmp(text, "0") == 0) return 0;
  if (strcmp(text, "1") != 0) luaL_error(L, "%s: 1 or 0 expected, got '%s'", variable, text);
  return 1;
}

/* Reads what the environment says. */
static void read_environment(lua_State *L, struct baton_process *process) {
  char message[200];
  int is_wrong;
  message[0] = '\0';
  baton_lua_enter(L);
  is_wrong = baton_read_environment(process->vm->executor, message, sizeof message);
  baton_lua_leave(L);
  if (is_wrong) luaL_error(L, "%s", message);
  if (getenv("BATON_CONCURRENT") != NULL)
    baton_lua_read_declarations(L, getenv("BATON_CONCURRENT"));
  if (is_switched_on(L, "BATON_FFI")) baton_lua_offer_ffi(L);
  /* A program that embeds Lua may have variables of its own. */
  if (process->vm->start == NULL && baton_lua_is_interpreter()) baton_lua_check_environment();
}

/* Makes the open libraries suit processes. */
static void suit(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (is_open(L, LUA_IOLIBNAME) && is_open(L, LUA_OSLIBNAME)) baton_lua_open_io(L);
  baton_lua_open_warn(L);
  baton_lua_note_function(baton_lua_write_text);
  if (is_open(L, LUA_DBLIBNAME)) {
    baton_lua_open_debug(L);
    baton_lua_guard_debug(L);
  }
  if (lua_getglobal(L, LUA_OSLIBNAME) == LUA_TTABLE) {
    lua_pushcfunction(L, baton_lua_exit_program);
    lua_setfield(L, -2, "exit");
  }
  lua_pop(L, 1);
  if (is_open(L, LUA_LOADLIBNAME)) baton_lua_open_require(L);
  baton_copying_open(L);
  baton_sharing_open(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, baton_lua_vm_module());
  lua_setfield(L, -2, "baton.vm");
  lua_pushcfunction(L, baton_net_open);
  lua_setfield(L, -2, "baton.net");
  lua_pushcfunction(L, baton_http_open);
  lua_setfield(L, -2, "baton.http");
  baton_lua_offer_own_modules(L);
  lua_pop(L, 1);
  if (is_open(L, LUA_STRLIBNAME) && is_open(L, LUA_IOLIBNAME)) baton_lua_note_library_functions(L);
  lua_getfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  if (process != NULL && !lua_toboolean(L, -1)) read_environment(L, process);
  lua_pop(L, 1);
}

void baton_lua_openlibs(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  luaL_openlibs(L);
  baton_lua_seed_random(L, process != NULL ? process->vm->number : 0);
  suit(L);
}

/* {======================================================
** Libraries of a state that a program embeds
** ======================================================= */

/* What `suit` replaces. */
static const struct {
  const char *library, *name;
} replaced[] = {{LUA_GNAME, "print"}, {LUA_GNAME, "warn"}, {LUA_GNAME, "require"},
    {LUA_OSLIBNAME, "exit"}, {LUA_OSLIBNAME, "execute"}, {LUA_COLIBNAME, "running"},
    {LUA_DBLIBNAME, "getinfo"}, {LUA_DBLIBNAME, "getuservalue"}, {LUA_DBLIBNAME, "setuservalue"},
    {LUA_DBLIBNAME, "setupvalue"}, {LUA_DBLIBNAME, "setlocal"}};

#define REPLACED (sizeof replaced / sizeof replaced[0])

/* Pushes the value, and returns whether it is Lua's own function. */
static int push_replaced(lua_State *L, size_t i) {
  int is_own = 0;
  if (lua_getglobal(L, replaced[i].library) == LUA_TTABLE) {
    lua_getfield(L, -1, replaced[i].name);
    is_own = lua_iscfunction(L, -1) && baton_lua_is_ours(lua_tocfunction(L, -1));
  } else {
    lua_pushnil(L);
  }
  lua_remove(L, -2);
  return is_own;
}

void baton_lua_adapt(lua_State *L) {
  int is_own[REPLACED];
  size_t i;
  luaL_checkstack(L, (int)REPLACED + LUA_MINSTACK, NULL);
  for (i = 0; i < REPLACED; i++) is_own[i] = push_replaced(L, i);
  suit(L);
  for (i = REPLACED; i-- > 0;) { /* the program's own values are on the stack */
    if (!is_own[i] && lua_getglobal(L, replaced[i].library) == LUA_TTABLE) {
      lua_insert(L, -2);
      lua_setfield(L, -2, replaced[i].name);
    } else if (!is_own[i]) {
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
}

/* }====================================================== */
