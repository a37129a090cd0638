/*
** Who may park, and how.
**
** The executable exports functions of the C library's names, which the symbols of modules and of what they bring resolve to first. A call parks only
** if all of this holds; everything else is the system's own call, in its own way interrupted, cancelled and retaken:
**
**   - its return address lies in a library that is listed: known (policies.c), or declared by process.concurrent. Code that holds
**     a mutex across a wait deadlocks with the next process on its thread, so nobody is listed by default
**   - it is made by a process, on its own stack, outside the VM: not by another thread, a signal handler, or a child of fork or vfork
**   - the C function that the process is in is a module's whose policy allows other calls meanwhile. That excludes all that runs while a library is
**     loaded: then it is a function of ours, or one that opens a module
**   - not in a critical section, in a finalizer, in a scheduler or a switch hook, in a call on another process's state, nor at the end of the program
**
** While it is parked, the object of the call is in use by the module's policy. The process stays on its native thread, as its C code may
** have kept addresses of thread-local things.
*/
#include "internals.h"
#include "parked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

/* {======================================================
** Listed libraries
** ======================================================= */

#define MOST_LISTED 64

/* Read by any thread at any time; written inside the VM. A place is written before it is counted. */
static struct {
  const char *low, *high;
} listed[MOST_LISTED];
static atomic_int listed_count;

static int is_listed(const void *address) {
  int i, count = atomic_load_explicit(&listed_count, memory_order_acquire);
  for (i = 0; i < count; i++)
    if ((const char *)address >= listed[i].low && (const char *)address < listed[i].high) return 1;
  return 0;
}

void baton_lua_list_library(const char *low, const char *high) {
  int count = atomic_load_explicit(&listed_count, memory_order_relaxed);
  if (is_listed(low)) return;
  if (count == MOST_LISTED) {
    fprintf(stderr, "baton: warning: calls of more than %d libraries cannot park; those of the others keep their native threads\n", MOST_LISTED);
    return;
  }
  listed[count].low = low;
  listed[count].high = high;
  atomic_store_explicit(&listed_count, count + 1, memory_order_release);
}

/* }====================================================== */

/* {======================================================
** Who
** ======================================================= */

/* Of the program, or of a fork's child that has gone on as one. In a child of vfork, which shares all else with its parent, it is another. */
static pid_t program;

int baton_is_program(void) { return (pid_t)syscall(SYS_getpid) == program; }

__attribute__((constructor)) static void note_program(void) { program = getpid(); }

void baton_lua_park_in_child(void) { note_program(); }

static int is_in_finalizer(const struct baton_process *process) {
  const struct baton_mark *mark;
  for (mark = process->marks; mark != NULL; mark = mark->previous)
    if (mark->kind == BATON_MARK_FINALIZER) return 1;
  return 0;
}

static int is_on_own_stack(const struct baton_process *process) {
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return here >= process->stack_low && here < process->stack_high;
}

int baton_may_park(const struct baton_process *process) {
  const struct baton_vm *vm = process->vm;
  if ((baton_gate_here()->gate & 1) == 0 || !is_on_own_stack(process)) return 0;
  if (process->global == NULL || vm->closing || vm->hook_process == process) return 0;
  return process->foreign_states == 0 && process->criticals == 0 && !is_in_finalizer(process);
}

struct baton_process *baton_who_parks(const void *caller) {
  struct baton_process *process = baton_gate_process();
  return process != NULL && is_listed(caller) && baton_may_park(process) && !baton_is_in_handler(process) ? process : NULL;
}

/* }====================================================== */

/* {======================================================
** Parking
** ======================================================= */

static unsigned handlers_so_far(const struct baton_process *process) {
  struct baton_handled *on = process->parked_on;
  /* Relaxed (both): the thread's own, or released by the handler's request. */
  return atomic_load_explicit(process->ended_by == BATON_BY_ANY_HANDLER ? &on->ran : &on->broke_off, memory_order_relaxed);
}

struct baton_since baton_since_now(void) {
  struct baton_handled *on = baton_handled_here();
  /* Relaxed (both): the thread's own. */
  const struct baton_since since = {on, atomic_load_explicit(&on->ran, memory_order_relaxed), atomic_load_explicit(&on->broke_off, memory_order_relaxed)};
  return since;
}

/* From when on handlers end the wait that begins: the call may have begun before. What has run on a thread that the process has left since does not count. */
static unsigned handlers_before(const struct baton_process *process, const struct baton_since *since) {
  if (since == NULL || since->on != process->parked_on) return handlers_so_far(process);
  return process->ended_by == BATON_BY_ANY_HANDLER ? since->ran : since->broke_off;
}

/* Whether the process is parked, and a handler has run on its thread since it began to be that ends its wait. */
static int is_ended_by_handler(const struct baton_process *process) {
  if (process->parked_on == NULL || process->ended_by == BATON_BY_NO_HANDLER) return 0;
  return handlers_so_far(process) != process->handlers_before;
}

void baton_end_by_any_handler(struct baton_process *process) {
  if (process->parked_on == NULL || process->ended_by == BATON_BY_ANY_HANDLER || is_ended_by_handler(process)) return;
  process->ended_by = BATON_BY_ANY_HANDLER;
  process->handlers_before = handlers_so_far(process);
}

void baton_lua_end_waits_for_handlers(const struct baton_vm *vm) {
  struct baton_process *process;
  if (vm->parked == 0) return;
  for (process = vm->main_process; process != NULL; process = process->next_live)
    if (is_ended_by_handler(process)) baton_rs_interrupt(vm->executor, process->kernel_id); /* who is on its way finds out by itself */
}

/* Enters the VM to park. 0: the process is in a C function that must not be left; it has not entered then. */
static int begin(lua_State *L, struct baton_process *process, enum baton_ended_by ended_by, const struct baton_since *since) {
  const lua_CFunction function = baton_lua_running_function(L);
  enum baton_lane lane;
  void *object;
  /* A function of ours is refused before the VM is entered: who comes in may be continued on another thread, and a library may have frames on the stack. */
  if (!baton_is_program() || function == NULL || baton_lua_is_ours(function)) return 0;
  baton_enter(L);
  if (!baton_lua_policy_lets_park(process, L, &object, &lane)) {
    baton_leave(L);
    return 0;
  }
  if (!process->pinned) { /* taken back by the first switch that finds no foreign frames on its stack */
    process->pinned = 1;
    baton_rs_set_pinned(process->vm->executor, process->kernel_id, 1);
  }
  baton_lua_use_begins(&process->use, process, object, lane);
  process->vm->parked++;
  baton_signal_fence(); /* a handler that runs from here on asks for a look at who is parked */
  process->parked_on = baton_handled_here();
  process->ended_by = ended_by;
  process->handlers_before = handlers_before(process, since);
  return 1;
}

/* On the calling thread as it is now (see restore_errno in seam.c). */
__attribute__((noinline)) void baton_set_errno(int value) {
  errno = value;
  __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) int get_errno(void) {
  __asm__ volatile("" ::: "memory");
  return errno;
}

/* The other way round. `why` is a reason, negative if a descriptor cannot be waited for. */
static enum baton_parked end(lua_State *L, struct baton_process *process, int why) {
  int error = get_errno();
  enum baton_parked parked = BATON_PARK_FAILED;
  const int by_handler = is_ended_by_handler(process);
  baton_lua_use_ends(&process->use);
  process->parked_on = NULL;
  process->vm->parked--;
  switch (why) {
    case BATON_DONE: parked = BATON_PARK_DONE; break;
    case BATON_TIMED_OUT: parked = BATON_PARK_TIMEOUT; break;
    case BATON_CLOSED: error = EBADF; break;
    case BATON_INTERRUPTED: /* raised once the C function has returned */
      if (by_handler && !process->interrupted) {
        error = EINTR;
        break;
      }
      process->interrupted = 1;
      baton_lua_arm(L);
      error = ECANCELED;
      break;
    case BATON_KILLED: error = ECANCELED; break;
    default: parked = BATON_PARK_REFUSED; break;
  }
  baton_leave(L);
  baton_set_errno(error);
  return parked;
}

/*
** In a simulated run nothing waits for a descriptor: what is ready is ready; else the call fails, and an error that says more is raised when its function
** next enters the VM.
*/
static enum baton_parked try_once(struct baton_process *process, baton_attempt attempt, void *argument) {
  if (attempt(argument, -1, 0)) return BATON_PARK_DONE;
  process->refused = 1;
  __atomic_fetch_or(&baton_gate_here()->slow, BATON_SLOW_ATTENTION, __ATOMIC_ACQ_REL); /* as a signal handler does (signals.c) */
  baton_set_errno(ECANCELED);
  return BATON_PARK_FAILED;
}

/* An attempt that is the last one if a handler has run between two: it has found no wait to end then. */
struct tries {
  const struct baton_process *process;
  baton_attempt attempt;
  void *argument;
  int has_succeeded;
};

static int try_unless_ended(void *argument, int which, unsigned ready) {
  struct tries *tries = argument;
  tries->has_succeeded = tries->attempt(tries->argument, which, ready);
  return tries->has_succeeded || is_ended_by_handler(tries->process);
}

enum baton_parked baton_park_until(struct baton_process *process, const struct baton_watch *watches, size_t count, uint64_t deadline,
                                   enum baton_ended_by ended_by, const struct baton_since *since, baton_attempt attempt, void *argument) {
  lua_State *L = baton_lua_innermost(process);
  struct tries tries = {process, attempt, argument, 0};
  int why;
  if (baton_simulated && count > 0 && baton_is_program()) return try_once(process, attempt, argument);
  if (!begin(L, process, ended_by, since)) return BATON_PARK_REFUSED;
  why = baton_rs_wait_ready(process->vm->executor, watches, count, deadline, try_unless_ended, &tries);
  return end(L, process, why == BATON_DONE && !tries.has_succeeded ? BATON_INTERRUPTED : why);
}

/*
** A kill or an interrupt that is on its way ends one sleep. If the function sleeps again instead of returning, it is left to the system's own: it would ask
** again and again, and let nobody run.
*/
static int sleeps_again(struct baton_process *process) {
  const int is_due = process->interrupted || (process->killed && baton_lua_kill_is_due(process));
  const int again = is_due && process->has_slept_short;
  process->has_slept_short = (unsigned char)is_due;
  return again;
}

enum baton_parked baton_park_asleep(struct baton_process *process, uint64_t deadline) {
  lua_State *L = baton_lua_innermost(process);
  enum baton_parked parked;
  if (sleeps_again(process) || !begin(L, process, BATON_BY_ANY_HANDLER, NULL)) return BATON_PARK_REFUSED;
  parked = end(L, process, (int)baton_rs_sleep_until(process->vm->executor, process->interrupted ? 0 : deadline).reason);
  if (parked == BATON_PARK_FAILED && get_errno() == ECANCELED) process->has_slept_short = 1;
  return parked;
}

int baton_poll_now(struct pollfd *fds, nfds_t count) {
  int result;
  do {
    result = baton_system()->poll(fds, count, 0);
  } while (result < 0 && errno == EINTR);
  return result;
}

int baton_is_ready(void *argument, int which, unsigned ready) {
  (void)which;
  (void)ready;
  return baton_poll_now(argument, 1) != 0;
}

enum baton_parked baton_park_for(struct baton_process *process, int descriptor, short events, uint64_t deadline, enum baton_ended_by ended_by,
                                 const struct baton_since *since) {
  struct pollfd asked = {descriptor, events, 0};
  struct baton_watch watch = {(uint32_t)descriptor, baton_wants(events)};
  return baton_park_until(process, &watch, 1, deadline, ended_by, since, baton_is_ready, &asked);
}

/* }====================================================== */

/* {======================================================
** What the calls ask
** ======================================================= */

unsigned baton_wants(short events) {
  unsigned wants = 0;
  if (events & (POLLIN | POLLRDNORM | POLLRDBAND | POLLRDHUP)) wants |= BATON_WANTS_READ;
  if (events & (POLLOUT | POLLWRNORM | POLLWRBAND)) wants |= BATON_WANTS_WRITE;
  if (events & POLLPRI) wants |= BATON_WANTS_PRIORITY;
  return wants;
}

uint64_t baton_deadline_after(const struct timespec *timeout) {
  const uint64_t longest = BATON_NO_DEADLINE / 4 / 1000000000u; /* 146 years */
  if (timeout == NULL || (uint64_t)timeout->tv_sec > longest) return BATON_NO_DEADLINE;
  return baton_rs_now() + (uint64_t)timeout->tv_sec * 1000000000u + (uint64_t)timeout->tv_nsec;
}

int baton_is_nonblocking(int descriptor) { return (fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0; }

int baton_is_stream(int descriptor) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

short baton_ready_for(int descriptor, short events) {
  struct pollfd asked = {descriptor, events, 0};
  return baton_poll_now(&asked, 1) > 0 ? asked.revents : 0;
}

uint64_t baton_deadline_of_socket(int descriptor, int option) {
  struct timeval limit = {0, 0};
  socklen_t size = sizeof limit;
  struct timespec timeout;
  if (getsockopt(descriptor, SOL_SOCKET, option, &limit, &size) != 0 || (limit.tv_sec == 0 && limit.tv_usec == 0)) return BATON_NO_DEADLINE;
  timeout.tv_sec = limit.tv_sec;
  timeout.tv_nsec = limit.tv_usec * 1000;
  return baton_deadline_after(&timeout);
}

/* }====================================================== */
