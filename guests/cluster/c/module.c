/*
** The engine for the files of lua/: it takes commands and gives events, and neither waits. Which
** fields of a command or event count, src/lua.rs says.
*/
#include "cluster.h"

#include <errno.h>
#include <string.h>

struct bytes {
  const char *at; /* NULL: there are none */
  size_t size;
};

/* Records of src/lua.rs. */
struct engine_options {
  const char *url, *name, *user, *password, *token, *credentials;
  const char *authority, *certificate, *key;
  int is_encrypted, is_simulated;
  uint64_t seed;
  double delay, loss, duplication, every, lasts; /* seconds, and chances from 0 to 1 */
};

struct engine_command {
  int kind;
  uint64_t ticket;
  struct bytes subject, text, payload;
  double numbers[5];
};

struct engine_event {
  int kind;
  uint64_t ticket;
  struct bytes subject, text, payload;
  uint64_t numbers[2];
};

struct engine;
struct engine *baton_cluster_connect(
    const struct engine_options *options, uint64_t ticket, int *error);
int baton_cluster_submit(
    struct engine *engine, const struct engine_command *command, uint64_t now);
/* What the event refers to is valid until the next call. */
int baton_cluster_take(struct engine *engine, uint64_t now, struct engine_event *event);
int baton_cluster_take_job(
    struct engine *engine, const struct bytes *queue, struct engine_event *event);
int baton_cluster_descriptor(const struct engine *engine);
uint64_t baton_cluster_due(const struct engine *engine);
int baton_cluster_is_online(const struct engine *engine, uint64_t now);
int baton_cluster_is_ours(const struct engine *engine);
uint64_t baton_cluster_lost(const struct engine *engine, uint64_t ticket);
size_t baton_cluster_max_payload(const struct engine *engine);
void baton_cluster_end(struct engine *engine);
/* The text of a file of lua/. */
const char *baton_cluster_source(const char *name, size_t *size);

#define ENGINE "baton.cluster: an engine"

static struct engine **check(lua_State *L) {
  return (struct engine **)luaL_checkudata(L, 1, ENGINE);
}

static struct engine *check_open(lua_State *L) {
  struct engine *engine = *check(L);
  if (engine == NULL) luaL_error(L, "the connection has ended");
  return engine;
}

static int end(lua_State *L) {
  struct engine **place = check(L), *engine = *place;
  *place = NULL;
  if (engine != NULL) baton_cluster_end(engine);
  return 0;
}

static const char *string_field(lua_State *L, const char *name) {
  const char *text;
  lua_getfield(L, 1, name); /* the table keeps the string */
  text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
}

static double number_field(lua_State *L, const char *name) {
  double number;
  lua_getfield(L, 1, name);
  number = lua_tonumber(L, -1);
  lua_pop(L, 1);
  return number;
}

/* connect(options, ticket) -> engine. The options have been checked. */
static int connect(lua_State *L) {
  struct engine_options options;
  struct engine **place;
  int error;
  luaL_checktype(L, 1, LUA_TTABLE);
  options.url = string_field(L, "url");
  options.name = string_field(L, "name");
  options.user = string_field(L, "user");
  options.password = string_field(L, "password");
  options.token = string_field(L, "token");
  options.credentials = string_field(L, "credentials");
  options.authority = string_field(L, "ca");
  options.certificate = string_field(L, "cert");
  options.key = string_field(L, "key");
  options.is_encrypted = number_field(L, "encrypted") != 0;
  options.is_simulated = baton_module_is_simulated();
  options.seed = (uint64_t)number_field(L, "seed");
  options.delay = number_field(L, "delay");
  options.loss = number_field(L, "loss");
  options.duplication = number_field(L, "duplication");
  options.every = number_field(L, "every");
  options.lasts = number_field(L, "lasts");
  baton_module_check_memory(L);
  place = (struct engine **)lua_newuserdatauv(L, sizeof *place, 0);
  *place = NULL;
  luaL_setmetatable(L, ENGINE);
  *place = baton_cluster_connect(&options, (uint64_t)luaL_checkinteger(L, 2), &error);
  if (*place == NULL)
    return luaL_error(L, "cannot start the cluster's thread: %s", strerror(error));
  return 1;
}

static void read_bytes(lua_State *L, int index, struct bytes *bytes) {
  bytes->at = luaL_optlstring(L, index, NULL, &bytes->size);
  if (bytes->at == NULL) bytes->size = 0;
}

/* ticket() -> a number that no other command of the program has */
static int ticket(lua_State *L) {
  static uint64_t last;
  /* Relaxed: only that each gets another one. */
  lua_pushinteger(L, (lua_Integer)__atomic_add_fetch(&last, 1, __ATOMIC_RELAXED));
  return 1;
}

/* submit(engine, kind, ticket, subject, text, payload, 5 numbers) -> whether there was room; nil if
   the connection has ended */
static int submit(lua_State *L) {
  struct engine *engine = *check(L);
  struct engine_command command;
  int i;
  if (engine == NULL || !baton_cluster_is_ours(engine)) return 0;
  baton_module_check_memory(L);
  command.kind = (int)luaL_checkinteger(L, 2);
  command.ticket = (uint64_t)luaL_optinteger(L, 3, 0);
  read_bytes(L, 4, &command.subject);
  read_bytes(L, 5, &command.text);
  read_bytes(L, 6, &command.payload);
  for (i = 0; i < 5; i++) command.numbers[i] = luaL_optnumber(L, 7 + i, -1);
  lua_pushboolean(L, baton_cluster_submit(engine, &command, baton_now()));
  return 1;
}

static void push_bytes(lua_State *L, const struct bytes *bytes) {
  if (bytes->at == NULL)
    lua_pushnil(L);
  else
    lua_pushlstring(L, bytes->at, bytes->size);
}

/* take(engine) -> kind, ticket, subject, text, payload, 2 numbers; or nothing */
static int take(lua_State *L) {
  struct engine *engine = check_open(L);
  struct engine_event event;
  if (!baton_cluster_take(engine, baton_now(), &event)) return 0;
  lua_pushinteger(L, event.kind);
  lua_pushinteger(L, (lua_Integer)event.ticket);
  push_bytes(L, &event.subject);
  push_bytes(L, &event.text);
  push_bytes(L, &event.payload);
  lua_pushinteger(L, (lua_Integer)event.numbers[0]);
  lua_pushinteger(L, (lua_Integer)event.numbers[1]);
  return 7;
}

/* take_job(engine, queue, numbers) -> payload, why, tries, number; or nothing. `numbers[number]` is
   true before anything can fail, so that the end of the process gives the job back. */
static int take_job(lua_State *L) {
  struct engine *engine = *check(L);
  struct bytes name;
  struct engine_event event;
  luaL_checkstring(L, 2);
  read_bytes(L, 2, &name);
  luaL_checktype(L, 3, LUA_TTABLE);
  if (engine == NULL || !baton_cluster_take_job(engine, &name, &event)) return 0;
  lua_pushboolean(L, 1);
  lua_rawseti(L, 3, (lua_Integer)event.numbers[1]);
  push_bytes(L, &event.payload);
  push_bytes(L, &event.text);
  lua_pushinteger(L, (lua_Integer)event.numbers[0]);
  lua_pushinteger(L, (lua_Integer)event.numbers[1]);
  return 4;
}

/* descriptor(engine) -> number, or nil in a simulated run */
static int descriptor(lua_State *L) {
  const int number = baton_cluster_descriptor(check_open(L));
  if (number < 0) return 0;
  lua_pushinteger(L, number);
  return 1;
}

/* due(engine) -> seconds until there is something to take, or nil */
static int due(lua_State *L) {
  const uint64_t due = baton_cluster_due(check_open(L)), now = baton_now();
  if (due == BATON_NO_DEADLINE) return 0;
  lua_pushnumber(L, due > now ? (double)(due - now) / 1e9 : 0);
  return 1;
}

/* state(engine) -> "online", "offline", or "closed" in a program that did not make it */
static int state(lua_State *L) {
  const struct engine *engine = *check(L);
  const int is_ours = engine != NULL && baton_cluster_is_ours(engine);
  lua_pushstring(L, !is_ours ? "closed"
      : baton_cluster_is_online(engine, baton_now()) ? "online"
                                                     : "offline");
  return 1;
}

static int lost(lua_State *L) {
  const struct engine *engine = *check(L);
  const uint64_t ticket = (uint64_t)luaL_checkinteger(L, 2);
  lua_pushinteger(L, engine == NULL ? 0 : (lua_Integer)baton_cluster_lost(engine, ticket));
  return 1;
}

static int max_payload(lua_State *L) {
  const struct engine *engine = *check(L);
  lua_pushinteger(L, engine == NULL ? LUA_MAXINTEGER
                                    : (lua_Integer)baton_cluster_max_payload(engine));
  return 1;
}

/* source(name) -> the chunk of a file of lua/, named "cluster" or "cluster/FILE" */
static int source(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  size_t size;
  const char *text = baton_cluster_source(name, &size);
  baton_module_load(L, name, text, size);
  return 1;
}

int baton_cluster_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"connect", connect}, {"ticket", ticket},
      {"submit", submit}, {"take", take}, {"take_job", take_job}, {"descriptor", descriptor},
      {"due", due}, {"state", state}, {"lost", lost}, {"max_payload", max_payload},
      {"finish", end}, {"source", source}, {"pack", baton_cluster_pack},
      {"pack_list", baton_cluster_pack_list},
      {"unpack", baton_cluster_unpack}, {"unpack_list", baton_cluster_unpack_list},
      {"work_of", baton_cluster_work_of},
      {NULL, NULL}};
  if (luaL_newmetatable(L, ENGINE)) {
    lua_pushcfunction(L, end);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    baton_module_note(end, BATON_MODULE_IS_QUICK | BATON_MODULE_GIVES_BACK);
  }
  lua_pop(L, 1);
  baton_module_note(baton_cluster_unpack, BATON_MODULE_GIVES_WAY);
  baton_module_note(baton_cluster_unpack_list, BATON_MODULE_GIVES_WAY);
  baton_module_note(baton_cluster_work_of, BATON_MODULE_GIVES_WAY);
  lua_pushcfunction(L, source);
  lua_pushliteral(L, "cluster");
  lua_call(L, 1, 1);
  luaL_newlib(L, functions);
  baton_module_push(L, BATON_MODULE_REFUSE);
  lua_setfield(L, -2, "refuse");
  baton_module_push(L, BATON_MODULE_RAISE);
  lua_setfield(L, -2, "raise");
  baton_module_push(L, BATON_MODULE_END_PROCESS);
  lua_setfield(L, -2, "end_process");
  lua_pushboolean(L, baton_module_is_simulated());
  lua_setfield(L, -2, "is_simulated");
  lua_call(L, 1, 1);
  return 1;
}
