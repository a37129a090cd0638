/*
** The public header of vms/: the VMs that a program starts beside its first one.
*/
#ifndef BATON_VMS_H
#define BATON_VMS_H

#include "copying/copying.h"

/* {======================================================
** For the Rust half
** ======================================================= */

/* Called once, before there is a VM. */
void baton_vms_install(void);
/* Closes what connects a VM with others. Called once, when the VM has ended or was halted, by any
   thread that is in no VM. */
void baton_vms_closes(struct baton_lua_vm *vm);

/* }====================================================== */

/* {======================================================
** Functions of the Rust half (vms.rs, which says what they do)
** ======================================================= */

uint64_t baton_vms_next_id(void);
uint64_t baton_vms_start(const void *starter, struct baton_lua_vm *vm, struct baton_process *main,
    uint64_t id, const char *name, int cpu, char *message, size_t size);
int baton_vms_halt(uint64_t id, uint64_t nanoseconds);
void baton_vms_halt_others(const void *executor);
int baton_vms_is_idle(uint64_t id);
int baton_vms_quota(void);
void baton_vms_each(
    void (*visit)(void *argument, uint64_t id, struct baton_lua_vm *vm), void *argument);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

#define BATON_VM_NAME 64 /* bytes of a VM's name with the zero at its end; longer ones are cut */

/*
** The channels that connect a VM with the others. The VM's end closes them.
**
** | channel | from | to | what |
** |---|---|---|---|
** | requests | any VM | the VM | calls, kills |
** | life | the VM | the VM that started it | that it has begun, and how it ended |
** | ended | nobody | all | it is closed when the VM has ended |
*/
enum { BATON_REQUESTS, BATON_LIFE, BATON_ENDED, BATON_LINKS };

/* What a VM begins with. Immutable but for the block, until the VM's record is freed. */
struct baton_vm_start {
  struct baton_block *block; /* the arguments of its first function; the VM takes it */
  struct baton_shared_channel *links[BATON_LINKS];
  uint64_t id;
  int ignores_environment; /* as the option -E says */
  char name[BATON_VM_NAME];
};

/* serve.c */
/* Keeps the function on the top of the stack, and pops it. */
void baton_vms_keep_serve(lua_State *L);
/* Pushes it, in a VM that has not opened the module yet, too. */
void baton_vms_push_serve(lua_State *L);

/* cores.c */
int baton_vms_cores(lua_State *L);
/* Whether the program may use the core of this number. If not, writes a message. */
int baton_vms_may_use(lua_Integer core, char *message, size_t size);

/* list.c */
int baton_vms_list(lua_State *L);
int baton_vms_is_waiting(lua_State *L);

/* start.c: start(name, memory, cpu, requests, life, ended, ...) -> id, or nil and a message */
int baton_vms_start_one(lua_State *L);
/* Called before the record of a VM is freed. */
void baton_vms_forget_start(struct baton_lua_vm *vm);

/* }====================================================== */

#endif
