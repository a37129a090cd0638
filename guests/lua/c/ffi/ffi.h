/*
** require "baton.ffi", as the rest of the guest sees it.
*/
#ifndef BATON_FFI_H
#define BATON_FFI_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* module.c */
int baton_lua_open_ffi(lua_State *L);
/* Once, before there is a state of Lua's. */
void baton_ffi_install(void);

/* visits.c */
/* The program ends: callbacks from other threads are refused from now on. */
void baton_ffi_stop_visits(struct baton_vm *vm);
/* In a fork's child. Inside the VM. */
void baton_ffi_forget_visits(struct baton_vm *vm);

/* timeout.c */
void baton_ffi_forget_timed_calls(struct baton_vm *vm);
/* Whether calls that can be given up are going on, abandoned ones included. */
int baton_ffi_is_calling(const struct baton_vm *vm);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* callback.c */
/* Whether a thread that is none of the VM's may wake a process: 1 by a callback, 2 by the end of a
   call that can be given up, 0 by nothing. */
int baton_ffi_may_wake(const struct baton_vm *vm);

/* timeout.c */
/* Threads of the ffi's own that cannot call back: at most as many as there are. */
int baton_ffi_threads(const struct baton_vm *vm);

/* }====================================================== */

#endif
