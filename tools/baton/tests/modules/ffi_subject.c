/* A library for the tests of the ffi. It does not use Lua. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int subject_counter = 7;
const char *const subject_name = "subject";
int subject_grid[2][3] = {{1, 2, 3}, {4, 5, 6}};

struct point {
  int x, y;
};
struct mixed {
  double weight;
  char tag;
  struct point at;
};
union word {
  uint32_t whole;
  uint8_t bytes[4];
};
struct flags {
  unsigned low : 3;
  int middle : 5;
  unsigned long high : 40;
};
enum colour { RED, GREEN = 5, BLUE };

int subject_add(int a, int b) { return a + b; }
int8_t subject_negate_8(int8_t a) { return (int8_t)-a; }
uint16_t subject_next_16(uint16_t a) { return (uint16_t)(a + 1); }
uint64_t subject_largest(void) { return UINT64_MAX; }
int64_t subject_smallest(void) { return INT64_MIN; }
_Bool subject_not(_Bool a) { return !a; }
float subject_half(float a) { return a / 2; }
double subject_weigh(int a, double b, float c, int64_t d) {
  return a * 1000 + b * 100 + (double)c * 10 + (double)d;
}
long double subject_longer(long double a) { return a + 1; }
enum colour subject_next_colour(enum colour colour) { return colour == RED ? GREEN : BLUE; }
int subject_is_null(const void *p) { return p == NULL; }

struct point subject_mirror(struct point p) {
  struct point mirrored = {p.y, p.x};
  return mirrored;
}

struct mixed subject_scale(struct mixed m, double by) {
  m.weight *= by;
  m.at.x = (int)(m.at.x * by);
  m.tag++;
  return m;
}

uint32_t subject_whole(union word word) { return word.whole; }
long subject_flags(struct flags flags) {
  return (long)flags.low * 1000000 + flags.middle * 1000 + (long)flags.high;
}

int subject_sum(int count, ...) {
  va_list list;
  int sum = 0;
  va_start(list, count);
  while (count-- > 0) sum += va_arg(list, int);
  va_end(list);
  return sum;
}

int subject_eight(int a, int b, int c, int d, int e, int f, int g, int h) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

int subject_fail(int with) {
  errno = with;
  return -1;
}

/* {======================================================
** Time
** ======================================================= */

/* Sleeps in a system call; signals do not end the sleep. */
int subject_sleep_ms(int ms) {
  struct timespec rest = {ms / 1000, (long)(ms % 1000) * 1000000L};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) != 0) {
  }
  return ms;
}

static int awaiting;

/* Waits until another thread has set the flag. */
int subject_await(const volatile char *flag) {
  int looks = 0;
  __atomic_add_fetch(&awaiting, 1, __ATOMIC_SEQ_CST);
  while (*flag == 0) {
    struct timespec rest = {0, 200000};
    nanosleep(&rest, NULL);
    looks++;
  }
  __atomic_sub_fetch(&awaiting, 1, __ATOMIC_SEQ_CST);
  return looks;
}

/* How many threads are in subject_await. */
int subject_awaiting(void) { return __atomic_load_n(&awaiting, __ATOMIC_SEQ_CST); }

/* Sleeps, and fills its memory at the end. */
void subject_fill_later(int ms, char *to, int byte, size_t size) {
  subject_sleep_ms(ms);
  memset(to, byte, size);
}

/* Returns the address of a thread-local: equal on one thread, and different on two threads that
   live at the same time. */
uintptr_t subject_thread(void) { return (uintptr_t)&errno; }

/* }====================================================== */

/* {======================================================
** Calling back
** ======================================================= */

typedef int (*unary)(int);

int subject_call(unary f, int a) { return f(a); }

/* Waits until another thread has set the flag, and then calls. */
int subject_await_and_call(const volatile char *flag, unary f, int a) {
  subject_await(flag);
  return f(a);
}

/* Like subject_call. Also checks that the thread-local data has kept its address. */
int subject_call_and_compare(unary f, int a) {
  volatile uintptr_t before = subject_thread();
  int result;
  errno = 33;
  result = f(a);
  return before == subject_thread() && errno == 33 ? result : -1;
}

int subject_call_often(unary f, int count) {
  int i, sum = 0;
  for (i = 1; i <= count; i++) sum += f(i);
  return sum;
}

double subject_call_mixed(double (*f)(int, double, float, struct point, const char *), int a) {
  struct point p = {a + 1, a + 2};
  return f(a, a + 0.5, (float)(a + 0.25), p, "text");
}

struct point subject_call_for_point(struct point (*f)(struct point), int x, int y) {
  struct point p = {x, y};
  return f(p);
}

int8_t subject_call_small(int8_t (*f)(uint8_t, int16_t)) { return f(200, -300); }

static unary kept;

void subject_keep(unary f) { kept = f; }
int subject_call_kept(int a) { return kept(a); }

struct work {
  int (*f)(int, int);
  int number, count, sum;
};

static void *call_from_thread(void *argument) {
  struct work *work = argument;
  int i;
  for (i = 1; i <= work->count; i++) work->sum += work->f(work->number, i);
  return NULL;
}

#define MOST_THREADS 100

/* Calls back `count` times from each of so many threads concurrently. Returns the sum of the
   results, or -1. */
int subject_call_from_threads(int (*f)(int, int), int threads, int count) {
  pthread_t all[MOST_THREADS];
  struct work work[MOST_THREADS];
  int i, sum = 0;
  if (threads > MOST_THREADS) return -1;
  for (i = 0; i < threads; i++) {
    struct work mine = {f, i + 1, count, 0};
    work[i] = mine;
    if (pthread_create(&all[i], NULL, call_from_thread, &work[i]) != 0) return -1;
  }
  for (i = 0; i < threads; i++) {
    pthread_join(all[i], NULL);
    sum += work[i].sum;
  }
  return sum;
}

static void *call_kept_for_ever(void *argument) {
  (void)argument;
  for (;;) kept(1);
  return NULL;
}

/* Starts a thread that calls the stored callback until the program ends. */
int subject_haunt(void) {
  pthread_t thread;
  return pthread_create(&thread, NULL, call_kept_for_ever, NULL);
}

static void *call_kept_later(void *ms) {
  subject_sleep_ms((int)(intptr_t)ms);
  kept(1);
  return NULL;
}

int subject_call_kept_later(int ms) {
  pthread_t thread;
  return pthread_create(&thread, NULL, call_kept_later, (void *)(intptr_t)ms);
}

static void call_kept_at_exit(void) {
  kept(1);
}

int subject_call_kept_at_exit(void) { return atexit(call_kept_at_exit); }

/* }====================================================== */
