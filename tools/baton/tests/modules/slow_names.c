/*
** Preloaded: look-ups of names that begin with "slow" end once the file $SLOW_NAMES is there, and
** find 127.0.0.1; names that begin with "none" are unknown; those that begin with "dead" have the
** addresses 127.0.0.2 and 127.0.0.1. All others are the system's.
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int at_once, most, all;

int slow_names_most(void) { return most; }
int slow_names_all(void) { return all; }

static void wait_for_file(void) {
  const int now = ++at_once;
  int before = most;
  while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
  }
  all++;
  while (access(getenv("SLOW_NAMES"), F_OK) != 0) usleep(2000);
  at_once--;
}

int getaddrinfo(
    const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
      dlsym(RTLD_NEXT, "getaddrinfo");
  if (node != NULL && strncmp(node, "none", 4) == 0) return EAI_NONAME;
  if (node != NULL && strncmp(node, "dead", 4) == 0) {
    const int result = next("127.0.0.2", service, hints, found);
    return result != 0 ? result : next("127.0.0.1", service, hints, &(*found)->ai_next);
  }
  if (node == NULL || strncmp(node, "slow", 4) != 0) return next(node, service, hints, found);
  wait_for_file();
  return next("127.0.0.1", service, hints, found);
}

int getnameinfo(const struct sockaddr *address, socklen_t size, char *host, socklen_t host_size,
    char *service, socklen_t service_size, int flags) {
  int (*next)(const struct sockaddr *, socklen_t, char *, socklen_t, char *, socklen_t, int) =
      dlsym(RTLD_NEXT, "getnameinfo");
  if (!(flags & NI_NUMERICHOST)) wait_for_file();
  return next(address, size, host, host_size, service, service_size, flags | NI_NUMERICHOST);
}
