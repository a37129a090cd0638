/*
** Calls that move data or make connections: recv, send, read, write, accept, connect and their relatives, on blocking sockets and pipes, by the rules of
** parked.c. The process waits until the call will not block, for as long as the socket's own timeouts allow; then the call is made. On all other
** descriptors (files, terminals, what is set to be non-blocking) the calls are the system's own.
*/
#include "parked.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* Of messages in more pieces the call is the system's own. */
#define MOST_PIECES 16

static int would_block(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

/* {======================================================
** Receiving from sockets
** ======================================================= */

struct transfer {
  int descriptor, flags;
  struct msghdr *message;
  ssize_t result;
};

static int try_receive(void *argument, int which, unsigned ready) {
  struct transfer *call = argument;
  (void)which;
  (void)ready;
  call->result = baton_system()->recvmsg(call->descriptor, call->message, call->flags | MSG_DONTWAIT);
  return !would_block(call->result);
}

/*
** After a first attempt that would have blocked, as errno says. Answers nonzero if the call is over, with `result` and errno; zero if
** it is to be left to the system, which will wait.
*/
static int park_receive(struct baton_process *process, int descriptor, struct msghdr *message, int flags, ssize_t *result) {
  const struct baton_watch watch = {(uint32_t)descriptor, BATON_WANTS_READ};
  struct transfer call = {descriptor, flags, message, -1};
  if (!baton_is_nonblocking(descriptor)) {
    const uint64_t deadline = baton_deadline_of_socket(descriptor, SO_RCVTIMEO);
    const enum baton_parked parked = baton_park_until(process, &watch, 1, deadline, baton_transfer_ends_by(deadline), try_receive, &call);
    if (parked == BATON_PARK_REFUSED) return 0;
    if (parked == BATON_PARK_TIMEOUT) errno = EAGAIN;
    if (parked != BATON_PARK_DONE) call.result = -1;
  } else {
    errno = EAGAIN;
  }
  *result = call.result;
  return 1;
}

/* What waits for more than one arrival of data is left to the system. */
static int may_receive(int flags) { return !(flags & (MSG_DONTWAIT | MSG_WAITALL | MSG_ERRQUEUE)); }

static ssize_t receive(struct baton_process *process, int descriptor, void *data, size_t size, int flags, struct sockaddr *address,
                       socklen_t *address_size) {
  const struct baton_system_calls *system = baton_system();
  struct iovec piece = {data, size};
  struct msghdr message = {address, address != NULL && address_size != NULL ? *address_size : 0, &piece, 1, NULL, 0, 0};
  ssize_t result = system->recvfrom(descriptor, data, size, flags | MSG_DONTWAIT, address, address_size);
  if (!would_block(result)) return result;
  if (!park_receive(process, descriptor, &message, flags, &result)) return system->recvfrom(descriptor, data, size, flags, address, address_size);
  if (result >= 0 && address_size != NULL) *address_size = message.msg_namelen;
  return result;
}

ssize_t recv(int descriptor, void *data, size_t size, int flags) {
  struct baton_process *process = may_receive(flags) ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) return receive(process, descriptor, data, size, flags, NULL, NULL);
  return baton_system()->recv(descriptor, data, size, flags);
}

ssize_t recvfrom(int descriptor, void *data, size_t size, int flags, struct sockaddr *address, socklen_t *address_size) {
  struct baton_process *process = may_receive(flags) ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) return receive(process, descriptor, data, size, flags, address, address_size);
  return baton_system()->recvfrom(descriptor, data, size, flags, address, address_size);
}

/* The fortified ones: what would overflow ends the program in the system's own. */
ssize_t __recv_chk(int descriptor, void *data, size_t size, size_t room, int flags) {
  struct baton_process *process = may_receive(flags) && size <= room ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) return receive(process, descriptor, data, size, flags, NULL, NULL);
  return baton_system()->__recv_chk(descriptor, data, size, room, flags);
}

ssize_t __recvfrom_chk(int descriptor, void *data, size_t size, size_t room, int flags, struct sockaddr *address, socklen_t *address_size) {
  struct baton_process *process = may_receive(flags) && size <= room ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) return receive(process, descriptor, data, size, flags, address, address_size);
  return baton_system()->__recvfrom_chk(descriptor, data, size, room, flags, address, address_size);
}

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags) {
  struct baton_process *process = may_receive(flags) ? BATON_WHO_PARKS() : NULL;
  if (process != NULL) {
    const struct msghdr asked = *message;
    ssize_t result = baton_system()->recvmsg(descriptor, message, flags | MSG_DONTWAIT);
    if (!would_block(result)) return result;
    *message = asked;
    if (park_receive(process, descriptor, message, flags, &result)) return result;
    *message = asked;
  }
  return baton_system()->recvmsg(descriptor, message, flags);
}

/* }====================================================== */

/* {======================================================
** Sending to sockets
** ======================================================= */

/* A message that is sent bit by bit: the pieces that are left. */
struct sending {
  int descriptor, flags, is_stream;
  struct msghdr message;
  struct iovec pieces[MOST_PIECES];
  ssize_t sent;
  int error;
};

static int is_stream(int descriptor) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* So much has gone; answers whether that was all. Control data goes with the first byte. */
static int advance(struct sending *sending, size_t count) {
  struct msghdr *message = &sending->message;
  sending->sent += (ssize_t)count;
  message->msg_control = NULL;
  message->msg_controllen = 0;
  while (message->msg_iovlen > 0 && count >= message->msg_iov->iov_len) {
    count -= message->msg_iov->iov_len;
    message->msg_iov++;
    message->msg_iovlen--;
  }
  if (message->msg_iovlen == 0) return 1;
  message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + count;
  message->msg_iov->iov_len -= count;
  return 0;
}

/* Sends as much as there is room for. Nonzero: it is over, with all sent or with an error. */
static int try_send(void *argument, int which, unsigned ready) {
  struct sending *sending = argument;
  (void)which;
  (void)ready;
  for (;;) {
    const ssize_t result = baton_system()->sendmsg(sending->descriptor, &sending->message, sending->flags | MSG_DONTWAIT);
    if (would_block(result)) return 0;
    if (result < 0) {
      sending->error = errno;
      return 1;
    }
    if (advance(sending, (size_t)result) || !sending->is_stream) return 1;
  }
}

/* What a blocking call answers: how much was sent before an error, else the error. */
static ssize_t outcome_of(const struct sending *sending) {
  if (sending->sent > 0 || sending->error == 0) return sending->sent;
  errno = sending->error;
  return -1;
}

/* Answers nonzero if the call is over, as for park_receive. */
static int park_send(struct baton_process *process, int descriptor, const struct msghdr *message, int flags, ssize_t *result) {
  const struct baton_watch watch = {(uint32_t)descriptor, BATON_WANTS_WRITE};
  struct sending sending = {descriptor, flags, 0, *message, {{NULL, 0}}, 0, 0};
  enum baton_parked parked;
  uint64_t deadline;
  if (message->msg_iovlen > MOST_PIECES) return 0;
  memcpy(sending.pieces, message->msg_iov, message->msg_iovlen * sizeof *sending.pieces);
  sending.message.msg_iov = sending.pieces;
  *result = baton_system()->sendmsg(descriptor, message, flags | MSG_DONTWAIT);
  if (*result < 0 && !would_block(*result)) return 1;
  if (*result >= 0 && (advance(&sending, (size_t)*result) || !is_stream(descriptor))) return 1;
  if (baton_is_nonblocking(descriptor)) {
    if (*result < 0) errno = EAGAIN;
    return 1;
  }
  sending.is_stream = *result >= 0 || is_stream(descriptor);
  deadline = baton_deadline_of_socket(descriptor, SO_SNDTIMEO);
  parked = baton_park_until(process, &watch, 1, deadline, baton_transfer_ends_by(deadline), try_send, &sending);
  if (parked == BATON_PARK_REFUSED && sending.sent == 0) return 0;
  if (parked == BATON_PARK_TIMEOUT) sending.error = EAGAIN;
  if (parked == BATON_PARK_FAILED) sending.error = errno;
  *result = outcome_of(&sending);
  return 1;
}

static int park_send_bytes(struct baton_process *process, int descriptor, const void *data, size_t size, int flags, const struct sockaddr *address,
                           socklen_t address_size, ssize_t *result) {
  struct iovec piece = {(void *)(uintptr_t)data, size};
  const struct msghdr message = {(void *)(uintptr_t)address, address_size, &piece, 1, NULL, 0, 0};
  return park_send(process, descriptor, &message, flags, result);
}

ssize_t send(int descriptor, const void *data, size_t size, int flags) {
  struct baton_process *process = flags & MSG_DONTWAIT ? NULL : BATON_WHO_PARKS();
  ssize_t result;
  if (process != NULL && park_send_bytes(process, descriptor, data, size, flags, NULL, 0, &result)) return result;
  return baton_system()->send(descriptor, data, size, flags);
}

ssize_t sendto(int descriptor, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t address_size) {
  struct baton_process *process = flags & MSG_DONTWAIT ? NULL : BATON_WHO_PARKS();
  ssize_t result;
  if (process != NULL && park_send_bytes(process, descriptor, data, size, flags, address, address_size, &result)) return result;
  return baton_system()->sendto(descriptor, data, size, flags, address, address_size);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
  struct baton_process *process = flags & MSG_DONTWAIT ? NULL : BATON_WHO_PARKS();
  ssize_t result;
  if (process != NULL && park_send(process, descriptor, message, flags, &result)) return result;
  return baton_system()->sendmsg(descriptor, message, flags);
}

/* }====================================================== */

/* {======================================================
** Reading and writing
** ======================================================= */

enum kind { PLAIN, PIPE, SOCKET };

/* What reads and writes would wait for; PLAIN if they would not, or the system is to wait. */
static enum kind kind_of(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return PLAIN;
  if (S_ISSOCK(status.st_mode)) return SOCKET;
  return S_ISFIFO(status.st_mode) ? PIPE : PLAIN;
}

static int is_ready_now(int descriptor, short events) {
  struct pollfd asked = {descriptor, events, 0};
  return baton_system()->poll(&asked, 1, 0) != 0;
}

/*
** Waits until a read, or a write of at most PIPE_BUF bytes, will not block, unless somebody else is faster: then the system waits. Answers 0 if that is so
** or the call is to be left to the system; -1 if it has failed.
*/
static int await_transfer(struct baton_process *process, int descriptor, short events) {
  enum baton_parked parked;
  uint64_t deadline = BATON_NO_DEADLINE;
  enum kind kind;
  if (is_ready_now(descriptor, events) || baton_is_nonblocking(descriptor) || (kind = kind_of(descriptor)) == PLAIN) return 0;
  if (kind == SOCKET) deadline = baton_deadline_of_socket(descriptor, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO);
  parked = baton_park_for(process, descriptor, events, deadline);
  if (parked == BATON_PARK_TIMEOUT) errno = EAGAIN;
  return parked == BATON_PARK_TIMEOUT || parked == BATON_PARK_FAILED ? -1 : 0;
}

ssize_t read(int descriptor, void *data, size_t size) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && await_transfer(process, descriptor, POLLIN) != 0) return -1;
  return baton_system()->read(descriptor, data, size);
}

ssize_t __read_chk(int descriptor, void *data, size_t size, size_t room) {
  struct baton_process *process = size <= room ? BATON_WHO_PARKS() : NULL;
  if (process != NULL && await_transfer(process, descriptor, POLLIN) != 0) return -1;
  return baton_system()->__read_chk(descriptor, data, size, room);
}

ssize_t readv(int descriptor, const struct iovec *pieces, int count) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && await_transfer(process, descriptor, POLLIN) != 0) return -1;
  return baton_system()->readv(descriptor, pieces, count);
}

/* A pipe takes PIPE_BUF bytes at once where it is writable; more are written in several steps, as the system itself would. */
static ssize_t write_to_pipe(struct baton_process *process, int descriptor, const char *data, size_t size) {
  size_t written = 0;
  do {
    const size_t step = size - written < PIPE_BUF ? size - written : PIPE_BUF;
    ssize_t result = await_transfer(process, descriptor, POLLOUT);
    if (result == 0) result = baton_system()->write(descriptor, data + written, step);
    if (result < 0) return written > 0 ? (ssize_t)written : -1;
    written += (size_t)result;
  } while (written < size);
  return (ssize_t)written;
}

ssize_t write(int descriptor, const void *data, size_t size) {
  struct baton_process *process = BATON_WHO_PARKS();
  const enum kind kind = process != NULL && size > 0 ? kind_of(descriptor) : PLAIN;
  ssize_t result;
  if (kind == SOCKET && park_send_bytes(process, descriptor, data, size, 0, NULL, 0, &result)) return result;
  if (kind == PIPE && !baton_is_nonblocking(descriptor)) return write_to_pipe(process, descriptor, data, size);
  return baton_system()->write(descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && count > 0 && kind_of(descriptor) == SOCKET) {
    const struct msghdr message = {NULL, 0, (struct iovec *)(uintptr_t)pieces, (size_t)count, NULL, 0, 0};
    ssize_t result;
    if (park_send(process, descriptor, &message, 0, &result)) return result;
  }
  return baton_system()->writev(descriptor, pieces, count);
}

/* }====================================================== */

/* {======================================================
** Connections
** ======================================================= */

int accept(int descriptor, struct sockaddr *address, socklen_t *size) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && await_transfer(process, descriptor, POLLIN) != 0) return -1;
  return baton_system()->accept(descriptor, address, size);
}

int accept4(int descriptor, struct sockaddr *address, socklen_t *size, int flags) {
  struct baton_process *process = BATON_WHO_PARKS();
  if (process != NULL && await_transfer(process, descriptor, POLLIN) != 0) return -1;
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
  if (process == NULL || address == NULL || !connects_over_network(address, size) || baton_is_nonblocking(descriptor) || !is_stream(descriptor))
    return baton_system()->connect(descriptor, address, size);
  if (begin_connection(descriptor, address, size) == 0) return 0;
  if (errno != EINPROGRESS) return -1;
  switch (baton_park_for(process, descriptor, POLLOUT, baton_deadline_of_socket(descriptor, SO_SNDTIMEO))) {
    case BATON_PARK_TIMEOUT: errno = EINPROGRESS; return -1;
    case BATON_PARK_FAILED: return -1;
    default: break;
  }
  /* Says what has come of it; waits for that if the process could not. */
  return baton_system()->connect(descriptor, address, size);
}

/* }====================================================== */
