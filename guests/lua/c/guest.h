/*
** The guest's own records and what its C files offer each other.
*/
#ifndef BATON_GUEST_H
#define BATON_GUEST_H

#include "lua.h"
#include "lauxlib.h"
#include "runtime.h"
#include "gate.h"

struct global_State;
struct Table;
struct baton_process;

/* Marks on the C stack of what a process is inside of; an error that jumps over them removes them. */
enum baton_mark_kind { BATON_MARK_CLOSE, BATON_MARK_FINALIZER, BATON_MARK_FOREIGN_STATE };

struct baton_mark {
  struct baton_mark *previous;
  enum baton_mark_kind kind;
};

/* One coroutine being resumed; on the C stack of the resumer. */
struct baton_resumed {
  struct baton_resumed *previous;
  lua_State *L;
};

/* One VM. */
struct baton_vm {
  const void *executor;        /* baton_core's Vm */
  lua_State *main;             /* Lua's main state */
  struct global_State *global; /* NULL until Lua's state is open */
  struct baton_process *main_process;
  uint64_t next_id;
  int failures;                /* processes that failed and were not joined */
  int in_report;
  int outstanding;             /* calls that were retaken and have not come back */
  int exiting;                 /* os.exit(_, true) is killing the others, main included */
  int closing;                 /* Lua's state is being closed: nobody waits any more */
  const char *progname;
  struct baton_process *busy;  /* processes out in calls about an object */
  uint64_t object_queue, require_queue;
};

enum baton_outcome { BATON_ALIVE, BATON_RETURNED, BATON_FAILED, BATON_WAS_KILLED };

/* User values of a process's handle. */
enum { BATON_UV_THREAD = 1, BATON_UV_DATA, BATON_UV_NAME, BATON_UV_TRACE, BATON_UV_REASON, BATON_UV_NEXT, BATON_UV_COUNT = 6 };

/*
** One process. Lives in its handle (a full userdata). The registry holds the main process's handle, and each handle of a living process
** holds the next one's (BATON_UV_NEXT). Guarded by the VM lock; `L`, `vm` and `global` never change.
*/
struct baton_process {
  lua_State *L;                 /* its base state */
  struct baton_vm *vm;
  struct global_State *global;
  struct baton_mark *marks;
  struct baton_resumed *resumed;
  uintptr_t stack_low, stack_high; /* its C stack */
  uint64_t kernel_id;
  uint64_t id;                  /* what the program sees */
  struct baton_process *next_live, *previous_live;
  struct baton_process *next_busy;
  void *busy_object;            /* what its retaken call is about */
  void *object;                 /* what the running library function is about (see io_objects.c) */
  void *exceptions[2];          /* the C++ runtime's per-thread globals */
  uint64_t kill_until;          /* a hold that lasts longer is abandoned (nanoseconds) */
  lua_CFunction body;           /* the main process's */
  int argc;
  char **argv;
  struct baton_process *waiting_for; /* whose module it waits for in require */
  const char *wanted;           /* and which module */
  int saved_errno;
  unsigned holds;               /* marks that put a kill off */
  unsigned foreign_states;      /* marks that forbid switching */
  unsigned char pinned;         /* foreign frames are on its stack: it continues only on its thread */
  unsigned char gc_stopped;     /* Lua's "collector stopped by finalizer" bit */
  unsigned char killed;         /* times killed, saturating */
  unsigned char interrupted;
  unsigned char retaken;        /* its foreign call was retaken and has not come back */
  unsigned char outcome;
  unsigned char quiet, daemon, joined, reported;
  char name[48];                /* for reports, cut to fit */
};

#define baton_enter(L) lua_lock(L)
#define baton_leave(L) lua_unlock(L)

/* seam.c */
/* The running process, if `L` is of its VM. (internals.h has it inline.) */
struct baton_process *baton_lua_here(lua_State *L);
void baton_lua_arm(lua_State *L);
void baton_lua_request_safepoint(struct baton_process *process);
void baton_lua_switched(struct baton_process *from, struct baton_process *to);
void baton_lua_preempt(void);
void baton_lua_set_base_depth(lua_State *L);
void baton_lua_detach(struct baton_process *process);
/* Raises what the process owes: a kill that is due, an interrupt. From outside the VM. */
void baton_lua_raise_owed(lua_State *L, struct baton_process *process);
int baton_lua_kill_is_due(struct baton_process *process);
void baton_lua_note_exception_globals(void);

/* judgement.c: 0 stay, 1 retake, 2 retake pinned */
void baton_lua_abandon_prepared(lua_State *L, struct baton_process *process);
int baton_lua_judge(struct baton_process *process);
int baton_lua_has_foreign_frames(struct baton_process *process);
void baton_lua_warn_blocked(struct baton_process *process);
/* As Lua's own messages would name the C function that runs on `L`. Writes at most `size` bytes. */
void baton_lua_name_function(lua_State *L, char *text, size_t size);
void baton_lua_note_library_functions(lua_State *L);
void baton_lua_note_function(lua_CFunction function);
void baton_lua_open_handles(lua_State *L);

/* process_life.c */
struct baton_process *baton_lua_new_process(lua_State *L, struct baton_vm *vm, struct baton_spawn *options);
void baton_lua_run(struct baton_process *process);
int baton_lua_end_unstarted(lua_State *L, struct baton_process *process);
void baton_lua_push_process(lua_State *L, struct baton_process *process);
void baton_lua_push_name(lua_State *L, struct baton_process *process);
struct baton_process *baton_lua_check_process(lua_State *L, int index);
int baton_lua_finish(lua_State *L, int wait);

/* process_module.c and its parts */
int baton_lua_open_process(lua_State *L);
void baton_lua_open_objects(lua_State *L);
void baton_lua_open_timers(lua_State *L);
void baton_lua_open_settings(lua_State *L);
struct baton_process *baton_lua_caller(lua_State *L);
/* Raises, unless the calling process may wait here. */
void baton_lua_check_may_wait(lua_State *L, struct baton_process *process);
baton_timeout baton_lua_check_timeout(lua_State *L, int index);
/* After a wait: raises what is owed, else returns the reason. */
int baton_lua_after_wait(lua_State *L, struct baton_process *process, struct baton_wake wake);
/* Pushes `true`, or `nil, why`. */
int baton_lua_push_outcome(lua_State *L, int reason);

/* io_objects.c */
void baton_lua_open_io(lua_State *L);
void baton_lua_before_blocking(lua_State *L, struct baton_process *process);
void baton_lua_object_begins(struct baton_process *process, int has_object);
void baton_lua_object_ends(struct baton_process *process);
int baton_lua_print(lua_State *L);

/* modules.c */
int baton_lua_require(lua_State *L);
void baton_lua_open_require(lua_State *L);

/* report.c: to standard error, without allocating; outside the VM, while nobody else can run */
void baton_lua_report_process(struct baton_process *process, const char *state, const char *blocker);
const char *baton_lua_name_for_report(struct baton_process *process);
void baton_lua_report_overflow(struct baton_process *process, size_t stack_size);

/* signals.c */
void baton_lua_signalled(struct baton_vm *vm); /* inside the VM */
int baton_lua_report_wanted(void);
void baton_lua_watch_signals(struct baton_vm *vm);

/* program.c */
int baton_lua_main(struct baton_process *process, lua_CFunction body, int argc, char **argv);
void baton_lua_openlibs(lua_State *L);
void baton_lua_set_interruptible(int on);
int baton_lua_wait_for_rest(lua_State *L);
int baton_lua_main_was_killed(void);
int baton_lua_exit(lua_State *L);

#endif
