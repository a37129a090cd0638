/*
** A request with its reply, as handlers see it: one object, which is both `req` and `res`. What a
** program does not ask for costs nothing: strings and tables are made when they are read.
*/
#include "http/inside.h"

#include <string.h>

struct baton_http_exchange *baton_http_check_exchange(lua_State *L, int index) {
  return baton_inline_check_sealed(L, index, BATON_SEALED_HTTP_EXCHANGE, "request");
}

struct baton_http_exchange *baton_http_check_open_exchange(lua_State *L, int index) {
  struct baton_http_exchange *exchange = baton_http_check_exchange(L, index);
  if (l_unlikely(exchange->session == NULL))
    luaL_error(L, "the request has ended: its handler has returned, or its connection was closed");
  return exchange;
}

struct baton_http_exchange *baton_http_push_exchange(lua_State *L, int metatable,
    const struct baton_http_head *head, const char *data) {
  const size_t fields = head->count * sizeof *head->fields;
  struct baton_http_exchange *exchange;
  baton_lua_check_memory(L);
  exchange = lua_newuserdatauv(L, sizeof *exchange + fields + head->size, 3);
  memset(exchange, 0, sizeof *exchange);
  exchange->seal = baton_inline_seal(BATON_SEALED_HTTP_EXCHANGE);
  exchange->begun = baton_now();
  exchange->method = head->method;
  exchange->target = head->target;
  exchange->path = head->path;
  exchange->query = head->query;
  exchange->host = head->host;
  exchange->framing = head->framing;
  exchange->left = head->framing.length;
  exchange->count = head->count;
  exchange->size = head->size;
  exchange->body_has_ended = !head->framing.is_chunked && head->framing.length == 0;
  exchange->is_head =
      head->method.size == 4 && memcmp(data + head->method.start, "HEAD", 4) == 0;
  memcpy(exchange->fields, head->fields, fields);
  memcpy(exchange->fields + head->count, data, head->size);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, metatable);
  lua_setmetatable(L, -2);
  return exchange;
}

int baton_http_push_known_table(lua_State *L, int index) {
  return lua_getiuservalue(L, index, 2) == LUA_TTABLE;
}

void baton_http_push_table(lua_State *L, int index) {
  index = lua_absindex(L, index);
  if (baton_http_push_known_table(L, index)) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, index, 2);
}

static void push_span(
    lua_State *L, const struct baton_http_exchange *exchange, struct baton_http_span span) {
  lua_pushlstring(L, baton_http_text(exchange, span), span.size);
}

/* {======================================================
** Fields of the head
** ======================================================= */

static char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? (char)(letter + ('a' - 'A')) : letter;
}

static int is_named(const struct baton_http_exchange *exchange,
    const struct baton_http_field *field, const char *name, size_t size) {
  const char *text = baton_http_text(exchange, field->name);
  size_t i = 0;
  if (field->name.size != size) return 0;
  while (i < size && lower(text[i]) == lower(name[i])) i++;
  return i == size;
}

/* req:header(name): the value of a field, all values of several ones with commas between */
static int exchange_header(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  size_t size;
  const char *name = luaL_checklstring(L, 2, &size);
  uint32_t i;
  int found = 0;
  for (i = 0; i < exchange->count; i++) {
    if (!is_named(exchange, &exchange->fields[i], name, size)) continue;
    if (found) lua_pushstring(L, size == 6 && lower(name[0]) == 'c' ? "; " : ", ");
    push_span(L, exchange, exchange->fields[i].value);
    if (found) lua_concat(L, 3);
    found = 1;
  }
  if (!found) lua_pushnil(L);
  return 1;
}

/* Pushes a table: names in lower case to values. */
static void push_headers(lua_State *L, const struct baton_http_exchange *exchange) {
  uint32_t i, k;
  lua_createtable(L, 0, (int)exchange->count);
  for (i = 0; i < exchange->count; i++) {
    const struct baton_http_span name = exchange->fields[i].name;
    const char *text = baton_http_text(exchange, name);
    luaL_Buffer small;
    char *to = luaL_buffinitsize(L, &small, name.size);
    for (k = 0; k < name.size; k++) to[k] = lower(text[k]);
    luaL_pushresultsize(&small, name.size);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TSTRING) {
      lua_pushstring(L, strcmp(lua_tostring(L, -2), "cookie") == 0 ? "; " : ", ");
      push_span(L, exchange, exchange->fields[i].value);
      lua_concat(L, 3);
    } else {
      lua_pop(L, 1);
      push_span(L, exchange, exchange->fields[i].value);
    }
    lua_rawset(L, -3);
  }
}

/* }====================================================== */

/* {======================================================
** The query
** ======================================================= */

static void push_decoded(lua_State *L, const char *text, size_t size) {
  luaL_Buffer decoded;
  char *out = luaL_buffinitsize(L, &decoded, size);
  luaL_pushresultsize(&decoded, baton_http_decode(text, size, true, out));
}

#define MOST_PARAMETERS 1000

/* Adds the pairs of a form to the table on the top. The first one of a name counts. */
static void add_pairs(lua_State *L, const char *text, size_t size) {
  const char *end = text + size;
  int count = 0;
  while (text < end && count++ < MOST_PARAMETERS) {
    const char *next = memchr(text, '&', (size_t)(end - text));
    const char *stop = next != NULL ? next : end;
    const char *equals = memchr(text, '=', (size_t)(stop - text));
    const char *name_end = equals != NULL ? equals : stop;
    if (stop > text) {
      push_decoded(L, text, (size_t)(name_end - text));
      lua_pushvalue(L, -1);
      if (lua_rawget(L, -3) == LUA_TNIL) {
        lua_pop(L, 1);
        if (equals != NULL)
          push_decoded(L, equals + 1, (size_t)(stop - equals - 1));
        else
          lua_pushliteral(L, "");
        lua_rawset(L, -3);
      } else {
        lua_pop(L, 2);
      }
    }
    text = stop + 1;
  }
}

/* }====================================================== */

/* {======================================================
** Reading and setting fields of the object
** ======================================================= */

enum {
  METHOD, TARGET, PATH, QUERY_STRING, HOST, VERSION, /* made anew each time */
  HEADERS, QUERY, PEER /* kept in the table */
};

static const struct {
  const char *name;
  int code;
} properties[] = {{"method", METHOD}, {"target", TARGET}, {"path", PATH},
    {"query_string", QUERY_STRING}, {"host", HOST}, {"version", VERSION}, {"headers", HEADERS},
    {"query", QUERY}, {"peer", PEER}, {NULL, 0}};

static void push_peer(lua_State *L) {
  lua_getiuservalue(L, 1, 1);
  lua_getiuservalue(L, -1, 1);
  lua_getfield(L, -1, "peer");
  lua_pushvalue(L, -2);
  lua_call(L, 1, 1);
}

/* Pushes what was kept, or makes it. */
static int push_kept(lua_State *L, const struct baton_http_exchange *exchange, int code) {
  baton_http_push_table(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, -2) != LUA_TNIL) return 1;
  lua_pop(L, 1);
  if (code == HEADERS) {
    push_headers(L, exchange);
  } else if (code == QUERY) {
    lua_newtable(L);
    add_pairs(L, baton_http_text(exchange, exchange->query), exchange->query.size);
  } else {
    push_peer(L);
  }
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 3);
  return 1;
}

static int push_property(lua_State *L, const struct baton_http_exchange *exchange, int code) {
  switch (code) {
    case METHOD: push_span(L, exchange, exchange->method); return 1;
    case TARGET: push_span(L, exchange, exchange->target); return 1;
    case PATH: push_span(L, exchange, exchange->path); return 1;
    case QUERY_STRING: push_span(L, exchange, exchange->query); return 1;
    case HOST: push_span(L, exchange, exchange->host); return 1;
    case VERSION: lua_pushstring(L, exchange->framing.is_1_1 ? "1.1" : "1.0"); return 1;
    default: return push_kept(L, exchange, code);
  }
}

/* __index: upvalue 1 has the methods, and the codes of properties */
static int exchange_index(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  int type;
  lua_settop(L, 2);
  if (baton_http_push_known_table(L, 1)) { /* what a program has set */
    lua_pushvalue(L, 2);
    if (lua_rawget(L, -2) != LUA_TNIL) return 1;
  }
  lua_settop(L, 2);
  lua_pushvalue(L, 2);
  type = lua_rawget(L, lua_upvalueindex(1));
  if (type != LUA_TNUMBER) return 1;
  {
    const int code = (int)lua_tointeger(L, -1);
    lua_settop(L, 2);
    return push_property(L, exchange, code);
  }
}

/* A program's own fields: what its middleware has found out, for instance. */
static int exchange_newindex(lua_State *L) {
  (void)baton_http_check_exchange(L, 1);
  lua_settop(L, 3);
  baton_http_push_table(L, 1);
  lua_insert(L, 2);
  lua_rawset(L, 2);
  return 0;
}

static int exchange_tostring(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  push_span(L, exchange, exchange->method);
  push_span(L, exchange, exchange->target);
  lua_pushfstring(L, "baton.http request: %s %s", lua_tostring(L, -2), lua_tostring(L, -1));
  return 1;
}

/* For the log: status, bytes of the reply's body, and seconds since the head came. */
static int exchange_figures(lua_State *L) {
  const struct baton_http_exchange *exchange = baton_http_check_exchange(L, 1);
  lua_pushinteger(L, exchange->status);
  lua_pushinteger(L, (lua_Integer)exchange->sent);
  lua_pushnumber(L, (lua_Number)(baton_now() - exchange->begun) / 1e9);
  return 3;
}

/* }====================================================== */

const luaL_Reg baton_http_exchange_methods[] = {
    {"header", exchange_header}, {"figures", exchange_figures}, {NULL, NULL}};

/* Makes the metatable, and leaves the methods on the top of the stack. */
void baton_http_open_exchanges(lua_State *L) {
  int i;
  lua_newtable(L);
  luaL_setfuncs(L, baton_http_exchange_methods, 0);
  luaL_setfuncs(L, baton_http_body_methods, 0);
  luaL_setfuncs(L, baton_http_reply_methods, 0);
  for (i = 0; properties[i].name != NULL; i++) {
    lua_pushinteger(L, properties[i].code);
    lua_setfield(L, -2, properties[i].name);
  }
  baton_lua_push_new_metatable(L, "baton.http.request*");
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, exchange_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, exchange_newindex);
  lua_setfield(L, -2, "__newindex");
  lua_pushcfunction(L, exchange_tostring);
  lua_setfield(L, -2, "__tostring");
  baton_lua_keep_private(L, baton_lua_seal(BATON_SEALED_HTTP_EXCHANGE));
}
