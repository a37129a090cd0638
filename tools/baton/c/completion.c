/* Completion: finds the names that can stand at the end of a line among the
   values of the running program. It must not run code of the program. So it
   reads tables raw, and follows a metatable only if its __index is a table. If
   __index is a function in C, the tables in its upvalues have the names that it
   knows: a method table, and a list of fields. */
#include "editor.h"

#include <ctype.h>
#include <string.h>

#include <lauxlib.h>

/* The longest chain of __index tables to follow. */
#define MOST_TABLES 16

/* The most keys to read in one table. */
#define MOST_KEYS 100000

/* A line that ends in the name to complete: `first.second:partial`. */
typedef struct Request {
  const char *line;
  size_t chain;   /* where `first` begins */
  /* where the name to complete begins; equals chain if no name precedes it */
  size_t partial;
  size_t end;
  baton_candidate offer;
  void *context;
} Request;

static int is_name_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Returns where the name that ends at `end` begins. */
static size_t name_start(const char *line, size_t end) {
  while (end > 0 && is_name_part(line[end - 1]))
    end--;
  return end;
}

/* Returns whether a separator precedes `at`. The second dot of ".." is
   none. */
static int follows_separator(const char *line, size_t at) {
  if (at == 0 || (line[at - 1] != '.' && line[at - 1] != ':'))
    return 0;
  return at < 2 || line[at - 2] != line[at - 1];
}

/* Finds the names before the partial one. Returns 0 if there is something
   else. */
static int find_chain(Request *request, size_t length) {
  const char *line = request->line;
  size_t at;
  request->end = length;
  request->partial = at = name_start(line, length);
  while (follows_separator(line, at)) {
    size_t name_end = at - 1;
    at = name_start(line, name_end);
    if (at == name_end || isdigit((unsigned char)line[at]))
      return 0;
  }
  request->chain = at;
  return request->partial == length || !isdigit((unsigned char)line[request->partial]);
}

/* Pushes what the metatable of the value on the top has as __index, or nil. */
static void push_index(lua_State *L) {
  if (!lua_getmetatable(L, -1)) {
    lua_pushnil(L);
    return;
  }
  lua_pushliteral(L, "__index");
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

/* Replaces the value on the top by the table that its metatable has as
   __index. If there is none, pops the value and returns 0. */
static int to_next_table(lua_State *L) {
  push_index(L);
  lua_remove(L, -2);
  if (lua_istable(L, -1))
    return 1;
  lua_pop(L, 1);
  return 0;
}

/* Replaces the value on the top by its field. If there is none, pops the
   value and returns 0. */
static int to_field(lua_State *L, const char *name, size_t length) {
  int tables = 0;
  do {
    if (lua_istable(L, -1)) {
      lua_pushlstring(L, name, length);
      lua_rawget(L, -2);
      if (!lua_isnil(L, -1)) {
        lua_replace(L, -2);
        return 1;
      }
      lua_pop(L, 1);
    }
  } while (++tables <= MOST_TABLES ? to_next_table(L) : (lua_pop(L, 1), 0));
  return 0;
}

static int is_name(const char *text, size_t length) {
  size_t i;
  if (length == 0 || isdigit((unsigned char)text[0]))
    return 0;
  for (i = 0; i < length; i++)
    if (!is_name_part(text[i]))
      return 0;
  return 1;
}

static void offer_if_fits(const Request *request, const char *name, size_t length) {
  size_t typed = request->end - request->partial;
  if (length >= typed && is_name(name, length)
      && memcmp(name, request->line + request->partial, typed) == 0)
    request->offer(request->context, request->partial, name, length);
}

/* Passes the keys of the table on the top to the receiver. */
static void offer_keys(lua_State *L, const Request *request) {
  int is_method = request->partial > 0 && request->line[request->partial - 1] == ':';
  int keys = 0;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_type(L, -2) == LUA_TSTRING && (!is_method || lua_isfunction(L, -1))) {
      size_t length;
      const char *name = lua_tolstring(L, -2, &length);
      offer_if_fits(request, name, length);
    }
    lua_pop(L, 1);
    if (++keys == MOST_KEYS) {
      lua_pop(L, 1);
      return;
    }
  }
}

/* Passes the names that a function in C knows which is the __index of the value
   on the top. */
static void offer_names_of_index(lua_State *L, const Request *request) {
  int n;
  push_index(L);
  if (lua_iscfunction(L, -1))
    for (n = 1; lua_getupvalue(L, -1, n) != NULL; n++) {
      if (lua_istable(L, -1))
        offer_keys(L, request);
      lua_pop(L, 1);
    }
  lua_pop(L, 1);
}

static void offer_keywords(const Request *request) {
  static const char *const keywords[] = {
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function",
    "goto", "if", "in", "local", "nil", "not", "or", "repeat", "return", "then",
    "true", "until", "while"
  };
  size_t i;
  for (i = 0; i < sizeof keywords / sizeof keywords[0]; i++)
    offer_if_fits(request, keywords[i], strlen(keywords[i]));
}

/* Runs protected, since memory may run out. Argument: the request. */
static int complete(lua_State *L) {
  const Request *request = (const Request *)lua_touserdata(L, 1);
  size_t at = request->chain;
  int tables = 0;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_pushglobaltable(L);
  while (at < request->partial) {
    size_t start = at;
    while (is_name_part(request->line[at]))
      at++;
    if (!to_field(L, request->line + start, at - start))
      return 0;
    at++; /* the separator */
  }
  if (request->chain == request->partial)
    offer_keywords(request);
  do {
    if (lua_istable(L, -1))
      offer_keys(L, request);
    offer_names_of_index(L, request);
  } while (++tables <= MOST_TABLES && to_next_table(L));
  return 0;
}

void baton_complete(lua_State *L, const char *line, size_t length,
                    baton_candidate offer, void *context) {
  Request request = {0};
  int top = lua_gettop(L);
  request.line = line;
  request.offer = offer;
  request.context = context;
  if (!find_chain(&request, length) || !lua_checkstack(L, 4))
    return;
  lua_pushcfunction(L, complete);
  lua_pushlightuserdata(L, &request);
  /* after an error, the completions found so far count */
  (void)lua_pcall(L, 1, 0, 0);
  lua_settop(L, top);
}
