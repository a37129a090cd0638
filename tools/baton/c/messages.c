#include "messages.h"

#include <stdio.h>

#include <lauxlib.h>

#include "runtime.h"

static const char *program_name = "baton";
static int has_reported;

int baton_standalone_has_reported(void) {
  return has_reported;
}

const char *baton_standalone_name(void) {
  return program_name;
}

void baton_standalone_set_name(const char *name) {
  program_name = name;
}

void baton_standalone_say(const char *message) {
  if (program_name != NULL)
    fprintf(stderr, "%s: ", program_name);
  fprintf(stderr, "%s\n", message);
  fflush(stderr);
}

void baton_standalone_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  baton_standalone_say(message != NULL ? message
                                       : "(error message not a string)");
  lua_pop(L, 1);
}

int baton_standalone_reported(lua_State *L, int status) {
  if (status != LUA_OK && baton_lua_main_was_killed())
    lua_pop(L, 1);
  else if (status != LUA_OK) {
    baton_standalone_report(L);
    has_reported = 1;
  }
  return status;
}

/* The message handler of every chunk. A string gets a traceback. An object
   with __tostring is shown by that. Any other value is described, and gets
   a traceback. */
static int explain_error(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (message == NULL) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING)
      return 1;
    message = lua_pushfstring(L, "(error object is a %s value)",
                              luaL_typename(L, 1));
  }
  luaL_traceback(L, L, message, 1);
  return 1;
}

int baton_standalone_call(lua_State *L, int nargs, int nresults) {
  int handler = lua_absindex(L, -(nargs + 1));
  int status;
  baton_debugger_note_last_handler(explain_error);
  lua_pushcfunction(L, explain_error);
  lua_insert(L, handler);
  baton_lua_set_interruptible(1);
  status = lua_pcall(L, nargs, nresults, handler);
  baton_lua_set_interruptible(0);
  lua_remove(L, handler);
  return status;
}
