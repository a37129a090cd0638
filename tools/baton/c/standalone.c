#include "standalone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "command_line.h"
#include "interactive.h"
#include "messages.h"
#include "runtime.h"

/* The build passes the version of the package. */
#if !defined(BATON_VERSION)
#error "BATON_VERSION must be defined"
#endif


/* ---- Chunks -------------------------------------------------------------- */

/* Runs the chunk that luaL_load* left, unless its status is an error.
   Reports errors. */
static int run_loaded(lua_State *L, int load_status) {
  if (load_status == LUA_OK)
    load_status = baton_standalone_call(L, 0, 0);
  return baton_standalone_reported(L, load_status);
}

/* A NULL file name is the standard input. */
static int run_file(lua_State *L, const char *name) {
  return run_loaded(L, luaL_loadfile(L, name));
}

static int run_string(lua_State *L, const char *code, const char *chunk) {
  return run_loaded(L, luaL_loadbuffer(L, code, strlen(code), chunk));
}


/* ---- What the command line asks for ---------------------------------- */

/* Sets the global 'arg': the script at index 0, and the arguments before it
   at negative indices. */
static void set_arg_table(lua_State *L, const Invocation *call) {
  int origin = call->script < call->argc ? call->script : 0;
  int i;
  lua_createtable(L, call->argc - origin, origin + 1);
  for (i = 0; i < call->argc; i++) {
    lua_pushstring(L, call->argv[i]);
    lua_rawseti(L, -2, i - origin);
  }
  lua_setglobal(L, "arg");
}

/* Runs the code in LUA_INIT_5_4, or else in LUA_INIT, or the file that it
   names. */
static int run_init(lua_State *L) {
  static const char *const chunks[] = {
    "=LUA_INIT_" LUA_VERSION_MAJOR "_" LUA_VERSION_MINOR, "=LUA_INIT"
  };
  size_t i;
  for (i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
    const char *init = getenv(chunks[i] + 1);
    if (init == NULL)
      continue;
    return init[0] == '@' ? run_file(L, init + 1)
                          : run_string(L, init, chunks[i]);
  }
  return LUA_OK;
}

/* -l: "module" or "global=module". Without a global name, the module's name
   up to a hyphen is used: -l socket-3.0 sets 'socket'. */
static int run_require(lua_State *L, const char *request) {
  const char *equals = strchr(request, '=');
  const char *module = equals != NULL ? equals + 1 : request;
  const char *name_end = equals != NULL ? equals : strchr(module, *LUA_IGMARK);
  size_t name_length = name_end != NULL ? (size_t)(name_end - request)
                                        : strlen(request);
  int status;
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  status = baton_standalone_call(L, 1, 1);
  if (status == LUA_OK) {
    lua_pushglobaltable(L);
    lua_pushlstring(L, request, name_length);
    lua_pushvalue(L, -3);
    lua_settable(L, -3);
    lua_pop(L, 2);
  }
  return baton_standalone_reported(L, status);
}

/* Handles -e, -l and -W in their order, up to the first failure. */
static int run_options(lua_State *L, const Invocation *call) {
  int i;
  for (i = 1; i < call->options_end; i++) {
    const char *option = call->argv[i];
    int status = LUA_OK;
    if (option[1] == 'W')
      lua_warning(L, "@on", 0);
    else if (option[1] == 'e' || option[1] == 'l') {
      const char *value = option[2] != '\0' ? option + 2 : call->argv[++i];
      status = option[1] == 'e' ? run_string(L, value, "=(command line)")
                                : run_require(L, value);
    }
    if (status != LUA_OK)
      return status;
  }
  return LUA_OK;
}

/* Pushes arg[1], arg[2], ...; the program may have changed them. */
static int push_script_arguments(lua_State *L) {
  int i, count;
  if (lua_getglobal(L, "arg") != LUA_TTABLE)
    luaL_error(L, "'arg' is not a table");
  count = (int)luaL_len(L, -1);
  luaL_checkstack(L, count + 3, "too many arguments to script");
  for (i = 1; i <= count; i++)
    lua_rawgeti(L, -i, i);
  lua_remove(L, -(count + 1));
  return count;
}

/* The script cannot be read: says which command the user may have meant. The
   error is on the top of the stack. */
static void suggest_command(lua_State *L, const char *word) {
  const char *command = baton_lua_nearest(word, baton_commands);
  if (command == NULL)
    return;
  lua_pushfstring(L, "\ndid you mean the command '%s'? 'baton %s --help' shows its options",
                  command, command);
  lua_concat(L, 2);
}

static int run_script(lua_State *L, const Invocation *call) {
  const char *name = call->argv[call->script];
  int is_stdin = strcmp(name, "-") == 0 && call->script == call->options_end;
  int status = luaL_loadfile(L, is_stdin ? NULL : name);
  if (status == LUA_ERRFILE && call->script == 1)
    suggest_command(L, name);
  if (status == LUA_OK)
    status = baton_standalone_call(L, push_script_arguments(L), LUA_MULTRET);
  return baton_standalone_reported(L, status);
}


/* ---- The program ------------------------------------------------------- */

static void print_versions(void) {
  puts(LUA_COPYRIGHT);
  puts("Baton " BATON_VERSION);
  fflush(stdout);
}

/* What -v and the interactive mode begin with. */
static void print_banner(void) {
  puts(LUA_COPYRIGHT);
  puts("Baton " BATON_VERSION ": 'baton --help' shows options, commands and modules");
  fflush(stdout);
}

static int wait_for_rest(lua_State *L) {
  lua_pushinteger(L, baton_lua_wait_for_rest(L));
  return 1;
}

/* Runs the interactive mode. Its messages do not begin with the program's
   name. */
static void converse(lua_State *L, const Invocation *call) {
  const char *name = baton_standalone_name();
  baton_standalone_set_name(NULL);
  baton_interactive(L, call->no_environment);
  baton_standalone_set_name(name);
}

/* Waits for the other processes. Returns the program's exit status. */
static int finish(lua_State *L) {
  int status;
  lua_settop(L, 0);
  lua_pushcfunction(L, wait_for_rest);
  if (baton_standalone_reported(L, baton_standalone_call(L, 0, 1)) != LUA_OK)
    return EXIT_FAILURE;
  status = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return status;
}

/* Prepares the state: libraries, 'arg', and the rest that a program
   expects. */
static void prepare(lua_State *L, const Invocation *call) {
  if (call->no_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  }
  lua_gc(L, LUA_GCSTOP);
  baton_lua_openlibs(L);
  set_arg_table(L, call);
  lua_gc(L, LUA_GCRESTART);
  lua_gc(L, LUA_GCGEN, 0, 0);
}

/* Does all that the command line says. Returns the exit status. */
static int run(lua_State *L, const Invocation *call) {
  int has_script = call->script < call->argc;
  if (call->announce)
    print_banner();
  prepare(L, call);
  if (!call->no_environment && run_init(L) != LUA_OK)
    return EXIT_FAILURE;
  if (run_options(L, call) != LUA_OK)
    return EXIT_FAILURE;
  if (has_script && run_script(L, call) != LUA_OK)
    return EXIT_FAILURE;
  if (call->interactive)
    converse(L, call);
  else if (!has_script && !call->has_code && !call->announce) {
    if (isatty(STDIN_FILENO)) {
      print_banner();
      converse(L, call);
    } else if (run_file(L, NULL) != LUA_OK)
      return EXIT_SUCCESS; /* `lua` does the same: errors of stdin do not count */
  }
  return finish(L);
}

static int status_of(lua_State *L, const Invocation *call, Errand errand) {
  switch (errand) {
    case REFUSE:
      baton_print_usage(baton_standalone_name(), call);
      return EXIT_FAILURE;
    case SHOW_HELP:
      baton_print_help(baton_standalone_name());
      return EXIT_SUCCESS;
    case SHOW_VERSION:
      print_versions();
      return EXIT_SUCCESS;
    case RUN:
      break;
  }
  return run(L, call);
}

int baton_standalone(lua_State *L) {
  static int has_begun;
  Invocation call = {0};
  int status;
  /* called again, by a program that found this function with debug.getinfo */
  if (has_begun)
    return luaL_error(L, "the command line has been read");
  has_begun = 1;
  call.argc = (int)lua_tointeger(L, 1);
  call.argv = (char **)lua_touserdata(L, 2);
  luaL_checkversion(L);
  if (call.argc > 0 && call.argv[0][0] != '\0')
    baton_standalone_set_name(call.argv[0]);
  status = status_of(L, &call, baton_read_command_line(&call));
  if (status != EXIT_SUCCESS && baton_standalone_has_reported())
    baton_lua_write_flight(L);
  lua_pushinteger(L, status);
  return 1;
}
