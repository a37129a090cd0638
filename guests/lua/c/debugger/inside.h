/*
** Between the files of debugger/, and what they call of the Rust half.
*/
#ifndef BATON_DEBUGGER_INSIDE_H
#define BATON_DEBUGGER_INSIDE_H

#include "seam/internals.h"

#include "debugger/debugger.h"

/* What a debugger does with a process. The VM lock guards it. */
struct baton_debugged {
  struct baton_debugged *next; /* all of them; `process` is NULL once that has ended */
  struct baton_process *process;
  uint64_t semaphore; /* where it waits while it has stopped */
  enum baton_debugger_step step;
  unsigned char pauses; /* it is to stop at its next instruction */
  unsigned char is_entry; /* and that is the program's first */
  /* where the step began: the state, the frame's place on its stack, the line, and the last
     instruction there */
  lua_State *L;
  ptrdiff_t frame;
  int line, pc;
  const lua_State *raised_on; /* where it has stopped at an error last */
  int slots; /* the number of values that were shown since it stopped */
};

/* A breakpoint. */
struct baton_breakpoint {
  struct baton_breakpoint *next;
  char *path;
  int id, line;
  int placed; /* the line where it is; 0: not known yet */
  int uses;   /* how many processes run its condition or its log point's text */
  int is_removed; /* it is freed after the last use */
  char *condition, *log;
  int comparison;
  uint64_t hits_wanted, hits;
};

/* breakpoints.c. All inside the VM. */
/* A breakpoint at an instruction of a marked function: the first one, or the one after `after`.
   NULL if there is none. */
struct baton_breakpoint *baton_debugger_breakpoint_at(
    const Proto *function, int pc, const struct baton_breakpoint *after);
/* Places breakpoints in a chunk that was loaded. */
void baton_debugger_place_in(Proto *main, baton_breakpoint_placed *placed, void *context);
void baton_debugger_remove_breakpoints(void);
/* While it is in use, it may be removed, but is not freed. */
void baton_debugger_begin_use(struct baton_breakpoint *breakpoint);
/* Returns whether it was removed meanwhile; then it may be freed now. */
int baton_debugger_end_use(struct baton_breakpoint *breakpoint);
int baton_debugger_has_breakpoints(void);
/* Has the calls of each state traced, and each of their frames with a breakpoint. */
void baton_debugger_trace_states(void);

/* debugged.c. All inside the VM, but the last. */
struct baton_lua_vm *baton_debugger_vm(void);
/* What a debugger knows of a process; NULL: no memory. */
struct baton_debugged *baton_debugger_of(struct baton_process *process);
int baton_debugger_any_traced(void);
void baton_debugger_forget_steps(void);
/* Calls a function between two instructions, outside the VM. */
void baton_debugger_in_hook(lua_State *L, void (*function)(lua_State *L, void *), void *argument);

/* steps.c. All inside the VM. */
int baton_debugger_is_prologue(const Instruction *pc);
/* Whether the step ends at this instruction. Sets whether the frame is traced on. */
int baton_debugger_step_ends(
    struct baton_debugged *debugged, lua_State *L, const Instruction *pc, int *keeps);
void baton_debugger_begin_step(struct baton_process *process, enum baton_debugger_step step);

/* stopping.c */
/* Whether no process is to run while one has stopped. */
void baton_debugger_stop_all(int on);
/* Stops the process until its debugger lets it go on. `breakpoint` is an id or 0. At an error, that
   is on the top of the stack. Inside the VM. */
void baton_debugger_stop(
    lua_State *L, struct baton_process *process, const char *reason, int breakpoint);
/* Waits for questions and has them answered. Outside the VM. */
void baton_debugger_serve(lua_State *L, struct baton_process *process, int alone);

/* hits.c. Inside the VM. */
/* Whether the process is to stop at this breakpoint, which may be gone afterwards. Counts the hit;
   writes a log point's text. */
int baton_debugger_hits(
    lua_State *L, struct baton_process *process, struct baton_breakpoint *breakpoint);

/* frames.c */
struct baton_place {
  lua_State *L;
  CallInfo *ci;
};
/* Finds a frame by its number. Returns 0 if there is none. */
int baton_debugger_find_frame(
    const struct baton_process *process, int index, struct baton_place *place);

/* lookup.c. Each may raise an error. Outside the VM. */
/* Pushes the function of a frame. */
void baton_debugger_push_function(lua_State *L, const struct baton_place *place);
/* Pushes the n-th local variable, or extra argument for a negative n. Returns its name, or NULL. */
const char *baton_debugger_push_local(lua_State *L, const struct baton_place *place, int n);
/* Pops a value, and sets the variable that the frame sees by this name. Returns 0 if there is none,
   and pops nothing. */
int baton_debugger_set_variable(lua_State *L, const struct baton_place *place, const char *name);
/* Pushes the globals that the frame sees. */
void baton_debugger_push_globals(lua_State *L, const struct baton_place *place);
/* Runs an expression, or statements, as in a frame. Pushes the results. */
void baton_debugger_run(lua_State *L, const struct baton_place *place, const char *text,
    size_t size, int results);

/* values.c */
void baton_debugger_forget_values(lua_State *L, struct baton_debugged *debugged);

/* {======================================================
** The Rust half
** ======================================================= */

/* The process has stopped. `breakpoint` is an id or 0. Outside the VM. */
void baton_debug_stopped(uint64_t number, const struct baton_process *process,
    uint64_t semaphore, int is_alone, const char *reason, int breakpoint, const char *text,
    size_t size);
/* Carries out the questions for it. Returns whether it goes on. Outside the VM. */
int baton_debug_serve(uint64_t number, struct baton_process *process);
/* Waits for the next question, on this native thread. Inside the VM, and no process runs. */
void baton_debug_await(uint64_t number);
/* It goes on without having been told to, as it was killed. Outside the VM. */
void baton_debug_goes_on(uint64_t number);
/* A log point's text. Outside the VM. */
void baton_debug_log(uint64_t number, int breakpoint, const char *text, size_t size);
/* The program ends. */
void baton_debug_flush(void);
/* A breakpoint was placed in a chunk that was loaded. Inside the VM. */
void baton_debug_placed(void *unused, int id, int line);

/* }====================================================== */

#endif
