/*
** Buffers: the bytes of a connection that were read and not yet taken. A connection that waits with
** nothing buffered has none. Those of the usual size are kept for the VM's other connections.
*/
#include "net/inside.h"

#include <stdlib.h>
#include <string.h>

#define MOST_KEPT 64 /* buffers that a VM keeps */

/* What a VM keeps for its connections. */
struct baton_net_kept {
  int count;
  char *buffers[MOST_KEPT];
};

static char *take(struct baton_lua_vm *vm) {
  struct baton_net_kept *kept = vm->net;
  return kept != NULL && kept->count > 0 ? kept->buffers[--kept->count] : malloc(BATON_NET_ROOM);
}

/* Whether the VM keeps the memory. */
static int keep(struct baton_lua_vm *vm, char *data) {
  struct baton_net_kept *kept = vm->net;
  if (kept == NULL) kept = vm->net = calloc(1, sizeof *kept);
  if (kept == NULL || kept->count == MOST_KEPT) return 0;
  kept->buffers[kept->count++] = data;
  return 1;
}

void baton_net_forget(struct baton_lua_vm *vm) {
  struct baton_net_kept *kept = vm->net;
  if (kept == NULL) return;
  while (kept->count > 0) free(kept->buffers[--kept->count]);
  free(kept);
  vm->net = NULL;
}

void baton_net_drop_buffer(struct baton_lua_vm *vm, struct baton_net_buffer *buffer) {
  if (buffer->data == NULL) return;
  if (vm == NULL || buffer->room != BATON_NET_ROOM || !keep(vm, buffer->data)) free(buffer->data);
  *buffer = (struct baton_net_buffer){NULL, 0, 0, 0};
}

/* Gives the buffer at least that much room. It doubles, so that bytes are copied seldom, and so
   that it is at most twice what has come, whatever was asked for. */
static int grow(struct baton_net_buffer *buffer) {
  const size_t room = 2 * buffer->room;
  char *data = room > buffer->room ? realloc(buffer->data, room) : NULL;
  if (data == NULL) return 0;
  buffer->data = data;
  buffer->room = room;
  return 1;
}

int baton_net_make_room(
    struct baton_lua_vm *vm, struct baton_net_buffer *buffer, size_t wanted) {
  if (l_likely(buffer->data == NULL)) {
    buffer->data = take(vm);
    buffer->room = BATON_NET_ROOM;
    return buffer->data != NULL;
  }
  if (buffer->start == buffer->end) {
    buffer->start = buffer->end = 0;
  } else if (buffer->start > 0 && wanted > buffer->room - buffer->start) {
    memmove(buffer->data, buffer->data + buffer->start, baton_net_buffered(buffer));
    buffer->end -= buffer->start;
    buffer->start = 0;
  }
  return buffer->end < buffer->room || grow(buffer);
}
