/*
** Calls that make connections: accept and connect, on blocking sockets, by the rules of parked.c. The process waits until the call will not block, for as long as
** the socket's own timeouts allow; then the call is made. If another program accepts from the same socket and is faster, the thread waits.
*/
#include "parked.h"

#include <errno.h>
#include <fcntl.h>

static int is_listening(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens;
}

/* Waits for a connection. Answers 0 if the system's call is to be made; -1 if it has failed. */
static int await_connection(struct baton_process *process, int descriptor) {
  uint64_t deadline;
  enum baton_parked parked;
  if (baton_ready_for(descriptor, POLLIN) != 0 || baton_is_nonblocking(descriptor) || !is_listening(descriptor)) return 0;
  deadline = baton_deadline_of_socket(descriptor, SO_RCVTIMEO);
  parked = baton_park_for(process, descriptor, POLLIN, deadline, baton_transfer_ends_by(deadline), NULL);
  if (parked == BATON_PARK_TIMEOUT) errno = EAGAIN;
  return parked == BATON_PARK_TIMEOUT || parked == BATON_PARK_FAILED ? -1 : 0;
}

int accept(int descriptor, struct sockaddr *address, socklen_t *size) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && await_connection(process, descriptor) != 0) return -1;
  return baton_system()->accept(descriptor, address, size);
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && await_connection(process, descriptor) != 0) return -1;
  return baton_system()->accept4(descriptor, address, size, flags);
}

/* Begins to connect: the socket does not block meanwhile. */
static int begin_connection(int descriptor, const struct sockaddr *address, socklen_t size) {
  const int flags = fcntl(descriptor, F_GETFL);
  int result, error;
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) != 0) return -1;
  result = baton_system()->connect(descriptor, address, size);
  error = errno;
  if (fcntl(descriptor, F_SETFL, flags) != 0) return -1;
  errno = error;
  return result;
}

/* Sockets of other kinds connect at once, or wait for something that cannot be polled for. */
static int connects_over_network(const struct sockaddr *address, socklen_t size) {
  return size >= sizeof address->sa_family && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

int connect(int descriptor, const struct sockaddr *address, socklen_t size) {
  struct baton_process *process = BATON_WHO_PARKS();
  struct baton_since since;
  uint64_t deadline;
  int in_vain;
  if (process == NULL || address == NULL || !connects_over_network(address, size) || baton_is_nonblocking(descriptor) || !baton_is_stream(descriptor))
    return baton_system()->connect(descriptor, address, size);
  since = baton_since_now();
  if (begin_connection(descriptor, address, size) == 0) return 0;
  in_vain = errno;
  if (in_vain != EINPROGRESS && in_vain != EALREADY) return -1; /* EALREADY: an earlier call has begun, and was broken off */
  deadline = baton_deadline_of_socket(descriptor, SO_SNDTIMEO);
  switch (baton_park_for(process, descriptor, POLLOUT, deadline, baton_transfer_ends_by(deadline), &since)) {
    case BATON_PARK_TIMEOUT: errno = in_vain; return -1;
    case BATON_PARK_FAILED: return -1;
    default: break;
  }
  /* Says what has come of it; waits for that if the process could not. */
  return baton_system()->connect(descriptor, address, size);
}
