/*
** The guest's own records and what its C files offer each other.
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

/* seam.c */
/* The running process, if `L` is of its VM. (internals.h has it inline.) */
struct baton_process *baton_lua_here(lua_State *L);
void baton_lua_arm(lua_State *L);
void baton_lua_request_safepoint(struct baton_process *process);
void baton_lua_switched(struct baton_process *from, struct baton_process *to);
void baton_lua_preempt(void);
void baton_lua_set_base_depth(lua_State *L);
void baton_lua_detach(struct baton_process *process);
/* Has the process make its coming foreign call on another native thread. Inside the VM; when it has moved, outside. */
enum baton_departure baton_lua_move_out(struct baton_process *process);
void baton_lua_arrived(struct baton_process *process);
void baton_lua_forget_calls(struct baton_vm *vm);
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
/* Critical sections. All inside the VM. `mark` stays on the C stack until the end; an error ends the section too. */
void baton_lua_begin_critical(struct baton_process *process, struct baton_mark *mark);
void baton_lua_end_critical(struct baton_process *process);
/* Kills are held back, as in a `__close` method. */
void baton_lua_begin_hold(struct baton_process *process, struct baton_mark *mark, enum baton_mark_kind kind);
void baton_lua_end_hold(struct baton_process *process);
/* The collector, which the process has not stopped, makes no step while it runs: no finalizer comes. An error ends it too. */
void baton_lua_stop_collector(struct baton_process *process, struct baton_mark *mark);
void baton_lua_restart_collector(struct baton_process *process);
void baton_lua_leave_collections(struct baton_process *process, const void *where); /* those of frames below `where` (finalizers.c) */
/* For good: the program ends. */
void baton_lua_leave_criticals(struct baton_process *process);
void baton_lua_hold_for_criticals(struct baton_process *process, int holds);
void baton_lua_note_exception_globals(void);
/* Threads may have become short, or are short no more. Inside the VM. */
void baton_lua_watch_threads(struct baton_vm *vm);

/* simulation.c */
extern __attribute__((visibility("hidden"))) int baton_simulated; /* set before Lua's state is made */
void baton_lua_simulate(uint64_t seed);
/* A state on which a process begins. */
void baton_lua_begin_steps(lua_State *L);
/* The running process is about to make a step of a simulated run; nonzero: a safepoint is due. Inside the VM. */
int baton_lua_count_step(struct baton_vm *vm);
void baton_lua_seed_random(lua_State *L);

/* others_states.c */
void baton_lua_open_debug(lua_State *L);

/* policies.c */
/* Whether calls of this function may be retaken, and what nobody else may touch meanwhile (NULL: nothing). With the VM in hand. */
int baton_lua_policy_allows(struct baton_process *process, lua_State *L, lua_CFunction function, void **object);
/* While another process's call is about `object`: waits until one such call has ended, and answers 1. Inside the VM before and after. */
int baton_lua_wait_for_object(lua_State *L, struct baton_process *process, const void *object, enum baton_lane lane);
/* The same of the C function that runs on `L`, if it is to park; and how it uses that object. Inside the VM. */
int baton_lua_policy_lets_park(struct baton_process *process, lua_State *L, void **object, enum baton_lane *lane);
void baton_lua_module_loaded(lua_State *L, const char *name, lua_CFunction loader, int index);
void baton_lua_read_declarations(lua_State *L, const char *text);
int baton_lua_concurrent(lua_State *L);
const char *baton_lua_module_name(struct baton_vm *vm, lua_CFunction function);
extern __attribute__((visibility("hidden"))) int baton_calls_watched; /* how many retaken calls are about something, and VMs whose threads are short */

/* judgement.c */
int baton_lua_is_ours(lua_CFunction function);
/* 0 stay, 1 retake, 2 retake pinned */
void baton_lua_abandon_prepared(lua_State *L, struct baton_process *process);
int baton_lua_judge(struct baton_process *process);
/* The C function that `L` is in, if it is in one. */
lua_CFunction baton_lua_running_function(lua_State *L);
/* What the call of that function is about and nobody else may touch while others run beside it; NULL: nothing. */
void *baton_lua_object_of_running_call(struct baton_process *process, lua_State *L);
int baton_lua_has_foreign_frames(struct baton_process *process);
void baton_lua_warn_blocked(struct baton_process *process);
/* As Lua's own messages would name the C function that runs on `L`. Writes at most `size` bytes. */
void baton_lua_name_function(lua_State *L, char *text, size_t size);
void baton_lua_note_library_functions(lua_State *L);
void baton_lua_note_function(lua_CFunction function);
/* Foreign frames have come to lie above the C function that runs on `L`, or have gone. Inside the VM. */
void baton_lua_mark_frame(lua_State *L, int is_foreign);
void baton_lua_open_handles(lua_State *L);

/* process_life.c */
struct baton_process *baton_lua_new_process(lua_State *L, struct baton_vm *vm, struct baton_spawn *options);
void baton_lua_run(struct baton_process *process);
int baton_lua_end_unstarted(lua_State *L, struct baton_process *process);
void baton_lua_end_in_place(struct baton_process *process);
void baton_lua_push_process(lua_State *L, struct baton_process *process);
/* A message handler that keeps the traceback for reports. */
int baton_lua_keep_traceback(lua_State *L);
/* A part of the process has failed, and nobody waits for it: reports the error on the top of the stack. */
void baton_lua_report_part(lua_State *L, struct baton_process *process);
void baton_lua_push_name(lua_State *L, struct baton_process *process);
struct baton_process *baton_lua_check_process(lua_State *L, int index);
int baton_lua_finish(lua_State *L, int wait);

/* process_module.c and its parts */
int baton_lua_open_process(lua_State *L);
/* Does what process.spawn does with the arguments on the stack, and leaves the handle in their place; gives way to nobody. */
struct baton_process *baton_lua_spawn(lua_State *L);
void baton_lua_open_objects(lua_State *L);
void baton_lua_open_timers(lua_State *L);
void baton_lua_open_settings(lua_State *L);
void baton_lua_open_scheduling(lua_State *L);
void baton_lua_open_hooks(lua_State *L);
void baton_lua_open_scope(lua_State *L);
/* Ends the process that is its argument, as by a kill, unless it is being killed already. */
int baton_lua_end_process(lua_State *L);
void baton_lua_open_hook_methods(lua_State *L);
/* threads_module.c */
int baton_lua_bind(lua_State *L);
int baton_lua_thread(lua_State *L);
int baton_lua_threads(lua_State *L);
/* Writes what is wrong with a thread's name, or nothing. */
void baton_lua_check_thread_name(const char *name, size_t length, char *fault, size_t size);
/* hooks_module.c. Inside the VM, while no process runs on this thread: */
uint64_t baton_lua_choose(struct baton_process *current, struct baton_process *suggested);
void baton_lua_tell_switch(struct baton_process *from, struct baton_process *to);
/* In the process itself, outside the VM. */
void baton_lua_run_exit_hook(struct baton_process *process);
/* Reads the table at `index` into `options`, or raises; leaves the option "name" (nil or a string) on the top. */
void baton_lua_read_spawn_options(lua_State *L, int index, struct baton_spawn *options);
struct baton_process *baton_lua_caller(lua_State *L);
/* Raises, unless the calling process may wait here. */
void baton_lua_check_may_wait(lua_State *L, struct baton_process *process);
baton_timeout baton_lua_check_timeout(lua_State *L, int index);
/* After a wait: raises what is owed, else returns the reason. */
int baton_lua_after_wait(lua_State *L, struct baton_process *process, struct baton_wake wake);
/* Pushes `true`, or `nil, why`. */
int baton_lua_push_outcome(lua_State *L, int reason);

/* objects_in_use.c */
/* From here on others may run beside a call of the process that is about `object`, if that is not NULL; until it ends. */
void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object, enum baton_lane lane);
void baton_lua_use_ends(struct baton_use *use);
/* Whether another process's call is about `object`, so that a call in this lane has to wait. */
int baton_lua_is_busy(const struct baton_process *asker, const void *object, enum baton_lane lane);
void baton_lua_forget_objects(struct baton_vm *vm);

/* parked.c */
/* Calls by code between the two addresses may park. Inside the VM. */
void baton_lua_list_library(const char *low, const char *high);
/* In a fork's child. */
void baton_lua_park_in_child(void);
/* Ends the waits of processes that are parked on threads where signal handlers of modules have run meanwhile. Inside the VM. */
void baton_lua_end_waits_for_handlers(const struct baton_vm *vm);
void baton_lua_names_in_child(void);

/* closing.c */
/* The VM whose processes' descriptors are closed by whatever thread. */
void baton_lua_park_for(const struct baton_vm *vm);

/* io_objects.c */
void baton_lua_open_io(lua_State *L);
/* Whether a foreign call that is out may be waiting for what the process does: then it waits for no native thread. */
int baton_lua_is_waited_for(const struct baton_process *process);
void baton_lua_before_blocking(lua_State *L, struct baton_process *process);
int baton_lua_print(lua_State *L);

/* console.c: for a host that edits a line on the terminal */
/* Is given what is written to stdout, or to stderr; answers whether it has taken it. On any thread, outside the VM. */
typedef int (*baton_console_write)(int is_error, const char *text, size_t size);
void baton_lua_set_console(baton_console_write write);
size_t baton_io_fwrite(const void *data, size_t size, size_t count, FILE *file);

/* forking.c */
void baton_lua_forked(void);

/* ffi_module.c, ffi_call.c */
int baton_lua_open_ffi(lua_State *L);
int baton_ffi_call(lua_State *L);
/* The call through the ffi that goes on on `L` was retaken. By the monitor, with the VM in its hands. */
void baton_ffi_note_retaken(lua_State *L);
/* Whether a callback from another thread waits for a process to make it. On any thread. */
int baton_ffi_has_visitors(const struct baton_vm *vm);
/* The program ends: callbacks from other threads are refused from now on. */
void baton_ffi_stop_visits(struct baton_vm *vm);
/* In a fork's child. Inside the VM. */
void baton_ffi_forget_visits(struct baton_vm *vm);
void baton_ffi_forget_timed_calls(struct baton_vm *vm);
/* Whether calls that can be given up are going on, abandoned ones included. */
int baton_ffi_is_calling(const struct baton_vm *vm);
/* Whether a thread that is none of the VM's may wake a process: 1 by a callback, 2 by the end of a call that can be given up, 0 by nothing. */
int baton_ffi_may_wake(const struct baton_vm *vm);
/* Threads of the ffi's own that cannot call back: at most as many as there are. */
int baton_ffi_threads(const struct baton_vm *vm);
/* The parameter max_threads may have changed. Inside the VM. */
void baton_ffi_bound_changed(struct baton_vm *vm);

/* modules.c */
int baton_lua_require(lua_State *L);
void baton_lua_keep_loads_of(struct baton_process *survivor);
void baton_lua_open_require(lua_State *L);

/* adapted_modules.c */
/* The value of a module that has just been loaded, but is not yet seen by others, is on the top of the stack. */
void baton_lua_adapt_module(lua_State *L, const char *name);

/* report.c: to standard error, without allocating; outside the VM, while nobody else can run */
void baton_lua_report_process(struct baton_process *process, const char *state, const char *blocker);
const char *baton_lua_name_for_report(struct baton_process *process);
int baton_lua_report_overflow(uintptr_t address);

/* signals.c */
/* A signal handler of a module's has returned on the calling thread. Async-signal-safe. */
void baton_lua_handler_has_run(void);
void baton_lua_signalled(struct baton_vm *vm); /* inside the VM */
int baton_lua_report_wanted(void);
void baton_lua_watch_signals(struct baton_vm *vm);
/* A native thread that no process runs on and no signal is delivered to, as those are for the threads that Lua runs on. Nobody waits for its end. 0: there is none. */
int baton_start_helper(const char *name, void *(*run)(void *), void *argument);

/* program.c */
int baton_lua_main(struct baton_process *process, lua_CFunction body, int argc, char **argv);
void baton_lua_openlibs(lua_State *L);
void baton_lua_set_interruptible(int on);
/* The process that SIGINT is for, and whether it is not, for now. */
struct baton_process *baton_lua_whom_to_interrupt(const struct baton_vm *vm);
void baton_lua_leave_interrupts_to_command(int on);
int baton_lua_wait_for_rest(lua_State *L);
int baton_lua_end_as_main(struct baton_process *process);
int baton_lua_main_was_killed(void);
void baton_lua_keep_thread(int on);
int baton_lua_exit(lua_State *L);

#endif
