/*
** Parked calls: blocking system calls by listed libraries, in which the process waits in the poller and others run (parked.c has the rules).
*/
#ifndef BATON_PARKED_H
#define BATON_PARKED_H

/* Fortified headers define the very functions that these files do. */
#undef _FORTIFY_SOURCE

#include "guest.h"
#include "system_calls.h"

/* How a wait in the poller ended, beside what came of the attempt. */
enum baton_parked {
  BATON_PARK_DONE,    /* the attempt has succeeded */
  BATON_PARK_TIMEOUT, /* it has not, in time */
  BATON_PARK_FAILED,  /* errno says why: ECANCELED after a kill or an interrupt, EBADF after a close, EINTR after a signal handler */
  BATON_PARK_REFUSED  /* not now and not here: the system's own call is to be made */
};

#define BATON_NO_DEADLINE UINT64_MAX

/* What signal handlers have done on one native thread (handlers.c). Written by that thread; the counts wrap around. */
struct baton_handled {
  uintptr_t frame;        /* of the innermost one that runs, or was left by a jump; 0: none */
  _Atomic unsigned ran;   /* how many have returned */
  _Atomic unsigned broke_off; /* and of these the ones without SA_RESTART */
};

struct baton_handled *baton_handled_here(void);
/* Whether the process, which is on its own stack, is beneath a handler. */
int baton_is_in_handler(const struct baton_process *process);

/* Which handlers end a wait with EINTR (signal(7)). */
enum baton_ended_by { BATON_BY_NO_HANDLER, BATON_BY_ANY_HANDLER, BATON_BY_HANDLERS_THAT_BREAK_OFF };

/* What handlers had done on the calling thread when a call began that may wait several times, or do something before it waits. */
struct baton_since {
  struct baton_handled *on;
  unsigned ran, broke_off;
};

struct baton_since baton_since_now(void);

/* The process of the calling thread, if a call from code at `caller` may park; else NULL. */
struct baton_process *baton_who_parks(const void *caller);

/* Whether this is not a child of fork or vfork that has not gone on as a program of its own. */
int baton_is_program(void);

/* The same wherever it is called from. */
int baton_may_park(const struct baton_process *process);
/* A descriptor is about to be closed or replaced: processes that wait for it are told, and its number is free for another one. */
void baton_descriptor_closes(int descriptor);
/* It was: processes that have begun to wait for it meanwhile try again. Keeps errno. */
void baton_descriptor_has_closed(int descriptor);

/* To be called in the exported function itself. */
#define BATON_WHO_PARKS() baton_who_parks(__builtin_return_address(0))

/*
** The process waits until `attempt` answers nonzero, which must not block. It is called at once, with -1, and each time that one of the descriptors
** may be ready, with its index in `watches` and what it is ready for. `deadline` is absolute. Handlers end the wait that have run since then; NULL: since
** now. Errno is as the last attempt left it.
*/
enum baton_parked baton_park_until(struct baton_process *process, const struct baton_watch *watches, size_t count, uint64_t deadline,
                                   enum baton_ended_by ended_by, const struct baton_since *since, baton_attempt attempt, void *argument);
/* On the calling thread as it is by then: the process may have come to another one. */
void baton_set_errno(int value);
/* The process sleeps, until then or until any signal handler has run. */
enum baton_parked baton_park_asleep(struct baton_process *process, uint64_t deadline);
/* The process waits until one descriptor is ready for one of POLLIN, POLLOUT, POLLPRI. */
enum baton_parked baton_park_for(struct baton_process *process, int descriptor, short events, uint64_t deadline, enum baton_ended_by ended_by,
                                 const struct baton_since *since);
/* Calls that move data or connect are made again after a handler with SA_RESTART, unless they time out. */
static inline enum baton_ended_by baton_transfer_ends_by(uint64_t deadline) {
  return deadline == BATON_NO_DEADLINE ? BATON_BY_HANDLERS_THAT_BREAK_OFF : BATON_BY_ANY_HANDLER;
}

/* As poll without waiting. Whatever handler comes between, it says what is ready: that a handler ends the call is known otherwise. */
int baton_poll_now(struct pollfd *fds, nfds_t count);
/* An attempt: whether poll finds what its argument, a `struct pollfd`, asks for. */
int baton_is_ready(void *argument, int which, unsigned ready);

/* From here on any handler ends the process's wait, if it is parked. Inside the VM then. */
void baton_end_by_any_handler(struct baton_process *process);

unsigned baton_wants(short events); /* of poll */
uint64_t baton_deadline_after(const struct timespec *timeout); /* NULL: never */
int baton_is_nonblocking(int descriptor);
int baton_is_stream(int descriptor);
/* What poll finds now of these events, and of POLLERR, POLLHUP and POLLNVAL. */
short baton_ready_for(int descriptor, short events);
/* When a call on the socket times out, by SO_RCVTIMEO or SO_SNDTIMEO. */
uint64_t baton_deadline_of_socket(int descriptor, int option);

#endif
