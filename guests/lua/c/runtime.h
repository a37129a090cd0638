/*
** What the C half of the guest asks of the Rust half (src/bridge.rs). All of it inside the VM, unless said otherwise.
** `vm` is the executor (`baton_core::vm::Vm`); a process is named by the kernel's id.
*/
#ifndef BATON_RUNTIME_H
#define BATON_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

/* Why a wait ended: `WakeReason` of the kernel. */
enum baton_reason {
  BATON_DONE,
  BATON_TIMED_OUT,
  BATON_CLOSED,
  BATON_GONE,
  BATON_ABANDONED,
  BATON_KILLED,
  BATON_INTERRUPTED,
  BATON_MISUSE, /* the call was refused: recursive lock, or not the owner */
  BATON_FORBIDDEN /* the process is in a critical section, and would have to wait */
};

struct baton_wake {
  uint32_t reason;
  uint32_t case_index;
  uint64_t value;
};

/* A relative time in nanoseconds; negative: for ever; zero: do not wait. */
typedef int64_t baton_timeout;
#define BATON_FOREVER ((baton_timeout)-1)

enum baton_state {
  BATON_STATE_RUNNING,
  BATON_STATE_RUNNABLE,
  BATON_STATE_WAITING,
  BATON_STATE_SLEEPING,
  BATON_STATE_SUSPENDED,
  BATON_STATE_FOREIGN,
  BATON_STATE_DEAD
};

#define BATON_THREAD_NAME 63 /* bytes of a thread's name at most */
#define BATON_BLOCKER 160    /* and of what a process waits for, the zero included */
#define BATON_MESSAGE 240

struct baton_spawn {
  uintptr_t word;      /* the guest's record */
  size_t stack_size;   /* bytes; 0: the parameter */
  int priority;        /* 1..80; 0: the calling process's */
  int preemptible, daemon, quiet, suspended;
  char thread[BATON_THREAD_NAME + 1]; /* that it is bound to; empty: none */
  int by_timer;        /* begins when a timer fires it */
};

/* Processes. spawn returns 0 and writes a message when there cannot be another process. */
uint64_t baton_rs_spawn(const void *vm, const struct baton_spawn *options, char *message, size_t size);
void baton_rs_forget(const void *vm, uint64_t process);
void baton_rs_yield(const void *vm);
void baton_rs_yield_to(const void *vm, uint64_t process);
void baton_rs_give_way(const void *vm); /* to a more urgent one */
/* Critical sections of the calling process. To leave one gives way to nobody: baton_rs_give_way does. */
void baton_rs_enter_critical(const void *vm);
void baton_rs_leave_critical(const void *vm);
/* Whether baton_lua_choose is asked, and whether baton_lua_tell_switch is told of a process. */
void baton_rs_set_choosing(const void *vm, int on);
void baton_rs_set_hooked(const void *vm, uint64_t process, int on);
void baton_rs_set_word(const void *vm, uint64_t process, uintptr_t word);
void baton_rs_safepoint(const void *vm);
/* In a simulated run, before a safepoint: so many steps were made since the last one. Answers how many to make until the next. */
uint32_t baton_rs_count_steps(const void *vm, uint32_t steps);
void baton_rs_enter_cold(const void *vm); /* from outside; returns inside */
void baton_rs_enter_cold_pinned(const void *vm); /* the same, on the same thread */
/* To another native thread, and out of the VM, for a foreign call: `Departure` of the executor. */
enum baton_departure { BATON_MOVED, BATON_STAYS, BATON_NO_THREAD };
int baton_rs_move_out(const void *vm);
/* The age in nanoseconds at which a foreign call may be retaken. Without the VM. */
uint64_t baton_rs_window(const void *vm);
struct baton_wake baton_rs_sleep_until(const void *vm, uint64_t nanoseconds);
struct baton_wake baton_rs_join(const void *vm, uint64_t process, baton_timeout timeout);
struct baton_wake baton_rs_wait_for_rest(const void *vm, baton_timeout timeout);
int baton_rs_joiners(const void *vm, uint64_t process);
/* Before a process's real end: whoever joins it goes on. */
void baton_rs_release_joiners(const void *vm, uint64_t process);
/* 0: done (or nothing to do); 1: dead; 2: the calling process is to raise its kill. */
int baton_rs_suspend(const void *vm, uint64_t process);
int baton_rs_resume(const void *vm, uint64_t process);
/* 0: done; 1: dead; 2: it is the calling process. */
int baton_rs_kill(const void *vm, uint64_t process);
void baton_rs_set_kill_hold(const void *vm, uint64_t process, int holds);
/* Ends a process that has not run yet; 0 if it has. */
int baton_rs_end_unstarted(const void *vm, uint64_t process);
void baton_rs_pardon(const void *vm, uint64_t process);
/* Before a call that may block: until it would leave a native thread for the others. */
struct baton_wake baton_rs_wait_for_thread(const void *vm);
/* The bound on native threads, those with names left out. Also by the monitor. */
size_t baton_rs_threads_for_calls(const void *vm);
int baton_rs_interrupt(const void *vm, uint64_t process);
int baton_rs_priority(const void *vm, uint64_t process);
void baton_rs_set_priority(const void *vm, uint64_t process, int priority);
/* To the thread of a name, or with NULL to none. Writes a message when there cannot be such a thread. */
void baton_rs_bind(const void *vm, uint64_t process, const char *name, char *message, size_t size);
/* These write a text, or nothing: the thread that a process is bound to, and what it waits for. */
void baton_rs_bound_to(const void *vm, uint64_t process, char *name, size_t size);
void baton_rs_blocker(const void *vm, uint64_t process, char *text, size_t size);
/* The number of the calling process's thread; writes its name, or nothing. */
int baton_rs_thread(const void *vm, char *name, size_t size);
void baton_rs_set_pinned(const void *vm, uint64_t process, int pinned); /* to the calling thread */
int baton_rs_state(const void *vm, uint64_t process);
double baton_rs_cpu_time(const void *vm, uint64_t process);
void baton_rs_stack_bounds(const void *vm, uint64_t process, uintptr_t *guard, uintptr_t *low, uintptr_t *high);
size_t baton_rs_stack_used(const void *vm, uint64_t process);
uint64_t baton_rs_current(const void *vm);
int baton_rs_threads(const void *vm);
void baton_rs_set_retaking(const void *vm, int on);
void baton_rs_stop(const void *vm);
size_t baton_rs_list(const void *vm, uintptr_t *words, size_t capacity);
/* From signal handlers and other threads, without the VM. */
void baton_rs_request_signalled(const void *vm);

/* Time, in nanoseconds of the monotonic clock. Without the VM. */
uint64_t baton_rs_now(void);

/* Objects: ids of the kernel. */
uint64_t baton_rs_semaphore_new(const void *vm, uint64_t count);
struct baton_wake baton_rs_semaphore_wait(const void *vm, uint64_t id, baton_timeout timeout);
void baton_rs_semaphore_signal(const void *vm, uint64_t id, uint64_t n);
uint64_t baton_rs_semaphore_count(const void *vm, uint64_t id);
/* Once; on any thread, without the VM. */
void baton_rs_signal_from_outside(const void *vm, uint64_t semaphore);
uint64_t baton_rs_mutex_new(const void *vm);
struct baton_wake baton_rs_mutex_lock(const void *vm, uint64_t id, baton_timeout timeout);
int baton_rs_mutex_unlock(const void *vm, uint64_t id);
uint64_t baton_rs_condition_new(const void *vm);
struct baton_wake baton_rs_condition_wait(const void *vm, uint64_t id, uint64_t mutex, baton_timeout timeout);
void baton_rs_condition_signal(const void *vm, uint64_t id, int all);
uint64_t baton_rs_event_new(const void *vm);
struct baton_wake baton_rs_event_wait(const void *vm, uint64_t id, baton_timeout timeout);
void baton_rs_event_set(const void *vm, uint64_t id, int on);
int baton_rs_event_is_set(const void *vm, uint64_t id);
uint64_t baton_rs_channel_new(const void *vm, uint64_t capacity);
struct baton_wake baton_rs_channel_send(const void *vm, uint64_t id, uint64_t value, baton_timeout timeout);
struct baton_wake baton_rs_channel_receive(const void *vm, uint64_t id, baton_timeout timeout);
void baton_rs_channel_close(const void *vm, uint64_t id);
uint64_t baton_rs_channel_length(const void *vm, uint64_t id);
struct baton_case {
  uint64_t channel;
  uint64_t value;
  int sends;
};
struct baton_wake baton_rs_select(const void *vm, const struct baton_case *cases, size_t count, baton_timeout timeout);
uint64_t baton_rs_queue_new(const void *vm);
struct baton_wake baton_rs_queue_wait(const void *vm, uint64_t id, baton_timeout timeout);
/* Resumes the process (0: none) and wakes one waiter of the queue, soon. From other threads, without the VM. */
void baton_rs_visit(const void *vm, uint64_t process, uint64_t queue);
void baton_rs_queue_wake_all(const void *vm, uint64_t id);
uint64_t baton_rs_rwlock_new(const void *vm);
struct baton_wake baton_rs_rwlock_lock(const void *vm, uint64_t id, int writes, baton_timeout timeout);
int baton_rs_rwlock_unlock(const void *vm, uint64_t id);
uint64_t baton_rs_barrier_new(const void *vm, uint64_t size);
struct baton_wake baton_rs_barrier_wait(const void *vm, uint64_t id, baton_timeout timeout); /* value 1: the last one */
enum baton_object {
  BATON_SEMAPHORE,
  BATON_MUTEX,
  BATON_CONDITION,
  BATON_EVENT,
  BATON_CHANNEL,
  BATON_QUEUE,
  BATON_TIMER,
  BATON_RWLOCK,
  BATON_BARRIER
};
void baton_rs_free(const void *vm, int kind, uint64_t id);

/*
** Waiting for descriptors: see `Vm::wait_ready` and `Vm::descriptor_closes`. Answers a reason, negative if a descriptor cannot be waited for. The attempt
** is called with -1, then with the index of a watch and what that is ready for.
*/
enum { BATON_WANTS_READ = 1, BATON_WANTS_WRITE = 2, BATON_WANTS_PRIORITY = 4, BATON_IS_FAILED = 8 };
struct baton_watch {
  uint32_t descriptor;
  uint32_t wants;
};
typedef int (*baton_attempt)(void *argument, int which, unsigned ready);
int baton_rs_wait_ready(const void *vm, const struct baton_watch *watches, size_t count, uint64_t deadline, baton_attempt attempt, void *argument);
/* All on any thread, without the VM: before the closing, and after it. */
void baton_rs_descriptor_closes(const void *vm, uint32_t descriptor);
void baton_rs_descriptor_has_closed(const void *vm, uint32_t descriptor);
int baton_rs_is_registered(const void *vm, uint32_t descriptor);

/* The text of a file of lua/, named without its ending. Without the VM. */
const char *baton_rs_lua_source(const char *name, size_t *size);

/* Timers. `first` is absolute; a period of 0 fires once. */
uint64_t baton_rs_timer_new(const void *vm, uint64_t first, uint64_t period, uint64_t prepared);
int baton_rs_timer_prepare(const void *vm, uint64_t timer, uint64_t prepared);
/* Answers the record of the process that the timer would have fired, or 0. */
uintptr_t baton_rs_timer_cancel(const void *vm, uint64_t timer);
void baton_rs_timer_stats(const void *vm, uint64_t timer, uint64_t *fired, uint64_t *skipped);

/*
** Parameters, by name. Reading one answers its kind, the last of which is told in `text`, all others in `value`. Setting one
** to a word if `text` is not NULL, else to `value`, answers nonzero; 0 if a message was written.
*/
enum baton_parameter { BATON_UNKNOWN, BATON_NUMBER, BATON_WHOLE, BATON_SWITCH, BATON_WORD };
int baton_rs_parameter(const void *vm, const char *name, double *value, const char **text);
int baton_rs_set_parameter(const void *vm, const char *name, double value, const char *text, char *message, size_t size);
const char *baton_rs_parameter_name(size_t index);
/* BATON_* of the environment; nonzero and a message if one of them is wrong. */
int baton_rs_read_environment(const void *vm, char *message, size_t size);
/* The counters, as far as there is room, inside the VM; answers how many there are. A time is in nanoseconds. */
struct baton_counter {
  const char *name;
  uint64_t value;
  int is_time;
};
size_t baton_rs_counters(const void *vm, struct baton_counter *counters, size_t room);
/* Features, by index; NULL after the last. */
const char *baton_rs_feature(size_t index, const char **text, int *flag);

#endif
