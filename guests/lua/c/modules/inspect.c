/*
** require "baton.inspect": questions of the program about itself. They are answered on other
** threads (inside/own.rs). The functions are in Lua (lua/inspect.lua), so the process that asks
** waits as any other, and can be killed meanwhile. And the program's own metrics.
*/
#include "modules/modules.h"
#include "objects/objects.h"
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

/* {======================================================
** The program's own metrics
** ======================================================= */

/*
** The values are outside of all heaps (own_metrics.rs). An object here has the number of a metric.
*/

struct text {
  const char *bytes;
  size_t size;
};

/* own_metrics.rs says what these do. */
int baton_metric_number(int kind, const char *name, const char *help, const struct text *labels,
    size_t label_count, const double *bounds, size_t bound_count, size_t most, char *message,
    size_t room);
int baton_metric_change(uint32_t number, int what, double value, const struct text *labels,
    size_t label_count, char *message, size_t room);

enum { ADD, SET, OBSERVE, REMOVE };
enum { MOST = 100, ROOM = 300 };

/* The kinds, in the order of `kind`: in Lua, and as names of metatables. */
static const char *const kinds[] = {"counter", "gauge", "histogram", NULL};
static const char *const names[] = {
    "baton.inspect counter", "baton.inspect gauge", "baton.inspect histogram", NULL};

/* What Lua has of a metric. Its user value is a list: the fields of the context whose values are
   those of the last labels; nil if there are none. */
struct metric {
  uint32_t number;
};

/* The library debug could give another userdata our metatable. So its size is checked, and any
   number is that of a metric, or of none. */
static uint32_t check_metric(lua_State *L) {
  int kind;
  for (kind = 0; names[kind] != NULL; kind++) {
    const struct metric *metric = (const struct metric *)luaL_testudata(L, 1, names[kind]);
    if (metric != NULL && lua_rawlen(L, 1) >= sizeof *metric) return metric->number;
  }
  luaL_typeerror(L, 1, "metric");
  return 0;
}

/* The values of labels from `first` on. Their texts stay on the stack. */
static size_t take_labels(lua_State *L, int first, struct text *labels) {
  const int count = lua_gettop(L) - first + 1;
  int i;
  if (count <= 0) return 0;
  luaL_argcheck(L, count <= MOST, first + MOST, "too many label values");
  luaL_checkstack(L, count, NULL);
  for (i = 0; i < count; i++) {
    const int type = lua_type(L, first + i);
    if (type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN)
      luaL_typeerror(L, first + i, "string, number or boolean as a label's value");
    labels[i].bytes = luaL_tolstring(L, first + i, &labels[i].size);
  }
  return (size_t)count;
}

/* Adds the values of the metric's fields of the context: an empty text for one that is not set. */
static size_t take_context(lua_State *L, struct text *labels, size_t count) {
  int fields, i, last;
  if (lua_getiuservalue(L, 1, 1) != LUA_TTABLE) return count;
  fields = lua_gettop(L);
  last = (int)lua_rawlen(L, fields);
  luaL_checkstack(L, 2 * last + 4, NULL);
  for (i = 1; i <= last && count < MOST; i++) {
    lua_rawgeti(L, fields, i);
    baton_lua_push_context_field(L, luaL_checkstring(L, -1));
    if (lua_isnil(L, -1)) {
      lua_pushliteral(L, "");
      lua_replace(L, -2);
    }
    lua_replace(L, -2);
    labels[count].bytes = luaL_tolstring(L, -1, &labels[count].size);
    count++;
  }
  return count;
}

static int change(lua_State *L, int what, double value, int first) {
  struct text labels[MOST];
  char message[ROOM];
  const uint32_t number = check_metric(L);
  size_t count = take_labels(L, first, labels);
  int done;
  if (what != REMOVE) count = take_context(L, labels, count);
  done = baton_metric_change(number, what, value, labels, count, message, ROOM);
  if (done < 0) return luaL_error(L, "%s", message);
  if (what != REMOVE) return 0;
  lua_pushboolean(L, done);
  return 1;
}

static int metric_add(lua_State *L) { return change(L, ADD, luaL_optnumber(L, 2, 1), 3); }

static int metric_set(lua_State *L) { return change(L, SET, luaL_checknumber(L, 2), 3); }

static int metric_observe(lua_State *L) { return change(L, OBSERVE, luaL_checknumber(L, 2), 3); }

static int metric_remove(lua_State *L) { return change(L, REMOVE, 0, 2); }

/* metric(kind, name, help, labels, bounds, context, most): the object, or nil and why not. Lists of
   strings and numbers. `labels` ends with the fields in `context`, a list or nil. */
static int new_metric(lua_State *L) {
  const int kind = luaL_checkoption(L, 1, NULL, kinds);
  const char *name = luaL_checkstring(L, 2), *help = luaL_checkstring(L, 3);
  const lua_Integer label_count = luaL_len(L, 4), bound_count = luaL_len(L, 5);
  const lua_Integer most = luaL_checkinteger(L, 7);
  struct text labels[MOST];
  double bounds[MOST];
  char message[ROOM];
  struct metric *metric;
  int i, made;
  if (label_count > MOST || bound_count > MOST)
    return luaL_error(L, "too many labels or bounds: at most %d expected", MOST);
  luaL_checkstack(L, (int)label_count, NULL);
  lua_settop(L, 7);
  metric = (struct metric *)lua_newuserdatauv(L, sizeof *metric, 1);
  lua_pushvalue(L, 6);
  lua_setiuservalue(L, -2, 1);
  for (i = 0; i < (int)bound_count; i++) {
    lua_rawgeti(L, 5, i + 1);
    bounds[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  for (i = 0; i < (int)label_count; i++) {
    lua_rawgeti(L, 4, i + 1);
    labels[i].bytes = lua_tolstring(L, -1, &labels[i].size);
    if (labels[i].bytes == NULL) return luaL_error(L, "a list of names expected in 'labels'");
  }
  made = baton_metric_number(
      kind, name, help, labels, (size_t)label_count, bounds, (size_t)bound_count, (size_t)most,
      message, ROOM);
  if (made < 0) {
    lua_pushnil(L);
    lua_pushstring(L, message);
    return 2;
  }
  metric->number = (uint32_t)made;
  lua_settop(L, 8);
  luaL_setmetatable(L, names[kind]);
  return 1;
}

static void add_metrics(lua_State *L) {
  static const luaL_Reg methods[3][4] = {
      {{"add", metric_add}, {"remove", metric_remove}, {NULL, NULL}},
      {{"add", metric_add}, {"set", metric_set}, {"remove", metric_remove}, {NULL, NULL}},
      {{"observe", metric_observe}, {"remove", metric_remove}, {NULL, NULL}}};
  int kind;
  for (kind = 0; names[kind] != NULL; kind++) {
    if (luaL_newmetatable(L, names[kind])) {
      lua_newtable(L);
      luaL_setfuncs(L, methods[kind], 0);
      lua_setfield(L, -2, "__index");
    }
    lua_pop(L, 1);
  }
  lua_pushcfunction(L, new_metric);
  lua_setfield(L, -2, "metric");
}

/* }====================================================== */

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
  add_metrics(L);
  baton_lua_run_part(L, 1, 1);
  return 1;
}
