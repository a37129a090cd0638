/*
** The private header of the module "baton.ffi": calls in both directions. Values are in values/.
**
**   module.c          the module's functions
**   call.c            calls from Lua to C
**   callback.c        Lua functions as C function pointers
**   callback_queue.c  listeners: processes that make callbacks from threads outside of the VM
**   library.c         libraries
**   offloading.c      which calls run on another native thread
**   timeout.c         calls with a timeout
**
** What knows no Lua is in bindings/ffi: the foreign callback queue, and the helper threads that
** make calls with a timeout. src/ffi makes it functions of C.
**
** ffi.h is the public header. It has no records.
*/
#ifndef BATON_FFI_INSIDE_H
#define BATON_FFI_INSIDE_H

#include "values/values.h"
#include "ffi/ffi.h"

/* A C function pointer that calls a Lua function. The VM lock guards it, except the atomics and the
   fields that never change. */
struct ffi_callback {
  struct ffi_callback *next, *previous;
  struct ffi_vm *vm;
  const struct ffi_callback_queue *queue;
  lua_CFunction run;           /* makes a call, which is its argument */
  const struct ffi_type *type;
  void *handle, *code;
  size_t result_size;
  int function;                /* reference in the registry */
  int in_use;                  /* the number of calls in progress */
  int is_living;               /* atomic: it is not freed, and the VM has not ended */
  int is_refused;              /* atomic: a refused call was reported */
};

/* One call of a callback, on the C stack of its caller. */
struct ffi_incoming_call {
  struct ffi_callback *callback;
  void *result, **arguments;
};

/* A call of C through the ffi that is in progress, on the C stack. */
struct ffi_outer_call {
  struct ffi_outer_call *previous;
  lua_State *L;
  struct baton_process *process;
  uint64_t began;  /* nanoseconds; 0: the call is not measured */
  int error;       /* the stack index of an error that a callback raised; 0: none */
  int called_back; /* C called back, so the duration is not C's alone */
};

/* offloading.c */
/* Decides how to make a call, and whether to offload it. The caller may return from this on another
   thread. */
void baton_ffi_ask(lua_State *L, struct ffi_function *function, struct ffi_outer_call *call);
/* Learns from a call that was measured or that called back. */
void baton_ffi_learn(
    lua_State *L, struct ffi_function *function, const struct ffi_outer_call *call);
int baton_ffi_blocking(lua_State *L);
int baton_ffi_nonblocking(lua_State *L);

/* timeout.c */
/* Whether the calling process may wait for a call on another stack. */
int baton_ffi_may_time(lua_State *L);
/* Makes the call on a helper's stack. Its arguments and its result lie on the stack of `L`. Raises
   an error if the time is over. */
void baton_ffi_call_timed(lua_State *L, struct ffi_function *function,
    const struct ffi_prepared *prepared, void **arguments, void *result);
int baton_ffi_timeout(lua_State *L);

/* The Rust half: src/ffi/timed.rs. Functions that take `executor` are called inside the VM. */
const struct ffi_timed_calls *baton_ffi_timed_calls_new(const void *executor);
void baton_ffi_timed_limit_changed(const struct ffi_timed_calls *calls, const void *executor);
/* Begins a call. The result is freed by baton_ffi_timed_free. */
const struct ffi_timed_call *baton_ffi_timed_begin(
    const struct ffi_timed_calls *calls, const void *executor, baton_timeout timeout);
/* Waits until a helper is free, first come, first served. After BATON_DONE the caller owns a
   helper: it starts the call or releases the helper. */
struct baton_wake baton_ffi_timed_await_helper(const struct ffi_timed_calls *calls,
    const void *executor, const struct ffi_timed_call *call);
/* Returns 0 if the system refuses a thread. */
int baton_ffi_timed_start(const struct ffi_timed_calls *calls, const struct ffi_timed_call *call,
    int error, const struct ffi_prepared *prepared, void (*function)(void), void **arguments,
    void *result);
void baton_ffi_timed_release_helper(const struct ffi_timed_calls *calls);
/* Waits until the call is done, or abandons it. If it is done, the reason is BATON_DONE, and errno
   after the call is written. */
struct baton_wake baton_ffi_timed_await_end(const struct ffi_timed_calls *calls,
    const void *executor, const struct ffi_timed_call *call, int *error);
/* Before a call that was not started is freed. */
void baton_ffi_timed_take_back(const void *executor, const struct ffi_timed_call *call);
void baton_ffi_timed_free(const struct ffi_timed_call *call);
/* An abandoned call that has returned. NULL: none. */
const struct ffi_timed_call *baton_ffi_timed_next_returned(const struct ffi_timed_calls *calls);
/* The number of calls in progress, abandoned ones included. */
int baton_ffi_timed_in_progress(const struct ffi_timed_calls *calls);
int baton_ffi_timed_idle_helpers(const struct ffi_timed_calls *calls);
/* The number of processes that wait for a call or for a helper. Inside the VM. */
int baton_ffi_timed_waiting(const struct ffi_timed_calls *calls);

/* The Rust half: src/ffi/callback_queue.rs. Functions that take `executor` are called inside the
   VM, and all others on any thread. */
struct ffi_queued_call {
  const void *queued;
  struct ffi_incoming_call *incoming;
};
enum ffi_next { FFI_CALL, FFI_ASK_AGAIN, FFI_END };
const struct ffi_callback_queue *baton_ffi_queue_new(const void *executor);
int baton_ffi_queue_is_open(const struct ffi_callback_queue *queue);
void baton_ffi_queue_open(const struct ffi_callback_queue *queue, uint64_t prepared);
void baton_ffi_queue_close(const struct ffi_callback_queue *queue);
int baton_ffi_queue_add(
    const struct ffi_callback_queue *queue, struct ffi_incoming_call *incoming);
int baton_ffi_queue_has_calls(const struct ffi_callback_queue *queue);
int baton_ffi_queue_take(const struct ffi_callback_queue *queue, struct ffi_queued_call *call);
void baton_ffi_answer(const struct ffi_callback_queue *queue, const void *queued);
int baton_ffi_queue_next(const struct ffi_callback_queue *queue, const void *executor,
    struct ffi_queued_call *call, struct baton_wake *wake);
uint64_t baton_ffi_queue_listeners(const struct ffi_callback_queue *queue);
int baton_ffi_queue_wants_listener(const struct ffi_callback_queue *queue);
void baton_ffi_queue_listener_begins(const struct ffi_callback_queue *queue);
int baton_ffi_queue_listener_ends(const struct ffi_callback_queue *queue, const void *executor);
void baton_ffi_queue_forget(const struct ffi_callback_queue *queue);

/* callback.c */
/* Makes a C function pointer of type `type` that calls the Lua function at `index`. */
void *baton_ffi_new_callback(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index, int is_passed);
void baton_ffi_open_callbacks(lua_State *L, struct ffi_vm *vm);
void baton_ffi_close_callbacks(struct ffi_vm *vm);
int baton_ffi_callback_method(lua_State *L, struct ffi_cdata *cdata, const char *name);

/* callback_queue.c */
/* The number of listeners among the living processes. Inside the VM. */
uint64_t baton_ffi_listeners(const struct ffi_vm *vm);
/* Opens the queue before the first callback is made. Other threads may call from then on. */
void baton_ffi_open_callback_queue(lua_State *L, struct ffi_vm *vm);
/* Warns that C's call of this callback was refused: once for each callback. On any thread. */
void baton_ffi_refuse(struct ffi_callback *callback, const char *why);
/* Queues a call from a thread outside of the VM, and waits until a listener has made it. */
void baton_ffi_queue_call(struct ffi_incoming_call *incoming);

/* library.c */
/* Frees what is known of libraries that stay loaded after the end. No finalizer runs any more. */
void baton_ffi_leave_libraries(struct baton_lua_vm *vm);
void baton_ffi_push_program(lua_State *L, struct ffi_vm *vm);
int baton_ffi_prepare_function(lua_State *L);

/* Functions that the ffi registers with the folders below. */
/* call.c */
int baton_ffi_call(lua_State *L);

/* library.c */
int baton_ffi_load(lua_State *L);

/* offloading.c */
/* The call through the ffi that runs on `L` was retaken. On the monitor's thread, which owns the VM
   at this moment. */
void baton_ffi_note_retaken(lua_State *L);

/* callback_queue.c */
/* Whether a callback from another thread waits for a listener. On any thread. */
int baton_ffi_has_queued_calls(const struct baton_lua_vm *vm);

/* timeout.c */
/* The parameter max_threads may have changed. Inside the VM. */
void baton_ffi_limit_changed(struct baton_lua_vm *vm);

#endif
