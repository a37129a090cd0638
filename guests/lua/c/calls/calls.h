/*
** The public header of calls/: the retake policy for foreign calls, the policies of C modules,
** warnings of long calls, and the daemon for deferred finalizers.
*/
#ifndef BATON_CALLS_H
#define BATON_CALLS_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* calls.c */
/* Installs the seam's hooks. Called once, before there is a Lua state. */
void baton_lua_install_calls(void);

/* deferred_finalizers.c */
/* Registers the guest's finalizer that calls finalizers of the program. */
void baton_lua_note_calling_finalizer(lua_CFunction function);

/* overlap.c */
/* If another process's call uses `object`, waits until one such call has ended, and returns 1.
   Otherwise returns 0. Inside the VM before and after. */
int baton_lua_wait_for_object(lua_State *L, struct baton_process *process, const void *object);

/* policies.c */
void baton_lua_module_loaded(lua_State *L, const char *name, lua_CFunction loader, int index);
void baton_lua_read_declarations(lua_State *L, const char *text);
/* Has the functions of the object file that the address is in count as the guest's own. */
void baton_lua_note_own_code(lua_State *L, const void *address);
int baton_lua_concurrent(lua_State *L);
/* The policy of a function of a C module, for warnings. */
struct baton_policy_of_call {
  const char *module;  /* the name that it was first required by */
  const char *why;     /* the built-in reason why nothing may run beside it, or NULL */
  int lets_others_run, is_declared;
};

/* retake_policy.c */
/* Registers a function of the guest that may be retaken. `on_retake` is called with its state on
   the monitor's thread, which owns the VM at that moment. */
void baton_lua_note_function_with_retake_hook(
    lua_CFunction function, void (*on_retake)(lua_State *L));
void baton_lua_note_library_functions(lua_State *L);
void baton_lua_note_function(lua_CFunction function);
/* Registers a function of the guest that may use the API for long: others run meanwhile. */
void baton_lua_note_function_that_gives_way(lua_CFunction function);

void baton_lua_retake_policy_in_child(void);

/* warnings.c */
/* Installs the test whether a callback from another thread waits for a listener. */
void baton_lua_set_queued_calls_test(int (*has)(const struct baton_lua_vm *vm));
/* Registers the function that ends the program. It is never warned of. */
void baton_lua_note_function_that_ends(lua_CFunction function);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* retake_policy.c */
/* The retake policy: whether the foreign call of the process is retaken. Returns 0 for no, 1 for
   yes, and 2 for yes, but the process continues only on its thread. On the monitor's thread, which
   owns the VM at that moment. */
int baton_lua_retake_policy(struct baton_process *process);

/* warnings.c */
int baton_lua_warn_blocked(struct baton_process *process);
/* Names the C function that a process is in; an empty text if it is in none. Outside, while its
   state does not change. */
void baton_lua_name_call(struct baton_process *process, char *text, size_t size);
/* Whether the delay that the monitor is about to report comes from the collector. */
int baton_lua_has_delayed(const struct baton_lua_vm *vm);
void baton_lua_warn_thread(
    struct baton_process *holder, struct baton_process *waiter, int is_bound);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* deferred_finalizers.c */
/* Called after a collection that the program requested. Waits until the deferred finalizers have
   run, or wait for a process themselves. Outside the VM. */
void baton_lua_await_finalizers(lua_State *L, struct baton_process *process);
/* Decides whether to defer the finalizer whose call, with its object, is on the top of `L`. If it
   returns 1, both are popped, and later finalizers are deferred, too. */
int baton_lua_defer_finalizer(lua_State *L, struct baton_process *process);
/* Leaves the finalizers to the daemon. Those that never wait are called now. */
void baton_lua_leave_finalizers(lua_State *L, struct baton_process *process);
void baton_lua_let_finalizers_run(lua_State *L, struct baton_process *process);

/* overlap.c */
/* Whether calls of this function may be retaken. `object` becomes what no other call may use until
   this one calls back, or NULL. Inside the VM, or on the monitor's thread while it owns the VM. */
int baton_lua_policy_allows(lua_State *L, lua_CFunction function, void **object);
/* The two functions of the seam's hooks. */
void baton_lua_keep_used_by(
    lua_State *L, struct CallInfo *ci, lua_CFunction function, struct baton_use_list *list);
void *baton_lua_connection_of_new(lua_State *L);
/* What a finalizer's call of `function` for `object` would have to wait for now, or NULL. Inside
   the VM. */
struct TValue;
const void *baton_lua_finalizer_waits_for(
    struct baton_process *process, lua_CFunction function, const struct TValue *object);
/* Called before each call of a foreign function while `baton_calls_watched`. Inside the VM. */
void baton_lua_before_foreign_call(
    lua_State *L, struct baton_process *process, lua_CFunction function);
/* turns.c */
void baton_turns_turn_on(void);
void baton_lua_after_foreign_call(lua_State *L, struct baton_process *process);
void baton_turns_unwind(struct baton_process *process, const void *where);

/* policies.c */
/* Returns 0 if the function belongs to no known module. */
int baton_lua_policy_of_call(lua_CFunction function, struct baton_policy_of_call *policy);
void baton_lua_policies_in_child(struct baton_process *survivor);

/* retake_policy.c */
/* Whether the running C function may give way in its middle. Returns 0 for no, 1 for yes, on its
   thread, and 2 for yes, but others then run on other threads. `object` becomes what no other call
   may use until this one calls back, or NULL. Inside the VM. */
int baton_lua_may_give_way(struct baton_process *process, void **object);
/* What no other call may use until the call of `function` that `L` is in calls back, or NULL. */
void *baton_lua_object_of_call(
    struct baton_process *process, lua_State *L, lua_CFunction function);

/* warnings.c */
/* Reports once for each function that the process has waited for long for a call of another one,
   and whether it now enters beside the call. Inside the VM before and after. */
void baton_lua_warn_of_use(
    lua_State *L, struct baton_process *process, const struct baton_use *use, int enters);
/* Warns once that the process calls on a Lua state that another process runs on. */
void baton_lua_warn_of_foreign_state(const struct baton_process *process);

/* }====================================================== */

#endif
