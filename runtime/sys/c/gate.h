/*
** The gate: it says whether a native thread is inside the VM. Each native
** thread has its own words, in thread-local storage. src/gate.rs describes the
** protocol and has the slow side. This file has the part that a guest inlines.
*/
#ifndef BATON_GATE_H
#define BATON_GATE_H

#include <stddef.h>
#include <stdint.h>

/* Same layout as `GateWords` in src/gate.rs (checked there and in gate.c). */
struct baton_gate {
  uint64_t gate;   /* even: inside the VM; odd: outside; only ever advances */
  uint32_t slow;   /* BATON_SLOW_*: why the next enter must take the slow path */
  uint32_t reserved;
  uint64_t claim;  /* compare-and-swap variant only: gate value of the last enter */
  void *process;   /* the guest's record of the process running on this thread */
  uint64_t carrier; /* the carrier id of this thread plus one; 0: none */
};

#define BATON_SLOW_REVOKED 1u
#define BATON_SLOW_ATTENTION 2u
#define BATON_SLOW_CAS 4u
#define BATON_SLOW_FORKED 8u

/* The value of `claim` after the VM was taken. */
#define BATON_CLAIM_TAKEN UINT64_MAX

/* A shared library cannot have variables of the model local-exec. */
#if defined(BATON_SHARED)
#define BATON_GATE_MODEL "initial-exec"
#else
#define BATON_GATE_MODEL "local-exec"
#endif

extern __thread struct baton_gate baton_gate
    __attribute__((tls_model(BATON_GATE_MODEL)));

/* The address of this thread's words. Never keep it across a switch. */
struct baton_gate *baton_gate_here(void);

#if defined(BATON_CHECKS)
void baton_gate_check_enter(void);
void baton_gate_check_leave(void);
#else
#define baton_gate_check_enter() ((void)0)
#define baton_gate_check_leave() ((void)0)
#endif

#if defined(__x86_64__) && !defined(BATON_SHARED)

/*
** Volatile assembly relative to %fs. A call may move the process to another
** native thread. So the compiler must not keep the address of the words in a
** register across it. It cannot reorder the accesses either, and x86 keeps stores
** in order.
*/
#define BATON_GATE_READ(offset, variable)                                      \
  __asm__ volatile("mov %%fs:baton_gate@tpoff+" #offset ", %0"                 \
                   : "=r"(variable)                                            \
                   :                                                           \
                   : "memory")
#define BATON_GATE_WRITE(offset, variable)                                     \
  __asm__ volatile("mov %0, %%fs:baton_gate@tpoff+" #offset                    \
                   :                                                           \
                   : "r"(variable)                                             \
                   : "memory")

static inline void baton_gate_leave(void) {
  baton_gate_check_leave();
  __asm__ volatile("orq $1, %%fs:baton_gate@tpoff" ::: "memory", "cc");
}

/* Returns the reasons for the slow path, BATON_SLOW_*: nearly always 0. */
static inline uint32_t baton_gate_enter(void) {
  uint64_t gate;
  uint32_t slow;
  baton_gate_check_enter();
  BATON_GATE_READ(0, gate);
  gate = (gate | 1) + 1;
  BATON_GATE_WRITE(0, gate);
  BATON_GATE_READ(8, slow);
  return slow;
}

static inline uint32_t baton_gate_slow(void) {
  uint32_t slow;
  BATON_GATE_READ(8, slow);
  return slow;
}

/* Whether the calling thread is inside the VM. */
static inline int baton_gate_is_inside(void) {
  uint64_t gate;
  BATON_GATE_READ(0, gate);
  return (gate & 1) == 0;
}

static inline void *baton_gate_process(void) {
  void *process;
  BATON_GATE_READ(24, process);
  return process;
}

static inline void baton_gate_set_process(void *process) {
  BATON_GATE_WRITE(24, process);
}

#else

#if defined(__aarch64__) && defined(__ELF__) && !defined(BATON_SHARED)
/*
** The address of this thread's words, by the thread pointer. Volatile, so that it
** is computed afresh after each call, which may move the process to another native
** thread.
*/
static inline struct baton_gate *baton_gate_address(void) {
  struct baton_gate *here;
  __asm__ volatile("mrs %0, tpidr_el0\n\t"
                   "add %0, %0, #:tprel_hi12:baton_gate, lsl #12\n\t"
                   "add %0, %0, #:tprel_lo12_nc:baton_gate"
                   : "=r"(here)
                   :
                   : "memory");
  return here;
}
#else
static inline struct baton_gate *baton_gate_address(void) { return baton_gate_here(); }
#endif

static inline void baton_gate_leave(void) {
  struct baton_gate *here = baton_gate_address();
  baton_gate_check_leave();
  uint64_t gate = __atomic_load_n(&here->gate, __ATOMIC_RELAXED);
  __atomic_store_n(&here->gate, gate | 1, __ATOMIC_RELEASE);
}

static inline uint32_t baton_gate_enter(void) {
  struct baton_gate *here = baton_gate_address();
  baton_gate_check_enter();
  uint64_t gate = __atomic_load_n(&here->gate, __ATOMIC_RELAXED);
  __atomic_store_n(&here->gate, (gate | 1) + 1, __ATOMIC_RELAXED);
  __asm__ volatile("" ::: "memory");
  return __atomic_load_n(&here->slow, __ATOMIC_ACQUIRE);
}

static inline uint32_t baton_gate_slow(void) {
  return __atomic_load_n(&baton_gate_address()->slow, __ATOMIC_ACQUIRE);
}
static inline int baton_gate_is_inside(void) {
  return (__atomic_load_n(&baton_gate_address()->gate, __ATOMIC_RELAXED) & 1) == 0;
}
static inline void *baton_gate_process(void) { return baton_gate_address()->process; }
static inline void baton_gate_set_process(void *process) {
  baton_gate_address()->process = process;
}

#endif

/*
** Whether the VM was taken from the calling thread's present call, or is being taken. If not, a
** thread that takes it later sees all earlier stores of this thread. The fence-free variant ensures
** that by the taker's membarrier, the compare-and-swap variant by the fence below.
*/
static inline int baton_gate_is_revoked(void) {
  if (baton_gate_slow() & BATON_SLOW_CAS) {
    /* pairs with the exchange of `claim` in take_by_claim */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&baton_gate_here()->claim, __ATOMIC_ACQUIRE) == BATON_CLAIM_TAKEN) return 1;
  }
  __asm__ volatile("" ::: "memory");
  return (baton_gate_slow() & BATON_SLOW_REVOKED) != 0;
}

#endif
