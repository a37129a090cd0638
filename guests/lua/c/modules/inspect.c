/*
** require "baton.inspect": questions of the program about itself. They are answered on other
** threads (inside/own.rs). The functions are in Lua (lua/inspect.lua), so the process that asks
** waits as any other, and can be killed meanwhile.
*/
#include "modules/modules.h"
#include "process/process.h"
#include "state/state.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct inquiry;
/* inside/own.rs says what these do. */
struct inquiry *baton_inspect_begin(
    const char *what, double seconds, uint32_t rate, const char *path, int *error);
int baton_inspect_take(struct inquiry *inquiry, const char **text, size_t *size);
int baton_inspect_descriptor(const struct inquiry *inquiry);
void baton_inspect_stop(const struct inquiry *inquiry);
void baton_inspect_end(struct inquiry *inquiry);

#define INQUIRY "baton.inspect: a question"

static struct inquiry **check(lua_State *L) {
  return (struct inquiry **)luaL_checkudata(L, 1, INQUIRY);
}

static struct inquiry *check_open(lua_State *L) {
  struct inquiry *inquiry = *check(L);
  if (inquiry == NULL) luaL_error(L, "the question has ended");
  return inquiry;
}

static int inquiry_end(lua_State *L) {
  struct inquiry **place = check(L), *inquiry = *place;
  *place = NULL;
  if (inquiry != NULL) baton_inspect_end(inquiry);
  return 0;
}

/* begin(what, seconds, rate, path or nil) */
static int begin(lua_State *L) {
  const char *what = luaL_checkstring(L, 1), *path = luaL_optstring(L, 4, NULL);
  const double seconds = luaL_checknumber(L, 2);
  const lua_Integer rate = luaL_checkinteger(L, 3);
  int error;
  struct inquiry **place;
  if (baton_simulated)
    return luaL_error(L, "baton.inspect has no answer in a simulated run, as its seed would not "
                         "repeat the run");
  baton_lua_check_memory(L);
  place = (struct inquiry **)lua_newuserdatauv(L, sizeof *place, 0);
  *place = NULL;
  luaL_setmetatable(L, INQUIRY);
  *place = baton_inspect_begin(what, seconds, (uint32_t)rate, path, &error);
  if (*place == NULL)
    return luaL_error(L, "cannot ask '%s': %s", what,
        error != 0 ? strerror(error) : "no such question");
  return 1;
}

/* take(question): "begun", "part" and its text, "failure" and its reason, "end", or nil. */
static int take(lua_State *L) {
  static const char *const words[] = {NULL, "begun", "part", "failure", "end"};
  const char *text;
  size_t size;
  const int what = baton_inspect_take(check_open(L), &text, &size);
  lua_pushstring(L, words[what]);
  if (what != 2 && what != 3) return 1;
  lua_pushlstring(L, text, size);
  return 2;
}

static int descriptor(lua_State *L) {
  lua_pushinteger(L, baton_inspect_descriptor(check_open(L)));
  return 1;
}

static int stop(lua_State *L) {
  baton_inspect_stop(check_open(L));
  return 0;
}

/* trace(f, path): calls f and writes what happens meanwhile to a file. Returns what f returns. A
   child that f has forked writes nothing: the file is its parent's, and the fork has ended the
   child's trace. */
static int trace(lua_State *L) {
  const void *executor = baton_lua_caller(L)->vm->executor;
  const char *path = luaL_checkstring(L, 2);
  const pid_t pid = getpid();
  struct baton_trace *events;
  char message[300];
  uint64_t begin;
  int status, is_written;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 2);
  lua_insert(L, 1); /* the path stays below the results */
  baton_lua_enter(L);
  begin = baton_begin_trace(executor);
  baton_lua_leave(L);
  status = lua_pcall(L, 0, LUA_MULTRET, 0);
  if (getpid() != pid) return status == LUA_OK ? lua_gettop(L) - 1 : lua_error(L);
  baton_lua_enter(L);
  events = baton_end_trace(executor, begin);
  baton_lua_leave(L);
  is_written = baton_write_trace(events, path, message, sizeof message);
  if (status != LUA_OK) return lua_error(L);
  if (!is_written) return luaL_error(L, "%s", message);
  return lua_gettop(L) - 1;
}

int baton_lua_open_inspect(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"begin", begin}, {"take", take}, {"descriptor", descriptor}, {"stop", stop},
      {"trace", trace}, {"refuse", baton_lua_refuse_argument}, {NULL, NULL}};
  if (luaL_newmetatable(L, INQUIRY)) {
    lua_pushcfunction(L, inquiry_end);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, inquiry_end);
    lua_setfield(L, -2, "__close");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    baton_lua_note_quick_finalizer(inquiry_end);
  }
  lua_pop(L, 1);
  baton_lua_load_part(L, "inspect", "=baton.inspect");
  luaL_newlib(L, functions);
  lua_call(L, 1, 1);
  return 1;
}
