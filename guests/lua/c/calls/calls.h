/*
** Foreign calls: which may be retaken or give way, what modules allow, what keeps others waiting,
** and the daemon that calls finalizers which would wait.
*/
#ifndef BATON_CALLS_H
#define BATON_CALLS_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* calls.c */
/* Once, before there is a state of Lua's. */
void baton_lua_install_calls(void);

/* put_off.c */
/* A finalizer of ours calls those of the program. */
void baton_lua_note_calling_finalizer(lua_CFunction function);

/* policies.c */
/* While another process's call is about `object`: waits until one such call has ended, and answers
   1. Inside the VM before and after. */
int baton_lua_wait_for_object(lua_State *L, struct baton_process *process, const void *object);
void baton_lua_module_loaded(lua_State *L, const char *name, lua_CFunction loader, int index);
void baton_lua_read_declarations(lua_State *L, const char *text);
int baton_lua_concurrent(lua_State *L);
/* For warnings: what is known of a function of a C module. */
struct baton_policy_of_call {
  const char *module;  /* the name that it was required by first */
  const char *why;     /* nobody may run beside it, if that is built in */
  int lets_others_run, is_declared;
};

/* judgement.c */
/* A function of ours that may be retaken, and what is told then with its state: by the monitor,
   with the VM in its hands. */
void baton_lua_note_function_that_hears(
    lua_CFunction function, void (*is_retaken)(lua_State *L));
void baton_lua_note_library_functions(lua_State *L);
void baton_lua_note_function(lua_CFunction function);

/* warnings.c */
/* By what it is known whether a callback from another thread waits for a process to make it. */
void baton_lua_have_visitors_told_by(int (*has)(const struct baton_vm *vm));
/* The function that ends the program: nobody is to go on beside it. */
void baton_lua_note_function_that_ends(lua_CFunction function);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* judgement.c */
/* Whether the call that the process is out in is retaken: 0 no, 1 yes, 2 yes, and the process
   continues on its thread only. By the monitor, with the VM in its hands. */
int baton_lua_judge(struct baton_process *process);

/* warnings.c */
void baton_lua_warn_blocked(struct baton_process *process);
/* Whether the collector is to be blamed for what the monitor wants to warn of. */
int baton_lua_has_delayed(const struct baton_vm *vm);
void baton_lua_warn_thread(
    struct baton_process *holder, struct baton_process *waiter, int is_bound);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* put_off.c */
/* After a collection that the program asked for: waits for finalizers that were put off, unless
   these wait for somebody. Outside the VM. */
void baton_lua_await_finalizers(lua_State *L, struct baton_process *process);
/* Whether the finalizer whose call is on the top of `L`, and its object, is put off: then both are
   gone from the stack, and others come later. */
int baton_lua_put_off(lua_State *L, struct baton_process *process);
/* Finalizers are left to the daemon now, all but those that never wait, which are called. */
void baton_lua_leave_finalizers(lua_State *L, struct baton_process *process);
void baton_lua_let_finalizers_run(lua_State *L, struct baton_process *process);

/* policies.c */
/* Whether calls of this function may be retaken, and what nobody else may touch meanwhile (NULL:
   nothing). With the VM in hand. */
int baton_lua_policy_allows(
    struct baton_process *process, lua_State *L, lua_CFunction function, void **object);
/* What a finalizer's call of `function` for the userdata at `memory` (NULL: none) would have to
   wait for now; NULL: nothing. Inside the VM. */
const void *baton_lua_finalizer_waits_for(
    struct baton_process *process, lua_CFunction function, void *memory);
/* Before a call of a function that is not ours, while calls are watched. Inside the VM. */
void baton_lua_before_foreign_call(
    lua_State *L, struct baton_process *process, lua_CFunction function);
/* 0: the function is of no known module. */
int baton_lua_policy_of_call(
    struct baton_vm *vm, lua_CFunction function, struct baton_policy_of_call *policy);

/* judgement.c */
/* Whether the C function that runs may give way in its middle: 0 no, 1 on its thread, 2 so that
   others run on other threads. What nobody else may touch meanwhile goes to `object`. Inside the
   VM. */
int baton_lua_may_give_way(struct baton_process *process, void **object);
/* What a call of `function` that `L` is in is about and nobody else may touch while others run
   beside it; NULL: nothing. */
void *baton_lua_object_of_call(
    struct baton_process *process, lua_State *L, lua_CFunction function);

/* warnings.c */
/* The process calls on a state that another one runs on. Once. */
void baton_lua_warn_of_foreign_state(const struct baton_process *process);

/* }====================================================== */

#endif
