/* Calls the functions in a bare C loop, for comparison with other systems' calls: `calls-host
   CASE COUNT LENGTH`, with the cases of ../peers/README.md. `calls-host calibrate NANOSECONDS`
   prints how many iterations of calls_spin take this long. */

#include "calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, TRIES = 25 };

struct work {
  int (*function)(int);
  int count, length;
};

static void *call(void *data) {
  const struct work *work = data;
  for (int i = 0; i < work->count; i++)
    work->function(work->length);
  return NULL;
}

/* Two threads make half of the calls each. */
static int call_together(struct work work) {
  pthread_t threads[THREADS];
  work.count /= THREADS;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, call, &work) != 0) {
      fputs("a thread was refused\n", stderr);
      return EXIT_FAILURE;
    }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return EXIT_SUCCESS;
}

static int run(const char *name, int count, int length) {
  int is_short = strncmp(name, "short_", 6) == 0, status = EXIT_SUCCESS;
  struct work work = {is_short ? calls_spin : calls_sleep, count, length};
  struct work warm_up = {work.function, is_short ? 1000 : 0, length};
  call(&warm_up);
  double start = calls_now();
  if (strstr(name, "_sequential") != NULL)
    call(&work);
  else
    status = call_together(work);
  printf("ms %.6f\n", (calls_now() - start) * 1e3);
  return status;
}

/* The fastest of several tries counts, because the others were interrupted. */
static int calibrate(double nanoseconds) {
  const int turns = 1000000;
  double best = 1e9;
  for (int i = 0; i < TRIES; i++) {
    double start = calls_now();
    calls_spin(turns);
    double seconds = calls_now() - start;
    if (seconds < best)
      best = seconds;
  }
  printf("turns %.0f\n", nanoseconds / 1e9 / best * turns + 1);
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "calibrate") == 0)
    return calibrate(atof(argv[2]));
  if (argc == 4)
    return run(argv[1], atoi(argv[2]), atoi(argv[3]));
  fprintf(stderr, "usage: %s CASE COUNT LENGTH | calibrate NANOSECONDS\n", argv[0]);
  return EXIT_FAILURE;
}
