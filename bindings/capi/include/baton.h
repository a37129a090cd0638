/*
** The runtime for an interpreter that is written in C, the *guest*.
**
** baton/guest.h has what such a guest gives to the runtime, and a VM's life. baton/shared.h has
** what several VMs share. This file has the rest, and includes both.
**
** Processes and objects are named by the scheduler's ids, which are never 0. Times are in
** nanoseconds.
**
** These parameters mean the same everywhere:
**
**   vm              the VM that the caller is in, or that the function is about
**   process         the id of a process. If it has ended, or if it is no id, a function does
**                   nothing, and returns 0 or what it says
**   id              the id of an object, as its function `new` returned it
**   user_data       the guest's own word for a process; not 0, which stands for none
**   timeout         how long to wait at most: see baton_timeout
**   deadline        until when, by the clock of baton_now; BATON_NO_DEADLINE: without a limit
**   text, message, name, with size
**                   where a text is written: cut to `size` bytes, ended by a zero byte
**   on, holds, is_... , and results that say whether
**                   0: no; otherwise yes
**
** A wait says by its baton_reason how it has ended. All waits end with BATON_KILLED when the
** process is killed, and are refused with BATON_FORBIDDEN in a critical section.
**
** A tag before each function says from where it may be called:
**
**   BATON_INSIDE      by a thread that is inside the VM: it runs a process that is not between
**                     baton_leave and baton_enter; on a process's stack unless the function says
**                     otherwise
**   BATON_OUTSIDE     by a process on its own stack that is outside the VM, in a foreign call
**   BATON_ANY_THREAD  by any thread, inside or outside
**   BATON_SIGNAL_HANDLER  by any thread, and by signal handlers as well
*/
#ifndef BATON_H
#define BATON_H

#include <stddef.h>
#include <stdint.h>

#include "baton/guest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* {======================================================
** Waits
** ======================================================= */

/* Why a wait ended: `WakeReason` of the scheduler. */
enum baton_reason {
  BATON_DONE,        /* what was waited for has happened */
  BATON_TIMED_OUT,   /* the time was up before */
  BATON_CLOSED,      /* the channel is closed, or the object was freed or never was */
  BATON_GONE,        /* nothing can end this wait: a process joins itself, or none is current */
  BATON_ABANDONED,   /* the lock is the caller's; its last owner has ended with it */
  BATON_KILLED,      /* the process was killed, and must end: see baton_kill_is_due */
  BATON_INTERRUPTED, /* by baton_interrupt */
  BATON_MISUSE,      /* the call was refused: a recursive lock, or a lock of another process */
  BATON_FORBIDDEN    /* the process is in a critical section and would have to wait */
};

/* How a wait has ended. */
struct baton_wake {
  uint32_t reason;     /* an enum baton_reason */
  uint32_t case_index; /* of a select: which case, from 0 */
  uint64_t value;      /* what was received; otherwise 0 unless a function says it */
};

/* A relative time. Negative: no limit. Zero: do not wait. */
typedef int64_t baton_timeout;
/* Without a limit. */
#define BATON_FOREVER ((baton_timeout)-1)

/* An absolute time that never comes. */
#define BATON_NO_DEADLINE UINT64_MAX

/* The monotonic clock. In a simulated run, the simulated one. */
BATON_ANY_THREAD uint64_t baton_now(void);
/* Sleeps. BATON_DONE: the time has come. */
BATON_INSIDE struct baton_wake baton_sleep_until(const baton_vm *vm, uint64_t deadline);
/* Moves all deadlines and timers into the future, as if the time had stood still so long. */
BATON_INSIDE void baton_postpone(const baton_vm *vm, uint64_t nanoseconds);

/* }====================================================== */

/* {======================================================
** Processes
** ======================================================= */

/* What a process does. */
enum baton_state {
  BATON_STATE_RUNNING,   /* it is the current one, inside or in a call that has the VM */
  BATON_STATE_RUNNABLE,  /* it runs when its turn comes */
  BATON_STATE_WAITING,   /* for an object, a descriptor, the end of another one */
  BATON_STATE_SLEEPING,  /* until a time */
  BATON_STATE_SUSPENDED, /* until somebody resumes it */
  BATON_STATE_FOREIGN,   /* in a foreign call, and others run beside it */
  BATON_STATE_DEAD       /* it has ended, or there is no such process */
};

/* Sizes of texts, in bytes. The last three include the zero at the end. */
#define BATON_THREAD_NAME 63  /* the longest name of a thread */
#define BATON_PROCESS_NAME 63 /* the longest name of a process */
#define BATON_BLOCKER 1024    /* what a process waits for */
#define BATON_OBJECT_NAME 100 /* the name of an object, escaped */
#define BATON_MESSAGE 240     /* a message of the runtime */

/* What a new process is like. A member that is not set is zero; most guests set `size`, `user_data`
   and `preemptible`. */
struct baton_spawn_options {
  size_t size;         /* sizeof(struct baton_spawn_options) */
  uintptr_t user_data; /* the guest's record of the process; not 0 */
  size_t stack_size;   /* bytes of its C stack; 0: the parameter stack_size, 1 MiB unless set */
  int priority;        /* 1 to 80, higher is more urgent; 0: the calling process's */
  int preemptible;     /* it gives way at safepoints; otherwise only at its waits and yields */
  int daemon;          /* baton_wait_for_rest does not wait for it */
  int quiet;           /* the guest's own: not to report its error. The runtime ignores it */
  int suspended;       /* it begins when baton_resume is called for it */
  char thread[BATON_THREAD_NAME + 1]; /* the thread that it is bound to; empty: none */
  int by_timer;     /* it is *prepared*: it begins when a timer fires it (baton_timer_new) */
  const char *name; /* for reports; copied, cut to BATON_PROCESS_NAME bytes; NULL: none */
  int decay;        /* a whole slice makes it a level less urgent, until it waits */
};

/* Makes a process. Returns its id. 0, and writes a message, if there cannot be another one. */
BATON_INSIDE uint64_t baton_spawn(
    const baton_vm *vm, const struct baton_spawn_options *options, char *message, size_t size);

/* The time that a process has used: of its runs, and of a processor, in its runs and in calls
   beside which others run. */
struct baton_time_used {
  double running, cpu; /* seconds */
};

/* What the scheduler knew of a process at its end. */
struct baton_last_account {
  struct baton_time_used time;
  int priority;
};
/* The last call of the running process: it has ended, and `run` is about to return. The runtime
   forgets the process then. Its id is stale: a join of it returns at once, a kill does nothing. */
BATON_INSIDE struct baton_last_account baton_end(const baton_vm *vm);
/* Forgets a process that has ended without baton_end, or never begins. Until then the runtime keeps
   what baton_user_data and baton_time_used say. */
BATON_INSIDE void baton_forget(const baton_vm *vm, uint64_t process);
/* Ends a process that has not run yet. Returns 0 if it has. */
BATON_INSIDE int baton_end_unstarted(const baton_vm *vm, uint64_t process);

/* Lets the other processes of the same priority run first, each once. */
BATON_INSIDE void baton_yield(const baton_vm *vm);
/* As baton_yield, but `process` is the next one. If it cannot run, or another one is more urgent,
   this is baton_yield. */
BATON_INSIDE void baton_yield_to(const baton_vm *vm, uint64_t process);
/* Lets a more urgent process run, if there is one. */
BATON_INSIDE void baton_give_way(const baton_vm *vm);
/* Gives back the memory of free C stacks, except of a few hundred: for a full collection. */
BATON_INSIDE void baton_trim_stacks(const baton_vm *vm);
/* Gives back the address space of free C stacks, except of a few: for a guest that finds no memory.
   Returns how many bytes that is. */
BATON_INSIDE size_t baton_unmap_stacks(const baton_vm *vm);
/* Lets others run if the runtime wants that. Call it soon after baton_wants_safepoint says so, or
   after `preempt` was called: a guest may go by either. Others may have run when it returns, and
   the process may have been killed. */
BATON_INSIDE void baton_safepoint(const baton_vm *vm);
/* A safepoint in the middle of a foreign function: others run on other threads meanwhile. */
BATON_INSIDE void baton_safepoint_in_call(const baton_vm *vm);
/* Makes the calling process give way to its equals once, at its next safepoint, before a long piece
   of work that nothing can interrupt. It keeps the rest of its slice. */
BATON_INSIDE void baton_step_aside(const baton_vm *vm);
/* For traces: the calling process begins to collect garbage (`begins`), or ends that. */
BATON_INSIDE void baton_trace_garbage(const baton_vm *vm, int begins);

/* Begins a critical section of the calling process: no other process runs until its end. Sections
   nest. Waits in one are refused with BATON_FORBIDDEN, also baton_sleep_until: look at the reason,
   and report an error. A foreign call in one keeps the VM. */
BATON_INSIDE void baton_enter_critical(const baton_vm *vm);
/* Ends the section. It lets nobody run; baton_give_way does. */
BATON_INSIDE void baton_leave_critical(const baton_vm *vm);

/* Waits for the end of a process. BATON_DONE: it has ended, or the id is stale, or none.
   BATON_TIMED_OUT: not yet. BATON_GONE: it is the calling process, which would wait for ever.
   (As a case of baton_select, the calling process is a BATON_MISUSE.) What the process has
   computed is in the guest's record of it. */
BATON_INSIDE struct baton_wake baton_join(
    const baton_vm *vm, uint64_t process, baton_timeout timeout);
/* How many processes wait for the end of this one. */
BATON_INSIDE int baton_joiners(const baton_vm *vm, uint64_t process);
/* Wakes the processes that wait for the end of this one, before that end. */
BATON_INSIDE void baton_release_joiners(const baton_vm *vm, uint64_t process);
/* Waits until all other processes that are no daemons have ended. */
BATON_INSIDE struct baton_wake baton_wait_for_rest(const baton_vm *vm, baton_timeout timeout);

/* Suspends a process, which may be the calling one: it does not run until somebody resumes it.
   Returns 0 if that is done, or was before; 1 if the process is dead; 2 if it is the calling one,
   and was killed, and must end now. */
BATON_INSIDE int baton_suspend(const baton_vm *vm, uint64_t process);
/* Ends the suspension of a process. Returns 0 if that is done, or if it was not suspended: a resume
   that comes too early is lost. 1: the process is dead. */
BATON_INSIDE int baton_resume(const baton_vm *vm, uint64_t process);
/* Requests the end of a process: see baton_kill_is_due. A process that has not begun begins, and
   finds it due. Returns 0 if it is done, 1 if the process is dead, and 2 if it is the calling
   one. */
BATON_INSIDE int baton_kill(const baton_vm *vm, uint64_t process);
/* Says whether kills of the process are put off: as long as it `holds`, none is due. */
BATON_INSIDE void baton_set_kill_hold(const baton_vm *vm, uint64_t process, int holds);
/* Asks a process for a safepoint at this time, once, in place of an earlier request.
   BATON_NO_DEADLINE: not any more. For a guest that limits how long a kill is held back. */
BATON_INSIDE void baton_request_safepoint_at(const baton_vm *vm, uint64_t process, uint64_t due);
/* Takes back a kill that the process has not seen. */
BATON_INSIDE void baton_withdraw_kill(const baton_vm *vm, uint64_t process);
/* Ends the process's wait with BATON_INTERRUPTED. Returns 0 if it does not wait. */
BATON_INSIDE int baton_interrupt(const baton_vm *vm, uint64_t process);

/* The priority of a process, from 1 to 80. */
BATON_INSIDE int baton_priority(const baton_vm *vm, uint64_t process);
/* Changes it. Another process may run at once. What is out of range changes nothing. */
BATON_INSIDE void baton_set_priority(const baton_vm *vm, uint64_t process, int priority);
/* Replaces the guest's record of a process. `switched` and all others get the new one from now on.
   */
BATON_INSIDE void baton_set_user_data(const baton_vm *vm, uint64_t process, uintptr_t user_data);
/* Writes the name that the process was spawned with, or nothing. */
BATON_INSIDE void baton_process_name(
    const baton_vm *vm, uint64_t process, char *name, size_t size);
/* An enum baton_state. */
BATON_INSIDE int baton_state(const baton_vm *vm, uint64_t process);
/* How long a process runs before its equals have their turn. 0: the parameter `slice` says it. */
BATON_INSIDE uint64_t baton_slice(const baton_vm *vm, uint64_t process);
/* Changes it. */
BATON_INSIDE void baton_set_slice(const baton_vm *vm, uint64_t process, uint64_t nanoseconds);

/* The time that a process has used so far. */
BATON_INSIDE struct baton_time_used baton_time_used(const baton_vm *vm, uint64_t process);
/* Writes where the C stack of a living process lies. It grows downwards, from `high`, the end of
   its highest byte, to `low`, its lowest byte. From `guard` up to `low` no byte can be accessed: a
   process that gets there ends the program, with a message. (A function whose frame is larger than
   the guard, 64 KiB, may pass over it: compile with -fstack-clash-protection.)

   A guest that limits the depth of its calls sets the limit above `low`. It leaves 16 KiB below the
   limit for the runtime, and more for what its own C code and its foreign calls use there. Signal
   handlers of the runtime have a stack of their own. Those of the program need room here, too,
   unless they are installed with SA_ONSTACK. */
BATON_INSIDE void baton_stack_bounds(
    const baton_vm *vm, uint64_t process, uintptr_t *guard, uintptr_t *low, uintptr_t *high);
/* Where the stack of a process ends: its registers and frames are between this address and the
   higher one of baton_stack_bounds. For a collector that scans stacks. 0: it is the running one or
   in a foreign call, has not begun, or has ended. */
BATON_INSIDE uintptr_t baton_stack_pointer(const baton_vm *vm, uint64_t process);
/* The most bytes of its stack that a process has used. */
BATON_INSIDE size_t baton_stack_used(const baton_vm *vm, uint64_t process);
/* Writes what the process waits for, or nothing: "for the mutex 'accounts', held by process
   4294967297 'clerk'". Processes are named by their ids and the names of their spawn options, and
   objects by baton_set_object_name. */
BATON_INSIDE void baton_blocker(const baton_vm *vm, uint64_t process, char *text, size_t size);
/* Writes the user data of all living processes, as far as there is room. Returns how many live. */
BATON_INSIDE size_t baton_list(const baton_vm *vm, uintptr_t *user_data, size_t capacity);

/* Says whether the guest's `choose` is called for each choice. */
BATON_INSIDE void baton_set_scheduler_hook(const baton_vm *vm, int on);
/* Says whether the guest's `noted` is called when the process is left and continued. */
BATON_INSIDE void baton_set_switch_hook(const baton_vm *vm, uint64_t process, int on);

/* }====================================================== */

/* {======================================================
** Foreign calls and native threads
** ======================================================= */

/* As baton_enter_cold, but returns on the same thread: for a callback in the middle of a foreign
   call. */
BATON_OUTSIDE void baton_enter_cold_pinned(const baton_vm *vm);

/* What became of baton_offload. */
enum baton_offload {
  BATON_OFFLOADED, /* the process is on another thread, and outside */
  BATON_STAYS,     /* it cannot leave this thread */
  BATON_NO_THREAD  /* there is no thread to spare */
};
/* Takes the calling process to another thread for a foreign call that is known to be long. */
BATON_INSIDE int baton_offload(const baton_vm *vm);
/* Says whether others may run beside foreign calls. 0: the VM stays with each call, as with
   BATON_STAY. It holds for all processes, from the next call on. */
BATON_INSIDE void baton_set_retaking(const baton_vm *vm, int on);
/* Whether others run beside the present call, or are about to. If not, those that run beside it
   later see all that this thread has written before it asked. */
BATON_OUTSIDE int baton_is_revoked(const baton_vm *vm);
/* The age at which a foreign call may lose the VM. */
BATON_ANY_THREAD uint64_t baton_window(const baton_vm *vm);
/* The parameter warn_blocked. */
BATON_ANY_THREAD uint64_t baton_warn_blocked(const baton_vm *vm);
/* Before a call that may block: waits until the call would leave a thread for the others. */
BATON_INSIDE struct baton_wake baton_wait_for_thread(const baton_vm *vm);
/* How many threads there may be, not counting those with names. */
BATON_ANY_THREAD size_t baton_threads_for_calls(const baton_vm *vm);
/* How many threads there are. */
BATON_INSIDE int baton_threads(const baton_vm *vm);
/* The number of the calling process's thread. Writes its name, or nothing. */
BATON_INSIDE int baton_thread(const baton_vm *vm, char *name, size_t size);
/* Binds a process to the thread of this name. NULL: to none. Writes a message if there cannot be
   such a thread. */
BATON_INSIDE void baton_bind(
    const baton_vm *vm, uint64_t process, const char *name, char *message, size_t size);
/* Writes the name of the thread that the process is bound to, or nothing. */
BATON_INSIDE void baton_bound_to(const baton_vm *vm, uint64_t process, char *name, size_t size);
/* Says whether the process can continue on the calling thread only: it has frames of foreign C code
   on its stack. While it waits, no other process runs on that thread. To be called at the latest
   when the process is left (`switched`). */
BATON_INSIDE void baton_set_pinned(const baton_vm *vm, uint64_t process, int pinned);
/* Ends the VM. The calling process runs on until it ends. baton_vm_run returns then, but not while
   its thread is in a foreign call of another process. To end the program at once, call exit. */
BATON_INSIDE void baton_stop(const baton_vm *vm);

/* Asks the guest's `signalled` to be called inside the VM soon. */
BATON_SIGNAL_HANDLER void baton_request_signalled(const baton_vm *vm);
/* Resumes the process (0: none) and wakes one waiter of the queue soon. */
BATON_ANY_THREAD void baton_wake_from_outside(const baton_vm *vm, uint64_t process, uint64_t queue);
/* Signals the semaphore once, soon. */
BATON_ANY_THREAD void baton_signal_from_outside(const baton_vm *vm, uint64_t semaphore);

/* Starts a detached native thread of this name, which calls `run` with `argument`, that no process
   runs on and that receives no signals. Signals go to the threads that run processes. Returns 0 if
   the system refuses it. */
BATON_ANY_THREAD int baton_start_helper(const char *name, void (*run)(void *), void *argument);
/* How many forks are between this program and the one that was started, from the first VM on. What
   was made at another number belongs to the program that was forked: its threads are not here, and
   its mutexes may be locked. */
BATON_ANY_THREAD uint32_t baton_forks(void);

/* }====================================================== */

/* {======================================================
** Signals
** ======================================================= */

/* The number of signals: from 1 to this. */
#define BATON_SIGNALS 64

/* Notes that a signal has arrived. A handler does so, and then requests a safepoint. */
BATON_SIGNAL_HANDLER void baton_note_signal(int signal);
/* Forgets all signals that have arrived. In a fork's child they were for the parent. */
BATON_SIGNAL_HANDLER void baton_forget_signals(void);
/* Takes the signals that have arrived, the earliest first, each once. Returns their number. */
BATON_INSIDE size_t baton_take_signals(int *list);

/* `info` is a siginfo_t. */
typedef void (*baton_signal_handler)(int signal, const void *info, const void *context);

/* Has `handler` called for a signal, until baton_unwatch_signal has been called as often. It is
   always the same handler. Returns 0, or the system's error. */
BATON_INSIDE int baton_watch_signal(int signal, baton_signal_handler handler);
/* Ends one baton_watch_signal. After the last one, the action of before is in force again. */
BATON_INSIDE void baton_unwatch_signal(int signal);
/* Sets the action of a signal for the time when nobody watches it. NULL: the default action. By the
   VM's owner, inside or outside. */
BATON_INSIDE void baton_set_signal_action(int signal, baton_signal_handler handler);

/* The number of a signal by its name without "SIG". 0: it is unknown. -1: it cannot be caught. */
BATON_ANY_THREAD int baton_signal_number(const char *name);

/* }====================================================== */

/* {======================================================
** Memory
** ======================================================= */

/* Atomic. Not 0: ask baton_replenish before anything is made. */
extern uint32_t baton_memory_is_short;
/* Whether the runtime has its reserve of memory, or has it again. */
BATON_ANY_THREAD int baton_replenish(void);
/* Whether there is at least the smallest reserve, or is again. */
BATON_ANY_THREAD int baton_hold_least(void);
/* Whether this many bytes more could be had. */
BATON_ANY_THREAD int baton_has_room(size_t size);
/* Whether there is memory for one more object or process, and for one more value in the channel
   (0: none). */
BATON_INSIDE int baton_replenish_for_object(const baton_vm *vm, uint64_t channel);

/* }====================================================== */

/* {======================================================
** Objects that processes wait for
** ======================================================= */

/* The kinds of objects. */
enum baton_object {
  BATON_SEMAPHORE,
  BATON_MUTEX,
  BATON_CONDITION,
  BATON_EVENT,
  BATON_CHANNEL,
  BATON_QUEUE,
  BATON_TIMER,
  BATON_RWLOCK,
  BATON_BARRIER,
  BATON_ALARM
};

/* Frees an object; `kind` is its enum baton_object. Those who wait for it are woken with
   BATON_CLOSED. The values in a channel are forgotten: receive them before if they own something.
   */
BATON_INSIDE void baton_free(const baton_vm *vm, int kind, uint64_t id);
/* Names an object, for reports. An empty name takes the name away. */
BATON_INSIDE void baton_set_object_name(const baton_vm *vm, int kind, uint64_t id,
    const char *name);
/* Writes the name of an object, or nothing. */
BATON_INSIDE void baton_object_name(
    const baton_vm *vm, int kind, uint64_t id, char *name, size_t size);
/* Checks whether the calling process would close a cycle of locks by waiting for this one without a
   limit, and writes the cycle. Returns 0 if not, 1 if a warning is due, and 2 if an error is. */
BATON_INSIDE int baton_closes_cycle(
    const baton_vm *vm, int kind, uint64_t id, char *text, size_t size);

/* A semaphore with this count at first. */
BATON_INSIDE uint64_t baton_semaphore_new(const baton_vm *vm, uint64_t count);
/* Waits until the count is above 0, and takes 1 away. */
BATON_INSIDE struct baton_wake baton_semaphore_wait(
    const baton_vm *vm, uint64_t id, baton_timeout timeout);
/* Adds `n` to the count. Returns 0, and does nothing, if that would exceed INT64_MAX. */
BATON_INSIDE int baton_semaphore_signal(const baton_vm *vm, uint64_t id, uint64_t n);
/* The present count. */
BATON_INSIDE uint64_t baton_semaphore_count(const baton_vm *vm, uint64_t id);

/* A mutex. Its holder inherits the priority of the most urgent process that waits for it. */
BATON_INSIDE uint64_t baton_mutex_new(const baton_vm *vm);
/* Locks it. BATON_ABANDONED: it is locked, but its last holder has ended with it. BATON_MISUSE: the
   calling process holds it already. */
BATON_INSIDE struct baton_wake baton_mutex_lock(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);
/* Unlocks it. Returns 0; 1 if the calling process does not hold it. */
BATON_INSIDE int baton_mutex_unlock(const baton_vm *vm, uint64_t id);
/* As an unlock, by a process that was killed after it got the mutex, and has not used it. Nonzero
   `is_abandoned`: it got the mutex with BATON_ABANDONED, and so does the next process. */
BATON_INSIDE void baton_mutex_give_back(const baton_vm *vm, uint64_t id, int is_abandoned);

/* A lock for several readers or one writer. */
BATON_INSIDE uint64_t baton_rwlock_new(const baton_vm *vm);
/* Locks it to read, or to write (`writes`). The reasons are those of baton_mutex_lock. */
BATON_INSIDE struct baton_wake baton_rwlock_lock(
    const baton_vm *vm, uint64_t id, int writes, baton_timeout timeout);
/* Unlocks it. Returns 0; 1 if the calling process does not hold it. */
BATON_INSIDE int baton_rwlock_unlock(const baton_vm *vm, uint64_t id);
/* As baton_mutex_give_back. */
BATON_INSIDE void baton_rwlock_give_back(const baton_vm *vm, uint64_t id, int is_abandoned);

/* A condition. */
BATON_INSIDE uint64_t baton_condition_new(const baton_vm *vm);
/* Unlocks `mutex`, waits for a signal, and locks the mutex again, whatever the reason is. The value
   is 1 if the mutex's last holder has ended with it. BATON_MISUSE: the calling process does not
   hold the mutex. BATON_CLOSED: the mutex was freed, and is not locked. */
BATON_INSIDE struct baton_wake baton_condition_wait(
    const baton_vm *vm, uint64_t id, uint64_t mutex, baton_timeout timeout);
/* Wakes the process that has waited longest, or `all`. Returns how many it has woken. A process
   that is killed after its signal, and before it holds the mutex again, passes the signal on. One
   whose wait ended with BATON_DONE, and that cannot use the signal, signals again. */
BATON_INSIDE int baton_condition_signal(const baton_vm *vm, uint64_t id, int all);
/* Says where the program has signalled a condition when that last woke nobody, for reports: a place
   such as "file:12". */
BATON_INSIDE void baton_condition_set_place(const baton_vm *vm, uint64_t id, const char *place);

/* An event, which is not set. */
BATON_INSIDE uint64_t baton_event_new(const baton_vm *vm);
/* Waits until it is set. It stays set. */
BATON_INSIDE struct baton_wake baton_event_wait(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);
/* Sets it (`on`), which wakes all that wait, or clears it. */
BATON_INSIDE void baton_event_set(const baton_vm *vm, uint64_t id, int on);
/* Whether it is set. */
BATON_INSIDE int baton_event_is_set(const baton_vm *vm, uint64_t id);

/* A barrier for `size` processes. */
BATON_INSIDE uint64_t baton_barrier_new(const baton_vm *vm, uint64_t size);
/* Waits until that many processes wait. The value is 1 for the process that came last. */
BATON_INSIDE struct baton_wake baton_barrier_wait(
    const baton_vm *vm, uint64_t id, baton_timeout timeout);

/* A queue of waiting processes, without a state of its own. */
BATON_INSIDE uint64_t baton_queue_new(const baton_vm *vm);
/* Waits for a wake-up. One that came before is lost. */
BATON_INSIDE struct baton_wake baton_queue_wait(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);
/* Wakes all that wait. */
BATON_INSIDE void baton_queue_wake_all(const baton_vm *vm, uint64_t id);

/* A channel of words with a buffer for `capacity` of them. 0: a sender waits for its receiver. What
   a word means is the guest's, also who frees what it stands for. */
BATON_INSIDE uint64_t baton_channel_new(const baton_vm *vm, uint64_t capacity);
/* Sends a word. BATON_CLOSED: the channel was closed, and the word is still the caller's, as with
   each reason but BATON_DONE. */
BATON_INSIDE struct baton_wake baton_channel_send(
    const baton_vm *vm, uint64_t id, uint64_t value, baton_timeout timeout);
/* Receives a word, which is the value. BATON_CLOSED: the channel was closed, and its buffer is
   empty. */
BATON_INSIDE struct baton_wake baton_channel_receive(
    const baton_vm *vm, uint64_t id, baton_timeout timeout);
/* Closes it: senders are refused, and receivers get what is in the buffer. */
BATON_INSIDE void baton_channel_close(const baton_vm *vm, uint64_t id);
/* Forgets what is in the buffer. */
BATON_INSIDE void baton_channel_clear(const baton_vm *vm, uint64_t id);
/* How many words are in the buffer. */
BATON_INSIDE uint64_t baton_channel_length(const baton_vm *vm, uint64_t id);
/* Gives back a value that was received last. It is the next one again. */
BATON_INSIDE void baton_channel_give_back(const baton_vm *vm, uint64_t id, uint64_t value);
/* Gives a value to a channel without waiting, beyond its capacity if need be. Returns 0 if it is
   closed. */
BATON_INSIDE int baton_channel_post(const baton_vm *vm, uint64_t id, uint64_t value);
/* The same, unless such a value is in its buffer already. */
BATON_INSIDE void baton_channel_post_once(const baton_vm *vm, uint64_t id, uint64_t value);
/* Says whether values come from outside of the program, so that a wait for one is no deadlock. */
BATON_INSIDE void baton_channel_set_fed(const baton_vm *vm, uint64_t id, int is_fed);

/* A turn: at most one VM has it. `name` is what it is for, in reports. It is never freed. */
struct baton_turn;
/* Makes one. */
BATON_ANY_THREAD const struct baton_turn *baton_turn_new(const char *name);
/* Takes it, if no VM has it. Returns whether it did. */
BATON_ANY_THREAD int baton_turn_try(const struct baton_turn *turn);
/* Waits for it. Returns a baton_reason: the calling process has it if that is BATON_DONE. */
BATON_INSIDE uint32_t baton_turn_take(
    const baton_vm *vm, const struct baton_turn *turn, baton_timeout timeout);
/* In a simulated run, a pause for a thread that calls baton_turn_try again and again: time passes,
   and other VMs go on. */
BATON_INSIDE void baton_turn_pause(const baton_vm *vm, uint64_t nanoseconds);
/* Gives it to the next one. By whoever has it. */
BATON_ANY_THREAD void baton_turn_give(const struct baton_turn *turn);

/* What a case of a select waits for: what the function of that name waits for. */
enum baton_case_kind {
  BATON_CASE_RECEIVE,
  BATON_CASE_SEND,
  BATON_CASE_JOIN,
  BATON_CASE_EVENT,
  BATON_CASE_SEMAPHORE,
  BATON_CASE_MUTEX,
  BATON_CASE_ALARM,
  BATON_CASE_DESCRIPTOR,
  BATON_CASE_CLOSED, /* ready, as the case of a closed channel is */
  BATON_CASE_READY,  /* ready at once */
  BATON_CASE_SHARED_RECEIVE, /* of a channel that several VMs share */
  BATON_CASE_SHARED_SEND
};

/* One case of a select. */
struct baton_case {
  int kind;       /* an enum baton_case_kind */
  uint32_t wants; /* of a descriptor: BATON_WANTS_READ, ... */
  uint64_t id;    /* the object's; a descriptor's number; a pointer to a shared channel */
  uint64_t value; /* to send; a pointer to a shared channel's message */
};
/* Waits for the first of `count` cases; `case_index` says which. Writes a message and returns
   BATON_TIMED_OUT if a case cannot be waited for. BATON_MISUSE: the calling process holds that
   mutex, or is that process. The messages for shared channels are the caller's no longer, sent or
   not. A received one is the result's value. */
BATON_INSIDE struct baton_wake baton_select(const baton_vm *vm, const struct baton_case *cases,
    size_t count, baton_timeout timeout, char *message, size_t size);

/* }====================================================== */

/* Objects that several VMs share. */
#include "baton/shared.h"

/* {======================================================
** Descriptors
** ======================================================= */

/* What a descriptor is to be ready for, as bits. */
enum { BATON_WANTS_READ = 1, BATON_WANTS_WRITE = 2, BATON_WANTS_PRIORITY = 4 };

/* A descriptor, and what is waited for. */
struct baton_watch {
  uint32_t descriptor;
  uint32_t wants; /* BATON_WANTS_READ, ... */
};

/* How often the owner has looked for ready descriptors. */
BATON_ANY_THREAD uint64_t baton_harvests(const baton_vm *vm);
/*
** Waits until one of the descriptors may be ready. The system call may still find nothing: then
** begin anew. `harvests` was read from baton_harvests before the system call that would have
** blocked. With `keep`, registrations last until baton_descriptor_closes; without, each wait makes
** them anew. Keep none of a descriptor whose number others have: once they have closed it, or given
** the number to another file (dup2), nothing ends the wait. Returns a baton_reason, or a negative
** number if a descriptor cannot be waited for.
*/
BATON_INSIDE int baton_await_ready(const baton_vm *vm, const struct baton_watch *watches,
    size_t count,
    int keep, uint64_t harvests, uint64_t deadline);
/*
** Waits until `attempt` returns nonzero, which must not block. It is called at once with -1, and
** whenever one of the descriptors may be ready, with its index and what it is ready for. Each wait
** makes the registrations anew. Returns the same as baton_await_ready.
*/
typedef int (*baton_attempt)(void *argument, int which, unsigned ready);
/* The wait itself. */
BATON_INSIDE int baton_wait_ready(const baton_vm *vm, const struct baton_watch *watches,
    size_t count,
    uint64_t deadline, baton_attempt attempt, void *argument);
/*
** What the events of a kept registration have told: the same number as before means that no event
** was taken in since. Negative: no registration is kept. The bit BATON_NEWS_OF_MORE is set once an
** event told of more than data and room: of out-of-band data, a failure, or the end.
*/
#define BATON_NEWS_OF_MORE ((int64_t)1 << 32)
/* Of the present registration. */
BATON_INSIDE int64_t baton_descriptor_news(const baton_vm *vm, uint32_t descriptor);
/* How many processes could run now, without the calling one. */
BATON_INSIDE size_t baton_runnable_count(const baton_vm *vm);
/* Before a descriptor is closed: ends the waits for it. */
BATON_INSIDE void baton_descriptor_closes(const baton_vm *vm, uint32_t descriptor);

/* }====================================================== */

/* {======================================================
** Commands
** ======================================================= */

/* The commands that the processes of a VM run. Where the functions below take NULL in place of it,
   it means the commands that no VM runs. */
struct baton_commands;
/* Makes the record of a VM's commands. */
BATON_ANY_THREAD struct baton_commands *baton_commands_new(void);
/* `commands` is not used any more. NULL: nothing. */
BATON_ANY_THREAD void baton_commands_free(struct baton_commands *commands);
/* The VM has ended, and the program goes on: threads of their own wait for the commands that still
   run, so that none stays a zombie. */
BATON_ANY_THREAD void baton_commands_abandon(const struct baton_commands *commands);
/* Whether other threads wait for these commands. */
BATON_ANY_THREAD int baton_commands_are_abandoned(const struct baton_commands *commands);
/* In a fork's child: forgets the commands, as they belong to the parent. */
BATON_INSIDE void baton_commands_forked(const struct baton_commands *commands);
/* Runs a command in the system's shell. Returns its number, or -1 if the shell cannot be started.
   `commands` may be NULL. */
BATON_OUTSIDE int baton_command_start(const struct baton_commands *commands, const char *text);
/* As popen of the C library; started where the others are. Returns a FILE * for pclose, or NULL and
   errno. */
BATON_OUTSIDE void *baton_command_pipe(const char *command, const char *mode);
/* A descriptor that is readable when the command has ended. baton_command_wait closes it.
   Negative: wait by baton_command_wait, on this thread. `commands` may be NULL. */
BATON_OUTSIDE int baton_command_descriptor(const struct baton_commands *commands, int command);
/* Waits for the end of the command. Returns its wait status, and an error of 0; or -1 and the
   system's error. `commands` may be NULL. */
BATON_OUTSIDE int baton_command_wait(
    const struct baton_commands *commands, int command, int *error);

/* }====================================================== */

/* {======================================================
** Alarms and timers
** ======================================================= */

/* Makes an alarm: an absolute time that processes wait for, `due`. */
BATON_INSIDE uint64_t baton_alarm_new(const baton_vm *vm, uint64_t due);
/* Sets it again: it goes off at `due`. Those who wait go on waiting. */
BATON_INSIDE void baton_alarm_set(const baton_vm *vm, uint64_t id, uint64_t due);
/* Takes its time away. Returns nonzero if it would still have gone off. */
BATON_INSIDE int baton_alarm_cancel(const baton_vm *vm, uint64_t id);
/* Whether its time has come. */
BATON_INSIDE int baton_alarm_has_gone_off(const baton_vm *vm, uint64_t id);
/* Waits until its time has come. */
BATON_INSIDE struct baton_wake baton_alarm_wait(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);

/* Makes a timer, which starts a process at the time `first`. `prepared` is that process: one that
   was spawned with `by_timer`, and has not begun. With a period that is not 0, the timer fires
   again and again, and needs another process for each time: see baton_timer_prepare. */
BATON_INSIDE uint64_t baton_timer_new(
    const baton_vm *vm, uint64_t first, uint64_t period, uint64_t prepared);
/* Gives a timer that has fired the process for the next time, the first multiple of its period that
   has not passed. Returns 0, and does nothing, if the timer fires once, was cancelled, or has one.
   */
BATON_INSIDE int baton_timer_prepare(const baton_vm *vm, uint64_t timer, uint64_t prepared);
/* Ends the timer. Returns the user data of the process that it would have started, or 0. */
BATON_INSIDE uintptr_t baton_timer_cancel(const baton_vm *vm, uint64_t timer);
/* Writes how often it has fired, and how many multiples of its period it has left out since no
   process was prepared. */
BATON_INSIDE void baton_timer_stats(
    const baton_vm *vm, uint64_t timer, uint64_t *fired, uint64_t *skipped);

/* }====================================================== */

/* {======================================================
** Parameters, counters, features
** ======================================================= */

/* The kinds of parameters. */
enum baton_parameter { BATON_UNKNOWN, BATON_NUMBER, BATON_WHOLE, BATON_SWITCH, BATON_WORD };
/* Reads a parameter by its name and returns its kind. A BATON_WORD is written to `text`, all others
   to `value`. */
BATON_INSIDE int baton_parameter(
    const baton_vm *vm, const char *name, double *value, const char **text);
/* Sets a parameter to `text`, or to `value` if that is NULL. Returns 0 and writes a message if it
   cannot. */
BATON_INSIDE int baton_set_parameter(
    const baton_vm *vm, const char *name, double value, const char *text, char *message,
    size_t size);
/* The name of a parameter, by index from 0; NULL after the last. The book's page on the module
   baton.process says what each one means. */
BATON_ANY_THREAD const char *baton_parameter_name(size_t index);
/* Sets parameters from the environment variables BATON_*. Returns nonzero and writes a message if
   one of them is wrong. */
BATON_INSIDE int baton_read_environment(const baton_vm *vm, char *message, size_t size);

/* A counter of what the runtime has done. */
struct baton_counter {
  const char *name;
  uint64_t value;
  int is_time; /* in nanoseconds */
};
/* Writes the counters as far as there is room. Returns how many there are. */
BATON_INSIDE size_t baton_counters(const baton_vm *vm, struct baton_counter *counters, size_t room);
/* What the runtime uses of the system, by index; NULL after the last. */
BATON_ANY_THREAD const char *baton_feature(size_t index, const char **text, int *flag);

/* }====================================================== */

#ifdef __cplusplus
}
#endif

#endif
