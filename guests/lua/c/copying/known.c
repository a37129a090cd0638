/*
** What both sides of a copy know: classes by their names, and the functions of Lua's libraries.
**
** A light C function is at the same address in all VMs, so it is sent as it is. The functions that
** the guest puts in the place of Lua's are closures, which each VM has for itself. They are sent by
** numbers. A number stands for the library and the name that a function had when the libraries were
** opened, whatever the program does to the tables. The program's first VM gives the numbers, and
** has run nothing yet. Each start of the interpreter does this, so it makes no strings and sorts
** nothing.
*/
#include "copying/block.h"
#include "state/state.h"
#include "lualib.h"

#include "lstring.h"

/* Keys of the private table. */
static const char classes_key, closures_key;

/* {======================================================
** Classes
** ======================================================= */

/* The private table under `key`. Without effect on the stack. Inside the VM. */
static Table *private_table(const global_State *g, const char *key) {
  TValue at;
  setpvalue(&at, (void *)(size_t)key);
  return hvalue(luaH_get(hvalue(s2v(g->mainthread->stack.p)), &at));
}

Table *baton_copy_classes(lua_State *L) { return private_table(G(L), &classes_key); }

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
#define PLACES (2 * MOST_FUNCTIONS) /* a power of 2 */
#define MOST_CLOSURES 64
#define MOST_NAME 32 /* bytes, with the zero at the end */

/* All of these are written when the program's first state is opened, and not later. */

/* The light functions, each at the first free place from its own on. */
static lua_CFunction functions[PLACES];
static int function_count;

/* The closures, in the order of their numbers, which begin with 1. */
static struct {
  const char *library;
  char name[MOST_NAME];
} closures[MOST_CLOSURES];
static int closure_count;

/* The place of a function, or the free one for it. One of two places is free. */
static lua_CFunction *place_of(lua_CFunction function) {
  const uint64_t bits = (uint64_t)(uintptr_t)function * 0x9E3779B97F4A7C15u;
  size_t place = (size_t)(bits >> 32) % PLACES;
  while (functions[place] != NULL && functions[place] != function) place = (place + 1) % PLACES;
  return &functions[place];
}

int baton_copy_is_library_function(lua_CFunction function) {
  return *place_of(function) == function;
}

int baton_copy_number_of(lua_State *L, const TValue *function) {
  Table *own = private_table(G(L), &closures_key);
  int number;
  for (number = 1; number <= closure_count; number++) {
    const TValue *closure = luaH_getint(own, number);
    if (ttisCclosure(closure) && gcvalue(closure) == gcvalue(function)) return number;
  }
  return 0;
}

const TValue *baton_copy_function_of(const global_State *g, lua_Integer number) {
  return luaH_getint(private_table(g, &closures_key), number);
}

static void note_function(const char *library, const TString *name, const TValue *function) {
  if (ttislcf(function) && function_count < MOST_FUNCTIONS) {
    lua_CFunction *place = place_of(fvalue(function));
    function_count += *place == NULL;
    *place = fvalue(function);
  } else if (ttisCclosure(function) && closure_count < MOST_CLOSURES && name->shrlen < MOST_NAME) {
    closures[closure_count].library = library;
    memcpy(closures[closure_count++].name, getshrstr(name), name->shrlen + (size_t)1);
  }
}

/* Notes the functions of the library on the top of the stack. */
static void note_library(lua_State *L, const char *library) {
  const Table *table;
  int i;
  baton_lua_enter(L);
  table = hvalue(s2v(L->top.p - 1));
  for (i = 0; i < allocsizenode(table); i++) {
    const Node *node = gnode(table, i);
    if (keyisshrstr(node)) note_function(library, keystrval(node), gval(node));
  }
  baton_lua_leave(L);
}

/* Makes this VM's table of closures. The table of libraries is on the top of the stack. */
static void keep_closures(lua_State *L) {
  const char *library = NULL;
  int i;
  lua_createtable(L, closure_count, 0);
  lua_pushnil(L);
  for (i = 0; i < closure_count; i++) {
    if (closures[i].library != library) {
      library = closures[i].library;
      lua_pop(L, 1);
      lua_getfield(L, -2, library);
    }
    lua_getfield(L, -1, closures[i].name);
    lua_rawseti(L, -3, i + 1);
  }
  lua_pop(L, 1);
  baton_lua_keep_private(L, &closures_key);
}

void baton_copy_note_known(lua_State *L) {
  static const char *const libraries[] = {LUA_GNAME, LUA_COLIBNAME, LUA_TABLIBNAME, LUA_IOLIBNAME,
      LUA_OSLIBNAME, LUA_STRLIBNAME, LUA_MATHLIBNAME, LUA_UTF8LIBNAME, LUA_DBLIBNAME,
      LUA_LOADLIBNAME};
  const int is_first_vm = function_count == 0;
  size_t i;
  lua_newtable(L);
  baton_lua_keep_private(L, &classes_key);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (i = 0; is_first_vm && i < sizeof libraries / sizeof *libraries; i++) {
    if (lua_getfield(L, -1, libraries[i]) == LUA_TTABLE) note_library(L, libraries[i]);
    lua_pop(L, 1);
  }
  keep_closures(L);
  lua_pop(L, 1);
}

/* }====================================================== */
