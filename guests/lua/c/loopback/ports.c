/*
** Listeners of a simulated run, by their addresses.
*/
#include "loopback/loopback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the ports of connections begin and end. */
enum { FIRST_OF_CLIENTS = 50000, END_OF_CLIENTS = 65000 };

struct baton_port {
  struct baton_port *next;
  const void *vm; /* NULL: it has ended, and the port is in no list */
  struct baton_loopback_address address;
  struct baton_link *first; /* the backlog, in the order of arrival */
  int length, backlog, shares;
};

static struct baton_port *ports;

static int is_taken(const struct baton_port *wanted) {
  const struct baton_port *port;
  for (port = ports; port != NULL; port = port->next)
    if (baton_loopback_is_same(&port->address, &wanted->address) &&
        !(port->shares && wanted->shares))
      return 1;
  return 0;
}

static void choose_number(struct baton_port *port) {
  port->address.number = BATON_LOOPBACK_FIRST_NUMBER;
  while (is_taken(port)) port->address.number++;
}

int baton_port_open(const char *text, int backlog, int shares, const void *vm,
    struct baton_port **made) {
  struct baton_port *port = calloc(1, sizeof *port);
  int fault;
  if (port == NULL) return ENOMEM;
  port->vm = vm;
  port->backlog = backlog;
  port->shares = shares;
  fault = baton_loopback_read_address(text, &port->address);
  if (fault == 0 && port->address.number == 0) choose_number(port);
  baton_loopback_write_address(&port->address);
  if (fault == 0 && is_taken(port)) fault = EADDRINUSE;
  if (fault != 0) {
    free(port);
    return fault;
  }
  port->next = ports;
  ports = port;
  *made = port;
  return 0;
}

const char *baton_port_address(const struct baton_port *port) { return port->address.text; }

struct baton_link *baton_port_take(struct baton_port *port) {
  struct baton_link *link = port->first;
  if (link == NULL || !baton_link_is_connected(link)) return NULL;
  port->first = *baton_link_after(link);
  port->length--;
  return link;
}

uint64_t baton_port_next(const struct baton_port *port) {
  return port->first != NULL ? baton_link_arrives(port->first) : BATON_NO_DEADLINE;
}

void baton_loopback_end_of(const void *vm) {
  struct baton_port **place = &ports;
  while (*place != NULL) {
    struct baton_port *port = *place;
    if (port->vm == vm) {
      *place = port->next;
      port->vm = NULL;
    } else {
      place = &port->next;
    }
  }
  baton_links_end_of(vm);
  baton_mailboxes_end_of(vm);
}

void baton_port_close(struct baton_port *port) {
  struct baton_port **place = &ports;
  while (port->vm != NULL && *place != port) place = &(*place)->next;
  if (port->vm != NULL) *place = port->next;
  while (port->first != NULL) {
    struct baton_link *link = port->first;
    port->first = *baton_link_after(link);
    baton_link_reset(link);
    baton_link_close(link);
  }
  free(port);
}

/* {======================================================
** Connecting
** ======================================================= */

/* One of the listeners that have an address. */
static struct baton_port *find(const struct baton_loopback_address *wanted) {
  struct baton_port *port, *found = NULL;
  uint64_t count = 0;
  for (port = ports; port != NULL; port = port->next)
    if (baton_loopback_is_same(&port->address, wanted) && baton_loopback_draw(++count) == 0)
      found = port;
  return found;
}

static void name_client(const struct baton_port *port, char *text) {
  static int number = FIRST_OF_CLIENTS;
  if (port->address.number < 0) {
    strcpy(text, "unix:");
    return;
  }
  snprintf(text, BATON_LOOPBACK_TEXT, "127.0.0.1:%d", number++);
  if (number == END_OF_CLIENTS) number = FIRST_OF_CLIENTS;
}

/* Adds a connection to the backlog, in the order of arrival. */
static void add(struct baton_port *port, struct baton_link *link) {
  struct baton_link **place = &port->first;
  while (*place != NULL && baton_link_arrives(*place) <= baton_link_arrives(link))
    place = baton_link_after(*place);
  *baton_link_after(link) = *place;
  *place = link;
  port->length++;
}

int baton_loopback_connect(const char *text, const void *vm, struct baton_link **link) {
  struct baton_loopback_address wanted;
  struct baton_port *port;
  struct baton_link *ends[2];
  const void *vms[2];
  char client[BATON_LOOPBACK_TEXT];
  const int fault = baton_loopback_read_peer(text, &wanted);
  if (fault != 0) return fault;
  port = find(&wanted);
  if (port == NULL) return wanted.number < 0 ? ENOENT : ECONNREFUSED;
  if (port->length > port->backlog) return EAGAIN;
  name_client(port, client);
  vms[0] = vm;
  vms[1] = port->vm;
  if (!baton_link_make(wanted.text, client, vms, ends)) return ENOMEM;
  add(port, ends[1]);
  *link = ends[0];
  return 0;
}

/* }====================================================== */
