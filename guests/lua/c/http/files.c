/*
** Files that are sent as replies. ../../lua/http_files.lua has the order of the steps.
**
** To open a file and to read from it may block: others run meanwhile. So the functions that do so
** change nothing but the file's own record, which no other process has. A reply is sent by
** replies.c.
**
** A file below a directory is opened by the system in one step, which follows symbolic links that
** stay below it (openat2). Where the system has no such step, or refuses it, the path is walked
** through segment by segment, and no symbolic link is followed.
*/
#include "http/inside.h"
#include "calls/calls.h"
#include "system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE (64 * 1024) /* bytes that are read at once */
#define MOST_ATTEMPTS 8   /* while somebody renames what the path leads through */
#define OPENED (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* The object's user value is the buffer. */
struct file {
  const void *seal; /* must be first */
  int descriptor;   /* -1: closed */
  uint64_t size, modified; /* seconds since 1970 */
  uint64_t at, left; /* what is to be read */
  uint64_t unsent;   /* `left`, and what lies in the buffer */
  size_t got;        /* bytes in the buffer */
  size_t etag_size;
  char etag[48];
};

static struct file *check_file(lua_State *L, int index) {
  struct file *file = baton_inline_check_sealed(L, index, BATON_SEALED_HTTP_FILE, "file");
  luaL_argcheck(L, file->descriptor >= 0, index, "the file was closed");
  return file;
}

/* {======================================================
** Opening
** ======================================================= */

/* Opens the path below the directory, without symbolic links. Changes the path. */
static int walk(int directory, char *path) {
  int at = directory, next = -1;
  for (;;) {
    char *slash = strchr(path, '/');
    if (slash != NULL) *slash = '\0';
    next = openat(at, path, OPENED | O_NOFOLLOW | (slash != NULL ? O_DIRECTORY : 0));
    if (at != directory) {
      const int error = errno;
      close(at);
      errno = error;
    }
    if (next < 0 || slash == NULL) return next;
    at = next;
    path = slash + 1;
  }
}

static int open_in(int directory, char *path) {
  int attempts = 0, opened;
  do {
    opened = baton_open_beneath(directory, path, OPENED);
  } while (opened < 0 && (errno == EAGAIN || errno == EINTR) && ++attempts < MOST_ATTEMPTS);
  if (opened >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) return opened;
  return walk(directory, path);
}

/* Returns a descriptor, or -1 with errno. An empty path is the directory itself. */
static int open_below(const char *directory, char *path) {
  const int at = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  int opened, error;
  if (at < 0 || *path == '\0') return at;
  opened = open_in(at, path);
  error = errno;
  close(at);
  errno = error;
  return opened;
}

/* Returns NULL if the file can be sent, or what it is. */
static const char *examine(struct file *file) {
  struct stat status;
  struct timespec modified;
  if (fstat(file->descriptor, &status) != 0) return strerror(errno);
  if (S_ISDIR(status.st_mode)) return "directory";
  if (!S_ISREG(status.st_mode)) return "missing";
  modified = baton_modified(&status);
  file->size = (uint64_t)status.st_size;
  file->modified = modified.tv_sec > 0 ? (uint64_t)modified.tv_sec : 0;
  file->etag_size = (size_t)snprintf(file->etag, sizeof file->etag, "\"%llx-%lx-%llx\"",
      (unsigned long long)file->modified, (unsigned long)modified.tv_nsec,
      (unsigned long long)file->size);
  return NULL;
}

static const char *why_not(int error) {
  switch (error) {
    case ENOENT: case ENOTDIR: case ELOOP: case EXDEV: case ENAMETOOLONG: case ENXIO:
      return "missing";
    case EACCES: return "denied";
    default: return strerror(error);
  }
}

static int close_file(lua_State *L) {
  struct file *file = baton_inline_test_sealed(L, 1, BATON_SEALED_HTTP_FILE);
  if (file == NULL || file->descriptor < 0) return 0;
  close(file->descriptor);
  file->descriptor = -1;
  return 0;
}

/* open(path, directory): a file; or nil and why: "missing", "directory", "denied", or what the
   system says. With a directory, the path is one of `below`, and nothing leads out of it. */
int baton_http_open_file(lua_State *L) {
  size_t size;
  const char *given = luaL_checklstring(L, 1, &size);
  const char *directory = luaL_optstring(L, 2, NULL);
  char path[BATON_HTTP_MOST_PATH];
  struct file *file;
  const char *why = "missing";
  lua_settop(L, 2);
  baton_lua_check_memory(L);
  file = lua_newuserdatauv(L, sizeof *file, 1);
  memset(file, 0, sizeof *file);
  file->seal = baton_inline_seal(BATON_SEALED_HTTP_FILE);
  file->descriptor = -1;
  baton_lua_set_sealed_metatable(L, BATON_SEALED_HTTP_FILE);
  if (size < sizeof path && strlen(given) == size) {
    memcpy(path, given, size + 1);
    baton_lua_before_blocking(L, baton_lua_here(L));
    file->descriptor = directory != NULL ? open_below(directory, path) : open(path, OPENED);
    why = file->descriptor >= 0 ? examine(file) : why_not(errno);
  }
  if (why == NULL) return 1;
  if (file->descriptor >= 0) close(file->descriptor);
  file->descriptor = -1;
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* below(path, is_encoded, has_hidden): the path of a file, and whether it names a directory; nil if
   the path of a request may name none. */
int baton_http_path_of_file(lua_State *L) {
  size_t size;
  const char *path = luaL_checklstring(L, 1, &size);
  char out[BATON_HTTP_MOST_PATH];
  struct baton_http_named named;
  if (!baton_http_path_below(path, size, lua_toboolean(L, 2), lua_toboolean(L, 3), out, &named))
    return 0;
  lua_pushlstring(L, out, named.size);
  lua_pushboolean(L, named.is_directory);
  return 2;
}

/* kind(path): the type that the ending of the name tells */
int baton_http_kind_of_file(lua_State *L) {
  size_t size, length;
  const char *path = luaL_checklstring(L, 1, &size);
  const char *kind = baton_http_kind_of(path, size, &length);
  lua_pushlstring(L, kind, length);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Choosing and reading
** ======================================================= */

static struct baton_http_bytes field_of(lua_State *L, int index) {
  struct baton_http_bytes bytes = {"", 0};
  if (!lua_isnil(L, index)) bytes.data = luaL_checklstring(L, index, &bytes.size);
  return bytes;
}

/* file:choose(if_none_match, if_modified_since, range, if_range): the status, the first byte and
   the last one of what is to be sent, and the size of the file. */
static int file_choose(lua_State *L) {
  struct file *file = check_file(L, 1);
  const struct baton_http_bytes etag = {file->etag, file->etag_size};
  struct baton_http_bytes asked[4];
  struct baton_http_chosen chosen;
  int i;
  lua_settop(L, 5);
  for (i = 0; i < 4; i++) asked[i] = field_of(L, i + 2);
  chosen = baton_http_choose(asked, &etag, file->modified, file->size);
  file->at = chosen.start;
  file->left = file->unsent = chosen.size;
  file->got = 0;
  lua_pushinteger(L, chosen.status);
  lua_pushinteger(L, (lua_Integer)chosen.start);
  lua_pushinteger(L, (lua_Integer)(chosen.start + chosen.size) - 1);
  lua_pushinteger(L, (lua_Integer)file->size);
  return 4;
}

/* file:marks(): its ETag, and its time as HTTP writes it */
static int file_marks(lua_State *L) {
  const struct file *file = check_file(L, 1);
  char date[BATON_HTTP_DATE];
  baton_http_write_date(file->modified, date);
  lua_pushlstring(L, file->etag, file->etag_size);
  lua_pushlstring(L, date, sizeof date);
  return 2;
}

/* Returns what was read, 0 at the end of the file, or -1 with errno. */
static ssize_t read_at(const struct file *file, char *data, size_t size) {
  ssize_t got;
  do {
    got = pread(file->descriptor, data, size, (off_t)file->at);
  } while (got < 0 && errno == EINTR);
  return got;
}

/* file:read(): reads the next piece into the buffer. Returns its size, 0 if all was read; or nil
   and why. */
static int file_read(lua_State *L) {
  struct file *file = check_file(L, 1);
  const size_t size = file->left < PIECE ? (size_t)file->left : PIECE;
  size_t got = 0;
  char *data;
  file->got = 0;
  lua_settop(L, 1);
  if (lua_getiuservalue(L, 1, 1) == LUA_TNIL && size > 0) {
    baton_lua_check_memory(L);
    (void)lua_newuserdatauv(L, size, 0);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 1);
  }
  data = lua_touserdata(L, -1);
  if (size > 0) baton_lua_before_blocking(L, baton_lua_here(L));
  while (got < size) {
    const ssize_t part = read_at(file, data + got, size - got);
    if (part <= 0) {
      const int error = errno;
      lua_pushnil(L);
      lua_pushstring(L, part < 0 ? strerror(error) : "the file has become shorter");
      return 2;
    }
    got += (size_t)part;
    file->at += (uint64_t)part;
  }
  file->left -= got;
  file->got = got;
  lua_pushinteger(L, (lua_Integer)got);
  return 1;
}

/* Takes what lies in the buffer. `unsent` becomes the bytes to send, with these. */
struct iovec baton_http_take_piece(lua_State *L, int index, uint64_t *unsent) {
  struct file *file = check_file(L, index);
  struct iovec piece = {(char *)(size_t)"", file->got};
  *unsent = file->unsent;
  if (file->got > 0) {
    lua_getiuservalue(L, index, 1);
    piece.iov_base = lua_touserdata(L, -1); /* it stays: the file has it */
    lua_pop(L, 1);
  }
  file->unsent -= file->got;
  file->got = 0;
  return piece;
}

/* file:text(): what lies in the buffer, as a string */
static int file_text(lua_State *L) {
  uint64_t unsent;
  const struct iovec piece = baton_http_take_piece(L, 1, &unsent);
  lua_pushlstring(L, piece.iov_base, piece.iov_len);
  return 1;
}

/* }====================================================== */

void baton_http_open_files(lua_State *L) {
  static const luaL_Reg methods[] = {{"choose", file_choose}, {"marks", file_marks},
      {"read", file_read}, {"text", file_text}, {NULL, NULL}};
  baton_lua_note_function(baton_http_open_file);
  baton_lua_note_function(file_read);
  baton_lua_note_quick_finalizer(close_file);
  baton_lua_new_sealed_metatable(L, BATON_SEALED_HTTP_FILE, "baton.http.file*");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, close_file);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__gc");
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
}
