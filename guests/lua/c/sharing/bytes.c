/*
** The memory of buffers, outside of all heaps, and who owns it.
**
** `owner` is a number. A handle has the number of the time when it was made, and is good as long as
** that is the memory's. A move takes the next number for the receiver, so all handles of the sender
** are closed at once, slices too. If the message is never read, the old number comes back: what was
** not received belongs to its sender again. Of the two numbers only one is ever in use.
**
** Whoever is the owner writes, until the memory is frozen. A message orders the writes of one owner
** before the reads of the next, by the mutex of its channel.
*/
#include "sharing/buffers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From this size on, the system gives pages that are zero, and no memory before they are used. */
#define MAPPED_FROM ((size_t)128 << 10)

struct baton_bytes *baton_bytes_new(size_t size) {
  struct baton_bytes *bytes;
  const int is_mapped = size >= MAPPED_FROM;
  if (size > PTRDIFF_MAX - sizeof *bytes) return NULL;
  bytes = calloc(1, sizeof *bytes + (is_mapped ? 0 : size));
  if (bytes == NULL) return NULL;
  bytes->references = 1;
  bytes->size = size;
  bytes->memory = (unsigned char *)(bytes + 1);
  if (is_mapped) {
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      free(bytes);
      return NULL;
    }
    bytes->memory = memory;
  }
  return bytes;
}

void baton_bytes_hold(struct baton_bytes *bytes) {
  /* relaxed: the caller has a reference already */
  __atomic_fetch_add(&bytes->references, 1, __ATOMIC_RELAXED);
}

void baton_bytes_release(struct baton_bytes *bytes) {
  /* acquire and release: pairs with itself, so that all uses come before the end */
  if (__atomic_sub_fetch(&bytes->references, 1, __ATOMIC_ACQ_REL) > 0) return;
  if (bytes->memory != (unsigned char *)(bytes + 1)) munmap(bytes->memory, bytes->size);
  free(bytes);
}

uint64_t baton_bytes_owner(const struct baton_bytes *bytes) {
  /* relaxed: see above; other threads only compare it */
  return __atomic_load_n(&bytes->owner, __ATOMIC_RELAXED);
}

void baton_bytes_set_owner(struct baton_bytes *bytes, uint64_t owner) {
  __atomic_store_n(&bytes->owner, owner, __ATOMIC_RELAXED);
}

int baton_bytes_are_frozen(const struct baton_bytes *bytes) {
  return __atomic_load_n(&bytes->is_frozen, __ATOMIC_RELAXED);
}

void baton_bytes_freeze(struct baton_bytes *bytes) {
  __atomic_store_n(&bytes->is_frozen, 1, __ATOMIC_RELAXED);
}
