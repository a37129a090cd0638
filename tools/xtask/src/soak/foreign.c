/* The functions that the soak calls. They block, compute, call back, fail and fill memory, on any
   thread. They count their calls, so that Lua can compare the counts with its own. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 16, RECORD = 200 };

struct record {
  unsigned char bytes[RECORD];
};

static int64_t begun, ended, called_back, visited;

int64_t soak_begun(void) { return __atomic_load_n(&begun, __ATOMIC_SEQ_CST); }
int64_t soak_ended(void) { return __atomic_load_n(&ended, __ATOMIC_SEQ_CST); }
int64_t soak_called_back(void) { return __atomic_load_n(&called_back, __ATOMIC_SEQ_CST); }
int64_t soak_visited(void) { return __atomic_load_n(&visited, __ATOMIC_SEQ_CST); }

static void begin(void) { __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST); }
static void end(void) { __atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST); }

static void rest(int microseconds) {
  struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000L};
  while (nanosleep(&time, &time) != 0)
    ;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Sleeps. */
int soak_sleep(int microseconds) {
  begin();
  rest(microseconds);
  end();
  return microseconds + 1;
}

/* Computes. */
int soak_spin(int microseconds) {
  int64_t until = now() + microseconds * 1000LL;
  begin();
  while (now() < until)
    ;
  end();
  return microseconds + 1;
}

/* Sends the preemption signal to all threads, so many times, as if it came late. */
int soak_interrupt(int times) {
  DIR *threads = opendir("/proc/self/task");
  struct dirent *entry;
  int thread, sent = 0;
  begin();
  while (threads != NULL && (entry = readdir(threads)) != NULL)
    if ((thread = atoi(entry->d_name)) > 0)
      for (int i = 0; i < times; i++)
        sent += syscall(SYS_tgkill, getpid(), thread, SIGURG) == 0;
  if (threads != NULL) closedir(threads);
  end();
  return sent;
}

/* Sleeps, and then sets errno. */
int soak_fail(int with, int microseconds) {
  begin();
  rest(microseconds);
  end();
  errno = with;
  return -1;
}

/* Takes and returns a structure by value, copied through its own memory. */
struct record soak_mirror(struct record record, int microseconds) {
  struct record mirrored;
  begin();
  rest(microseconds);
  for (int i = 0; i < RECORD; i++)
    mirrored.bytes[i] = record.bytes[RECORD - 1 - i];
  end();
  return mirrored;
}

/* Writes to the caller's memory before and after it sleeps. */
void soak_fill(unsigned char *to, int byte, int size, int microseconds) {
  begin();
  memset(to, byte + 1, (size_t)size);
  rest(microseconds);
  memset(to, byte, (size_t)size);
  end();
}

/* Calls back between two sleeps. Thread-local data must have the same address and value after. */
int soak_nest(int (*f)(int), int depth, int microseconds) {
  volatile uintptr_t before = (uintptr_t)&errno;
  int result;
  begin();
  rest(microseconds);
  errno = depth + 1;
  __atomic_fetch_add(&called_back, 1, __ATOMIC_SEQ_CST);
  result = f(depth);
  if (before != (uintptr_t)&errno || errno != depth + 1) result = -1000000;
  rest(microseconds);
  end();
  return result + 1;
}

struct visitor {
  int (*f)(int, int);
  int number, count, sum;
};

static void *visit(void *argument) {
  struct visitor *visitor = argument;
  for (int i = 1; i <= visitor->count; i++) {
    __atomic_fetch_add(&visited, 1, __ATOMIC_SEQ_CST);
    visitor->sum += visitor->f(visitor->number, i);
  }
  return NULL;
}

/* Starts threads that call back, and returns the sum of the callbacks' results. */
int soak_visits(int (*f)(int, int), int threads, int count) {
  pthread_t all[MOST_THREADS];
  struct visitor visitors[MOST_THREADS];
  int started = 0, sum = 0;
  begin();
  for (; started < threads && started < MOST_THREADS; started++) {
    visitors[started] = (struct visitor){f, started + 1, count, 0};
    if (pthread_create(&all[started], NULL, visit, &visitors[started]) != 0) abort();
  }
  for (int i = 0; i < started; i++) {
    pthread_join(all[i], NULL);
    sum += visitors[i].sum;
  }
  end();
  return sum;
}
