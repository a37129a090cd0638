/*
** The standard streams, as Lua's library and processes write to them.
**
** A host may edit a line on the same terminal. So Lua's library writes by functions of this file,
** which let the host separate the two. All of it runs outside the VM.
**
** Failures and `warn` write one text in one piece, and others may run beside it. So a full stderr
** delays only the process that writes.
*/
#include "seam/internals.h"
#include "state/state.h"
#include "lualib.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* {======================================================
** Streams with a host
** ======================================================= */

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

/* }====================================================== */

/* {======================================================
** Texts of processes
** ======================================================= */

/* write_text(text, after_stdout) */
int baton_lua_write_text(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 1, &size);
  baton_lua_before_blocking(L, baton_lua_here(L));
  if (lua_toboolean(L, 2)) fflush(stdout);
  baton_io_write_error(text, size);
  return 0;
}

void baton_lua_write_error(lua_State *L, int after_stdout) {
  lua_pushcfunction(L, baton_lua_write_text);
  lua_insert(L, -2);
  lua_pushboolean(L, after_stdout);
  lua_call(L, 2, 0);
}

/* }====================================================== */

/* {======================================================
** warn
** ======================================================= */

/* The output of a warn function, which writes while the process is inside the VM. */
struct baton_collected {
  char *text;
  size_t size, capacity;
};

static int append(struct baton_collected *collected, const char *text, size_t size) {
  if (collected->size + size > collected->capacity) {
    size_t capacity = 2 * (collected->size + size);
    char *larger = realloc(collected->text, capacity);
    if (larger == NULL) return 0;
    collected->text = larger;
    collected->capacity = capacity;
  }
  memcpy(collected->text + collected->size, text, size);
  collected->size += size;
  return 1;
}

/* Writes a message that no process could wait for, such as an error in a finalizer, when its line
   is complete. Inside the VM. */
static void post_line(const char *text, size_t size) {
  static struct baton_collected line;
  const int is_appended = append(&line, text, size);
  if (!is_appended || text[size - 1] == '\n') {
    baton_lua_post_notice(line.text, line.size);
    line.size = 0;
  }
}

static int collect_error(const char *text, size_t size) {
  struct baton_process *process = baton_gate_process();
  if (process == NULL || (baton_gate_here()->gate & 1) != 0 || size == 0) return 0;
  if (process->warning == NULL || !append(process->warning, text, size)) post_line(text, size);
  return 1;
}

/* Takes one argument, a string: the library's messages have no others. */
void baton_io_print_error(const char *format, const char *argument) {
  const char *at = strstr(format, "%s");
  size_t before = at != NULL ? (size_t)(at - format) : strlen(format);
  const char *pieces[] = {format, argument, at != NULL ? at + 2 : ""};
  const size_t sizes[] = {before, at != NULL ? strlen(argument) : 0, strlen(pieces[2])};
  int i;
  for (i = 0; i < 3; i++)
    /* inside the VM, not even the stream's lock is taken */
    if (sizes[i] > 0 && !collect_error(pieces[i], sizes[i]))
      baton_io_write_error(pieces[i], sizes[i]);
}

/* warn(message, ...). Stock Lua's warn (upvalue 1) does everything except the writing. */
static int warn(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  struct baton_collected collected = {NULL, 0, 0};
  int i, n = lua_gettop(L);
  luaL_checkstring(L, 1);
  for (i = 2; i <= n; i++) luaL_checkstring(L, i); /* nothing raises an error after this */
  if (process == NULL) return lua_tocfunction(L, lua_upvalueindex(1))(L);
  process->warning = &collected;
  lua_tocfunction(L, lua_upvalueindex(1))(L);
  process->warning = NULL;
  if (collected.size == 0) return 0;
  lua_pushlstring(L, collected.text, collected.size);
  free(collected.text);
  baton_lua_write_error(L, 0);
  return 0;
}

void baton_lua_open_warn(lua_State *L) {
  lua_getglobal(L, "warn");
  lua_pushcclosure(L, warn, 1);
  lua_setglobal(L, "warn");
}

/* }====================================================== */
