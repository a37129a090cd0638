/*
** process.context and its kin: data that follows the work, such as the number of a request; and
** process.time_left.
**
** A context is a table that never changes: a change makes another one. So a process inherits it
** from the one that spawns it by its address (state/handles.c), and nothing is done if there is
** none. Programs get copies.
**
** Its string keys are the fields. Its integer keys have texts that were made of the fields
** (baton_lua_text_of_context): each is made once, for all processes that have the context.
*/
#include "seam/internals.h"
#include "objects/objects.h"
#include "state/checks.h"

#include <stdio.h>
#include <string.h>

#define MOST_FIELDS 16
#define MOST_NAME 40   /* bytes of a name */
#define MOST_TEXT 1000 /* bytes of a value */

/* {======================================================
** Fields
** ======================================================= */

static int is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Raises an error unless the string at `index` can name a field. */
static void check_name(lua_State *L, int arg, int index) {
  size_t size, i;
  const char *name = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &size) : NULL;
  int is_name = name != NULL && size > 0 && size <= MOST_NAME && is_letter(name[0]);
  for (i = 1; is_name && i < size; i++)
    is_name = is_letter(name[i]) || (name[i] >= '0' && name[i] <= '9');
  if (is_name) return;
  luaL_tolstring(L, index, NULL);
  luaL_argerror(L, arg,
      lua_pushfstring(L,
          "a field's name expected: letters, digits and '_', at most %d; got '%s'", MOST_NAME,
          lua_tostring(L, -1)));
}

/* Raises an error unless the value at `index` can be that of a field. The name is below it. */
static void check_value(lua_State *L, int arg, int index, const char *name) {
  switch (lua_type(L, index)) {
    case LUA_TNIL: case LUA_TBOOLEAN: case LUA_TNUMBER: return;
    case LUA_TSTRING:
      if (lua_rawlen(L, index) <= MOST_TEXT) return;
      luaL_argerror(L, arg,
          lua_pushfstring(L, "field '%s': at most %d bytes expected, got %I", name, MOST_TEXT,
              (LUAI_UACINT)lua_rawlen(L, index)));
      break;
    default:
      luaL_argerror(L, arg,
          lua_pushfstring(L, "field '%s': string, number or boolean expected, got %s", name,
              luaL_typename(L, index)));
  }
}

/* Pushes the context of a process, or nil. */
static void push_context(lua_State *L, const struct baton_process *process) {
  baton_lua_enter(L);
  if (process->context != NULL) {
    sethvalue2s(L, L->top.p, process->context);
  } else {
    setnilvalue(s2v(L->top.p));
  }
  api_incr_top(L);
  baton_lua_leave(L);
}

/* Pushes a table with the fields of the process's context. Returns their number. */
static int push_copy(lua_State *L, const struct baton_process *process) {
  int fields = 0, context;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  push_context(L, process);
  context = lua_gettop(L);
  lua_newtable(L);
  if (!lua_isnil(L, context)) {
    for (lua_pushnil(L); lua_next(L, context); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING) continue;
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, context + 1);
      fields++;
    }
  }
  lua_remove(L, context);
  return fields;
}

/* Sets the field whose name is below its value, on the top of the stack, in the table at `copy`.
   Pops the value. Returns how many fields there are more. */
static int set_field(lua_State *L, int copy) {
  int was_there, is_there = !lua_isnil(L, -1);
  lua_pushvalue(L, -2);
  was_there = lua_rawget(L, copy) != LUA_TNIL;
  lua_pop(L, 1);
  lua_pushvalue(L, -2);
  lua_insert(L, -2);
  lua_rawset(L, copy);
  return is_there - was_there;
}

/* Makes a copy of the caller's context, with the fields of the table at `index`, the caller's
   context. `arg` is the table's number for messages. */
static void change(lua_State *L, struct baton_process *caller, int index, int arg) {
  int fields = push_copy(L, caller);
  const int copy = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, index);) {
    check_name(L, arg, -2);
    check_value(L, arg, -1, lua_tostring(L, -2));
    fields += set_field(L, copy);
  }
  luaL_argcheck(L, fields <= MOST_FIELDS, arg, "a context has at most 16 fields");
  if (fields == 0) {
    lua_pop(L, 1);
    lua_pushnil(L);
  }
  baton_lua_set_context(L, caller);
}

/* }====================================================== */

/* {======================================================
** Functions
** ======================================================= */

/* context(): a copy, or nil. context(name): the field's value, or nil. */
static int process_context(lua_State *L) {
  const struct baton_process *caller = baton_inline_caller(L);
  if (lua_isnoneornil(L, 1)) {
    if (push_copy(L, caller) == 0) lua_pushnil(L);
    return 1;
  }
  luaL_checktype(L, 1, LUA_TSTRING);
  push_context(L, caller);
  if (lua_isnil(L, -1)) return 1;
  lua_pushvalue(L, 1);
  lua_rawget(L, -2);
  return 1;
}

/* set_context(fields), set_context(name, value), set_context(nil): for the caller, and the
   processes that it spawns from now on. */
static int process_set_context(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  int fields;
  lua_settop(L, 2);
  switch (lua_type(L, 1)) {
    case LUA_TNIL:
      lua_settop(L, 1);
      baton_lua_set_context(L, caller);
      return 0;
    case LUA_TTABLE: change(L, caller, 1, 1); return 0;
    case LUA_TSTRING: break;
    default: luaL_typeerror(L, 1, "table, name of a field or nil");
  }
  check_name(L, 1, 1);
  check_value(L, 2, 2, lua_tostring(L, 1));
  fields = push_copy(L, caller);
  lua_insert(L, 1);
  fields += set_field(L, 1);
  luaL_argcheck(L, fields <= MOST_FIELDS, 1, "a context has at most 16 fields");
  lua_settop(L, fields > 0 ? 1 : 0);
  if (fields == 0) lua_pushnil(L);
  baton_lua_set_context(L, caller);
  return 0;
}

/* time_left(): seconds until the deadline of the caller's work, not negative; or nil. */
static int process_time_left(lua_State *L) {
  const struct baton_process *caller = baton_inline_caller(L);
  uint64_t now;
  if (caller->deadline == 0) {
    lua_pushnil(L);
    return 1;
  }
  now = baton_now();
  lua_pushnumber(L, caller->deadline > now ? (lua_Number)(caller->deadline - now) / 1e9 : 0);
  return 1;
}

static const char guard_key; /* of the guards' metatable */

/* __close of a guard: sets the context that it has. */
static int restore(lua_State *L) {
  struct baton_process *caller = baton_lua_here(L);
  if (caller == NULL || lua_rawlen(L, 1) != 0) return 0;
  lua_getiuservalue(L, 1, 1);
  baton_lua_set_context(L, caller);
  return 0;
}

static int finish(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  return lua_gettop(L) - 1; /* the guard is closed on the way */
}

/* with_context(fields, f, ...) -> results of f */
static int process_with_context(lua_State *L) {
  struct baton_process *caller = baton_inline_caller(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_newuserdatauv(L, 0, 1);
  push_context(L, caller);
  lua_setiuservalue(L, -2, 1);
  baton_lua_push_private(L, &guard_key);
  lua_setmetatable(L, -2);
  lua_insert(L, 1);
  lua_toclose(L, 1);
  change(L, caller, 2, 1);
  lua_remove(L, 2);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, finish);
  return finish(L, LUA_OK, 0);
}

void baton_lua_push_context_field(lua_State *L, const char *name) {
  const struct baton_process *caller = baton_inline_caller(L);
  push_context(L, caller);
  if (lua_isnil(L, -1)) return;
  lua_pushstring(L, name);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

int baton_lua_text_of_context(lua_State *L) {
  const struct baton_process *caller = baton_inline_caller(L);
  const lua_Integer kind = luaL_checkinteger(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  if (caller->context == NULL) return 0;
  push_context(L, caller);
  if (lua_rawgeti(L, 3, kind) == LUA_TSTRING) return 1;
  lua_pushvalue(L, 2);
  push_copy(L, caller);
  lua_call(L, 1, 1);
  luaL_checktype(L, -1, LUA_TSTRING);
  lua_pushvalue(L, -1);
  lua_rawseti(L, 3, kind);
  return 1;
}

/* }====================================================== */

/* {======================================================
** For observers
** ======================================================= */

static int comes_before(const Node *one, const Node *other) {
  return strcmp(getstr(keystrval(one)), getstr(keystrval(other))) < 0;
}

static void show_field(const Node *node, baton_field_visitor visit, void *context) {
  const TValue *value = gval(node);
  const char *name = getstr(keystrval(node));
  char text[64];
  switch (ttypetag(value)) {
    case LUA_VSHRSTR: case LUA_VLNGSTR:
      visit(context, name, getstr(tsvalue(value)), tsslen(tsvalue(value)));
      return;
    case LUA_VNUMINT: snprintf(text, sizeof text, LUA_INTEGER_FMT, ivalue(value)); break;
    case LUA_VNUMFLT: snprintf(text, sizeof text, "%.14g", fltvalue(value)); break;
    default: snprintf(text, sizeof text, "%s", ttistrue(value) ? "true" : "false"); break;
  }
  visit(context, name, text, strlen(text));
}

void baton_lua_visit_context(
    const struct baton_process *process, baton_field_visitor visit, void *context) {
  const struct Table *table = process->context;
  const Node *fields[MOST_FIELDS];
  int count = 0, i;
  if (table == NULL) return;
  for (i = 0; i < sizenode(table) && count < MOST_FIELDS; i++) {
    const Node *node = gnode(table, i);
    int place = count;
    if (isempty(gval(node)) || !keyisshrstr(node)) continue;
    for (; place > 0 && comes_before(node, fields[place - 1]); place--)
      fields[place] = fields[place - 1];
    fields[place] = node;
    count++;
  }
  for (i = 0; i < count; i++) show_field(fields[i], visit, context);
}

/* }====================================================== */

void baton_lua_open_context(lua_State *L) {
  static const luaL_Reg functions[] = {{"context", process_context},
      {"set_context", process_set_context}, {"with_context", process_with_context},
      {"time_left", process_time_left}, {NULL, NULL}};
  baton_lua_push_private(L, &guard_key);
  if (lua_isnil(L, -1)) {
    lua_newtable(L);
    lua_pushcfunction(L, restore);
    lua_setfield(L, -2, "__close");
    baton_lua_keep_private(L, &guard_key);
  }
  lua_pop(L, 1);
  luaL_setfuncs(L, functions, 0);
}
