/*
** The public header of the module "baton.ffi", for the rest of the guest.
*/
#ifndef BATON_FFI_H
#define BATON_FFI_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* module.c */
int baton_lua_open_ffi(lua_State *L);
/* Installs the ffi's function pointers. Called once, before there is a Lua state. */
void baton_ffi_install(void);
/* Frees the types of a VM that has ended. No thread of the VM is left. */
void baton_ffi_free_types(struct baton_lua_vm *vm);

/* callback_queue.c */
/* Refuses callbacks from other threads from now on. Called when the program ends. */
void baton_ffi_close_callback_queue(struct baton_lua_vm *vm);
/* Empties the foreign callback queue in a fork's child. Inside the VM. */
void baton_ffi_forget_callback_queue(struct baton_lua_vm *vm);

/* timeout.c */
void baton_ffi_forget_timed_calls(struct baton_lua_vm *vm);
/* Whether calls with a timeout are in progress, abandoned ones included. */
int baton_ffi_is_calling(const struct baton_lua_vm *vm);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* callback.c */
/* Whether a thread outside of the VM may wake a process. Returns 1 if a callback may, 2 if the end
   of a call with a timeout may, and 0 if neither may. */
int baton_ffi_may_wake(const struct baton_lua_vm *vm);

/* timeout.c */
/* The number of helper threads that cannot call back. It may be less than their real number. */
int baton_ffi_threads(const struct baton_lua_vm *vm);

/* }====================================================== */

#endif
