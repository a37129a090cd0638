/*
** Between the files of debugger/, and what they call of the Rust half.
*/
#ifndef BATON_DEBUGGER_INSIDE_H
#define BATON_DEBUGGER_INSIDE_H

#include "seam/internals.h"

#include "debugger/debugger.h"
#include "shown/shown.h"

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
/* The debugger's own process (deputy.c), or NULL. */
extern __attribute__((visibility("hidden"))) struct baton_process *baton_debugger_deputy;
/* Whether no process is to run while one has stopped. */
extern __attribute__((visibility("hidden"))) int baton_debugger_stops_all;
struct baton_lua_vm *baton_debugger_vm(void);
/* What a debugger knows of a process; NULL: no memory. */
struct baton_debugged *baton_debugger_of(struct baton_process *process);
int baton_debugger_any_traced(void);
void baton_debugger_forget_steps(void);
/* Calls a function between two instructions, outside the VM. */
void baton_debugger_in_hook(lua_State *L, void (*function)(lua_State *L, void *), void *argument);

/* steps.c. All inside the VM. */
/* Has the process stop at its next instruction, or after its wait. */
void baton_debugger_pause_later(struct baton_process *process);
int baton_debugger_is_prologue(const Instruction *pc);
/* Whether the step ends at this instruction. Sets whether the frame is traced on. */
int baton_debugger_step_ends(
    struct baton_debugged *debugged, lua_State *L, const Instruction *pc, int *keeps);
void baton_debugger_begin_step(struct baton_process *process, enum baton_debugger_step step);

/* stopping.c */
/* Stops the process until its debugger lets it go on. `breakpoint` is an id or 0. At an error, that
   is on the top of the stack. Inside the VM. */
void baton_debugger_stop(
    lua_State *L, struct baton_process *process, const char *reason, int breakpoint);
/* Waits for questions to the process with this number, and has them answered. It is the calling
   process, or one for which that answers. Outside the VM. */
void baton_debugger_serve(
    lua_State *L, struct baton_process *process, uint64_t number, int alone);

/* hits.c. Inside the VM. */
/* Whether the process is to stop at this breakpoint, which may be gone afterwards. Counts the hit;
   writes a log point's text. */
int baton_debugger_hits(
    lua_State *L, struct baton_process *process, struct baton_breakpoint *breakpoint);

/* {======================================================
** The Rust half
** ======================================================= */

/* A process has stopped. Another one may answer for it. `breakpoint` is an id or 0. At an error,
   there are its text and its type. Outside the VM. */
void baton_debug_stopped(uint64_t number, const struct baton_process *process,
    struct baton_process *answers, uint64_t semaphore, int is_alone, const char *reason,
    int breakpoint, const char *text, size_t size, const char *type);
/* The debugger's own process answers from now on. Outside the VM. */
void baton_debug_deputy_answers(struct baton_process *deputy, uint64_t number, uint64_t semaphore);
/* Carries out the questions for a process, in one that answers for it. Returns whether it goes on.
   Outside the VM. */
int baton_debug_serve(uint64_t number, struct baton_process *answers);
/* Waits for the next question, on this native thread. Inside the VM, and no process runs. */
void baton_debug_await(uint64_t number);
/* It goes on without having been told to, as it was killed. Outside the VM. */
void baton_debug_goes_on(uint64_t number);
/* A log point's text, or what is wrong with an expression of a breakpoint. Outside the VM. */
enum { BATON_NOTHING_WRONG, BATON_WRONG_CONDITION, BATON_WRONG_LOG };
void baton_debug_log(uint64_t number, int breakpoint, int wrong, const char *text, size_t size);
/* The program ends. */
void baton_debug_flush(void);
/* A breakpoint was placed in a chunk that was loaded. Inside the VM. */
void baton_debug_placed(void *unused, int id, int line);

/* }====================================================== */

#endif
