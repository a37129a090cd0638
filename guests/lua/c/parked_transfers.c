/*
** Calls that move data: recv, send, read, write and their relatives, on blocking sockets and pipes, by the rules of parked.c. Each is tried without waiting;
** if it would wait, the process waits for the descriptor, for as long as the socket's own timeouts allow, and tries again. So it never holds up its thread, even
** if another program is faster to take what has come. On all other descriptors (files, terminals, what is set to be non-blocking) the calls are
** the system's own.
**
** Pipes that have a name in the file system (and all, before Linux 6.4) cannot be tried, only asked whether they would wait, and then the system's call be
** made. There another program that is faster has the thread wait.
*/
#include "parked.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* Of messages in more pieces the call is the system's own. */
#define MOST_PIECES 16

enum kind { PLAIN, PIPE, SOCKET };

/* What reads and writes would wait for; PLAIN if they would not, or the system is to wait. */
static enum kind kind_of(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) return PLAIN;
  if (S_ISSOCK(status.st_mode)) return SOCKET;
  return S_ISFIFO(status.st_mode) ? PIPE : PLAIN;
}

static int would_block(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

/* Of a pipe, and of the call that is tried: it cannot be told not to wait. */
static int cannot_be_tried(ssize_t result) { return result < 0 && (errno == EOPNOTSUPP || errno == ENOSYS); }

/* {======================================================
** Without waiting
** ======================================================= */

static ssize_t receive_now(enum kind kind, int descriptor, struct msghdr *message, int flags) {
  if (kind == PIPE) return preadv2(descriptor, message->msg_iov, (int)message->msg_iovlen, -1, RWF_NOWAIT);
  return baton_system()->recvmsg(descriptor, message, flags | MSG_DONTWAIT);
}

static ssize_t send_now(enum kind kind, int descriptor, const struct msghdr *message, int flags) {
  if (kind == PIPE) return pwritev2(descriptor, message->msg_iov, (int)message->msg_iovlen, -1, RWF_NOWAIT);
  return baton_system()->sendmsg(descriptor, message, flags | MSG_DONTWAIT);
}

/* What is left of a message that is sent, or filled, bit by bit. */
struct rest {
  struct msghdr message;
  struct iovec pieces[MOST_PIECES];
};

/* 0: it has too many pieces. */
static int begin_rest(struct rest *rest, const struct msghdr *message) {
  if (message->msg_iovlen > MOST_PIECES) return 0;
  rest->message = *message;
  memcpy(rest->pieces, message->msg_iov, message->msg_iovlen * sizeof *rest->pieces);
  rest->message.msg_iov = rest->pieces;
  return 1;
}

/* So much is done; answers whether that was all. Control data goes with the first byte. */
static int advance(struct rest *rest, size_t count) {
  struct msghdr *message = &rest->message;
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

/* A transfer in several steps. */
struct transfer {
  struct baton_process *process;
  struct baton_since since;
  enum kind kind;
  int descriptor, flags;
  struct rest rest;
  ssize_t done;
  int error;
};

/* Some of it is done. A call that has begun answers how far it has come when a handler runs, whatever its flags. Answers whether that was all. */
static int note_progress(struct transfer *transfer, size_t count) {
  transfer->done += (ssize_t)count;
  if (transfer->done > 0) baton_end_by_any_handler(transfer->process);
  return advance(&transfer->rest, count);
}

/* What a blocking call answers: how much was done before an error, else the error. */
static ssize_t outcome_of(const struct transfer *transfer) {
  if (transfer->done > 0 || transfer->error == 0) return transfer->done;
  errno = transfer->error;
  return -1;
}

/* Waits until the attempt has succeeded; 0: the system is to wait. */
static int park_transfer(struct transfer *transfer, unsigned wants, baton_attempt attempt) {
  const struct baton_watch watch = {(uint32_t)transfer->descriptor, wants};
  uint64_t deadline = BATON_NO_DEADLINE;
  enum baton_ended_by ended_by;
  if (transfer->kind == SOCKET) deadline = baton_deadline_of_socket(transfer->descriptor, wants == BATON_WANTS_READ ? SO_RCVTIMEO : SO_SNDTIMEO);
  ended_by = transfer->done > 0 ? BATON_BY_ANY_HANDLER : baton_transfer_ends_by(deadline);
  switch (baton_park_until(transfer->process, &watch, 1, deadline, ended_by, &transfer->since, attempt, transfer)) {
    case BATON_PARK_TIMEOUT: transfer->error = EAGAIN; break;
    case BATON_PARK_FAILED: transfer->error = errno; break;
    case BATON_PARK_REFUSED: return 0;
    default: break;
  }
  return 1;
}

/* The system has waited, after some was done. */
static void note_last(struct transfer *transfer, ssize_t result) {
  if (result >= 0) transfer->done += result;
  else transfer->error = errno;
}

/* }====================================================== */

/* {======================================================
** Receiving from sockets
** ======================================================= */

struct receiving {
  enum kind kind;
  int descriptor, flags;
  struct msghdr *message;
  ssize_t result;
};

static int try_receive(void *argument, int which, unsigned ready) {
  struct receiving *call = argument;
  (void)which;
  (void)ready;
  call->result = receive_now(call->kind, call->descriptor, call->message, call->flags);
  return !would_block(call->result);
}

/*
** After a first attempt that would have blocked, as errno says. Answers nonzero if the call is over, with `result` and errno; zero if
** it is to be left to the system, which will wait.
*/
static int park_receive(struct baton_process *process, enum kind kind, int descriptor, struct msghdr *message, int flags, ssize_t *result) {
  const struct baton_watch watch = {(uint32_t)descriptor, BATON_WANTS_READ};
  struct receiving call = {kind, descriptor, flags, message, -1};
  if (!baton_is_nonblocking(descriptor)) {
    const uint64_t deadline = kind == SOCKET ? baton_deadline_of_socket(descriptor, SO_RCVTIMEO) : BATON_NO_DEADLINE;
    const enum baton_parked parked = baton_park_until(process, &watch, 1, deadline, baton_transfer_ends_by(deadline), NULL, try_receive, &call);
    if (parked == BATON_PARK_REFUSED) return 0;
    if (parked == BATON_PARK_TIMEOUT) errno = EAGAIN;
    if (parked != BATON_PARK_DONE) call.result = -1;
  } else {
    errno = EAGAIN;
  }
  *result = call.result;
  return 1;
}

/* An error that came after all of the data: who asks next is to hear of it. */
static int is_failed_and_empty(int descriptor) {
  int waiting = 0;
  return (baton_ready_for(descriptor, POLLIN) & POLLERR) && ioctl(descriptor, FIONREAD, &waiting) == 0 && waiting == 0;
}

/* Nonzero: it is over, with all there, at the end of the stream or with an error. */
static int try_fill(void *argument, int which, unsigned ready) {
  struct transfer *transfer = argument;
  (void)which;
  (void)ready;
  for (;;) {
    ssize_t result;
    if (transfer->done > 0 && is_failed_and_empty(transfer->descriptor)) return 1;
    result = receive_now(SOCKET, transfer->descriptor, &transfer->rest.message, transfer->flags);
    if (would_block(result)) return 0;
    if (result < 0) transfer->error = errno;
    if (result <= 0 || note_progress(transfer, (size_t)result)) return 1;
  }
}

/* MSG_WAITALL, of a stream. Answers nonzero if the call is over, as for park_receive. Leftovers and control data end such a call early: those are the system's. */
static int park_fill(struct baton_process *process, int descriptor, struct msghdr *message, int flags, ssize_t *result) {
  struct transfer transfer = {
      .process = process, .since = baton_since_now(), .kind = SOCKET, .descriptor = descriptor, .flags = flags & ~MSG_WAITALL};
  if ((flags & MSG_PEEK) || message->msg_controllen > 0 || !begin_rest(&transfer.rest, message)) return 0;
  if (!try_fill(&transfer, -1, 0)) {
    if (baton_is_nonblocking(descriptor)) {
      transfer.error = EAGAIN;
    } else if (!park_transfer(&transfer, BATON_WANTS_READ, try_fill)) {
      if (transfer.done == 0) return 0;
      note_last(&transfer, baton_system()->recvmsg(descriptor, &transfer.rest.message, flags));
    }
  }
  message->msg_namelen = transfer.rest.message.msg_namelen;
  message->msg_flags = transfer.rest.message.msg_flags;
  *result = outcome_of(&transfer);
  return 1;
}

/* Urgent data is never waited for. */
static int may_receive(int flags) { return !(flags & (MSG_DONTWAIT | MSG_ERRQUEUE | MSG_OOB)); }

static ssize_t receive(struct baton_process *process, int descriptor, void *data, size_t size, int flags, struct sockaddr *address,
                       socklen_t *address_size) {
  const struct baton_system_calls *system = baton_system();
  struct iovec piece = {data, size};
  struct msghdr message = {address, address != NULL && address_size != NULL ? *address_size : 0, &piece, 1, NULL, 0, 0};
  ssize_t result;
  int is_over;
  if ((flags & MSG_WAITALL) && baton_is_stream(descriptor)) {
    is_over = park_fill(process, descriptor, &message, flags, &result);
  } else {
    result = system->recvfrom(descriptor, data, size, flags | MSG_DONTWAIT, address, address_size);
    if (!would_block(result)) return result;
    is_over = park_receive(process, SOCKET, descriptor, &message, flags, &result);
  }
  if (!is_over) return system->recvfrom(descriptor, data, size, flags, address, address_size);
  if (result >= 0 && address != NULL && address_size != NULL) *address_size = message.msg_namelen;
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
    ssize_t result;
    int is_over;
    if ((flags & MSG_WAITALL) && baton_is_stream(descriptor)) {
      is_over = park_fill(process, descriptor, message, flags, &result);
    } else {
      result = baton_system()->recvmsg(descriptor, message, flags | MSG_DONTWAIT);
      if (!would_block(result)) return result;
      *message = asked;
      is_over = park_receive(process, SOCKET, descriptor, message, flags, &result);
    }
    if (is_over) return result;
    *message = asked;
  }
  return baton_system()->recvmsg(descriptor, message, flags);
}

/* }====================================================== */

/* {======================================================
** Sending
** ======================================================= */

/* A connection that is made with the first data cannot be tried without waiting for it. */
static int may_send(int flags) { return !(flags & (MSG_DONTWAIT | MSG_FASTOPEN)); }

/* The same, if the socket was told so before. */
static int would_block_sending(ssize_t result) { return would_block(result) || (result < 0 && errno == EINPROGRESS); }

/* A socket of the system's own that is not connected is always said to be writable, however full the receiver is: only the system can wait for that. */
static int cannot_be_awaited(const struct msghdr *message) {
  const struct sockaddr *address = message->msg_name;
  return address != NULL && message->msg_namelen >= sizeof address->sa_family && address->sa_family == AF_UNIX;
}

static int error_of(int descriptor) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : 0;
}

/*
** Sends as much as there is room for. Nonzero: it is over, with all sent or with an error. As of a call that has waited: an error that has come meanwhile goes before
** the end of the connection; and after a part was sent there is no SIGPIPE from a socket, and who sends next is to hear of the error.
*/
static int try_send(void *argument, int which, unsigned ready) {
  struct transfer *transfer = argument;
  const int is_failed = which >= 0 && (ready & BATON_IS_FAILED) && transfer->kind == SOCKET;
  if (is_failed && transfer->done > 0 && (baton_ready_for(transfer->descriptor, POLLOUT) & POLLERR)) return 1;
  if (is_failed && transfer->done == 0 && (transfer->error = error_of(transfer->descriptor)) != 0) return 1;
  for (;;) {
    const int silence = transfer->done > 0 ? MSG_NOSIGNAL : 0;
    const ssize_t result = send_now(transfer->kind, transfer->descriptor, &transfer->rest.message, transfer->flags | silence);
    if (would_block_sending(result)) return 0;
    if (result < 0) {
      transfer->error = errno;
      return 1;
    }
    if (note_progress(transfer, (size_t)result)) return 1;
  }
}

/* After a first attempt that has sent all that there was room for. Answers nonzero if the call is over, as for park_receive. */
static int park_rest(struct transfer *transfer, ssize_t *result) {
  if (!park_transfer(transfer, BATON_WANTS_WRITE, try_send)) {
    const struct msghdr *rest = &transfer->rest.message;
    if (transfer->done == 0) return 0;
    if (transfer->kind == PIPE) note_last(transfer, baton_system()->writev(transfer->descriptor, rest->msg_iov, (int)rest->msg_iovlen));
    else note_last(transfer, baton_system()->sendmsg(transfer->descriptor, rest, transfer->flags | MSG_NOSIGNAL));
  }
  *result = outcome_of(transfer);
  return 1;
}

/* The same of the whole call. */
static int park_send(struct baton_process *process, enum kind kind, int descriptor, const struct msghdr *message, int flags, ssize_t *result) {
  struct transfer transfer = {.process = process, .since = baton_since_now(), .kind = kind, .descriptor = descriptor, .flags = flags};
  int error;
  if (!begin_rest(&transfer.rest, message)) return 0;
  *result = send_now(kind, descriptor, message, flags);
  if (kind == PIPE && cannot_be_tried(*result)) return 0;
  if (*result < 0 && !would_block_sending(*result)) return 1;
  if (*result < 0 && cannot_be_awaited(message)) return 0;
  if (*result >= 0 && (note_progress(&transfer, (size_t)*result) || (kind == SOCKET && !baton_is_stream(descriptor)))) return 1;
  error = errno;
  if (baton_is_nonblocking(descriptor)) {
    if (*result < 0) errno = error;
    return 1;
  }
  return park_rest(&transfer, result);
}

static int park_send_bytes(struct baton_process *process, enum kind kind, int descriptor, const void *data, size_t size, int flags,
                           const struct sockaddr *address, socklen_t address_size, ssize_t *result) {
  struct iovec piece = {(void *)(uintptr_t)data, size};
  const struct msghdr message = {(void *)(uintptr_t)address, address_size, &piece, 1, NULL, 0, 0};
  return park_send(process, kind, descriptor, &message, flags, result);
}

ssize_t send(int descriptor, const void *data, size_t size, int flags) {
  struct baton_process *process = may_send(flags) ? BATON_WHO_PARKS() : NULL;
  ssize_t result;
  if (process != NULL && park_send_bytes(process, SOCKET, descriptor, data, size, flags, NULL, 0, &result)) return result;
  return baton_system()->send(descriptor, data, size, flags);
}

ssize_t sendto(int descriptor, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t address_size) {
  struct baton_process *process = may_send(flags) ? BATON_WHO_PARKS() : NULL;
  ssize_t result;
  if (process != NULL && park_send_bytes(process, SOCKET, descriptor, data, size, flags, address, address_size, &result)) return result;
  return baton_system()->sendto(descriptor, data, size, flags, address, address_size);
}

ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
  struct baton_process *process = may_send(flags) ? BATON_WHO_PARKS() : NULL;
  ssize_t result;
  if (process != NULL && park_send(process, SOCKET, descriptor, message, flags, &result)) return result;
  return baton_system()->sendmsg(descriptor, message, flags);
}

/* }====================================================== */

/* {======================================================
** Several messages
** ======================================================= */

#define MOST_SENT 1024 /* UIO_MAXIOV: the system sends no more at once */

struct messages {
  struct baton_since since;
  int descriptor, flags, is_sent;
  struct mmsghdr *all;
  unsigned count, done;
  int error;
};

static int transfer_messages(const struct messages *call, int flags) {
  struct mmsghdr *rest = call->all + call->done;
  if (call->is_sent) return baton_system()->sendmmsg(call->descriptor, rest, call->count - call->done, flags);
  return baton_system()->recvmmsg(call->descriptor, rest, call->count - call->done, flags, NULL);
}

static void note_messages(struct messages *call, int result) {
  if (result < 0) call->error = errno;
  else call->done += (unsigned)result;
}

static int try_messages(void *argument, int which, unsigned ready) {
  struct messages *call = argument;
  int result;
  (void)which;
  (void)ready;
  if (!call->is_sent && call->done > 0 && (baton_ready_for(call->descriptor, POLLIN) & POLLERR)) { /* who asks next is to hear of it */
    call->error = EIO;
    return 1;
  }
  result = transfer_messages(call, call->flags | MSG_DONTWAIT);
  if (would_block(result)) return 0;
  note_messages(call, result);
  return 1;
}

static int are_done(const struct messages *call) {
  return call->error != 0 || call->done == call->count || (call->done > 0 && (call->flags & MSG_WAITFORONE));
}

/* Waits for one message after the other. Answers nonzero if the call is over, as for park_receive. */
static int park_messages(struct baton_process *process, struct messages *call, int *result) {
  const struct baton_watch watch = {(uint32_t)call->descriptor, call->is_sent ? BATON_WANTS_WRITE : BATON_WANTS_READ};
  if (!try_messages(call, -1, 0) && baton_is_nonblocking(call->descriptor)) call->error = EAGAIN;
  while (!are_done(call) && !(call->done > 0 && baton_is_nonblocking(call->descriptor))) {
    const uint64_t deadline = baton_deadline_of_socket(call->descriptor, call->is_sent ? SO_SNDTIMEO : SO_RCVTIMEO);
    const enum baton_ended_by ended_by = call->done > 0 ? BATON_BY_ANY_HANDLER : baton_transfer_ends_by(deadline);
    switch (baton_park_until(process, &watch, 1, deadline, ended_by, &call->since, try_messages, call)) {
      case BATON_PARK_TIMEOUT: call->error = EAGAIN; break;
      case BATON_PARK_FAILED: call->error = errno; break;
      case BATON_PARK_REFUSED:
        if (call->done == 0) return 0;
        note_messages(call, transfer_messages(call, call->flags));
        break;
      default: break;
    }
  }
  *result = call->done > 0 ? (int)call->done : -1;
  if (call->done == 0) errno = call->error;
  return 1;
}

/* With a limit of time, which is looked at after each message alone, it is the system's own. */
int recvmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout) {
  const int parks = count > 0 && timeout == NULL && may_receive(flags) && !(flags & MSG_WAITALL);
  struct baton_process *process = parks ? BATON_WHO_PARKS() : NULL;
  struct messages call = {.since = baton_since_now(), .descriptor = descriptor, .flags = flags, .all = messages, .count = count};
  int result;
  if (process != NULL && park_messages(process, &call, &result)) return result;
  return baton_system()->recvmmsg(descriptor, messages, count, flags, timeout);
}

static int can_all_be_awaited(const struct messages *call) {
  unsigned i;
  for (i = 0; i < call->count; i++)
    if (cannot_be_awaited(&call->all[i].msg_hdr)) return 0;
  return 1;
}

/* Streams may take a part of a message: those are the system's own. */
int sendmmsg(int descriptor, struct mmsghdr *messages, unsigned count, int flags) {
  struct baton_process *process = count > 0 && may_send(flags) ? BATON_WHO_PARKS() : NULL;
  struct messages call = {.since = baton_since_now(), .descriptor = descriptor, .flags = flags, .is_sent = 1, .all = messages};
  int result;
  call.count = count < MOST_SENT ? count : MOST_SENT;
  if (process != NULL && !baton_is_stream(descriptor) && can_all_be_awaited(&call) && park_messages(process, &call, &result)) return result;
  return baton_system()->sendmmsg(descriptor, messages, count, flags);
}

/* }====================================================== */

/* {======================================================
** Reading and writing
** ======================================================= */

/*
** Waits until a transfer by a pipe that cannot be tried will not block, unless another program is faster: then the system waits. Answers 0 if that is so
** or the call is to be left to the system; -1 if it has failed.
*/
static int await_pipe(struct baton_process *process, int descriptor, short events, enum baton_ended_by ended_by, const struct baton_since *since) {
  if (baton_ready_for(descriptor, events) != 0 || baton_is_nonblocking(descriptor)) return 0;
  return baton_park_for(process, descriptor, events, BATON_NO_DEADLINE, ended_by, since) == BATON_PARK_FAILED ? -1 : 0;
}

/* Answers nonzero if the call is over, as for park_receive. */
static int park_read(struct baton_process *process, int descriptor, const struct iovec *pieces, int count, ssize_t *result) {
  const enum kind kind = kind_of(descriptor);
  struct msghdr message = {NULL, 0, (struct iovec *)(uintptr_t)pieces, (size_t)count, NULL, 0, 0};
  if (kind == PLAIN) return 0;
  *result = receive_now(kind, descriptor, &message, 0);
  if (kind == PIPE && cannot_be_tried(*result)) {
    *result = await_pipe(process, descriptor, POLLIN, BATON_BY_HANDLERS_THAT_BREAK_OFF, NULL);
    return *result < 0;
  }
  if (!would_block(*result)) return 1;
  return park_receive(process, kind, descriptor, &message, 0, result);
}

static int park_read_bytes(struct baton_process *process, int descriptor, void *data, size_t size, ssize_t *result) {
  const struct iovec piece = {data, size};
  return size > 0 && park_read(process, descriptor, &piece, 1, result);
}

ssize_t read(int descriptor, void *data, size_t size) {
  struct baton_process *process = BATON_WHO_PARKS();
  ssize_t result;
  if (process != NULL && park_read_bytes(process, descriptor, data, size, &result)) return result;
  return baton_system()->read(descriptor, data, size);
}

ssize_t __read_chk(int descriptor, void *data, size_t size, size_t room) {
  struct baton_process *process = size <= room ? BATON_WHO_PARKS() : NULL;
  ssize_t result;
  if (process != NULL && park_read_bytes(process, descriptor, data, size, &result)) return result;
  return baton_system()->__read_chk(descriptor, data, size, room);
}

/* Without bytes to read, reading waits for nothing. */
static int has_room(const struct iovec *pieces, int count) {
  int i;
  for (i = 0; i < count; i++)
    if (pieces[i].iov_len > 0) return 1;
  return 0;
}

ssize_t readv(int descriptor, const struct iovec *pieces, int count) {
  struct baton_process *process = has_room(pieces, count) ? BATON_WHO_PARKS() : NULL;
  ssize_t result;
  if (process != NULL && park_read(process, descriptor, pieces, count, &result)) return result;
  return baton_system()->readv(descriptor, pieces, count);
}

/* A pipe that cannot be tried takes PIPE_BUF bytes at once where it is writable; more are written in several steps, as the system itself would. */
static ssize_t write_in_steps(struct baton_process *process, int descriptor, const char *data, size_t size) {
  const struct baton_since since = baton_since_now();
  size_t written = 0;
  do {
    const size_t step = size - written < PIPE_BUF ? size - written : PIPE_BUF;
    const enum baton_ended_by ended_by = written > 0 ? BATON_BY_ANY_HANDLER : BATON_BY_HANDLERS_THAT_BREAK_OFF;
    ssize_t result = await_pipe(process, descriptor, POLLOUT, ended_by, &since);
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
  if (kind != PLAIN && park_send_bytes(process, kind, descriptor, data, size, 0, NULL, 0, &result)) return result;
  if (kind == PIPE && cannot_be_tried(-1) && !baton_is_nonblocking(descriptor)) return write_in_steps(process, descriptor, data, size);
  return baton_system()->write(descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
  struct baton_process *process = has_room(pieces, count) ? BATON_WHO_PARKS() : NULL;
  const enum kind kind = process != NULL ? kind_of(descriptor) : PLAIN;
  if (kind != PLAIN) {
    const struct msghdr message = {NULL, 0, (struct iovec *)(uintptr_t)pieces, (size_t)count, NULL, 0, 0};
    ssize_t result;
    if (park_send(process, kind, descriptor, &message, 0, &result)) return result;
  }
  return baton_system()->writev(descriptor, pieces, count);
}

/* }====================================================== */
