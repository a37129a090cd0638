/*
** Calls that wait for descriptors or for time: poll, select, epoll_wait, sleep and their relatives, by the rules of parked.c. With a signal mask to set
** meanwhile they are the system's own: a mask belongs to a native thread.
*/
#include "parked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NANOSECONDS 1000000000u

/* Of relative times that poll and its relatives refuse. */
static int is_time(const struct timespec *time) { return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < (long)NANOSECONDS; }

static int is_zero(const struct timespec *time) { return time->tv_sec == 0 && time->tv_nsec == 0; }

/* What is left until the deadline. */
static struct timespec time_until(uint64_t deadline) {
  const uint64_t now = baton_rs_now(), left = deadline > now ? deadline - now : 0;
  const struct timespec time = {(time_t)(left / NANOSECONDS), (long)(left % NANOSECONDS)};
  return time;
}

/* Watches for some descriptors: a few without asking for memory. */
#define FEW 16

struct watches {
  struct baton_watch few[FEW], *all;
  size_t count;
};

/* Room for so many; 0 without memory. */
static int make_room(struct watches *watches, size_t count) {
  watches->count = 0;
  watches->all = count <= FEW ? watches->few : malloc(count * sizeof *watches->all);
  return watches->all != NULL;
}

static void add_watch(struct watches *watches, int descriptor, unsigned wants) {
  watches->all[watches->count].descriptor = (uint32_t)descriptor;
  watches->all[watches->count++].wants = wants;
}

static void free_watches(struct watches *watches) {
  if (watches->all != watches->few) free(watches->all);
}

/* {======================================================
** poll
** ======================================================= */

struct poll_call {
  struct pollfd *fds;
  nfds_t count;
  int result;
};

static int try_poll(void *argument, int which, unsigned ready) {
  struct poll_call *call = argument;
  if (which >= 0 && call->count == 1 && !(call->fds->events & ~(POLLIN | POLLOUT))) { /* the poller has just said it */
    short events = 0;
    if (ready & BATON_WANTS_READ) events |= POLLIN;
    if (ready & BATON_WANTS_WRITE) events |= POLLOUT;
    events &= call->fds->events;
    if (!(ready & BATON_IS_FAILED) && events != 0) {
      call->fds->revents = events;
      return call->result = 1;
    }
  }
  call->result = baton_poll_now(call->fds, call->count);
  return call->result != 0;
}

/* Answers nonzero if the result is in `call`. */
static int park_poll(struct baton_process *process, struct poll_call *call, uint64_t deadline) {
  struct watches watches;
  enum baton_parked parked;
  nfds_t i;
  if (!make_room(&watches, call->count)) return 0;
  for (i = 0; i < call->count; i++)
    if (call->fds[i].fd >= 0) add_watch(&watches, call->fds[i].fd, baton_wants(call->fds[i].events));
  parked = baton_park_until(process, watches.all, watches.count, deadline, BATON_BY_ANY_HANDLER, NULL, try_poll, call);
  free_watches(&watches);
  if (parked == BATON_PARK_FAILED) call->result = -1;
  return parked != BATON_PARK_REFUSED; /* after a timeout the last attempt has cleared all and answered 0 */
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
  struct baton_process *process = timeout != 0 ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct poll_call call = {fds, count, 0};
    const uint64_t deadline = timeout < 0 ? BATON_NO_DEADLINE : baton_rs_now() + (uint64_t)timeout * 1000000u;
    if (park_poll(process, &call, deadline)) return call.result;
  }
  return baton_system()->poll(fds, count, timeout);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
  struct baton_process *process = mask == NULL && (timeout == NULL || (is_time(timeout) && !is_zero(timeout))) ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct poll_call call = {fds, count, 0};
    if (park_poll(process, &call, baton_deadline_after(timeout))) return call.result;
  }
  return baton_system()->ppoll(fds, count, timeout, mask);
}

/* The fortified ones, of calls whose array is too short: the system's own end the program. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size) {
  struct baton_process *process = timeout != 0 && size / sizeof *fds >= count ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct poll_call call = {fds, count, 0};
    const uint64_t deadline = timeout < 0 ? BATON_NO_DEADLINE : baton_rs_now() + (uint64_t)timeout * 1000000u;
    if (park_poll(process, &call, deadline)) return call.result;
  }
  return baton_system()->__poll_chk(fds, count, timeout, size);
}

int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size) {
  struct baton_process *process = NULL;
  if (mask == NULL && size / sizeof *fds >= count && (timeout == NULL || (is_time(timeout) && !is_zero(timeout)))) process = BATON_WHO_PARKS();
  if (process != NULL) {
    struct poll_call call = {fds, count, 0};
    if (park_poll(process, &call, baton_deadline_after(timeout))) return call.result;
  }
  return baton_system()->__ppoll_chk(fds, count, timeout, mask, size);
}

/* }====================================================== */

/* {======================================================
** select
** ======================================================= */

struct select_call {
  int limit;
  fd_set *sets[3];  /* of the caller, or NULL: to read, to write, exceptions */
  fd_set asked[3];
  int result;
};

static int try_select(void *argument, int which, unsigned ready) {
  struct select_call *call = argument;
  int i;
  (void)which;
  (void)ready;
  do { /* again if a handler comes between, as baton_poll_now */
    struct timeval at_once = {0, 0};
    for (i = 0; i < 3; i++)
      if (call->sets[i] != NULL) *call->sets[i] = call->asked[i];
    call->result = baton_system()->select(call->limit, call->sets[0], call->sets[1], call->sets[2], &at_once);
  } while (call->result < 0 && errno == EINTR);
  return call->result != 0;
}

static void watch_set_bits(const struct select_call *call, struct watches *watches) {
  static const unsigned wants[3] = {BATON_WANTS_READ, BATON_WANTS_WRITE, BATON_WANTS_PRIORITY};
  int descriptor, i;
  for (descriptor = 0; descriptor < call->limit; descriptor++) {
    unsigned all = 0;
    for (i = 0; i < 3; i++)
      if (call->sets[i] != NULL && FD_ISSET(descriptor, &call->asked[i])) all |= wants[i];
    if (all != 0) add_watch(watches, descriptor, all);
  }
}

/* Answers nonzero if the result is in `call`. */
static int park_select(struct baton_process *process, struct select_call *call, uint64_t deadline) {
  struct watches watches;
  enum baton_parked parked;
  int i;
  if (call->limit < 0 || call->limit > FD_SETSIZE || !make_room(&watches, (size_t)call->limit)) return 0;
  for (i = 0; i < 3; i++)
    if (call->sets[i] != NULL) call->asked[i] = *call->sets[i];
  watch_set_bits(call, &watches);
  parked = baton_park_until(process, watches.all, watches.count, deadline, BATON_BY_ANY_HANDLER, NULL, try_select, call);
  free_watches(&watches);
  if (parked == BATON_PARK_REFUSED || parked == BATON_PARK_FAILED) /* the sets are as they were given, then */
    for (i = 0; i < 3; i++)
      if (call->sets[i] != NULL) *call->sets[i] = call->asked[i];
  if (parked == BATON_PARK_FAILED) call->result = -1;
  return parked != BATON_PARK_REFUSED;
}

int select(int limit, fd_set *reads, fd_set *writes, fd_set *exceptions, struct timeval *timeout) {
  const int waits = timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_usec >= 0 && (timeout->tv_sec > 0 || timeout->tv_usec > 0));
  struct baton_process *process = waits ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct select_call call = {limit, {reads, writes, exceptions}, {{{0}}, {{0}}, {{0}}}, 0};
    uint64_t deadline = BATON_NO_DEADLINE;
    if (timeout != NULL) {
      const struct timespec time = {timeout->tv_sec + timeout->tv_usec / 1000000, timeout->tv_usec % 1000000 * 1000};
      deadline = baton_deadline_after(&time);
    }
    if (park_select(process, &call, deadline)) {
      if (timeout != NULL && deadline != BATON_NO_DEADLINE) { /* as Linux does */
        const struct timespec left = time_until(deadline);
        timeout->tv_sec = left.tv_sec;
        timeout->tv_usec = left.tv_nsec / 1000;
      }
      return call.result;
    }
  }
  return baton_system()->select(limit, reads, writes, exceptions, timeout);
}

int pselect(int limit, fd_set *reads, fd_set *writes, fd_set *exceptions, const struct timespec *timeout, const sigset_t *mask) {
  struct baton_process *process = mask == NULL && (timeout == NULL || (is_time(timeout) && !is_zero(timeout))) ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct select_call call = {limit, {reads, writes, exceptions}, {{{0}}, {{0}}, {{0}}}, 0};
    if (park_select(process, &call, baton_deadline_after(timeout))) return call.result;
  }
  return baton_system()->pselect(limit, reads, writes, exceptions, timeout, mask);
}

/* }====================================================== */

/* {======================================================
** epoll_wait
** ======================================================= */

struct epoll_call {
  int epoll, room, result;
  struct epoll_event *events;
};

static int try_epoll(void *argument, int which, unsigned ready) {
  struct epoll_call *call = argument;
  (void)which;
  (void)ready;
  call->result = baton_system()->epoll_wait(call->epoll, call->events, call->room, 0);
  return call->result != 0;
}

/* Answers nonzero if the result is in `call`. */
static int park_epoll(struct baton_process *process, struct epoll_call *call, int timeout) {
  const struct baton_watch watch = {(uint32_t)call->epoll, BATON_WANTS_READ};
  const uint64_t deadline = timeout < 0 ? BATON_NO_DEADLINE : baton_rs_now() + (uint64_t)timeout * 1000000u;
  enum baton_parked parked = baton_park_until(process, &watch, 1, deadline, BATON_BY_ANY_HANDLER, NULL, try_epoll, call);
  if (parked == BATON_PARK_FAILED) call->result = -1;
  return parked != BATON_PARK_REFUSED;
}

int epoll_wait(int epoll, struct epoll_event *events, int room, int timeout) {
  struct baton_process *process = timeout != 0 ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct epoll_call call = {epoll, room, 0, events};
    if (park_epoll(process, &call, timeout)) return call.result;
  }
  return baton_system()->epoll_wait(epoll, events, room, timeout);
}

int epoll_pwait(int epoll, struct epoll_event *events, int room, int timeout, const sigset_t *mask) {
  struct baton_process *process = timeout != 0 && mask == NULL ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    struct epoll_call call = {epoll, room, 0, events};
    if (park_epoll(process, &call, timeout)) return call.result;
  }
  return baton_system()->epoll_pwait(epoll, events, room, timeout, mask);
}

/* }====================================================== */

/* {======================================================
** sleep
** ======================================================= */

/*
** After a kill or an interrupt the sleep is over: libraries that are told of a rest sleep on for that long, and could not be ended. After a signal handler
** they are told.
*/
enum sleep { NO_SLEEP, SLEPT, BROKEN_OFF };

static enum sleep park_sleep(struct baton_process *process, uint64_t deadline) {
  const int saved_errno = errno;
  const enum baton_parked parked = baton_park_asleep(process, deadline);
  const int is_broken_off = parked == BATON_PARK_FAILED && errno == EINTR;
  baton_set_errno(saved_errno);
  if (parked == BATON_PARK_REFUSED) return NO_SLEEP;
  return is_broken_off ? BROKEN_OFF : SLEPT;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
  struct baton_process *process = time != NULL && is_time(time) ? BATON_WHO_PARKS() : NULL;
  const uint64_t deadline = process != NULL ? baton_deadline_after(time) : 0;
  switch (process != NULL ? park_sleep(process, deadline) : NO_SLEEP) {
    case SLEPT: return 0;
    case BROKEN_OFF:
      if (left != NULL) *left = time_until(deadline);
      errno = EINTR;
      return -1;
    default: return baton_system()->nanosleep(time, left);
  }
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
  const int parks = time != NULL && is_time(time) && (clock == CLOCK_MONOTONIC || (clock == CLOCK_REALTIME && !(flags & TIMER_ABSTIME)));
  struct baton_process *process = parks ? BATON_WHO_PARKS() : NULL;
  uint64_t deadline = 0;
  if (process != NULL) {
    const uint64_t until = (uint64_t)time->tv_sec * NANOSECONDS + (uint64_t)time->tv_nsec;
    deadline = flags & TIMER_ABSTIME ? until : baton_deadline_after(time);
  }
  switch (process != NULL ? park_sleep(process, deadline) : NO_SLEEP) {
    case SLEPT: return 0;
    case BROKEN_OFF:
      if (left != NULL && !(flags & TIMER_ABSTIME)) *left = time_until(deadline);
      return EINTR;
    default: return baton_system()->clock_nanosleep(clock, flags, time, left);
  }
}

unsigned sleep(unsigned seconds) {
  struct baton_process *process = BATON_WHO_PARKS();
  const struct timespec time = {(time_t)seconds, 0};
  const uint64_t deadline = process != NULL ? baton_deadline_after(&time) : 0;
  switch (process != NULL ? park_sleep(process, deadline) : NO_SLEEP) {
    case SLEPT: return 0;
    case BROKEN_OFF: errno = EINTR; return (unsigned)time_until(deadline).tv_sec;
    default: return baton_system()->sleep(seconds);
  }
}

int usleep(useconds_t microseconds) {
  struct baton_process *process = BATON_WHO_PARKS();
  const struct timespec time = {(time_t)(microseconds / 1000000u), (long)(microseconds % 1000000u) * 1000};
  switch (process != NULL ? park_sleep(process, baton_deadline_after(&time)) : NO_SLEEP) {
    case SLEPT: return 0;
    case BROKEN_OFF: errno = EINTR; return -1;
    default: return baton_system()->usleep(microseconds);
  }
}

/* }====================================================== */
