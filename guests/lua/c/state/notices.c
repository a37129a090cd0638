/*
** Messages that delay no process: the runtime's own warnings and reports on stderr, and the lines
** of logs (io/log_files.c). Where they go is a *sink*: a descriptor, with a queue outside of all
** heaps.
**
** A thread queues its message, and writes as much as the descriptor takes at once. If that is full,
** a helper thread writes the rest and all later messages. So there is one writer at a time, and
** messages come out whole and in order. A simulated run has no helper, which would free memory
** beside it, so that addresses of objects would not repeat. There the thread waits.
**
**   writer   changed by                            to
**   FREE     begin_writing, with a queued message  BUSY
**   BUSY     the writer, with an empty queue       FREE
**            the writer, when the sink is full     BUSY: it starts the helper, which is the writer
**                                                  until the queue is empty
**
** No message stays in the queue. A thread that has queued one reads `writer` afterwards. A writer
** that has set it to FREE reads the queue afterwards. All are in one order (SEQ_CST). So either the
** former finds FREE and writes, or the latter finds the message.
*/
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
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

struct sink {
  int descriptor;           /* never changes. A file that is opened anew takes its place */
  int is_file;              /* it takes any message at once */
  struct notice *queue;     /* atomic; the newest message first */
  size_t queued;            /* atomic; bytes */
  size_t dropped;           /* atomic; lines of logs since this was read last */
  int writer;               /* atomic */
  struct notice *unwritten; /* the writer's; the oldest message first */
  size_t written;           /* the writer's; bytes of the first message */
  const char *path;
};

static struct sink on_stderr = {.descriptor = STDERR_FILENO, .path = ""};
static int some_left_out; /* atomic; of the runtime's own messages */

#define MOST_QUEUED (16u << 20) /* bytes; beyond that messages are dropped, and one says so */

/*
** All sinks, by their numbers. None is removed.
**
** | operation | ordering | why |
** |---|---|---|
** | sink_at | acquire | pairs with the release of add_sink: the sink is complete |
** | add_sink | release | pairs with the acquire of sink_at |
*/
static struct sink *sinks[BATON_MOST_SINKS] = {&on_stderr};
static int sink_count = 1; /* atomic; places that are taken */

/* The sink of a number, or NULL. */
static struct sink *sink_at(int number) {
  if (number < 0 || number >= BATON_MOST_SINKS) return NULL;
  return __atomic_load_n(&sinks[number], __ATOMIC_ACQUIRE);
}

/* {======================================================
** Writing
** ======================================================= */

/* System calls: our own functions replace the C library's, and wait as processes do. */
#if defined(__linux__)
static ssize_t write_plainly(int to, const char *text, size_t size) {
  return syscall(SYS_write, to, text, size);
}

static int poll_plainly(struct pollfd *ready, int forever) {
  static const struct timespec nothing;
  return (int)syscall(SYS_ppoll, ready, 1, forever ? NULL : &nothing, NULL, 0);
}

static ssize_t write_unless_full(int to, const char *text, size_t size) {
  struct iovec piece;
  piece.iov_base = (void *)(size_t)text;
  piece.iov_len = size;
  return pwritev2(to, &piece, 1, -1, RWF_NOWAIT);
}
#else
static ssize_t write_plainly(int to, const char *text, size_t size) {
  return write(to, text, size);
}
static int poll_plainly(struct pollfd *ready, int forever) {
  return poll(ready, 1, forever ? -1 : 0);
}

static ssize_t write_unless_full(int to, const char *text, size_t size) {
  (void)to;
  (void)text;
  (void)size;
  errno = ENOSYS;
  return -1;
}
#endif

#define PIECE 4096 /* bytes that fit into a pipe when poll reports room */

/* Writes without blocking. Returns the number of bytes, 0 if the sink is full, or -1. A file is
   never full, and gets a message in one piece. */
static ssize_t write_at_once(const struct sink *sink, const char *text, size_t size) {
  struct pollfd ready;
  ssize_t count;
  if (sink->is_file) {
    count = write_plainly(sink->descriptor, text, size);
    return count < 0 && errno == EINTR ? 0 : count;
  }
  count = write_unless_full(sink->descriptor, text, size);
  if (count >= 0) return count;
  if (errno == EAGAIN) return 0;
  if (errno == EPIPE || errno == EBADF) return -1;
  ready.fd = sink->descriptor;
  ready.events = POLLOUT;
  ready.revents = 0;
  if (poll_plainly(&ready, 0) <= 0) return 0;
  count = write_plainly(sink->descriptor, text, size < PIECE ? size : PIECE);
  return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : count;
}

static ssize_t write_however_long(const struct sink *sink, const char *text, size_t size) {
  struct pollfd ready;
  ssize_t count = write_plainly(sink->descriptor, text, size);
  if (count >= 0 || (errno != EAGAIN && errno != EINTR)) return count;
  ready.fd = sink->descriptor;
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
static void take_queue(struct sink *sink) {
  struct notice *newest = __atomic_exchange_n(&sink->queue, NULL, __ATOMIC_SEQ_CST);
  struct notice *taken = NULL, **end = &sink->unwritten;
  while (newest != NULL) {
    struct notice *next = newest->next;
    newest->next = taken;
    taken = newest;
    newest = next;
  }
  while (*end != NULL) end = &(*end)->next;
  *end = taken;
}

typedef ssize_t write_some(const struct sink *sink, const char *text, size_t size);

/* Returns 0 if something is left. What cannot be written is dropped. */
static int write_all(struct sink *sink, write_some *write_some, int may_wait) {
  for (;;) {
    struct notice *first;
    ssize_t count;
    take_queue(sink);
    if ((first = sink->unwritten) == NULL) return 1;
    count = write_some(sink, first->bytes + sink->written, first->size - sink->written);
    if (count == 0 && !may_wait) return 0;
    sink->written = count < 0 ? first->size : sink->written + (size_t)count;
    if (sink->written < first->size) continue;
    sink->unwritten = first->next;
    sink->written = 0;
    __atomic_sub_fetch(&sink->queued, first->size, __ATOMIC_SEQ_CST);
    free(first);
  }
}

/* Returns whether the caller is the writer now. */
static int begin_writing(struct sink *sink) {
  int is = FREE;
  return __atomic_load_n(&sink->queue, __ATOMIC_SEQ_CST) != NULL &&
         __atomic_compare_exchange_n(
             &sink->writer, &is, BUSY, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void help(void *argument) {
  struct sink *sink = argument;
  do {
    write_all(sink, write_however_long, 1);
    __atomic_store_n(&sink->writer, FREE, __ATOMIC_SEQ_CST);
  } while (begin_writing(sink));
}

static void end_notices(void) { baton_lua_end_notices(0); }

static int start_helper(struct sink *sink) {
  static int has_begun;
  if (!__atomic_exchange_n(&has_begun, 1, __ATOMIC_SEQ_CST)) atexit(end_notices);
  return baton_start_helper(sink == &on_stderr ? "baton stderr" : "baton log", help, sink);
}

static void write_queue(struct sink *sink) {
  while (begin_writing(sink)) {
    if (baton_simulated)
      write_all(sink, write_however_long, 1);
    else if (!write_all(sink, write_at_once, 0) && start_helper(sink))
      return;
    /* without a thread, the next writer writes the rest */
    __atomic_store_n(&sink->writer, FREE, __ATOMIC_SEQ_CST);
  }
}

static void add(struct sink *sink, const char *text, size_t size) {
  struct notice *added = malloc(sizeof *added + size);
  if (added == NULL) return;
  added->size = size;
  memcpy(added->bytes, text, size);
  __atomic_add_fetch(&sink->queued, size, __ATOMIC_SEQ_CST);
  added->next = __atomic_load_n(&sink->queue, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(
      &sink->queue, &added->next, added, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

/* }====================================================== */

void baton_lua_post_notice(const char *text, size_t size) {
  static const char left_out[] =
      "baton: warnings or reports are left out here, since nobody reads stderr\n";
  const int saved_errno = errno;
  if (__atomic_load_n(&on_stderr.queued, __ATOMIC_SEQ_CST) + size > MOST_QUEUED) {
    if (!__atomic_exchange_n(&some_left_out, 1, __ATOMIC_SEQ_CST))
      add(&on_stderr, left_out, sizeof left_out - 1);
  } else {
    __atomic_store_n(&some_left_out, 0, __ATOMIC_SEQ_CST);
    add(&on_stderr, text, size);
  }
  write_queue(&on_stderr);
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

/* {======================================================
** The lines of logs
** ======================================================= */

int baton_sink_post(int number, const char *text, size_t size, size_t most) {
  const int saved_errno = errno;
  struct sink *sink = sink_at(number);
  int fits;
  if (sink == NULL) return 0;
  fits = __atomic_load_n(&sink->queued, __ATOMIC_SEQ_CST) + size <= most;
  if (fits)
    add(sink, text, size);
  else
    __atomic_fetch_add(&sink->dropped, 1, __ATOMIC_RELAXED); /* the count orders nothing */
  write_queue(sink);
  errno = saved_errno;
  return fits;
}

size_t baton_sink_take_dropped(int number, size_t most) {
  struct sink *sink = sink_at(number);
  if (sink == NULL || __atomic_load_n(&sink->dropped, __ATOMIC_RELAXED) == 0) return 0;
  if (__atomic_load_n(&sink->queued, __ATOMIC_SEQ_CST) > most / 2) return 0;
  return __atomic_exchange_n(&sink->dropped, 0, __ATOMIC_RELAXED);
}

static int open_log(const char *path) {
  return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
}

static int add_sink(struct sink *sink) {
  /* Relaxed: it only gives each its place. */
  const int number = __atomic_fetch_add(&sink_count, 1, __ATOMIC_RELAXED);
  if (number >= BATON_MOST_SINKS) {
    __atomic_fetch_sub(&sink_count, 1, __ATOMIC_RELAXED);
    errno = EMFILE;
    return -1;
  }
  __atomic_store_n(&sinks[number], sink, __ATOMIC_RELEASE);
  return number;
}

static struct sink *new_sink(const char *path) {
  struct sink *sink = calloc(1, sizeof *sink);
  struct stat about;
  if (sink == NULL || (sink->path = strdup(path)) == NULL ||
      (sink->descriptor = open_log(path)) < 0) {
    if (sink != NULL) free((char *)(size_t)sink->path);
    free(sink);
    return NULL;
  }
  sink->is_file = fstat(sink->descriptor, &about) == 0 && S_ISREG(about.st_mode);
  return sink;
}

/* Two threads that open a path at the same time may make two sinks. Both append whole lines. */
int baton_sink_open(const char *path) {
  struct sink *sink;
  int number;
  for (number = 0; number < BATON_MOST_SINKS; number++) {
    sink = sink_at(number);
    if (sink != NULL && strcmp(sink->path, path) == 0) return number;
  }
  sink = new_sink(path);
  if (sink == NULL) return -1;
  number = add_sink(sink);
  if (number < 0) {
    close(sink->descriptor);
    free((char *)(size_t)sink->path);
    free(sink);
    errno = EMFILE;
  }
  return number;
}

/* What is queued is written to the old file or to the new one. */
int baton_sink_reopen(int number, const char *path) {
  const struct sink *sink = sink_at(number);
  int descriptor, error = 0;
  if (sink == NULL || sink == &on_stderr) return 0;
  descriptor = open_log(path != NULL ? path : sink->path);
  if (descriptor < 0) return errno;
  if (dup2(descriptor, sink->descriptor) < 0) error = errno;
  fcntl(sink->descriptor, F_SETFD, FD_CLOEXEC);
  close(descriptor);
  return error;
}

/* }====================================================== */

static int has_queued(void) {
  int number;
  for (number = 0; number < BATON_MOST_SINKS; number++) {
    const struct sink *sink = sink_at(number);
    if (sink != NULL && __atomic_load_n(&sink->queued, __ATOMIC_SEQ_CST) > 0) return 1;
  }
  return 0;
}

/* Writes what a sink's helper thread does not write. */
static void end_sink(struct sink *sink, int forever) {
  int is = FREE;
  if (sink == NULL || !__atomic_compare_exchange_n(&sink->writer, &is, BUSY, 0, __ATOMIC_SEQ_CST,
                          __ATOMIC_SEQ_CST))
    return;
  write_all(sink, forever ? write_however_long : write_at_once, forever);
  __atomic_store_n(&sink->writer, FREE, __ATOMIC_SEQ_CST);
}

/* Gives a reader about 20 ms. */
void baton_lua_end_notices(int forever) {
  static const struct timespec moment = {0, 1000000};
  int rounds, number;
  for (rounds = 0; (forever || rounds < 20) && has_queued(); rounds++) {
    for (number = 0; number < BATON_MOST_SINKS; number++) end_sink(sink_at(number), forever);
    nanosleep(&moment, NULL);
  }
}

void baton_lua_notices_in_child(void) {
  int number;
  for (number = 0; number < BATON_MOST_SINKS; number++) {
    struct sink *sink = sink_at(number);
    if (sink == NULL) continue;
    sink->queue = sink->unwritten = NULL; /* the parent writes them */
    sink->queued = sink->written = sink->dropped = 0;
    sink->writer = FREE;
  }
}
