/*
** Sockets for datagrams of a simulated run, by their addresses. A datagram arrives at its own time,
** so it may overtake one that was sent before. It may be lost, and it may come twice. What comes to
** a full mailbox is lost, and so is what nobody has the address of.
*/
#include "loopback/loopback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a mailbox has at most, on its way or not yet read. */
enum { MOST_BYTES = 212992, MOST_LETTERS = 1024 };

struct letter {
  struct letter *next; /* it arrives at the same time or later */
  uint64_t at;
  size_t size;
  char from[BATON_LOOPBACK_TEXT];
  char bytes[];
};

struct baton_mailbox {
  struct baton_mailbox *next;
  const void *vm; /* NULL: it has ended, and the mailbox is in no list */
  struct baton_loopback_address address;
  int shares;
  struct letter *first;
  size_t bytes, letters;
};

static struct baton_mailbox *mailboxes;

static int is_taken(const struct baton_mailbox *wanted) {
  const struct baton_mailbox *box;
  for (box = mailboxes; box != NULL; box = box->next)
    if (baton_loopback_is_same(&box->address, &wanted->address) &&
        !(box->shares && wanted->shares))
      return 1;
  return 0;
}

static void choose_number(struct baton_mailbox *box) {
  box->address.number = BATON_LOOPBACK_FIRST_NUMBER;
  while (is_taken(box)) box->address.number++;
}

int baton_mailbox_open(
    const char *text, int shares, const void *vm, struct baton_mailbox **made) {
  struct baton_mailbox *box = calloc(1, sizeof *box);
  int fault;
  if (box == NULL) return ENOMEM;
  box->vm = vm;
  box->shares = shares;
  fault = baton_loopback_read_address(text, &box->address);
  if (fault == 0 && box->address.number == 0) choose_number(box);
  baton_loopback_write_address(&box->address);
  if (fault == 0 && is_taken(box)) fault = EADDRINUSE;
  if (fault != 0) {
    free(box);
    return fault;
  }
  box->next = mailboxes;
  mailboxes = box;
  *made = box;
  return 0;
}

const char *baton_mailbox_address(const struct baton_mailbox *box) { return box->address.text; }

/* {======================================================
** Sending
** ======================================================= */

/* One of the mailboxes that have an address. */
static struct baton_mailbox *find(const struct baton_loopback_address *wanted) {
  struct baton_mailbox *box, *found = NULL;
  uint64_t count = 0;
  for (box = mailboxes; box != NULL; box = box->next)
    if (baton_loopback_is_same(&box->address, wanted) && baton_loopback_draw(++count) == 0)
      found = box;
  return found;
}

/* Where a datagram of this socket comes from. */
static void name_sender(const struct baton_mailbox *box, char *text) {
  struct baton_loopback_address from = box->address;
  if (from.is_any) strcpy(from.host, "127.0.0.1");
  baton_loopback_write_address(&from);
  strcpy(text, from.text);
}

/* Returns 0 without memory. */
static int post(const struct baton_mailbox *from, struct baton_mailbox *to, const char *data,
    size_t size) {
  struct letter **place = &to->first, *letter;
  if (to->letters >= MOST_LETTERS || to->bytes + size > MOST_BYTES) return 1; /* it is lost */
  letter = malloc(sizeof *letter + size);
  if (letter == NULL) return 0;
  letter->at = baton_loopback_arrival() + baton_loopback_passage(size);
  letter->size = size;
  name_sender(from, letter->from);
  if (size > 0) memcpy(letter->bytes, data, size);
  while (*place != NULL && (*place)->at <= letter->at) place = &(*place)->next;
  letter->next = *place;
  *place = letter;
  to->bytes += size;
  to->letters++;
  return 1;
}

int baton_mailbox_send(
    struct baton_mailbox *from, const char *text, const char *data, size_t size) {
  struct baton_loopback_address wanted;
  struct baton_mailbox *to;
  int fault = baton_loopback_read_peer(text, &wanted);
  if (fault != 0) return fault;
  if (size > BATON_MAILBOX_LARGEST) return EMSGSIZE;
  to = find(&wanted);
  if (to == NULL || baton_loopback_drops()) return 0;
  if (!post(from, to, data, size)) return ENOMEM;
  return baton_loopback_repeats() && !post(from, to, data, size) ? ENOMEM : 0;
}

/* }====================================================== */

/* {======================================================
** Receiving
** ======================================================= */

ssize_t baton_mailbox_receive(struct baton_mailbox *box, char *data, char *from) {
  struct letter *letter = box->first;
  ssize_t size;
  if (letter == NULL || letter->at > baton_now()) return -EAGAIN;
  size = (ssize_t)letter->size;
  if (size > 0) memcpy(data, letter->bytes, letter->size);
  strcpy(from, letter->from);
  box->first = letter->next;
  box->bytes -= letter->size;
  box->letters--;
  free(letter);
  return size;
}

uint64_t baton_mailbox_next(const struct baton_mailbox *box) {
  return box->first != NULL ? box->first->at : BATON_NO_DEADLINE;
}

void baton_mailboxes_end_of(const void *vm) {
  struct baton_mailbox **place = &mailboxes;
  while (*place != NULL) {
    struct baton_mailbox *box = *place;
    if (box->vm == vm) {
      *place = box->next;
      box->vm = NULL;
    } else {
      place = &box->next;
    }
  }
}

void baton_mailbox_close(struct baton_mailbox *box) {
  struct baton_mailbox **place = &mailboxes;
  while (box->vm != NULL && *place != box) place = &(*place)->next;
  if (box->vm != NULL) *place = box->next;
  while (box->first != NULL) {
    struct letter *letter = box->first;
    box->first = letter->next;
    free(letter);
  }
  free(box);
}

/* }====================================================== */
