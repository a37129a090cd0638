/* The line editor, which is Rust (src/editor.rs). No Lua error may cross its
   frames: it calls Lua through baton_complete alone, which raises none. */
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
  BATON_LINE_FAILED       /* the terminal failed: there is a message */
};

/* Opens the editor, with its history; NULL if the terminal cannot do it.
   Lives until the program ends. Completion asks L. */
baton_editor *baton_editor_open(lua_State *L, int no_environment);

/* Reads a line. The text, without its end, is the editor's until the next
   call, and not ended by a zero. */
enum baton_line baton_editor_read(baton_editor *editor, const char *prompt,
                                  size_t prompt_length, const char **text,
                                  size_t *length);

/* Puts a whole input, of one line or several, into the history. */
void baton_editor_remember(baton_editor *editor, const char *text,
                           size_t length);

/* Hears what is written to stdout or stderr; see baton_lua_set_console. */
int baton_editor_console(int is_error, const char *text, size_t length);

/* The source of what shows values at the prompt: lua/prompt.lua. Not ended by a
   zero. */
const char *baton_prompt_source(size_t *length);

/* Is given each completion of the name that begins at `start`. */
typedef void (*baton_candidate)(void *context, size_t start, const char *name,
                                size_t length);

/* Offers every completion of the name that ends at line[length]. Runs no
   code of the program but finalizers that are due, and raises nothing. */
void baton_complete(lua_State *L, const char *line, size_t length,
                    baton_candidate offer, void *context);

#endif
