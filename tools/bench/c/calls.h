/* The C functions that every system calls in the experiments on foreign calls. */
#ifndef BATON_BENCH_CALLS_H
#define BATON_BENCH_CALLS_H

/* Computes in a loop of that many iterations. Returns their number. */
int calls_spin(int turns);

/* Sleeps for that many microseconds. Returns 0, or an errno. */
int calls_sleep(int microseconds);

/* The time of the monotonic clock, in seconds. */
double calls_now(void);

#endif
