/*
** Calls C functions without libffi, for signatures of at most six integers or pointers and eight
** floating-point numbers.
**
** In the System V ABI for x86-64 and in AAPCS64 (AArch64, including Apple's variant), integers and
** floating-point numbers are passed in two separate sets of registers. Each set is filled in the
** order of the arguments, and a function ignores registers that it has no parameter for. So one
** call that fills all registers in order serves every such signature that is not variadic. The
** order of its parameters does not matter. The C standard does not promise this, because the call
** uses a type that is not the function's. Like libffi, this code relies on the ABI instead. The
** caller extends integers to 64 bits, and puts a `float` into the low half of its register.
*/
#ifndef BATON_FFI_DIRECT_H
#define BATON_FFI_DIRECT_H

#include <stdint.h>
#include <string.h>

#define BATON_FFI_INTEGERS 6
#define BATON_FFI_FLOATINGS 8

struct baton_ffi_registers {
  uint64_t integer[BATON_FFI_INTEGERS];
  double floating[BATON_FFI_FLOATINGS];
};

/* How a signature is called; zero means through libffi. */
enum baton_ffi_kind {
  BATON_FFI_BY_LIBFFI,
  BATON_FFI_FEW_INTEGERS, /* at most two, and no floating-point numbers */
  BATON_FFI_INTEGERS_ONLY,
  BATON_FFI_FLOATINGS_ONLY,
  BATON_FFI_MIXED
};

/* The kind of result, which decides the register that holds it. */
enum baton_ffi_answer { BATON_FFI_ANSWER_INTEGER, BATON_FFI_ANSWER_FLOAT, BATON_FFI_ANSWER_DOUBLE };

#if defined(__x86_64__) || defined(__aarch64__)
#define BATON_FFI_DIRECT 1
#else
#define BATON_FFI_DIRECT 0
#endif

#define BATON_FFI_CALL(type, result)                                                            \
  switch (kind) {                                                                               \
    case BATON_FFI_FEW_INTEGERS:                                                                \
      result = ((type(*)(uint64_t, uint64_t))function)(i[0], i[1]);                             \
      break;                                                                                    \
    case BATON_FFI_INTEGERS_ONLY:                                                               \
      result = ((type(*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t))function)( \
          i[0], i[1], i[2], i[3], i[4], i[5]);                                                  \
      break;                                                                                    \
    case BATON_FFI_FLOATINGS_ONLY:                                                              \
      result =                                                                                  \
          ((type(*)(double, double, double, double, double, double, double, double))function)(  \
              f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);                                  \
      break;                                                                                    \
    default:                                                                                    \
      result = ((type(*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double,    \
          double, double, double, double, double, double, double))function)(                    \
          i[0], i[1], i[2], i[3], i[4], i[5], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);  \
  }

/* Calls a function and returns the bits of its result. Those of a `float` are in the low half. */
static inline uint64_t baton_ffi_call_direct(void (*function)(void), enum baton_ffi_kind kind,
                                             enum baton_ffi_answer answer,
                                             const struct baton_ffi_registers *registers) {
  const uint64_t *i = registers->integer;
  const double *f = registers->floating;
  uint64_t bits = 0;
  if (__builtin_expect(answer == BATON_FFI_ANSWER_INTEGER, 1)) {
    BATON_FFI_CALL(uint64_t, bits)
  } else if (answer == BATON_FFI_ANSWER_DOUBLE) {
    double number;
    BATON_FFI_CALL(double, number)
    memcpy(&bits, &number, sizeof number);
  } else {
    float number;
    BATON_FFI_CALL(float, number)
    memcpy(&bits, &number, sizeof number);
  }
  return bits;
}

#endif
