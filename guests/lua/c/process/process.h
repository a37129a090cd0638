/*
** The public header of process/: the module "baton.process".
*/
#ifndef BATON_PROCESS_H
#define BATON_PROCESS_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* links.c */
/* Called just before the process gets this outcome. Kills the processes linked with it, and
   prepares the messages for monitors. On its own stack, outside the VM. */
void baton_lua_prepare_ending(struct baton_process *process, int outcome);
/* Called when the process gets its outcome: posts those messages. Inside the VM. */
void baton_lua_post_ending(struct baton_process *process);

/* module.c */
/* Installs the life hooks. Called once, before there is a process. */
void baton_lua_install_process(void);
int baton_lua_open_process(lua_State *L);

/* settings.c */
/* Installs a function that is called when the parameter max_threads may have changed. Inside the
   VM. */
void baton_lua_set_limit_hook(void (*tell)(struct baton_lua_vm *vm));

/* control.c */
/* As baton_lua_end_process, for the process at `index`, at the end of the program. */
void baton_lua_end_at_last(lua_State *L, int index);
int baton_lua_list(lua_State *L);

/* parts.c */
/* Pushes a file of lua/, named without its ending, as a function. `chunk` is its name in reports.
   Raises an error if memory is short. Outside the VM. */
void baton_lua_load_part(lua_State *L, const char *name, const char *chunk);
/* Runs a part with arguments that are above it, as lua_call does. In a simulated run its
   instructions do not count, so a seed stays as it is when the part becomes longer. The part does
   not wait. */
void baton_lua_run_part(lua_State *L, int arguments, int results);
/* The same for a text in Lua. Its name is no other text's. */
void baton_lua_load_text(
    lua_State *L, const char *name, const char *text, size_t size, const char *chunk);
/* Pops a function that runs a part: it gets the table in which the part sets its functions. Sets
   functions of these names in the module's table below it, which run the part when one of them is
   called first. `entries` is the index of a table that the part fills and that is to be asked for
   entries; 0: none. */
void baton_lua_load_later(lua_State *L, const char *const *names, int entries);

/* hooks.c */
/* Calls the exit hook of the process, if it has one. In the process itself, outside the VM. */
void baton_lua_run_exit_hook(struct baton_process *process);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* hooks.c */
/* Call the program's scheduler and its switch hooks. Inside the VM, while no process runs on this
   thread. */
uint64_t baton_lua_scheduler_hook(struct baton_process *current, struct baton_process *suggested);
void baton_lua_switch_hook(struct baton_process *from, struct baton_process *to);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* systemd.c */
void baton_lua_open_systemd(lua_State *L);

/* links.c */
void baton_lua_open_link_methods(lua_State *L);

/* Whether it is the main process of a state that a program embeds. */
static inline int baton_lua_is_host(const struct baton_process *process) {
  return process->vm->host != NULL && process == process->vm->main_process;
}

/* control.c */
/* Kills `process`, whose handle is at `handle`, with the reason on the top of `L`, and pops that.
   Outside the VM. */
int baton_lua_kill_process(
    lua_State *L, struct baton_process *caller, struct baton_process *process, int handle);
/* Does the same as process.spawn with the arguments on the stack, but does not switch. Leaves the
   handle in place of the arguments. */
struct baton_process *baton_lua_spawn(lua_State *L);
/* Spawns f(...), which are at `first` and above. Nobody is told of an error but who joins. Leaves
   the handle in their place. `options` may be all zero, but that `preemptible` should be set. */
struct baton_process *baton_lua_spawn_quiet(lua_State *L, struct baton_process *caller, int first,
    struct baton_spawn_options *options);
/* Gives the process, whose handle is on the top of `L`, the name at `index`. */
void baton_lua_give_name(lua_State *L, struct baton_process *process, int index);
/* As a kill, but a process that is being killed already may run its closing methods. */
void baton_lua_end_other(lua_State *L, struct baton_process *caller, struct baton_process *process,
    int handle, const char *reason);
/* Kills the process that is the first argument, with the second one (a string) as the reason. A
   process that is being killed already is left alone. */
int baton_lua_end_process(lua_State *L);
/* process.shield(f, ...) */
int baton_lua_shield(lua_State *L);

/* settings.c */
void baton_lua_open_settings(lua_State *L);

/* scheduling.c */
void baton_lua_open_scheduling(lua_State *L);

/* hooks.c */
void baton_lua_open_hooks(lua_State *L);
void baton_lua_open_hook_methods(lua_State *L);

/* scope.c */
void baton_lua_open_scope(lua_State *L);
/* The process, whose handle is at index 1 of `L`, is about to fail: ends the others of its scope,
   which raises the error. Outside the VM. */
void baton_lua_fail_scope(lua_State *L, struct baton_process *process);

/* parts.c */
void baton_lua_open_parts(lua_State *L);

/* threads.c */
int baton_lua_bind(lua_State *L);
int baton_lua_thread(lua_State *L);
int baton_lua_threads(lua_State *L);
/* Writes what is wrong with a thread's name, or an empty text. */
void baton_lua_check_thread_name(const char *name, size_t length, char *fault, size_t size);

/* spawn_options.c */
/* Reads the table at `index` into `options`, or raises an error. Leaves the option "name" (nil or a
   string) on the top. */
void baton_lua_read_spawn_options(
    lua_State *L, int index, struct baton_spawn_options *options, baton_timeout *time_left);

/* }====================================================== */

#endif
