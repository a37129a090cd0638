/*
** Preloaded: every second time that nothing is ready, poll and select without waiting answer that a signal has come between.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/select.h>

static __thread int was_interrupted;

static int interrupted(int result) {
  was_interrupted = result == 0 && !was_interrupted;
  if (!was_interrupted) return result;
  errno = EINTR;
  return -1;
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
  int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "poll");
  const int result = next(fds, count, timeout);
  return timeout == 0 ? interrupted(result) : result;
}

int select(int limit, fd_set *reads, fd_set *writes, fd_set *exceptions, struct timeval *timeout) {
  int (*next)(int, fd_set *, fd_set *, fd_set *, struct timeval *) = dlsym(RTLD_NEXT, "select");
  const int is_at_once = timeout != NULL && timeout->tv_sec == 0 && timeout->tv_usec == 0;
  const int result = next(limit, reads, writes, exceptions, timeout);
  return is_at_once ? interrupted(result) : result;
}
