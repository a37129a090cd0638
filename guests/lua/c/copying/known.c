/*
** What both sides of a copy know by a name: classes, and the functions of Lua's libraries.
**
** A light C function is at the same address in all VMs, so it is sent as it is. The functions that
** the guest puts in the place of Lua's are closures, which each VM has for itself. They are found
** by the name that they had when the libraries were opened, whatever the program does to the
** tables.
*/
#include "copying/block.h"
#include "state/state.h"
#include "lualib.h"

#include "lstring.h"

#include <stdlib.h>

/* Keys of the private table. */
static const char classes_key, functions_key;

/* {======================================================
** Classes
** ======================================================= */

/* The private table under `key`. Without effect on the stack. Inside the VM. */
static Table *private_table(lua_State *L, const char *key) {
  TValue at;
  setpvalue(&at, (void *)(size_t)key);
  return hvalue(luaH_get(hvalue(s2v(G(L)->mainthread->stack.p)), &at));
}

Table *baton_copy_classes(lua_State *L) { return private_table(L, &classes_key); }

/* vm.class(name, metatable) -> metatable */
int baton_copy_class(lua_State *L) {
  luaL_checktype(L, 1, LUA_TSTRING);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  baton_lua_push_private(L, &classes_key);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, 3) != LUA_TNIL && !lua_rawequal(L, -1, 2))
    return luaL_error(L, "class '%s' is registered with another metatable", lua_tostring(L, 1));
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 3) != LUA_TNIL && !lua_rawequal(L, -1, 1))
    return luaL_error(L, "this metatable is registered as class '%s'", lua_tostring(L, -1));
  lua_settop(L, 3);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 1);
  lua_rawset(L, 3);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_rawset(L, 3);
  lua_settop(L, 2);
  return 1;
}

void baton_copy_push_class(lua_State *L, const char *name, size_t length) {
  baton_lua_push_private(L, &classes_key);
  lua_pushlstring(L, name, length);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

/* }====================================================== */

/* {======================================================
** Functions
** ======================================================= */

#define MOST_FUNCTIONS 256

/* Sorted by address. Written when the program's first state is opened, and not later. */
static lua_CFunction functions[MOST_FUNCTIONS];
static int function_count;

static int compare(const void *a, const void *b) {
  const uintptr_t first = (uintptr_t)*(const lua_CFunction *)a;
  const uintptr_t second = (uintptr_t)*(const lua_CFunction *)b;
  return (first > second) - (first < second);
}

int baton_copy_is_library_function(lua_CFunction function) {
  return bsearch(&function, functions, (size_t)function_count, sizeof *functions, compare) != NULL;
}

TString *baton_copy_name_of(lua_State *L, const TValue *function) {
  const TValue *name = luaH_get(private_table(L, &functions_key), function);
  return ttisstring(name) ? tsvalue(name) : NULL;
}

const TValue *baton_copy_function_named(lua_State *L, const TValue *name) {
  const TValue *function = luaH_get(private_table(L, &functions_key), name);
  return isempty(function) ? NULL : function;
}

/* Notes the function on the top of the stack, which is `library`.`name`. The table of functions is
   at index 1. Pops it. */
static void note_function(lua_State *L, const char *library, const char *name, int is_first_vm) {
  if (!lua_iscfunction(L, -1)) {
    lua_pop(L, 1);
  } else if (lua_getupvalue(L, -1, 1) == NULL) {
    const lua_CFunction function = lua_tocfunction(L, -1);
    lua_pop(L, 1);
    if (is_first_vm && function_count < MOST_FUNCTIONS) functions[function_count++] = function;
  } else {
    lua_pop(L, 1);
    lua_pushfstring(L, "%s.%s", library, name);
    lua_pushvalue(L, -1);
    lua_pushvalue(L, -3);
    lua_rawset(L, 1); /* name -> function */
    lua_rawset(L, 1); /* function -> name */
  }
}

static void note_library(lua_State *L, const char *library, int is_first_vm) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, library);
  lua_remove(L, -2);
  lua_pushnil(L);
  while (lua_next(L, -2)) note_function(L, library, lua_tostring(L, -2), is_first_vm);
  lua_pop(L, 1);
}

void baton_copy_note_functions(lua_State *L) {
  static const char *const libraries[] = {LUA_GNAME, LUA_COLIBNAME, LUA_TABLIBNAME, LUA_IOLIBNAME,
      LUA_OSLIBNAME, LUA_STRLIBNAME, LUA_MATHLIBNAME, LUA_UTF8LIBNAME, LUA_DBLIBNAME,
      LUA_LOADLIBNAME};
  const int is_first_vm = function_count == 0, top = lua_gettop(L);
  size_t i;
  lua_newtable(L);
  baton_lua_keep_private(L, &classes_key);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, &functions_key);
  lua_insert(L, 1);
  for (i = 0; i < sizeof libraries / sizeof *libraries; i++)
    note_library(L, libraries[i], is_first_vm);
  lua_remove(L, 1);
  lua_settop(L, top);
  if (is_first_vm) qsort(functions, (size_t)function_count, sizeof *functions, compare);
}

/* }====================================================== */
