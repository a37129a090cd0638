/*
** The memory of buffers, and their handles.
*/
#ifndef BATON_BUFFERS_H
#define BATON_BUFFERS_H

#include "sharing/inside.h"

/* {======================================================
** bytes.c
** ======================================================= */

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

/* }====================================================== */

/* A handle: a part of some bytes. */
struct buffer {
  struct baton_handle handle; /* must be first */
  struct baton_bytes *bytes;
  uint64_t owner; /* of the bytes, when the handle was made */
  size_t offset, length;
};

static inline unsigned char *baton_shared_bytes_of(const struct buffer *buffer) {
  return buffer->bytes->memory + buffer->offset;
}

/* buffers.c */
/* The buffer at `index`. Raises an error if it was moved. */
struct buffer *baton_shared_check_buffer(lua_State *L, int index);
/* The buffer at index 1. Raises an error if it is frozen. */
struct buffer *baton_shared_check_writable(lua_State *L);
/* Pushes a buffer. It takes over a reference. */
void baton_shared_push_buffer(
    lua_State *L, struct baton_bytes *bytes, size_t offset, size_t length);

#endif
