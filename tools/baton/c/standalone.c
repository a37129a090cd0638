#include "standalone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "command_line.h"

/* The build passes the version of the package. */
#if !defined(BATON_VERSION)
#error "BATON_VERSION must be defined"
#endif

#define DEFAULT_NAME "baton"

/* Chunk name of what comes from the standard input. */
#define STDIN_CHUNK "=stdin"

/* The name that messages begin with: argv[0], or NULL for none in the
   interactive mode. One per program, as argv is; written in the main process
   only. */
static const char *program_name = DEFAULT_NAME;


/* ---- Messages and protected calls ------------------------------------ */

static void say(const char *name, const char *message) {
  if (name != NULL)
    fprintf(stderr, "%s: ", name);
  fprintf(stderr, "%s\n", message);
  fflush(stderr);
}

void baton_standalone_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  say(program_name, message != NULL ? message : "(error message not a string)");
  lua_pop(L, 1);
}

/* Reports the error on the top if status says so; passes the status on. */
static int reported(lua_State *L, int status) {
  if (status != LUA_OK && baton_lua_main_was_killed())
    lua_pop(L, 1);
  else if (status != LUA_OK)
    baton_standalone_report(L);
  return status;
}

/* The message handler of every chunk. A string gets a traceback; an object
   with __tostring speaks for itself; anything else is described, and gets a
   traceback. */
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

/* lua_pcall with that handler; SIGINT raises an error meanwhile. */
static int call_chunk(lua_State *L, int nargs, int nresults) {
  int handler = lua_absindex(L, -(nargs + 1));
  int status;
  lua_pushcfunction(L, explain_error);
  lua_insert(L, handler);
  baton_lua_set_interruptible(1);
  status = lua_pcall(L, nargs, nresults, handler);
  baton_lua_set_interruptible(0);
  lua_remove(L, handler);
  return status;
}

/* Runs what luaL_load* left, given its status, and reports what fails. */
static int run_loaded(lua_State *L, int load_status) {
  if (load_status == LUA_OK)
    load_status = call_chunk(L, 0, 0);
  return reported(L, load_status);
}

/* A NULL file name is the standard input. */
static int run_file(lua_State *L, const char *name) {
  return run_loaded(L, luaL_loadfile(L, name));
}

static int run_string(lua_State *L, const char *code, const char *chunk) {
  return run_loaded(L, luaL_loadbuffer(L, code, strlen(code), chunk));
}


/* ---- What the command line asks for ---------------------------------- */

/* The global 'arg': the script at index 0, what stands before it below. */
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

/* The code in LUA_INIT_5_4 or else LUA_INIT, or the file that it names. */
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

/* -l: "module" or "global=module". Without a name the global has the
   module's, up to a hyphen: -l socket-3.0 sets 'socket'. */
static int run_require(lua_State *L, const char *request) {
  const char *equals = strchr(request, '=');
  const char *module = equals != NULL ? equals + 1 : request;
  const char *name_end = equals != NULL ? equals : strchr(module, *LUA_IGMARK);
  size_t name_length = name_end != NULL ? (size_t)(name_end - request)
                                        : strlen(request);
  int status;
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  status = call_chunk(L, 1, 1);
  if (status == LUA_OK) {
    lua_pushglobaltable(L);
    lua_pushlstring(L, request, name_length);
    lua_pushvalue(L, -3);
    lua_settable(L, -3);
    lua_pop(L, 2);
  }
  return reported(L, status);
}

/* -e, -l and -W, in their order, up to the first failure. */
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

/* Pushes arg[1], arg[2], ... as the program may have changed them. */
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

static int run_script(lua_State *L, const Invocation *call) {
  const char *name = call->argv[call->script];
  int is_stdin = strcmp(name, "-") == 0 && call->script == call->options_end;
  int status = luaL_loadfile(L, is_stdin ? NULL : name);
  if (status == LUA_OK)
    status = call_chunk(L, push_script_arguments(L), LUA_MULTRET);
  return reported(L, status);
}


/* ---- The interactive mode -------------------------------------------- */

/* Shows the global _PROMPT or _PROMPT2, or else Lua's own. */
static void show_prompt(lua_State *L, int continued) {
  const char *prompt = continued ? ">> " : "> ";
  if (lua_getglobal(L, continued ? "_PROMPT2" : "_PROMPT") != LUA_TNIL)
    prompt = luaL_tolstring(L, -1, NULL);
  fputs(prompt, stdout);
  fflush(stdout);
}

/* Pushes the next line without its end. At the end of input: 0, nothing. */
static int read_line(lua_State *L, int continued) {
  int top = lua_gettop(L);
  char piece[512];
  int any = 0;
  luaL_Buffer line;
  show_prompt(L, continued);
  luaL_buffinit(L, &line);
  while (fgets(piece, sizeof piece, stdin) != NULL) {
    size_t length = strlen(piece);
    int ended = length > 0 && piece[length - 1] == '\n';
    any = 1;
    luaL_addlstring(&line, piece, length - (size_t)ended);
    if (ended)
      break;
  }
  luaL_pushresult(&line);
  lua_replace(L, top + 1);
  lua_settop(L, top + any);
  return any;
}

/* Replaces the line on the top by the chunk that returns its values, if it
   is an expression; else leaves it. */
static int compile_expression(lua_State *L) {
  const char *code = lua_pushfstring(L, "return %s", lua_tostring(L, -1));
  if (luaL_loadbuffer(L, code, strlen(code), STDIN_CHUNK) != LUA_OK) {
    lua_pop(L, 2);
    return 0;
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
  return 1;
}

/* Does the message on the top say that the input ended too soon? */
static int wants_more(lua_State *L, int status) {
  static const char mark[] = "<eof>";
  size_t mark_length = sizeof mark - 1;
  size_t length;
  const char *message;
  if (status != LUA_ERRSYNTAX)
    return 0;
  message = lua_tolstring(L, -1, &length);
  return length >= mark_length
         && strcmp(message + length - mark_length, mark) == 0;
}

/* Replaces the line on the top by its chunk or message, reading on while the
   statement is incomplete. */
static int compile_statement(lua_State *L) {
  for (;;) {
    size_t length;
    const char *code = lua_tolstring(L, -1, &length);
    int status = luaL_loadbuffer(L, code, length, STDIN_CHUNK);
    if (!wants_more(L, status) || !read_line(L, 1)) {
      lua_remove(L, -2);
      return status;
    }
    lua_remove(L, -2); /* the message */
    lua_pushliteral(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
}

/* Shows all values on the stack through the global 'print'. */
static void print_results(lua_State *L) {
  int count = lua_gettop(L);
  if (count == 0)
    return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (lua_pcall(L, count, 0, 0) != LUA_OK)
    say(program_name, lua_pushfstring(L, "error calling 'print' (%s)",
                                 lua_tostring(L, -1)));
}

/* Reads, runs and prints until the input ends. */
static void converse(lua_State *L) {
  const char *name = program_name;
  program_name = NULL;
  lua_settop(L, 0);
  while (read_line(L, 0)) {
    int status = LUA_OK;
    const char *line = lua_tostring(L, 1);
    if (line[0] == '=') { /* "=expression", as in Lua 5.2 */
      lua_pushfstring(L, "return %s", line + 1);
      lua_replace(L, 1);
    }
    if (!compile_expression(L))
      status = compile_statement(L);
    if (status == LUA_OK)
      status = call_chunk(L, 0, LUA_MULTRET);
    if (reported(L, status) == LUA_OK)
      print_results(L);
    lua_settop(L, 0);
  }
  putchar('\n');
  fflush(stdout);
  program_name = name;
}


/* ---- The whole ------------------------------------------------------- */

static void print_lua_version(void) {
  puts(LUA_COPYRIGHT);
  fflush(stdout);
}

static int wait_for_rest(lua_State *L) {
  lua_pushinteger(L, baton_lua_wait_for_rest(L));
  return 1;
}

/* Lets the other processes end; returns the program's exit status. */
static int finish(lua_State *L) {
  int status;
  lua_settop(L, 0);
  lua_pushcfunction(L, wait_for_rest);
  if (reported(L, call_chunk(L, 0, 1)) != LUA_OK)
    return EXIT_FAILURE;
  status = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return status;
}

/* Makes the state what a program expects. */
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

/* Runs everything that was asked for; returns the exit status. */
static int run(lua_State *L, const Invocation *call) {
  int has_script = call->script < call->argc;
  if (call->announce)
    print_lua_version();
  prepare(L, call);
  if (!call->no_environment && run_init(L) != LUA_OK)
    return EXIT_FAILURE;
  if (run_options(L, call) != LUA_OK)
    return EXIT_FAILURE;
  if (has_script && run_script(L, call) != LUA_OK)
    return EXIT_FAILURE;
  if (call->interactive)
    converse(L);
  else if (!has_script && !call->has_code && !call->announce) {
    if (isatty(STDIN_FILENO)) {
      print_lua_version();
      converse(L);
    } else if (run_file(L, NULL) != LUA_OK)
      return EXIT_SUCCESS; /* so does `lua` when nothing named the input */
  }
  return finish(L);
}

static int status_of(lua_State *L, const Invocation *call, Errand errand) {
  switch (errand) {
    case REFUSE:
      baton_print_usage(program_name, call->wrong);
      return EXIT_FAILURE;
    case SHOW_HELP:
      baton_print_help(program_name);
      return EXIT_SUCCESS;
    case SHOW_VERSION:
      print_lua_version();
      puts("Baton " BATON_VERSION);
      fflush(stdout);
      return EXIT_SUCCESS;
    case RUN:
      break;
  }
  return run(L, call);
}

int baton_standalone(lua_State *L) {
  Invocation call = {0};
  call.argc = (int)lua_tointeger(L, 1);
  call.argv = (char **)lua_touserdata(L, 2);
  luaL_checkversion(L);
  if (call.argc > 0 && call.argv[0][0] != '\0')
    program_name = call.argv[0];
  lua_pushinteger(L, status_of(L, &call, baton_read_command_line(&call)));
  return 1;
}
