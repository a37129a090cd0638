/* What test programs with cases share: the argument chooses one of them. */
#ifndef BATON_TEST_CASES_H
#define BATON_TEST_CASES_H

#include "baton.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last message of the library. */
static char message[BATON_MESSAGE];

static void expect(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "expected: %s (%s)\n", what, message);
  exit(1);
}

struct test_case {
  const char *name;
  void (*run)(void);
};

/* Runs the case that the program's only argument names, and says `done`. Without such a case, the
   program ends with status 1. The last two are main's. */
static inline void run_case(
    const struct test_case *cases, size_t count, int words, char **word) {
  size_t i;
  for (i = 0; i < count; i++) {
    if (words == 2 && strcmp(cases[i].name, word[1]) == 0) {
      cases[i].run();
      puts("done");
      return;
    }
  }
  expect(0, "the name of a case");
}

#endif
