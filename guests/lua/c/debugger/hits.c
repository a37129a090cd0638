/*
** Hits of breakpoints: conditions, counts, and the texts of log points.
*/
#include "debugger/inside.h"

#include <string.h>

struct hit {
  struct baton_process *process;
  struct baton_breakpoint *breakpoint;
  int stops;
};

static int count_hit(struct baton_breakpoint *breakpoint) {
  const uint64_t hits = ++breakpoint->hits, wanted = breakpoint->hits_wanted;
  switch (breakpoint->comparison) {
    case '=': return hits == wanted;
    case '<': return hits < wanted;
    case '>': return hits > wanted;
    case 'l': return hits <= wanted;
    case 'g': return hits >= wanted;
    case '%': return wanted != 0 && hits % wanted == 0;
    default: return 1;
  }
}

static void find_innermost(const struct baton_process *process, struct baton_place *place) {
  if (!baton_debugger_find_frame(process, 0, place)) place->ci = NULL;
}

/* Pushes the value of an expression. */
static void push_value(
    lua_State *L, const struct baton_place *place, const char *text, size_t size) {
  baton_debugger_run(L, place, text, size, 1);
}

/* Takes the place and the text; returns whether the value is true. */
static int test_condition(lua_State *L) {
  const char *text = lua_touserdata(L, 2);
  push_value(L, lua_touserdata(L, 1), text, strlen(text));
  lua_pushboolean(L, lua_toboolean(L, -1));
  return 1;
}

/* Takes the place, and the text and its size of an expression; returns its value as a text. */
static int value_as_text(lua_State *L) {
  push_value(L, lua_touserdata(L, 1), lua_touserdata(L, 2), (size_t)lua_tointeger(L, 3));
  luaL_tolstring(L, -1, NULL);
  return 1;
}

/* Pushes the value of an expression as a text; or its error, in the value's place. Returns whether
   it is one. */
static int push_filling(
    lua_State *L, struct baton_place *place, const char *text, size_t size) {
  lua_pushcfunction(L, value_as_text);
  lua_pushlightuserdata(L, place);
  lua_pushlightuserdata(L, (char *)text);
  lua_pushinteger(L, (lua_Integer)size);
  if (lua_pcall(L, 3, 1, 0) == LUA_OK) return 1;
  lua_pushfstring(
      L, "{%s}", lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a text");
  lua_remove(L, -2);
  return 0;
}

/* Takes the place and the text; returns the text with the values of the expressions in braces, and
   whether each had one. */
static int fill_in(lua_State *L) {
  struct baton_place *place = lua_touserdata(L, 1);
  const char *text = lua_touserdata(L, 2), *open, *close;
  int parts = 0, is_right = 1;
  for (; *text != '\0'; text = close + 1) {
    luaL_checkstack(L, 8, NULL);
    open = strchr(text, '{');
    close = open != NULL ? strchr(open, '}') : NULL;
    if (close == NULL) {
      lua_pushstring(L, text);
      parts++;
      break;
    }
    lua_pushlstring(L, text, (size_t)(open - text));
    is_right &= push_filling(L, place, open + 1, (size_t)(close - open - 1));
    parts += 2;
    if (parts > 64) {
      lua_concat(L, parts);
      parts = 1;
    }
  }
  lua_concat(L, parts);
  lua_pushboolean(L, is_right);
  return 2;
}

/* Calls one of the two. Leaves its results, or an error's text in place of the first one, on the
   stack. */
static int call(
    lua_State *L, lua_CFunction function, struct baton_place *place, char *text, int results) {
  int status;
  lua_pushcfunction(L, function);
  lua_pushlightuserdata(L, place);
  lua_pushlightuserdata(L, text);
  status = lua_pcall(L, 2, results, 0);
  if (status == LUA_OK) return 1;
  if (lua_type(L, -1) != LUA_TSTRING) {
    lua_pop(L, 1);
    lua_pushliteral(L, "an error without a text");
  }
  lua_settop(L, lua_gettop(L) + results - 1);
  return 0;
}

static void write_log(lua_State *L, const struct hit *hit, int index, int wrong) {
  size_t size;
  const char *text = lua_tolstring(L, index, &size);
  baton_debug_log(hit->process->id, hit->breakpoint->id, wrong, text, size);
}

/* Whether the condition is true. If it is wrong, the process stops, so that the mistake is seen. */
static int meets_condition(lua_State *L, struct hit *hit, struct baton_place *place) {
  int is_met = 1;
  if (call(L, test_condition, place, hit->breakpoint->condition, 1))
    is_met = lua_toboolean(L, -1);
  else
    write_log(L, hit, -1, BATON_WRONG_CONDITION);
  lua_pop(L, 1);
  return is_met;
}

static void examine(lua_State *L, void *argument) {
  struct hit *hit = argument;
  struct baton_breakpoint *breakpoint = hit->breakpoint;
  struct baton_place place = {NULL, NULL};
  const unsigned char before = hit->process->in_debugger;
  hit->process->in_debugger = baton_simulated ? BATON_ALONE_IN_DEBUGGER : BATON_IN_DEBUGGER;
  find_innermost(hit->process, &place);
  hit->stops = 1;
  if (baton_debugger_begin_evaluation(hit->process)) {
    if (breakpoint->condition != NULL) hit->stops = meets_condition(L, hit, &place);
    if (hit->stops) hit->stops = count_hit(breakpoint);
    if (hit->stops && breakpoint->log != NULL) {
      const int is_right = call(L, fill_in, &place, breakpoint->log, 2) && lua_toboolean(L, -1);
      write_log(L, hit, -2, is_right ? BATON_NOTHING_WRONG : BATON_WRONG_LOG);
      lua_pop(L, 2);
      hit->stops = 0;
    }
    baton_debugger_end_evaluation(hit->process);
  }
  hit->process->in_debugger = before;
}

int baton_debugger_hits(
    lua_State *L, struct baton_process *process, struct baton_breakpoint *breakpoint) {
  struct hit hit = {process, breakpoint, 1};
  if (breakpoint->condition == NULL && breakpoint->log == NULL) return count_hit(breakpoint);
  baton_debugger_begin_use(breakpoint);
  baton_debugger_in_hook(L, examine, &hit);
  return !baton_debugger_end_use(breakpoint) && hit.stops;
}
