/*
** A guest of the runtime, the life of its VM, and the gate. Include baton.h, which includes this.
**
** A program makes a VM from a table of callbacks, adds its first process, and runs it:
**
**   baton_vm *vm;
**   if (baton_vm_new(&guest, state, &vm) != 0) ...
**   baton_spawn_first(vm, &options, message, sizeof message);
**   baton_vm_run(vm);
**   baton_vm_free(vm);
**
** Results are 0 or a negative errno, unless a function says otherwise.
*/
#ifndef BATON_TABLE_OF_GUEST_H
#define BATON_TABLE_OF_GUEST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From where a function may be called; baton.h explains them. */
#define BATON_INSIDE
#define BATON_OUTSIDE
#define BATON_ANY_THREAD
#define BATON_SIGNAL_HANDLER

/* A VM: the processes of one guest. */
typedef struct baton_vm baton_vm;

struct baton_spawn_options;

/* The runtime's version, such as "0.1.0". */
BATON_ANY_THREAD const char *baton_version(void);

/* {======================================================
** The guest
** ======================================================= */

/* What retake_policy answers: may others run while this process's foreign call lasts? */
enum baton_policy {
  BATON_STAY,         /* no: the VM stays with the call */
  BATON_RETAKE,       /* yes, and the process may continue on another native thread */
  BATON_RETAKE_PINNED /* yes, but the process continues on the thread of the call only */
};

/*
** The callbacks. `size` is sizeof(struct baton_guest). All but `run` and `preempt` may be NULL.
** `guest` is the pointer that baton_vm_new was given. `user_data` is that of a process (see
** baton_spawn_options), whose meaning is the guest's. No callback may unwind or jump out.
*/
struct baton_guest {
  size_t size;
  /* Runs a process on its own stack, inside, and returns at its end, inside. The native thread may
     be another one after each call of the runtime: keep no address of a thread-local variable. Call
     baton_safepoint when baton_wants_safepoint says so, and return soon once baton_kill_is_due. */
  void (*run)(void *guest, baton_vm *vm, uint64_t process, uintptr_t user_data);
  /* Makes the interpreter on this thread call baton_safepoint soon: arm your poll. Called in a
     signal handler, perhaps late, twice or in a foreign call. Only on threads that run this VM. A
     guest that asks baton_wants_safepoint needs no poll of its own, and does nothing here. */
  void (*preempt)(void *guest);
  /* Exchanges what the guest keeps per thread. 0 stands for the thread's own loop. Inside, as part
     of each switch: call no function of the runtime. */
  void (*switched)(void *guest, uintptr_t from, uintptr_t to);
  /* Returns an enum baton_policy for the foreign call of a process that lasts. On a thread of the
     runtime's, while nobody is inside: be brief, and call no function of the runtime. NULL:
     BATON_RETAKE. */
  int (*retake_policy)(void *guest, uintptr_t user_data);
  /* Has the process, which does not run now, reach a safepoint soon: it was killed. Inside; call no
     function of the runtime. NULL: the guest asks baton_kill_is_due after each wait. */
  void (*request_safepoint)(void *guest, uintptr_t user_data);
  /* Reports that no process can ever run again. Inside, and no process is current: it may wake one,
     but not wait. If it returns, the VM waits on. NULL: a message, and the program ends with the
     status 1. */
  void (*deadlocked)(void *guest, baton_vm *vm);
  /* Does the work that baton_request_signalled has asked for. Inside; must not wait. */
  void (*signalled)(void *guest, baton_vm *vm);
  /* Repairs the guest in the child of a fork: only the process of `user_data` lives on. Inside;
     must not wait. */
  void (*forked)(void *guest, baton_vm *vm, uintptr_t user_data);
  /* Warns of a foreign call with BATON_STAY that has kept the VM for longer than warn_blocked. On
     another thread: call no function of the runtime. */
  void (*warn_stalled)(void *guest, uintptr_t user_data);
};

/* }====================================================== */

/* {======================================================
** The life of a VM
** ======================================================= */

/* Makes a VM and writes it. The table is copied. -EINVAL: `size` is too small, or `run` or
   `preempt` is NULL. Otherwise the system's error. */
BATON_ANY_THREAD int baton_vm_new(const struct baton_guest *table, void *guest, baton_vm **vm);
/* Adds a process before the VM runs. By the thread that made the VM, before others know of it.
   Returns its id; 0 and a message if it cannot. A VM that runs already ends the program. */
BATON_ANY_THREAD uint64_t baton_spawn_first(
    baton_vm *vm, const struct baton_spawn_options *options, char *message, size_t size);
/* Runs processes on the calling thread, until one has called baton_stop and has ended. -EBUSY: the
   thread runs a VM already; start a thread. -ESHUTDOWN: the VM has ended. A VM is run once. */
BATON_ANY_THREAD int baton_vm_run(baton_vm *vm);
/* Frees a VM that does not run. -EBUSY: it runs, one of its threads is still in a foreign call, or
   a waker holds it; nothing has happened then, so call again later. NULL: nothing. */
BATON_ANY_THREAD int baton_vm_free(baton_vm *vm);

/* }====================================================== */

/* {======================================================
** The gate
** ======================================================= */

/* Before a foreign call: lets others run if the call lasts. Touch nothing of the guest's until
   baton_enter. In debug builds of the library, a second baton_leave ends the program. */
BATON_INSIDE void baton_leave(const baton_vm *vm);
/* After it: returns inside, perhaps on another thread. In debug builds of the library, a second
   baton_enter, or one by a thread that runs no process, ends the program. */
BATON_OUTSIDE void baton_enter(const baton_vm *vm);
/* Whether the runtime asks the running process for baton_safepoint. Cheap. */
BATON_INSIDE int baton_wants_safepoint(const baton_vm *vm);

/* }====================================================== */

/* {======================================================
** The calling process
** ======================================================= */

/* Its id. 0: none is current, as in `deadlocked`. */
BATON_INSIDE uint64_t baton_self(const baton_vm *vm);
/* The user data of a process. 0: it is gone. */
BATON_INSIDE uintptr_t baton_user_data(const baton_vm *vm, uint64_t process);
/* Whether the process was killed, and must end now. */
BATON_INSIDE int baton_kill_is_due(const baton_vm *vm, uint64_t process);

/* }====================================================== */

/* {======================================================
** Wakers
** ======================================================= */

/* Wakes a suspended process, or signals a semaphore, from outside. It keeps its VM. */
struct baton_waker;
/* One that resumes a process. NULL: the id is 0. */
BATON_INSIDE struct baton_waker *baton_waker_resume(const baton_vm *vm, uint64_t process);
/* One that signals a semaphore, once for each wake. NULL: the id is 0. */
BATON_INSIDE struct baton_waker *baton_waker_signal(const baton_vm *vm, uint64_t semaphore);
/* Wakes, soon. Neither allocates nor locks; keeps errno. */
BATON_SIGNAL_HANDLER void baton_waker_wake(const struct baton_waker *waker);
/* Not in a signal handler, nor while one may still wake by it. NULL: nothing. */
BATON_ANY_THREAD void baton_waker_free(struct baton_waker *waker);

/* }====================================================== */

#ifdef __cplusplus
}
#endif

#endif
