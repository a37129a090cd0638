/*
** What blocking system calls answer, written down: results, errno, timeouts, what is left of the arguments, which signals end them. Run with calls that
** park and with the system's own, the two texts must be the same. Other threads do what the calls wait for.
*/
#define _GNU_SOURCE
#include <lauxlib.h>
#include <lua.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000L

extern int __poll_chk(struct pollfd *, nfds_t, int, size_t);
extern int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
extern ssize_t __recv_chk(int, void *, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
extern ssize_t __read_chk(int, void *, size_t, size_t);

static char text[32768];
static size_t length;

static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  length += (size_t)vsnprintf(text + length, sizeof text - length, format, arguments);
  va_end(arguments);
}

/* One call: its result, errno if it failed, and whether it took as long as it must. */
static struct timespec began;
static atomic_int has_begun;

static void begin(void) {
  clock_gettime(CLOCK_MONOTONIC, &began);
  has_begun = 1;
  errno = 0;
}

static long took(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / MS;
}

/* The system's own limits of time for sockets are counted in ticks of its clock, and may end one early. */
#define TICK 4

static int is_early(long at_least) { return took() < at_least - TICK; }

static void tell(const char *what, long result, long at_least) {
  const int error = errno;
  say("%s: %ld", what, result);
  if (result < 0) say(" %s", strerror(error));
  say(is_early(at_least) ? " too early\n" : "\n");
}

/* {======================================================
** Other threads
** ======================================================= */

struct errand {
  pthread_t thread, caller;
  pid_t number; /* of the caller */
  int signals; /* that it first sends to the caller, one after the other; -1: until the call is over */
  atomic_int is_over;
  int descriptor;
  char what; /* 'w'rites a byte, 'c'loses its end, 'd'rains, 'k'nocks at a port, 'r'efuses what the `other` sends; or '-', nothing */
  int other;
  struct sockaddr_in address;
};

static void pause_ms(long ms) {
  struct timespec time = {0, ms * MS};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) {
  }
}

/* Whether the thread sleeps, as far as the system tells. */
static int sleeps_by_now(pid_t number) {
  char path[64], line[256];
  const char *after_name;
  ssize_t count;
  int file;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)number);
  file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 1;
  count = read(file, line, sizeof line - 1);
  close(file);
  line[count > 0 ? count : 0] = '\0';
  after_name = strrchr(line, ')');
  return after_name == NULL || after_name[1] == '\0' || after_name[2] == 'S';
}

/* The caller may be kept from running before it comes to its call. */
static void until_it_waits(struct errand *errand) {
  while (!errand->is_over && !(has_begun && sleeps_by_now(errand->number))) pause_ms(1);
}

static void *run(void *argument) {
  struct errand *errand = argument;
  char room[65536];
  int left;
  until_it_waits(errand);
  pause_ms(10);
  for (left = errand->signals; left != 0 && !errand->is_over; left--) {
    pthread_kill(errand->caller, SIGUSR1);
    pause_ms(10);
  }
  switch (errand->what) {
    case '-': break;
    case 'w': if (write(errand->descriptor, "x", 1) != 1) abort(); break;
    case 'c': close(errand->descriptor); break;
    case 'r': close(errand->descriptor); if (send(errand->other, "x", 1, 0) != 1) abort(); break;
    case 'd': while (read(errand->descriptor, room, sizeof room) > 0) {} break;
    default: {
      int s = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(s, (struct sockaddr *)&errand->address, sizeof errand->address) != 0) abort();
      close(s);
    }
  }
  return NULL;
}

static void after_signals(struct errand *errand, int signals, char what, int descriptor) {
  errand->caller = pthread_self();
  errand->number = (pid_t)syscall(SYS_gettid);
  has_begun = 0;
  errand->signals = signals;
  errand->is_over = 0;
  errand->what = what;
  errand->descriptor = descriptor;
  if (pthread_create(&errand->thread, NULL, run, errand) != 0) abort();
}

static void soon(struct errand *errand, char what, int descriptor) { after_signals(errand, 0, what, descriptor); }

static void done(struct errand *errand) {
  errand->is_over = 1;
  pthread_join(errand->thread, NULL);
}

static void make_pair(int pair[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) abort();
}

static void close_both(int pair[2]) {
  close(pair[0]);
  close(pair[1]);
}

/* }====================================================== */

static void polls(void) {
  struct timespec time = {0, 15 * MS}, wrong = {0, 2000 * MS};
  struct errand errand;
  struct pollfd fds[3];
  int a[2], b[2], unused;
  make_pair(a);
  make_pair(b);
  unused = dup(a[0]);
  close(unused);
#define ASK(i, number, wanted) (fds[i].fd = (number), fds[i].events = (wanted), fds[i].revents = 77)
  ASK(0, a[0], POLLIN);
  ASK(1, b[0], POLLIN);
  begin(), tell("poll in vain", poll(fds, 2, 20), 20);
  say("%d %d\n", fds[0].revents, fds[1].revents);
  begin(), tell("poll without waiting", poll(fds, 2, 0), 0);
  begin(), tell("poll nothing", poll(NULL, 0, 15), 15);
  soon(&errand, 'w', b[1]);
  begin(), tell("poll two", poll(fds, 2, 5000), 0);
  done(&errand);
  say("%d %d\n", fds[0].revents, fds[1].revents);
  begin(), tell("poll what is there", poll(fds, 2, -1), 0);
  ASK(1, -1, POLLIN);
  ASK(2, a[0], POLLOUT | POLLIN | POLLPRI);
  begin(), tell("poll to write", poll(fds, 3, 1000), 0);
  say("%d %d %d\n", fds[0].revents, fds[1].revents, fds[2].revents);
  ASK(1, unused, POLLIN);
  begin(), tell("poll what is closed", poll(fds, 2, 1000), 0);
  say("%d %d\n", fds[0].revents, fds[1].revents);
  begin(), tell("ppoll in vain", ppoll(fds, 1, &time, NULL), 15);
  begin(), tell("ppoll wrongly", ppoll(fds, 1, &wrong, NULL), 0);
  begin(), tell("__ppoll_chk", __ppoll_chk(fds, 1, &time, NULL, sizeof fds), 15);
  begin(), tell("__poll_chk", __poll_chk(fds, 1, 15, sizeof fds), 15);
  ASK(0, a[0], POLLIN | POLLRDHUP);
  soon(&errand, 'c', a[1]);
  begin(), tell("poll a hang-up", poll(fds, 1, -1), 0);
  done(&errand);
  say("%d\n", fds[0].revents);
  close(a[0]);
  close_both(b);
}

/* Of a hundred seconds, of which the machine may have stood still for some. */
static int is_most_left(time_t seconds) { return seconds >= 50 && seconds < 100; }

static void set_one(fd_set *reads, fd_set *writes, int descriptor) {
  FD_ZERO(reads);
  FD_ZERO(writes);
  FD_SET(descriptor, reads);
}

static void selects(void) {
  struct timeval time = {100, 0}, wrong = {-1, 0};
  struct timespec shortly = {0, 15 * MS};
  struct errand errand;
  fd_set reads, writes;
  int a[2], limit;
  make_pair(a);
  limit = (a[0] > a[1] ? a[0] : a[1]) + 1;
  set_one(&reads, &writes, a[0]);
  soon(&errand, 'w', a[1]);
  begin(), tell("select", select(limit, &reads, NULL, NULL, &time), 0);
  done(&errand);
  say("%d, time left %d\n", !!FD_ISSET(a[0], &reads), is_most_left(time.tv_sec));
  set_one(&reads, &writes, a[0]);
  FD_SET(a[1], &writes);
  begin(), tell("select both", select(limit, &reads, &writes, NULL, NULL), 0);
  set_one(&reads, &writes, a[0]);
  FD_ZERO(&reads);
  FD_SET(a[1], &reads);
  begin(), tell("pselect in vain", pselect(limit, &reads, NULL, NULL, &shortly, NULL), 15);
  say("%d\n", !!FD_ISSET(a[1], &reads));
  time.tv_sec = 0;
  time.tv_usec = 15000;
  begin(), tell("select nothing", select(0, NULL, NULL, NULL, &time), 15);
  say("time left %d\n", time.tv_sec != 0 || time.tv_usec != 0);
  set_one(&reads, &writes, a[0]);
  begin(), tell("select wrongly", select(limit, &reads, NULL, NULL, &wrong), 0);
  begin(), tell("select too many", select(-1, &reads, NULL, NULL, NULL), 0);
  close_both(a);
  set_one(&reads, &writes, a[0]);
  begin(), tell("select what is closed", select(limit, &reads, NULL, NULL, NULL), 0);
}

static void epolls(void) {
  struct epoll_event event = {EPOLLIN, {.u32 = 7}}, came[4];
  struct errand errand;
  int a[2], epoll = epoll_create1(0);
  make_pair(a);
  epoll_ctl(epoll, EPOLL_CTL_ADD, a[0], &event);
  begin(), tell("epoll_wait in vain", epoll_wait(epoll, came, 4, 15), 15);
  soon(&errand, 'w', a[1]);
  begin(), tell("epoll_wait", epoll_wait(epoll, came, 4, -1), 0);
  done(&errand);
  say("%u %u\n", came[0].data.u32, came[0].events);
  begin(), tell("epoll_pwait", epoll_pwait(epoll, came, 4, 1000, NULL), 0);
  begin(), tell("epoll_wait wrongly", epoll_wait(a[0], came, 4, 1000), 0);
  begin(), tell("epoll_wait without room", epoll_wait(epoll, came, 0, 1000), 0);
  close(epoll);
  close_both(a);
}

static void sleeps(void) {
  struct timespec time = {0, 15 * MS}, wrong = {0, -1}, left = {9, 9}, until;
  begin(), tell("nanosleep", nanosleep(&time, &left), 15);
  begin(), tell("nanosleep wrongly", nanosleep(&wrong, &left), 0);
  begin(), tell("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), 15);
  begin(), tell("clock_nanosleep wrongly", clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, NULL), 0);
  begin(), tell("clock_nanosleep by another clock", clock_nanosleep(CLOCK_BOOTTIME, 0, &time, NULL), 15);
  clock_gettime(CLOCK_MONOTONIC, &until);
  begin(), tell("clock_nanosleep until the past", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL), 0);
  until.tv_nsec += 15 * MS;
  if (until.tv_nsec >= 1000 * MS) until.tv_nsec -= 1000 * MS, until.tv_sec++;
  begin(), tell("clock_nanosleep until", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL), 14);
  begin(), tell("usleep", usleep(15000), 15);
  begin(), tell("sleep", (long)sleep(0), 0);
  say("%ld %ld\n", (long)left.tv_sec, left.tv_nsec);
}

static void limit_time(int descriptor, int option, long ms) {
  struct timeval limit = {ms / 1000, ms % 1000 * 1000};
  setsockopt(descriptor, SOL_SOCKET, option, &limit, sizeof limit);
}

/* MSG_WAITALL: what has come stays what it answers, whatever ends the wait. */
static void wholes(int a[2]) {
  char room[64];
  struct iovec pieces[2] = {{room, 1}, {room + 1, 1}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  struct errand errand;
  int b[2];
#define THERE(descriptor) (write(descriptor, "x", 1) == 1 ? (void)0 : abort())
#define THEN_LATER(what, call) (THERE(a[1]), soon(&errand, 'w', a[1]), begin(), tell(what, call, 5), done(&errand))
  THEN_LATER("recvfrom all", recvfrom(a[0], room, 2, MSG_WAITALL, NULL, NULL));
  THEN_LATER("recvmsg all", recvmsg(a[0], &message, MSG_WAITALL));
  say("%zu %d\n", pieces[0].iov_len, pieces[1].iov_base == room + 1);
  begin(), tell("recv all without waiting", recv(a[0], room, 2, MSG_WAITALL | MSG_DONTWAIT), 0);
  THERE(a[1]);
  begin(), tell("recv a part without waiting", recv(a[0], room, 2, MSG_WAITALL | MSG_DONTWAIT), 0);
  limit_time(a[0], SO_RCVTIMEO, 15);
  begin(), tell("recv all in vain", recv(a[0], room, 2, MSG_WAITALL), 15);
  THERE(a[1]);
  begin(), tell("recv a part in vain", recv(a[0], room, 2, MSG_WAITALL), 15);
  THERE(a[1]);
  begin(), tell("recv all and leave", recv(a[0], room, 2, MSG_WAITALL | MSG_PEEK), 0);
  begin(), tell("recv what was left", recv(a[0], room, 2, 0), 0);
  limit_time(a[0], SO_RCVTIMEO, 0);
  make_pair(b);
  THERE(b[1]);
  soon(&errand, 'c', b[1]);
  begin(), tell("recv all until the end", recv(b[0], room, 9, MSG_WAITALL), 5);
  done(&errand);
  begin(), tell("recv all after the end", recv(b[0], room, 9, MSG_WAITALL), 0);
  close(b[0]);
}

/* Several datagrams by one call. */
static int datagram_socket(struct sockaddr_in *address) {
  socklen_t size = sizeof *address;
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address->sin_port = 0;
  if (bind(s, (struct sockaddr *)address, size) != 0 || getsockname(s, (struct sockaddr *)address, &size) != 0) abort();
  return s;
}

/* An error after the first message is the next call's. */
static void refused_batch(struct mmsghdr *all) {
  struct sockaddr_in of_one, of_other;
  struct errand errand;
  int one = datagram_socket(&of_one), other = datagram_socket(&of_other);
  if (connect(one, (struct sockaddr *)&of_other, sizeof of_other) != 0) abort();
  if (sendto(other, "x", 1, 0, (struct sockaddr *)&of_one, sizeof of_one) != 1) abort();
  errand.other = one;
  soon(&errand, 'r', other);
  begin(), tell("recvmmsg until refused", recvmmsg(one, all, 2, 0, NULL), 5);
  done(&errand);
  begin(), tell("recv after that", recv(one, text, 0, MSG_DONTWAIT), 0);
  close(one);
}

static void batches(void) {
  char room[2][8];
  struct iovec pieces[2] = {{room[0], sizeof room[0]}, {room[1], sizeof room[1]}};
  struct mmsghdr all[2] = {{.msg_hdr = {.msg_iov = &pieces[0], .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = &pieces[1], .msg_iovlen = 1}}};
  struct timespec second = {1, 0};
  struct errand errand;
  int a[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, a) != 0) abort();
  THERE(a[1]);
  soon(&errand, 'w', a[1]);
  begin(), tell("recvmmsg", recvmmsg(a[0], all, 2, 0, NULL), 5);
  done(&errand);
  say("%u %u\n", all[0].msg_len, all[1].msg_len);
  soon(&errand, 'w', a[1]);
  begin(), tell("recvmmsg one", recvmmsg(a[0], all, 2, MSG_WAITFORONE, NULL), 5);
  done(&errand);
  begin(), tell("recvmmsg without waiting", recvmmsg(a[0], all, 2, MSG_DONTWAIT, NULL), 0);
  THERE(a[1]);
  begin(), tell("recvmmsg with a limit", recvmmsg(a[0], all, 1, 0, &second), 0);
  limit_time(a[0], SO_RCVTIMEO, 15);
  begin(), tell("recvmmsg in vain", recvmmsg(a[0], all, 2, 0, NULL), 15);
  THERE(a[1]);
  begin(), tell("recvmmsg one in vain", recvmmsg(a[0], all, 2, 0, NULL), 15);
  fcntl(a[0], F_SETFL, O_NONBLOCK);
  begin(), tell("recvmmsg from what does not block", recvmmsg(a[0], all, 2, 0, NULL), 0);
  begin(), tell("sendmmsg", sendmmsg(a[1], all, 2, 0), 0);
  say("%u %u\n", all[0].msg_len, all[1].msg_len);
  fcntl(a[1], F_SETFL, O_NONBLOCK);
  while (send(a[1], room[0], 8, 0) > 0) {
  }
  fcntl(a[1], F_SETFL, 0);
  limit_time(a[1], SO_SNDTIMEO, 15);
  begin(), tell("sendmmsg in vain", sendmmsg(a[1], all, 2, 0), 15);
  close(a[0]);
  begin(), tell("sendmmsg to nobody", sendmmsg(a[1], all, 2, 0), 0);
  close(a[1]);
  refused_batch(all);
}

static void receives(void) {
  char room[64];
  struct iovec pieces[2] = {{room, 1}, {room + 1, 60}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  struct errand errand;
  int a[2], ends[2];
  make_pair(a);
  if (pipe(ends) != 0) abort();
#define LATER(what, call) (soon(&errand, 'w', a[1]), begin(), tell(what, call, 5), done(&errand))
  LATER("recv", recv(a[0], room, sizeof room, 0));
  LATER("recvfrom", recvfrom(a[0], room, sizeof room, 0, NULL, NULL));
  LATER("recvmsg", recvmsg(a[0], &message, 0));
  LATER("read", read(a[0], room, sizeof room));
  LATER("readv", readv(a[0], pieces, 2));
  LATER("__recv_chk", __recv_chk(a[0], room, 9, sizeof room, 0));
  LATER("__recvfrom_chk", __recvfrom_chk(a[0], room, 9, sizeof room, 0, NULL, NULL));
  LATER("__read_chk", __read_chk(a[0], room, 9, sizeof room));
  LATER("recv and leave", recv(a[0], room, sizeof room, MSG_PEEK));
  begin(), tell("recv what was left", recv(a[0], room, sizeof room, 0), 0);
  if (write(a[1], "x", 1) != 1) abort();
  LATER("recv all", recv(a[0], room, 2, MSG_WAITALL));
  wholes(a);
  begin(), tell("recv without waiting", recv(a[0], room, 9, MSG_DONTWAIT), 0);
  limit_time(a[0], SO_RCVTIMEO, 15);
  begin(), tell("recv in vain", recv(a[0], room, 9, 0), 15);
  begin(), tell("read in vain", read(a[0], room, 9), 15);
  limit_time(a[0], SO_RCVTIMEO, 0);
  fcntl(a[0], F_SETFL, O_NONBLOCK);
  begin(), tell("recv from what does not block", recv(a[0], room, 9, 0), 0);
  begin(), tell("read from what does not block", read(a[0], room, 9), 0);
  fcntl(a[0], F_SETFL, 0);
  soon(&errand, 'c', a[1]);
  begin(), tell("recv the end", recv(a[0], room, 9, 0), 5);
  done(&errand);
  close(a[0]);
  begin(), tell("recv from what is closed", recv(a[0], room, 9, 0), 0);
  begin(), tell("read what is closed", read(a[0], room, 9), 0);
  begin(), tell("recv from a pipe", recv(ends[0], room, 9, 0), 0);
  soon(&errand, 'w', ends[1]);
  begin(), tell("read a pipe", read(ends[0], room, 9), 5);
  done(&errand);
  soon(&errand, 'c', ends[1]);
  begin(), tell("read a pipe's end", read(ends[0], room, 9), 5);
  done(&errand);
  close(ends[0]);
}

static char large[1 << 20];

static void sends(void) {
  struct iovec pieces[2] = {{large, 1000}, {large, sizeof large - 1000}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  struct errand errand;
  int a[2], ends[2];
  ssize_t sent;
#define TO_SLOW_READER(what, call)                                                                        \
  (make_pair(a), soon(&errand, 'd', a[1]), begin(), tell(what, call, 5), close(a[0]), done(&errand), close(a[1]))
  TO_SLOW_READER("send", send(a[0], large, sizeof large, 0));
  TO_SLOW_READER("sendto", sendto(a[0], large, sizeof large, 0, NULL, 0));
  TO_SLOW_READER("sendmsg", sendmsg(a[0], &message, 0));
  TO_SLOW_READER("write", write(a[0], large, sizeof large));
  TO_SLOW_READER("writev", writev(a[0], pieces, 2));
  say("%p %zu\n", pieces[0].iov_base == large ? NULL : large, pieces[0].iov_len);
  make_pair(a);
  begin(), tell("send a little", send(a[0], large, 10, 0), 0);
  limit_time(a[0], SO_SNDTIMEO, 15);
  begin();
  sent = send(a[0], large, sizeof large, 0);
  say("send in part %d%s\n", sent > 0 && sent < (ssize_t)sizeof large, is_early(15) ? " too early" : "");
  begin(), tell("send in vain", send(a[0], large, sizeof large, 0), 15);
  begin(), tell("send without waiting", send(a[0], large, 10, MSG_DONTWAIT), 0);
  fcntl(a[0], F_SETFL, O_NONBLOCK);
  begin(), tell("send to what does not block", send(a[0], large, 10, 0), 0);
  begin(), tell("write to what does not block", write(a[0], large, 10), 0);
  close(a[1]);
  begin(), tell("send to nobody", send(a[0], large, 10, MSG_NOSIGNAL), 0);
  close(a[0]);
  begin(), tell("send to what is closed", send(a[0], large, 10, MSG_NOSIGNAL), 0);
  if (pipe(ends) != 0) abort();
  soon(&errand, 'd', ends[0]);
  begin(), tell("write to a pipe", write(ends[1], large, sizeof large), 5);
  begin(), tell("writev to a pipe", writev(ends[1], pieces, 2), 0);
  close(ends[1]);
  done(&errand);
  close(ends[0]);
}

static void connections(void) {
  struct sockaddr_in address = {.sin_family = AF_INET}, peer;
  socklen_t size = sizeof address;
  struct errand errand;
  int server = socket(AF_INET, SOCK_STREAM, 0), client, accepted;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(server, (struct sockaddr *)&address, size) != 0 || listen(server, 5) != 0) abort();
  getsockname(server, (struct sockaddr *)&address, &size);
  limit_time(server, SO_RCVTIMEO, 15);
  begin(), tell("accept in vain", accept(server, NULL, NULL), 15);
  limit_time(server, SO_RCVTIMEO, 0);
  errand.address = address;
  soon(&errand, 'k', -1);
  size = sizeof peer;
  begin(), accepted = accept(server, (struct sockaddr *)&peer, &size);
  tell("accept", accepted >= 0, 5);
  say("%d %d %d\n", size == sizeof peer, peer.sin_family == AF_INET, fcntl(accepted, F_GETFL) & O_NONBLOCK);
  done(&errand);
  close(accepted);
  soon(&errand, 'k', -1);
  begin(), accepted = accept4(server, NULL, NULL, SOCK_NONBLOCK);
  tell("accept4", accepted >= 0, 5);
  say("%d\n", (fcntl(accepted, F_GETFL) & O_NONBLOCK) != 0);
  done(&errand);
  close(accepted);
  client = socket(AF_INET, SOCK_STREAM, 0);
  begin(), tell("connect", connect(client, (struct sockaddr *)&address, sizeof address), 0);
  say("%d\n", fcntl(client, F_GETFL) & O_NONBLOCK);
  begin(), tell("accept from what does not listen", accept(client, NULL, NULL), 0);
  begin(), tell("connect again", connect(client, (struct sockaddr *)&address, sizeof address), 0);
  close(client);
  fcntl(server, F_SETFL, O_NONBLOCK);
  close(accept(server, NULL, NULL));
  begin(), tell("accept from what does not block", accept(server, NULL, NULL), 0);
  close(server);
  client = socket(AF_INET, SOCK_STREAM, 0);
  begin(), tell("connect to nobody", connect(client, (struct sockaddr *)&address, sizeof address), 0);
  close(client);
  begin(), tell("connect what is closed", connect(client, (struct sockaddr *)&address, sizeof address), 0);
}

/* A server whose queue is full answers nobody. What has begun is waited for by the next call. */
static void connections_in_vain(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  int server = socket(AF_INET, SOCK_STREAM, 0), first = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(server, (struct sockaddr *)&address, size) != 0 || listen(server, 0) != 0) abort();
  getsockname(server, (struct sockaddr *)&address, &size);
  if (connect(first, (struct sockaddr *)&address, size) != 0) abort();
  limit_time(client, SO_SNDTIMEO, 15);
  begin(), tell("connect in vain", connect(client, (struct sockaddr *)&address, size), 15);
  begin(), tell("connect in vain again", connect(client, (struct sockaddr *)&address, size), 15);
  close(accept(server, NULL, NULL));
  limit_time(client, SO_SNDTIMEO, 0);
  begin(), tell("connect at last", connect(client, (struct sockaddr *)&address, size), 0);
  close(client);
  close(first);
  close(server);
}

/* {======================================================
** Signals
** ======================================================= */

static volatile sig_atomic_t caught;

static void on_signal(int number) {
  (void)number;
  caught++;
}

static void catch(int number, int flags) {
  struct sigaction action = {.sa_flags = flags}, now;
  action.sa_handler = on_signal;
  caught = 0;
  if (sigaction(number, &action, NULL) != 0 || sigaction(number, NULL, &now) != 0) abort();
  say("caught by %s, %s\n", now.sa_handler == on_signal ? "the handler" : "another", now.sa_flags & SA_RESTART ? "restarts" : "breaks off");
}

/* Signals until the call has returned; or a few, and then what the call waits for. */
#define BROKEN(what, call) (after_signals(&errand, -1, '-', -1), begin(), tell(what, call, 5), done(&errand))
#define GONE_ON(what, action, descriptor, call) (after_signals(&errand, 3, action, descriptor), begin(), tell(what, call, 15), done(&errand))

/* Whatever the handler's flags say. */
static void broken_waits(int flags) {
  struct timespec long_time = {100, 0}, left = {9, 9}, until;
  struct timeval time = {100, 0};
  struct epoll_event event = {EPOLLIN, {.u32 = 7}}, came;
  struct pollfd asked;
  struct errand errand;
  fd_set reads, writes;
  int a[2], epoll = epoll_create1(0);
  make_pair(a);
  epoll_ctl(epoll, EPOLL_CTL_ADD, a[0], &event);
  catch(SIGUSR1, flags);
  asked.fd = a[0];
  asked.events = POLLIN;
  asked.revents = 77;
  BROKEN("poll broken off", poll(&asked, 1, 100000));
  say("%d, caught %d\n", asked.revents, caught > 0);
  BROKEN("poll nothing broken off", poll(NULL, 0, 100000));
  BROKEN("ppoll broken off", ppoll(&asked, 1, &long_time, NULL));
  set_one(&reads, &writes, a[0]);
  BROKEN("select broken off", select(a[0] + 1, &reads, &writes, NULL, &time));
  say("%d, time left %d\n", !!FD_ISSET(a[0], &reads), is_most_left(time.tv_sec));
  BROKEN("pselect broken off", pselect(a[0] + 1, &reads, NULL, NULL, &long_time, NULL));
  BROKEN("epoll_wait broken off", epoll_wait(epoll, &came, 1, 100000));
  BROKEN("epoll_pwait broken off", epoll_pwait(epoll, &came, 1, 100000, NULL));
  BROKEN("nanosleep broken off", nanosleep(&long_time, &left));
  say("time left %d\n", is_most_left(left.tv_sec));
  BROKEN("clock_nanosleep broken off", clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, &left));
  say("time left %d\n", is_most_left(left.tv_sec));
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += 100;
  left.tv_sec = 9;
  BROKEN("clock_nanosleep until then broken off", clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, &left));
  say("time left %ld\n", (long)left.tv_sec);
  BROKEN("usleep broken off", usleep(100000000));
  BROKEN("sleep broken off", is_most_left((time_t)sleep(100)));
  close(epoll);
  close_both(a);
}

/* Leaves no room in it. */
static void fill(int descriptor) {
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  while (write(descriptor, large, sizeof large) > 0) {
  }
  fcntl(descriptor, F_SETFL, 0);
}

static void listen_at(int server, struct sockaddr_in *address) {
  socklen_t size = sizeof *address;
  memset(address, 0, sizeof *address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(server, (struct sockaddr *)address, size) != 0 || listen(server, 5) != 0) abort();
  getsockname(server, (struct sockaddr *)address, &size);
}

/* Without SA_RESTART. */
static void broken_transfers(void) {
  char room[64];
  struct iovec pieces[2] = {{room, 1}, {room + 1, 60}};
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
  struct errand errand;
  struct sockaddr_in address;
  int a[2], server = socket(AF_INET, SOCK_STREAM, 0);
  make_pair(a);
  listen_at(server, &address);
  BROKEN("recv broken off", recv(a[0], room, sizeof room, 0));
  BROKEN("recvfrom broken off", recvfrom(a[0], room, sizeof room, 0, NULL, NULL));
  BROKEN("recvmsg broken off", recvmsg(a[0], &message, 0));
  BROKEN("read broken off", read(a[0], room, sizeof room));
  BROKEN("readv broken off", readv(a[0], pieces, 2));
  BROKEN("accept broken off", accept(server, NULL, NULL));
  fill(a[0]);
  BROKEN("send broken off", send(a[0], large, 10, 0));
  BROKEN("write broken off", write(a[0], large, 10));
  close(server);
  close_both(a);
}

static void pipes_broken_off(void) {
  char room[64];
  struct errand errand;
  int ends[2];
  if (pipe(ends) != 0) abort();
  BROKEN("read a pipe broken off", read(ends[0], room, sizeof room));
  fill(ends[1]);
  BROKEN("write to a pipe broken off", write(ends[1], large, 10));
  close_both(ends);
}

/* What has begun is not begun again: it answers how far it came. */
static void broken_midway(void) {
  char room[64];
  struct errand errand;
  int a[2], ends[2];
  ssize_t sent;
  make_pair(a);
  if (write(a[1], "x", 1) != 1) abort();
  BROKEN("recv all broken off", recv(a[0], room, sizeof room, MSG_WAITALL));
  after_signals(&errand, -1, '-', -1);
  begin();
  sent = send(a[0], large, sizeof large, 0);
  done(&errand);
  say("send broken off midway %d\n", sent > 0 && sent < (ssize_t)sizeof large);
  close_both(a);
  if (pipe(ends) != 0) abort();
  BROKEN("write to a pipe broken off midway", write(ends[1], large, sizeof large));
  close_both(ends);
}

static void gone_on(void) {
  char room[64];
  struct errand errand;
  int a[2], ends[2], server = socket(AF_INET, SOCK_STREAM, 0), accepted;
  make_pair(a);
  if (pipe(ends) != 0) abort();
  listen_at(server, &errand.address);
  GONE_ON("recv goes on", 'w', a[1], recv(a[0], room, sizeof room, 0));
  GONE_ON("read goes on", 'w', a[1], read(a[0], room, sizeof room));
  GONE_ON("read of a pipe goes on", 'w', ends[1], read(ends[0], room, sizeof room));
  after_signals(&errand, 3, 'k', -1);
  begin(), accepted = accept(server, NULL, NULL);
  tell("accept goes on", accepted >= 0, 15);
  done(&errand);
  close(accepted);
  fill(a[0]);
  after_signals(&errand, 3, 'd', a[1]);
  begin(), tell("send goes on", send(a[0], large, 10, 0), 15);
  say("caught %d\n", caught > 0);
  shutdown(a[0], SHUT_WR);
  done(&errand);
  close_both(a);
  make_pair(a);
  limit_time(server, SO_RCVTIMEO, 100000);
  limit_time(a[0], SO_RCVTIMEO, 100000);
  limit_time(a[0], SO_SNDTIMEO, 100000);
  BROKEN("recv with a limit does not", recv(a[0], room, sizeof room, 0));
  BROKEN("read with a limit does not", read(a[0], room, sizeof room));
  BROKEN("accept with a limit does not", accept(server, NULL, NULL));
  fill(a[0]);
  BROKEN("send with a limit does not", send(a[0], large, 10, 0));
  close(server);
  close_both(ends);
  close_both(a);
}

/* Sending to who has gone raises SIGPIPE, unless something was sent. */
static void broken_pipes(void) {
  struct iovec piece = {large, 10};
  struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
  struct sigaction before;
  struct errand errand;
  int a[2], ends[2];
  ssize_t sent;
  sigaction(SIGPIPE, NULL, &before);
  catch(SIGPIPE, 0);
  make_pair(a);
  if (pipe(ends) != 0) abort();
  close(a[1]);
  close(ends[0]);
#define TO_NOBODY(what, call) (begin(), tell(what, call, 0), say("caught %d\n", (int)caught))
  TO_NOBODY("send to nobody", send(a[0], large, 10, 0));
  TO_NOBODY("send to nobody, silently", send(a[0], large, 10, MSG_NOSIGNAL));
  TO_NOBODY("sendmsg to nobody", sendmsg(a[0], &message, 0));
  TO_NOBODY("write to nobody", write(a[0], large, 10));
  TO_NOBODY("writev to nobody", writev(a[0], &piece, 1));
  TO_NOBODY("write to a pipe that nobody reads", write(ends[1], large, 10));
  close(a[0]);
  close(ends[1]);
  make_pair(a);
  soon(&errand, 'c', a[1]);
  begin();
  sent = send(a[0], large, sizeof large, 0);
  done(&errand);
  say("send to who leaves %d, caught %d\n", sent > 0 && sent < (ssize_t)sizeof large, (int)caught);
  close(a[0]);
  make_pair(a);
  fill(a[0]);
  soon(&errand, 'c', a[1]);
  TO_NOBODY("send to who leaves without having read", send(a[0], large, 10, 0));
  done(&errand);
  close(a[0]);
  sigaction(SIGPIPE, &before, NULL);
}

static void signals(void) {
  broken_waits(0);
  broken_transfers();
  pipes_broken_off();
  broken_midway();
  broken_waits(SA_RESTART);
  gone_on();
  broken_midway();
  say("%d\n", signal(SIGUSR1, SIG_DFL) == on_signal);
  broken_pipes();
}

/* }====================================================== */

/* run() -> the text of all answers */
static int conformance_run(lua_State *L) {
  length = 0;
  polls();
  selects();
  epolls();
  sleeps();
  receives();
  batches();
  sends();
  connections();
  connections_in_vain();
  signals();
  lua_pushlstring(L, text, length);
  return 1;
}

int luaopen_conformance(lua_State *L) {
  lua_newtable(L);
  lua_pushcfunction(L, conformance_run);
  lua_setfield(L, -2, "run");
  return 1;
}
