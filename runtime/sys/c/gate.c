#include "gate.h"

#include <stdio.h>
#include <stdlib.h>

/* A thread without a VM starts revoked, so that its first enter takes the slow path. */
__thread struct baton_gate baton_gate
    __attribute__((tls_model(BATON_GATE_MODEL))) = {1, BATON_SLOW_REVOKED, 0, 0, NULL, 0};

_Static_assert(offsetof(struct baton_gate, gate) == 0, "gate.h reads by offset");
_Static_assert(offsetof(struct baton_gate, slow) == 8, "gate.h reads by offset");
_Static_assert(offsetof(struct baton_gate, claim) == 16, "gate.rs reads by offset");
_Static_assert(offsetof(struct baton_gate, process) == 24, "gate.h reads by offset");

__attribute__((noinline)) struct baton_gate *baton_gate_here(void) {
  struct baton_gate *here = &baton_gate;
  __asm__ volatile("" : "+r"(here)); /* opaque: callers may not fold the address */
  return here;
}

#if defined(BATON_CHECKS)
static void broken(const char *what) {
  fprintf(stderr, "baton: the VM was %s twice in a row (a lock or unlock is missing)\n", what);
  abort();
}

void baton_gate_check_enter(void) {
  struct baton_gate *here = baton_gate_here();
  if ((here->gate & 1) == 0 && !(here->slow & BATON_SLOW_REVOKED)) broken("entered");
}

void baton_gate_check_leave(void) {
  struct baton_gate *here = baton_gate_here();
  if ((here->gate & 1) == 1 && !(here->slow & BATON_SLOW_REVOKED)) broken("left");
}
#endif
