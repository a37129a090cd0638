/*
** The public header of debugger/: breakpoints, steps and stops, and what is shown of a process that
** has stopped.
**
** Each function says who calls it. "The owner" is a thread inside the VM, or a look.
*/
#ifndef BATON_DEBUGGER_H
#define BATON_DEBUGGER_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* debugged.c */
/* Called once, before there is a process. */
void baton_debugger_install(struct baton_lua_vm *vm);
/* In a fork's child, whose only process this is. Inside the VM. */
void baton_debugger_forked(struct baton_process *survivor);

/* traps.c */
/* Called before the main process begins: waits until its debugger lets it begin, if a debugger has
   started this program. Outside the VM. */
void baton_debugger_await_start(lua_State *L);

/* }====================================================== */

/* {======================================================
** For the Rust half (guests/lua/src/inside/debug) and the interpreter
** ======================================================= */

/* A breakpoint that is asked for. The strings are copied; NULL: none. */
struct baton_breakpoint_wish {
  int id, line;
  const char *condition;
  const char *log;
  /* how its hits are compared with `hits`: '=', '<', '>', 'l' (<=), 'g' (>=), '%', or 0: not */
  int comparison;
  uint64_t hits;
};

/* Told of each breakpoint: the line where it is, or 0 if no code is known there. */
typedef void baton_breakpoint_placed(void *context, int id, int line);

/* breakpoints.c. The owner. */
/* Replaces the breakpoints of a file. Returns 0 if a chunk is being loaded: try again. */
int baton_debugger_set_breakpoints(const char *path, const struct baton_breakpoint_wish *wishes,
    size_t count, baton_breakpoint_placed *placed, void *context);

/* traps.c */
/* Attaches a debugger to the program's VM. If `all_stop`, no process runs while one has stopped.
   The owner. */
void baton_debugger_attach(int all_stop);
/* Which errors stop a process: 0 none, 1 those that nothing catches, 2 all. The owner. */
void baton_debugger_stop_at_errors(int which);
/* Detaches it. Any thread. */
void baton_debugger_detach(void);
/* Removes what is left of its breakpoints and steps. The owner, if one attaches next. */
void baton_debugger_forget(void);
/* Has the process stop at its next instruction. Returns 0 if it has ended. The owner. */
int baton_debugger_pause(struct baton_process *process);
/* How a process that has stopped goes on. The process itself, in baton_debugger_serve. */
enum baton_debugger_step { BATON_CONTINUE, BATON_STEP_IN, BATON_STEP_OVER, BATON_STEP_OUT };
void baton_debugger_resume(struct baton_process *process, enum baton_debugger_step step);
/* Errors that reach this message handler end the process. The main process. */
void baton_debugger_note_last_handler(lua_CFunction handler);
/* The descriptor by which a debugger has started this program, or -1. Removes it from the
   environment. Called once, before there are other threads. */
int baton_debugger_take_descriptor(void);

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
};
typedef void baton_debugger_frame_visitor(void *context, const struct baton_debugger_frame *frame);
/* Visits at most `count` frames of a process, from the one numbered `first` on; 0 is the innermost.
   Returns the number of all. While the process does not run. */
int baton_debugger_visit_frames(const struct baton_process *process, int first, int count,
    baton_debugger_frame_visitor *visit, void *context);

/* values.c. The process itself, in baton_debugger_serve. */
enum baton_debugger_scope {
  BATON_LOCALS,
  BATON_UPVALUES,
  BATON_VARARGS,
  BATON_GLOBALS,
  BATON_VALUE /* a value that was shown before, by its slot */
};
enum baton_debugger_task { BATON_SHOW, BATON_SET, BATON_EVALUATE };
struct baton_debugger_request {
  enum baton_debugger_task task;
  enum baton_debugger_scope scope;
  int frame, slot;
  /* of those that are shown: 0 all, 1 fields with names, 2 elements */
  int filter;
  int64_t first, count;
  /* the variable that is set, or an expression for the key of a field */
  const char *name;
  /* the expression */
  const char *text;
  size_t text_size;
};
/* The name of a shown variable is a plain text, or the key of a field. */
enum baton_debugger_name { BATON_PLAIN_NAME, BATON_STRING_KEY, BATON_OTHER_KEY };
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
