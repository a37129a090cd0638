/*
** The patterns of a router. The crate baton-http finds the one that a path matches; what a pattern
** is for is in ../../lua/http_router.lua.
*/
#include "http/inside.h"
#include "seam/guest.h"

struct route_table {
  const void *seal; /* must be first */
  struct baton_http_routes *routes; /* NULL: the collector has freed them */
};

static struct route_table *check_routes(lua_State *L, int index) {
  struct route_table *table =
      baton_inline_check_sealed(L, index, BATON_SEALED_HTTP_ROUTES, "routes");
  luaL_argcheck(L, table->routes != NULL, index, "the routes are there no more");
  return table;
}

/* routes() */
int baton_http_new_route_table(lua_State *L) {
  struct route_table *table;
  baton_lua_check_memory(L);
  table = lua_newuserdatauv(L, sizeof *table, 0);
  table->seal = baton_inline_seal(BATON_SEALED_HTTP_ROUTES);
  table->routes = NULL;
  baton_lua_set_sealed_metatable(L, BATON_SEALED_HTTP_ROUTES);
  table->routes = baton_http_new_routes();
  return 1;
}

/* routes:add(pattern, number): true; or nil and what is wrong with the pattern */
static int routes_add(lua_State *L) {
  struct route_table *table = check_routes(L, 1);
  size_t size, wrong;
  const char *pattern = luaL_checklstring(L, 2, &size);
  const uint32_t number = (uint32_t)luaL_checkinteger(L, 3);
  char fault[256];
  wrong = baton_http_add_route(table->routes, pattern, size, number, fault, sizeof fault);
  if (wrong == 0) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushlstring(L, fault, wrong);
  return 2;
}

/* routes:find(path): the number of the pattern, and what its parameters match, as it came */
static int routes_find(lua_State *L) {
  const struct route_table *table = check_routes(L, 1);
  struct baton_http_found found;
  size_t size;
  const char *path = luaL_checklstring(L, 2, &size);
  uint32_t i;
  if (!baton_http_find_route(table->routes, path, size, &found)) return 0;
  luaL_checkstack(L, BATON_HTTP_MOST_PARAMETERS + 1, NULL);
  lua_pushinteger(L, found.number);
  for (i = 0; i < found.count; i++)
    lua_pushlstring(L, path + found.parameters[i].start, found.parameters[i].size);
  return (int)found.count + 1;
}

static int routes_collect(lua_State *L) {
  struct route_table *table =
      baton_inline_test_sealed(L, 1, BATON_SEALED_HTTP_ROUTES);
  if (table == NULL || table->routes == NULL) return 0;
  baton_http_free_routes(table->routes);
  table->routes = NULL;
  return 0;
}

/* decode(text, is_form): with `%41` as the letter, and a plus as a space in a form */
int baton_http_decode_text(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  const bool is_form = lua_toboolean(L, 2);
  luaL_Buffer decoded;
  char *out = luaL_buffinitsize(L, &decoded, size);
  luaL_pushresultsize(&decoded, baton_http_decode(text, size, is_form, out));
  return 1;
}

void baton_http_open_routes(lua_State *L) {
  static const luaL_Reg methods[] = {{"add", routes_add}, {"find", routes_find}, {NULL, NULL}};
  baton_lua_note_quick_finalizer(routes_collect);
  baton_lua_new_sealed_metatable(L, BATON_SEALED_HTTP_ROUTES, "baton.http.routes*");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, routes_collect);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}
