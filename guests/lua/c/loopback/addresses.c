/*
** Addresses of a simulated run. A host stands for itself, as no name is looked up; "localhost" is
** 127.0.0.1. Any address has all hosts.
*/
#include "loopback/loopback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int baton_loopback_read_address(const char *text, struct baton_loopback_address *address) {
  const char *colon = strrchr(text, ':'), *host = text;
  size_t length;
  memset(address, 0, sizeof *address);
  address->number = -1;
  if (strlen(text) >= sizeof address->text - 8) return ENAMETOOLONG;
  strcpy(address->text, text);
  strcpy(address->host, text);
  if (strncmp(text, "unix:", 5) == 0 || colon == NULL) return 0;
  address->number = atoi(colon + 1);
  length = (size_t)(colon - host);
  if (length >= 2 && host[0] == '[') {
    host++;
    length -= 2;
  }
  memcpy(address->host, host, length);
  address->host[length] = '\0';
  if (strcmp(address->host, "localhost") == 0) strcpy(address->host, "127.0.0.1");
  if (strcmp(address->host, "*") == 0 || length == 0) strcpy(address->host, "::");
  address->is_any = strcmp(address->host, "::") == 0 || strcmp(address->host, "0.0.0.0") == 0;
  return 0;
}

void baton_loopback_write_address(struct baton_loopback_address *address) {
  if (address->number < 0) return;
  snprintf(address->text, sizeof address->text,
      strchr(address->host, ':') != NULL ? "[%.100s]:%d" : "%.100s:%d", address->host,
      address->number);
}

int baton_loopback_read_peer(const char *text, struct baton_loopback_address *address) {
  const int fault = baton_loopback_read_address(text, address);
  if (fault != 0) return fault;
  if (address->is_any) strcpy(address->host, "127.0.0.1");
  address->is_any = 0;
  baton_loopback_write_address(address);
  return 0;
}

int baton_loopback_is_same(const struct baton_loopback_address *one,
    const struct baton_loopback_address *other) {
  if (one->number < 0 || other->number < 0) return strcmp(one->text, other->text) == 0;
  return one->number == other->number &&
      (one->is_any || other->is_any || strcmp(one->host, other->host) == 0);
}
