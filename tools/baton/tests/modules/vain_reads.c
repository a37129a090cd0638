/*
** Preloaded: counts the calls of recv that find nothing.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>

static atomic_int in_vain;

int vain_reads(void) { return in_vain; }

ssize_t recv(int descriptor, void *bytes, size_t room, int flags) {
  ssize_t (*next)(int, void *, size_t, int) = dlsym(RTLD_NEXT, "recv");
  const ssize_t count = next(descriptor, bytes, room, flags);
  if (count < 0 && errno == EAGAIN) in_vain++;
  return count;
}
