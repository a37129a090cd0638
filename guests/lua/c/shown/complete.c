/*
** Completion: the names that begin so. No method of the program is called: `__index` is followed
** only where it is a table.
*/
#include "shown/inside.h"

#include <string.h>

/* How many tables are looked through along `__index`. */
#define MOST_CLASSES 16

/* The names that have been visited are the keys of a table at `seen`. */
struct search {
  const char *beginning;
  baton_debugger_name_visitor *visit;
  void *context;
  int seen;
};

/* Visits a name, whose value is on the top of the stack, unless an inner one has hidden it. */
static void found(lua_State *L, const struct search *search, const char *name) {
  if (strncmp(name, search->beginning, strlen(search->beginning)) != 0) return;
  if (lua_getfield(L, search->seen, name) == LUA_TNIL) {
    lua_pushboolean(L, 1);
    lua_setfield(L, search->seen, name);
    lua_pop(L, 1);
    search->visit(L, search->context, name);
  } else {
    lua_pop(L, 1);
  }
}

/* Puts the table that the value on the top of the stack is indexed by, after itself, in its place.
   Returns 0, and pops it, if there is none. */
static int go_to_index(lua_State *L) {
  if (!lua_getmetatable(L, -1)) {
    lua_pop(L, 1);
    return 0;
  }
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  lua_replace(L, -3);
  lua_pop(L, 1);
  if (lua_istable(L, -1)) return 1;
  lua_pop(L, 1);
  return 0;
}

/* Visits the fields of the value on the top of the stack, and pops it. */
static void visit_fields(lua_State *L, const struct search *search) {
  int n;
  for (n = 0; n < MOST_CLASSES; n++) {
    if (lua_istable(L, -1)) {
      lua_pushnil(L);
      while (lua_next(L, -2)) {
        if (lua_type(L, -2) == LUA_TSTRING) found(L, search, lua_tostring(L, -2));
        lua_pop(L, 1);
      }
    }
    if (!go_to_index(L)) return;
  }
  lua_pop(L, 1);
}

/* Replaces the value on the top of the stack by its field. */
static void get_field(lua_State *L, const char *name, size_t size) {
  int n;
  for (n = 0; n < MOST_CLASSES; n++) {
    if (lua_istable(L, -1)) {
      lua_pushlstring(L, name, size);
      if (lua_rawget(L, -2) != LUA_TNIL) {
        lua_remove(L, -2);
        return;
      }
      lua_pop(L, 1);
    }
    if (!go_to_index(L)) break;
  }
  if (n == MOST_CLASSES) lua_pop(L, 1);
  lua_pushnil(L);
}

/* Pushes the value of names with dots between them. */
static void push_value(lua_State *L, const struct baton_place *place, const char *path) {
  size_t size = strcspn(path, ".");
  lua_pushlstring(L, path, size);
  if (place->ci != NULL && baton_debugger_push_variable(L, place, lua_tostring(L, -1))) {
    lua_remove(L, -2);
  } else {
    lua_pop(L, 1);
    baton_debugger_push_globals(L, place);
    get_field(L, path, size);
  }
  while (path[size] == '.') {
    path += size + 1;
    size = strcspn(path, ".");
    get_field(L, path, size);
  }
}

static void visit_variables(
    lua_State *L, const struct baton_place *place, const struct search *search) {
  const char *name;
  int n, upvalues;
  for (n = 1; place->ci != NULL && isLua(place->ci) &&
       (name = baton_debugger_push_local(L, place, n)) != NULL;
       n++) {
    if (*name != '(') found(L, search, name);
    lua_pop(L, 1);
  }
  if (place->ci == NULL || !isLua(place->ci)) return;
  baton_debugger_push_function(L, place);
  upvalues = lua_gettop(L);
  for (n = 1; (name = lua_getupvalue(L, upvalues, n)) != NULL; n++) {
    if (*name != '\0') found(L, search, name);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void baton_debugger_complete(lua_State *L, const struct baton_place *place, const char *path,
    const char *beginning, baton_debugger_name_visitor *visit, void *context) {
  struct search search = {beginning, visit, context, 0};
  luaL_checkstack(L, 16, NULL);
  lua_newtable(L);
  search.seen = lua_gettop(L);
  if (*path != '\0') {
    push_value(L, place, path);
  } else {
    visit_variables(L, place, &search);
    baton_debugger_push_globals(L, place);
  }
  visit_fields(L, &search);
  lua_pop(L, 1);
}
