/*
** The guest's records. Plain C, so that the seam can include it before Lua's own headers.
*/
#ifndef BATON_RECORD_H
#define BATON_RECORD_H

#include "gate.h"

struct lua_State;
struct global_State;
struct baton_process;
struct baton_ending;

/* Marks on the C stack of what a process is inside of; an error that jumps over them removes
   them. */
enum baton_mark_kind {
  BATON_MARK_CLOSE,
  BATON_MARK_FINALIZER,
  BATON_MARK_FOREIGN_STATE,
  BATON_MARK_CRITICAL,
  BATON_MARK_COLLECTOR,
  BATON_MARK_TURN
};

struct baton_mark {
  struct baton_mark *previous;
  enum baton_mark_kind kind;
};

/* A mark of the last kind, which says itself what its end does. Inside the VM. */
struct baton_turn_mark {
  struct baton_mark mark;
  void (*ends)(struct baton_mark *mark);
};

/*
** The preempting signal's handler follows the chain of resumed coroutines, between any two
** instructions of the thread that it interrupts: a record is whole before it is linked, and
** unlinked before its place on the stack is used again. The compiler must keep that order.
*/
#define baton_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* One coroutine being resumed; on the C stack of the resumer. */
struct baton_resumed {
  struct baton_resumed *previous;
  struct baton_process *process; /* NULL: a state of somebody else's */
  struct lua_State *L;
};

/* That a call which others may run beside is about an object. */
struct baton_use {
  struct baton_use *next;
  struct baton_process *process; /* whose call */
  void *object;                  /* NULL: none, and not listed */
};

#define BATON_BUSY_BITS 10

/* One VM. */
struct baton_vm {
  const void *executor;        /* baton_core's Vm */
  struct lua_State *main;             /* Lua's main state */
  struct global_State *global; /* NULL until Lua's state is open */
  struct baton_process *main_process;
  /* whom schedulers and switch hooks run as, once there are any */
  struct baton_process *hook_process;
  void *hook_argument;         /* for the function that the hook process begins with */
  /* in a fork's child: who forked and ends the program, if it is not the main process */
  struct baton_process *heir;
  uint64_t next_id;
  uint64_t living;             /* processes beside the main one */
  int failures;                /* processes that failed and were not joined */
  int in_report;
  int outstanding;             /* calls that were retaken and have not come back */
  int threads_are_short;       /* so many that the next call that may block has to wait */
  int exiting;                 /* os.exit(_, true) is killing the others, main included */
  int ending;                  /* daemons are killed: commands are not waited for any more */
  int closing;                 /* Lua's state is being closed: nobody waits any more */
  /* the daemon that calls finalizers which were put off; the registry holds it. NULL: none yet (see
     put_off.c) */
  struct baton_process *finalizer;
  int finalizing;              /* it has work */
  uint64_t finalizer_queue, finalized_queue; /* where it waits for work, and others for its end */
  void *files;                 /* the metatable of Lua's files */
  /* objects to be finalized: those left for it while the collector goes on, and the last that was
     looked at */
  void *set_aside, *seen_last;
  const char *progname;
  int pid;                     /* of the program, or of the fork's child that goes on with the VM */
  /* in a simulated run: from one safepoint to the next, and until it (see simulation.c) */
  uint32_t steps, steps_left;
  struct baton_use *busy[1 << BATON_BUSY_BITS]; /* by object (see objects_in_use.c) */
  int busy_count;
  uint64_t collections;        /* how often the collector was called, and could collect */
  unsigned char is_generational; /* the collector's mode, as it was set */
  unsigned forks;              /* of which this program is the child */
  /* for what the monitor is about to warn of (see warnings.c) */
  unsigned char collector_is_to_blame;
  uint64_t object_queue, require_queue;
  struct baton_load *loads;    /* modules that are being loaded (see modules/require.c) */
  struct ffi_vm *ffi;          /* baton.ffi, once it is loaded (see values/values.h) */
  void *ffi_state;             /* its types */
  /* compiled modules, and declarations about some to come (see policies.c) */
  struct baton_module *modules;
};

enum baton_outcome { BATON_ALIVE, BATON_RETURNED, BATON_FAILED, BATON_WAS_KILLED };

/* User values of a process's handle. */
enum {
  BATON_UV_THREAD = 1,
  BATON_UV_DATA,
  BATON_UV_NAME,
  BATON_UV_TRACE,
  BATON_UV_REASON,
  BATON_UV_NEXT,
  BATON_UV_SITE,
  BATON_UV_COUNT = 7
};

/*
** One process. Lives in its handle (a full userdata). The registry holds the main process's handle,
** and each handle of a living process holds the next one's (BATON_UV_NEXT). Guarded by the VM lock;
** `L`, `vm` and `global` never change.
*/
struct baton_process {
  const void *seal;                    /* that of our objects (sealed.c); must be first */
  struct lua_State *L;                 /* its base state */
  struct baton_vm *vm;
  struct global_State *global;
  struct baton_mark *marks;
  struct baton_resumed *resumed;
  /* the collector's work that it is in the middle of (see seam/collector.c) */
  struct baton_collection *collection;
  /* its C stack, from the second to the third; what is below faults */
  uintptr_t stack_guard, stack_low, stack_high;
  uint64_t kernel_id;
  uint64_t id;                  /* what the program sees */
  struct baton_process *next_live, *previous_live;
  struct baton_use use;         /* what its retaken call is about */
  void *object;                 /* the file that a library function is about (see io/files.c) */
  int (*object_of)(struct lua_State *); /* and the function which noted that */
  void *exceptions[2];          /* the C++ runtime's per-thread globals */
  /* for how long a hold has put a kill off, and when that was last looked at (nanoseconds) */
  uint64_t held_for, held_at;
  struct baton_ending *ending;  /* what its outcome is told with (see process/links.c) */
  int (*body)(struct lua_State *); /* the main process's */
  int argc;
  char **argv;
  struct baton_process *waiting_for; /* whose module it waits for in require */
  const char *wanted;           /* and which module */
  int saved_errno;
  int ffi_errno;                /* as the last call through the ffi left it */
  struct ffi_outer_call *ffi_call; /* the innermost call through the ffi that is going on */
  unsigned holds;               /* marks that put a kill off */
  unsigned foreign_states;      /* marks that forbid switching */
  /* marks of critical sections: they hold kills and interrupts back */
  unsigned criticals;
  struct baton_collected *warning; /* what its call of warn has to say (stderr_texts.c) */
  unsigned char errno_kept;     /* C code below may look at errno: it is saved across switches */
  unsigned char cooperative;    /* spawned with preemptible = false */
  /* a foreign call of it is about to enter the VM by a callback, and stays beneath it */
  unsigned char calls_back;
  unsigned char serves_visit;   /* a listener, in a callback that a thread of C's waits for */
  unsigned char keeps_thread;   /* the host's frames on its stack must stay on their thread */
  /* foreign frames are on its stack: it continues only on its thread */
  unsigned char pinned;
  unsigned char gc_stopped;     /* Lua's "collector stopped by finalizer" bit */
  unsigned char killed;
  /* killed again while it held the first kill back: that is not held back any more */
  unsigned char abandoned;
  unsigned char interrupted;
  /* it waits in os.execute, and holds a kill back until the command ends */
  unsigned char awaits_command;
  unsigned char retaken;        /* its foreign call was retaken and has not come back */
  unsigned char outcome;
  unsigned char quiet, daemon, joined;
  unsigned char has_switch_hooks, has_exit_hook;
  unsigned char is_watched;     /* somebody is to be told of its end (see process/links.c) */
  unsigned char is_ending;      /* and is being told */
  unsigned char killed_by_link;
  unsigned char has_ended;      /* its body has; its exit hook may run */
  int spawn_line;               /* where it was spawned; 0: not known */
  /* and in which chunk: a string of Lua's, which BATON_UV_SITE keeps */
  const char *spawn_source;
  char name[48];                /* for reports: escaped, and cut to fit (names.c) */
};

#endif
