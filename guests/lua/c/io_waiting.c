/*
** What liolib.c reads with. A read that blocks keeps its native thread, and with it all processes that are parked on that thread, which can go on on no
** other. So as long as any are parked, a process that would wait for a pipe, a terminal or a socket waits in the poller as they do. Nobody else uses the
** file meanwhile (objects_in_use.c).
*/
#include "internals.h"
#include "parked.h"

#include <stdio.h>
#include <sys/stat.h>

static size_t count_buffered(const FILE *file) { return (size_t)(file->_IO_read_end - file->_IO_read_ptr); }

/* Files on disk are always ready, and what is set to be non-blocking does not wait. */
static int would_wait(int descriptor, struct pollfd *asked) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || S_ISREG(status.st_mode) || baton_is_nonblocking(descriptor)) return 0;
  asked->fd = descriptor;
  asked->events = POLLIN;
  asked->revents = 0;
  return baton_poll_now(asked, 1) == 0;
}

/* Returns when there is something to read, or when the system is to wait for it; raises a kill. */
static void await_input(FILE *file) {
  struct baton_process *process = baton_gate_process();
  struct baton_watch watch;
  struct pollfd asked;
  struct baton_wake wake = {0, 0, 0};
  lua_State *L;
  int why;
  if (process == NULL || baton_simulated || process->vm->parked == 0 || !baton_may_park(process) || !would_wait(fileno(file), &asked)) return;
  watch.descriptor = (uint32_t)asked.fd;
  watch.wants = BATON_WANTS_READ;
  L = baton_lua_innermost(process);
  baton_enter(L);
  baton_lua_use_begins(&process->use, process, file, BATON_ALONE);
  why = baton_rs_wait_ready(process->vm->executor, &watch, 1, BATON_NO_DEADLINE, baton_is_ready, &asked);
  baton_lua_use_ends(&process->use);
  baton_leave(L);
  if (why < 0) return; /* it cannot be waited for */
  wake.reason = (uint32_t)why;
  baton_lua_after_wait(L, process, wake);
}

/* The next character of a file that is locked and has none in its buffer. The lock is a thread's: the process may come back on another one. */
int baton_io_refill(FILE *file) {
  funlockfile(file);
  await_input(file);
  flockfile(file);
  return getc_unlocked(file);
}

int baton_io_getc(FILE *file) {
  if (count_buffered(file) == 0) await_input(file);
  return getc(file);
}

/* As fread, of bytes: it waits for each part of them. */
size_t baton_io_fread(void *data, size_t size, size_t count, FILE *file) {
  const struct baton_process *process = baton_gate_process();
  size_t got = 0;
  if (process == NULL || process->vm->parked == 0 || size != 1) return fread(data, size, count, file);
  while (got < count) {
    const size_t buffered = count_buffered(file);
    if (buffered > 0) {
      got += fread((char *)data + got, 1, buffered < count - got ? buffered : count - got, file);
    } else {
      const int next = baton_io_getc(file);
      if (next == EOF) break;
      ((char *)data)[got++] = (char)next;
    }
  }
  return got;
}
