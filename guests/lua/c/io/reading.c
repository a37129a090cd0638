/*
** Reading for liolib.c. If a read from a pipe, a terminal or a socket would block and others could
** run meanwhile, the process waits in the poller. So it takes no native thread, and a kill ends the
** wait. Meanwhile the file is in use (objects_in_use.c). Files on disk, and programs with one
** process, are read as in Lua.
*/
#include "seam/internals.h"
#include "io/io.h"
#include "state/state.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int baton_lua_is_readable(void *descriptor, int which, unsigned ready) {
  struct pollfd asked = {*(const int *)descriptor, POLLIN, 0};
  int found;
  (void)which;
  (void)ready;
  do {
    found = poll(&asked, 1, 0);
  } while (found < 0 && errno == EINTR);
  return found != 0; /* after a failure, the read itself reports the error */
}

/* Waits until there is something to read, or until the system must wait for it. Raises a kill. Does
   not wait for a non-blocking descriptor. */
static void await_input(FILE *file) {
  struct baton_process *process = baton_gate_process();
  struct baton_wake wake = {0, 0, 0};
  struct baton_watch watch;
  int descriptor, why;
  lua_State *L;
  if (!baton_lua_may_wait_beside_others(process)) return;
  descriptor = fileno(file);
  if (descriptor < 0 || baton_lua_is_readable(&descriptor, -1, 0) ||
      (fcntl(descriptor, F_GETFL) & O_NONBLOCK) != 0)
    return;
  watch.descriptor = (uint32_t)descriptor;
  watch.wants = BATON_WANTS_READ;
  L = baton_lua_innermost(process);
  baton_lua_enter(L);
  baton_lua_use_begins(&process->use, process, file);
  why = baton_wait_ready(
      process->vm->executor, &watch, 1, BATON_NO_DEADLINE, baton_lua_is_readable, &descriptor);
  baton_lua_use_ends(&process->use);
  baton_lua_leave(L);
  if (why < 0) return; /* it cannot wait for this descriptor */
  wake.reason = (uint32_t)why;
  baton_lua_after_wait(L, process, wake);
}

/* Returns the next character of a locked file with an empty buffer. The lock belongs to a thread,
   and the process may return on another one. */
int baton_io_refill(FILE *file) {
  funlockfile(file);
  await_input(file);
  flockfile(file);
  return getc_unlocked(file);
}

int baton_io_getc(FILE *file) {
  if (baton_count_buffered(file) == 0) await_input(file);
  return getc(file);
}

/* Whether the file is a pipe or a socket, where a large read may bypass the buffer. */
static int is_stream(FILE *file, int *is_on_disk) {
  struct stat status;
  const int is_known = fstat(fileno(file), &status) == 0;
  *is_on_disk = is_known && S_ISREG(status.st_mode);
  return is_known && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* Reads what a stream with an empty buffer has directly into `data`, as fread does for large reads.
   Returns 0 if the buffer must be used. */
static size_t read_past_buffer(FILE *file, void *data, size_t size) {
  ssize_t got;
  await_input(file);
  flockfile(file);
  got = baton_count_buffered(file) == 0 && baton_is_written(file)
      ? read(fileno(file), data, size)
      : 0;
  funlockfile(file);
  return got > 0 ? (size_t)got : 0;
}

/* As fread of bytes. Waits for each part of them. */
size_t baton_io_fread(void *data, size_t size, size_t count, FILE *file) {
  const struct baton_process *process = baton_gate_process();
  int is_on_disk, passes_by;
  size_t got = 0;
  if (size != 1 || baton_count_buffered(file) >= count ||
      !baton_lua_may_wait_beside_others(process))
    return fread(data, size, count, file);
  passes_by = is_stream(file, &is_on_disk);
  if (is_on_disk) return fread(data, size, count, file);
  while (got < count) {
    const size_t buffered = baton_count_buffered(file), wanted = count - got;
    size_t part = 0;
    if (buffered > 0) {
      part = fread((char *)data + got, 1, buffered < wanted ? buffered : wanted, file);
    } else if (passes_by && wanted >= BUFSIZ) {
      part = read_past_buffer(file, (char *)data + got, wanted);
    }
    if (part == 0) {
      const int next = baton_io_getc(file);
      if (next == EOF) break;
      ((char *)data)[got++] = (char)next;
    }
    got += part;
  }
  return got;
}
