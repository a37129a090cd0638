/*
** The runtime for an interpreter that is written in C, the *guest*.
**
** baton/guest.h has what such a guest gives to the runtime, and a VM's life. This file has the
** rest.
** Processes and objects are named by the scheduler's ids, which are never 0. Times are in
** nanoseconds.
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
  BATON_DONE,
  BATON_TIMED_OUT,
  BATON_CLOSED,
  BATON_GONE,
  BATON_ABANDONED,
  BATON_KILLED,
  BATON_INTERRUPTED,
  BATON_MISUSE,   /* the call was refused: a recursive lock, or a lock of another process */
  BATON_FORBIDDEN /* the process is in a critical section and would have to wait */
};

struct baton_wake {
  uint32_t reason;
  uint32_t case_index; /* of a select */
  uint64_t value;
};

/* A relative time. Negative: no limit. Zero: do not wait. */
typedef int64_t baton_timeout;
#define BATON_FOREVER ((baton_timeout)-1)

/* An absolute time that never comes. */
#define BATON_NO_DEADLINE UINT64_MAX

/* The monotonic clock. In a simulated run, the simulated one. */
BATON_ANY_THREAD uint64_t baton_now(void);
/* BATON_DONE: the time has come. BATON_KILLED: the process must end. */
BATON_INSIDE struct baton_wake baton_sleep_until(const baton_vm *vm, uint64_t deadline);
/* Moves all deadlines and timers into the future, as if the time had stood still so long. */
BATON_INSIDE void baton_postpone(const baton_vm *vm, uint64_t nanoseconds);

/* }====================================================== */

/* {======================================================
** Processes
** ======================================================= */

enum baton_state {
  BATON_STATE_RUNNING,
  BATON_STATE_RUNNABLE,
  BATON_STATE_WAITING,
  BATON_STATE_SLEEPING,
  BATON_STATE_SUSPENDED,
  BATON_STATE_FOREIGN,
  BATON_STATE_DEAD
};

/* Sizes of texts, in bytes. The last three include the zero at the end. */
#define BATON_THREAD_NAME 63  /* the longest name of a thread */
#define BATON_BLOCKER 1024    /* what a process waits for */
#define BATON_OBJECT_NAME 100 /* the name of an object, escaped */
#define BATON_MESSAGE 240

struct baton_spawn_options {
  size_t size;         /* sizeof(struct baton_spawn_options) */
  uintptr_t user_data; /* the guest's record of the process */
  size_t stack_size;   /* bytes; 0: the parameter's */
  int priority;        /* 1 to 80; 0: the calling process's */
  int preemptible, daemon, quiet, suspended;
  char thread[BATON_THREAD_NAME + 1]; /* the thread that it is bound to; empty: none */
  int by_timer;                       /* it begins when a timer fires it */
};

/* Returns the process's id. 0 if there cannot be another process; writes a message then. */
BATON_INSIDE uint64_t baton_spawn(
    const baton_vm *vm, const struct baton_spawn_options *options, char *message, size_t size);

struct baton_time_used {
  double running, cpu; /* seconds; processor time is at most the time of the process's runs */
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

BATON_INSIDE void baton_yield(const baton_vm *vm);
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
/* For traces: the calling process begins to collect garbage, or ends that. */
BATON_INSIDE void baton_trace_garbage(const baton_vm *vm, int begins);

/* A critical section of the calling process. Leaving one lets nobody run; baton_give_way does. */
BATON_INSIDE void baton_enter_critical(const baton_vm *vm);
BATON_INSIDE void baton_leave_critical(const baton_vm *vm);

BATON_INSIDE struct baton_wake baton_join(
    const baton_vm *vm, uint64_t process, baton_timeout timeout);
/* How many processes wait for the end of this one. */
BATON_INSIDE int baton_joiners(const baton_vm *vm, uint64_t process);
/* Wakes the processes that wait for the end of this one, before that end. */
BATON_INSIDE void baton_release_joiners(const baton_vm *vm, uint64_t process);
/* Waits until all other processes that are no daemons have ended. */
BATON_INSIDE struct baton_wake baton_wait_for_rest(const baton_vm *vm, baton_timeout timeout);

/* Both return 0 if it is done or there is nothing to do, and 1 if the process is dead. They return
   2 if the calling process must raise its kill now. */
BATON_INSIDE int baton_suspend(const baton_vm *vm, uint64_t process);
BATON_INSIDE int baton_resume(const baton_vm *vm, uint64_t process);
/* Requests the end of a process: see baton_kill_is_due. A process that has not begun begins, and
   finds it due. Returns 0 if it is done, 1 if the process is dead, and 2 if it is the calling
   one. */
BATON_INSIDE int baton_kill(const baton_vm *vm, uint64_t process);
/* Whether kills of the process are put off. */
BATON_INSIDE void baton_set_kill_hold(const baton_vm *vm, uint64_t process, int holds);
/* Asks a process for a safepoint at this time, once, in place of an earlier request.
   BATON_NO_DEADLINE: not any more. For a guest that limits how long a kill is held back. */
BATON_INSIDE void baton_request_safepoint_at(const baton_vm *vm, uint64_t process, uint64_t due);
/* Takes back a kill that the process has not seen. */
BATON_INSIDE void baton_withdraw_kill(const baton_vm *vm, uint64_t process);
/* Ends the process's wait with BATON_INTERRUPTED. Returns 0 if it does not wait. */
BATON_INSIDE int baton_interrupt(const baton_vm *vm, uint64_t process);

BATON_INSIDE int baton_priority(const baton_vm *vm, uint64_t process);
BATON_INSIDE void baton_set_priority(const baton_vm *vm, uint64_t process, int priority);
BATON_INSIDE void baton_set_user_data(const baton_vm *vm, uint64_t process, uintptr_t user_data);
BATON_INSIDE int baton_state(const baton_vm *vm, uint64_t process);
/* How long a process runs before its equals have their turn. 0: the parameter `slice` says it. */
BATON_INSIDE uint64_t baton_slice(const baton_vm *vm, uint64_t process);
BATON_INSIDE void baton_set_slice(const baton_vm *vm, uint64_t process, uint64_t nanoseconds);

BATON_INSIDE struct baton_time_used baton_time_used(const baton_vm *vm, uint64_t process);
BATON_INSIDE void baton_stack_bounds(
    const baton_vm *vm, uint64_t process, uintptr_t *guard, uintptr_t *low, uintptr_t *high);
/* Where the stack of a process ends: its registers and frames are between this address and the
   higher one of baton_stack_bounds. For a collector that scans stacks. 0: it is the running one or
   in a foreign call, has not begun, or has ended. */
BATON_INSIDE uintptr_t baton_stack_pointer(const baton_vm *vm, uint64_t process);
/* The most bytes of its stack that a process has used. */
BATON_INSIDE size_t baton_stack_used(const baton_vm *vm, uint64_t process);
/* Writes what the process waits for, or nothing. */
BATON_INSIDE void baton_blocker(const baton_vm *vm, uint64_t process, char *text, size_t size);
/* Writes the user data of all living processes, as far as there is room. Returns how many live. */
BATON_INSIDE size_t baton_list(const baton_vm *vm, uintptr_t *user_data, size_t capacity);

/* Whether the guest's scheduler hook is called for each choice. */
BATON_INSIDE void baton_set_scheduler_hook(const baton_vm *vm, int on);
/* Whether the guest's switch hook is called for the process. */
BATON_INSIDE void baton_set_switch_hook(const baton_vm *vm, uint64_t process, int on);

/* }====================================================== */

/* {======================================================
** Foreign calls and native threads
** ======================================================= */

/* As baton_enter_cold, but returns on the same thread. */
BATON_OUTSIDE void baton_enter_cold_pinned(const baton_vm *vm);

/* What became of baton_offload. */
enum baton_offload {
  BATON_OFFLOADED, /* the process is on another thread, and outside */
  BATON_STAYS,     /* it cannot leave this thread */
  BATON_NO_THREAD  /* there is no thread to spare */
};
/* Takes the calling process to another thread for a foreign call that is known to be long. */
BATON_INSIDE int baton_offload(const baton_vm *vm);
/* Whether others may run beside foreign calls. 0: the VM stays with each call, as with BATON_STAY.
   It holds for all processes, from the next call on. */
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
/* Whether the process can continue on the calling thread only: it has frames of foreign C code on
   its stack. While it waits, no other process runs on that thread. To be called at the latest when
   the process is left (`switched`). */
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

/* Starts a detached native thread that no process runs on and that receives no signals. Signals go
   to the threads that run processes. Returns 0 if the system refuses it. */
BATON_ANY_THREAD int baton_start_helper(const char *name, void (*run)(void *), void *argument);

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

BATON_INSIDE void baton_free(const baton_vm *vm, int kind, uint64_t id);
/* An object's name, for reports. The second one writes it, or nothing. */
BATON_INSIDE void baton_set_object_name(const baton_vm *vm, int kind, uint64_t id,
    const char *name);
BATON_INSIDE void baton_object_name(
    const baton_vm *vm, int kind, uint64_t id, char *name, size_t size);
/* Checks whether the calling process would close a cycle of locks by waiting for this one without a
   limit, and writes the cycle. Returns 0 if not, 1 if a warning is due, and 2 if an error is. */
BATON_INSIDE int baton_closes_cycle(
    const baton_vm *vm, int kind, uint64_t id, char *text, size_t size);

BATON_INSIDE uint64_t baton_semaphore_new(const baton_vm *vm, uint64_t count);
BATON_INSIDE struct baton_wake baton_semaphore_wait(
    const baton_vm *vm, uint64_t id, baton_timeout timeout);
/* Returns 0, and does nothing, if the count would exceed INT64_MAX. */
BATON_INSIDE int baton_semaphore_signal(const baton_vm *vm, uint64_t id, uint64_t n);
BATON_INSIDE uint64_t baton_semaphore_count(const baton_vm *vm, uint64_t id);

BATON_INSIDE uint64_t baton_mutex_new(const baton_vm *vm);
BATON_INSIDE struct baton_wake baton_mutex_lock(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);
BATON_INSIDE int baton_mutex_unlock(const baton_vm *vm, uint64_t id);
/* As an unlock, by a process that was killed after it got the mutex, and has not used it. Nonzero
   `is_abandoned`: it got the mutex with BATON_ABANDONED, and so does the next process. */
BATON_INSIDE void baton_mutex_give_back(const baton_vm *vm, uint64_t id, int is_abandoned);

BATON_INSIDE uint64_t baton_rwlock_new(const baton_vm *vm);
BATON_INSIDE struct baton_wake baton_rwlock_lock(
    const baton_vm *vm, uint64_t id, int writes, baton_timeout timeout);
BATON_INSIDE int baton_rwlock_unlock(const baton_vm *vm, uint64_t id);
/* As baton_mutex_give_back. */
BATON_INSIDE void baton_rwlock_give_back(const baton_vm *vm, uint64_t id, int is_abandoned);

BATON_INSIDE uint64_t baton_condition_new(const baton_vm *vm);
BATON_INSIDE struct baton_wake baton_condition_wait(
    const baton_vm *vm, uint64_t id, uint64_t mutex, baton_timeout timeout);
/* A process that is killed after its signal, and before it holds the mutex again, passes the signal
   on. One whose wait ended with BATON_DONE, and that cannot use the signal, signals again. */
BATON_INSIDE void baton_condition_signal(const baton_vm *vm, uint64_t id, int all);

BATON_INSIDE uint64_t baton_event_new(const baton_vm *vm);
BATON_INSIDE struct baton_wake baton_event_wait(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);
BATON_INSIDE void baton_event_set(const baton_vm *vm, uint64_t id, int on);
BATON_INSIDE int baton_event_is_set(const baton_vm *vm, uint64_t id);

BATON_INSIDE uint64_t baton_barrier_new(const baton_vm *vm, uint64_t size);
/* The value is 1 for the process that came last. */
BATON_INSIDE struct baton_wake baton_barrier_wait(
    const baton_vm *vm, uint64_t id, baton_timeout timeout);

/* A queue of waiting processes, without a state of its own. */
BATON_INSIDE uint64_t baton_queue_new(const baton_vm *vm);
BATON_INSIDE struct baton_wake baton_queue_wait(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);
BATON_INSIDE void baton_queue_wake_all(const baton_vm *vm, uint64_t id);

BATON_INSIDE uint64_t baton_channel_new(const baton_vm *vm, uint64_t capacity);
BATON_INSIDE struct baton_wake baton_channel_send(
    const baton_vm *vm, uint64_t id, uint64_t value, baton_timeout timeout);
BATON_INSIDE struct baton_wake baton_channel_receive(
    const baton_vm *vm, uint64_t id, baton_timeout timeout);
BATON_INSIDE void baton_channel_close(const baton_vm *vm, uint64_t id);
BATON_INSIDE void baton_channel_clear(const baton_vm *vm, uint64_t id);
BATON_INSIDE uint64_t baton_channel_length(const baton_vm *vm, uint64_t id);
/* Gives back a value that was received last. It is the next one again. */
BATON_INSIDE void baton_channel_give_back(const baton_vm *vm, uint64_t id, uint64_t value);
/* Gives a value to a channel without waiting, beyond its capacity if need be. Returns 0 if it is
   closed. */
BATON_INSIDE int baton_channel_post(const baton_vm *vm, uint64_t id, uint64_t value);
/* The same, unless such a value is in its buffer already. */
BATON_INSIDE void baton_channel_post_once(const baton_vm *vm, uint64_t id, uint64_t value);
/* Whether values come from outside of the program, so that a wait for one is no deadlock. */
BATON_INSIDE void baton_channel_set_fed(const baton_vm *vm, uint64_t id, int is_fed);

/* A turn: at most one VM has it. `name` is what it is for, in reports. It is never freed. */
struct baton_turn;
BATON_ANY_THREAD const struct baton_turn *baton_turn_new(const char *name);
/* Takes it, if no VM has it. Returns whether it did. */
BATON_ANY_THREAD int baton_turn_try(const struct baton_turn *turn);
/* Waits for it. Returns a baton_reason: the calling process has it if that is BATON_DONE. */
BATON_INSIDE uint32_t baton_turn_take(const baton_vm *vm, const struct baton_turn *turn);
/* In a simulated run, a pause for a thread that calls baton_turn_try again and again: time passes,
   and other VMs go on. */
BATON_INSIDE void baton_turn_pause(const baton_vm *vm, uint64_t nanoseconds);
/* Gives it to the next one. By whoever has it. */
BATON_ANY_THREAD void baton_turn_give(const struct baton_turn *turn);

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
  BATON_CASE_READY,
  BATON_CASE_SHARED_RECEIVE, /* of a channel that several VMs share */
  BATON_CASE_SHARED_SEND
};

struct baton_case {
  int kind;
  uint32_t wants; /* of a descriptor: BATON_WANTS_READ, ... */
  uint64_t id;    /* the object's; a descriptor's number; a pointer to a shared channel */
  uint64_t value; /* to send; a pointer to a shared channel's message */
};
/* Waits for the first of the cases. Writes a message and returns BATON_TIMED_OUT if a case cannot
   be waited for. BATON_MISUSE: the calling process holds that mutex, or is that process. The
   messages for shared channels are the caller's no longer, sent or not. A received one is the
   result's value. */
BATON_INSIDE struct baton_wake baton_select(const baton_vm *vm, const struct baton_case *cases,
    size_t count, baton_timeout timeout, char *message, size_t size);

/* }====================================================== */

/* {======================================================
** Objects that several VMs share
**
** They lie outside of all heaps and count their references. The function that makes one returns the
** first reference. An object lives until the last one was given back.
** ======================================================= */

/* What the messages of a channel are: their size in bytes, and their end. Any thread may call these
   functions. */
typedef size_t (*baton_message_size)(const void *message);
typedef void (*baton_message_end)(void *message);
/* Calls one of the functions below for each reference of the message to a channel or a dictionary.
   Without it (NULL), objects that refer to each other by messages are never freed. */
struct baton_visitor;
typedef void (*baton_message_references)(const void *message, struct baton_visitor *visitor);
struct baton_message_kind {
  baton_message_size size;
  baton_message_end end;
  baton_message_references references;
};
struct baton_shared_channel;
struct baton_dict;
BATON_ANY_THREAD void baton_visit_channel(
    struct baton_visitor *visitor, struct baton_shared_channel *channel);
BATON_ANY_THREAD void baton_visit_dict(struct baton_visitor *visitor, struct baton_dict *dict);

/* A channel for at most `capacity` messages of at most `bytes` bytes together. A larger message is
   let in alone. `capacity` is at least 1. `kind` lives as long as the program. */
BATON_ANY_THREAD struct baton_shared_channel *baton_shared_channel_new(uint64_t capacity,
    uint64_t bytes, const char *name, const struct baton_message_kind *kind);
BATON_ANY_THREAD void baton_shared_channel_hold(struct baton_shared_channel *channel);
BATON_ANY_THREAD void baton_shared_channel_release(struct baton_shared_channel *channel);
BATON_ANY_THREAD uint64_t baton_shared_channel_length(const struct baton_shared_channel *channel);
/* Writes its name, or nothing. */
BATON_ANY_THREAD void baton_shared_channel_name(
    const struct baton_shared_channel *channel, char *name, size_t size);
/* Sends a message. Unless the reason is BATON_DONE, it is still the caller's. */
BATON_INSIDE struct baton_wake baton_shared_send(const baton_vm *vm,
    struct baton_shared_channel *channel, void *message, baton_timeout timeout);
/* Receives a message, which is the value. */
BATON_INSIDE struct baton_wake baton_shared_receive(
    const baton_vm *vm, struct baton_shared_channel *channel, baton_timeout timeout);
/* Gives back a message that was received last. It is the next one again. */
BATON_INSIDE void baton_shared_give_back(
    const baton_vm *vm, struct baton_shared_channel *channel, void *message);
BATON_INSIDE void baton_shared_close(const baton_vm *vm, struct baton_shared_channel *channel);
/* The same, by a thread that is in no VM or does not know in which one. */
BATON_ANY_THREAD void baton_shared_close_from_outside(struct baton_shared_channel *channel);

/* Words of 64 bits, counted from 0. All accesses are sequentially consistent. An index that is too
   large ends the program. */
struct baton_words;
/* Returns NULL without memory for them. */
BATON_ANY_THREAD struct baton_words *baton_words_new(uint64_t count);
BATON_ANY_THREAD void baton_words_hold(struct baton_words *words);
BATON_ANY_THREAD void baton_words_release(struct baton_words *words);
/* How many references there are. It is exact if the caller has the only one. */
BATON_ANY_THREAD uint64_t baton_words_references(const struct baton_words *words);
BATON_ANY_THREAD uint64_t baton_words_count(const struct baton_words *words);
BATON_ANY_THREAD int64_t baton_words_load(const struct baton_words *words, uint64_t index);
BATON_ANY_THREAD void baton_words_store(
    struct baton_words *words, uint64_t index, int64_t value);
/* Both return the old value. A sum wraps around. */
BATON_ANY_THREAD int64_t baton_words_add(struct baton_words *words, uint64_t index, int64_t n);
BATON_ANY_THREAD int64_t baton_words_exchange(
    struct baton_words *words, uint64_t index, int64_t value);
/* Sets a word if it has the expected value. Returns whether it had. `expected` becomes the value
   that it had. */
BATON_ANY_THREAD int baton_words_compare(
    struct baton_words *words, uint64_t index, int64_t *expected, int64_t value);
/* Waits for a wake-up, unless the word differs from `expected`: BATON_DONE in both cases. */
BATON_INSIDE struct baton_wake baton_words_wait(const baton_vm *vm, struct baton_words *words,
    uint64_t index, int64_t expected, baton_timeout timeout);
/* Wakes up to `n` processes of any VM. Returns how many. */
BATON_INSIDE uint64_t baton_words_wake(
    const baton_vm *vm, struct baton_words *words, uint64_t index, uint64_t n);

/* A dictionary, bounded by bytes. Keys are bytes. A message that it stores is its own. */
enum baton_dict_kind {
  BATON_DICT_ABSENT,
  BATON_DICT_FALSE,
  BATON_DICT_TRUE,
  BATON_DICT_INTEGER,
  BATON_DICT_FLOAT,
  BATON_DICT_BYTES,
  BATON_DICT_MESSAGE
};
struct baton_dict_value {
  int kind;
  int64_t integer;
  double number;
  const void *bytes; /* or the message */
  size_t size;       /* of the bytes */
  const void *held;  /* of a value that was found: a reference, for baton_dict_release_value */
};
struct baton_dict_key {
  const void *bytes;
  size_t size;
};
enum baton_dict_result { BATON_DICT_STORED, BATON_DICT_FULL, BATON_DICT_NOT_WANTED };

BATON_ANY_THREAD struct baton_dict *baton_dict_new(
    uint64_t bytes, int evicts, const struct baton_message_kind *kind);
BATON_ANY_THREAD void baton_dict_hold(struct baton_dict *dict);
BATON_ANY_THREAD void baton_dict_release(struct baton_dict *dict);
/* How many entries there are, and the bytes that they take. */
BATON_ANY_THREAD uint64_t baton_dict_count(const struct baton_dict *dict);
BATON_ANY_THREAD uint64_t baton_dict_used(const struct baton_dict *dict);
/* Writes the value of the key, which is valid until its reference is given back. */
BATON_ANY_THREAD void baton_dict_get(const struct baton_dict *dict, struct baton_dict_key key,
    struct baton_dict_value *found);
BATON_ANY_THREAD void baton_dict_release_value(const struct baton_dict_value *found);
/* Stores a value until `end`, an absolute time. With `if_absent`, BATON_DICT_NOT_WANTED says that
   there is one already. */
BATON_ANY_THREAD int baton_dict_set(struct baton_dict *dict, struct baton_dict_key key,
    const struct baton_dict_value *value, uint64_t end, int if_absent);
/* Stores a value, or removes the key if it is absent, unless the present value differs from
   `expected`: BATON_DICT_NOT_WANTED. Messages are never equal. The end stays. Writes the value
   before, as baton_dict_get does. */
BATON_ANY_THREAD int baton_dict_compare(struct baton_dict *dict, struct baton_dict_key key,
    const struct baton_dict_value *expected, const struct baton_dict_value *value,
    struct baton_dict_value *before);
/* Adds the number `n` to that of the key, or to `initial` if there is none, and writes the sum.
   BATON_DICT_NOT_WANTED: the value is no number. The end stays. */
BATON_ANY_THREAD int baton_dict_add(struct baton_dict *dict, struct baton_dict_key key,
    const struct baton_dict_value *n, const struct baton_dict_value *initial,
    struct baton_dict_value *sum);
/* Removes a key. Returns whether it was there. */
BATON_ANY_THREAD int baton_dict_delete(struct baton_dict *dict, struct baton_dict_key key);
/* Lists at most `limit` keys. */
struct baton_dict_keys;
BATON_ANY_THREAD struct baton_dict_keys *baton_dict_keys(
    const struct baton_dict *dict, uint64_t limit);
/* Writes the key of this number, from 0. Returns 0 if there is none. */
BATON_ANY_THREAD int baton_dict_key_at(
    const struct baton_dict_keys *keys, uint64_t number, struct baton_dict_key *key);
BATON_ANY_THREAD void baton_dict_keys_free(struct baton_dict_keys *keys);

/* }====================================================== */

/* {======================================================
** Descriptors
** ======================================================= */

enum { BATON_WANTS_READ = 1, BATON_WANTS_WRITE = 2, BATON_WANTS_PRIORITY = 4 };

struct baton_watch {
  uint32_t descriptor;
  uint32_t wants;
};

/* How often the owner has looked for ready descriptors. */
BATON_ANY_THREAD uint64_t baton_harvests(const baton_vm *vm);
/*
** Waits until one of the descriptors may be ready. The system call may still find nothing: then
** begin anew. `harvests` was read from baton_harvests before the system call that would have
** blocked. With `keep`, registrations last until baton_descriptor_closes; without, each wait makes
** them anew. Returns a baton_reason, or a negative number if a descriptor cannot be waited for.
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
BATON_INSIDE int baton_wait_ready(const baton_vm *vm, const struct baton_watch *watches,
    size_t count,
    uint64_t deadline, baton_attempt attempt, void *argument);
/*
** What the events of a kept registration have told: the same number as before means that no event
** was taken in since. Negative: no registration is kept. The bit BATON_NEWS_OF_MORE is set once an
** event told of more than data and room: of out-of-band data, a failure, or the end.
*/
#define BATON_NEWS_OF_MORE ((int64_t)1 << 32)
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
BATON_ANY_THREAD struct baton_commands *baton_commands_new(void);
/* `commands` is not used any more. NULL: nothing. */
BATON_ANY_THREAD void baton_commands_free(struct baton_commands *commands);
/* The VM has ended, and the program goes on: threads of their own wait for the commands that still
   run, so that none stays a zombie. */
BATON_ANY_THREAD void baton_commands_abandon(const struct baton_commands *commands);
BATON_ANY_THREAD int baton_commands_are_abandoned(const struct baton_commands *commands);
/* In a fork's child: forgets the commands, as they belong to the parent. */
BATON_INSIDE void baton_commands_forked(const struct baton_commands *commands);
/* Runs a command in the system's shell. Returns its number, or -1 if the shell cannot be started.
   `commands` may be NULL. */
BATON_OUTSIDE int baton_command_start(const struct baton_commands *commands, const char *text);
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

/* An alarm is an absolute time that processes wait for. */
BATON_INSIDE uint64_t baton_alarm_new(const baton_vm *vm, uint64_t due);
BATON_INSIDE void baton_alarm_set(const baton_vm *vm, uint64_t id, uint64_t due);
/* Returns nonzero if it would still have gone off. */
BATON_INSIDE int baton_alarm_cancel(const baton_vm *vm, uint64_t id);
BATON_INSIDE int baton_alarm_has_gone_off(const baton_vm *vm, uint64_t id);
BATON_INSIDE struct baton_wake baton_alarm_wait(const baton_vm *vm, uint64_t id,
    baton_timeout timeout);

/* A timer starts a prepared process. `first` is absolute. A period of 0: it fires once. */
BATON_INSIDE uint64_t baton_timer_new(
    const baton_vm *vm, uint64_t first, uint64_t period, uint64_t prepared);
BATON_INSIDE int baton_timer_prepare(const baton_vm *vm, uint64_t timer, uint64_t prepared);
/* Returns the user data of the process that the timer would have started, or 0. */
BATON_INSIDE uintptr_t baton_timer_cancel(const baton_vm *vm, uint64_t timer);
BATON_INSIDE void baton_timer_stats(
    const baton_vm *vm, uint64_t timer, uint64_t *fired, uint64_t *skipped);

/* }====================================================== */

/* {======================================================
** Parameters, counters, features
** ======================================================= */

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
/* By index; NULL after the last. */
BATON_ANY_THREAD const char *baton_parameter_name(size_t index);
/* Sets parameters from the environment variables BATON_*. Returns nonzero and writes a message if
   one of them is wrong. */
BATON_INSIDE int baton_read_environment(const baton_vm *vm, char *message, size_t size);

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
