/*
** The public header of program/: the program's start, its end, its signals, and a fork's child.
*/
#ifndef BATON_PROGRAM_H
#define BATON_PROGRAM_H

#include "seam/guest.h"

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* program.c */
void baton_lua_run(struct baton_process *process);
void baton_lua_openlibs(lua_State *L);
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
void baton_lua_free_vm(struct baton_lua_vm *vm);

/* forking.c */
void baton_lua_forked(void);

/* signals.c */
void baton_lua_signalled(struct baton_lua_vm *vm); /* Inside the VM. */
void baton_lua_set_interruptible(int on);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* signals.c */
void baton_lua_watch_signals(struct baton_lua_vm *vm);

/* ending.c */
int baton_lua_finish(lua_State *L, int wait);
/* Ends the VM, and before it the trace of a traced run. Inside. */
void baton_lua_stop(const void *executor);
/* Registers the VM that ends with the program. */
void baton_lua_end_with(const struct baton_lua_vm *vm);

/* }====================================================== */

#endif
