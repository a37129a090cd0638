/*
** Modules of Baton's own that are files: baton/NAME.so beside the program (src/own_modules.rs has
** the places). They bring libraries that most programs do not need. include/baton_module.h has what
** they export, and what they may call.
**
** Rejected: a search by Lua's searchers alone, as for any module. The error without the file would
** be a list of twenty places, and none says what to do; and the functions would count as foreign
** ones, so a process that waits below them would keep its thread.
**
** A module is loaded once, whichever VM requires it first, and is never unloaded: its threads and
** finalizers may outlast the VM. It is opened in each VM.
*/
#include "program/program.h"
#include "calls/calls.h"
#include "modules/modules.h"
#include "process/process.h"
#include "state/state.h"
#include "baton_module.h"
#include "lualib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* What `require` finds here, without "baton.". A module has a row, and is found in no other way. */
static const char *const names[] = {"cluster", "web", NULL};

#define RECORD "baton_module"
#define ROOM 8192 /* bytes of a path, or of a message */

/* src/own_modules.rs */
/* Writes the path of the module's file. Without one, returns 0, and writes which files there are
   not. `library` is the file that has this code. */
int baton_lua_find_own_module(const char *name, const char *library, char *text, size_t size);
/* Writes what to do for a module that is not there, or not this program's. */
void baton_lua_remedy_own_module(const char *name, char *text, size_t size);

/* Baton's functions that modules may call. A program that links an archive of Baton has them all if
   it has this file. */
__attribute__((used)) static const void *const for_modules[] = {
    (const void *)baton_now, (const void *)baton_forks, (const void *)baton_start_helper};

/* {======================================================
** Loading
** ======================================================= */

/* Raises an error with what is wrong, what to do, and a list, which may be empty. */
static int raise_unusable(lua_State *L, const char *name, const char *what, const char *list) {
  char *remedy = lua_newuserdatauv(L, ROOM, 0);
  baton_lua_remedy_own_module(name, remedy, ROOM);
  lua_pushfstring(L, "module 'baton.%s' %s; %s%s", name, what, remedy, list);
  return lua_error(L);
}

/* The file that package.searchpath finds in package.cpath, or NULL. For programs that embed Lua:
   they are where they want to be. */
static const char *in_search_path(lua_State *L, const char *name) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_LOADLIBNAME) != LUA_TTABLE) return NULL;
  lua_getfield(L, -1, "searchpath");
  lua_pushfstring(L, "baton.%s", name);
  if (lua_getfield(L, -3, "cpath") != LUA_TSTRING) return NULL;
  return lua_pcall(L, 2, 1, 0) == LUA_OK && lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                                                                           : NULL;
}

/* The path of the module's file. It is in a value that stays on the stack. */
static const char *path_of(lua_State *L, const char *name) {
  char *text = lua_newuserdatauv(L, ROOM, 0);
  const char *path;
  Dl_info info;
  const int is_known = dladdr((const void *)names, &info) != 0;
  if (baton_lua_find_own_module(name, is_known ? info.dli_fname : NULL, text, ROOM)) return text;
  path = in_search_path(L, name);
  if (path == NULL)
    raise_unusable(L, name, "is a file of its own, which is not there", text);
  return path;
}

static const struct baton_module_record *load(lua_State *L, const char *name) {
  const char *path = path_of(L, name);
  const struct baton_module_record *record;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *why = dlerror();
    raise_unusable(L, name,
        lua_pushfstring(L, "cannot be used: %s cannot be loaded by Baton %s: %s", path,
            BATON_MODULE_BUILT_FOR, why != NULL ? why : "no reason is known"),
        "");
  }
  record = dlsym(library, RECORD);
  if (record != NULL && strcmp(record->built_for, BATON_MODULE_BUILT_FOR) == 0) {
    baton_lua_note_own_code(L, (const void *)record->open);
    return record;
  }
  if (record == NULL)
    lua_pushfstring(L, "cannot be used: %s is no module of Baton", path);
  else
    lua_pushfstring(L, "cannot be used: %s was built for Baton %s, and this is Baton %s", path,
        record->built_for, BATON_MODULE_BUILT_FOR);
  dlclose(library);
  raise_unusable(L, name, lua_tostring(L, -1), "");
  return NULL;
}

/* The loader in package.preload. */
static int open(lua_State *L) {
  const char *name = luaL_checkstring(L, 1) + sizeof "baton." - 1;
  const struct baton_module_record *record;
  lua_settop(L, 1);
  record = load(L, name);
  lua_settop(L, 1);
  lua_pushcfunction(L, record->open);
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

void baton_lua_offer_own_modules(lua_State *L) {
  size_t i;
  for (i = 0; names[i] != NULL; i++) {
    lua_pushfstring(L, "baton.%s", names[i]);
    lua_pushcfunction(L, open);
    lua_rawset(L, -3);
  }
}

/* }====================================================== */

/* {======================================================
** What modules call
** ======================================================= */

int baton_module_is_simulated(void) { return baton_simulated; }

void baton_module_check_memory(lua_State *L) { baton_lua_check_memory(L); }

void baton_module_load(lua_State *L, const char *name, const char *text, size_t size) {
  baton_lua_load_text(L, name, text, size, lua_pushfstring(L, "=baton.%s", name));
  lua_remove(L, -2);
}

void baton_module_push(lua_State *L, enum baton_module_function function) {
  static const lua_CFunction functions[] = {
      baton_lua_refuse_argument, baton_lua_raise_with_trace, baton_lua_end_process};
  lua_pushcfunction(L, functions[function]);
}

void baton_module_note(lua_CFunction function, unsigned traits) {
  if (traits & BATON_MODULE_GIVES_WAY) baton_lua_note_function_that_gives_way(function);
  if (traits & BATON_MODULE_LETS_RUN) baton_lua_note_function(function);
  if (traits & BATON_MODULE_IS_QUICK) baton_lua_note_quick_finalizer(function);
  if (traits & BATON_MODULE_GIVES_BACK) baton_lua_note_giving_finalizer(function);
}

/* }====================================================== */
