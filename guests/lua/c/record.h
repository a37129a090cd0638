/*
** The guest's records. This is plain C, as the seam includes it before Lua's own headers.
*/
#ifndef BATON_RECORD_H
#define BATON_RECORD_H

#include "baton.h"
#include "gate.h"
#include "observing.h"

struct lua_State;
struct CallInfo;
struct global_State;
struct Table;
struct baton_process;
struct baton_ending;

/* Marks on the C stack of what a process is inside of. An error that unwinds the stack past a mark
   removes it. */
enum baton_mark_kind {
  BATON_MARK_CLOSE,
  BATON_MARK_SHIELD,
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

/* A mark of the second kind, with its number in the VM. */
struct baton_shield_mark {
  struct baton_mark mark;
  uint64_t number;
};

/* A mark of the last kind. It has the function that runs at its end. Inside the VM. */
struct baton_turn_mark {
  struct baton_mark mark;
  void (*ends)(struct baton_mark *mark);
};

/*
** Orders writes for the handler of the preemption signal. The handler follows the chain of resumed
** coroutines, between any two instructions of its thread. So a record must be complete before it is
** linked, and unlinked before its memory is reused. The compiler must keep that order.
*/
#define baton_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* A coroutine that is being resumed; on the C stack of its resumer. */
struct baton_resumed {
  struct baton_resumed *previous;
  struct baton_process *process; /* NULL: the state belongs to no process of ours */
  struct lua_State *L;
};

/* An object in use by a call that other processes may run beside (see seam/objects_in_use.c). */
struct baton_use {
  struct baton_use *next;
  struct baton_process *process; /* the caller */
  void *object;                  /* NULL: none, and not listed */
  /* the call; NULL: not a call of a module. The rest is for such calls only */
  struct CallInfo *ci;
  struct lua_State *L;
  int (*function)(struct lua_State *);
  struct baton_use *previous;    /* of the same process, of this call or of one further out */
  uint64_t awaited_since;        /* when another process began to wait; 0: none has */
  unsigned char was_reported;    /* others have been told that they wait for long */
  unsigned char may_be_continued; /* the call may yield, and be continued as another one */
};

#define BATON_BUSY_BITS 10

/* One VM. */
struct baton_lua_vm {
  const void *executor;        /* baton_core's Vm */
  struct lua_State *main;             /* Lua's main state */
  struct global_State *global; /* NULL until Lua's state is open */
  struct baton_process *main_process;
  /* the process that schedulers and switch hooks run as; NULL until there are any */
  struct baton_process *hook_process;
  void *hook_argument;         /* for the first function of the hook process */
  /* in a fork's child: the process that forked, and ends the program, if it is not the main one */
  struct baton_process *heir;
  uint64_t next_id;
  uint64_t living;             /* processes beside the main one */
  void *process_metatable;     /* of the handles of processes; a private table keeps it alive */
  unsigned warm_threads;       /* Lua threads of ended processes, kept for others (handles.c) */
  int failures;                /* processes that failed and were not joined */
  int in_report;
  int outstanding;             /* calls that were retaken and have not returned */
  int threads_are_short;       /* the next call that may block must wait for a thread */
  int exiting;                 /* os.exit(_, true) is killing the others, main included */
  int ending;                  /* daemons are killed: commands are no longer waited for */
  int closing;                 /* Lua's state is being closed: no process waits any more */
  /* the daemon that calls deferred finalizers (see deferred_finalizers.c). The registry keeps it
     alive. NULL: not made yet */
  struct baton_process *finalizer;
  int finalizing;              /* the daemon has work */
  /* where the daemon waits for work, and where others wait for the end of its work */
  uint64_t finalizer_queue, finalized_queue;
  void *files;                 /* the metatable of Lua's files */
  /* deferred objects: the list while the collector continues without it, and the last object that
     was examined */
  void *set_aside, *seen_last;
  const char *progname;
  int pid;                     /* of the program, or of the fork's child that has the VM */
  uint64_t number;             /* among the program's VMs; 0: the first one */
  /* in a simulated run: steps between two safepoints, and until the next one (simulation.c) */
  uint32_t steps, steps_left;
  uint64_t steps_since;        /* steps since the last safepoint that was due */
  struct baton_use *busy[1 << BATON_BUSY_BITS]; /* hash table by object (see objects_in_use.c) */
  int busy_count;
  uint64_t collections;        /* how often the collector began or continued after a finalizer */
  /* for metrics (see collector.c): nanoseconds of the collector, and collections that have ended */
  uint64_t collector_time, whole_collections;
  uint64_t shields; /* calls of process.shield so far */
  void *frozen_guard;          /* of this VM's frozen values (copying/frozen.c); NULL: none yet */
  unsigned char is_generational; /* the collector's mode, as the program has set it */
  /* a long piece of the collector's work was put off, so that others run before it; and the debt
     then, in bytes */
  unsigned char collector_gave_way;
  int64_t collector_debt;
  unsigned forks;              /* the number of forks between the first program and this one */
  /* the collector caused the delay that the monitor is about to report (see warnings.c) */
  unsigned char collector_caused_delay;
  uint64_t object_queue, require_queue;
  unsigned chunks_loading;     /* chunks that are being compiled or read */
  struct baton_load *loads;    /* modules in the middle of loading (see modules/require.c) */
  struct ffi_vm *ffi;          /* baton.ffi, once it is loaded (see values/values.h) */
  void *ffi_state;             /* its types */
  struct ffi_left *ffi_left;   /* libraries that are loaded at the end (see ffi/library.c) */
  /* calls with a timeout; made with the first one, and used until the program ends */
  const struct ffi_timed_calls *timed;
  int exit_status;             /* set by the main process */
  /* the main process's record while Lua's state, in which its own lies, is being closed */
  struct baton_process *last;
  struct daemons_pipe *daemons_pipes; /* see io/pipes.c */
  struct baton_commands *commands; /* that its processes wait for */
  /* of a VM beside the program's first one: what it begins with (see vms/start.c) */
  struct baton_vm_start *start;
  struct baton_block *spares;  /* blocks for small messages (copying/block.c) */
  struct baton_net_kept *net;  /* buffers that connections use again (net/buffers.c) */
  struct baton_shapes *shapes; /* of tables that are sent and received (copying/contents.c) */
  uint64_t memory_limit;       /* bytes of Lua's heap; 0: none */
  /* of a state that a program embeds: what runs it beside the program's own code (hosting/) */
  struct baton_host *host;
};

enum baton_outcome { BATON_ALIVE, BATON_RETURNED, BATON_FAILED, BATON_WAS_KILLED };

/* In a debugger's turn, a process is not traced. If it is alone, it counts no steps of a simulated
   run, and lets no other process run. */
enum baton_in_debugger { BATON_NOT_IN_DEBUGGER, BATON_IN_DEBUGGER, BATON_ALONE_IN_DEBUGGER };

/* User values of a process's handle. The thread's place has the result if the thread was given to
   another process; in the main process's handle, the first thread that is kept for others. */
enum {
  BATON_UV_THREAD = 1,
  BATON_UV_DATA,
  BATON_UV_NAME,
  BATON_UV_TRACE,
  BATON_UV_REASON,
  BATON_UV_NEXT,
  BATON_UV_SITE,
  BATON_UV_SCOPE,
  BATON_UV_COUNT = 8
};

/*
** One process. Lies in its handle (a full userdata). The registry holds the main process's handle.
** Each handle of a living process holds the next one's (BATON_UV_NEXT). The VM lock guards it. `vm`
** and `global` never change.
*/
struct baton_process {
  const void *seal;                    /* marks our objects (sealed.c); must be first */
  /* its base state; the main one if it was given to another process after the end */
  struct lua_State *L;
  struct baton_lua_vm *vm;
  struct global_State *global;
  struct baton_mark *marks;
  struct baton_resumed *resumed;
  /* the collection that it is in the middle of (see seam/collector.c) */
  struct baton_collection *collection;
  /* its C stack is from `stack_low` to `stack_high`; the guard below it begins at `stack_guard` */
  uintptr_t stack_guard, stack_low, stack_high;
  uint64_t sched_id;             /* 0: the scheduler has forgotten it */
  struct baton_last_account last; /* once the scheduler has forgotten it */
  uint64_t id;                  /* what the program sees */
  struct baton_process *next_live, *previous_live;
  struct baton_use use;         /* the object of its retaken call */
  struct baton_use *uses;       /* what its calls of modules use, the innermost call's first */
  /* its calls into modules that one VM uses at a time, the innermost first (see calls/turns.c) */
  struct baton_turn_taken *turns_taken;
  void *object;                 /* the file that a library function uses (see io/files.c) */
  int (*object_of)(struct lua_State *); /* and the function that noted it */
  void *exceptions[2];          /* the C++ runtime's per-thread globals */
  /* in nanoseconds of its processor time: how long it has held a kill back, as far as that was
     counted; and when that began, if `counts_hold` */
  uint64_t held_for, held_from;
  uint64_t beside_since;        /* when its call was retaken or offloaded, if `retaken` */
  struct baton_ending *ending;  /* how its outcome is reported (see process/links.c) */
  int (*body)(struct lua_State *); /* the main process's */
  int argc;
  char **argv;
  struct baton_process *waiting_for; /* the process that loads a module it waits for in require */
  const char *wanted;           /* and the module */
  int saved_errno;
  int ffi_errno;                /* errno after the last call through the ffi */
  struct ffi_outer_call *ffi_call; /* the innermost call through the ffi in progress */
  unsigned holds;               /* the number of marks that hold a kill back */
  unsigned foreign_states;      /* the number of marks that forbid a switch */
  /* the number of critical sections: they hold kills and interrupts back */
  unsigned criticals;
  struct baton_collected *warning; /* the text of its call of warn so far (console.c) */
  unsigned char errno_kept;     /* C code below may read errno: it is saved across switches */
  unsigned char cooperative;    /* spawned with preemptible = false */
  /* a callback of its foreign call is about to enter the VM above that call's frames */
  unsigned char calls_back;
  unsigned char serves_callback; /* a listener in a callback, for which a foreign thread waits */
  unsigned char keeps_thread;   /* it has frames of the host that must stay on their thread */
  /* foreign frames are on its stack, so it continues only on its thread */
  unsigned char pinned;
  unsigned char gc_stopped;     /* Lua's "collector stopped by finalizer" bit */
  unsigned char killed;
  /* killed a second time while it held the first kill back: nothing is held back any more */
  unsigned char abandoned;
  unsigned char counts_hold;
  unsigned char interrupted;
  /* it waits in os.execute, and holds a kill back until the command ends */
  unsigned char awaits_command;
  unsigned char retaken;        /* its foreign call was retaken and has not returned */
  unsigned char uses_are_cut;   /* an error may have ended calls of `uses` */
  unsigned char is_before_call; /* its topmost frame is a call of a module that waits to begin */
  unsigned char outcome;
  unsigned char quiet, daemon, joined;
  unsigned char has_switch_hooks, has_exit_hook;
  unsigned char is_watched;     /* other processes are notified of its end (see process/links.c) */
  unsigned char is_ending;      /* they are being notified */
  unsigned char killed_by_link;
  unsigned char has_ended;      /* its body has ended; its exit hook may run */
  unsigned char copies;         /* it copies a value for another VM (copying/out.c) */
  unsigned char asks_for_step;  /* the collector's next step is not put off (collector.c) */
  unsigned char shows_thread;   /* the program may know its Lua thread */
  unsigned char has_no_thread;  /* its Lua thread is kept for another process, or has one */
  unsigned char results;        /* then: the number of its results, 0 or 1 */
  /* the prototype of the Lua function that spawned it, which BATON_UV_SITE keeps alive, and the
     instruction; NULL: not known */
  const void *spawn_function;
  int spawn_pc;
  struct baton_scope *scope;    /* it belongs to (process/scope.c); NULL: none */
  /* its neighbours in one of the scope's lists: the next process, and what points at this one */
  struct baton_process *scope_next, **scope_place;
  struct Table *context;        /* data that follows its work (objects/context.c); NULL: none */
  uint64_t deadline;            /* of its work, as baton_now tells time; 0: none */
  struct baton_debugged *debugged; /* what a debugger does with it (debugger/); NULL: nothing */
  unsigned char traced;         /* a debugger steps it, or wants it to stop */
  unsigned char in_debugger;    /* it runs for a debugger: enum baton_in_debugger */
  unsigned char evaluates;      /* and that is an expression */
  unsigned char evaluation_ends; /* which is to end; atomic (debugger/evaluation.c) */
  char name[48];                /* for reports: escaped, and cut to fit (names.c) */
};

#endif
