/*
** require "baton.ffi": calls in both directions, and what its C files share. Values are in values/.
**
**   module.c          the module's functions
**   call.c            calls of functions of C
**   callback.c        functions of Lua as function pointers of C
**   visits.c          callbacks from threads that are not the VM's
**   library.c         libraries
**   moving.c          which calls are made on another native thread
**   timeout.c         calls that may be given up
**   helper_threads.c  threads for these
**
** Apart from ffi.h, which shows the folders above no records.
*/
#ifndef BATON_FFI_INSIDE_H
#define BATON_FFI_INSIDE_H

#include "values/values.h"
#include "ffi/ffi.h"

#include <pthread.h>

/* A function pointer of C that leads to a function of Lua. Guarded by the VM lock, but for the
   atomics and what never changes. */
struct ffi_callback {
  struct ffi_callback *next, *previous;
  struct ffi_vm *vm;
  struct ffi_door *door;
  const struct ffi_type *type;
  void *handle, *code;
  size_t result_size;
  int function;                /* reference in the registry */
  int in_use;                  /* calls that are going on */
  int is_living;               /* atomic: neither freed, nor has the VM ended */
  int is_refused;              /* atomic: calls that came to nothing have been reported */
};

/* One call of a callback; on the C stack of whoever calls. */
struct ffi_visit {
  struct ffi_callback *callback;
  void *result, **arguments;
  struct ffi_visit *next; /* these three: guarded by the door's mutex */
  int is_answered;
  pthread_cond_t answered;
};

/* A call through the ffi that is going on; on the C stack. */
struct ffi_outer_call {
  struct ffi_outer_call *previous;
  lua_State *L;
  struct baton_process *process;
  uint64_t began;  /* nanoseconds; 0: it is not measured */
  int error;       /* where on the stack is what a callback raised; 0: nothing was raised */
  int called_back; /* how long it takes is then not C's affair alone */
};

/* moving.c */
/* Before a call that is to be asked about: it may go on on another thread. */
void baton_ffi_ask(lua_State *L, struct ffi_function *function, struct ffi_outer_call *call);
/* After one that was measured, or that called back. */
void baton_ffi_learn(
    lua_State *L, struct ffi_function *function, const struct ffi_outer_call *call);
int baton_ffi_blocking(lua_State *L);
int baton_ffi_nonblocking(lua_State *L);

/* timeout.c */
/* Whether the calling process may wait for a call on another stack. */
int baton_ffi_may_time(lua_State *L);
/* Makes the call on a helper's stack. All that it needs lies on the stack of `L`. Raises if it
   takes too long. */
void baton_ffi_call_timed(lua_State *L, struct ffi_function *function,
    const struct ffi_prepared *prepared, void **arguments, void *result);
int baton_ffi_timeout(lua_State *L);

/* helper_threads.c */
/* What a helper is to do: the beginning of something larger. */
struct ffi_task {
  struct ffi_task *next;
  void (*run)(struct ffi_task *task);
};
void baton_ffi_prepare_helpers(lua_State *L, struct ffi_vm *vm);
/* Waits for a helper to be free, in turn. BATON_DONE: one is the caller's, to be given a task, or
   released. */
struct baton_wake baton_ffi_await_helper(lua_State *L, struct ffi_vm *vm, baton_timeout timeout);
/* Answers 0 if there is no thread for it. */
int baton_ffi_give_to_helper(lua_State *L, struct ffi_vm *vm, struct ffi_task *task);
void baton_ffi_release_helper(struct ffi_vm *vm);
/* Calls that are going on, abandoned ones included. */
int baton_ffi_timed_calls(const struct ffi_vm *vm);
/* Threads that make no call. */
int baton_ffi_idle_helpers(const struct ffi_vm *vm);
void baton_ffi_forget_helpers(struct ffi_vm *vm);

/* callback.c */
/* A function pointer of type `type` that leads to the function of Lua at `index`. */
void *baton_ffi_new_callback(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, int is_passed);
void baton_ffi_open_callbacks(lua_State *L, struct ffi_vm *vm);
void baton_ffi_close_callbacks(struct ffi_vm *vm);
int baton_ffi_callback_method(lua_State *L, struct ffi_cdata *cdata, const char *name);

/* visits.c */
/* Listeners among the living processes. Inside the VM. */
uint64_t baton_ffi_listeners(const struct ffi_vm *vm);
/* Before there is a callback: from then on other threads may call. A listener makes the call by
   `run`, whose argument is the visit. */
void baton_ffi_expect_visits(lua_State *L, struct ffi_vm *vm, lua_CFunction run);
/* Says once of each callback that C's call of it came to nothing. From any thread. */
void baton_ffi_refuse(struct ffi_callback *callback, const char *why);
/* From a thread that is none of the VM's: has a process make the call, and waits for it. */
void baton_ffi_visit(struct ffi_visit *visit);

/* library.c */
void baton_ffi_push_program(lua_State *L, struct ffi_vm *vm);
int baton_ffi_prepare_function(lua_State *L);

/* What the ffi registers with the folders below. */
/* call.c */
int baton_ffi_call(lua_State *L);

/* library.c */
int baton_ffi_load(lua_State *L);

/* moving.c */
/* The call through the ffi that goes on on `L` was retaken. By the monitor, with the VM in its
   hands. */
void baton_ffi_note_retaken(lua_State *L);

/* visits.c */
/* Whether a callback from another thread waits for a process to make it. On any thread. */
int baton_ffi_has_visitors(const struct baton_vm *vm);

/* helper_threads.c */
/* The parameter max_threads may have changed. Inside the VM. */
void baton_ffi_bound_changed(struct baton_vm *vm);

#endif
