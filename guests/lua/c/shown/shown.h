/*
** The public header of shown/: what a debugger is shown of a process: frames, variables, and the
** values of expressions.
**
** Each function says who calls it. "The owner" is a thread inside the VM, or a look.
*/
#ifndef BATON_SHOWN_H
#define BATON_SHOWN_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* frames.c */
/* The living process with this number, or NULL. Inside the VM, or no process runs. */
struct baton_process *baton_debugger_find(struct baton_lua_vm *vm, uint64_t number);
struct CallInfo;
/* A frame. `ci` is NULL if there is none. */
struct baton_place {
  lua_State *L;
  struct CallInfo *ci;
};
/* Finds a frame by its number. Returns 0 if there is none. While the process does not run. */
int baton_debugger_find_frame(
    const struct baton_process *process, int index, struct baton_place *place);

/* lookup.c. Runs an expression, or statements, as in a frame. Pushes the results; may raise an
   error. Outside the VM. */
void baton_debugger_run(lua_State *L, const struct baton_place *place, const char *text,
    size_t size, int results);

/* texts.c. Pushes a text for the value on the top of the stack. A string is its own text. */
void baton_debugger_push_text(lua_State *L);

/* values.c. The process itself, outside the VM. */
/* Keeps the value on the top of the stack as the error at which the process has stopped. */
void baton_debugger_keep_error(lua_State *L, struct baton_process *process);
/* Forgets the values that it has shown. */
void baton_debugger_forget_shown(struct baton_process *process);

/* evaluation.c */
/* Called around what a process runs for a debugger. Outside the VM. Returns 0, and need not be
   ended, if it is to end before it has begun. */
int baton_debugger_begin_evaluation(struct baton_process *process);
void baton_debugger_end_evaluation(struct baton_process *process);

/* }====================================================== */

/* {======================================================
** For the Rust half (guests/lua/src/inside/debug)
** ======================================================= */

/* evaluation.c */
/* Sets whether the expression that a process evaluates is to end. Any thread, while the process
   lives. */
void baton_debugger_ask_to_end(struct baton_process *process, int on);
/* Whether the process evaluates an expression that is to end, as that was asked, or the debugger
   has gone. It is then to be interrupted; if it does not wait, it is made to reach a safepoint. The
   owner. */
int baton_debugger_must_hurry(const struct baton_process *process);

/* check.c */
/* Compiles an expression, without a program. Returns 1; or writes why it is none to `error`, and
   returns 0. */
int baton_debugger_check_expression(const char *text, size_t text_size, char *error, size_t size);

/* frames.c */
struct baton_debugger_frame {
  const char *source; /* as Lua has it, such as "@script.lua" */
  size_t source_size;
  const char *path; /* the file's absolute path, or NULL */
  const char *short_source;
  int line, defined;
  int kind; /* as in `struct baton_frame` */
  const char *name, *called_as; /* or NULL */
  int begins_coroutine; /* it is the innermost frame of a state */
  uint64_t mark; /* of the function and the frame's place: with another one, the frame is gone */
};
typedef void baton_debugger_frame_visitor(void *context, const struct baton_debugger_frame *frame);
/* Visits at most `count` frames of a process, from the one numbered `first` on; 0 is the innermost.
   Returns the number of all. While the process does not run. */
int baton_debugger_visit_frames(const struct baton_process *process, int first, int count,
    baton_debugger_frame_visitor *visit, void *context);
/* The same for the process with this number, in one that answers for it and keeps the VM. */
int baton_debugger_visit_frames_of(const struct baton_process *answers, uint64_t number, int first,
    int count, baton_debugger_frame_visitor *visit, void *context);

/* values.c. The process itself, in baton_debugger_serve. */
enum baton_debugger_scope {
  BATON_LOCALS,
  BATON_UPVALUES,
  BATON_VARARGS,
  BATON_GLOBALS,
  BATON_VALUE, /* a value that was shown before, by its slot */
  BATON_ERROR  /* the error at which the process has stopped */
};
enum baton_debugger_task { BATON_SHOW, BATON_SET, BATON_EVALUATE, BATON_COMPLETE };
struct baton_debugger_request {
  enum baton_debugger_task task;
  enum baton_debugger_scope scope;
  /* whose frame it is; another process must not run, and only waits meanwhile */
  uint64_t process;
  /* the frame's mark; 0: not checked */
  uint64_t mark;
  int frame, slot;
  /* of those that are shown: 0 all, 1 fields with names, 2 elements */
  int filter;
  int64_t first, count;
  /* the variable that is set, or an expression for the key of a field; the beginning of a name that
     is completed */
  const char *name;
  /* the expression; names with dots between them, in whose value a name is completed */
  const char *text;
  size_t text_size;
};
/* The name of a shown variable is a plain text, or the key of a field: a string, another value that
   an expression can give, or an object. */
enum baton_debugger_name {
  BATON_PLAIN_NAME,
  BATON_STRING_KEY,
  BATON_OTHER_KEY,
  BATON_OBJECT_KEY
};
struct baton_debugger_variable {
  enum baton_debugger_name name_kind;
  const char *name;
  size_t name_size;
  const char *type;
  const char *value;
  size_t value_size;
  int slot; /* to show what is in it; 0: nothing */
  int64_t elements, fields; /* -1: not counted */
};
typedef void baton_debugger_visitor(void *context, const struct baton_debugger_variable *variable);
/* Does it, and returns 1. Or writes why not to `error`, and returns 0. */
int baton_debugger_perform(struct baton_process *process,
    const struct baton_debugger_request *request, baton_debugger_visitor *visit, void *context,
    char *error, size_t size);

/* }====================================================== */

#endif
