/*
** The C library's functions of whose names the executable exports its own (parked*.c, closing.c, handlers.c, simulation.c): for all calls that do not park, and for the true time.
*/
#ifndef BATON_SYSTEM_CALLS_H
#define BATON_SYSTEM_CALLS_H

#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* X(result, name, parameters) */
#define BATON_SYSTEM_CALLS(X)                                                                             \
  X(int, poll, (struct pollfd *, nfds_t, int))                                                            \
  X(int, ppoll, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *))                     \
  X(int, __poll_chk, (struct pollfd *, nfds_t, int, size_t))                                              \
  X(int, __ppoll_chk, (struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t))       \
  X(int, select, (int, fd_set *, fd_set *, fd_set *, struct timeval *))                                   \
  X(int, pselect, (int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *))         \
  X(int, epoll_wait, (int, struct epoll_event *, int, int))                                               \
  X(int, epoll_pwait, (int, struct epoll_event *, int, int, const sigset_t *))                            \
  X(int, nanosleep, (const struct timespec *, struct timespec *))                                         \
  X(int, clock_nanosleep, (clockid_t, int, const struct timespec *, struct timespec *))                   \
  X(unsigned, sleep, (unsigned))                                                                          \
  X(int, usleep, (useconds_t))                                                                            \
  X(int, accept, (int, struct sockaddr *, socklen_t *))                                                   \
  X(int, accept4, (int, struct sockaddr *, socklen_t *, int))                                             \
  X(int, connect, (int, const struct sockaddr *, socklen_t))                                              \
  X(ssize_t, recv, (int, void *, size_t, int))                                                            \
  X(ssize_t, recvfrom, (int, void *, size_t, int, struct sockaddr *, socklen_t *))                        \
  X(ssize_t, recvmsg, (int, struct msghdr *, int))                                                        \
  X(ssize_t, read, (int, void *, size_t))                                                                 \
  X(ssize_t, readv, (int, const struct iovec *, int))                                                     \
  X(ssize_t, __recv_chk, (int, void *, size_t, size_t, int))                                              \
  X(ssize_t, __recvfrom_chk, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *))          \
  X(ssize_t, __read_chk, (int, void *, size_t, size_t))                                                   \
  X(ssize_t, send, (int, const void *, size_t, int))                                                      \
  X(ssize_t, sendto, (int, const void *, size_t, int, const struct sockaddr *, socklen_t))                \
  X(ssize_t, sendmsg, (int, const struct msghdr *, int))                                                  \
  X(int, recvmmsg, (int, struct mmsghdr *, unsigned, int, struct timespec *))                             \
  X(int, sendmmsg, (int, struct mmsghdr *, unsigned, int))                                                \
  X(ssize_t, write, (int, const void *, size_t))                                                          \
  X(ssize_t, writev, (int, const struct iovec *, int))                                                    \
  X(int, getaddrinfo, (const char *, const char *, const struct addrinfo *, struct addrinfo **))          \
  X(int, getnameinfo, (const struct sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int))    \
  X(time_t, time, (time_t *))                                                                             \
  X(int, gettimeofday, (struct timeval *, void *))                                                        \
  X(clock_t, clock, (void))                                                                               \
  X(int, sigaction, (int, const struct sigaction *, struct sigaction *))                                  \
  X(__sighandler_t, signal, (int, __sighandler_t))                                                        \
  X(int, close, (int))                                                                                    \
  X(int, dup2, (int, int))                                                                                \
  X(int, dup3, (int, int, int))                                                                           \
  X(void, closefrom, (int))                                                                               \
  X(int, fclose, (FILE *))                                                                                \
  X(int, pclose, (FILE *))                                                                                \
  X(FILE *, freopen, (const char *, const char *, FILE *))                                                \
  X(FILE *, freopen64, (const char *, const char *, FILE *))                                              \
  X(int, close_range, (unsigned, unsigned, int))

struct baton_system_calls {
#define BATON_DECLARE(result, name, parameters) result(*name) parameters;
  BATON_SYSTEM_CALLS(BATON_DECLARE)
#undef BATON_DECLARE
};

/* Found before main, or by the first who calls earlier. */
extern __attribute__((visibility("hidden"))) struct baton_system_calls baton_system_calls;
void baton_find_system_calls(void);

static inline const struct baton_system_calls *baton_system(void) {
  if (__builtin_expect(baton_system_calls.close_range == NULL, 0)) baton_find_system_calls();
  return &baton_system_calls;
}

#endif
