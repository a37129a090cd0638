/*
** The standard streams. A host may edit a line on the same terminal. So Lua's library writes to
** these streams by functions of this file, which let the host separate the two. All of it runs
** outside the VM.
*/
#include "state/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set once by the main process, while others may be writing. NULL until then. */
static baton_console_write console;

void baton_lua_set_console(baton_console_write write) {
  __atomic_store_n(&console, write, __ATOMIC_RELEASE);
}

/* Returns nonzero if the host has handled the text. */
static int taken(FILE *file, const char *text, size_t size) {
  baton_console_write write = __atomic_load_n(&console, __ATOMIC_ACQUIRE);
  if (write == NULL || (file != stdout && file != stderr)) return 0;
  return write(file == stderr, text, size);
}

size_t baton_io_fwrite(const void *data, size_t size, size_t count, FILE *file) {
  return taken(file, data, size * count) ? count : fwrite(data, size, count, file);
}

/* As vfprintf. If there is a host, the text is formatted first. */
static int format_to(FILE *file, const char *format, va_list list) {
  char short_text[256], *text = short_text;
  va_list again;
  int length;
  if (__atomic_load_n(&console, __ATOMIC_ACQUIRE) == NULL) return vfprintf(file, format, list);
  va_copy(again, list);
  length = vsnprintf(short_text, sizeof short_text, format, list);
  if (length >= (int)sizeof short_text && (text = malloc((size_t)length + 1)) != NULL)
    vsnprintf(text, (size_t)length + 1, format, again);
  if (length < 0 || text == NULL)
    length = vfprintf(file, format, again);
  else if (!taken(file, text, (size_t)length) &&
      fwrite(text, 1, (size_t)length, file) != (size_t)length)
    length = -1;
  va_end(again);
  if (text != short_text) free(text);
  return length;
}

int baton_io_fprintf(FILE *file, const char *format, ...) {
  va_list list;
  int length;
  va_start(list, format);
  length = format_to(file, format, list);
  va_end(list);
  return length;
}

void baton_io_write_error(const char *text, size_t size) {
  baton_io_fwrite(text, 1, size, stderr);
  fflush(stderr);
}
