/*
** The retake policy for foreign calls: may the VM be retaken from this call, and may its process
** continue on another thread?
**
** The monitor asks it when it has taken the VM. The C function that is being called decides:
**
**   io.*, methods of files        retaken; one call per file at a time, and other calls of the file
**                                 wait (io/files.c)
**   os.execute, remove, rename    retaken; they share nothing
**   string.*                      retaken; strings do not change
**   print, loadfile, dofile       retaken; print is one piece under the lock of its stream
**   package.loadlib, ffi.load, and the library search of `require`
**                                 retaken; a library's constructors may take long
**   functions of the ffi          retaken; the program is responsible for what runs beside them
**   table.* and Lua's others      exclusive; they stay atomic
**   C modules, linked ones too    by their policy (policies.c); exclusive if there is none
**
** A process with frames of foreign C code continues only on its own thread. That code may hold a
** thread-local address, such as that of errno.
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "lualib.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The library functions that may be retaken. Each VM adds those of the libraries that it opens, and
   finds that the first VM has added them. */
#define MOST_FUNCTIONS 160
enum kind {
  PLAIN,
  ABOUT_A_FILE, /* it uses a file, which io/files.c notes */
  GIVES_WAY     /* it may use the API for long, and gives way meanwhile */
};
static struct {
  lua_CFunction function;
  enum kind kind;
  void (*on_retake)(lua_State *L); /* called after a retake; or NULL */
} retakable[MOST_FUNCTIONS];
static int retakable_count;                                /* atomic */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER; /* held while it grows */

/* Index in the table, or -1. */
static int find(lua_CFunction function) {
  /* Acquire: pairs with the release in `add`. */
  const int count = __atomic_load_n(&retakable_count, __ATOMIC_ACQUIRE);
  int i;
  for (i = 0; i < count; i++)
    if (retakable[i].function == function) return i;
  return -1;
}

static void add(lua_CFunction function, enum kind kind, void (*on_retake)(lua_State *L)) {
  int count;
  if (function == NULL || !baton_lua_is_ours(function) || find(function) >= 0) return;
  pthread_mutex_lock(&adding);
  count = retakable_count;
  if (find(function) < 0 && count < MOST_FUNCTIONS) {
    retakable[count].function = function;
    retakable[count].kind = kind;
    retakable[count].on_retake = on_retake;
    /* Release: pairs with the acquire in `find`. */
    __atomic_store_n(&retakable_count, count + 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&adding);
}

/* Another thread may have held the mutex when the program forked. */
void baton_lua_retake_policy_in_child(void) { pthread_mutex_init(&adding, NULL); }

/* Registers a function of the host, such as the command line, that may be retaken. */
void baton_lua_note_function(lua_CFunction function) { add(function, PLAIN, NULL); }

void baton_lua_note_function_that_gives_way(lua_CFunction function) {
  add(function, GIVES_WAY, NULL);
}

void baton_lua_note_function_with_retake_hook(
    lua_CFunction function, void (*on_retake)(lua_State *L)) {
  add(function, PLAIN, on_retake);
}

static void note(lua_State *L, int index, enum kind kind) {
  add(lua_tocfunction(L, index), kind, NULL);
}

static void note_table(lua_State *L, enum kind kind) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    note(L, -1, kind);
    lua_pop(L, 1);
  }
}

static void note_library(lua_State *L, const char *name, enum kind kind) {
  if (lua_getglobal(L, name) == LUA_TTABLE) note_table(L, kind);
  lua_pop(L, 1);
}

static void note_field(lua_State *L, const char *library, const char *name) {
  if (lua_getglobal(L, library) == LUA_TTABLE) {
    lua_getfield(L, -1, name);
    note(L, -1, PLAIN);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void note_global(lua_State *L, const char *name, enum kind kind) {
  lua_getglobal(L, name);
  note(L, -1, kind);
  lua_pop(L, 1);
}

/* Calls the function below `arguments` strings and notes its result, an iterator. No table has that
   iterator. */
static void note_iterator(lua_State *L, int arguments, enum kind kind) {
  if (lua_pcall(L, arguments, 1, 0) == LUA_OK) note(L, -1, kind);
  lua_pop(L, 1);
}

void baton_lua_note_library_functions(lua_State *L) {
  static int is_done;
  if (is_done) return;
  is_done = 1;
  note_library(L, LUA_STRLIBNAME, GIVES_WAY);
  note_library(L, LUA_IOLIBNAME, ABOUT_A_FILE);
  note_field(L, LUA_OSLIBNAME, "remove");
  note_field(L, LUA_OSLIBNAME, "rename");
  note_field(L, LUA_OSLIBNAME, "execute"); /* replaced by io/files.c */
  note_global(L, "print", ABOUT_A_FILE);
  note_field(L, LUA_LOADLIBNAME, "loadlib");
  note_global(L, "loadfile", GIVES_WAY);
  note_global(L, "dofile", GIVES_WAY);
  if (luaL_getmetatable(L, LUA_FILEHANDLE) == LUA_TTABLE) {
    note_table(L, ABOUT_A_FILE);
    if (lua_getfield(L, -1, "__index") == LUA_TTABLE) note_table(L, ABOUT_A_FILE);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_getglobal(L, LUA_STRLIBNAME);
  lua_getfield(L, -1, "gmatch");
  lua_pushliteral(L, "");
  lua_pushliteral(L, "");
  note_iterator(L, 2, GIVES_WAY);
  lua_pop(L, 1);
  lua_getglobal(L, LUA_IOLIBNAME);
  lua_getfield(L, -1, "lines");
  note_iterator(L, 0, ABOUT_A_FILE);
  lua_pop(L, 1);
}

/* Whether other processes may run beside the call of `function` that `L` is in. `object` becomes
   what no other call may use until this one calls back, or NULL. */
static int may_run_beside(
    struct baton_process *process, lua_State *L, lua_CFunction function, void **object) {
  const int found = find(function);
  *object = NULL;
  if (found < 0) return baton_lua_policy_allows(L, function, object);
  if (retakable[found].kind == ABOUT_A_FILE && process->object_of == function)
    *object = process->object;
  return 1;
}

void *baton_lua_object_of_call(
    struct baton_process *process, lua_State *L, lua_CFunction function) {
  void *object = NULL;
  return may_run_beside(process, L, function, &object) ? object : NULL;
}

static void note_retake(lua_State *L, lua_CFunction function) {
  const int found = find(function);
  if (found >= 0 && retakable[found].on_retake != NULL) retakable[found].on_retake(L);
}

int baton_lua_retake_policy(struct baton_process *process) {
  lua_State *L;
  lua_CFunction function;
  void *object;
  if (process->global == NULL) return 0;
  L = baton_lua_innermost(process);
  if (process->foreign_states > 0 || process->vm->in_report ||
      (function = baton_lua_running_function(L)) == NULL)
    return 0;
  if (!may_run_beside(process, L, function, &object)) return 0;
  note_retake(L, function);
  baton_lua_detach(process);
  baton_lua_use_begins(&process->use, process, object);
  baton_lua_keep_calls_in_use(process);
  process->pinned = (unsigned char)baton_lua_has_foreign_frames(process);
  return process->pinned ? 2 : 1;
}

int baton_lua_may_give_way(struct baton_process *process, void **object) {
  lua_State *L = baton_lua_innermost(process);
  lua_CFunction function = baton_lua_running_function(L);
  int found;
  if (function == NULL || baton_simulated || !L->allowhook || process->calls_back ||
      process->foreign_states > 0 || process->criticals > 0)
    return 0;
  if (process->vm->closing || process->vm->in_report || process->outcome != BATON_ALIVE ||
      baton_lua_is_in_finalizer(process))
    return 0;
  found = find(function);
  *object = NULL;
  if (found < 0 ? !baton_lua_policy_allows(L, function, object)
                : retakable[found].kind != GIVES_WAY)
    return 0;
  return baton_lua_has_foreign_frames(process) ? 2 : 1;
}
