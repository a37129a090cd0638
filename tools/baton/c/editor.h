/* The line editor, written in Rust (src/editor.rs). No Lua error may cross
   its frames. It calls Lua only through baton_complete, which raises no
   error. */
#ifndef BATON_EDITOR_H
#define BATON_EDITOR_H

#include <stddef.h>

#include <lua.h>

typedef struct baton_editor baton_editor;

/* How reading a line ended. */
enum baton_line {
  BATON_LINE,             /* there is a line */
  BATON_LINE_INTERRUPTED, /* Ctrl-C: drop what was typed so far */
  BATON_LINE_ENDED,       /* Ctrl-D */
  BATON_LINE_FAILED       /* the terminal failed; the text is the message */
};

/* Opens the editor and its history. Returns NULL if the terminal is not
   suitable. The editor lives until the program ends. Completion uses L. */
baton_editor *baton_editor_open(lua_State *L, int no_environment);

/* Reads a line. The text excludes the line end and has no terminating zero.
   It is valid until the next call. */
enum baton_line baton_editor_read(baton_editor *editor, const char *prompt,
                                  size_t prompt_length, const char **text,
                                  size_t *length);

/* Adds a whole input, of one line or several, to the history. */
void baton_editor_remember(baton_editor *editor, const char *text,
                           size_t length);

/* Receives what the program writes to stdout or stderr; see
   baton_lua_set_console. */
int baton_editor_console(int is_error, const char *text, size_t length);

/* Returns the source of lua/prompt.lua, which formats values at the prompt.
   It has no terminating zero. */
const char *baton_prompt_source(size_t *length);

/* Receives each completion of the name that begins at `start`. */
typedef void (*baton_candidate)(void *context, size_t start, const char *name,
                                size_t length);

/* Passes each completion of the name that ends at line[length] to `offer`.
   Runs no code of the program except finalizers that are due. Raises no
   error. */
void baton_complete(lua_State *L, const char *line, size_t length,
                    baton_candidate offer, void *context);

#endif
