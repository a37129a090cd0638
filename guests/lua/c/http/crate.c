/*
** What the parts in Lua use of the crate baton-http: the patterns of a router (http_router.lua),
** and the packing of replies (http_packing.lua).
*/
#include "http/inside.h"
#include "seam/guest.h"

/* {======================================================
** Patterns: the crate finds the one that a path matches
** ======================================================= */

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

/* }====================================================== */

/* {======================================================
** Packing
** ======================================================= */

struct packer {
  const void *seal; /* must be first */
  struct baton_http_packer *state; /* NULL: it was closed */
};

/* packer() */
int baton_http_new_packer_object(lua_State *L) {
  struct packer *packer;
  baton_lua_check_memory(L);
  packer = lua_newuserdatauv(L, sizeof *packer, 0);
  packer->seal = baton_inline_seal(BATON_SEALED_HTTP_PACKER);
  packer->state = NULL;
  baton_lua_set_sealed_metatable(L, BATON_SEALED_HTTP_PACKER);
  packer->state = baton_http_new_packer();
  return 1;
}

/* packer:pack(text, first, last, step): packs these bytes, and returns what is to be sent. One call
   has one piece: nobody else runs meanwhile. */
static int packer_pack(lua_State *L) {
  struct packer *packer = baton_inline_check_sealed(L, 1, BATON_SEALED_HTTP_PACKER, "packer");
  size_t size, packed_size;
  const char *text = luaL_checklstring(L, 2, &size), *packed;
  const lua_Integer first = luaL_checkinteger(L, 3), given = luaL_checkinteger(L, 4);
  const lua_Integer last = given < (lua_Integer)size ? given : (lua_Integer)size;
  const uint32_t step = (uint32_t)luaL_checkinteger(L, 5);
  luaL_argcheck(L, packer->state != NULL, 1, "the packer was closed");
  luaL_argcheck(L, first >= 1, 3, "position expected");
  packed = baton_http_pack(packer->state, last >= first ? text + first - 1 : "",
      last >= first ? (size_t)(last - first + 1) : 0, step, &packed_size);
  lua_pushlstring(L, packed, packed_size);
  return 1;
}

static int packer_close(lua_State *L) {
  struct packer *packer = baton_inline_test_sealed(L, 1, BATON_SEALED_HTTP_PACKER);
  if (packer == NULL || packer->state == NULL) return 0;
  baton_http_free_packer(packer->state);
  packer->state = NULL;
  return 0;
}

/* takes_gzip(accept_encoding) */
int baton_http_check_gzip(lua_State *L) {
  size_t size;
  const char *accepted = luaL_checklstring(L, 1, &size);
  lua_pushboolean(L, baton_http_takes_gzip(accepted, size));
  return 1;
}

/* is_text(type): whether packing makes it much smaller */
int baton_http_check_text(lua_State *L) {
  size_t size;
  const char *kind = luaL_checklstring(L, 1, &size);
  lua_pushboolean(L, baton_http_is_text(kind, size));
  return 1;
}

/* }====================================================== */

/* Makes the metatable of a kind with these methods. */
static void open_type(lua_State *L, int kind, const char *name, const luaL_Reg *methods,
    lua_CFunction finalizer) {
  baton_lua_note_quick_finalizer(finalizer);
  baton_lua_new_sealed_metatable(L, kind, name);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, finalizer);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__gc");
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
}

void baton_http_open_crate(lua_State *L) {
  static const luaL_Reg routes[] = {{"add", routes_add}, {"find", routes_find}, {NULL, NULL}};
  static const luaL_Reg packers[] = {
      {"pack", packer_pack}, {"close", packer_close}, {NULL, NULL}};
  open_type(L, BATON_SEALED_HTTP_ROUTES, "baton.http.routes*", routes, routes_collect);
  open_type(L, BATON_SEALED_HTTP_PACKER, "baton.http.packer*", packers, packer_close);
}
