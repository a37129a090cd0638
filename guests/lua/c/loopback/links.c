/*
** Connections of a simulated run. Each end has what is on its way to it, as segments in order. A
** segment arrives at its time, and what was sent later does not arrive earlier. An end takes only
** so many bytes that were not read: then the other one must wait.
*/
#include "loopback/loopback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 65536 /* bytes on the way to an end, or not yet read there */

struct segment {
  struct segment *next;
  uint64_t at; /* when it arrives */
  size_t start, size;
  char bytes[];
};

struct baton_link {
  struct baton_link *other; /* NULL: it is closed */
  struct baton_link *after; /* in a backlog */
  struct baton_link *next;  /* in the list of all */
  const void *vm;           /* NULL: it has ended, and the link is in no list */
  uint64_t connected_at, ended_at, reset_at; /* the end of what comes; the loss of the connection */
  uint64_t last_at;         /* when the last segment arrives */
  struct segment *first, *last;
  size_t size;              /* bytes of the segments */
  char address[BATON_LOOPBACK_TEXT], peer[BATON_LOOPBACK_TEXT];
};

static struct baton_link *links;

static struct baton_link *new_link(
    const char *address, const char *peer, const void *vm, uint64_t connected_at) {
  struct baton_link *link = calloc(1, sizeof *link);
  if (link == NULL) return NULL;
  link->vm = vm;
  link->connected_at = link->last_at = connected_at;
  link->ended_at = link->reset_at = BATON_NO_DEADLINE;
  strncpy(link->address, address, sizeof link->address - 1);
  strncpy(link->peer, peer, sizeof link->peer - 1);
  return link;
}

int baton_link_make(const char *address, const char *of_client, const void *const vms[2],
    struct baton_link *ends[2]) {
  const uint64_t arrival = baton_loopback_arrival();
  ends[0] = new_link(of_client, address, vms[0], arrival);
  ends[1] = new_link(address, of_client, vms[1], arrival);
  if (ends[0] == NULL || ends[1] == NULL) {
    free(ends[0]);
    free(ends[1]);
    return 0;
  }
  ends[0]->other = ends[1];
  ends[1]->other = ends[0];
  ends[0]->next = ends[1];
  ends[1]->next = links;
  links = ends[0];
  return 1;
}

uint64_t baton_link_arrives(const struct baton_link *link) { return link->connected_at; }

struct baton_link **baton_link_after(struct baton_link *link) { return &link->after; }

int baton_link_is_connected(const struct baton_link *link) {
  return link->connected_at <= baton_now();
}

const char *baton_link_address(const struct baton_link *link) { return link->address; }

const char *baton_link_peer(const struct baton_link *link) { return link->peer; }

/* {======================================================
** Reading and writing
** ======================================================= */

ssize_t baton_link_read(struct baton_link *link, void *data, size_t size) {
  const uint64_t now = baton_now();
  struct segment *segment = link->first;
  if (link->reset_at <= now) return -ECONNRESET;
  if (segment != NULL && segment->at <= now) {
    const size_t taken = size < segment->size ? size : segment->size;
    memcpy(data, segment->bytes + segment->start, taken);
    segment->start += taken;
    segment->size -= taken;
    link->size -= taken;
    if (segment->size > 0) return (ssize_t)taken;
    link->first = segment->next;
    if (link->first == NULL) link->last = NULL;
    free(segment);
    return (ssize_t)taken;
  }
  return segment == NULL && link->ended_at <= now ? 0 : -EAGAIN;
}

/* Puts a segment on its way to an end. Returns 0 without memory. */
static int send(struct baton_link *to, const char *data, size_t size) {
  struct segment *segment = malloc(sizeof *segment + size);
  const uint64_t arrival = baton_loopback_arrival();
  if (segment == NULL) return 0;
  to->last_at = (arrival > to->last_at ? arrival : to->last_at) + baton_loopback_passage(size);
  segment->next = NULL;
  segment->at = to->last_at;
  segment->start = 0;
  segment->size = size;
  memcpy(segment->bytes, data, size);
  if (to->last != NULL) to->last->next = segment;
  else to->first = segment;
  to->last = segment;
  to->size += size;
  return 1;
}

/* Sends bytes of one part, as far as the window allows. Returns how many. */
static size_t send_part(struct baton_link *to, const char *data, size_t size) {
  size_t sent = 0;
  while (sent < size && to->size < WINDOW) {
    const size_t room = WINDOW - to->size, left = size - sent;
    const size_t piece = baton_loopback_piece(left < room ? left : room);
    if (!send(to, data + sent, piece)) break;
    sent += piece;
  }
  return sent;
}

ssize_t baton_link_write(struct baton_link *link, const struct iovec *parts, int count) {
  struct baton_link *to = link->other;
  size_t all = 0;
  int i;
  if (link->reset_at <= baton_now()) return -ECONNRESET;
  if (to == NULL) return -EPIPE;
  if (to->size >= WINDOW) return -EAGAIN;
  if (baton_loopback_loses()) {
    baton_link_reset(link);
    return -ECONNRESET;
  }
  for (i = 0; i < count; i++) {
    const size_t sent = send_part(to, parts[i].iov_base, parts[i].iov_len);
    all += sent;
    if (sent < parts[i].iov_len) break;
  }
  return all > 0 ? (ssize_t)all : -EAGAIN;
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t baton_link_next(const struct baton_link *link, int writes) {
  const uint64_t now = baton_now();
  if (link->connected_at > now) return link->connected_at;
  if (writes) return link->other == NULL || link->other->size < WINDOW ? now : link->reset_at;
  return earlier(link->first != NULL ? link->first->at : link->ended_at, link->reset_at);
}

/* }====================================================== */

/* {======================================================
** Ends
** ======================================================= */

void baton_link_shut_down(struct baton_link *link) {
  struct baton_link *to = link->other;
  uint64_t arrival;
  if (to == NULL || to->ended_at != BATON_NO_DEADLINE) return;
  arrival = baton_loopback_arrival();
  to->ended_at = arrival > to->last_at ? arrival : to->last_at;
}

/* The connection is lost: here at once, and there when that has arrived. */
void baton_link_reset(struct baton_link *link) {
  link->reset_at = baton_now();
  if (link->other != NULL)
    link->other->reset_at = earlier(link->other->reset_at, baton_loopback_arrival());
}

void baton_links_end_of(const void *vm) {
  struct baton_link **place = &links;
  while (*place != NULL) {
    struct baton_link *link = *place;
    if (link->vm != vm) {
      place = &link->next;
      continue;
    }
    *place = link->next;
    link->vm = NULL;
    if (link->other == NULL) continue;
    link->other->reset_at = earlier(link->other->reset_at, baton_now());
    link->other->other = NULL;
    link->other = NULL;
  }
}

static void leave_list(struct baton_link *link) {
  struct baton_link **place = &links;
  if (link->vm == NULL) return;
  while (*place != link) place = &(*place)->next;
  *place = link->next;
}

void baton_link_close(struct baton_link *link) {
  struct segment *segment = link->first;
  leave_list(link);
  if (segment != NULL) baton_link_reset(link); /* something was not read */
  else baton_link_shut_down(link);
  if (link->other != NULL) link->other->other = NULL;
  while (segment != NULL) {
    struct segment *next = segment->next;
    free(segment);
    segment = next;
  }
  free(link);
}

/* }====================================================== */
