#include "interactive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include <lauxlib.h>

#include "editor.h"
#include "messages.h"
#include "runtime.h"
#include "terminal.h"

/* Chunk name of what comes from the standard input. */
#define STDIN_CHUNK "=stdin"

/* The source of lines. */
typedef struct Source {
  baton_editor *editor; /* NULL: lines come from the standard input */
} Source;

/* Keys of the registry: the table that lua/prompt.lua returns, and the
   `print` of the start. They are set only on a terminal. */
static const char show_key = 's', farewell_key = 'f', print_key = 'p';

/* The result of reading an input. */
typedef enum Input {
  COMPILED,
  WRONG,     /* the stack has a message in place of the chunk */
  ABANDONED, /* by Ctrl-C */
  ENDED
} Input;


/* ---- Lines ----------------------------------------------------------- */

/* Pushes the global _PROMPT or _PROMPT2 as text, or else Lua's own. */
static const char *push_prompt(lua_State *L, int continued) {
  if (lua_getglobal(L, continued ? "_PROMPT2" : "_PROMPT") == LUA_TNIL)
    return lua_pushstring(L, continued ? ">> " : "> ");
  return luaL_tolstring(L, -1, NULL);
}

/* Pushes the next line of the standard input without its end, or nothing. */
static Input read_plain_line(lua_State *L, int continued) {
  int top = lua_gettop(L);
  char piece[512];
  int any = 0;
  luaL_Buffer line;
  fputs(push_prompt(L, continued), stdout);
  fflush(stdout);
  lua_settop(L, top);
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
  lua_settop(L, top + any);
  return any ? COMPILED : ENDED;
}

/* The editor opens a few descriptors and waits for them with select, which
   cannot wait for descriptors from FD_SETSIZE on. */
static int has_descriptors_for_editor(void) {
  int next = dup(STDIN_FILENO);
  if (next >= 0)
    close(next);
  return next >= 0 && next < FD_SETSIZE - 8;
}

/* Pushes the next line from the editor. Other processes run while it waits. */
static Input edit_line(lua_State *L, baton_editor *editor, int continued) {
  int top = lua_gettop(L);
  const char *text, *prompt;
  size_t length, prompt_length;
  enum baton_line how;
  push_prompt(L, continued);
  prompt = lua_tolstring(L, -1, &prompt_length);
  fflush(stdout);
  baton_terminal_guard(1);
  baton_lua_keep_thread(1);
  how = baton_editor_read(editor, prompt, prompt_length, &text, &length);
  baton_lua_keep_thread(0);
  baton_terminal_guard(0);
  lua_settop(L, top);
  switch (how) {
    case BATON_LINE:
      lua_pushlstring(L, text, length);
      return COMPILED;
    case BATON_LINE_INTERRUPTED:
      return ABANDONED;
    case BATON_LINE_FAILED:
      baton_standalone_say(lua_pushlstring(L, text, length));
      lua_settop(L, top);
      break;
    case BATON_LINE_ENDED:
      break;
  }
  return ENDED;
}

/* Pushes the next line and returns COMPILED. Otherwise pushes nothing. */
static Input read_line(lua_State *L, const Source *source, int continued) {
  if (source->editor != NULL && has_descriptors_for_editor())
    return edit_line(L, source->editor, continued);
  return read_plain_line(L, continued);
}


/* ---- Inputs of one or more lines ------------------------------------- */

/* If the code at index 1 is an expression, pushes the chunk that returns
   its values. */
static int compile_expression(lua_State *L) {
  const char *code = lua_pushfstring(L, "return %s", lua_tostring(L, 1));
  if (luaL_loadbuffer(L, code, strlen(code), STDIN_CHUNK) != LUA_OK) {
    lua_pop(L, 2);
    return 0;
  }
  lua_remove(L, -2);
  return 1;
}

/* Returns whether the message on the top says that the input is incomplete. */
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

/* Pushes the chunk of the code at index 1, or a message. While the
   statement is incomplete, appends further lines to index 1. */
static Input compile_statement(lua_State *L, const Source *source) {
  for (;;) {
    size_t length;
    const char *code = lua_tolstring(L, 1, &length);
    int status = luaL_loadbuffer(L, code, length, STDIN_CHUNK);
    Input next;
    if (!wants_more(L, status))
      return status == LUA_OK ? COMPILED : WRONG;
    next = read_line(L, source, 1);
    if (next == ENDED)
      return WRONG;
    lua_remove(L, 2); /* the message */
    if (next == ABANDONED)
      return ABANDONED;
    lua_pushvalue(L, 1);
    lua_pushliteral(L, "\n");
    lua_rotate(L, 2, -1); /* the line last */
    lua_concat(L, 3);
    lua_replace(L, 1);
  }
}

static void remember(lua_State *L, const Source *source) {
  size_t length;
  const char *text = lua_tolstring(L, 1, &length);
  if (source->editor != NULL)
    baton_editor_remember(source->editor, text, length);
}

/* Reads the next input. Its chunk, or the message, is then the only value
   on the stack. */
static Input read_input(lua_State *L, const Source *source) {
  const char *line;
  Input input;
  lua_settop(L, 0);
  input = read_line(L, source, 0);
  if (input != COMPILED)
    return input;
  line = lua_tostring(L, 1);
  if (line[0] == '=') { /* "=expression", as in Lua 5.2 */
    lua_pushfstring(L, "return %s", line + 1);
    lua_replace(L, 1);
  }
  if (!compile_expression(L))
    input = compile_statement(L, source);
  if (input == ABANDONED)
    return ABANDONED;
  remember(L, source);
  lua_remove(L, 1);
  return input;
}


/* ---- Reading and running ------------------------------------------------ */

static int has_rest(lua_State *L) {
  lua_pushboolean(L, baton_lua_has_rest(L));
  return 1;
}

/* Keeps the table of lua/prompt.lua, which formats values, if the output is
   a terminal. Other programs that read the output get what `lua` would
   write. */
static void prepare_to_show(lua_State *L) {
  size_t length;
  const char *source;
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
    return;
  source = baton_prompt_source(&length);
  lua_pushcfunction(L, has_rest);
  if (luaL_loadbufferx(L, source, length, "=(prompt)", "t") != LUA_OK)
    lua_error(L);
  lua_insert(L, -2);
  lua_call(L, 1, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &farewell_key);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &show_key);
  lua_getglobal(L, "print");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &print_key);
}

/* Replaces the tables among all values on the stack by text. If the program
   has set its own 'print', that gets the tables. */
static void show_tables(lua_State *L) {
  int count = lua_gettop(L), is_ours;
  lua_getglobal(L, "print");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &print_key);
  is_ours = lua_rawequal(L, -1, -2);
  lua_settop(L, count);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &show_key) != LUA_TFUNCTION || !is_ours
      || !lua_checkstack(L, count + LUA_MINSTACK)) {
    lua_settop(L, count);
    return;
  }
  for (int i = 1; i <= count; i++)
    lua_pushvalue(L, i);
  if (baton_standalone_call(L, count, count) != LUA_OK) {
    lua_settop(L, count); /* a __tostring failed: `print` shows the values */
    return;
  }
  for (int i = count; i >= 1; i--)
    lua_replace(L, i);
}

/* Prints what the program still waits for after the end of the input. */
static void say_what_is_left(lua_State *L) {
  lua_settop(L, 0);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &farewell_key) != LUA_TFUNCTION)
    return;
  if (baton_standalone_call(L, 0, 1) == LUA_OK && lua_isstring(L, -1))
    baton_standalone_say(lua_tostring(L, -1));
}

/* Prints all values on the stack with the global 'print'. */
static void print_results(lua_State *L) {
  int count = lua_gettop(L);
  if (count == 0)
    return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  show_tables(L);
  lua_getglobal(L, "print");
  lua_insert(L, 1);
  if (lua_pcall(L, count, 0, 0) != LUA_OK)
    baton_standalone_say(lua_pushfstring(L, "error calling 'print' (%s)",
                                         lua_tostring(L, -1)));
}

/* Terminals without control sequences get no line editor. */
static int can_edit(void) {
  const char *terminal = getenv("TERM");
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)
         && terminal != NULL && terminal[0] != '\0'
         && strcmp(terminal, "dumb") != 0;
}

void baton_interactive(lua_State *L, int no_environment) {
  Source source = {NULL};
  Input input;
  if (can_edit())
    source.editor = baton_editor_open(L, no_environment);
  if (source.editor != NULL)
    baton_lua_set_console(baton_editor_console);
  prepare_to_show(L);
  while ((input = read_input(L, &source)) != ENDED) {
    int status = input == WRONG ? LUA_ERRSYNTAX : LUA_OK;
    if (input == ABANDONED)
      continue;
    if (status == LUA_OK)
      status = baton_standalone_call(L, 0, LUA_MULTRET);
    if (baton_standalone_reported(L, status) == LUA_OK)
      print_results(L);
  }
  lua_settop(L, 0);
  if (source.editor == NULL) /* an editor has written the line end already */
    putchar('\n');
  fflush(stdout);
  say_what_is_left(L);
  lua_settop(L, 0);
}
