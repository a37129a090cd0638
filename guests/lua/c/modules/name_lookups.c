/*
** Looks up names of hosts. getaddrinfo may query servers in its own way, and no descriptor reports
** when it is done. So a helper thread makes the call while the process waits. All data of the call
** are in a record of their own. A killed process leaves the record to the helper. The last user
** frees it.
**
** At most MOST_HELPERS look-ups are in progress, those of killed processes included. Others wait in
** a queue. A helper that finds the queue empty ends.
*/
#include "modules/modules.h"
#include "modules/sockets.h"
#include "state/state.h"
#include "system.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_HELPERS 16

struct lookup {
  atomic_int references; /* of the process, and of the queue or a helper */
  atomic_int is_done;    /* Release by the helper, Acquire by the process: it covers the result */
  int done[2];           /* the first becomes readable when the look-up is done */
  int result;
  struct lookup *next;
  char *host;
  struct addrinfo hints, *found;
};

static void release(struct lookup *lookup) {
  if (atomic_fetch_sub_explicit(&lookup->references, 1, memory_order_acq_rel) != 1) return;
  if (lookup->found != NULL) freeaddrinfo(lookup->found);
  baton_close_signal(lookup->done);
  free(lookup->host);
  free(lookup);
}

/* {======================================================
** On helpers
** ======================================================= */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lookup *first, *last; /* the mutex guards these and the number of helpers */
static int helpers;

static void help(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  while (first != NULL) {
    struct lookup *lookup = first;
    first = lookup->next;
    pthread_mutex_unlock(&mutex);
    /* Relaxed: only a hint that no process waits for it any more */
    if (atomic_load_explicit(&lookup->references, memory_order_relaxed) > 1) {
      const uint64_t one = 1;
      lookup->result = getaddrinfo(lookup->host, NULL, &lookup->hints, &lookup->found);
      if (lookup->result != 0) lookup->found = NULL;
      atomic_store_explicit(&lookup->is_done, 1, memory_order_release);
      (void)!write(lookup->done[1], &one, sizeof one);
    }
    release(lookup);
    pthread_mutex_lock(&mutex);
  }
  helpers--;
  pthread_mutex_unlock(&mutex);
}

/* Returns 0 if there is no thread for it. */
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

static struct lookup *new_lookup(const char *host, int family) {
  struct lookup *lookup = calloc(1, sizeof *lookup);
  if (lookup == NULL) return NULL;
  atomic_init(&lookup->references, 1);
  lookup->hints.ai_family = family;
  lookup->hints.ai_socktype = SOCK_STREAM;
  lookup->host = strdup(host);
  if (baton_open_signal(lookup->done) && lookup->host != NULL) return lookup;
  release(lookup);
  return NULL;
}

/* Waits until the look-up is done. Returns 0 if the time was over before. Raises a kill. In both
   cases the helper frees the record. */
static int await(
    lua_State *L, struct baton_process *process, struct lookup *lookup, uint64_t deadline) {
  while (!atomic_load_explicit(&lookup->is_done, memory_order_acquire)) {
    struct baton_wake wake = {0, 0, 0};
    int why;
    baton_lua_enter(L);
    why = baton_lua_await_descriptor(process, lookup->done[0], 0, deadline);
    if (why != BATON_DONE || process->killed || process->interrupted) {
      release(lookup);
      baton_lua_leave(L);
      if (why < 0) luaL_error(L, "a look-up of a name cannot be waited for");
      wake.reason = (uint32_t)why;
      if (baton_lua_after_wait(L, process, wake) == BATON_TIMED_OUT) return 0;
      luaL_error(L, "a look-up of a name was given up");
    }
    baton_lua_leave(L);
  }
  return 1;
}

static void push_addresses(lua_State *L, const struct addrinfo *found) {
  lua_Integer count = 0;
  lua_newtable(L);
  for (; found != NULL; found = found->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(
            found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
      continue;
    lua_pushstring(L, text);
    lua_rawseti(L, -2, ++count);
  }
}

int baton_lua_look_up_name(lua_State *L, struct baton_process *process, const char *host,
    int family, uint64_t deadline) {
  struct lookup *lookup = new_lookup(host, family);
  int result;
  if (lookup == NULL) return EAI_MEMORY;
  /* Relaxed: no other thread has it yet */
  atomic_store_explicit(&lookup->references, 2, memory_order_relaxed);
  if (!give_to_helper(lookup)) {
    atomic_store_explicit(&lookup->references, 1, memory_order_relaxed); /* Relaxed: as before */
    release(lookup);
    return EAI_AGAIN;
  }
  if (!await(L, process, lookup, deadline)) return BATON_NAME_TIMED_OUT;
  result = lookup->result;
  if (result == 0) push_addresses(L, lookup->found);
  release(lookup);
  return result;
}

/* }====================================================== */
