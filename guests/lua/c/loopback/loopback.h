/*
** The public header of loopback/: the network of a simulated run, in memory. All VMs of the program
** have one together. What a VM has there ends with it.
**
**   faults.c      what goes wrong, and when things arrive: the run's seed decides
**   addresses.c   which addresses are the same
**   ports.c       listeners by their addresses, and connections that wait to be accepted
**   links.c       connections: what is on its way between two ends
**   mailboxes.c   sockets for datagrams by their addresses, and what is on its way to each
**
** No function waits or calls Lua. Times are those of baton_now, which is virtual. One VM of a
** simulated run runs at a time, so nothing is locked. Who calls a function that changes something
** wakes the processes that wait (net/waiting.c).
*/
#ifndef BATON_LOOPBACK_H
#define BATON_LOOPBACK_H

#include "state/state.h"

#include <sys/types.h>
#include <sys/uio.h>

#define BATON_LOOPBACK_TEXT 128 /* bytes of an address at most, the zero included */

/* {======================================================
** For the folders above
** ======================================================= */

/* faults.c */
struct baton_faults {
  uint64_t delay; /* nanoseconds that something is on its way at most */
  double loss;    /* the chance that a connection is lost by what is sent */
  uint64_t piece; /* bytes that arrive together at most; 0: what was written together */
  uint64_t rate;  /* bytes per second that a peer takes; 0: any number */
  double drop;    /* the chance that a datagram is lost */
  double twice;   /* the chance that a datagram comes twice */
};
void baton_loopback_set_faults(const struct baton_faults *faults);

/* A number in place of a descriptor. No system has it, and it is not used again. */
int baton_loopback_number(void);

struct baton_port;
struct baton_link;
struct baton_mailbox;

/* Ends all that a VM has in the network, when it has ended or was halted: its connections are lost
   at their other ends. What it has is closed all the same. */
void baton_loopback_end_of(const void *vm);

/* ports.c */
/* Listens to an address for `vm`: "host:port" or "unix:path". Returns 0, or an error number. */
int baton_port_open(const char *text, int backlog, int shares, const void *vm,
    struct baton_port **port);
/* A connection that has arrived, or NULL. The caller has it from now on. */
struct baton_link *baton_port_take(struct baton_port *port);
/* When the next one arrives, of those that are on their way. */
uint64_t baton_port_next(const struct baton_port *port);
const char *baton_port_address(const struct baton_port *port);
/* Also loses the connections that were not accepted. */
void baton_port_close(struct baton_port *port);
/* Connects `vm` to an address. Returns 0, or an error number; EAGAIN: the backlog is full. It is
   connected when baton_link_is_connected says so. */
int baton_loopback_connect(const char *text, const void *vm, struct baton_link **link);

/* links.c */
int baton_link_is_connected(const struct baton_link *link);
/* These return a number of bytes, or an error number, negative. A read returns what has arrived
   together. */
ssize_t baton_link_read(struct baton_link *link, void *data, size_t size);
ssize_t baton_link_write(struct baton_link *link, const struct iovec *parts, int count);
/* When that may succeed, as far as it needs no act of another process; BATON_NO_DEADLINE: never. */
uint64_t baton_link_next(const struct baton_link *link, int writes);
const char *baton_link_address(const struct baton_link *link);
const char *baton_link_peer(const struct baton_link *link);
void baton_link_shut_down(struct baton_link *link);
void baton_link_close(struct baton_link *link);

/* mailboxes.c */
#define BATON_MAILBOX_LARGEST 65507 /* bytes of a datagram */
/* Opens a mailbox with an address for `vm`. Returns 0, or an error number. */
int baton_mailbox_open(
    const char *text, int shares, const void *vm, struct baton_mailbox **box);
const char *baton_mailbox_address(const struct baton_mailbox *box);
/* Sends a datagram to an address. Returns 0, also if it is lost, or an error number. */
int baton_mailbox_send(
    struct baton_mailbox *from, const char *text, const char *data, size_t size);
/* Takes what has arrived: its size, or an error number, negative. `data` has room for the largest
   datagram, and `from` for an address. */
ssize_t baton_mailbox_receive(struct baton_mailbox *box, char *data, char *from);
/* When the next one arrives, of those that are on their way. */
uint64_t baton_mailbox_next(const struct baton_mailbox *box);
void baton_mailbox_close(struct baton_mailbox *box);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* A random number below `bound`, which is not 0. */
uint64_t baton_loopback_draw(uint64_t bound);
/* When something arrives that is sent now. */
uint64_t baton_loopback_arrival(void);
/* How long so many bytes take. */
uint64_t baton_loopback_passage(size_t size);
/* The bytes of the next piece of `size` bytes. */
size_t baton_loopback_piece(size_t size);
/* Whether the connection is lost now. */
int baton_loopback_loses(void);
/* Whether a datagram is lost, and whether it comes twice. */
int baton_loopback_drops(void);
int baton_loopback_repeats(void);

/* addresses.c */
#define BATON_LOOPBACK_FIRST_NUMBER 40000 /* of the ports that the system chooses */
struct baton_loopback_address {
  int number; /* -1: it has a path */
  int is_any; /* it has all hosts */
  char host[BATON_LOOPBACK_TEXT];
  char text[BATON_LOOPBACK_TEXT];
};
/* Reads an address of one's own, or that of a peer: any address is then this machine's. Returns an
   error number. */
int baton_loopback_read_address(const char *text, struct baton_loopback_address *address);
int baton_loopback_read_peer(const char *text, struct baton_loopback_address *address);
/* Writes its text anew: it has another host or number. */
void baton_loopback_write_address(struct baton_loopback_address *address);
/* Whether two sockets would get the same; or a socket what is sent to an address. */
int baton_loopback_is_same(const struct baton_loopback_address *one,
    const struct baton_loopback_address *other);

/* What the parts of the network do at the end of a VM. */
void baton_links_end_of(const void *vm);
void baton_mailboxes_end_of(const void *vm);

/* Makes both ends of a connection, the client's first, each of a VM. Returns 0 without memory. */
int baton_link_make(const char *address, const char *of_client, const void *const vms[2],
    struct baton_link *ends[2]);
uint64_t baton_link_arrives(const struct baton_link *link);
struct baton_link **baton_link_after(struct baton_link *link); /* the next one in a backlog */
void baton_link_reset(struct baton_link *link);

/* }====================================================== */

#endif
