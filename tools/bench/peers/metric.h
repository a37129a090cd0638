/*
** The common part of the peers in C and C++: the command line, the clocks, and Thread-Metric's
** tests that need no threads. A program lists its tests in `metrics`.
*/
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct metric {
  const char *name;
  uint64_t (*count)(void); /* runs until `stopped`; returns the counts */
};

static int stopped;

__attribute__((noreturn)) static void fail(const char *message) {
  fprintf(stderr, "%s\n", message);
  exit(EXIT_FAILURE);
}

static void must(int holds, const char *what) {
  if (!holds) fail(what);
}

static double seconds_of(clockid_t clock) {
  struct timespec time;
  must(clock_gettime(clock, &time) == 0, "no clock");
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void on_alarm(int signal) {
  (void)signal;
  __atomic_store_n(&stopped, 1, __ATOMIC_RELAXED);
}

static int goes_on(void) { return !__atomic_load_n(&stopped, __ATOMIC_RELAXED); }

/* Checks that the counters of processes that take turns are within one of their mean. */
static uint64_t sum_of_turns(const uint64_t *counters, int number) {
  uint64_t sum = 0, least = counters[0], most = counters[0];
  int i;
  for (i = 0; i < number; i++) {
    sum += counters[i];
    if (counters[i] < least) least = counters[i];
    if (counters[i] > most) most = counters[i];
  }
  must(least > 0 && most - least <= 1, "the counters are more than one from each other");
  return sum;
}

static volatile uint64_t words[1024];

static uint64_t metric_basic(void) {
  uint64_t passes = 0;
  int i;
  for (; goes_on(); passes++)
    for (i = 0; i < 1024; i++) words[i] = (words[i] + passes) ^ words[i];
  return passes;
}

static uint64_t metric_memory(void) {
  uint64_t counter = 0;
  for (; goes_on(); counter++) {
    void *volatile block = malloc(128);
    free(block);
  }
  return counter;
}

static void run_metric(const struct metric *metrics, const char *name, double interval) {
  double begun = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  uint64_t counts;
  struct itimerspec when;
  struct sigaction action;
  struct sigevent event;
  timer_t timer;
  while (metrics->name != NULL && strcmp(metrics->name, name) != 0) metrics++;
  must(metrics->name != NULL && interval > 0, "no such test or interval");
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  must(sigaction(SIGUSR2, &action, NULL) == 0, "no handler for the end of the interval");
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR2;
  must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "no timer");
  memset(&when, 0, sizeof when);
  when.it_value.tv_sec = (time_t)interval;
  when.it_value.tv_nsec = (long)((interval - (double)(time_t)interval) * 1e9);
  must(timer_settime(timer, 0, &when, NULL) == 0, "the timer cannot be set");
  counts = metrics->count();
  printf("{\"counts\": %llu, \"seconds\": %.6f, \"cpu\": %.6f}\n", (unsigned long long)counts,
      seconds_of(CLOCK_MONOTONIC) - begun, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

static int run_peer(
    int argc, char **argv, void (*print_version)(void), const struct metric *metrics) {
  if (argc == 2 && strcmp(argv[1], "version") == 0)
    print_version();
  else if (argc == 4 && strcmp(argv[1], "thread-metric") == 0)
    run_metric(metrics, argv[2], strtod(argv[3], NULL));
  else
    fail("usage: peer version | thread-metric TEST SECONDS");
  return EXIT_SUCCESS;
}
