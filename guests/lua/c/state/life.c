/*
** The life of a process: its body, and how it ends.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <stdarg.h>
#include <stdio.h>

/* Installed by the folders above. */
struct baton_life_hooks baton_life_hooks;

struct text {
  size_t length;
  char bytes[400];
};

/* Appends what fits. */
static void add(struct text *text, const char *format, ...) {
  const size_t room = sizeof text->bytes - text->length;
  va_list list;
  int length;
  va_start(list, format);
  length = vsnprintf(text->bytes + text->length, room, format, list);
  va_end(list);
  if (length > 0) text->length += (size_t)length < room ? (size_t)length : room - 1;
}

/* Appends the value on the top: a text, a number or a boolean; of others the type. */
static void add_value(lua_State *L, struct text *text) {
  switch (lua_type(L, -1)) {
    case LUA_TSTRING:
      add(text, lua_rawlen(L, -1) > 60 ? "\"%.60s...\"" : "\"%s\"", lua_tostring(L, -1));
      break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, -1))
        add(text, LUA_INTEGER_FMT, (LUAI_UACINT)lua_tointeger(L, -1));
      else
        add(text, LUA_NUMBER_FMT, (LUAI_UACNUMBER)lua_tonumber(L, -1));
      break;
    case LUA_TBOOLEAN: add(text, lua_toboolean(L, -1) ? "true" : "false"); break;
    default: add(text, "%s", luaL_typename(L, -1)); break;
  }
}

/* Pushes a text for an error object without a text of its own. Of a table it has some fields. Calls
   no function of the object. */
static void describe(lua_State *L, int index) {
  enum { MOST = 8 };
  const int top = lua_gettop(L);
  struct text text = {0, ""};
  int count = 0;
  add(&text, "(error object is a %s value", luaL_typename(L, index));
  lua_pushnil(L);
  while (lua_istable(L, index) && count < MOST && lua_next(L, index)) {
    if (lua_type(L, -2) == LUA_TSTRING) {
      add(&text, "%s%s = ", count++ == 0 ? ": " : ", ", lua_tostring(L, -2));
      add_value(L, &text);
    } else if (lua_isinteger(L, -2)) {
      add(&text, "%s[" LUA_INTEGER_FMT "] = ", count++ == 0 ? ": " : ", ",
          (LUAI_UACINT)lua_tointeger(L, -2));
      add_value(L, &text);
    }
    lua_pop(L, 1);
  }
  add(&text, count == MOST ? ", ...)" : ")");
  lua_settop(L, top);
  lua_pushstring(L, text.bytes);
}

/* Whether luaL_tolstring says more of the value than its type and its address. */
static int has_text(lua_State *L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TSTRING: case LUA_TNUMBER: case LUA_TBOOLEAN: case LUA_TNIL: return 1;
    default:
      if (luaL_getmetafield(L, index, "__tostring") == LUA_TNIL) return 0;
      lua_pop(L, 1);
      return 1;
  }
}

/* Prints the error value at index 1. Protected, as the value may have any __tostring. A value other
   than nil at index 2 means that __tostring is not called. */
static int print_failure(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  luaL_Buffer text;
  lua_settop(L, 2);
  baton_lua_push_title(L, process);
  if (lua_isnil(L, 2) && has_text(L, 1))
    luaL_tolstring(L, 1, NULL);
  else if (lua_isnil(L, 2))
    describe(L, 1);
  else
    lua_pushfstring(L, "(error object is a %s value whose __tostring fails)", luaL_typename(L, 1));
  lua_replace(L, 2);
  baton_lua_push_process(L, process);
  lua_getiuservalue(L, -1, BATON_UV_TRACE);
  luaL_buffinit(L, &text);
  luaL_addstring(&text, process->vm->progname);
  luaL_addstring(&text, ": ");
  luaL_addstring(&text, lua_tostring(L, 3));
  luaL_addstring(&text, " failed: ");
  luaL_addstring(&text, luaL_optstring(L, 2, ""));
  luaL_addchar(&text, '\n');
  if (lua_type(L, 5) == LUA_TSTRING) {
    luaL_addstring(&text, lua_tostring(L, 5));
    luaL_addchar(&text, '\n');
  }
  luaL_pushresult(&text);
  baton_lua_write_error(L, 1);
  return 0;
}

/* Prints the error at `index`. A kill ends the printing. */
static void print_error(lua_State *L, struct baton_process *process, int index) {
  lua_pushcfunction(L, print_failure);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 0, 0) == LUA_OK) return;
  lua_pop(L, 1);
  if (process->killed) return;
  if (lua_type(L, index) == LUA_TSTRING) { /* no memory for more */
    lua_writestringerror("%s: ", process->vm->progname);
    lua_writestringerror("a process failed: %s\n", lua_tostring(L, index));
    return;
  }
  lua_pushcfunction(L, print_failure);
  lua_pushvalue(L, index);
  lua_pushboolean(L, 1);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
}

static void report_failure(lua_State *L, struct baton_process *process) {
  int joiners;
  baton_lua_enter(L);
  joiners = baton_joiners(process->vm->executor, process->sched_id);
  baton_lua_leave(L);
  if (joiners == 0 && !process->quiet) print_error(L, process, 2);
}

void baton_lua_report_part(lua_State *L, struct baton_process *process) {
  process->vm->failures++;
  print_error(L, process, lua_gettop(L));
}

static int is_killed(struct baton_process *process) {
  return process->killed && baton_lua_kill_is_due(process);
}

/*
** Sets the outcome, as the last step. Until then, the process is alive, can be killed, and its
** joiners wait. What it has left on its stack is for them. Outside the VM.
*/
static void end_body(struct baton_process *process, enum baton_outcome outcome) {
  lua_State *L = process->L;
  if (outcome == BATON_WAS_KILLED) lua_settop(L, 0);
  baton_life_hooks.prepare_ending(process, outcome);
  baton_lua_enter(L);
  if (outcome == BATON_FAILED && !process->quiet) process->vm->failures++;
  process->outcome = (unsigned char)outcome;
  L->status = BATON_STATUS_ENDED;
  baton_life_hooks.post_ending(process);
  baton_lua_leave(L);
}

void baton_lua_run_body(struct baton_process *process) {
  lua_State *L = process->L;
  int status = LUA_ERRRUN, was_killed;
  if (!process->killed) {
    const int arguments = lua_gettop(L) - 2; /* above the message handler and the function */
    baton_lua_set_base_depth(L);
    status = lua_pcall(L, arguments, LUA_MULTRET, 1);
  } else {
    baton_life_hooks.ends_unstarted(L, process);
  }
  was_killed = is_killed(process); /* a kill may come after the last instruction, too */
  baton_life_hooks.run_exit_hook(process);
  if (!was_killed && status != LUA_OK) {
    report_failure(L, process);
    was_killed = is_killed(process);
  }
  end_body(process,
      was_killed             ? BATON_WAS_KILLED
          : status == LUA_OK ? BATON_RETURNED
                             : BATON_FAILED);
}
