/*
** Listeners of a simulated run, by their addresses. A host stands for itself, as no name is looked
** up; "localhost" is 127.0.0.1. A listener to any address has all hosts.
*/
#include "loopback/loopback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the ports of the system's choice begin and end: for listeners, and for connections. */
enum { FIRST_OF_LISTENERS = 40000, FIRST_OF_CLIENTS = 50000, END_OF_CLIENTS = 65000 };

struct baton_port {
  struct baton_port *next;
  const void *vm;
  struct baton_link *first; /* the backlog, in the order of arrival */
  int length, backlog, shares;
  int number;               /* -1: it has a path */
  int is_any;               /* it has all hosts */
  char host[BATON_LOOPBACK_TEXT];
  char text[BATON_LOOPBACK_TEXT];
};

static struct baton_port *ports;

/* {======================================================
** Addresses
** ======================================================= */

/* Reads an address into the record. Returns an error number. */
static int read_address(const char *text, struct baton_port *port) {
  const char *colon = strrchr(text, ':'), *host = text;
  size_t length;
  port->number = -1;
  if (strlen(text) >= sizeof port->text - 8) return ENAMETOOLONG;
  strcpy(port->text, text);
  strcpy(port->host, text);
  if (strncmp(text, "unix:", 5) == 0 || colon == NULL) return 0;
  port->number = atoi(colon + 1);
  length = (size_t)(colon - host);
  if (length >= 2 && host[0] == '[') {
    host++;
    length -= 2;
  }
  memcpy(port->host, host, length);
  port->host[length] = '\0';
  if (strcmp(port->host, "localhost") == 0) strcpy(port->host, "127.0.0.1");
  if (strcmp(port->host, "*") == 0 || length == 0) strcpy(port->host, "::");
  port->is_any = strcmp(port->host, "::") == 0 || strcmp(port->host, "0.0.0.0") == 0;
  return 0;
}

static void write_text(struct baton_port *port) {
  if (port->number < 0) return;
  snprintf(port->text, sizeof port->text, strchr(port->host, ':') != NULL ? "[%.100s]:%d"
                                                                          : "%.100s:%d",
      port->host, port->number);
}

/* Whether two listeners would get the same connections; or a listener those to an address. */
static int is_same(const struct baton_port *one, const struct baton_port *other) {
  if (one->vm != other->vm) return 0;
  if (one->number < 0 || other->number < 0) return strcmp(one->text, other->text) == 0;
  return one->number == other->number &&
      (one->is_any || other->is_any || strcmp(one->host, other->host) == 0);
}

static int is_taken(const struct baton_port *wanted) {
  const struct baton_port *port;
  for (port = ports; port != NULL; port = port->next)
    if (is_same(port, wanted) && !(port->shares && wanted->shares)) return 1;
  return 0;
}

static void choose_number(struct baton_port *port) {
  port->number = FIRST_OF_LISTENERS;
  while (is_taken(port)) port->number++;
}

/* }====================================================== */

int baton_port_open(const char *text, int backlog, int shares, const void *vm,
    struct baton_port **made) {
  struct baton_port *port = calloc(1, sizeof *port);
  int fault;
  if (port == NULL) return ENOMEM;
  port->vm = vm;
  port->backlog = backlog;
  port->shares = shares;
  fault = read_address(text, port);
  if (fault == 0 && port->number == 0) choose_number(port);
  write_text(port);
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

const char *baton_port_address(const struct baton_port *port) { return port->text; }

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

void baton_port_close(struct baton_port *port) {
  struct baton_port **place = &ports;
  while (*place != port) place = &(*place)->next;
  *place = port->next;
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
static struct baton_port *find(const struct baton_port *wanted) {
  struct baton_port *port, *found = NULL;
  uint64_t count = 0;
  for (port = ports; port != NULL; port = port->next)
    if (is_same(port, wanted) && baton_loopback_draw(++count) == 0) found = port;
  return found;
}

static void name_client(const struct baton_port *port, char *text) {
  static int number = FIRST_OF_CLIENTS;
  if (port->number < 0) {
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
  struct baton_port wanted, *port;
  struct baton_link *ends[2];
  char client[BATON_LOOPBACK_TEXT];
  int fault;
  memset(&wanted, 0, sizeof wanted);
  wanted.vm = vm;
  fault = read_address(text, &wanted);
  if (fault != 0) return fault;
  if (wanted.is_any) strcpy(wanted.host, "127.0.0.1");
  wanted.is_any = 0;
  write_text(&wanted);
  port = find(&wanted);
  if (port == NULL) return wanted.number < 0 ? ENOENT : ECONNREFUSED;
  if (port->length > port->backlog) return EAGAIN;
  name_client(port, client);
  if (!baton_link_make(wanted.text, client, ends)) return ENOMEM;
  add(port, ends[1]);
  *link = ends[0];
  return 0;
}

/* }====================================================== */
