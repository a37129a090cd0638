/* The peer GNU Pth, for Thread-Metric. See ../README.md. */
#define _GNU_SOURCE
#include "../metric.h"

#include <pth.h>

enum { THREADS = 5 };

static void print_version(void) {
  long version = pth_version(); /* 0xVRRTLL */
  printf("GNU Pth %ld.%ld.%ld\n", version >> 20, version >> 12 & 0xff, version & 0xff);
}

static void *take_turns(void *counter) {
  while (goes_on()) {
    pth_yield(NULL);
    ++*(uint64_t *)counter;
  }
  return NULL;
}

static uint64_t metric_cooperative(void) {
  static uint64_t counters[THREADS];
  pth_t threads[THREADS];
  int i;
  for (i = 0; i < THREADS; i++)
    must((threads[i] = pth_spawn(PTH_ATTR_DEFAULT, take_turns, &counters[i])) != NULL, "no thread");
  for (i = 0; i < THREADS; i++) must(pth_join(threads[i], NULL), "a thread is not joined");
  return sum_of_turns(counters, THREADS);
}

struct message {
  pth_message_t head;
  uint64_t content[2];
};

static uint64_t metric_message(void) {
  pth_msgport_t port = pth_msgport_create("metric");
  struct message message;
  uint64_t sent;
  must(port != NULL, "no message port");
  memset(&message, 0, sizeof message);
  for (sent = 0; goes_on(); sent++) {
    struct message *received;
    message.content[0] = sent;
    message.content[1] = ~sent;
    must(pth_msgport_put(port, &message.head), "a message is not sent");
    received = (struct message *)pth_msgport_get(port);
    must(received != NULL && received->content[0] == sent && received->content[1] == ~sent,
        "a message is not what was sent");
  }
  return sent;
}

/* The library has no semaphore, so this is the usual implementation. */
static uint64_t metric_synchronization(void) {
  pth_mutex_t mutex = PTH_MUTEX_INIT;
  pth_cond_t changed = PTH_COND_INIT;
  unsigned available = 1;
  uint64_t counter = 0;
  for (; goes_on(); counter++) {
    pth_mutex_acquire(&mutex, FALSE, NULL);
    while (available == 0) pth_cond_await(&changed, &mutex, NULL);
    available--;
    pth_mutex_release(&mutex);
    pth_mutex_acquire(&mutex, FALSE, NULL);
    available++;
    pth_cond_notify(&changed, FALSE);
    pth_mutex_release(&mutex);
  }
  return counter;
}

static const struct metric metrics[] = {{"basic", metric_basic},
                                        {"cooperative", metric_cooperative},
                                        {"message", metric_message},
                                        {"synchronization", metric_synchronization},
                                        {"memory", metric_memory},
                                        {NULL, NULL}};

int main(int argc, char **argv) {
  must(pth_init(), "the library does not start");
  return run_peer(argc, argv, print_version, metrics);
}
