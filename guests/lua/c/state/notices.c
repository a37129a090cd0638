/*
** The runtime's own messages on stderr: warnings and reports. No process waits until they are read.
**
** A thread queues its message, and writes as much as stderr takes at once. If stderr is full, a
** helper thread writes the rest and all later messages. So there is one writer at a time, and
** messages come out whole and in order. A simulated run has no helper, which would free memory
** beside it, so that addresses of objects would not repeat. There the thread waits.
**
**   writer   changed by                            to
**   FREE     begin_writing, with a queued message  BUSY
**   BUSY     the writer, with an empty queue       FREE
**            the writer, when stderr is full       BUSY: it starts the helper, which is the writer
**                                                  until the queue is empty
**
** No message stays in the queue. A thread that has queued one reads `writer` afterwards. A writer
** that has set it to FREE reads the queue afterwards. All are in one order (SEQ_CST). So either the
** former finds FREE and writes, or the latter finds the message.
*/
#include "state/state.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

struct notice {
  struct notice *next;
  size_t size;
  char bytes[];
};

enum { FREE, BUSY };

static struct notice *queue;   /* atomic; the newest message first */
static size_t queued;        /* atomic; bytes */
static int writer;           /* atomic */
static int some_left_out;    /* atomic */
static struct notice *unwritten; /* the writer's; the oldest message first */
static size_t written;       /* the writer's; bytes of the first message */

#define MOST_QUEUED (16u << 20) /* bytes; beyond that messages are dropped, and one says so */

/* {======================================================
** Writing
** ======================================================= */

/* System calls: our own functions replace the C library's, and wait as processes do. */
#if defined(__linux__)
static ssize_t write_plainly(const char *text, size_t size) {
  return syscall(SYS_write, STDERR_FILENO, text, size);
}

static int poll_plainly(struct pollfd *ready, int forever) {
  static const struct timespec nothing;
  return (int)syscall(SYS_ppoll, ready, 1, forever ? NULL : &nothing, NULL, 0);
}

static ssize_t write_unless_full(const char *text, size_t size) {
  struct iovec piece;
  piece.iov_base = (void *)(size_t)text;
  piece.iov_len = size;
  return pwritev2(STDERR_FILENO, &piece, 1, -1, RWF_NOWAIT);
}
#else
static ssize_t write_plainly(const char *text, size_t size) {
  return write(STDERR_FILENO, text, size);
}
static int poll_plainly(struct pollfd *ready, int forever) {
  return poll(ready, 1, forever ? -1 : 0);
}

static ssize_t write_unless_full(const char *text, size_t size) {
  (void)text;
  (void)size;
  errno = ENOSYS;
  return -1;
}
#endif

#define PIECE 4096 /* bytes that fit into a pipe when poll reports room */

/* Writes without blocking. Returns the number of bytes, 0 if stderr is full, or -1. */
static ssize_t write_at_once(const char *text, size_t size) {
  struct pollfd ready;
  ssize_t count = write_unless_full(text, size);
  if (count >= 0) return count;
  if (errno == EAGAIN) return 0;
  if (errno == EPIPE || errno == EBADF) return -1;
  ready.fd = STDERR_FILENO;
  ready.events = POLLOUT;
  ready.revents = 0;
  if (poll_plainly(&ready, 0) <= 0) return 0;
  count = write_plainly(text, size < PIECE ? size : PIECE);
  return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : count;
}

static ssize_t write_however_long(const char *text, size_t size) {
  struct pollfd ready;
  ssize_t count = write_plainly(text, size);
  if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return count;
  ready.fd = STDERR_FILENO;
  ready.events = POLLOUT;
  ready.revents = 0;
  poll_plainly(&ready, 1);
  return 0;
}

/* }====================================================== */

/* {======================================================
** The queue
** ======================================================= */

/* Appends the queue to the writer's list. */
static void take_queue(void) {
  struct notice *newest = __atomic_exchange_n(&queue, NULL, __ATOMIC_SEQ_CST), *taken = NULL,
              **end = &unwritten;
  while (newest != NULL) {
    struct notice *next = newest->next;
    newest->next = taken;
    taken = newest;
    newest = next;
  }
  while (*end != NULL) end = &(*end)->next;
  *end = taken;
}

/* Returns 0 if something is left. What cannot be written is dropped. */
static int write_all(ssize_t (*write_some)(const char *text, size_t size), int may_wait) {
  for (;;) {
    struct notice *first;
    ssize_t count;
    take_queue();
    if ((first = unwritten) == NULL) return 1;
    count = write_some(first->bytes + written, first->size - written);
    if (count == 0 && !may_wait) return 0;
    written = count < 0 ? first->size : written + (size_t)count;
    if (written < first->size) continue;
    unwritten = first->next;
    written = 0;
    __atomic_sub_fetch(&queued, first->size, __ATOMIC_SEQ_CST);
    free(first);
  }
}

/* Returns whether the caller is the writer now. */
static int begin_writing(void) {
  int is = FREE;
  return __atomic_load_n(&queue, __ATOMIC_SEQ_CST) != NULL &&
         __atomic_compare_exchange_n(&writer, &is, BUSY, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void help(void *unused) {
  (void)unused;
  do {
    write_all(write_however_long, 1);
    __atomic_store_n(&writer, FREE, __ATOMIC_SEQ_CST);
  } while (begin_writing());
}

static void end_notices(void) { baton_lua_end_notices(0); }

static int start_helper(void) {
  static int has_begun;
  if (!__atomic_exchange_n(&has_begun, 1, __ATOMIC_SEQ_CST)) atexit(end_notices);
  return baton_start_helper("baton stderr", help, NULL);
}

static void write_queue(void) {
  while (begin_writing()) {
    if (baton_simulated)
      write_all(write_however_long, 1);
    else if (!write_all(write_at_once, 0) && start_helper())
      return;
    /* without a thread, the next writer writes the rest */
    __atomic_store_n(&writer, FREE, __ATOMIC_SEQ_CST);
  }
}

static void add(const char *text, size_t size) {
  struct notice *added = malloc(sizeof *added + size);
  if (added == NULL) return;
  added->size = size;
  memcpy(added->bytes, text, size);
  __atomic_add_fetch(&queued, size, __ATOMIC_SEQ_CST);
  added->next = __atomic_load_n(&queue, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(
      &queue, &added->next, added, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

/* }====================================================== */

void baton_lua_post_notice(const char *text, size_t size) {
  static const char left_out[] =
      "baton: warnings or reports are left out here, since nobody reads stderr\n";
  const int saved_errno = errno;
  if (__atomic_load_n(&queued, __ATOMIC_SEQ_CST) + size > MOST_QUEUED) {
    if (!__atomic_exchange_n(&some_left_out, 1, __ATOMIC_SEQ_CST))
      add(left_out, sizeof left_out - 1);
  } else {
    __atomic_store_n(&some_left_out, 0, __ATOMIC_SEQ_CST);
    add(text, size);
  }
  write_queue();
  errno = saved_errno;
}

void baton_lua_warn(const char *format, ...) {
  char text[1200];
  int length;
  va_list list;
  va_start(list, format);
  length = vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (length >= (int)sizeof text) text[(length = sizeof text - 1) - 1] = '\n';
  if (length > 0) baton_lua_post_notice(text, (size_t)length);
}

/* Gives a reader about 20 ms. */
void baton_lua_end_notices(int forever) {
  static const struct timespec moment = {0, 1000000};
  int rounds;
  for (rounds = 0; (forever || rounds < 20) && __atomic_load_n(&queued, __ATOMIC_SEQ_CST) > 0;
       rounds++) {
    int is = FREE;
    /* there is no helper thread */
    if (__atomic_compare_exchange_n(&writer, &is, BUSY, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      write_all(forever ? write_however_long : write_at_once, forever);
      __atomic_store_n(&writer, FREE, __ATOMIC_SEQ_CST);
    }
    nanosleep(&moment, NULL);
  }
}

void baton_lua_notices_in_child(void) {
  queue = unwritten = NULL; /* the parent writes them */
  queued = written = 0;
  writer = FREE;
}
