/*
** What the guest's files need of the system, where Linux, macOS and FreeBSD differ. Nothing was
** ever run on the last two (docs/porting.md).
*/
#ifndef BATON_SYSTEM_H
#define BATON_SYSTEM_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__linux__)
#include <sys/eventfd.h>
#include <sys/syscall.h>
#endif
#if defined(__linux__) && defined(SYS_openat2)
#include <linux/openat2.h>
#endif

/* Gives free memory back to the system, where malloc would keep it. */
static inline void baton_trim_memory(void) {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

/* A variable of the environment; NULL in a program with another user's rights. */
static inline const char *baton_trusted_variable(const char *name) {
#if defined(__linux__)
  return secure_getenv(name);
#else
  return issetugid() ? NULL : getenv(name);
#endif
}

/* {======================================================
** Descriptors
** ======================================================= */

/* Makes a descriptor that does not block, and that a started program does not get. Sockets of
   `BATON_STREAM` are so from the beginning on Linux. Returns the descriptor. */
static inline int baton_prepare_descriptor(int descriptor) {
#if !defined(__linux__)
  if (descriptor >= 0) {
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
#endif
  return descriptor;
}

#if defined(__linux__)
#define BATON_STREAM (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)
#else
#define BATON_STREAM SOCK_STREAM
#endif

/* Makes `to` another descriptor for what `from` leads to, which a started program does not get.
   Returns a negative number after a failure. */
static inline int baton_replace_descriptor(int from, int to) {
#if defined(__linux__)
  return dup3(from, to, O_CLOEXEC);
#else
  const int done = dup2(from, to);
  if (done >= 0) fcntl(to, F_SETFD, FD_CLOEXEC);
  return done;
#endif
}

/* Opens a descriptor, `ends[0]`, that becomes readable when somebody writes 8 bytes to `ends[1]`.
   On Linux both are the same. Returns 0 if there is none. */
static inline int baton_open_signal(int ends[2]) {
#if defined(__linux__)
  ends[0] = ends[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return ends[0] >= 0;
#else
  if (pipe(ends) != 0) {
    ends[0] = ends[1] = -1;
    return 0;
  }
  baton_prepare_descriptor(ends[0]);
  baton_prepare_descriptor(ends[1]);
  return 1;
#endif
}

static inline void baton_close_signal(const int ends[2]) {
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0 && ends[1] != ends[0]) close(ends[1]);
}

/* }====================================================== */

/* {======================================================
** Files
** ======================================================= */

/* Opens a path that never leaves the directory, whatever symbolic links are on it. Returns the
   descriptor, or -1: ENOSYS if this system cannot do that in one step, EXDEV if the path leads
   out. */
static inline int baton_open_beneath(int directory, const char *path, int flags) {
#if defined(__linux__) && defined(SYS_openat2)
  struct open_how how = {.flags = (unsigned)flags,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
#else
  (void)directory;
  (void)path;
  (void)flags;
  errno = ENOSYS;
  return -1;
#endif
}

static inline struct timespec baton_modified(const struct stat *status) {
#if defined(__APPLE__)
  return status->st_mtimespec;
#else
  return status->st_mtim;
#endif
}

/* }====================================================== */

/* {======================================================
** Buffers of files
** ======================================================= */

/* How many bytes have been read from the system, and not yet from the file. */
static inline size_t baton_count_buffered(const FILE *file) {
#if defined(__GLIBC__)
  return (size_t)(file->_IO_read_end - file->_IO_read_ptr);
#else
  return file->_r > 0 ? (size_t)file->_r : 0;
#endif
}

/* Whether no bytes wait in the file for being written. */
static inline int baton_is_written(const FILE *file) {
#if defined(__GLIBC__)
  return file->_IO_write_ptr == file->_IO_write_base;
#else
  return (file->_flags & __SWR) == 0 || file->_p == file->_bf._base;
#endif
}

/* }====================================================== */

/* {======================================================
** The program's end
** ======================================================= */

/* Defines `register_NAME`, which has `NAME(int status, void *unused)` called at the program's end.
   Linux gives it the status of exit(). On other systems it is that of os.exit and of Lua's last
   script; a library that ends the program by itself leaves it unknown. */
#if defined(__linux__)
#define BATON_NOTE_END(status) ((void)(status))
#define BATON_CALLED_AT_END(name) \
  static void register_##name(void) { on_exit(name, NULL); }
#else
extern int baton_end_status;
#define BATON_NOTE_END(status) ((void)(baton_end_status = (status)))
#define BATON_CALLED_AT_END(name)                           \
  static void end_##name(void) { name(baton_end_status, NULL); } \
  static void register_##name(void) { atexit(end_##name); }
#endif

/* }====================================================== */

#endif
