/*
** The public header of state/: a process's handle and record, its life and waits, its name, texts
** on stderr, sealed objects, and memory.
*/
#ifndef BATON_STATE_H
#define BATON_STATE_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* memory.c */
static inline int baton_lua_memory_is_short(void) {
  return __atomic_load_n(&baton_memory_is_short, __ATOMIC_RELAXED) != 0;
}
/* Called before the Rust half allocates. Both functions raise Lua's own "not enough memory".
   Outside the VM. */
void baton_lua_get_memory(lua_State *L);
/* The same before one object or process is made, or a value is put into a channel (0: none). It
   also counts free places in tables. */
void baton_lua_get_memory_for_object(lua_State *L, struct baton_lua_vm *vm, uint64_t channel);
static inline void baton_lua_check_memory_for_object(
    lua_State *L, struct baton_lua_vm *vm, uint64_t channel) {
  if (__builtin_expect(baton_lua_memory_is_short(), 0))
    baton_lua_get_memory_for_object(L, vm, channel);
}
/* Called once for the new Lua state of a VM. */
void baton_lua_set_allocator(struct baton_lua_vm *vm);
/* See seam/guest.h. */
int baton_lua_make_room_for_finalizer(lua_State *L);
/* Makes the collector free what it can, the objects of dead handles included, and gives back the
   address space of free C stacks. Finalizers may run and wait. Outside the VM. */
void baton_lua_free_memory(lua_State *L);
/* Called before something that may allocate this many bytes at once. */
void baton_lua_get_room(lua_State *L, size_t size);
static inline void baton_lua_check_memory(lua_State *L) {
  if (__builtin_expect(baton_lua_memory_is_short(), 0)) baton_lua_get_memory(L);
}

/* others_states.c */
int baton_lua_raise_with_trace(lua_State *L);
int baton_lua_refuse_argument(lua_State *L);
int baton_lua_type_given(lua_State *L);
void baton_lua_open_debug(lua_State *L);

/* sealed.c */
/* An object that a program cannot forge. */
struct baton_sealed {
  const void *seal;
};
/* The kinds of our objects, after `enum baton_object` */
enum {
  BATON_SEALED_PROCESS = BATON_ALARM + 1,
  BATON_SEALED_FROZEN,
  BATON_SEALED_SHARED_CHANNEL, /* a channel between VMs */
  BATON_SEALED_MESSAGE,        /* a message for one */
  BATON_SEALED_WORDS,
  BATON_SEALED_BUFFER,
  BATON_SEALED_SCOPE, /* of process.scope */
  BATON_SEALED_MOVED, /* what vm.move returns */
  BATON_SEALED_DICT,
  BATON_SEALED_CONNECTION,  /* of baton.net */
  BATON_SEALED_LISTENER,
  BATON_SEALED_DATAGRAMS,
  BATON_SEALED_HTTP_SERVER, /* of baton.http */
  BATON_SEALED_HTTP_SESSION,
  BATON_SEALED_HTTP_EXCHANGE,
  BATON_SEALED_HTTP_ROUTES,
  BATON_SEALED_HTTP_ANSWER,
  BATON_SEALED_HTTP_FILE,
  BATON_SEALED_HTTP_PACKER,
  BATON_SEALS
};
/* The seal at the beginning of each object of that kind. */
const void *baton_lua_seal(int kind);
/* The object at `index` if it is of that kind, whatever its metatable is. Otherwise the first
   returns NULL, and the second raises an error. */
void *baton_lua_test_sealed(lua_State *L, int index, int kind);
void *baton_lua_check_sealed(lua_State *L, int index, int kind, const char *name);
/* The metatable of a kind. The first function makes it and leaves it on the top of the stack. The
   second pushes it, or nil. The third sets it for the object on the top. */
void baton_lua_new_sealed_metatable(lua_State *L, int kind, const char *name);
void baton_lua_push_sealed_metatable(lua_State *L, int kind);
void baton_lua_set_sealed_metatable(lua_State *L, int kind);
/* Pushes a new metatable of that name, which is not that of a kind before it is kept under the
   kind's seal. */
void baton_lua_push_new_metatable(lua_State *L, const char *name);
/* A private table with addresses as keys, as the registry is one that programs can change. `push`
   pushes a value. `keep` pops one and stores it. */
void baton_lua_open_private(lua_State *L);
void baton_lua_push_private(lua_State *L, const void *key);
void baton_lua_keep_private(lua_State *L, const void *key);
/* Replaces functions of debug by some that do not change our objects. */
void baton_lua_guard_debug(lua_State *L);

/* handles.c */
/* Called when the timer that a process was made for will never start it. */
void baton_lua_abandon_prepared(lua_State *L, struct baton_process *process);
void baton_lua_open_handles(lua_State *L, struct baton_lua_vm *vm);
/* Ends the record's life. Called last by the process, inside the VM. */
void baton_lua_end_record(struct baton_process *process);
/* The process that receives SIGINT as an interrupt. */
struct baton_process *baton_lua_interrupt_target(const struct baton_lua_vm *vm);
struct baton_process *baton_lua_new_process(
    lua_State *L, struct baton_lua_vm *vm, struct baton_spawn_options *options);
int baton_lua_end_unstarted(lua_State *L, struct baton_process *process);
void baton_lua_end_in_place(struct baton_process *process);
void baton_lua_push_process(lua_State *L, struct baton_process *process);
struct baton_process *baton_lua_check_process(lua_State *L, int index);
/* A message handler that keeps the traceback for reports. */
int baton_lua_keep_traceback(lua_State *L);
/* Pushes why an ended process has ended: its error, the reason of its kill, or nil. */
void baton_lua_push_reason(lua_State *L, struct baton_process *process);
/* Pushes the results of p:join() for an ended process, whose handle is at index 1. Returns their
   number. */
int baton_lua_push_results(lua_State *L, struct baton_process *process);

/* Makes the table on the top of the stack, or nil, the context of the process: data that follows
   its work (objects/context.c). Pops it. Outside the VM. */
void baton_lua_set_context(lua_State *L, struct baton_process *process);
/* A process of the runtime's own that another one has spawned has no context. */
void baton_lua_forget_context(struct baton_process *process);

/* Moves the deadline of the process's work to so many nanoseconds from now, unless it is earlier
   already. */
void baton_lua_limit_time(struct baton_process *process, baton_timeout left);

/* life.c */
/* Functions of the folders above that run during a process's life. Installed before there is a
   process. */
struct baton_life_hooks {
  /* The body has ended. Called in the process itself, outside the VM. */
  void (*run_exit_hook)(struct baton_process *process);
  /* Called just before the outcome is set, on the process's own stack, outside the VM. */
  void (*prepare_ending)(struct baton_process *process, int outcome);
  /* Called when the outcome is set. Inside the VM. */
  void (*post_ending)(struct baton_process *process);
  /* The process ends without its body having run: the function and its arguments are still on its
     stack. Outside the VM, with the state of the running process. */
  void (*ends_unstarted)(lua_State *L, struct baton_process *process);
};
extern __attribute__((visibility("hidden"))) struct baton_life_hooks baton_life_hooks;
/* Runs a spawned process on its own C stack, from its start to its outcome. Outside the VM. */
void baton_lua_run_body(struct baton_process *process);
/* Reports the error on the top of the stack, of a part of the process that no other waits for. */
void baton_lua_report_part(lua_State *L, struct baton_process *process);

/* waiting.c */
struct baton_process *baton_lua_caller(lua_State *L);
/* Raises an error unless the calling process may wait here. */
void baton_lua_check_may_wait(lua_State *L, struct baton_process *process);
baton_timeout baton_lua_check_timeout(lua_State *L, int index);
/* Called after a wait: raises a pending kill or interrupt, else returns the reason. */
int baton_lua_after_wait(lua_State *L, struct baton_process *process, struct baton_wake wake);
/* Pushes `true`, or `nil, why`. */
int baton_lua_push_outcome(lua_State *L, int reason);
/* Whether the caller runs on the process's own C stack, and not on one of a module. */
int baton_lua_is_on_own_stack(const struct baton_process *process);
/* Whether the process may wait for a descriptor in the function of ours that it is in. */
int baton_lua_may_wait_here(const struct baton_process *process);
/* Whether it may wait there, or in a finalizer, and other processes could run meanwhile. Returns 0
   for NULL. Outside the VM. */
int baton_lua_may_wait_beside_others(const struct baton_process *process);
/* Whether a read or a write would not block. */
int baton_lua_is_ready(int descriptor, int writes);
/* Waits until the descriptor may be ready. Returns a reason; negative if it cannot be waited for.
   Inside the VM. */
int baton_lua_await_descriptor(
    const struct baton_process *process, int descriptor, int writes, uint64_t deadline);
/* Whether a foreign call in progress may be waiting for the process. If so, the process does not
   wait for a native thread. */
int baton_lua_is_waited_for(const struct baton_process *process);
void baton_lua_before_blocking(lua_State *L, struct baton_process *process);

/* console.c */
/* For a host that edits a line on the terminal: receives what is written to stdout or stderr, and
   returns whether it has handled it. On any thread, outside the VM. */
typedef int (*baton_console_write)(int is_error, const char *text, size_t size);
size_t baton_io_fwrite(const void *data, size_t size, size_t count, FILE *file);
/* Writes the string on the top of the stack and pops it. Only the calling process waits. */
void baton_lua_write_error(lua_State *L, int after_stdout);
void baton_lua_open_warn(lua_State *L);
/* write_text(text, after_stdout): the function that writes. Others may run beside it. */
int baton_lua_write_text(lua_State *L);

/* names.c */
#define BATON_TITLE 80 /* bytes of a title at most, the zero included */
/* The name that the program gave it, escaped and cut; or an empty text. */
const char *baton_lua_given_name(const struct baton_process *process);
/* Writes "process 7", or "process 7 'name'" with the name escaped and cut. Returns `text`, which
   has BATON_TITLE bytes. Async-signal-safe except for snprintf. Outside the VM, too. */
const char *baton_lua_title(const struct baton_process *process, char *text);
/* The same with the whole name, as a string on the top of the stack. */
void baton_lua_push_title(lua_State *L, struct baton_process *process);
void baton_lua_set_name(struct baton_process *process, const char *name, size_t length);
/* Writes `name` as reports show it, with a zero byte at the end. Controls, line ends, quotes and
   bytes that are not UTF-8 are escaped. A cut name ends with "...". Returns the length. */
size_t baton_lua_escape(const char *name, size_t length, char *text, size_t size);

/* notices.c */
/* The runtime's own messages on stderr. No process waits until they are read. On any thread, inside
   the VM or not. */
void baton_lua_post_notice(const char *text, size_t size);
void baton_lua_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void baton_lua_notices_in_child(void);
/* Where the lines of logs go, which delay no process either: a *sink*, by its number. It stays
   until the program ends. Number 0 is stderr. */
#define BATON_MOST_SINKS 100
/* The sink of a file to append to. Returns -1 and sets errno. */
int baton_sink_open(const char *path);
/* Queues a message, which comes out whole. Returns 0 if more than `most` bytes would wait then: it
   is dropped. */
int baton_sink_post(int number, const char *text, size_t size, size_t most);
/* How many were dropped, once there is room again. They are not counted again. */
size_t baton_sink_take_dropped(int number, size_t most);
/* Opens the sink's path anew, or another one in its place. Returns errno, or 0. */
int baton_sink_reopen(int number, const char *path);

/* report.c */
#define BATON_SITE (LUA_IDSIZE + 16)
const char *baton_lua_spawn_site(const struct baton_process *process, char *text, size_t size);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* console.c */
void baton_lua_set_console(baton_console_write write);

/* notices.c */
/* Called when the program ends: waits a moment until the messages are written, or for ever. */
void baton_lua_end_notices(int forever);

/* memory.c */
/* Lets samples be taken of what Lua allocates, the first one after so many bytes, until none are
   wanted. Returns 1; 2 if samples are taken already, and nothing has changed; 0 if the program has
   set another allocator. No process runs meanwhile. */
int baton_lua_sample_allocations(struct baton_process *process, uint64_t until);

/* report.c. No process runs meanwhile. */
enum { BATON_FRAME_MAIN, BATON_FRAME_LUA, BATON_FRAME_C };
struct baton_frame {
  char source[LUA_IDSIZE]; /* as messages give it */
  int line;                /* 0: not known */
  int defined;             /* the line where the function begins; 0: not known */
  int kind;
  const char *called_as; /* such as "method"; NULL: not known */
  const char *name;
  lua_CFunction function; /* NULL: not in C */
};
/* `frame` is NULL after the last frame of each stack. Its texts are valid during the visit. */
typedef void (*baton_frame_visitor)(void *context, const struct baton_frame *frame);
/* Visits the frames of the process's coroutines, the innermost first, and then its own. Of each
   stack at most `most`. */
void baton_lua_visit_frames(
    const struct baton_process *process, int most, baton_frame_visitor visit, void *context);
/* Its number in messages. */
uint64_t baton_lua_number(const struct baton_process *process);
/* The bytes that Lua's collector counts, of all processes together. */
uint64_t baton_lua_heap_size(const struct baton_process *process);
/* The time of the collector so far, in nanoseconds, and how many collections have ended. */
uint64_t baton_lua_collector_time(const struct baton_process *process, uint64_t *collections);
/* The name that the caller of the C function that the process is in uses, or NULL. */
const char *baton_lua_call_out(const struct baton_process *process);
/* Notes a kill from outside, as `baton_lua_kill_process`. Returns whether the process holds it
   back; -1: it has ended. The caller passes the kill to the scheduler. */
int baton_lua_note_kill(struct baton_process *process);
/* Writes the line of the program where a process has stopped, such as "file:12", or nothing. Does
   not allocate. Inside the VM. */
void baton_lua_place(const struct baton_process *process, char *text, size_t size);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* console.c */
void baton_io_write_error(const char *text, size_t size);

/* handles.c */
/* The prototype of the innermost Lua function of the program on `L`, and its instruction; NULL if
   there is none. Inside the VM. */
const void *baton_lua_program_function(const lua_State *L, int *pc);

/* }====================================================== */

#endif
