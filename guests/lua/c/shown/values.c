/*
** Values of a process that has stopped: shown, set, and computed from expressions.
**
** What can be opened later gets a slot: the value is kept in a table until the process goes on. No
** method of the program is called to show a value.
*/
#include "shown/inside.h"
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

/* Pushes the table of shown values: those that can be opened are its elements. */
static void push_slots(lua_State *L, struct baton_process *process) {
  baton_lua_push_private(L, &process->debugged);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  lua_createtable(L, 8, 0);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, &process->debugged);
}

/* Keeps the value on the top of the stack. Returns its slot. */
static int keep(lua_State *L, struct baton_process *process) {
  int slot;
  push_slots(L, process);
  slot = (int)lua_rawlen(L, -1) + 1;
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, slot);
  lua_pop(L, 1);
  return slot;
}

static void push_kept(lua_State *L, struct baton_process *process, int slot) {
  push_slots(L, process);
  lua_rawgeti(L, -1, slot);
  lua_remove(L, -2);
}

/* In a table of its own, as it may be nil. */
void baton_debugger_keep_error(lua_State *L, struct baton_process *process) {
  push_slots(L, process);
  lua_createtable(L, 1, 0);
  lua_pushvalue(L, -3);
  lua_rawseti(L, -2, 1);
  lua_setfield(L, -2, "error");
  lua_pop(L, 1);
}

/* Pushes the error, and returns 1; or returns 0 if there is none. */
static int push_error(lua_State *L, struct baton_process *process) {
  push_slots(L, process);
  lua_getfield(L, -1, "error");
  lua_remove(L, -2);
  if (lua_istable(L, -1)) {
    lua_rawgeti(L, -1, 1);
    lua_remove(L, -2);
    return 1;
  }
  lua_pop(L, 1);
  return 0;
}

static int forget(lua_State *L) {
  struct baton_process *process = lua_touserdata(L, 1);
  lua_pushnil(L);
  baton_lua_keep_private(L, &process->debugged);
  return 0;
}

void baton_debugger_forget_shown(struct baton_process *process) {
  lua_State *L = baton_lua_innermost(process);
  if (!lua_checkstack(L, 4)) return;
  lua_pushcfunction(L, forget);
  lua_pushlightuserdata(L, process);
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

/* Shows the value on the top of the stack, and pops it. */
static void show(
    lua_State *L, struct job *job, enum baton_debugger_name kind, const char *name, size_t size) {
  struct baton_debugger_variable variable;
  luaL_checkstack(L, 8, NULL);
  variable.name_kind = kind;
  variable.name = name;
  variable.name_size = size;
  variable.type = luaL_typename(L, -1);
  variable.slot = can_be_opened(L) ? keep(L, job->process) : 0;
  measure(L, &variable);
  baton_debugger_push_text(L);
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

/* What kind of name a key is. Of a number, an expression must give it again. */
static enum baton_debugger_name kind_of_key(lua_State *L) {
  lua_Number number;
  switch (lua_type(L, -1)) {
    case LUA_TSTRING: return BATON_STRING_KEY;
    case LUA_TBOOLEAN: return BATON_OTHER_KEY;
    case LUA_TNUMBER: break;
    default: return BATON_OBJECT_KEY;
  }
  if (lua_isinteger(L, -1)) return BATON_OTHER_KEY;
  number = lua_tonumber(L, -1);
  lua_pushvalue(L, -1);
  if (lua_stringtonumber(L, lua_tostring(L, -1)) == 0) {
    lua_pop(L, 1); /* inf or nan */
    return BATON_OBJECT_KEY;
  }
  lua_remove(L, -2);
  number -= lua_tonumber(L, -1);
  lua_pop(L, 1);
  return number == 0 ? BATON_OTHER_KEY : BATON_OBJECT_KEY;
}

/* Shows the field whose key is on the top of the stack, above its table. Pops the key. */
static void show_field(lua_State *L, struct job *job) {
  const enum baton_debugger_name kind = kind_of_key(L);
  size_t size;
  const char *text;
  baton_debugger_push_text(L);
  text = lua_tolstring(L, -1, &size);
  lua_insert(L, -2); /* below the value, which is popped */
  lua_rawget(L, -3);
  show(L, job, kind, text, size);
  lua_pop(L, 1);
}

/* Shows the fields of the table on the top of the stack, in order. */
static void show_fields(lua_State *L, struct job *job) {
  int64_t i, count;
  baton_debugger_push_keys(L, (int64_t)lua_rawlen(L, -1));
  count = (int64_t)lua_rawlen(L, -1);
  lua_pushvalue(L, -2);
  for (i = 1; i <= count && !is_past(job); i++) {
    if (!is_wanted(job)) continue;
    lua_rawgeti(L, -2, i);
    show_field(L, job);
  }
  lua_pop(L, 2);
}

static void show_value(lua_State *L, struct job *job) {
  const int filter = job->request->filter;
  luaL_checkstack(L, 8, NULL);
  push_kept(L, job->process, job->request->slot);
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
    case BATON_ERROR:
      if (push_error(L, job->process)) show_plain(L, job, "(error)");
      break;
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
  push_kept(L, job->process, job->request->slot);
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
  const int n = (int)lua_tointeger(L, -2);
  if (n < 1 || !baton_debugger_set_local(L, &job->place, -n))
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

static void visit_name(lua_State *L, void *job, const char *name) {
  lua_pushvalue(L, -1);
  show_plain(L, job, name);
}

static void complete(lua_State *L, struct job *job) {
  const struct baton_debugger_request *request = job->request;
  const char *path = lua_pushlstring(L, request->text, request->text_size);
  baton_debugger_complete(L, &job->place, path, request->name, visit_name, job);
}

/* }====================================================== */

static int perform(lua_State *L) {
  struct job *job = lua_touserdata(L, 1);
  switch (job->request->task) {
    case BATON_SHOW: show_scope(L, job); break;
    case BATON_SET: set(L, job); break;
    case BATON_EVALUATE: evaluate(L, job); break;
    case BATON_COMPLETE: complete(L, job); break;
  }
  return 0;
}

/* Finds the frame of the request. Returns NULL, or why there is none. Inside the VM. */
static const char *find_place(struct job *job) {
  const struct baton_debugger_request *request = job->request;
  const struct baton_process *target = job->process;
  if (request->process != target->id)
    target = baton_debugger_find(target->vm, request->process);
  if (target == NULL || target->L == NULL) return "this process has ended";
  if (request->frame < 0) return NULL;
  if (request->mark != 0 && request->mark != baton_debugger_mark_of(target, request->frame))
    return "this frame is gone: its process has run since";
  return baton_debugger_find_frame(target, request->frame, &job->place) ? NULL
                                                                        : "there is no such frame";
}

/* Performs it. Leaves nothing on the stack, or an error. */
static int perform_protected(lua_State *L, struct job *job) {
  int status;
  if (!baton_debugger_begin_evaluation(job->process)) {
    lua_pushliteral(L, "the expression was ended");
    return LUA_ERRRUN;
  }
  lua_pushcfunction(L, perform);
  lua_pushlightuserdata(L, job);
  status = lua_pcall(L, 1, 0, 0);
  baton_debugger_end_evaluation(job->process);
  return status;
}

/* In the frame of another process, nothing else runs meanwhile, so that it stays as it is. */
static int perform_for_other(lua_State *L, struct job *job, const char **why) {
  struct baton_process *process = job->process;
  struct baton_mark mark;
  int status = LUA_OK;
  baton_lua_enter(L);
  baton_lua_begin_critical(process, &mark);
  *why = find_place(job);
  baton_lua_leave(L);
  if (*why == NULL) status = perform_protected(L, job);
  baton_lua_enter(L);
  baton_lua_end_critical(process);
  baton_lua_leave(L);
  return status;
}

int baton_debugger_perform(struct baton_process *process,
    const struct baton_debugger_request *request, baton_debugger_visitor *visit, void *context,
    char *error, size_t size) {
  lua_State *L = baton_lua_innermost(process);
  struct job job = {process, request, visit, context, {NULL, NULL}, 0};
  const char *why = NULL, *text;
  int status = LUA_OK;
  if (!lua_checkstack(L, 4)) {
    snprintf(error, size, "stack overflow");
    return 0;
  }
  if (request->process == process->id) {
    why = find_place(&job);
    if (why == NULL) status = perform_protected(L, &job);
  } else {
    status = perform_for_other(L, &job, &why);
  }
  if (why != NULL) snprintf(error, size, "%s", why);
  if (status != LUA_OK) {
    text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "an error without a text";
    snprintf(error, size, "%s", text);
    lua_pop(L, 1);
  }
  return why == NULL && status == LUA_OK;
}
