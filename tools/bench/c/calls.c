/* The functions of calls.h. The file is compiled separately, so that none is inlined. */
#define _POSIX_C_SOURCE 200809L

#include "calls.h"

#include <errno.h>
#include <time.h>

int calls_spin(int turns) {
  for (int turn = 0; turn < turns; turn++)
    __asm__ volatile("" : "+r"(turn));
  return turns;
}

/* Sleeps until an absolute time, so that a signal does not prolong the sleep. */
int calls_sleep(int microseconds) {
  struct timespec until;
  int error;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += microseconds / 1000000;
  until.tv_nsec += microseconds % 1000000 * 1000L;
  if (until.tv_nsec >= 1000000000L) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000L;
  }
  do
    error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
  while (error == EINTR);
  return error;
}

double calls_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
