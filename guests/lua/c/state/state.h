/*
** A process's state: its handle and record, its life, its waits, its names and texts, what is
** sealed, and memory.
*/
#ifndef BATON_STATE_H
#define BATON_STATE_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* memory.c */
/* To be called before the Rust half is to make something; both raise Lua's own "not enough
   memory". Outside the VM. */
void baton_lua_get_memory(lua_State *L);
/* The same before one object or process is made, or a value is put into a channel (0: none): free
   places in tables are used then. */
void baton_lua_get_memory_for_object(lua_State *L, struct baton_vm *vm, uint64_t channel);
static inline void baton_lua_check_memory_for_object(
    lua_State *L, struct baton_vm *vm, uint64_t channel) {
  if (__builtin_expect(__atomic_load_n(&baton_memory_is_short, __ATOMIC_RELAXED) != 0, 0))
    baton_lua_get_memory_for_object(L, vm, channel);
}
/* Once, for a new state. */
void baton_lua_set_allocator(lua_State *L);
/* For a call that may take so many bytes at once. */
void baton_lua_get_room(lua_State *L, size_t size);
static inline void baton_lua_check_memory(lua_State *L) {
  if (__builtin_expect(__atomic_load_n(&baton_memory_is_short, __ATOMIC_RELAXED) != 0, 0))
    baton_lua_get_memory(L);
}

/* others_states.c */
int baton_lua_raise_with_trace(lua_State *L);
void baton_lua_open_debug(lua_State *L);

/* sealed.c */
/* What a program cannot reach. */
struct baton_sealed {
  const void *seal;
};
/* The kinds of our objects, after `enum baton_object` */
enum { BATON_SEALED_PROCESS = BATON_ALARM + 1, BATON_SEALS };
/* What an object of that kind begins with. */
const void *baton_lua_seal(int kind);
/* The object at `index`, if it is one of that kind, whatever its metatable; else NULL, or an error
   that says what was expected. */
void *baton_lua_test_sealed(lua_State *L, int index, int kind);
void *baton_lua_check_sealed(lua_State *L, int index, int kind, const char *name);
/* Makes the metatable of a kind, and leaves it on the top of the stack; gives it to the object
   there. */
void baton_lua_new_sealed_metatable(lua_State *L, int kind, const char *name);
void baton_lua_push_sealed_metatable(lua_State *L, int kind);
void baton_lua_set_sealed_metatable(lua_State *L, int kind);
/* Values by address, as in the registry, which a program can change: pushes one, or keeps the one
   on the top, which is popped. */
void baton_lua_open_private(lua_State *L);
void baton_lua_push_private(lua_State *L, const void *key);
void baton_lua_keep_private(lua_State *L, const void *key);
/* Puts functions of debug that leave our objects alone into the places of stock Lua's. */
void baton_lua_guard_debug(lua_State *L);

/* handles.c */
/* A process that was made for a timer will never be fired. */
void baton_lua_abandon_prepared(lua_State *L, struct baton_process *process);
void baton_lua_open_handles(lua_State *L);
/* The last of a process. Inside the VM. */
void baton_lua_let_go_of_handle(struct baton_process *process);
/* The process that SIGINT is for. */
struct baton_process *baton_lua_whom_to_interrupt(const struct baton_vm *vm);
struct baton_process *baton_lua_new_process(
    lua_State *L, struct baton_vm *vm, struct baton_spawn *options);
int baton_lua_end_unstarted(lua_State *L, struct baton_process *process);
void baton_lua_end_in_place(struct baton_process *process);
void baton_lua_push_process(lua_State *L, struct baton_process *process);
struct baton_process *baton_lua_check_process(lua_State *L, int index);
/* Pushes why a process has ended that has: its error, or the reason of its kill; else nil. */
void baton_lua_push_reason(lua_State *L, struct baton_process *process);
/* Pushes what p:join() returns of a process that has ended and whose handle is at index 1; says how
   many values that are. */
int baton_lua_push_results(lua_State *L, struct baton_process *process);

/* life.c */
/* What a process's life asks of the folders above it. Installed before there is a process. */
struct baton_life_hooks {
  /* Its body has ended. In the process itself, outside the VM. */
  void (*run_exit_hook)(struct baton_process *process);
  /* It is about to have this outcome. On its own stack, outside the VM. */
  void (*prepare_ending)(struct baton_process *process, int outcome);
  /* It has its outcome. Inside the VM. */
  void (*post_ending)(struct baton_process *process);
};
extern __attribute__((visibility("hidden"))) struct baton_life_hooks baton_life_hooks;
/* The life of a process that was spawned, on its own C stack, from the start to its outcome.
   Outside the VM. */
void baton_lua_run_body(struct baton_process *process);
/* A message handler that keeps the traceback for reports. */
int baton_lua_keep_traceback(lua_State *L);
/* A part of the process has failed, and nobody waits for it: reports the error on the top of the
   stack. */
void baton_lua_report_part(lua_State *L, struct baton_process *process);

/* waiting.c */
struct baton_process *baton_lua_caller(lua_State *L);
/* Raises, unless the calling process may wait here. */
void baton_lua_check_may_wait(lua_State *L, struct baton_process *process);
baton_timeout baton_lua_check_timeout(lua_State *L, int index);
/* After a wait: raises what is owed, else returns the reason. */
int baton_lua_after_wait(lua_State *L, struct baton_process *process, struct baton_wake wake);
/* Pushes `true`, or `nil, why`. */
int baton_lua_push_outcome(lua_State *L, int reason);
/* Whether the caller runs on the process's own stack, rather than on one of a module's own. */
int baton_lua_is_on_own_stack(const struct baton_process *process);
/* Whether the process may wait for a descriptor in the function of ours that it is in. */
int baton_lua_may_wait_here(const struct baton_process *process);
/* The same, finalizers included, when others could run meanwhile; of no process (NULL): 0. Outside
   the VM. */
int baton_lua_may_wait_beside_others(const struct baton_process *process);
/* Whether a read or a write would not block. */
int baton_lua_is_ready(int descriptor, int writes);
/* The process waits until the descriptor may be ready. Answers a reason, negative if it cannot be
   waited for. Inside the VM. */
int baton_lua_await_descriptor(
    const struct baton_process *process, int descriptor, int writes, uint64_t deadline);
/* Whether a foreign call that is out may be waiting for what the process does: then it waits for no
   native thread. */
int baton_lua_is_waited_for(const struct baton_process *process);
void baton_lua_before_blocking(lua_State *L, struct baton_process *process);

/* console.c */
/* For a host that edits a line on the terminal: is given what is written to stdout, or to stderr;
   answers whether it has taken it. On any thread, outside the VM. */
typedef int (*baton_console_write)(int is_error, const char *text, size_t size);
size_t baton_io_fwrite(const void *data, size_t size, size_t count, FILE *file);

/* names.c */
#define BATON_TITLE 80 /* bytes of a title at most, the zero included */
/* "process 7", or "process 7 'name'": the name escaped, and cut to fit. Async-signal-safe but for
   snprintf; needs no VM. Answers `text`, which has BATON_TITLE bytes. */
const char *baton_lua_title(const struct baton_process *process, char *text);
/* The same with the whole name, as a string on the top of the stack. */
void baton_lua_push_title(lua_State *L, struct baton_process *process);
void baton_lua_set_name(struct baton_process *process, const char *name, size_t length);
/* Writes `name` as reports show it: controls, line ends, quotes and bytes that are no UTF-8
   escaped, ended by a zero byte, "..." where it was cut. Answers the length. */
size_t baton_lua_escape(const char *name, size_t length, char *text, size_t size);

/* notices.c */
/* What the runtime says on stderr. Nobody waits until it is read. On any thread, inside the VM or
   not. */
void baton_lua_tell(const char *text, size_t size);
void baton_lua_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void baton_lua_telling_in_child(void);
/* A native thread that no process runs on and no signal is delivered to, as those are for the
   threads that Lua runs on. Nobody waits for its end. 0: there is none. */
int baton_start_helper(const char *name, void *(*run)(void *), void *argument);

/* stderr_texts.c */
/* Writes the string on the top of the stack, which is popped; only the calling process waits. */
void baton_lua_write_error(lua_State *L, int after_stdout);
void baton_lua_open_warn(lua_State *L);
/* write_text(text, after stdout): what it writes with, beside which others may run. */
int baton_lua_write_text(lua_State *L);

/* report.c */
#define BATON_SITE (LUA_IDSIZE + 16)
const char *baton_lua_spawn_site(const struct baton_process *process, char *text, size_t size);

/* }====================================================== */

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* console.c */
void baton_lua_set_console(baton_console_write write);

/* report.c */
/* A report on all processes, made outside the VM while nobody else can run, and then told. */
void baton_lua_begin_report(const char *heading);
void baton_lua_end_report(int is_last);
/* `since`: for how many seconds it has not run; negative: not known. */
void baton_lua_report_process(
    struct baton_process *process, const char *state, const char *blocker, double since);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* console.c */
void baton_io_write_error(const char *text, size_t size);

/* notices.c */
/* The program ends: what was told is written, if it is read within a moment, or however long it
   takes. */
void baton_lua_end_telling(int forever);

/* }====================================================== */

#endif
