/*
** The public header of program/: the program's start, its end, its signals, and a fork's child.
*/
#ifndef BATON_PROGRAM_H
#define BATON_PROGRAM_H

#include "seam/guest.h"

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* libraries.c */
/* Opens Lua's libraries, and makes them suit processes. */
void baton_lua_openlibs(lua_State *L);
/* Makes the libraries that are open suit processes. What is not Lua's own stays. */
void baton_lua_adapt(lua_State *L);

/* own_modules.c */
/* Adds the modules of Baton's own that are files to the table of loaders on the top of the
   stack. */
void baton_lua_offer_own_modules(lua_State *L);

/* program.c */
void baton_lua_run(struct baton_process *process);
int baton_lua_wait_for_rest(lua_State *L);
int baton_lua_main_was_killed(void);
void baton_lua_keep_thread(int on);

/* Functions of the folder above, noted before there is a VM: what `require "baton.vm"` calls; frees
   what a VM began with; stops all VMs but one, before the program ends. */
void baton_lua_note_vms(lua_CFunction open, void (*free)(struct baton_lua_vm *vm),
    void (*halt)(const void *executor));

/* The record of a VM beside the program's first one, and the first record of its main process,
   which calls `body` on the new Lua state. NULL: there is no memory. */
struct baton_lua_vm *baton_lua_make_vm(const char *progname);
struct baton_process *baton_lua_make_main(struct baton_lua_vm *vm, lua_CFunction body);
/* Whether a VM that has ended still has its heap, and the heap's size in bytes. */
int baton_lua_has_heap(const struct baton_lua_vm *vm);
uint64_t baton_lua_kept_size(const struct baton_lua_vm *vm);
/* Frees the record of a VM that has ended, and its heap, if it was halted. No thread of the VM is
   left. If there is a heap, the calling thread is in no VM. */
void baton_lua_free_vm(struct baton_lua_vm *vm);

/* Installs what the guest's folders need of each other. Called once, before there is a VM. `keep`
   runs the main process of a state that a program embeds. */
void baton_lua_install_guest(void (*keep)(struct baton_host *host));
/* Whether this program runs Lua as a whole, and does not embed it. */
int baton_lua_is_interpreter(void);
/* Makes the main process's handle, and moves its record there. The argument is the first record. */
int baton_lua_open_vm(lua_State *L);
/* Closes Lua's state, when no other process runs any more. The record of the calling process lies
   in the state, so a copy replaces it. */
void baton_lua_close_state(struct baton_process *process);

/* ending.c */
/* Waits for the other processes if `wait`, else kills those that are left (daemons). Returns the
   exit status. May raise an error while it waits. */
int baton_lua_finish(lua_State *L, int wait);
/* Ends the VM, and before it the trace of a traced run. Inside. */
void baton_lua_stop(const void *executor);

/* forking.c */
void baton_lua_forked(void);

/* signals.c */
void baton_lua_signalled(struct baton_lua_vm *vm); /* Inside the VM. */
void baton_lua_set_interruptible(int on);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* program.c */
int baton_lua_exit_program(lua_State *L);
/* What `require "baton.vm"` calls. */
lua_CFunction baton_lua_vm_module(void);

/* signals.c */
void baton_lua_watch_signals(struct baton_lua_vm *vm);

/* ending.c */
/* Registers the VM that ends with the program. */
void baton_lua_end_with(const struct baton_lua_vm *vm);

/* }====================================================== */

#endif
