/* The C library's functions behind those that the executable exports (system_calls.h). */
#undef _FORTIFY_SOURCE
#include "system_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>

struct baton_system_calls baton_system_calls;

/* Where the C library has none (glibc before 2.34). */
static int plain_close_range(unsigned first, unsigned last, int flags) { return (int)syscall(SYS_close_range, first, last, flags); }

static void plain_closefrom(int first) { plain_close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0); }

/* Before main, while there is one thread: dlsym takes locks, and others may call in a vfork's child. */
__attribute__((constructor(101))) void baton_find_system_calls(void) {
  const int saved_errno = errno;
#define BATON_FIND(result, name, parameters) *(void **)(&baton_system_calls.name) = dlsym(RTLD_NEXT, #name);
  BATON_SYSTEM_CALLS(BATON_FIND)
#undef BATON_FIND
  if (baton_system_calls.closefrom == NULL) baton_system_calls.closefrom = plain_closefrom;
  if (baton_system_calls.close_range == NULL) baton_system_calls.close_range = plain_close_range;
  errno = saved_errno;
}
