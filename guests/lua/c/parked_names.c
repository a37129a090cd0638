/*
** Look-ups of names: getaddrinfo and getnameinfo, which may ask servers in ways of their own. No descriptor tells when they are done, so a helper
** thread makes the system's call while the process waits, by the rules of parked.c. All that the call reads and writes is in a task of its own: a killed process
** leaves that behind, and whoever of the two is done last frees it.
**
** At most MOST_HELPERS look-ups go on at a time, those of killed processes included; further ones wait in a queue. A helper that finds none ends.
**
** gethostbyname and gethostbyaddr are left to the system: their answers lie in memory that is shared by all who ask.
*/
#include "parked.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define MOST_HELPERS 16

enum kind { ADDRESSES, NAMES };

struct lookup {
  enum kind kind;
  atomic_int references; /* of the process, and of the queue or a helper */
  atomic_int is_done;    /* Release by the helper, Acquire by the process: what is below is there */
  int bell;              /* an eventfd that is readable once it is done */
  int result, error;
  struct lookup *next;
  /* getaddrinfo */
  char *node, *service;
  struct addrinfo hints, *found;
  int has_hints;
  /* getnameinfo */
  struct sockaddr_storage address;
  socklen_t size;
  int flags;
  socklen_t host_size, service_size; /* 0: not asked for */
  char host[NI_MAXHOST], port[NI_MAXSERV];
};

static void release(struct lookup *lookup) {
  if (atomic_fetch_sub_explicit(&lookup->references, 1, memory_order_acq_rel) != 1) return;
  if (lookup->found != NULL) freeaddrinfo(lookup->found);
  if (lookup->bell >= 0) close(lookup->bell);
  free(lookup->node);
  free(lookup->service);
  free(lookup);
}

/* {======================================================
** On helpers
** ======================================================= */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lookup *first, *last; /* these, and the number of helpers, are guarded by it */
static int helpers;

static void look_up(struct lookup *lookup) {
  const struct baton_system_calls *system = baton_system();
  switch (lookup->kind) {
    case ADDRESSES:
      lookup->result = system->getaddrinfo(lookup->node, lookup->service, lookup->has_hints ? &lookup->hints : NULL, &lookup->found);
      if (lookup->result != 0) lookup->found = NULL;
      break;
    case NAMES:
      lookup->result = system->getnameinfo((struct sockaddr *)&lookup->address, lookup->size, lookup->host_size > 0 ? lookup->host : NULL, lookup->host_size,
                                           lookup->service_size > 0 ? lookup->port : NULL, lookup->service_size, lookup->flags);
      break;
  }
  lookup->error = errno;
}

static void *help(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  while (first != NULL) {
    struct lookup *lookup = first;
    first = lookup->next;
    pthread_mutex_unlock(&mutex);
    if (atomic_load_explicit(&lookup->references, memory_order_relaxed) > 1) { /* Relaxed: a hint that nobody wants it any more */
      const uint64_t one = 1;
      look_up(lookup);
      atomic_store_explicit(&lookup->is_done, 1, memory_order_release);
      (void)!baton_system()->write(lookup->bell, &one, sizeof one);
    }
    release(lookup);
    pthread_mutex_lock(&mutex);
  }
  helpers--;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

/* Answers 0 if there is no thread for it. */
static int give_to_helper(struct lookup *lookup) {
  int is_given = 1;
  pthread_mutex_lock(&mutex);
  if (helpers < MOST_HELPERS) {
    if (baton_start_helper("baton-names", help, NULL)) helpers++;
    else is_given = helpers > 0;
  }
  if (is_given) {
    lookup->next = NULL;
    if (first != NULL) last->next = lookup;
    else first = lookup;
    last = lookup;
  }
  pthread_mutex_unlock(&mutex);
  return is_given;
}

void baton_lua_names_in_child(void) {
  pthread_mutex_init(&mutex, NULL);
  first = last = NULL;
  helpers = 0;
}

/* }====================================================== */

/* {======================================================
** In processes
** ======================================================= */

static struct lookup *new_lookup(enum kind kind) {
  struct lookup *lookup = calloc(1, sizeof *lookup);
  if (lookup == NULL) return NULL;
  lookup->kind = kind;
  atomic_init(&lookup->references, 1);
  lookup->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (lookup->bell >= 0) return lookup;
  release(lookup);
  return NULL;
}

static int is_done(void *argument, int which, unsigned ready) {
  struct lookup *lookup = argument;
  (void)which;
  (void)ready;
  return atomic_load_explicit(&lookup->is_done, memory_order_acquire);
}

/* The process waits for it. DONE: it has all that was found, and errno is as the call left it. */
static enum baton_parked await(struct baton_process *process, struct lookup *lookup) {
  const struct baton_watch watch = {(uint32_t)lookup->bell, BATON_WANTS_READ};
  enum baton_parked parked;
  if (!baton_is_program()) return BATON_PARK_REFUSED; /* a child of fork has no helpers, and that of vfork shares them with its parent */
  atomic_store_explicit(&lookup->references, 2, memory_order_relaxed); /* Relaxed: nobody else has it yet */
  if (!give_to_helper(lookup)) {
    atomic_store_explicit(&lookup->references, 1, memory_order_relaxed); /* Relaxed: as before */
    return BATON_PARK_REFUSED;
  }
  parked = baton_park_until(process, &watch, 1, BATON_NO_DEADLINE, BATON_BY_NO_HANDLER, NULL, is_done, lookup);
  if (parked == BATON_PARK_DONE) baton_set_errno(lookup->error);
  return parked;
}

/* Numbers need no server. */
static int is_number(const char *node) {
  struct in6_addr address;
  return inet_pton(AF_INET, node, &address) == 1 || strchr(node, ':') != NULL;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  struct baton_process *process = BATON_WHO_PARKS();
  struct lookup *lookup = NULL;
  if (process != NULL && !baton_simulated && node != NULL && !is_number(node) && (hints == NULL || !(hints->ai_flags & AI_NUMERICHOST)))
    lookup = new_lookup(ADDRESSES);
  if (lookup != NULL) {
    enum baton_parked parked = BATON_PARK_REFUSED;
    int result = EAI_SYSTEM;
    lookup->node = strdup(node);
    lookup->service = service == NULL ? NULL : strdup(service);
    lookup->has_hints = hints != NULL;
    if (hints != NULL) lookup->hints = *hints;
    if (lookup->node != NULL && (service == NULL || lookup->service != NULL)) parked = await(process, lookup);
    if (parked == BATON_PARK_DONE) {
      result = lookup->result;
      if (result == 0) *found = lookup->found;
      lookup->found = NULL;
    }
    release(lookup);
    if (parked != BATON_PARK_REFUSED) return result;
  }
  return baton_system()->getaddrinfo(node, service, hints, found);
}

int getnameinfo(const struct sockaddr *address, socklen_t size, char *host, socklen_t host_size, char *service, socklen_t service_size, int flags) {
  struct baton_process *process = BATON_WHO_PARKS();
  struct lookup *lookup = NULL;
  const int wants_host = host != NULL && host_size > 0, wants_service = service != NULL && service_size > 0;
  if (process != NULL && !baton_simulated && wants_host && !(flags & NI_NUMERICHOST) && address != NULL && size <= sizeof lookup->address)
    lookup = new_lookup(NAMES);
  if (lookup != NULL) {
    enum baton_parked parked;
    int result = EAI_SYSTEM;
    memcpy(&lookup->address, address, size);
    lookup->size = size;
    lookup->flags = flags;
    lookup->host_size = host_size < sizeof lookup->host ? host_size : sizeof lookup->host;
    lookup->service_size = !wants_service ? 0 : service_size < sizeof lookup->port ? service_size : sizeof lookup->port;
    parked = await(process, lookup);
    if (parked == BATON_PARK_DONE) {
      result = lookup->result;
      if (result == 0) memcpy(host, lookup->host, strlen(lookup->host) + 1);
      if (result == 0 && wants_service) memcpy(service, lookup->port, strlen(lookup->port) + 1);
    }
    release(lookup);
    if (parked != BATON_PARK_REFUSED) return result;
  }
  return baton_system()->getnameinfo(address, size, host, host_size, service, service_size, flags);
}

/* }====================================================== */
