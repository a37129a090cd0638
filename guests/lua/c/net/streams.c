/*
** Reading and writing of connections, for code in C.
**
** An attempt comes before each wait. One is left out if it would certainly find nothing: most are
** made after a request was answered, when the peer has yet to send its next one. A TCP connection
** is *drained* if the last read has returned fewer bytes than it asked for, or failed: the system's
** buffer was empty then (epoll(7)). What comes later causes an event, as the registration is kept
** and edge-triggered. `news` counts the events that were taken out of the poller
** (baton_descriptor_news). It is read before an attempt. If it is the same before the next one, no
** event was taken out since. So what came after the read is still in the poller, and ends the wait.
** The end of the stream may come with the last data: the event tells of it (BATON_NEWS_OF_MORE),
** and then every attempt is made. modules/socket_drained.c has the same argument at length.
*/
#include "net/inside.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define MOST_PARTS 512 /* of one system call; systems allow 1024 */

/* {======================================================
** The plain connection
** ======================================================= */

/* These return a number of bytes, or an error number, negative. Never inlined: a wait may come
   between two calls, and `errno` is the thread's. */
__attribute__((noinline)) static ssize_t receive(int descriptor, void *data, size_t size) {
  ssize_t got;
  do {
    got = recv(descriptor, data, size, 0);
  } while (got < 0 && errno == EINTR);
  return got < 0 ? -errno : got;
}

__attribute__((noinline)) static ssize_t transmit(
    int descriptor, const struct iovec *parts, int count) {
  struct msghdr message = {.msg_iov = (struct iovec *)(size_t)parts};
  ssize_t sent;
  message.msg_iovlen = (size_t)(count < MOST_PARTS ? count : MOST_PARTS);
  do {
    sent = count == 1 ? send(descriptor, parts->iov_base, parts->iov_len, MSG_NOSIGNAL)
                      : sendmsg(descriptor, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}

static int would_block(ssize_t result) { return result == -EAGAIN || result == -EWOULDBLOCK; }

/* Reads what was buffered before the transport was installed. */
static ssize_t read_early(struct baton_net_connection *connection, void *data, size_t size) {
  struct baton_net_buffer *early = &connection->early;
  const size_t left = baton_net_buffered(early), taken = size < left ? size : left;
  memcpy(data, early->data + early->start, taken);
  early->start += taken;
  if (early->start == early->end) baton_net_drop_buffer(NULL, early);
  return (ssize_t)taken;
}

ssize_t baton_net_plain_read(struct baton_net_connection *connection, void *data, size_t size) {
  ssize_t got;
  if (l_unlikely(connection->early.data != NULL) && baton_net_buffered(&connection->early) > 0)
    return read_early(connection, data, size);
  if (connection->is_vain) return BATON_NET_WANTS_READ;
  got = l_likely(connection->socket.simulated == NULL)
      ? receive(connection->socket.descriptor, data, size)
      : baton_link_read(connection->socket.simulated, data, size);
  connection->has_moved |= got > 0;
  connection->is_drained =
      connection->is_tcp && (got > 0 ? (size_t)got < size : would_block(got));
  if (l_likely(got >= 0)) return got;
  if (would_block(got)) return BATON_NET_WANTS_READ;
  baton_net_set_fault(connection, (int)-got, NULL);
  return BATON_NET_FAULTY;
}

ssize_t baton_net_plain_write(
    struct baton_net_connection *connection, const struct iovec *parts, int count) {
  const ssize_t sent = l_likely(connection->socket.simulated == NULL)
      ? transmit(connection->socket.descriptor, parts, count)
      : baton_link_write(connection->socket.simulated, parts, count);
  connection->has_moved |= sent > 0 || sent == -ECONNRESET;
  if (l_likely(sent >= 0)) return sent;
  if (would_block(sent)) return BATON_NET_WANTS_WRITE;
  baton_net_set_fault(connection, (int)-sent, NULL);
  return BATON_NET_FAULTY;
}

/* }====================================================== */

/* {======================================================
** A call, with all its attempts
** ======================================================= */

struct call {
  lua_State *L;
  struct baton_process *process;
  struct baton_net_connection *connection;
  uint64_t deadline;
  uint64_t harvests; /* before the last attempt */
  enum baton_net_way way;
  int has_held;      /* `held` is set */
  int is_over;       /* the time is over: this was the last attempt */
  struct baton_net_held held;
};

static void hold(struct call *call) {
  if (call->has_held) return;
  call->has_held = 1;
  baton_net_hold(
      call->L, call->process, &call->connection->socket, &call->held, call->way);
}

static void begin(struct call *call, lua_State *L, struct baton_net_connection *connection,
    enum baton_net_way way, uint64_t deadline) {
  call->L = L;
  call->process = baton_inline_caller(L);
  call->connection = connection;
  call->deadline = deadline < connection->deadline ? deadline : connection->deadline;
  call->way = way;
  call->has_held = call->is_over = 0;
  if (l_unlikely(baton_net_is_held(&connection->socket, call->process, way))) hold(call);
}

/* In a simulated run: wakes the processes at the other end if bytes have come or gone. */
static void stir(struct call *call) {
  if (l_likely(call->connection->socket.simulated == NULL || !call->connection->has_moved)) return;
  call->connection->has_moved = 0;
  baton_net_stir(call->L);
}

static enum baton_net_result end(struct call *call, enum baton_net_result result) {
  stir(call);
  if (call->has_held) baton_net_let_go(call->L, &call->held);
  return result;
}

/* After an attempt that has returned a negative number. BATON_NET_DONE: try again. */
static enum baton_net_result await(struct call *call, ssize_t wants) {
  struct baton_net_connection *connection = call->connection;
  enum baton_net_result result;
  if (wants == BATON_NET_FAULTY) return BATON_NET_FAILED;
  if (call->is_over || call->deadline == 0) return BATON_NET_TIMED_OUT;
  stir(call);
  hold(call);
  if (call->way == BATON_NET_READS && baton_net_buffered(&connection->buffer) == 0)
    baton_net_drop_buffer(call->process->vm, &connection->buffer);
  result = baton_net_wait(call->L, call->process, &connection->socket,
      wants == BATON_NET_WANTS_READ ? BATON_WANTS_READ : BATON_WANTS_WRITE, call->harvests,
      call->deadline);
  if (result != BATON_NET_TIMED_OUT) return result;
  call->is_over = 1;
  return BATON_NET_DONE;
}

/* }====================================================== */

/* {======================================================
** Reading
** ======================================================= */

/* Called before an attempt to read. */
static void note_news(struct call *call) {
  struct baton_net_connection *connection = call->connection;
  const void *vm = call->process->vm->executor;
  int64_t news;
  call->harvests = baton_harvests(vm);
  baton_lua_enter(call->L);
  news = baton_descriptor_news(vm, (uint32_t)connection->socket.descriptor);
  baton_lua_leave(call->L);
  connection->is_vain = connection->is_drained && call->deadline != 0 && news >= 0 &&
      news == connection->news && (news & BATON_NEWS_OF_MORE) == 0;
  connection->news = news;
}

/* Makes one attempt to read. Returns a number of bytes, 0 at the end, or what it wants. */
static ssize_t attempt(struct call *call, void *data, size_t size) {
  struct baton_net_connection *connection = call->connection;
  const struct baton_net_transport *transport = connection->transport;
  if (l_likely(transport == NULL)) return baton_net_plain_read(connection, data, size);
  return transport->read(connection->state, connection, data, size);
}

/* Reads into the buffer, once. */
static ssize_t read_more(struct call *call, size_t wanted) {
  struct baton_net_connection *connection = call->connection;
  struct baton_net_buffer *buffer = &connection->buffer;
  ssize_t got;
  note_news(call);
  if (connection->is_vain && connection->transport == NULL) return BATON_NET_WANTS_READ;
  if (l_unlikely(!baton_net_make_room(call->process->vm, buffer, wanted))) {
    baton_net_set_fault(connection, ENOMEM, NULL);
    return BATON_NET_FAULTY;
  }
  got = attempt(call, buffer->data + buffer->end, buffer->room - buffer->end);
  if (got > 0) buffer->end += (size_t)got;
  return got;
}

/* Reads once, to `data` or into the buffer, and waits if that finds nothing. BATON_NET_DONE:
   something came, or try again. */
static enum baton_net_result read_or_wait(
    struct call *call, ssize_t *got, void *data, size_t size) {
  struct baton_net_connection *connection = call->connection;
  *got = 0;
  if (l_unlikely(connection->socket.descriptor < 0)) return BATON_NET_CLOSED;
  if (l_unlikely(connection->has_ended)) return BATON_NET_END;
  if (data == NULL) {
    *got = read_more(call, size);
  } else {
    note_news(call);
    *got = attempt(call, data, size);
  }
  if (*got > 0) return BATON_NET_DONE;
  if (*got < 0) return await(call, *got);
  connection->has_ended = 1;
  return BATON_NET_END;
}

enum baton_net_result baton_net_fill(
    lua_State *L, struct baton_net_connection *connection, size_t wanted, uint64_t deadline) {
  struct call call;
  enum baton_net_result result = BATON_NET_DONE;
  ssize_t got;
  begin(&call, L, connection, BATON_NET_READS, deadline);
  while (result == BATON_NET_DONE && baton_net_buffered(&connection->buffer) < wanted)
    result = read_or_wait(&call, &got, NULL, wanted);
  return end(&call, result);
}

const char *baton_net_view(const struct baton_net_connection *connection, size_t *size) {
  *size = baton_net_buffered(&connection->buffer);
  return *size > 0 ? connection->buffer.data + connection->buffer.start : "";
}

void baton_net_consume(struct baton_net_connection *connection, size_t size) {
  connection->buffer.start += size;
}

enum baton_net_result baton_net_read(lua_State *L, struct baton_net_connection *connection,
    void *data, size_t size, size_t *got, uint64_t deadline) {
  struct baton_net_buffer *buffer = &connection->buffer;
  struct call call;
  enum baton_net_result result = BATON_NET_DONE;
  ssize_t count = 0;
  *got = 0;
  if (size == 0) return BATON_NET_DONE;
  begin(&call, L, connection, BATON_NET_READS, deadline);
  while (result == BATON_NET_DONE && count <= 0 && baton_net_buffered(buffer) == 0)
    result = read_or_wait(&call, &count, data, size);
  if (result == BATON_NET_DONE && count > 0) {
    *got = (size_t)count;
  } else if (result == BATON_NET_DONE) {
    *got = size < baton_net_buffered(buffer) ? size : baton_net_buffered(buffer);
    memcpy(data, buffer->data + buffer->start, *got);
    buffer->start += *got;
  }
  return end(&call, result);
}

/* }====================================================== */

/* {======================================================
** Writing, and what else a transport does
** ======================================================= */

typedef ssize_t (*step)(void *state, struct baton_net_connection *connection);

/* Calls a function of the transport until it returns 0. */
static enum baton_net_result drive(struct call *call, step step) {
  struct baton_net_connection *connection = call->connection;
  for (;;) {
    enum baton_net_result result;
    ssize_t wants;
    if (l_unlikely(connection->socket.descriptor < 0)) return BATON_NET_CLOSED;
    call->harvests = baton_harvests(call->process->vm->executor);
    connection->is_vain = 0;
    wants = step(connection->state, connection);
    if (wants >= 0) return BATON_NET_DONE;
    result = await(call, wants);
    if (result != BATON_NET_DONE) return result;
  }
}

/* Takes what was written off the parts. */
static void advance(struct iovec **parts, int *count, size_t size) {
  while (*count > 0 && size >= (*parts)->iov_len) {
    size -= (*parts)->iov_len;
    ++*parts;
    --*count;
  }
  if (*count == 0) return;
  (*parts)->iov_base = (char *)(*parts)->iov_base + size;
  (*parts)->iov_len -= size;
}

static enum baton_net_result write_parts(
    struct call *call, struct iovec *parts, int count, size_t *written) {
  struct baton_net_connection *connection = call->connection;
  for (;;) {
    const struct baton_net_transport *transport = connection->transport;
    enum baton_net_result result;
    ssize_t sent;
    if (l_unlikely(connection->socket.descriptor < 0)) return BATON_NET_CLOSED;
    if (count == 0) return BATON_NET_DONE;
    call->harvests = baton_harvests(call->process->vm->executor);
    connection->is_vain = 0;
    sent = l_likely(transport == NULL)
        ? baton_net_plain_write(connection, parts, count)
        : transport->write(connection->state, connection, parts, count);
    if (l_likely(sent >= 0)) {
      *written += (size_t)sent;
      advance(&parts, &count, (size_t)sent);
      continue;
    }
    result = await(call, sent);
    if (result != BATON_NET_DONE) return result;
  }
}

enum baton_net_result baton_net_write(lua_State *L, struct baton_net_connection *connection,
    struct iovec *parts, int count, size_t *written, uint64_t deadline) {
  struct call call;
  enum baton_net_result result;
  size_t unasked;
  if (written == NULL) written = &unasked;
  *written = 0;
  begin(&call, L, connection, BATON_NET_WRITES, deadline);
  advance(&parts, &count, 0); /* leading parts that are empty */
  result = write_parts(&call, parts, count, written);
  if (result == BATON_NET_DONE && connection->transport != NULL)
    result = drive(&call, connection->transport->flush);
  return end(&call, result);
}

enum baton_net_result baton_net_handshake(
    lua_State *L, struct baton_net_connection *connection, uint64_t deadline) {
  const struct baton_net_transport *transport = connection->transport;
  struct call call;
  if (transport == NULL || transport->handshake == NULL) return BATON_NET_DONE;
  begin(&call, L, connection, BATON_NET_READS, deadline);
  return end(&call, drive(&call, transport->handshake));
}

__attribute__((noinline)) static int end_output(int descriptor) {
  return shutdown(descriptor, SHUT_WR) == 0 ? 0 : errno;
}

enum baton_net_result baton_net_shutdown(
    lua_State *L, struct baton_net_connection *connection, uint64_t deadline) {
  enum baton_net_result result = BATON_NET_DONE;
  struct call call;
  int fault;
  if (connection->socket.descriptor < 0) return BATON_NET_CLOSED;
  begin(&call, L, connection, BATON_NET_WRITES, deadline);
  if (connection->transport != NULL) result = drive(&call, connection->transport->shutdown);
  end(&call, result);
  if (result != BATON_NET_DONE) return result;
  if (connection->socket.descriptor < 0) return BATON_NET_CLOSED;
  if (l_unlikely(connection->socket.simulated != NULL)) {
    baton_link_shut_down(connection->socket.simulated);
    baton_net_stir(L);
    return BATON_NET_DONE;
  }
  fault = end_output(connection->socket.descriptor);
  if (fault == 0) return BATON_NET_DONE;
  baton_net_set_fault(connection, fault == ENOTCONN ? EPIPE : fault, NULL);
  return BATON_NET_FAILED;
}

/* }====================================================== */
