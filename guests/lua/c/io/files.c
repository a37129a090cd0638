/*
** One call per file at a time. In liolib.c, a few API functions are renamed to those of this file.
** So each of its functions notes its file before it uses it. If another call, beside which others
** run, uses the file, the caller waits. Closing a file waits, too. print writes in one piece, by
** the same rule.
*/
#include "io/io.h"
#include "calls/calls.h"
#include "state/state.h"
#include "lualib.h"

#include <stdio.h>
#include <string.h>

/* {======================================================
** Waiting for a file
** ======================================================= */

static int is_metamethod(lua_State *L, int index, const char *name) {
  int is;
  if (luaL_getmetafield(L, index, name) == LUA_TNIL) return 0;
  is = lua_tocfunction(L, -1) == baton_lua_running_function(L);
  lua_pop(L, 1);
  return is;
}

/* Raises an error if a call that never returned uses the file, at the end of the program. Calls
   that write to the standard streams are an exception. */
static void refuse_if_left_behind(
    lua_State *L, const struct baton_process *process, const void *object) {
  if (object == stdout || object == stderr || !baton_lua_is_busy(process, object)) return;
  if (!is_metamethod(L, 1, "__gc")) luaL_error(L, "a call that has not returned uses this file");
}

/*
** Waits until no other call uses `object`, and notes it as the object of the calling function.
** Outside the VM.
**
** When the monitor retakes the VM from this call, it reads the note. So this function makes the
** note first, and then reads whether the VM was retaken. Either the monitor sees the note, or this
** function sees the retake and starts again inside the VM (runtime/core/tests/store_buffer.rs).
*/
static void use(lua_State *L, void *object) {
  struct baton_process *process = baton_lua_here(L);
  const lua_CFunction function = baton_lua_running_function(L);
  int others_ran;
  if (process == NULL) return;
  do {
    baton_lua_before_blocking(L, process);
    process->object = object;
    process->object_of = function;
    others_ran = baton_gate_is_revoked();
    if (!others_ran && process->vm->busy_count == 0) return;
    if (process->vm->closing) {
      refuse_if_left_behind(L, process, object);
      return;
    }
    baton_lua_enter(L);
    others_ran |= baton_lua_wait_for_object(L, process, object);
    process->object = object;
    process->object_of = function;
    baton_lua_leave(L);
  } while (others_ran);
}

/* }====================================================== */

/* {======================================================
** Functions that liolib.c calls
** ======================================================= */

/* A file in use is known by its FILE, which print and io.write share. A file without one is known
   by its userdata. */
static void *object_of(luaL_Stream *stream) {
  return stream->closef != NULL && stream->f != NULL ? (void *)stream->f : (void *)stream;
}

static int close_nothing(lua_State *L) {
  (void)L;
  return 0;
}

/*
** Called if another process has closed the file while the function waited. __gc then does nothing,
** __tostring continues, and all others raise an error.
*/
static void meet_closed(lua_State *L, int index, luaL_Stream *stream) {
  if (is_metamethod(L, index, "__tostring")) return;
  if (!is_metamethod(L, index, "__gc")) luaL_error(L, "attempt to use a closed file");
  stream->closef = close_nothing;
}

/* For a closed file: raises an error if it was moved to another VM, unless the function is one of
   those that continue with closed files. */
static void check_moved(lua_State *L, int index) {
  const int ends = is_metamethod(L, 1, "__gc");
  if (baton_io_has_moved(L, index, ends) && !ends && !is_metamethod(L, 1, "__tostring"))
    luaL_error(L, "the file was moved to another VM");
}

/* Some functions check twice, and assume that the second check finds what the first one found. So
   a file that was closed in between is handled here. */
void *baton_io_checkudata(lua_State *L, int index, const char *type_name) {
  luaL_Stream *stream = luaL_checkudata(L, index, type_name);
  int was_open;
  if (luai_unlikely(stream->closef == NULL)) check_moved(L, index);
  was_open = stream->closef != NULL;
  use(L, object_of(stream));
  if (was_open && stream->closef == NULL) meet_closed(L, index, stream);
  return stream;
}

/* For io.type. A file that has come back from vm.move is open again. */
void *baton_io_testudata(lua_State *L, int index, const char *type_name) {
  luaL_Stream *stream = luaL_testudata(L, index, type_name);
  if (stream != NULL && stream->closef == NULL) (void)baton_io_has_moved(L, index, 0);
  return stream;
}

void *baton_io_touserdata(lua_State *L, int index) {
  luaL_Stream *stream = lua_touserdata(L, index);
  if (stream == NULL) return NULL;
  if (luai_unlikely(stream->closef == NULL)) check_moved(L, index);
  use(L, object_of(stream));
  return stream;
}

void *baton_io_newuserdata(lua_State *L, size_t size, int values) {
  struct baton_stream *stream = lua_newuserdatauv(L, sizeof *stream, values);
  lua_assert(size == sizeof stream->stream);
  (void)size;
  *stream = (struct baton_stream){.stream = {NULL, NULL}};
  use(L, stream);
  return stream;
}

/* Flushes all files, before a child is started. It leaves files in use alone, as it would have to
   wait: the calls that use them flush them, or have nothing to flush. */
void baton_io_flush_all(void) {
  struct baton_process *process = baton_gate_process();
  if (process != NULL && process->vm->busy_count > 0) {
    if (!baton_lua_is_busy(process, stdout)) fflush(stdout);
    if (!baton_lua_is_busy(process, stderr)) fflush(stderr);
  } else {
    fflush(NULL);
  }
}

/* At the end of the program, a call may still use this file. Then the file is left alone. */
int baton_io_fclose(FILE *file) {
  struct baton_process *process = baton_gate_process();
  if (process != NULL && process->vm->closing && baton_lua_is_busy(process, file)) return 0;
  return fclose(file);
}

/* }====================================================== */

/* {======================================================
** print
** ======================================================= */

/* Writes the strings 1..n of the table at `index`, with a newline if `complete`. */
static void write_line(lua_State *L, int index, int complete) {
  luaL_Buffer line;
  lua_Integer i, n = (lua_Integer)lua_rawlen(L, index);
  size_t size;
  const char *text;
  index = lua_absindex(L, index);
  luaL_buffinit(L, &line);
  for (i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&line, '\t');
    lua_rawgeti(L, index, i);
    luaL_addvalue(&line);
  }
  if (complete) luaL_addchar(&line, '\n');
  luaL_pushresult(&line);
  text = lua_tolstring(L, -1, &size);
  use(L, stdout);
  baton_io_fwrite(text, 1, size, stdout);
  fflush(stdout);
  lua_pop(L, 1);
}

/* The __close method of a print with metamethods. After an error in a metamethod, writes what came
   before, as stock print does. */
static int write_partial(lua_State *L) {
  if (!lua_isnil(L, 2) && lua_rawlen(L, 1) > 0) write_line(L, 1, 0);
  return 0;
}

static int has_metamethods(lua_State *L, int n) {
  int i;
  for (i = 1; i <= n; i++)
    if (lua_type(L, i) != LUA_TSTRING && luaL_getmetafield(L, i, "__tostring") != LUA_TNIL) {
      lua_pop(L, 1);
      return 1;
    }
  return 0;
}

static int print_with_metamethods(lua_State *L, int n) {
  int i;
  lua_createtable(L, n, 0);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, write_partial);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
  lua_toclose(L, n + 1);
  for (i = 1; i <= n; i++) {
    luaL_tolstring(L, i, NULL);
    lua_rawseti(L, n + 1, i);
  }
  write_line(L, n + 1, 1);
  return 0;
}

/* print, in one piece: makes the whole line first and writes it at once. */
static int print(lua_State *L) {
  int i, n = lua_gettop(L);
  luaL_Buffer line;
  size_t size;
  const char *text;
  luaL_checkstack(L, 4, "too many arguments");
  if (has_metamethods(L, n)) return print_with_metamethods(L, n);
  luaL_buffinit(L, &line);
  for (i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&line, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&line);
  }
  luaL_addchar(&line, '\n');
  luaL_pushresult(&line);
  text = lua_tolstring(L, -1, &size);
  use(L, stdout);
  baton_io_fwrite(text, 1, size, stdout);
  fflush(stdout);
  return 0;
}

/* }====================================================== */

/* os.execute (upvalue 1) may block, like the functions about files. */
static int execute(lua_State *L) {
  baton_lua_before_blocking(L, baton_lua_here(L));
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void baton_lua_open_io(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (process != NULL) {
    luaL_getmetatable(L, LUA_FILEHANDLE);
    *(const void **)&process->vm->files = lua_topointer(L, -1);
    lua_pop(L, 1);
  }
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_getfield(L, -1, "execute");
  lua_pushcclosure(L, execute, 1);
  lua_setfield(L, -2, "execute");
  lua_pop(L, 1);
  lua_pushcfunction(L, print);
  lua_setglobal(L, "print");
}
