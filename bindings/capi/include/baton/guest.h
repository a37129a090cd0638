/*
** A guest of the runtime, the life of its VM, and the gate. Include baton.h, which includes this.
**
** A program makes a VM from a table of callbacks, adds its first process, and runs it:
**
**   baton_vm *vm;
**   if (baton_vm_new(&guest, state, &vm) != 0) ...
**   baton_spawn_first(vm, &options, message, sizeof message);
**   baton_vm_run(vm);
**   baton_vm_free(vm);
**
** Results are 0 or a negative errno, unless a function says otherwise.
*/
#ifndef BATON_TABLE_OF_GUEST_H
#define BATON_TABLE_OF_GUEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From where a function may be called; baton.h explains them. */
#define BATON_INSIDE
#define BATON_OUTSIDE
#define BATON_ANY_THREAD
#define BATON_SIGNAL_HANDLER

/* A VM: the processes of one guest. */
typedef struct baton_vm baton_vm;

struct baton_spawn_options;

/* The runtime's version, such as "0.1.0". */
BATON_ANY_THREAD const char *baton_version(void);

/* {======================================================
** The guest
** ======================================================= */

/* What retake_policy answers: may others run while this process's foreign call lasts? */
enum baton_policy {
  BATON_STAY,         /* no: the VM stays with the call */
  BATON_RETAKE,       /* yes, and the process may continue on another native thread */
  BATON_RETAKE_PINNED /* yes, but the process continues on the thread of the call only */
};

/*
** The callbacks. `size` is sizeof(struct baton_guest). All but `run` and `preempt` may be NULL.
** `guest` is the pointer that baton_vm_new was given. `user_data` is that of a process (see
** baton_spawn_options), whose meaning is the guest's. No callback may unwind or jump out.
**
** Each says on which stack it is called. *The loop's* is that of a native thread: 1 MiB for a
** thread of the runtime's, or what the thread has that called baton_vm_run or baton_vm_run_until.
** *A process's* is that of some process: not always of the one that `user_data` names. Leave 16 KiB
** of it for what the callback and the runtime do there. *The watcher's* is that of a thread of the
** runtime's that runs no process, of 128 KiB.
*/
struct baton_guest {
  size_t size;
  /* Runs a process on its own stack, inside, and returns at its end, inside. `process` is its id.
     The native thread may be another one after each call of the runtime: keep no address of a
     thread-local variable. Call baton_safepoint when baton_wants_safepoint says so, and return soon
     once baton_kill_is_due. */
  void (*run)(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data);
  /* Makes the interpreter on this thread call baton_safepoint soon: arm your poll. Called in a
     signal handler, perhaps late, twice or in a foreign call. Only on threads that run this VM. On
     the thread's stack for signals, of 64 KiB. A guest that asks baton_wants_safepoint needs no
     poll of its own, and does nothing here. */
  void (*preempt)(void *guest);
  /* Puts away what the interpreter keeps once, though it belongs to one process, such as a current
     frame, a pending exception or a stack limit; and brings back that of another process:

       static void switched(void *guest, uintptr_t from, uintptr_t to) {
         if (from != 0) save((struct process *)from);
         if (to != 0) load((struct process *)to);
       }

     `from` is the user data of the process whose state the interpreter has. It may be in a foreign
     call on another thread, which has lost the VM: touch nothing of its C stack or its thread. 0:
     there is nothing to put away, as the last process has ended, or its state was put away before.
     `to` is that of the process that runs next, on this thread; 0: none does yet. They differ, or
     both are 0. A process that begins is a `to` first, so its record needs a state to load.

     Inside, on a thread that runs the VM, before anybody else enters. On the stack that is left: a
     process's, or the loop's, and never that of `to`. So no address of a local variable is a limit
     of the stack of `to`: see baton_stack_bounds. What is kept per thread is set here for `to`, and
     forgotten if that is 0, and in `departed`. Part of each switch, so be quick; call no function
     of the runtime. */
  void (*switched)(void *guest, uintptr_t from, uintptr_t to);
  /* Returns an enum baton_policy for the foreign call of a process that lasts. On the watcher's
     stack, while nobody is inside: be brief, and call no function of the runtime. If others may
     run, `switched` puts away the state of the process afterwards. NULL: BATON_RETAKE. */
  int (*retake_policy)(void *guest, uintptr_t user_data);
  /* Has the process, which does not run now, reach a safepoint soon: it was killed. Inside, on the
     stack of the process that kills, or on the loop's; call no function of the runtime. NULL: the
     guest asks baton_kill_is_due after each wait. */
  void (*request_safepoint)(void *guest, uintptr_t user_data);
  /* Reports that no process can ever run again. Inside, on the loop's stack, and no process is
     current: it may wake one, or call baton_stop, but not wait. If it returns, the VM waits on.
     NULL: a message, and the VM ends: baton_vm_run returns -EDEADLK. */
  void (*deadlocked)(void *guest, baton_vm *vm);
  /* Does the work that baton_request_signalled has asked for. Inside, on a process's stack or the
     loop's; must not wait. On the loop's, no process is current. */
  void (*signalled)(void *guest, baton_vm *vm);
  /* Repairs the guest in the child of a fork: only the process of `user_data` lives on. Inside, on
     its stack, with its state brought back; must not wait. */
  void (*forked)(void *guest, baton_vm *vm, uintptr_t user_data);
  /* Warns of a foreign call with BATON_STAY that has kept the VM for longer than warn_blocked. On
     the watcher's stack, or on that of the process if it has just come back in. Call no function of
     the runtime. */
  void (*warn_stalled)(void *guest, uintptr_t user_data);
  /* Forgets what the guest keeps per thread: the process leaves this thread for good, without a
     switch. Others have run beside its call, which has returned; the process continues wherever the
     VM is, or never. So `preempt` must not find it here any more. On the thread of the call and the
     stack of its process, while others run: call no function of the runtime. */
  void (*departed)(void *guest);
  /* A number for what the interpreter keeps once: for the same process it is the same after a
     switch away and back. The address of the current frame is one, or a sum of what `switched`
     exchanges. The debug library compares it, and ends the program with a message if a process does
     not find what it left. Other builds do not call it. Inside, where `switched` is called; call no
     function of the runtime. */
  uint64_t (*fingerprint)(void *guest);
  /* The scheduler hook, while baton_set_scheduler_hook is on: chooses the process that runs next,
     whenever one has yielded, waits, has ended or was preempted. `left` is the user data of that
     process, 0 if it has ended; `suggested` is that of the one which the runtime would choose.
     Returns the id of a process, or 0 for the suggested one. If the chosen one cannot run, the
     runtime chooses. Inside, on the loop's stack, and no process is current: it may call the
     runtime, but not wait. */
  uint64_t (*choose)(void *guest, baton_vm *vm, uintptr_t left, uintptr_t suggested);
  /* The switch hook, of the processes for which baton_set_switch_hook is on: the process of `from`
     was left, and that of `to` will be continued. 0: none. Where and how: as for `choose`. */
  void (*noted)(void *guest, baton_vm *vm, uintptr_t from, uintptr_t to);
};

/* }====================================================== */

/* {======================================================
** The life of a VM
** ======================================================= */

/* Makes a VM and writes it to `vm`. The table is copied. `guest` is handed to its functions.
   -EINVAL: `size` is too small, or `run` or `preempt` is NULL. Otherwise the system's error.

   From then on the program handles SIGSEGV and SIGBUS: a process that has used up its C stack is
   reported with its id and its name, and the program ends. Other faults go to the handlers that
   were there before. */
BATON_ANY_THREAD int baton_vm_new(const struct baton_guest *table, void *guest, baton_vm **vm);
/* Adds a process before the VM runs. By the thread that made the VM, before others know of it.
   Returns its id; 0, and writes at most `size` bytes of a message, if it cannot. A VM that runs
   already ends the program. */
BATON_ANY_THREAD uint64_t baton_spawn_first(
    baton_vm *vm, const struct baton_spawn_options *options, char *message, size_t size);
/* Runs processes on the calling thread, until one has called baton_stop and has ended. -EDEADLK:
   until none could ever run again, and `deadlocked` is NULL. Otherwise nothing has happened:
   -EBUSY: the thread runs a VM already; start a thread. -ESHUTDOWN: the VM has ended. -EINVAL:
   another thread runs it, or baton_vm_run_until has. A VM is run once.

   Processes that have not ended by then never continue. One that is in a foreign call comes back
   from it to nobody: its thread leaves its stack where it is. (In a fork's child, if another thread
   than this one has forked, there is nothing to return to: the program ends with the status 0.) */
BATON_ANY_THREAD int baton_vm_run(baton_vm *vm);
/* Frees a VM that does not run, with the stacks of its processes. -EBUSY: it runs, one of its
   threads is still in a foreign call, or a waker holds it; call again later. Between two calls of
   baton_vm_run_until the VM ends first: it runs no more, even after -EBUSY. A VM is never freed
   after one of its processes has forked. NULL: nothing. */
BATON_ANY_THREAD int baton_vm_free(baton_vm *vm);

/* }====================================================== */

/* {======================================================
** A loop that the program owns: a *host*, such as a toolkit's main loop or a game's frame
**
**   for (;;) {
**     int end = baton_vm_run_until(vm, baton_now() + 2000000);
**     if (end == BATON_STINT_ENDED || end < 0) break;
**     wait for baton_vm_descriptor(vm) to be readable, or for baton_vm_next_deadline(vm), or for
**     whatever else the loop waits for
**   }
** ======================================================= */

/* How baton_vm_run_until ended. */
enum baton_stint {
  BATON_STINT_ENDED,     /* the VM has ended: a process has called baton_stop and has ended, or none
                            is left */
  BATON_STINT_IDLE,      /* nothing is runnable; baton_vm_next_deadline says when something is */
  BATON_STINT_TIME_IS_UP /* processes are runnable, and continue with the next call */
};

/* Runs processes on the calling thread: what is runnable, at most until `deadline`, by the clock of
   baton_now; BATON_NO_DEADLINE: without a limit. With a past deadline, takes in what has happened,
   and runs nothing. Always on the same thread; between two calls no process runs, and the thread
   may run other VMs.

   A process that computes is interrupted at the deadline if `preempt` arms its poll. A foreign call
   on this thread keeps it until the call ends, while other processes run on other threads: call
   baton_offload before calls that last.

   Returns an enum baton_stint. -EDEADLK: the VM has ended, as for baton_vm_run. Otherwise nothing
   has happened: -EBUSY: the thread runs a VM already, this one or another. -EPERM: earlier calls
   were on another thread. -EINVAL: baton_vm_run runs this VM. -ENOTSUP: the run is simulated. */
BATON_ANY_THREAD int baton_vm_run_until(baton_vm *vm, uint64_t deadline);
/* The descriptor that the loop watches, by poll, select or epoll. It is readable when
   baton_vm_run_until has something to do: after a wake by another thread or a signal handler, at
   the end of a foreign call, when a descriptor is ready that a process waits for, while processes
   are runnable; and on Linux at the next deadline. Sometimes it is readable for nothing. It is the
   VM's, and lives as long: do not read it, change it or close it. A signal may end the loop's wait
   early, by the error EINTR: wait again. The signal of `preempt` may come late, between two
   calls. */
BATON_ANY_THREAD int baton_vm_descriptor(const baton_vm *vm);
/* When baton_vm_run_until has something to do next, by the clock of baton_now, as far as is known
   before the descriptor is readable: at the end of the last call, or because of a wake since then.
   0: now. BATON_NO_DEADLINE: only the descriptor will tell. A program that also runs on other
   systems than Linux takes it as the timeout of its loop's wait. */
BATON_ANY_THREAD uint64_t baton_vm_next_deadline(const baton_vm *vm);

/* }====================================================== */

/* {======================================================
** Simulated runs: the same seed gives the same run
**
** Random numbers from the seed decide which of several equals runs next, and when a process is
** preempted. So each seed is another possible run, and the seed of one that fails repeats it:
**
**   baton_vm_new(&guest, state, &vm);
**   baton_vm_simulate(vm, seed);
**   baton_spawn_first(...), baton_vm_run(vm), baton_vm_free(vm); and so on, with the next seed
**
** Time is virtual: a step of the guest takes a microsecond, and if no process can run, the clock
** jumps to the next deadline. A foreign call takes no time, and no other process runs beside it.
**
** What comes from outside comes when it comes: a descriptor that is ready, a signal, a waker in a
** thread of the program's own. A run repeats itself only without these, and if the guest does the
** same by itself: its hashes, its random numbers, the order of what it sorts by address.
** ======================================================= */

/* Makes the run of a VM a simulated one, before its first process and before other VMs run. From
   then on, baton_now is the virtual clock for the whole program, so all VMs that it runs later are
   simulated, too. -EBUSY: there is another simulated VM, which was not freed. -EINVAL: it is
   simulated already, has a process, or runs. */
BATON_ANY_THREAD int baton_vm_simulate(baton_vm *vm, uint64_t seed);
/* How many steps the running process has made since the last call, such as instructions of the
   guest's machine. Writes how many to make until the next call, at least 1. Returns whether the
   process calls baton_safepoint now: this is how it is preempted in a simulated run. In other runs,
   there is nothing to count: 0, and UINT32_MAX steps. */
BATON_INSIDE int baton_count_steps(const baton_vm *vm, uint32_t steps, uint32_t *until_next);
/* A number below `count`, which is at least 1: for what the guest decides by chance. In a simulated
   run the seed decides, and the number is a part of the schedule. */
BATON_INSIDE uint32_t baton_choose(const baton_vm *vm, uint32_t count);

/*
** A schedule is what was decided in a run, as text. `p2@57=3` says that process 2 is preempted at
** its step 57, and that process 3 runs next. `o` is for the next process after a wait, a yield or
** an end, `s` for a baton_select or baton_choose. The first process has the number 1, and the
** others follow as they are spawned. A second decision at the same step has a number: `o2@57.1=3`.
** Commas separate decisions.
**
** What a schedule does not decide is decided plainly: the process runs on, the one that has waited
** longest is next, the first case is ready, the number is 0. So a schedule can be made shorter, as
** long as the run still fails, until it has only what matters.
*/

/* Has a simulated run write its schedule down. Before the first process. The guest then counts
   each single step. -EINVAL: the run is not simulated, or has a process. Otherwise the system's
   error. */
BATON_ANY_THREAD int baton_vm_record(baton_vm *vm);
/* Has a simulated run follow a schedule, and write down what of it made a difference. Before the
   first process. With the whole schedule of a recorded run, and its seed, it is the same run again.
   An empty text is a run in plain order. The same errors, with a message; -EINVAL also says that a
   decision is written wrongly. */
BATON_ANY_THREAD int baton_vm_replay(
    baton_vm *vm, const char *schedule, char *message, size_t size);
/* Writes the schedule of a run that has ended, cut to fit, and ended by a zero byte. Returns its
   length, without that byte. -EINVAL: the run is not recorded. -E2BIG: it has more than 131,072
   decisions. Before the VM is freed. A process may call it, too, for its run so far. */
BATON_ANY_THREAD int64_t baton_vm_schedule(const baton_vm *vm, char *text, size_t size);

/* }====================================================== */

/* {======================================================
** The gate
** ======================================================= */

/* Before a foreign call: lets others run if the call lasts. Touch nothing of the guest's until
   baton_enter. In debug builds of the library, a second baton_leave ends the program. */
BATON_INSIDE void baton_leave(const baton_vm *vm);
/* After it: returns inside, perhaps on another thread. In debug builds of the library, a second
   baton_enter, or one by a thread that runs no process, ends the program. */
BATON_OUTSIDE void baton_enter(const baton_vm *vm);
/* Whether the runtime asks the running process for baton_safepoint. Cheap. */
BATON_INSIDE int baton_wants_safepoint(const baton_vm *vm);

/* baton/inline.h has these three as a few instructions. What follows is for it. */

/* From outside; returns inside, perhaps on another thread. The slow half of baton_enter. */
BATON_OUTSIDE void baton_enter_cold(const baton_vm *vm);
/* A baton_enter (`enters`) from inside, or a baton_leave from outside. In debug builds of the
   library it ends the program with a message. Otherwise it does nothing. */
BATON_ANY_THREAD void baton_gate_mistaken(const baton_vm *vm, int enters);

/* }====================================================== */

/* {======================================================
** The calling process
** ======================================================= */

/* Its id. 0: none is current, as in `deadlocked`. */
BATON_INSIDE uint64_t baton_self(const baton_vm *vm);
/* The user data of a process. 0: it is gone. */
BATON_INSIDE uintptr_t baton_user_data(const baton_vm *vm, uint64_t process);
/* Whether the process was killed, and must end now. */
BATON_INSIDE int baton_kill_is_due(const baton_vm *vm, uint64_t process);

/* }====================================================== */

/* {======================================================
** Wakers
** ======================================================= */

/* Wakes a suspended process, or signals a semaphore, from outside. It keeps its VM. */
struct baton_waker;
/* One that resumes a process. NULL: the id is 0. */
BATON_INSIDE struct baton_waker *baton_waker_resume(const baton_vm *vm, uint64_t process);
/* One that signals a semaphore, once for each wake. NULL: the id is 0. */
BATON_INSIDE struct baton_waker *baton_waker_signal(const baton_vm *vm, uint64_t semaphore);
/* Wakes, soon. Neither allocates nor locks; keeps errno. */
BATON_SIGNAL_HANDLER void baton_waker_wake(const struct baton_waker *waker);
/* Not in a signal handler, nor while one may still wake by it. NULL: nothing. */
BATON_ANY_THREAD void baton_waker_free(struct baton_waker *waker);

/* }====================================================== */

#include "inline.h"

#ifdef __cplusplus
}
#endif

#endif
