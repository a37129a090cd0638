/* For Debian's squeak-vm, by LD_PRELOAD: an idle wait of the VM lasts until its next timer is due,
   and not for a millisecond. That is how the runtime's own idle wait ends. The VM's functions are
   those that it exports to its plugins. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/select.h>
#include <sys/time.h>

/* When the next timer of the image is due, in milliseconds of ioMSecs. 0: there is none. */
extern int getNextWakeupTick(void) __attribute__((weak));
extern int ioMSecs(void) __attribute__((weak));
/* The VM looks for due timers when this counter is below 0: otherwise it idles past them. */
extern void setInterruptCheckCounter(int) __attribute__((weak));

enum { LONGEST = 1000 };

int select(int descriptors, fd_set *to_read, fd_set *to_write, fd_set *failed,
           struct timeval *timeout) {
  static int (*wait)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
  struct timeval until_due;
  if (wait == NULL)
    *(void **)&wait = dlsym(RTLD_NEXT, "select");
  if (timeout != NULL && (timeout->tv_sec != 0 || timeout->tv_usec != 0) &&
      getNextWakeupTick != NULL && ioMSecs != NULL && setInterruptCheckCounter != NULL) {
    int due = getNextWakeupTick();
    int left = due == 0 ? LONGEST : due - ioMSecs();
    if (left < 0)
      left = 0;
    /* After a second it looks again: the clock of ioMSecs begins at 0 now and then. */
    if (left > LONGEST)
      left = LONGEST;
    until_due.tv_sec = left / 1000;
    until_due.tv_usec = left % 1000 * 1000;
    timeout = &until_due;
    setInterruptCheckCounter(-1000);
  }
  return wait(descriptors, to_read, to_write, failed, timeout);
}
