/* The direct call as an exported function, for callers that are not written in C. */
#include "direct.h"

uint64_t baton_ffi_direct(
    void (*function)(void), int kind, int answer, const struct baton_ffi_registers *registers);

uint64_t baton_ffi_direct(
    void (*function)(void), int kind, int answer, const struct baton_ffi_registers *registers) {
  return baton_ffi_call_direct(
      function, (enum baton_ffi_kind)kind, (enum baton_ffi_answer)answer, registers);
}
