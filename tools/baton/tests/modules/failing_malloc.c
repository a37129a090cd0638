/*
** Preloaded by tests: allocations fail from the one of the number FAIL_AT on, FAIL_COUNT of them
** (one, if that is not set). With SHOW_CALLS, writes on stderr at the end how many calls there
** were. For the GNU C library, whose own functions have these other names.
*/
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__GLIBC__)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);

static long first, last, number;

__attribute__((constructor)) static void begin(void) {
  const char *at = getenv("FAIL_AT"), *count = getenv("FAIL_COUNT");
  __atomic_store_n(&number, 0, __ATOMIC_RELAXED);
  if (at == NULL) return;
  last = atol(at) + (count != NULL ? atol(count) : 1);
  __atomic_store_n(&first, atol(at), __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void end(void) {
  if (getenv("SHOW_CALLS") != NULL)
    fprintf(stderr, "%ld\n", __atomic_load_n(&number, __ATOMIC_RELAXED));
}

static int fails(void) {
  const long from = __atomic_load_n(&first, __ATOMIC_RELAXED);
  const long now = __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED);
  if (from == 0 || now < from || now >= last) return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return fails() ? NULL : __libc_realloc(block, size); }

#endif
