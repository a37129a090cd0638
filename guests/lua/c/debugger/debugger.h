/*
** The public header of debugger/: breakpoints, steps and stops.
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
/* Has the process stop at its next instruction. If it evaluates an expression, that is to end. The
   owner, who says whether it waits. */
enum baton_debugger_pause {
  BATON_PAUSE_ENDED, /* it has ended */
  BATON_PAUSES,
  BATON_PAUSE_WAITS /* it waits, and all are to stop: see baton_debugger_stop_for */
};
int baton_debugger_pause(struct baton_process *process, int waits);
/* How a process that has stopped goes on. The process itself, in baton_debugger_serve. */
enum baton_debugger_step { BATON_CONTINUE, BATON_STEP_IN, BATON_STEP_OVER, BATON_STEP_OUT };
void baton_debugger_resume(struct baton_process *process, enum baton_debugger_step step);
/* Errors that reach this message handler end the process. The main process. */
void baton_debugger_note_last_handler(lua_CFunction handler);
/* The descriptor by which a debugger has started this program, or -1. Removes it from the
   environment. Called once, before there are other threads. */
int baton_debugger_take_descriptor(void);
/* The socket whose number a variable of the environment has, or -1. Removes the variable. */
int baton_lua_take_socket(const char *variable);

/* deputy.c */
/* Has the debugger's own process made, in which expressions in frames of processes that wait are
   evaluated. It tells the desk. Any thread; the program's next signal is then to be served. */
void baton_debugger_want_deputy(void);
/* For the folder above: makes it if it is wanted. Inside the VM. */
void baton_debugger_signalled(struct baton_lua_vm *vm);
/* Stops all processes on behalf of one that waits: the deputy answers for it until it is let go
   on. Returns 0 if that has ended. The deputy, in baton_debugger_serve. */
int baton_debugger_stop_for(struct baton_process *deputy, uint64_t number);
/* }====================================================== */

#endif
