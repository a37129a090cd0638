/*
** The memory of buffers, outside of all heaps.
*/
#ifndef BATON_BYTES_H
#define BATON_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct baton_bytes {
  size_t references;
  uint64_t owner;
  int is_frozen; /* never written any more */
  size_t size;
  unsigned char *memory; /* behind this record, or mapped */
};

/* Memory that is zero, with one reference. NULL if there is none. */
struct baton_bytes *baton_bytes_new(size_t size);
void baton_bytes_hold(struct baton_bytes *bytes);
void baton_bytes_release(struct baton_bytes *bytes);
uint64_t baton_bytes_owner(const struct baton_bytes *bytes);
void baton_bytes_set_owner(struct baton_bytes *bytes, uint64_t owner);
int baton_bytes_are_frozen(const struct baton_bytes *bytes);
void baton_bytes_freeze(struct baton_bytes *bytes);

#endif
