/*
** Values of a process that has stopped: shown, set, and computed from expressions.
**
** What can be opened later gets a slot: the value is kept in a table until the process goes on. No
** method of the program is called to show a value.
*/
#include "debugger/inside.h"
#include "state/state.h"

#include <stdio.h>
#include <string.h>

struct job {
  struct baton_process *process;
  const struct baton_debugger_request *request;
  baton_debugger_visitor *visit;
  void *context;
  struct baton_place place; /* `ci` is NULL if there is no frame */
  int64_t seen;             /* variables that could be shown so far */
};

/* {======================================================
** Slots
** ======================================================= */

/* Pushes the table of shown values. */
static void push_slots(lua_State *L, struct baton_debugged *debugged) {
  baton_lua_push_private(L, debugged);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  lua_createtable(L, 8, 0);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, debugged);
}

/* Keeps the value on the top of the stack. */
static int keep(lua_State *L, struct baton_debugged *debugged) {
  const int slot = ++debugged->slots;
  push_slots(L, debugged);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  return slot;
}

static void push_kept(lua_State *L, struct baton_debugged *debugged, int slot) {
  push_slots(L, debugged);
  lua_rawgeti(L, -1, slot);
  lua_remove(L, -2);
}

static int forget(lua_State *L) {
  struct baton_debugged *debugged = lua_touserdata(L, 1);
  lua_pushnil(L);
  baton_lua_keep_private(L, debugged);
  return 0;
}

void baton_debugger_forget_values(lua_State *L, struct baton_debugged *debugged) {
  if (debugged->slots == 0) return;
  debugged->slots = 0;
  lua_pushcfunction(L, forget);
  lua_pushlightuserdata(L, debugged);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
}

/* }====================================================== */

/* {======================================================
** Showing one value
** ======================================================= */

/* What is known without counting. */
static void measure(lua_State *L, struct baton_debugger_variable *variable) {
  variable->elements = variable->fields = -1;
  if (lua_type(L, -1) != LUA_TTABLE) return;
  variable->elements = (int64_t)lua_rawlen(L, -1);
}

static int can_be_opened(lua_State *L) {
  int is_open = 0;
  switch (lua_type(L, -1)) {
    case LUA_TTABLE: return 1;
    case LUA_TFUNCTION:
      is_open = lua_getupvalue(L, -1, 1) != NULL;
      if (is_open) lua_pop(L, 1);
      return is_open;
    case LUA_TUSERDATA:
      is_open = lua_getmetatable(L, -1);
      if (is_open) lua_pop(L, 1);
      return is_open;
    default: return 0;
  }
}

/* Pushes where a function is defined, such as "function (file.lua:3)". */
static void push_function_text(lua_State *L) {
  lua_Debug record;
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &record);
  if (*record.what == 'C')
    lua_pushfstring(L, "function: %p (C)", lua_topointer(L, -1));
  else
    lua_pushfstring(L, "function: %s:%d", record.short_src, record.linedefined);
}

/* Pushes what a table or another object is called: the name that its metatable gives, or its type;
   and its address. */
static void push_object_text(lua_State *L) {
  const void *address = lua_topointer(L, -1);
  const char *type = luaL_typename(L, -1);
  if (lua_getmetatable(L, -1)) {
    lua_pushliteral(L, "__name");
    lua_rawget(L, -2);
    if (lua_type(L, -1) == LUA_TSTRING) type = lua_tostring(L, -1);
    lua_pushfstring(L, "%s: %p", type, address);
    lua_replace(L, -3);
    lua_pop(L, 1);
  } else {
    lua_pushfstring(L, "%s: %p", type, address);
  }
}

/* Pushes a text for the value on the top of the stack. A string is its own text. */
static void push_text(lua_State *L) {
  switch (lua_type(L, -1)) {
    case LUA_TNIL: lua_pushliteral(L, "nil"); break;
    case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, -1) ? "true" : "false"); break;
    case LUA_TNUMBER:
      lua_pushvalue(L, -1);
      lua_tolstring(L, -1, NULL);
      break;
    case LUA_TSTRING: lua_pushvalue(L, -1); break;
    case LUA_TFUNCTION: push_function_text(L); break;
    default: push_object_text(L); break;
  }
}

/* Shows the value on the top of the stack, and pops it. */
static void show(
    lua_State *L, struct job *job, enum baton_debugger_name kind, const char *name, size_t size) {
  struct baton_debugger_variable variable;
  luaL_checkstack(L, 8, NULL);
  variable.name_kind = kind;
  variable.name = name;
  variable.name_size = size;
  variable.type = luaL_typename(L, -1);
  variable.slot = can_be_opened(L) ? keep(L, job->process->debugged) : 0;
  measure(L, &variable);
  push_text(L);
  variable.value = lua_tolstring(L, -1, &variable.value_size);
  job->visit(job->context, &variable);
  lua_pop(L, 2);
}

static void show_plain(lua_State *L, struct job *job, const char *name) {
  show(L, job, BATON_PLAIN_NAME, name, strlen(name));
}

/* Whether the next variable is among those that are asked for. */
static int is_wanted(struct job *job) {
  const struct baton_debugger_request *request = job->request;
  const int64_t n = job->seen++;
  return n >= request->first && (request->count == 0 || n - request->first < request->count);
}

static int is_past(const struct job *job) {
  const struct baton_debugger_request *request = job->request;
  return request->count != 0 && job->seen >= request->first + request->count;
}

/* }====================================================== */

/* {======================================================
** Showing what is in a frame or a value
** ======================================================= */

/* Whether a later local variable hides this one. */
static int is_hidden(lua_State *L, const struct job *job, int n, const char *name) {
  const char *other;
  while ((other = baton_debugger_push_local(L, &job->place, ++n)) != NULL) {
    lua_pop(L, 1);
    if (strcmp(name, other) == 0) return 1;
  }
  return 0;
}

static void show_locals(lua_State *L, struct job *job) {
  const char *name;
  int n;
  for (n = 1; (name = baton_debugger_push_local(L, &job->place, n)) != NULL; n++) {
    if (*name == '(' || is_hidden(L, job, n, name) || !is_wanted(job))
      lua_pop(L, 1);
    else
      show_plain(L, job, name);
  }
}

static void show_varargs(lua_State *L, struct job *job) {
  int n;
  for (n = 1; baton_debugger_push_local(L, &job->place, -n) != NULL; n++) {
    char name[16];
    snprintf(name, sizeof name, "%d", n);
    if (is_wanted(job))
      show(L, job, BATON_OTHER_KEY, name, strlen(name));
    else
      lua_pop(L, 1);
  }
}

/* Shows the upvalues of the function on the top of the stack. */
static void show_upvalues(lua_State *L, struct job *job) {
  const char *name;
  int n;
  for (n = 1; (name = lua_getupvalue(L, -1, n)) != NULL; n++) {
    if (is_wanted(job))
      show_plain(L, job, *name != '\0' ? name : "(no name)");
    else
      lua_pop(L, 1);
  }
}

static void show_metatable(lua_State *L, struct job *job) {
  if (is_past(job) || !lua_getmetatable(L, -1)) return;
  if (is_wanted(job))
    show_plain(L, job, "(metatable)");
  else
    lua_pop(L, 1);
}

static void show_elements(lua_State *L, struct job *job) {
  const int64_t size = (int64_t)lua_rawlen(L, -1), first = job->request->first;
  int64_t i = first < 0 ? 1 : first + 1, last = size;
  char name[24];
  if (job->request->count != 0 && last > first + job->request->count)
    last = first + job->request->count;
  for (; i <= last; i++) {
    snprintf(name, sizeof name, "%lld", (long long)i);
    lua_rawgeti(L, -1, i);
    show(L, job, BATON_OTHER_KEY, name, strlen(name));
  }
  job->seen += size;
}

/* Shows the field whose key and value are on the top of the stack, and pops the value. */
static void show_field(lua_State *L, struct job *job) {
  size_t size;
  const char *text;
  lua_pushvalue(L, -2);
  push_text(L);
  lua_remove(L, -2);
  text = lua_tolstring(L, -1, &size);
  lua_insert(L, -2); /* below the value, which is popped */
  show(L, job, lua_type(L, -3) == LUA_TSTRING ? BATON_STRING_KEY : BATON_OTHER_KEY, text, size);
  lua_pop(L, 1);
}

/* Whether the key at -2 is that of an element. */
static int is_element(lua_State *L, int64_t size) {
  lua_Integer key;
  if (!lua_isinteger(L, -2)) return 0;
  key = lua_tointeger(L, -2);
  return key >= 1 && key <= size;
}

static void show_fields(lua_State *L, struct job *job) {
  const int64_t size = (int64_t)lua_rawlen(L, -1);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (is_element(L, size) || !is_wanted(job))
      lua_pop(L, 1);
    else
      show_field(L, job);
    if (is_past(job)) {
      lua_pop(L, 1);
      return;
    }
  }
}

static void show_value(lua_State *L, struct job *job) {
  const int filter = job->request->filter;
  luaL_checkstack(L, 8, NULL);
  push_kept(L, job->process->debugged, job->request->slot);
  if (lua_type(L, -1) == LUA_TTABLE) {
    if (filter != 1) show_elements(L, job);
    if (filter == 0 && is_past(job)) return;
    if (filter != 2) show_fields(L, job);
  } else if (lua_type(L, -1) == LUA_TFUNCTION) {
    show_upvalues(L, job);
  }
  if (filter != 2) show_metatable(L, job);
}

static void show_scope(lua_State *L, struct job *job) {
  switch (job->request->scope) {
    case BATON_LOCALS: show_locals(L, job); break;
    case BATON_VARARGS: show_varargs(L, job); break;
    case BATON_UPVALUES:
      baton_debugger_push_function(L, &job->place);
      show_upvalues(L, job);
      break;
    case BATON_GLOBALS:
      baton_debugger_push_globals(L, &job->place);
      show_plain(L, job, "(globals)");
      break;
    case BATON_VALUE: show_value(L, job); break;
  }
}

/* }====================================================== */

/* {======================================================
** Setting and computing
** ======================================================= */

static void push_result(lua_State *L, const struct job *job, const char *text, size_t size) {
  baton_debugger_run(L, &job->place, text, size, 1);
}

static void set_in_value(lua_State *L, struct job *job) {
  const char *name = job->request->name;
  push_kept(L, job->process->debugged, job->request->slot);
  if (lua_type(L, -1) == LUA_TFUNCTION) {
    const char *found;
    int n;
    for (n = 1; (found = lua_getupvalue(L, -1, n)) != NULL; n++) {
      lua_pop(L, 1);
      if (strcmp(found, name) != 0) continue;
      lua_pushvalue(L, -2);
      lua_setupvalue(L, -2, n);
      return;
    }
    luaL_error(L, "the function has no upvalue '%s'", name);
  }
  if (lua_type(L, -1) != LUA_TTABLE) luaL_error(L, "a value of this type has no fields to set");
  push_result(L, job, name, strlen(name));
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
}

static void set_vararg(lua_State *L, const struct job *job) {
  lua_Debug record;
  const int n = (int)lua_tointeger(L, -2);
  memset(&record, 0, sizeof record);
  record.i_ci = job->place.ci;
  if (job->place.L != L) lua_xmove(L, job->place.L, 1);
  if (n < 1 || lua_setlocal(job->place.L, &record, -n) == NULL)
    luaL_error(L, "there is no extra argument %d", n);
}

static void set(lua_State *L, struct job *job) {
  const struct baton_debugger_request *request = job->request;
  push_result(L, job, request->text, request->text_size);
  lua_pushvalue(L, -1);
  if (request->scope == BATON_VALUE) {
    set_in_value(L, job);
    lua_pushvalue(L, 2);
  } else if (request->scope == BATON_VARARGS) {
    push_result(L, job, request->name, strlen(request->name));
    lua_insert(L, -2);
    set_vararg(L, job);
    lua_pushvalue(L, 2);
  } else if (!baton_debugger_set_variable(L, &job->place, request->name)) {
    luaL_error(L, "the frame sees no variable '%s'", request->name);
  } else {
    lua_pushvalue(L, 2);
  }
  show_plain(L, job, request->name);
}

static void evaluate(lua_State *L, struct job *job) {
  const int base = lua_gettop(L);
  int i, count;
  baton_debugger_run(
      L, &job->place, job->request->text, job->request->text_size, LUA_MULTRET);
  count = lua_gettop(L) - base;
  for (i = 1; i <= count; i++) {
    luaL_checkstack(L, 8, NULL);
    lua_pushvalue(L, base + i);
    show_plain(L, job, "");
  }
}

/* }====================================================== */

static int perform(lua_State *L) {
  struct job *job = lua_touserdata(L, 1);
  switch (job->request->task) {
    case BATON_SHOW: show_scope(L, job); break;
    case BATON_SET: set(L, job); break;
    case BATON_EVALUATE: evaluate(L, job); break;
  }
  return 0;
}

int baton_debugger_perform(struct baton_process *process,
    const struct baton_debugger_request *request, baton_debugger_visitor *visit, void *context,
    char *error, size_t size) {
  lua_State *L = baton_lua_innermost(process);
  struct job job = {process, request, visit, context, {NULL, NULL}, 0};
  const char *text;
  int is_done;
  if (request->frame >= 0 && !baton_debugger_find_frame(process, request->frame, &job.place)) {
    snprintf(error, size, "there is no such frame");
    return 0;
  }
  if (!lua_checkstack(L, 4)) {
    snprintf(error, size, "stack overflow");
    return 0;
  }
  lua_pushcfunction(L, perform);
  lua_pushlightuserdata(L, &job);
  is_done = lua_pcall(L, 1, 0, 0) == LUA_OK;
  if (is_done) return 1;
  text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a text";
  snprintf(error, size, "%s", text);
  lua_pop(L, 1);
  return 0;
}
