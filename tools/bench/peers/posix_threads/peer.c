/*
** The peer POSIX threads, for Thread-Metric. See ../README.md. All threads run on one CPU and take
** turns through semaphores. sched_yield would not do, because the kernel need not run threads of
** equal priority in turn.
*/
#define _GNU_SOURCE
#include "../metric.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

enum { THREADS = 5 };

static void print_version(void) {
  char name[64];
  must(confstr(_CS_GNU_LIBPTHREAD_VERSION, name, sizeof name) > 0, "no version");
  printf("%s\n", name);
}

static void stay_on_one_cpu(void) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(sched_getcpu(), &cpus);
  must(sched_setaffinity(0, sizeof cpus, &cpus) == 0, "the CPU cannot be chosen");
}

static void await(sem_t *semaphore) {
  while (sem_wait(semaphore) != 0) { /* a signal handler interrupted the wait */
  }
}

static sem_t turns[THREADS];
static uint64_t counters[THREADS];

/* One token goes round. A thread that ends passes on one more, so that none waits for ever. */
static void *take_turns(void *argument) {
  int number = (int)(intptr_t)argument;
  sem_t *next = &turns[(number + 1) % THREADS];
  while (goes_on()) {
    await(&turns[number]);
    if (goes_on()) counters[number]++;
    sem_post(next);
  }
  sem_post(next);
  return NULL;
}

static uint64_t metric_cooperative(void) {
  pthread_t threads[THREADS];
  int i;
  stay_on_one_cpu();
  for (i = 0; i < THREADS; i++) sem_init(&turns[i], 0, i == 0);
  for (i = 0; i < THREADS; i++)
    must(pthread_create(&threads[i], NULL, take_turns, (void *)(intptr_t)i) == 0, "no thread");
  for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return sum_of_turns(counters, THREADS);
}

static sem_t came, wanted;
static volatile uint64_t handled; /* written by the interrupted thread */

static void on_interrupt(int signal) {
  (void)signal;
  handled++;
  sem_post(&came);
}

static uint64_t count_interrupts(void (*cause)(void)) {
  uint64_t counter = 0;
  while (goes_on()) {
    cause();
    await(&came);
    counter++;
  }
  return counter;
}

static void by_signal(void) { raise(SIGUSR1); }

static uint64_t metric_interrupt(void) {
  struct sigaction action;
  uint64_t counter;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  must(sigaction(SIGUSR1, &action, NULL) == 0, "no handler");
  sem_init(&came, 0, 0);
  counter = count_interrupts(by_signal);
  must(handled == counter, "an interrupt was lost");
  return counter;
}

/* Answers to the end of the program, as the other thread may ask once more after the time. */
static void *answer(void *argument) {
  (void)argument;
  for (;;) {
    await(&wanted);
    sem_post(&came);
  }
}

static void by_thread(void) { sem_post(&wanted); }

static uint64_t metric_interrupt_thread(void) {
  pthread_t other;
  sem_init(&came, 0, 0);
  sem_init(&wanted, 0, 0);
  must(pthread_create(&other, NULL, answer, NULL) == 0, "no thread");
  return count_interrupts(by_thread);
}

static uint64_t metric_message(void) {
  struct mq_attr attributes = {.mq_maxmsg = 10, .mq_msgsize = sizeof(uint64_t[2])};
  uint64_t sent, received[2];
  char name[32];
  mqd_t queue;
  snprintf(name, sizeof name, "/baton-peer-%d", (int)getpid());
  queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
  must(queue != (mqd_t)-1, "no message queue");
  mq_unlink(name);
  for (sent = 0; goes_on(); sent++) {
    uint64_t message[2] = {sent, ~sent};
    while (mq_send(queue, (const char *)message, sizeof message, 0) != 0)
      must(errno == EINTR, "a message is not sent");
    while (mq_receive(queue, (char *)received, sizeof received, NULL) < 0)
      must(errno == EINTR, "a message is not received");
    must(memcmp(message, received, sizeof message) == 0, "a message is not what was sent");
  }
  return sent;
}

static uint64_t metric_synchronization(void) {
  uint64_t counter = 0;
  sem_t semaphore;
  sem_init(&semaphore, 0, 1);
  for (; goes_on(); counter++) {
    await(&semaphore);
    sem_post(&semaphore);
  }
  return counter;
}

static const struct metric metrics[] = {{"basic", metric_basic},
                                        {"cooperative", metric_cooperative},
                                        {"interrupt", metric_interrupt},
                                        {"interrupt_thread", metric_interrupt_thread},
                                        {"message", metric_message},
                                        {"synchronization", metric_synchronization},
                                        {"memory", metric_memory},
                                        {NULL, NULL}};

int main(int argc, char **argv) { return run_peer(argc, argv, print_version, metrics); }
