/*
** The public header of the seam: entering and leaving, safepoints, kills, marks, frames, objects in
** use, and the hooks for the folders above.
*/
#ifndef BATON_GUEST_H
#define BATON_GUEST_H

#include "lua.h"
#include "lauxlib.h"
#include "baton.h"
#include "record.h"

#include <stdio.h>

#define baton_lua_enter(L) lua_lock(L)
#define baton_lua_leave(L) lua_unlock(L)

/* {======================================================
** For the folders above
** ======================================================= */

/* bridge.rs, which implements baton.h too */
/* The text of a file of lua/, named without its ending. On any thread. */
const char *baton_lua_source(const char *name, size_t *size);

/* call_times.rs. The foreign call of the function with this name (NULL: not known) has returned,
   beside which others have run for so long. Inside the VM. */
void baton_note_call(const char *name, uint64_t nanoseconds);

/* wrapped.c */
/* Before a library is loaded: offloads the load to another native thread if other processes could
   run meanwhile. Outside the VM before and after. */
void baton_lua_offload_load(void);

/* Sets a hook that was left for later, if there is one. Inside the program's VM. */
void baton_lua_set_wanted_hook(struct baton_lua_vm *vm);

/* Whether a module in C is loaded that may keep the address of a Lua thread. */
int baton_lua_modules_keep_threads(void);

/* frames.c */
/* What the seam calls in the folders above. Installed before there is a Lua state. No hook is on a
   fast path. */
struct baton_use_list;
struct baton_seam_hooks {
  /* Whether the running C function may give way in its middle. Returns 0 for no, 1 for yes, on its
     thread, and 2 for yes, but others then run on other threads. `object` becomes what no other
     call may use until this one calls back, or NULL. Inside the VM. */
  int (*may_give_way)(struct baton_process *process, void **object);
  /* What the call of `function` that `L` is in uses until it calls back, or NULL. Inside the VM. */
  void *(*object_of_call)(struct baton_process *process, lua_State *L, lua_CFunction function);
  /* Calls baton_lua_keep_in_use for each object that the call of `function` in this frame uses,
     callbacks included. Inside the VM. */
  void (*keep_used_by)(
      lua_State *L, struct CallInfo *ci, lua_CFunction function, struct baton_use_list *list);
  /* The connection that belongs to a new userdata, since a call about the connection makes it; or
     NULL. Inside the VM. */
  void *(*connection_of_new)(lua_State *L);
  /* Called before each call of a foreign function while `baton_calls_watched`. Inside the VM. */
  void (*before_foreign_call)(
      lua_State *L, struct baton_process *process, lua_CFunction function);
  /* Called after such a call, if it has returned, and when the C stack is about to be cut at
     `where`. Inside the VM. */
  void (*after_foreign_call)(lua_State *L, struct baton_process *process);
  void (*unwinds_calls)(struct baton_process *process, const void *where);
  /* Warns that the process calls on a state that another process runs on. Outside the VM. */
  void (*warn_of_foreign_state)(const struct baton_process *process);
  /* From the collector, inside the VM: decides whether to defer the finalizer whose call, with its
     object, is on the top of `L`. If it returns 1, both are popped, and later ones are deferred. */
  int (*defer_finalizer)(lua_State *L, struct baton_process *process);
  /* Makes sure that the stacks have room for a finalizer's call. Returns 0 if they cannot have it.
     Inside the VM. */
  int (*make_room_for_finalizer)(lua_State *L);
  /* Leaves the finalizers to the daemon. Those that never wait are called now. */
  void (*leave_finalizers)(lua_State *L, struct baton_process *process);
  /* The collector has finished its step: lets the daemon run if it has work. */
  void (*let_finalizers_run)(lua_State *L, struct baton_process *process);
  /* Called after a collection that the program requested. Waits until the deferred finalizers have
     run, or wait for a process themselves. Outside the VM. */
  void (*await_finalizers)(lua_State *L, struct baton_process *process);
  /* Whether the module in the library of this path is known to keep no address of a Lua thread. On
     any thread, outside the VM. */
  int (*keeps_no_threads)(const char *path);
  /* Called at the end of a process that a debugger knows. Inside the VM. */
  void (*debugged_ends)(struct baton_process *process);
  /* NULL until a program that embeds Lua has a state with processes. Called when a thread uses a
     state while it is in no process of that state's VM. If the state's VM is hosted, and the thread
     is its host's, the host's process continues on it. */
  void (*host_comes)(lua_State *L);
  /* NULL likewise. Makes sure that the host of a VM is here, if the calling thread is its own.
     Returns the main process then, else NULL. Outside the VM before and after. */
  struct baton_process *(*host_enters)(struct baton_lua_vm *vm);
  /* NULL likewise. Called before a state is closed. Returns 1 if that has closed it. */
  int (*host_closes)(lua_State *L);
};
extern __attribute__((visibility("hidden"))) struct baton_seam_hooks baton_seam_hooks;
/* What the seam calls of a debugger (debugger/). All inside the VM. */
struct baton_debugger_hooks {
  /* Called before the instruction at `pc`, in a frame that a debugger traces. Returns whether it is
     to be called at the next instruction, too. */
  int (*trap)(lua_State *L, struct baton_process *process, const void *pc);
  /* An error is being raised. It is on the top of the stack. */
  void (*raises)(lua_State *L, struct baton_process *process);
  /* A chunk was loaded. Its function is on the top of the stack. */
  void (*loaded)(lua_State *L);
};
/* The debugger that is attached, or NULL. Atomic. Any thread may make it NULL. */
extern __attribute__((visibility("hidden"))) const struct baton_debugger_hooks *baton_debugger;
/* Which calls it wants traced: those of functions with breakpoints, or also those of processes that
   it steps. The VM lock guards it. */
enum { BATON_TRACES_NOTHING, BATON_TRACES_BREAKPOINTS, BATON_TRACES_STEPS };
extern __attribute__((visibility("hidden"))) int baton_debugger_traces;
static inline const struct baton_debugger_hooks *baton_lua_debugger(void) {
  /* Relaxed: the hooks never change, and the rest of the debugger's state is the VM's. */
  return __atomic_load_n(&baton_debugger, __ATOMIC_RELAXED);
}
void baton_lua_request_safepoint(struct baton_process *process);
/* Registers a finalizer of the guest that neither waits nor calls back. */
void baton_lua_note_quick_finalizer(lua_CFunction function);
int baton_lua_never_waits(lua_CFunction function);
/* Registers a finalizer of the guest that gives back what is outside of all heaps. It uses no
   process and no executor, and is called for the heap of a halted VM as well. */
void baton_lua_note_giving_finalizer(lua_CFunction function);
int baton_lua_gives_back(lua_CFunction function);
/* Prepares a state on which a process begins. */
void baton_lua_begin_steps(lua_State *L);
/* Whether this function of the executable belongs to a module that is linked into it. */
int baton_lua_is_linked(lua_CFunction function);
/* The linked function that first pushed this one, or NULL if there is none or it is not known. */
lua_CFunction baton_lua_pusher_of(lua_CFunction function);
/* Notes that the function opens a module. From then on it has no pusher. */
void baton_lua_note_opener(lua_CFunction function);
/* The C function that `L` is in, or NULL. */
lua_CFunction baton_lua_running_function(lua_State *L);
/* What no other call may use beside the call of the running function, or NULL. */
void *baton_lua_object_of_running_call(struct baton_process *process, lua_State *L);
int baton_lua_has_foreign_frames(struct baton_process *process);
/* Writes the name of the C function that runs on `L`, as Lua's messages give it. At most `size`
   bytes. */
int baton_lua_name_function(lua_State *L, char *text, size_t size);
/* The same for the function of a frame. */
int baton_lua_name_frame(lua_State *L, struct CallInfo *ci, char *text, size_t size);
/* Notes whether foreign frames lie above the C function that runs on `L`. Inside the VM. */
void baton_lua_mark_frame(lua_State *L, int is_foreign);

/* signal_safe.c, called_name.c: callable in signal handlers, too */
struct CallInfo;
/* Makes Lua check for a safepoint at the next instruction of `L`. */
void baton_lua_arm(lua_State *L);
/* Handles the preemption signal: arms what runs on this thread, if the thread is inside the VM. */
void baton_lua_preempt(void);
/* Directs signals to this VM, the program's. Called once, and not in a handler. */
void baton_lua_have_signals_for(struct baton_lua_vm *vm);
/* Requests a safepoint of the program's VM. The next one calls baton_lua_signalled. */
void baton_lua_ask_for_safepoint(void);
/* The state for a hook that is being set on `L`; NULL: it will be set later. */
lua_State *baton_lua_state_to_hook(lua_State *L, lua_Hook hook, int mask, int count);
/* A hook that was left for later. Returns 0 if there is none. */
struct baton_wanted_hook {
  lua_Hook hook;
  int mask, count;
};
int baton_lua_take_wanted_hook(struct baton_wanted_hook *hook);
/* Sets whether SIGINT is only for a command, while the main process runs one. Not in a handler. */
void baton_lua_give_interrupts_to_command(int has);
int baton_lua_command_has_interrupts(void);
/* In a signal's handler: makes the signal end the program when the handler returns. */
void baton_lua_end_by_signal(int signal);
/* Reports a stack overflow on stderr and returns 1, if the faulting address is in the guard of this
   thread's process. Nothing may run on that stack afterwards. */
int baton_lua_report_overflow(uintptr_t address);
/* The name by which the function of a frame was called, as Lua's messages give it, or NULL. The
   frames must not change: they belong to the calling thread, or are stopped. */
const char *baton_lua_called_name(lua_State *L, struct CallInfo *ci);
/* What the function was called as, such as "method", or NULL; also sets its name. As above. */
const char *baton_lua_called_as(lua_State *L, struct CallInfo *ci, const char **name);
/* Handles SIGQUIT: notes it, appends what this thread runs to an observer's request, and requests a
   safepoint. */
void baton_lua_quit(int is_observers);
/* Whether the signal of this siginfo_t is an observer's. The program must not receive that. */
int baton_lua_is_observers(const void *info);

/* safepoints.c */
/* The running process, if it belongs to the VM of `L`. (internals.h has an inline version.) */
struct baton_process *baton_lua_here(lua_State *L);
void baton_lua_set_base_depth(lua_State *L);
void baton_lua_detach(struct baton_process *process);
/* Offloads the coming foreign call of the process to another native thread. Called inside the VM.
   Returns outside of it if the process has moved. */
enum baton_offload baton_lua_offload(struct baton_process *process);
void baton_lua_forget_calls(struct baton_lua_vm *vm);
/* Whether a foreign call of any VM was retaken and has not returned. Any thread. */
int baton_lua_calls_are_out(void);
/* Uncounts the calls of a VM that were abandoned. No thread of it is left. */
void baton_lua_uncount_calls(struct baton_lua_vm *vm);
void baton_lua_note_exception_globals(void);
/* Updates whether native threads are short. Inside the VM. */
void baton_lua_watch_threads(struct baton_lua_vm *vm);

/* marks.c */
/* What the process must raise: a kill that is due, an interrupt, the end of an expression that it
   evaluates for a debugger, or nothing. */
enum baton_pending {
  BATON_PENDING_NOTHING,
  BATON_PENDING_KILL,
  BATON_PENDING_INTERRUPT,
  BATON_PENDING_END
};
enum baton_pending baton_lua_pending(struct baton_process *process);
/* Raises it; returns if there is nothing to raise. Outside the VM. */
void baton_lua_raise(lua_State *L, struct baton_process *process, enum baton_pending pending);
/* Raises what the process must raise now. */
void baton_lua_raise_pending(lua_State *L, struct baton_process *process);
int baton_lua_kill_is_due(struct baton_process *process);
/* Counts how long a killed process has held its kill back. Inside the VM. */
void baton_lua_count_hold(struct baton_process *process);
/* Raises the process's kill, even if something holds it back. Outside the VM. */
__attribute__((noreturn)) void baton_lua_raise_kill(lua_State *L, struct baton_process *process);
/* Critical sections. All inside the VM. `mark` stays on the C stack until the end. An error ends
   the section, too. */
void baton_lua_begin_critical(struct baton_process *process, struct baton_mark *mark);
void baton_lua_end_critical(struct baton_process *process);
/* Holds kills back, as during a `__close` method. */
void baton_lua_begin_hold(
    struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind);
void baton_lua_end_hold(struct baton_process *process);
/* Stops the collector while the process runs, so that no finalizer runs. An error ends the stop,
   too. */
void baton_lua_stop_collector(struct baton_process *process, struct baton_mark *mark);
void baton_lua_restart_collector(struct baton_process *process);
/* The process's turn to use a socket (sockets.c). An error ends it, too. */
void baton_lua_put_turn(struct baton_process *process, struct baton_turn_mark *mark);
void baton_lua_drop_turn(struct baton_process *process);
/* Ends all critical sections, when the program ends. */
void baton_lua_leave_criticals(struct baton_process *process);
void baton_lua_hold_for_criticals(struct baton_process *process, int holds);
int baton_lua_is_in_finalizer(const struct baton_process *process);

/* collector.c */
/* Frees the heap of a VM that was halted, or could not begin, without finalizers of others. No
   thread of the VM is left, and the calling one is in no VM. */
void baton_lua_free_heap(struct baton_lua_vm *vm);

/* simulation.c */
/* Whether this is a simulated run. Set before there is a Lua state. */
extern __attribute__((visibility("hidden"))) int baton_simulated;
void baton_lua_seed_random(lua_State *L, uint64_t number);
/* A number for a generator of the run's own, other than those of its VMs. */
uint64_t baton_lua_simulated_seed(void);
/* The date of a simulated run, in seconds. */
lua_Number baton_lua_simulated_date(void);

/* objects_in_use.c */
/* From here until it ends, a call of the process runs beside others and uses `object`, which may be
   NULL. */
void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object);
void baton_lua_use_ends(struct baton_use *use);
/* Whether another process's call uses `object`. If so, a call with this object must wait. */
int baton_lua_is_busy(const struct baton_process *asker, const void *object);
/* Such a use, or NULL. */
struct baton_use *baton_lua_use_of(const struct baton_process *asker, const void *object);
void baton_lua_forget_objects(struct baton_lua_vm *vm);
/* Others begin to run beside the process's calls of modules: what the calls use is in use. Inside
   the VM, or on the monitor's thread while it owns the VM. */
void baton_lua_keep_calls_in_use(struct baton_process *process);
/* Where a call's uses are added; the process's. */
struct baton_use_list {
  struct baton_process *process;
  struct baton_use **end;
};
/* Adds an object that the call in this frame uses. Returns 0 without memory. */
int baton_lua_keep_in_use(
    struct baton_use_list *list, lua_State *L, struct CallInfo *ci, void *object);
/* Drops uses of calls that an error has ended. Inside the VM. */
void baton_lua_settle_uses(struct baton_process *process);
/* Lets others use what the call of this use does. */
void baton_lua_give_up_uses(const struct baton_use *use);
/* The process has ended. Inside the VM. */
void baton_lua_forget_uses(struct baton_process *process);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* safepoints.c */
void baton_lua_switched(struct baton_process *from, struct baton_process *to);
void baton_lua_arrived(struct baton_process *process);
void baton_lua_departed(void);

/* simulation.c */
/* Makes this run a simulated one. If the program ends with another status than 0, `failed` is
   called last, unless it is NULL. */
void baton_lua_simulate(uint64_t seed, void (*failed)(int status));

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* simulation.c */
/* Counts a step of a simulated run. Returns nonzero if a safepoint is due. Inside the VM. */
int baton_lua_count_step(struct baton_lua_vm *vm);

/* objects_in_use.c. Both inside the VM, of a process with `uses`. */
void baton_lua_call_returns(struct baton_process *process, lua_State *L);
/* `L` throws an error, or yields. */
void baton_lua_calls_are_cut(struct baton_process *process, lua_State *L, int yields);
/* The number of objects in use, plus the number of VMs with too few threads */
extern __attribute__((visibility("hidden"))) int baton_calls_watched;

/* }====================================================== */

/* wrapped.c. Whether a module for databases is loaded, whose userdata belong to connections.
   Atomic. Written before the module makes any, and never cleared. */
extern __attribute__((visibility("hidden"))) int baton_connections_are_known;

/* wrapped.c. The function `__index` of handles of processes, or NULL. Its first upvalue is a table
   of methods, which are found without a call of it. */
extern __attribute__((visibility("hidden"))) int (*baton_lua_index_of_methods)(lua_State *L);

/* collector.c. Called after a step of the collector if no finalizer is left to be called, with the
   VM's `frozen_guard`, if it has one. Installed with the kind below. Inside the VM. */
extern __attribute__((visibility("hidden"))) void (*baton_lua_finalizers_have_run)(void *guard);

/* wrapped.c. A kind of userdata that is read without a call of its metamethods. Installed when the
   module that makes them is opened first. */
struct TValue;
struct Udata;
struct baton_index_sealed {
  const void *seal; /* how their memory begins; NULL: there is no such kind */
  /* Store the value of a key, or the length. Return 0 if the metamethod must be called. Do not
     allocate. */
  int (*get)(lua_State *L, const struct Udata *object, const struct TValue *key, struct TValue *to);
  int (*length)(const struct Udata *object, struct TValue *to);
};
extern __attribute__((visibility("hidden"))) struct baton_index_sealed baton_lua_index_sealed;

#endif
