/*
** What the seam offers: entering and leaving, safepoints, kills, marks, frames, objects in use, and
** what it asks of the folders above it.
*/
#ifndef BATON_GUEST_H
#define BATON_GUEST_H

#include "lua.h"
#include "lauxlib.h"
#include "runtime.h"
#include "record.h"

#include <stdio.h>

#define baton_enter(L) lua_lock(L)
#define baton_leave(L) lua_unlock(L)

/* {======================================================
** For the folders above
** ======================================================= */

/* wrapped.c */
/* Has the running process load a library on another native thread, if others could run meanwhile.
   Outside the VM, before and after. */
void baton_lua_move_to_load(void);

/* frames.c */
/* What the seam asks of the folders above it, seldom. Installed before there is a state of
   Lua's. */
struct baton_seam_hooks {
  /* Whether the C function that runs may give way in its middle: 0 no, 1 on its thread, 2 so that
     others run on other threads. What nobody else may touch meanwhile goes to `object`. Inside the
     VM. */
  int (*may_give_way)(struct baton_process *process, void **object);
  /* What a call of `function` that `L` is in is about and nobody else may touch while others run
     beside it; NULL: nothing. Inside the VM. */
  void *(*object_of_call)(struct baton_process *process, lua_State *L, lua_CFunction function);
  /* A function that is not ours is about to be called, while calls are watched. Inside the VM. */
  void (*before_foreign_call)(
      lua_State *L, struct baton_process *process, lua_CFunction function);
  /* The process calls on a state that another one runs on. Outside the VM. */
  void (*warn_of_foreign_state)(const struct baton_process *process);
  /* From the collector, inside the VM: whether the finalizer whose call is on the top of `L`, and
     its object, is put off: then both are gone from the stack, and others come later. */
  int (*put_off)(lua_State *L, struct baton_process *process);
  /* Finalizers are left to the daemon now, all but those that never wait, which are called. */
  void (*leave_finalizers)(lua_State *L, struct baton_process *process);
  /* The daemon has work, and the collector is done for now. */
  void (*let_finalizers_run)(lua_State *L, struct baton_process *process);
  /* After a collection that the program asked for: waits for finalizers that were put off, unless
     these wait for somebody. Outside the VM. */
  void (*await_finalizers)(lua_State *L, struct baton_process *process);
};
extern __attribute__((visibility("hidden"))) struct baton_seam_hooks baton_seam_hooks;
void baton_lua_request_safepoint(struct baton_process *process);
/* A finalizer of ours neither waits nor calls back. */
void baton_lua_note_quick_finalizer(lua_CFunction function);
int baton_lua_never_waits(lua_CFunction function);
/* A state on which a process begins. */
void baton_lua_begin_steps(lua_State *L);
/* Whether other code has pushed this function of the executable, and it is none of ours. */
int baton_lua_is_linked(lua_CFunction function);
/* The linked function that first pushed this one; NULL: none, or not known. */
lua_CFunction baton_lua_pusher_of(lua_CFunction function);
/* The function opens a module: the function that pushed it is of no interest. */
void baton_lua_note_opener(lua_CFunction function);
/* The C function that `L` is in, if it is in one. */
lua_CFunction baton_lua_running_function(lua_State *L);
/* What the call of the function that runs is about and nobody else may touch while others run
   beside it; NULL: nothing. */
void *baton_lua_object_of_running_call(struct baton_process *process, lua_State *L);
int baton_lua_has_foreign_frames(struct baton_process *process);
/* As Lua's own messages would name the C function that runs on `L`. Writes at most `size` bytes. */
void baton_lua_name_function(lua_State *L, char *text, size_t size);
/* Foreign frames have come to lie above the C function that runs on `L`, or have gone. Inside the
   VM. */
void baton_lua_mark_frame(lua_State *L, int is_foreign);

/* signal_safe.c, called_name.c: in signal handlers, too */
struct CallInfo;
/* Has Lua look for a safepoint at the next instruction of `L`. */
void baton_lua_arm(lua_State *L);
/* The preemption signal has come: arms what runs on this thread, if that is inside the VM. */
void baton_lua_preempt(void);
/* Signals are for this VM, the program's. Once, and not in a handler. */
void baton_lua_have_signals_for(struct baton_vm *vm);
/* Has baton_lua_signalled called soon. */
void baton_lua_ask_for_safepoint(void);
/* While a command of the main process runs, SIGINT is for the command alone. Not in a handler. */
void baton_lua_give_interrupts_to_command(int has);
int baton_lua_command_has_interrupts(void);
/* In the signal's handler: the signal ends the program as soon as the handler returns. */
void baton_lua_end_by_signal(int signal);
/* If the address, where this thread has faulted, is in the guard of the stack of its process, says
   so on stderr and answers 1. Nothing may run on that stack afterwards. */
int baton_lua_report_overflow(uintptr_t address);
/* The name by which the function of a frame was called, as Lua's own messages have it, or NULL. The
   frames are still: the calling thread's own, or stopped. */
const char *baton_lua_called_name(lua_State *L, struct CallInfo *ci);

/* safepoints.c */
/* The running process, if `L` is of its VM. (internals.h has it inline.) */
struct baton_process *baton_lua_here(lua_State *L);
void baton_lua_set_base_depth(lua_State *L);
void baton_lua_detach(struct baton_process *process);
/* Has the process make its coming foreign call on another native thread. Inside the VM; when it has
   moved, outside. */
enum baton_departure baton_lua_move_out(struct baton_process *process);
void baton_lua_forget_calls(struct baton_vm *vm);
void baton_lua_note_exception_globals(void);
/* Threads may have become short, or are short no more. Inside the VM. */
void baton_lua_watch_threads(struct baton_vm *vm);

/* marks.c */
/* What the process is to raise: a kill that is due, an interrupt. */
enum baton_debt { BATON_OWES_NOTHING, BATON_OWES_KILL, BATON_OWES_INTERRUPT };
enum baton_debt baton_lua_debt(struct baton_process *process);
/* Raises that, or returns if it is nothing. From outside the VM. */
void baton_lua_raise(lua_State *L, struct baton_process *process, enum baton_debt debt);
/* Raises what the process owes now. */
void baton_lua_raise_owed(lua_State *L, struct baton_process *process);
int baton_lua_kill_is_due(struct baton_process *process);
/* Raises the process's kill, whatever holds it back. From outside the VM. */
void baton_lua_raise_kill(lua_State *L, struct baton_process *process);
/* Critical sections. All inside the VM. `mark` stays on the C stack until the end; an error ends
   the section too. */
void baton_lua_begin_critical(struct baton_process *process, struct baton_mark *mark);
void baton_lua_end_critical(struct baton_process *process);
/* Kills are held back, as in a `__close` method. */
void baton_lua_begin_hold(
    struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind);
void baton_lua_end_hold(struct baton_process *process);
/* The collector, which the process has not stopped, makes no step while it runs: no finalizer
   comes. An error ends it too. */
void baton_lua_stop_collector(struct baton_process *process, struct baton_mark *mark);
void baton_lua_restart_collector(struct baton_process *process);
/* A turn at a socket (sockets.c). An error ends it too. */
void baton_lua_put_turn(struct baton_process *process, struct baton_turn_mark *mark);
void baton_lua_drop_turn(struct baton_process *process);
/* For good: the program ends. */
void baton_lua_leave_criticals(struct baton_process *process);
void baton_lua_hold_for_criticals(struct baton_process *process, int holds);
int baton_lua_is_in_finalizer(const struct baton_process *process);

/* simulation.c */
/* Set before Lua's state is made */
extern __attribute__((visibility("hidden"))) int baton_simulated;
void baton_lua_seed_random(lua_State *L);

/* objects_in_use.c */
/* From here on others may run beside a call of the process that is about `object`, if that is not
   NULL; until it ends. */
void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object);
void baton_lua_use_ends(struct baton_use *use);
/* Whether another process's call is about `object`, so that a call about it has to wait. */
int baton_lua_is_busy(const struct baton_process *asker, const void *object);
void baton_lua_forget_objects(struct baton_vm *vm);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* safepoints.c */
void baton_lua_switched(struct baton_process *from, struct baton_process *to);
void baton_lua_arrived(struct baton_process *process);

/* simulation.c */
void baton_lua_simulate(uint64_t seed);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* simulation.c */
/* The running process is about to make a step of a simulated run; nonzero: a safepoint is due.
   Inside the VM. */
int baton_lua_count_step(struct baton_vm *vm);

/* objects_in_use.c */
/* How many retaken calls are about something, and VMs whose threads are short */
extern __attribute__((visibility("hidden"))) int baton_calls_watched;

/* }====================================================== */

#endif
