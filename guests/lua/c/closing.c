/*
** Closing: whoever waits for a descriptor that is closed or replaced is told, and its number is free for another one. The executable exports the C library's functions
** that close descriptors of others' choice; what these call inside of the C library does not come by here.
*/
#include "guest.h"
#include "parked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* The VM of the program: descriptors are its, whoever closes them. */
static const struct baton_vm *the_vm;

void baton_lua_park_for(const struct baton_vm *vm) { the_vm = vm; }

static int is_waited_for(int descriptor) {
  return descriptor >= 0 && the_vm != NULL && baton_rs_is_registered(the_vm->executor, (uint32_t)descriptor) && baton_is_program();
}

void baton_descriptor_closes(int descriptor) {
  const int saved_errno = errno;
  if (!is_waited_for(descriptor)) return;
  baton_rs_descriptor_closes(the_vm->executor, (uint32_t)descriptor);
  errno = saved_errno;
}

void baton_descriptor_has_closed(int descriptor) {
  const int saved_errno = errno;
  if (!is_waited_for(descriptor)) return;
  baton_rs_descriptor_has_closed(the_vm->executor, (uint32_t)descriptor);
  errno = saved_errno;
}

int close(int descriptor) {
  int result;
  baton_descriptor_closes(descriptor);
  result = baton_system()->close(descriptor);
  baton_descriptor_has_closed(descriptor);
  return result;
}

/* Whether `to` is closed. Else the call fails, or changes nothing: those who wait for `to` wait on. */
static int replaces(int from, int to, int flags) { return from != to && (flags & ~O_CLOEXEC) == 0 && fcntl(from, F_GETFD) >= 0; }

int dup2(int from, int to) {
  int result;
  if (!replaces(from, to, 0)) return baton_system()->dup2(from, to);
  baton_descriptor_closes(to);
  result = baton_system()->dup2(from, to);
  baton_descriptor_has_closed(to);
  return result;
}

int dup3(int from, int to, int flags) {
  int result;
  if (!replaces(from, to, flags)) return baton_system()->dup3(from, to, flags);
  baton_descriptor_closes(to);
  result = baton_system()->dup3(from, to, flags);
  baton_descriptor_has_closed(to);
  return result;
}

#define MOST_DESCRIPTORS (1u << 20) /* that can be waited for */

static int may_be_waited_for(void) { return the_vm != NULL && baton_is_program(); }

static void range_closes(unsigned first, unsigned last) {
  unsigned i;
  if (!may_be_waited_for()) return;
  for (i = first; i <= last && i < MOST_DESCRIPTORS; i++) baton_descriptor_closes((int)i);
}

static void range_has_closed(unsigned first, unsigned last) {
  unsigned i;
  if (!may_be_waited_for()) return;
  for (i = first; i <= last && i < MOST_DESCRIPTORS; i++) baton_descriptor_has_closed((int)i);
}

int close_range(unsigned first, unsigned last, int flags) {
  int result;
  if (flags & ~CLOSE_RANGE_UNSHARE) return baton_system()->close_range(first, last, flags); /* which closes nothing, or nothing yet */
  range_closes(first, last);
  result = baton_system()->close_range(first, last, flags);
  range_has_closed(first, last);
  return result;
}

void closefrom(int first) {
  const unsigned from = first < 0 ? 0 : (unsigned)first;
  range_closes(from, MOST_DESCRIPTORS);
  baton_system()->closefrom(first);
  range_has_closed(from, MOST_DESCRIPTORS);
}

/* {======================================================
** Files of the C library's
** ======================================================= */

/* -1: it has none. */
static int descriptor_of(FILE *file) {
  const int saved_errno = errno;
  const int descriptor = fileno(file);
  errno = saved_errno;
  return descriptor;
}

int fclose(FILE *file) {
  const int descriptor = descriptor_of(file);
  int result;
  baton_descriptor_closes(descriptor);
  result = baton_system()->fclose(file);
  baton_descriptor_has_closed(descriptor);
  return result;
}

int pclose(FILE *file) {
  const int descriptor = descriptor_of(file);
  int result;
  baton_descriptor_closes(descriptor);
  result = baton_system()->pclose(file);
  baton_descriptor_has_closed(descriptor);
  return result;
}

/* The new file mostly gets the old one's number. */
static FILE *reopened(FILE *(*of_system)(const char *, const char *, FILE *), const char *name, const char *mode, FILE *file) {
  const int descriptor = descriptor_of(file);
  FILE *result;
  baton_descriptor_closes(descriptor);
  result = of_system(name, mode, file);
  baton_descriptor_has_closed(descriptor);
  return result;
}

FILE *freopen(const char *restrict name, const char *restrict mode, FILE *restrict file) {
  return reopened(baton_system()->freopen, name, mode, file);
}

FILE *freopen64(const char *restrict name, const char *restrict mode, FILE *restrict file) {
  return reopened(baton_system()->freopen64, name, mode, file);
}

/* }====================================================== */
