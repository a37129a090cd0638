/*
** The gate's functions of baton/guest.h, inlined. baton/guest.h includes this. Without it, or with
** BATON_NO_INLINE, the library's own functions of the same names are called.
**
** Each native thread has the words of its gate in a variable `baton_gate` of the library. The first
** word is even while the thread is inside, and only ever advances. The 32-bit word at 8 has the
** reasons why baton_enter cannot just go on. These places and values are part of BATON_1.
**
** The variable is found by the model initial-exec, which a linker makes local-exec where the
** library is static. A call may move the process to another native thread, so the words are found
** in assembly, which the compiler keeps where it is: it must not keep their address across a call.
*/
#ifndef BATON_INLINE_H
#define BATON_INLINE_H

#if !defined(BATON_NO_INLINE) && defined(__GNUC__) && defined(__ELF__) && \
    ((defined(__x86_64__) && !defined(__ILP32__)) || (defined(__aarch64__) && defined(__LP64__)))

#define BATON_INLINE extern __inline__ __attribute__((__gnu_inline__, __always_inline__))

/* Why an enter takes the slow path, and why baton_safepoint is asked for. */
#define BATON_GATE_SLOW UINT32_C(13)
#define BATON_GATE_ATTENTION UINT32_C(2)

#if defined(__x86_64__)

/* Where the words are from %fs: the same for all threads. Writes the first word. */
#define BATON_GATE_FIND(words, gate)                       \
  uint64_t words, gate;                                    \
  __asm__ __volatile__("movq baton_gate@gottpoff(%%rip), %0\n\t" \
                       "movq %%fs:(%0), %1"                \
                       : "=&r"(words), "=r"(gate)          \
                       :                                   \
                       : "memory")
/* x86 keeps stores in order. */
#define BATON_GATE_WRITE_TO(words, gate) \
  __asm__ __volatile__("movq %1, %%fs:(%0)" : : "r"(words), "r"(gate) : "memory")
#define BATON_GATE_READ_SLOW(words, slow) \
  __asm__ __volatile__("movl %%fs:8(%1), %0" : "=r"(slow) : "r"(words) : "memory")

#else

/* The words' address on the calling thread. Writes the first word. */
#define BATON_GATE_FIND(words, gate)                                      \
  uint64_t words, gate;                                                   \
  __asm__ __volatile__("mrs %0, tpidr_el0\n\t"                            \
                       "adrp %1, :gottprel:baton_gate\n\t"                \
                       "ldr %1, [%1, :gottprel_lo12:baton_gate]\n\t"      \
                       "add %0, %0, %1\n\t"                               \
                       "ldr %1, [%0]"                                     \
                       : "=&r"(words), "=&r"(gate)                        \
                       :                                                  \
                       : "memory")
#define BATON_GATE_WRITE_TO(words, gate) \
  __asm__ __volatile__("stlr %1, [%0]" : : "r"(words), "r"(gate) : "memory")
#define BATON_GATE_READ_SLOW(words, slow)                                 \
  __asm__ __volatile__("add %0, %1, #8\n\tldar %w0, [%0]" : "=&r"(slow) : "r"(words) : "memory")

#endif

/* Moves the first word on. `enters`: it comes from outside. Returns where the words are. */
BATON_INLINE uint64_t baton_gate_move(const baton_vm *vm, int enters) {
  BATON_GATE_FIND(words, gate);
  if (__builtin_expect((gate & 1) != (uint64_t)enters, 0)) baton_gate_mistaken(vm, enters);
  BATON_GATE_WRITE_TO(words, (gate | 1) + (uint64_t)enters);
  return words;
}

BATON_INLINE void baton_leave(const baton_vm *vm) { baton_gate_move(vm, 0); }

BATON_INLINE void baton_enter(const baton_vm *vm) {
  const uint64_t words = baton_gate_move(vm, 1);
  uint32_t slow;
  BATON_GATE_READ_SLOW(words, slow);
  if (__builtin_expect((slow & BATON_GATE_SLOW) != 0, 0)) baton_enter_cold(vm);
}

BATON_INLINE int baton_wants_safepoint(const baton_vm *vm) {
  uint32_t slow;
  BATON_GATE_FIND(words, gate);
  (void)vm;
  (void)gate;
  BATON_GATE_READ_SLOW(words, slow);
  return (slow & BATON_GATE_ATTENTION) != 0;
}

#undef BATON_INLINE
#undef BATON_GATE_SLOW
#undef BATON_GATE_ATTENTION
#undef BATON_GATE_FIND
#undef BATON_GATE_WRITE_TO
#undef BATON_GATE_READ_SLOW

#endif

#endif
