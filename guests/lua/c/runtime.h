/*
** The functions of the Rust half (src/bridge.rs) that the C half calls. All are called inside the
** VM, unless a comment says otherwise. `vm` is the executor (`baton_core::vm::Vm`). A process is
** named by its id in the scheduler.
*/
#ifndef BATON_RUNTIME_H
#define BATON_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

/* Why a wait ended: `WakeReason` of the scheduler. */
enum baton_reason {
  BATON_DONE,
  BATON_TIMED_OUT,
  BATON_CLOSED,
  BATON_GONE,
  BATON_ABANDONED,
  BATON_KILLED,
  BATON_INTERRUPTED,
  BATON_MISUSE, /* the call was refused: recursive lock, or not the owner */
  BATON_FORBIDDEN /* the process would have to wait, but is in a critical section */
};

struct baton_wake {
  uint32_t reason;
  uint32_t case_index;
  uint64_t value;
};

/* A duration in nanoseconds. Negative: no limit. Zero: do not wait. */
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

#define BATON_THREAD_NAME 63 /* maximal length of a thread's name in bytes */
#define BATON_BLOCKER 1024    /* buffer size for what a process waits for, the zero byte included */
#define BATON_OBJECT_NAME 100 /* buffer size for a synchronization object's name, escaped */
#define BATON_MESSAGE 240

struct baton_spawn {
  uintptr_t user_data; /* the guest's record of the process */
  size_t stack_size;   /* bytes; 0: the parameter */
  int priority;        /* 1..80; 0: the calling process's */
  int preemptible, daemon, quiet, suspended;
  char thread[BATON_THREAD_NAME + 1]; /* the thread that it is bound to; empty: none */
  int by_timer;        /* a timer starts it */
};

/* Processes. baton_rs_spawn returns 0 and writes a message if it cannot make one. */
uint64_t baton_rs_spawn(
    const void *vm, const struct baton_spawn *options, char *message, size_t size);
void baton_rs_forget(const void *vm, uint64_t process);
void baton_rs_yield(const void *vm);
void baton_rs_yield_to(const void *vm, uint64_t process);
void baton_rs_give_way(const void *vm); /* to a more urgent process */
/* Critical sections of the calling process. Leaving one does not switch: baton_rs_give_way does. */
void baton_rs_enter_critical(const void *vm);
void baton_rs_leave_critical(const void *vm);
/* Switches the calls of baton_lua_scheduler_hook on or off, and those of baton_lua_switch_hook for
   one process. */
void baton_rs_set_choosing(const void *vm, int on);
void baton_rs_set_hooked(const void *vm, uint64_t process, int on);
void baton_rs_set_word(const void *vm, uint64_t process, uintptr_t user_data);
void baton_rs_safepoint(const void *vm);
/* A safepoint in the middle of a foreign function: others run on other native threads. */
void baton_rs_safepoint_in_call(const void *vm);
/* In a simulated run, before a safepoint: counts the steps since the last one. Returns the number
   of steps until the next one. */
uint32_t baton_rs_count_steps(const void *vm, uint32_t steps);
void baton_rs_enter_cold(const void *vm); /* from outside; returns inside */
void baton_rs_enter_cold_pinned(const void *vm); /* the same, on the same thread */
/* Offloads the coming foreign call: moves to another native thread and leaves the VM. */
enum baton_offload { BATON_MOVED, BATON_STAYS, BATON_NO_THREAD };
int baton_rs_move_out(const void *vm);
/* The age in nanoseconds at which a foreign call may be retaken. Outside the VM, too. */
uint64_t baton_rs_window(const void *vm);
/* The parameter warn_blocked, in nanoseconds. */
uint64_t baton_rs_warn_blocked(const void *vm);
struct baton_wake baton_rs_sleep_until(const void *vm, uint64_t nanoseconds);
struct baton_wake baton_rs_join(const void *vm, uint64_t process, baton_timeout timeout);
struct baton_wake baton_rs_wait_for_rest(const void *vm, baton_timeout timeout);
int baton_rs_joiners(const void *vm, uint64_t process);
/* Lets the joiners of a process continue, shortly before its real end. */
void baton_rs_release_joiners(const void *vm, uint64_t process);
/* 0: done, or nothing to do; 1: dead; 2: the calling process must raise its kill. */
int baton_rs_suspend(const void *vm, uint64_t process);
int baton_rs_resume(const void *vm, uint64_t process);
/* 0: done; 1: dead; 2: it is the calling process. */
int baton_rs_kill(const void *vm, uint64_t process);
void baton_rs_set_kill_hold(const void *vm, uint64_t process, int holds);
/* Ends a process that has not run yet. Returns 0 if it has run. */
int baton_rs_end_unstarted(const void *vm, uint64_t process);
void baton_rs_pardon(const void *vm, uint64_t process);
/* Before a call that may block: waits until a native thread would be left for the others. */
struct baton_wake baton_rs_wait_for_thread(const void *vm);
/* The maximal number of native threads, without those with names. Also on the monitor's thread. */
size_t baton_rs_threads_for_calls(const void *vm);
int baton_rs_interrupt(const void *vm, uint64_t process);
int baton_rs_priority(const void *vm, uint64_t process);
void baton_rs_set_priority(const void *vm, uint64_t process, int priority);
/* Binds the process to the thread with this name, or with NULL to none. Writes a message if there
   cannot be such a thread. */
void baton_rs_bind(const void *vm, uint64_t process, const char *name, char *message, size_t size);
/* These write a text, or nothing: the thread that a process is bound to, what it waits for. */
void baton_rs_bound_to(const void *vm, uint64_t process, char *name, size_t size);
void baton_rs_blocker(const void *vm, uint64_t process, char *text, size_t size);
/* The number of the calling process's thread. Writes the thread's name, or nothing. */
int baton_rs_thread(const void *vm, char *name, size_t size);
void baton_rs_set_pinned(const void *vm, uint64_t process, int pinned); /* to the calling thread */
/* Whether some process can continue only on the calling thread. */
int baton_rs_thread_is_needed(const void *vm);
int baton_rs_state(const void *vm, uint64_t process);
/* Seconds. The processor time is at most the running time. */
struct baton_time_used {
  double running, cpu;
};

struct baton_time_used baton_rs_time_used(const void *vm, uint64_t process);
void baton_rs_stack_bounds(
    const void *vm, uint64_t process, uintptr_t *guard, uintptr_t *low, uintptr_t *high);
size_t baton_rs_stack_used(const void *vm, uint64_t process);
int baton_rs_threads(const void *vm);
void baton_rs_stop(const void *vm);
size_t baton_rs_list(const void *vm, uintptr_t *records, size_t capacity);
/* In signal handlers and on other threads, outside the VM. */
void baton_rs_request_signalled(const void *vm);

/* Memory. Outside the VM, too. baton_rs_replenish fills the Rust half's reserve, baton_rs_has_room
   checks for so many bytes. Both return 0 without memory. */
/* atomic; not 0: call baton_rs_replenish before making anything */
extern uint32_t baton_memory_is_short;
int baton_rs_replenish(void);
int baton_rs_has_room(size_t size);
int baton_rs_hold_least(void); /* fills a part of the reserve; returns 0 without memory */
/* Whether there is memory for one more object or process, and for one more value in a channel (0:
   no channel). Inside the VM. */
int baton_rs_replenish_for_object(const void *vm, uint64_t channel);

/* The monotonic clock, in nanoseconds. Outside the VM, too. */
uint64_t baton_rs_now(void);

/* Objects, named by their ids in the scheduler. */
uint64_t baton_rs_semaphore_new(const void *vm, uint64_t count);
struct baton_wake baton_rs_semaphore_wait(const void *vm, uint64_t id, baton_timeout timeout);
void baton_rs_semaphore_signal(const void *vm, uint64_t id, uint64_t n);
uint64_t baton_rs_semaphore_count(const void *vm, uint64_t id);
/* Signals once. On any thread, outside the VM. */
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
/* Puts a value into a channel, beyond its capacity if need be, without a switch. Returns 0 if the
   channel is closed. `once`: only if its buffer has no such value. */
int baton_rs_channel_post(const void *vm, uint64_t id, uint64_t value);
void baton_rs_channel_post_once(const void *vm, uint64_t id, uint64_t value);
void baton_rs_channel_clear(const void *vm, uint64_t id);
/* Whether values come from outside of the program. Then a wait for one is no deadlock. */
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
  BATON_CASE_CLOSED, /* ready, as the case of a closed channel */
  BATON_CASE_READY
};
struct baton_case {
  int kind;
  uint32_t wants; /* of a descriptor: BATON_WANTS_READ, ... */
  uint64_t id;    /* of the object; or the descriptor's number */
  uint64_t value; /* the value to send */
};
/* If a case cannot be waited for, writes a message and returns BATON_TIMED_OUT. BATON_MISUSE: the
   process holds that mutex, or would join itself. */
struct baton_wake baton_rs_select(const void *vm, const struct baton_case *cases, size_t count,
    baton_timeout timeout, char *message, size_t size);
uint64_t baton_rs_queue_new(const void *vm);
struct baton_wake baton_rs_queue_wait(const void *vm, uint64_t id, baton_timeout timeout);
/* Soon resumes the process (0: none) and wakes one waiter of the queue. On other threads, outside
   the VM. */
void baton_rs_visit(const void *vm, uint64_t process, uint64_t queue);
void baton_rs_queue_wake_all(const void *vm, uint64_t id);
uint64_t baton_rs_rwlock_new(const void *vm);
struct baton_wake baton_rs_rwlock_lock(
    const void *vm, uint64_t id, int writes, baton_timeout timeout);
int baton_rs_rwlock_unlock(const void *vm, uint64_t id);
uint64_t baton_rs_barrier_new(const void *vm, uint64_t size);
/* value 1: this is the last process to arrive */
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
** Whether the calling process would close a cycle of locks by waiting for this one without a
** timeout. Returns 0 for no, 1 for yes with a warning, 2 for yes with an error. Writes the cycle.
*/
int baton_rs_closes_cycle(const void *vm, int kind, uint64_t id, char *text, size_t size);
/* The name of an object, for reports. The second function writes it, or nothing. */
void baton_rs_set_object_name(const void *vm, int kind, uint64_t id, const char *name);
void baton_rs_object_name(const void *vm, int kind, uint64_t id, char *name, size_t size);

/*
** Waits for descriptors: see `Inside::await_ready`. Returns a reason; negative if a descriptor
** cannot be waited for. `harvests` is the result of baton_rs_harvests before the attempt that would
** have blocked. Registrations with `keep` last until baton_rs_descriptor_closes. Others are renewed
** for each wait.
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
** Waits until `attempt` returns nonzero. `attempt` must not block. It is called at once with -1.
** Then it is called each time that a descriptor may be ready, with its index and what it is ready
** for. Registrations are renewed for each wait. Returns the same as baton_rs_await_ready.
*/
typedef int (*baton_attempt)(void *argument, int which, unsigned ready);
int baton_rs_wait_ready(const void *vm, const struct baton_watch *watches, size_t count,
    uint64_t deadline, baton_attempt attempt, void *argument);
uint64_t baton_rs_harvests(const void *vm); /* on any thread, outside the VM, too */
/* The number of events of a descriptor whose registration is kept; negative: it is not kept. */
int64_t baton_rs_descriptor_news(const void *vm, uint32_t descriptor);
/* Before a descriptor is closed: wakes the processes that wait for it. */
void baton_rs_descriptor_closes(const void *vm, uint32_t descriptor);

/* The text of a file of lua/, named without its extension. Outside the VM, too. */
const char *baton_rs_lua_source(const char *name, size_t *size);

/* Alarms: absolute times that processes wait for. */
uint64_t baton_rs_alarm_new(const void *vm, uint64_t due);
void baton_rs_alarm_set(const void *vm, uint64_t id, uint64_t due);
int baton_rs_alarm_cancel(const void *vm, uint64_t id); /* nonzero: it was still to go off */
int baton_rs_alarm_has_gone_off(const void *vm, uint64_t id);
struct baton_wake baton_rs_alarm_wait(const void *vm, uint64_t id, baton_timeout timeout);

/* Timers. `first` is an absolute time. With a period of 0 it fires once. */
uint64_t baton_rs_timer_new(const void *vm, uint64_t first, uint64_t period, uint64_t prepared);
int baton_rs_timer_prepare(const void *vm, uint64_t timer, uint64_t prepared);
/* Returns the record of the process that the timer would have started, or 0. */
uintptr_t baton_rs_timer_cancel(const void *vm, uint64_t timer);
void baton_rs_timer_stats(const void *vm, uint64_t timer, uint64_t *fired, uint64_t *skipped);

/*
** Parameters, by name. Reading a parameter returns its kind. A BATON_WORD is in `text`, all others
** are in `value`. Setting uses `text` unless it is NULL, and else `value`. It returns nonzero, or
** writes a message and returns 0.
*/
enum baton_parameter { BATON_UNKNOWN, BATON_NUMBER, BATON_WHOLE, BATON_SWITCH, BATON_WORD };
int baton_rs_parameter(const void *vm, const char *name, double *value, const char **text);
int baton_rs_set_parameter(
    const void *vm, const char *name, double value, const char *text, char *message, size_t size);
const char *baton_rs_parameter_name(size_t index);
/* Reads BATON_* of the environment. Returns nonzero and writes a message if one of them is
   wrong. */
int baton_rs_read_environment(const void *vm, char *message, size_t size);
/* Reads the counters, up to `room` of them. Returns how many there are. Times are in nanoseconds.
   Inside the VM. */
struct baton_counter {
  const char *name;
  uint64_t value;
  int is_time;
};
size_t baton_rs_counters(const void *vm, struct baton_counter *counters, size_t room);
/* A feature's name by index; NULL after the last. */
const char *baton_rs_feature(size_t index, const char **text, int *flag);

#endif
