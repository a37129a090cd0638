/*
** vm.move for files: the FILE goes to another VM, with its position and its buffer. Here the file
** is closed, and says that it was moved.
**
** Only files that io.open, io.lines and io.tmpfile have opened are moved. The standard files are
** the program's. The end of a pipe waits for its child, which belongs to the VM that started it.
*/
#include "io/io.h"
#include "lualib.h"

#include <stdio.h>
#include <stdlib.h>

/* A file on its way. */
struct departed_file {
  struct baton_departed departed; /* must be first */
  FILE *file;
  lua_CFunction closef; /* of liolib.c, so it is the same in all VMs */
};

static int is_file(lua_State *L, int index) {
  return luaL_testudata(L, index, LUA_FILEHANDLE) != NULL;
}

/* The file at `index`, or NULL if other code than liolib.c has made it. */
static struct baton_stream *stream_at(lua_State *L, int index) {
  return lua_rawlen(L, index) == sizeof(struct baton_stream) ? lua_touserdata(L, index) : NULL;
}

/* {======================================================
** Leaving and coming back
** ======================================================= */

static void end_file(struct baton_departed *departed, int has_arrived) {
  struct departed_file *file = (struct departed_file *)departed;
  if (!has_arrived) fclose(file->file);
  free(file);
}

static void fill(struct baton_stream *stream, const struct departed_file *file) {
  stream->stream.f = file->file;
  stream->stream.closef = file->closef;
}

int baton_io_has_moved(lua_State *L, int index, int ends) {
  struct baton_stream *stream = stream_at(L, index);
  struct departed_file *file = stream != NULL ? stream->departed : NULL;
  if (file == NULL) return 0;
  if (baton_departed_is_back(&file->departed)) {
    fill(stream, file);
    stream->departed = NULL;
    baton_departed_arrives(&file->departed);
    return 0;
  }
  if (ends) {
    stream->departed = NULL;
    baton_departed_drop(&file->departed);
  }
  return 1;
}

/* }====================================================== */

/* {======================================================
** Moving
** ======================================================= */

/* Ends the registrations of the file's descriptor with this VM's poller. Returns 0, and ends none,
   if a call of another process uses the file. */
static int leave_poller(lua_State *L, FILE *file) {
  const struct baton_process *process = baton_lua_here(L);
  int is_free;
  if (process == NULL) return 1;
  baton_lua_enter(L);
  is_free = !baton_lua_is_busy(process, file);
  if (is_free && fileno(file) >= 0)
    baton_descriptor_closes(process->vm->executor, (uint32_t)fileno(file));
  baton_lua_leave(L);
  return is_free;
}

/* Why the file at `index` cannot be moved at all, or NULL. */
static const char *why_not(lua_State *L, int index) {
  const struct baton_stream *stream = stream_at(L, index);
  if (stream == NULL) return "a C module has opened it";
  if (stream->stream.closef == NULL && baton_io_has_moved(L, index, 0)) return "it was moved";
  if (stream->stream.closef == NULL || stream->stream.f == NULL) return "it is closed";
  if (stream->is_pipe) return "a file of io.popen stays with its command";
  if (stream->stream.f == stdin || stream->stream.f == stdout || stream->stream.f == stderr)
    return "all VMs have the standard files";
  return NULL;
}

static void check_file(lua_State *L, int index) {
  const char *why = why_not(L, index);
  if (why != NULL) luaL_argerror(L, index, lua_pushfstring(L, "cannot move the file: %s", why));
}

static void *take_file(lua_State *L, int index, const char **why) {
  struct baton_stream *stream;
  struct departed_file *file;
  *why = why_not(L, index);
  if (*why != NULL) return NULL;
  stream = lua_touserdata(L, index);
  *why = "not enough memory";
  file = malloc(sizeof *file);
  if (file == NULL) return NULL;
  *why = "a call of another process uses it";
  if (!leave_poller(L, stream->stream.f)) {
    free(file);
    return NULL;
  }
  baton_departed_begin(&file->departed, end_file);
  file->file = stream->stream.f;
  file->closef = stream->stream.closef;
  stream->stream.f = NULL;
  stream->stream.closef = NULL;
  stream->departed = file;
  return file;
}

/* Pushes a closed file. */
static int make(lua_State *L) {
  struct baton_stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
  *stream = (struct baton_stream){.stream = {NULL, NULL}};
  luaL_setmetatable(L, LUA_FILEHANDLE);
  return 1;
}

static void push_file(lua_State *L, void *object) {
  struct departed_file *file = object;
  lua_pushcfunction(L, make);
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
    baton_departed_returns(&file->departed);
    lua_error(L);
  }
  /* its number may have been another file's here */
  (void)leave_poller(L, file->file);
  fill(lua_touserdata(L, -1), file);
  baton_departed_arrives(&file->departed);
}

static void restore_file(void *object) {
  struct departed_file *file = object;
  baton_departed_returns(&file->departed);
}

void baton_io_install(void) {
  static const struct baton_movable kind = {
      is_file, check_file, take_file, push_file, restore_file};
  baton_move_register(&kind);
}

/* }====================================================== */
