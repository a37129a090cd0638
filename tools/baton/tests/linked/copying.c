/* A host whose Lua programs copy values: the functions of copying.h, as globals. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

struct baton_block;
struct baton_block *baton_copy_out(lua_State *L, int first, int count, const char *name);
int baton_copy_in(lua_State *L, struct baton_block *block);
size_t baton_block_size(const struct baton_block *block);
void baton_block_free(struct baton_block *block);
void baton_lua_openlibs(lua_State *L);
void baton_lua_open_private(lua_State *L);

/* As in copying.h. */
struct baton_sendable {
  int (*is)(lua_State *L, int index);
  void *(*hold)(lua_State *L, int index, const char **why);
  void (*push)(lua_State *L, void *object);
  void (*release)(void *object);
  void *(*again)(void *object);
};
void baton_copy_register(const struct baton_sendable *kind);

/* {======================================================
** Tokens: a kind of userdata that is sent
** ======================================================= */

#define TOKEN "token"

/* What tokens refer to, and how many references there are to all of them. */
struct coin {
  int references, is_stuck, number;
};
static int references;

static struct coin *check_token(lua_State *L, int index) {
  return *(struct coin **)luaL_checkudata(L, index, TOKEN);
}

static void release_coin(void *object) {
  struct coin *coin = object;
  references--;
  if (--coin->references == 0) free(coin);
}

static int is_token(lua_State *L, int index) { return luaL_testudata(L, index, TOKEN) != NULL; }

static void *hold_token(lua_State *L, int index, const char **why) {
  struct coin *coin = check_token(L, index);
  *why = "it is stuck";
  if (coin->is_stuck) return NULL;
  coin->references++;
  references++;
  return coin;
}

/* Makes a userdata with a reference that is the caller's until it is made. */
static void push_coin(lua_State *L, struct coin *coin) {
  struct coin **token = lua_newuserdatauv(L, sizeof *token, 0);
  *token = coin;
  luaL_setmetatable(L, TOKEN);
}

static int make_token(lua_State *L) {
  push_coin(L, lua_touserdata(L, 1));
  return 1;
}

static void push_token(lua_State *L, void *object) {
  lua_pushcfunction(L, make_token);
  lua_pushlightuserdata(L, object);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) return;
  release_coin(object);
  lua_error(L);
}

static const struct baton_sendable token_kind = {
    is_token, hold_token, push_token, release_coin, NULL};

/* Called before there is a Lua state. */
void copying_register(void) { baton_copy_register(&token_kind); }

/* token(number, is_stuck) -> token */
static int new_token(lua_State *L) {
  struct coin *coin = malloc(sizeof *coin);
  if (coin == NULL) return luaL_error(L, "not enough memory");
  coin->references = 1;
  references++;
  coin->number = (int)luaL_checkinteger(L, 1);
  coin->is_stuck = lua_toboolean(L, 2);
  push_coin(L, coin);
  return 1;
}

/* token_number(token) -> number */
static int token_number(lua_State *L) {
  lua_pushinteger(L, check_token(L, 1)->number);
  return 1;
}

static int free_token(lua_State *L) {
  release_coin(check_token(L, 1));
  return 0;
}

/* token_references() -> number of references to all that tokens refer to */
static int token_references(lua_State *L) {
  lua_pushinteger(L, references);
  return 1;
}

/* }====================================================== */

#define BLOCK "block"

static struct baton_block **check_block(lua_State *L) {
  struct baton_block **block = luaL_checkudata(L, 1, BLOCK);
  if (*block == NULL) luaL_error(L, "the block was read");
  return block;
}

/* copy_out(...) -> block, or an error that begins with the path from "job" */
static int copy_out(lua_State *L) {
  const int count = lua_gettop(L);
  struct baton_block **block = lua_newuserdatauv(L, sizeof *block, 0);
  *block = NULL;
  luaL_setmetatable(L, BLOCK);
  *block = baton_copy_out(L, 1, count, "job");
  if (*block == NULL) return lua_error(L);
  return 1;
}

/* copy_in(block) -> ... */
static int copy_in(lua_State *L) {
  struct baton_block **place = check_block(L), *block = *place;
  *place = NULL;
  return baton_copy_in(L, block);
}

/* block_size(block) -> bytes */
static int block_size(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)baton_block_size(*check_block(L)));
  return 1;
}

static int free_block(lua_State *L) {
  struct baton_block **block = luaL_checkudata(L, 1, BLOCK);
  if (*block != NULL) baton_block_free(*block);
  *block = NULL;
  return 0;
}

/* copy(...) -> copies of all arguments */
static int copy(lua_State *L) {
  struct baton_block *block = baton_copy_out(L, 1, lua_gettop(L), "job");
  if (block == NULL) return lua_error(L);
  return baton_copy_in(L, block);
}

/* The allocator that Lua had, and how many blocks it still gives. */
static lua_Alloc allocate;
static void *allocate_data;
static lua_Integer left;

static void *allocate_some(void *unused, void *block, size_t old, size_t size) {
  (void)unused;
  if (size > 0 && (block == NULL || size > old) && left-- <= 0) return NULL;
  return allocate(allocate_data, block, old, size);
}

/* fail_after([n]): Lua gets n more blocks, and then none; without n, all that it wants. */
static int fail_after(lua_State *L) {
  if (allocate == NULL) allocate = lua_getallocf(L, &allocate_data);
  left = luaL_optinteger(L, 1, 0);
  if (lua_isnone(L, 1))
    lua_setallocf(L, allocate, allocate_data);
  else
    lua_setallocf(L, allocate_some, NULL);
  return 0;
}

static void open_libraries(lua_State *L) {
  static const luaL_Reg functions[] = {{"copy_out", copy_out}, {"copy_in", copy_in},
      {"block_size", block_size}, {"copy", copy}, {"token", new_token},
      {"token_number", token_number}, {"token_references", token_references}, {NULL, NULL}};
  const luaL_Reg *function;
  baton_lua_openlibs(L);
  luaL_newmetatable(L, BLOCK);
  lua_pushcfunction(L, free_block);
  lua_setfield(L, -2, "__gc");
  luaL_newmetatable(L, TOKEN);
  lua_pushcfunction(L, free_token);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  for (function = functions; function->name != NULL; function++)
    lua_register(L, function->name, function->func);
  lua_pop(L, 1);
}

/* receive() -> the values of the block that is the upvalue */
static int receive(lua_State *S) {
  return baton_copy_in(S, lua_touserdata(S, lua_upvalueindex(1)));
}

/* Runs in the other heap: the chunk, which receives the block, and has its results as a block. */
static int run_elsewhere(lua_State *S) {
  const char *chunk = lua_touserdata(S, 1);
  struct baton_block **result = lua_touserdata(S, 3);
  open_libraries(S);
  lua_pushvalue(S, 2);
  lua_pushcclosure(S, receive, 1);
  lua_setglobal(S, "receive");
  lua_settop(S, 0);
  if (luaL_loadstring(S, chunk) != LUA_OK) return lua_error(S);
  lua_call(S, 0, LUA_MULTRET);
  *result = baton_copy_out(S, 1, lua_gettop(S), "result");
  return *result != NULL ? 0 : lua_error(S);
}

/* elsewhere(chunk, ...) -> results of the chunk in another heap, where receive() returns copies of
   the arguments; or nil and a message */
static int elsewhere(lua_State *L) {
  const char *chunk = luaL_checkstring(L, 1);
  struct baton_block *result = NULL, *block = baton_copy_out(L, 2, lua_gettop(L) - 1, "job");
  lua_State *S;
  if (block == NULL) return lua_error(L);
  S = luaL_newstate();
  baton_lua_open_private(S);
  lua_pushcfunction(S, run_elsewhere);
  lua_pushlightuserdata(S, (void *)(size_t)chunk);
  lua_pushlightuserdata(S, block);
  lua_pushlightuserdata(S, &result);
  if (lua_pcall(S, 3, 0, 0) != LUA_OK) {
    lua_pushnil(L);
    lua_pushstring(L, lua_tostring(S, -1));
    lua_close(S);
    return 2;
  }
  lua_close(S);
  return baton_copy_in(L, result);
}

/* The body of the main process: runs the file in the environment variable COPYING_FILE, with the
   case in COPYING_CASE. */
int copying_host(lua_State *L) {
  open_libraries(L);
  lua_register(L, "elsewhere", elsewhere);
  lua_register(L, "fail_after", fail_after);
  lua_newtable(L);
  lua_pushstring(L, getenv("COPYING_CASE"));
  lua_rawseti(L, -2, 1);
  lua_setglobal(L, "arg");
  if (luaL_dofile(L, getenv("COPYING_FILE")) != LUA_OK) return lua_error(L);
  lua_pushinteger(L, 0);
  return 1;
}

void copying_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fprintf(stderr, "%s\n", message != NULL ? message : "(no message)");
  lua_pop(L, 1);
}
