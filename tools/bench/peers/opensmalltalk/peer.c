/* OpenSmalltalk-VM's ways of waiting on Linux, before and after its pull request 764, with an image
 * that only waits.
 *
 * This program was written from the descriptions in github.com/OpenSmalltalk/opensmalltalk-vm, pull
 * request 764 and issue 785, for a comparison with Baton. The designs:
 *
 *   stock   A thread wakes every 2 ms and updates the clock that delays use. The idle process
 *           sleeps 1 ms at a time.
 *   slow    Like stock, but the thread wakes only every 50 ms while the main thread is idle.
 *   aware   Like slow, and the main thread sleeps until the next delay, for at most 500 ms, in one
 *           wait for everything.
 *   folded  Like aware, and a timer of 500 ms in that wait replaces the thread.
 *
 * At first, the pull request made delays late (issue 785). Like its fix, this program reads the
 * clock after each sleep.
 *
 *   peer version
 *   peer DESIGN idle CASE            waits for ever; CASE as in ../../programs/idle.lua
 *   peer DESIGN delay SECONDS COUNT  prints the same as ../../programs/delay.lua
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

typedef long long microseconds;

enum {
  BEAT = 2000,
  IDLE_BEAT = 50000,
  FOLDED_BEAT = 500000,
  LONGEST_SLEEP = 500000,
  RELINQUISHED = 1000
};

static const char *const designs[] = { "stock", "slow", "aware", "folded" };
static enum design { STOCK, SLOW, AWARE, FOLDED } design;

static atomic_bool main_thread_is_idle;
static _Atomic microseconds beaten_clock;
static microseconds next_wakeup; /* 0: no delay is pending */
static int listener = -1, waiter = -1, beat_timer = -1;

static void fail(const char *what) {
  fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
  exit(1);
}

static microseconds read_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static struct timespec interval(microseconds length) {
  return (struct timespec){ .tv_sec = length / 1000000, .tv_nsec = length % 1000000 * 1000 };
}

static void *beat(void *nothing) {
  for (;;) {
    bool backs_off = design != STOCK && atomic_load(&main_thread_is_idle);
    struct timespec period = interval(backs_off ? IDLE_BEAT : BEAT);
    nanosleep(&period, NULL);
    atomic_store(&beaten_clock, read_clock());
  }
  return nothing;
}

static void wait_for(int descriptor) {
  struct epoll_event event = { .events = EPOLLIN, .data.fd = descriptor };
  if (descriptor >= 0 && epoll_ctl(waiter, EPOLL_CTL_ADD, descriptor, &event) != 0)
    fail("epoll_ctl");
}

static void start(void) {
  atomic_store(&beaten_clock, read_clock());
  if (design >= AWARE) {
    waiter = epoll_create1(EPOLL_CLOEXEC);
    if (waiter < 0) fail("epoll_create1");
    wait_for(listener);
  }
  if (design == FOLDED) {
    struct itimerspec beats = {
        .it_interval = interval(FOLDED_BEAT), .it_value = interval(FOLDED_BEAT)};
    beat_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (beat_timer < 0 || timerfd_settime(beat_timer, 0, &beats, NULL) != 0) fail("timerfd");
    wait_for(beat_timer);
    return;
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, beat, NULL) != 0) fail("pthread_create");
}

/* Sleeps for exactly the time that the image asks for. */
static void sleep_as_told(void) {
  fd_set readable;
  FD_ZERO(&readable);
  if (listener >= 0) FD_SET(listener, &readable);
  struct timeval length = { .tv_usec = RELINQUISHED };
  select(listener + 1, &readable, NULL, NULL, &length);
}

/* Sleeps until the next delay, or not at all if that is overdue. */
static void sleep_until_next_delay(void) {
  microseconds length = LONGEST_SLEEP;
  if (next_wakeup != 0) {
    microseconds left = next_wakeup - read_clock();
    if (left <= 0) return;
    if (left < length) length = left;
  }
  struct epoll_event event;
  struct timespec limit = interval(length);
  if (epoll_pwait2(waiter, &event, 1, &limit, NULL) == 1 && event.data.fd == beat_timer) {
    unsigned long long beats;
    if (read(beat_timer, &beats, sizeof beats) < 0 && errno != EAGAIN) fail("read of the timer");
  }
}

/* The image's idle process, which runs when nothing else can. */
static void relinquish_processor(void) {
  atomic_store(&main_thread_is_idle, true);
  if (design >= AWARE) sleep_until_next_delay();
  else sleep_as_told();
  atomic_store(&main_thread_is_idle, false);
}

static void wait_for_delay(void) {
  while (next_wakeup == 0 ||
      (design == STOCK ? atomic_load(&beaten_clock) : read_clock()) < next_wakeup)
    relinquish_processor();
}

static void listen_for_nobody(void) {
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
      listen(listener, 5) != 0)
    fail("listen");
}

_Noreturn static void idle(const char *which) {
  microseconds period = 0;
  if (strcmp(which, "second") == 0) period = 1000000;
  if (strcmp(which, "kilohertz") == 0) period = 1000;
  if (strcmp(which, "listen") == 0) listen_for_nobody();
  start();
  if (strcmp(which, "busy") == 0)
    for (microseconds begin = read_clock(); read_clock() - begin < 1000000;) {}
  if (strcmp(which, "hour") == 0) next_wakeup = read_clock() + 3600 * 1000000LL;
  /* Waiting processes are only lists in the image's memory, so their number does not matter. */
  puts("ready");
  fflush(stdout);
  if (period != 0) next_wakeup = read_clock() + period;
  for (;;) {
    wait_for_delay();
    next_wakeup = period != 0 ? next_wakeup + period : 0;
  }
}

static int delay(double seconds, long count) {
  microseconds length = (microseconds)(seconds * 1e6);
  double *late = calloc(count, sizeof *late);
  if (late == NULL) fail("calloc");
  start();
  microseconds began = read_clock();
  for (long i = 0; i < count; i++) {
    microseconds before = read_clock();
    next_wakeup = before + length;
    wait_for_delay();
    late[i] = (double)(read_clock() - before - length);
  }
  printf("took_s %.6f\nlate_us", (double)(read_clock() - began) / 1e6);
  for (long i = 0; i < count; i++) printf(" %.1f", late[i]);
  puts("");
  return 0;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "version") == 0) {
    puts("the waits of OpenSmalltalk-VM, written anew after its pull request 764");
    return 0;
  }
  for (design = STOCK; count >= 4 && design <= FOLDED; design++) {
    if (strcmp(words[1], designs[design]) != 0) continue;
    if (strcmp(words[2], "idle") == 0) idle(words[3]);
    if (strcmp(words[2], "delay") == 0 && count == 5) return delay(atof(words[3]), atol(words[4]));
  }
  fprintf(stderr,
      "usage: peer version | peer stock|slow|aware|folded idle CASE | peer DESIGN delay SECONDS "
      "COUNT\n");
  return 2;
}
