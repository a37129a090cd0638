/*
** The public header of hosting/: states that a program embeds, as it embeds liblua5.4, and that can
** have processes.
**
** The program (the *host*) has a thread and a stack of its own, and calls Lua when it wants. To the
** VM, all of that is the main process: while the host is *here*, it is the process that runs, and
** its own code is a foreign call of it. When the host gives time to the other processes
** (baton_lua_run_until), the main process suspends itself, and the host has *gone* afterwards.
**
** | the host | its thread is | what leads there |
** |---|---|---|
** | has gone | no carrier; the VM is between two stints | the end of baton_lua_run_until |
** | is here | home, in a stint without a limit | its first use of the state after that |
**
** src/hosting.rs has the stacks.
*/
#ifndef BATON_HOSTING_H
#define BATON_HOSTING_H

#include "seam/guest.h"

struct baton_host;

/* {======================================================
** Functions of the Rust half (hosting.rs)
** ======================================================= */

/* Makes the VM of a record, whose main process has the record `main`, with the calling thread as
   its home. NULL: writes a message, and frees the record with the VM's guest. */
struct baton_host *baton_host_new(
    struct baton_lua_vm *vm, struct baton_process *main, char *message, size_t size);
/* The host comes. Returns inside the VM, in the main process. Outside, on a thread that is no
   carrier. */
void baton_host_come(struct baton_host *host);
/* The host gives time to the others until `deadline`, and goes. Inside the VM before, outside of
   it after. Returns as baton_vm_run_until. */
int baton_host_go(struct baton_host *host, uint64_t deadline);
/* Runs the main process on its own stack, which only keeps its place. Inside before and after. */
void baton_host_keep_place(struct baton_host *host);
/* Ends the VM, which has been stopped. Inside before, outside after. Frees the host, and the VM
   when its last thread has gone. */
void baton_host_end(struct baton_host *host);
/* Whether the VM's home is the calling thread. On any thread. */
int baton_host_is_at_home(const struct baton_host *host);
/* Has the preemption signal handled. Returns 0, or an errno. */
int baton_host_handle_signals(void);
/* Stops the VMs that this one has started, if no other host has any. */
void baton_host_halt_vms(const struct baton_host *host);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* hosted.c */
/* The VM of a state that has processes, or NULL. On any thread. */
struct baton_lua_vm *baton_hosted_vm_of(lua_State *L);
/* Adds a VM. Returns 0 without memory. */
int baton_hosted_add(struct baton_lua_vm *vm);
void baton_hosted_remove(const struct baton_lua_vm *vm);
/* Makes sure that the host is here. Returns its process; NULL if the calling thread is in another
   process, or in another VM. */
struct baton_process *baton_hosted_enter(struct baton_lua_vm *vm);

/* start.c */
/* Starts the VM of a state. Raises an error. */
void baton_hosted_start(lua_State *L);

/* ending.c */
int baton_hosted_close(lua_State *L);

/* }====================================================== */

#endif
