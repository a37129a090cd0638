/*
** What the C half of the guest asks of the Rust half (src/bridge.rs). All of it inside the VM,
** unless said otherwise. `vm` is the executor (`baton_core::vm::Vm`); a process is named by the
** kernel's id.
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
#define BATON_BLOCKER 1024    /* and of what a process waits for, the zero included */
#define BATON_OBJECT_NAME 100 /* of the name of a synchronization object, escaped */
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
uint64_t baton_rs_spawn(
    const void *vm, const struct baton_spawn *options, char *message, size_t size);
void baton_rs_forget(const void *vm, uint64_t process);
void baton_rs_yield(const void *vm);
void baton_rs_yield_to(const void *vm, uint64_t process);
void baton_rs_give_way(const void *vm); /* to a more urgent one */
/* Critical sections of the calling process. To leave one gives way to nobody: baton_rs_give_way
   does. */
void baton_rs_enter_critical(const void *vm);
void baton_rs_leave_critical(const void *vm);
/* Whether baton_lua_choose is asked, and whether baton_lua_tell_switch is told of a process. */
void baton_rs_set_choosing(const void *vm, int on);
void baton_rs_set_hooked(const void *vm, uint64_t process, int on);
void baton_rs_set_word(const void *vm, uint64_t process, uintptr_t word);
void baton_rs_safepoint(const void *vm);
/* The same in the middle of a foreign function: others run on other native threads. */
void baton_rs_safepoint_in_call(const void *vm);
/* In a simulated run, before a safepoint: so many steps were made since the last one. Answers how
   many to make until the next. */
uint32_t baton_rs_count_steps(const void *vm, uint32_t steps);
void baton_rs_enter_cold(const void *vm); /* from outside; returns inside */
void baton_rs_enter_cold_pinned(const void *vm); /* the same, on the same thread */
/* To another native thread, and out of the VM, for a foreign call: `Departure` of the executor. */
enum baton_departure { BATON_MOVED, BATON_STAYS, BATON_NO_THREAD };
int baton_rs_move_out(const void *vm);
/* The age in nanoseconds at which a foreign call may be retaken. Without the VM. */
uint64_t baton_rs_window(const void *vm);
/* The parameter warn_blocked, in nanoseconds. */
uint64_t baton_rs_warn_blocked(const void *vm);
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
/* To the thread of a name, or with NULL to none. Writes a message when there cannot be such a
   thread. */
void baton_rs_bind(const void *vm, uint64_t process, const char *name, char *message, size_t size);
/* These write a text, or nothing: the thread that a process is bound to, and what it waits for. */
void baton_rs_bound_to(const void *vm, uint64_t process, char *name, size_t size);
void baton_rs_blocker(const void *vm, uint64_t process, char *text, size_t size);
/* The number of the calling process's thread; writes its name, or nothing. */
int baton_rs_thread(const void *vm, char *name, size_t size);
void baton_rs_set_pinned(const void *vm, uint64_t process, int pinned); /* to the calling thread */
/* Whether some process can continue on the calling thread alone. */
int baton_rs_thread_is_needed(const void *vm);
int baton_rs_state(const void *vm, uint64_t process);
/* Seconds. Processor time is at most the time of its runs. */
struct baton_time_used {
  double running, cpu;
};

struct baton_time_used baton_rs_time_used(const void *vm, uint64_t process);
void baton_rs_stack_bounds(
    const void *vm, uint64_t process, uintptr_t *guard, uintptr_t *low, uintptr_t *high);
size_t baton_rs_stack_used(const void *vm, uint64_t process);
int baton_rs_threads(const void *vm);
void baton_rs_stop(const void *vm);
size_t baton_rs_list(const void *vm, uintptr_t *words, size_t capacity);
/* From signal handlers and other threads, without the VM. */
void baton_rs_request_signalled(const void *vm);

/* Memory, without the VM. Whether the Rust half has its reserve (again), and whether so many bytes
   more could be had. */
/* atomic; not 0: ask baton_rs_replenish before anything is made */
extern uint32_t baton_memory_is_short;
int baton_rs_replenish(void);
int baton_rs_has_room(size_t size);
int baton_rs_hold_least(void); /* whether there is some reserve (again) */
/* Whether there is memory for one more object or process, and one more value in a channel (0:
   none). Inside the VM. */
int baton_rs_replenish_for_object(const void *vm, uint64_t channel);

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
struct baton_wake baton_rs_condition_wait(
    const void *vm, uint64_t id, uint64_t mutex, baton_timeout timeout);
void baton_rs_condition_signal(const void *vm, uint64_t id, int all);
uint64_t baton_rs_event_new(const void *vm);
struct baton_wake baton_rs_event_wait(const void *vm, uint64_t id, baton_timeout timeout);
void baton_rs_event_set(const void *vm, uint64_t id, int on);
int baton_rs_event_is_set(const void *vm, uint64_t id);
uint64_t baton_rs_channel_new(const void *vm, uint64_t capacity);
struct baton_wake baton_rs_channel_send(
    const void *vm, uint64_t id, uint64_t value, baton_timeout timeout);
struct baton_wake baton_rs_channel_receive(const void *vm, uint64_t id, baton_timeout timeout);
void baton_rs_channel_close(const void *vm, uint64_t id);
/* Gives a value to a channel, beyond its capacity if need be, and gives way to nobody. 0: it is
   closed. "Once": unless such a value is in its buffer already. */
int baton_rs_channel_post(const void *vm, uint64_t id, uint64_t value);
void baton_rs_channel_post_once(const void *vm, uint64_t id, uint64_t value);
void baton_rs_channel_clear(const void *vm, uint64_t id);
/* Whether values are posted for reasons outside of the program, so that to wait for one is no
   deadlock. */
void baton_rs_channel_set_fed(const void *vm, uint64_t id, int is_fed);
uint64_t baton_rs_channel_length(const void *vm, uint64_t id);
enum baton_case_kind {
  BATON_CASE_RECEIVE,
  BATON_CASE_SEND,
  BATON_CASE_JOIN,
  BATON_CASE_EVENT,
  BATON_CASE_SEMAPHORE,
  BATON_CASE_MUTEX,
  BATON_CASE_ALARM,
  BATON_CASE_DESCRIPTOR,
  BATON_CASE_CLOSED, /* ready as the case of a closed channel is */
  BATON_CASE_READY
};
struct baton_case {
  int kind;
  uint32_t wants; /* of a descriptor: BATON_WANTS_READ, ... */
  uint64_t id;    /* the object's; a descriptor's number */
  uint64_t value; /* to send */
};
/* Writes a message, and says "timed out", if a case cannot be waited for. Misuse: the process holds
   that mutex, or is that process itself. */
struct baton_wake baton_rs_select(const void *vm, const struct baton_case *cases, size_t count,
    baton_timeout timeout, char *message, size_t size);
uint64_t baton_rs_queue_new(const void *vm);
struct baton_wake baton_rs_queue_wait(const void *vm, uint64_t id, baton_timeout timeout);
/* Resumes the process (0: none) and wakes one waiter of the queue, soon. From other threads,
   without the VM. */
void baton_rs_visit(const void *vm, uint64_t process, uint64_t queue);
void baton_rs_queue_wake_all(const void *vm, uint64_t id);
uint64_t baton_rs_rwlock_new(const void *vm);
struct baton_wake baton_rs_rwlock_lock(
    const void *vm, uint64_t id, int writes, baton_timeout timeout);
int baton_rs_rwlock_unlock(const void *vm, uint64_t id);
uint64_t baton_rs_barrier_new(const void *vm, uint64_t size);
/* value 1: the last one */
struct baton_wake baton_rs_barrier_wait(const void *vm, uint64_t id, baton_timeout timeout);
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
void baton_rs_free(const void *vm, int kind, uint64_t id);
/*
** Whether the calling process closes a cycle of locks if it waits for this one without a timeout: 0
** no; 1 yes, and a warning is due; 2 yes, and it is to raise an error. Writes the cycle.
*/
int baton_rs_closes_cycle(const void *vm, int kind, uint64_t id, char *text, size_t size);
/* The name of an object, for reports; the second writes it, or nothing. */
void baton_rs_set_object_name(const void *vm, int kind, uint64_t id, const char *name);
void baton_rs_object_name(const void *vm, int kind, uint64_t id, char *name, size_t size);

/*
** Waiting for descriptors: see `Vm::await_ready`. Answers a reason, negative if a descriptor cannot
** be waited for. `harvests` was read from baton_rs_harvests before the attempt that would have
** blocked. Registrations with `keep` last until baton_rs_descriptor_closes; without, they are
** renewed for each wait.
*/
enum { BATON_WANTS_READ = 1, BATON_WANTS_WRITE = 2, BATON_WANTS_PRIORITY = 4 };
struct baton_watch {
  uint32_t descriptor;
  uint32_t wants;
};
#define BATON_NO_DEADLINE UINT64_MAX
int baton_rs_await_ready(const void *vm, const struct baton_watch *watches, size_t count, int keep,
    uint64_t harvests, uint64_t deadline);
/*
** The process waits until `attempt` answers nonzero, which must not block. It is called at once,
** with -1, and each time that one of the descriptors may be ready, with its index and what it is
** ready for. Registrations are renewed for each wait. Answers as above.
*/
typedef int (*baton_attempt)(void *argument, int which, unsigned ready);
int baton_rs_wait_ready(const void *vm, const struct baton_watch *watches, size_t count,
    uint64_t deadline, baton_attempt attempt, void *argument);
uint64_t baton_rs_harvests(const void *vm); /* on any thread, without the VM */
/* How many events have come for a descriptor whose registration is kept; negative: it is not. */
int64_t baton_rs_descriptor_news(const void *vm, uint32_t descriptor);
/* Before the closing: processes that wait are told. */
void baton_rs_descriptor_closes(const void *vm, uint32_t descriptor);

/* The text of a file of lua/, named without its ending. Without the VM. */
const char *baton_rs_lua_source(const char *name, size_t *size);

/* Alarms: times that processes wait for, absolute. */
uint64_t baton_rs_alarm_new(const void *vm, uint64_t due);
void baton_rs_alarm_set(const void *vm, uint64_t id, uint64_t due);
int baton_rs_alarm_cancel(const void *vm, uint64_t id); /* nonzero: it would have gone off */
int baton_rs_alarm_has_gone_off(const void *vm, uint64_t id);
struct baton_wake baton_rs_alarm_wait(const void *vm, uint64_t id, baton_timeout timeout);

/* Timers. `first` is absolute; a period of 0 fires once. */
uint64_t baton_rs_timer_new(const void *vm, uint64_t first, uint64_t period, uint64_t prepared);
int baton_rs_timer_prepare(const void *vm, uint64_t timer, uint64_t prepared);
/* Answers the record of the process that the timer would have fired, or 0. */
uintptr_t baton_rs_timer_cancel(const void *vm, uint64_t timer);
void baton_rs_timer_stats(const void *vm, uint64_t timer, uint64_t *fired, uint64_t *skipped);

/*
** Parameters, by name. Reading one answers its kind, the last of which is told in `text`, all
** others in `value`. Setting one to a word if `text` is not NULL, else to `value`, answers nonzero;
** 0 if a message was written.
*/
enum baton_parameter { BATON_UNKNOWN, BATON_NUMBER, BATON_WHOLE, BATON_SWITCH, BATON_WORD };
int baton_rs_parameter(const void *vm, const char *name, double *value, const char **text);
int baton_rs_set_parameter(
    const void *vm, const char *name, double value, const char *text, char *message, size_t size);
const char *baton_rs_parameter_name(size_t index);
/* BATON_* of the environment; nonzero and a message if one of them is wrong. */
int baton_rs_read_environment(const void *vm, char *message, size_t size);
/* The counters, as far as there is room, inside the VM; answers how many there are. A time is in
   nanoseconds. */
struct baton_counter {
  const char *name;
  uint64_t value;
  int is_time;
};
size_t baton_rs_counters(const void *vm, struct baton_counter *counters, size_t room);
/* Features, by index; NULL after the last. */
const char *baton_rs_feature(size_t index, const char **text, int *flag);

#endif
