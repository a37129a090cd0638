/* The C functions that every system calls in the experiments on foreign calls. */
#ifndef BATON_BENCH_CALLS_H
#define BATON_BENCH_CALLS_H

/* Computes for that many turns of a loop, and returns their number. */
int calls_spin(int turns);

/* Blocks for that many microseconds; 0, or an errno. */
int calls_sleep(int microseconds);

/* Seconds of the monotonic clock. */
double calls_now(void);

#endif
