/*
** What processes write to stderr: failures, and `warn`. The text is made first. Then one function
** writes it in one piece, and others may run beside it. So a full stderr delays only the process
** that writes.
*/
#include "seam/internals.h"
#include "state/state.h"
#include "lualib.h"

#include <stdlib.h>
#include <string.h>

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
