/*
** One call per file at a time. liolib.c is compiled with a few API functions renamed to those here,
** so that each of its functions tells which file it is about before it uses it. If that file is in
** use by a call that others run beside, the caller waits; closing waits like every other use. print
** writes in one piece, by the same rule.
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

/* At the end of the program, nobody waits for a call that has not returned, but for those that
   write to the standard streams. */
static void refuse_if_left_behind(
    lua_State *L, const struct baton_process *process, const void *object) {
  if (object == stdout || object == stderr || !baton_lua_is_busy(process, object)) return;
  if (!is_metamethod(L, 1, "__gc")) luaL_error(L, "a call that has not returned uses this file");
}

/*
** Waits until no other call is about `object`, and notes that the calling function is. Outside the
** VM.
**
** The monitor reads the note when it takes the VM from this call. So the note is made first, and
** then it is asked whether the VM was taken: either the monitor sees the note, or the answer is
** yes, and all is done again inside (runtime/core/tests/store_buffer.rs).
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
    baton_enter(L);
    others_ran |= baton_lua_wait_for_object(L, process, object);
    process->object = object;
    process->object_of = function;
    baton_leave(L);
  } while (others_ran);
}

/* }====================================================== */

/* {======================================================
** What liolib.c calls
** ======================================================= */

/* A file is known by its FILE, which print and io.write share; one that has none yet by its
   userdata. */
static void *object_of(luaL_Stream *stream) {
  return stream->closef != NULL && stream->f != NULL ? (void *)stream->f : (void *)stream;
}

static int close_nothing(lua_State *L) {
  (void)L;
  return 0;
}

/*
** While the function waited, another process has closed the file that was open. What would have
** closed it by itself has nothing to do any more, and __tostring says what the file is now.
*/
static void meet_closed(lua_State *L, int index, luaL_Stream *stream) {
  if (is_metamethod(L, index, "__tostring")) return;
  if (!is_metamethod(L, index, "__gc")) luaL_error(L, "attempt to use a closed file");
  stream->closef = close_nothing;
}

/* Some functions look twice, and take the file for open after the second look if it was so at the
   first. */
void *baton_io_checkudata(lua_State *L, int index, const char *type_name) {
  luaL_Stream *stream = luaL_checkudata(L, index, type_name);
  const int was_open = stream->closef != NULL;
  use(L, object_of(stream));
  if (was_open && stream->closef == NULL) meet_closed(L, index, stream);
  return stream;
}

void *baton_io_touserdata(lua_State *L, int index) {
  luaL_Stream *stream = lua_touserdata(L, index);
  if (stream != NULL) use(L, object_of(stream));
  return stream;
}

void *baton_io_newuserdata(lua_State *L, size_t size, int values) {
  void *stream = lua_newuserdatauv(L, size, values);
  use(L, stream);
  return stream;
}

/* Before a child is started. A file in use would have to be waited for: its own call flushes it, or
   has nothing to flush. */
void baton_io_flush_all(void) {
  struct baton_process *process = baton_gate_process();
  if (process != NULL && process->vm->busy_count > 0) {
    if (!baton_lua_is_busy(process, stdout)) fflush(stdout);
    if (!baton_lua_is_busy(process, stderr)) fflush(stderr);
  } else {
    fflush(NULL);
  }
}

/* At the end of the program a call may still be about this file: then the file is left alone. */
int baton_io_fclose(FILE *file) {
  struct baton_process *process = baton_gate_process();
  if (process != NULL && process->vm->closing && baton_lua_is_busy(process, file)) return 0;
  return fclose(file);
}

/* }====================================================== */

/* {======================================================
** print
** ======================================================= */

/* Writes what was converted so far: strings 1..n of the table at `index`, with a newline if all of
   it is there. */
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

/* The closing value of a print with metamethods: after an error in one, what came before it is
   written, as by stock print. */
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

/* print, in one piece: the whole line is made first and written at once. */
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
