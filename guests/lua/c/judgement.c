/*
** May the VM be taken from this foreign call, and may its process continue on another thread?
**
** Decided after a take, from the C function that is being called:
**
**   io.*, methods of files    object: one call per file at a time; others on that file wait (io_objects.c)
**   os.execute, remove, rename  retaken; they keep nothing
**   string.*                  retaken; strings do not change
**   print, loadfile, dofile   retaken; print is one piece under the lock of its stream
**   functions of the ffi      retaken; what else may run meanwhile is the program's business
**   table.* and others of Lua's  exclusive: they keep their atomicity
**   C modules                 by their policy (policies.c); exclusive if none is known
**
** A process with frames of foreign C code below continues only on its own thread: that code may have kept the
** address of something thread-local, such as errno.
*/
#include "internals.h"
#include "guest.h"
#include "lualib.h"

#include <stdio.h>
#include <string.h>

/* The library functions that may be retaken, sorted by insertion at start-up; written once, before there are processes. */
#define MOST_FUNCTIONS 160
static struct {
  lua_CFunction function;
  int has_object; /* it is about a file, noted in io_objects.c */
} retakable[MOST_FUNCTIONS];
static int retakable_count;

/* The text of the executable: our own C, Lua's and the runtime's. */
extern char __executable_start[];
extern char etext[];

int baton_lua_is_ours(lua_CFunction function) {
  const char *address = (const char *)function;
  return address >= __executable_start && address < etext;
}

/* Index in the table, or -1. */
static int find(lua_CFunction function) {
  int i;
  for (i = 0; i < retakable_count; i++)
    if (retakable[i].function == function) return i;
  return -1;
}

static void add(lua_CFunction function, int has_object) {
  if (function == NULL || !baton_lua_is_ours(function) || find(function) >= 0 || retakable_count == MOST_FUNCTIONS) return;
  retakable[retakable_count].function = function;
  retakable[retakable_count++].has_object = has_object;
}

/* A function of the host, such as the command line, that may be retaken. */
void baton_lua_note_function(lua_CFunction function) { add(function, 0); }

static void note(lua_State *L, int index, int has_object) { add(lua_tocfunction(L, index), has_object); }

static void note_table(lua_State *L, int has_object) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    note(L, -1, has_object);
    lua_pop(L, 1);
  }
}

static void note_library(lua_State *L, const char *name, int has_object) {
  if (lua_getglobal(L, name) == LUA_TTABLE) note_table(L, has_object);
  lua_pop(L, 1);
}

static void note_field(lua_State *L, const char *library, const char *name) {
  if (lua_getglobal(L, library) == LUA_TTABLE) {
    lua_getfield(L, -1, name);
    note(L, -1, 0);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void note_global(lua_State *L, const char *name, int has_object) {
  lua_getglobal(L, name);
  note(L, -1, has_object);
  lua_pop(L, 1);
}

/* The result of calling the function on the top of the stack with `arguments` strings: an iterator that no table holds. */
static void note_iterator(lua_State *L, int arguments, int has_object) {
  if (lua_pcall(L, arguments, 1, 0) == LUA_OK) note(L, -1, has_object);
  lua_pop(L, 1);
}

void baton_lua_note_library_functions(lua_State *L) {
  if (find(baton_lua_print) >= 0) return;
  note_library(L, LUA_STRLIBNAME, 0);
  note_library(L, LUA_IOLIBNAME, 1);
  note_field(L, LUA_OSLIBNAME, "remove");
  note_field(L, LUA_OSLIBNAME, "rename");
  note_field(L, LUA_OSLIBNAME, "execute"); /* replaced by io_objects.c */
  note_global(L, "print", 1);
  baton_lua_note_function(baton_ffi_call);
  note_global(L, "loadfile", 0);
  note_global(L, "dofile", 0);
  if (luaL_getmetatable(L, LUA_FILEHANDLE) == LUA_TTABLE) {
    note_table(L, 1);
    if (lua_getfield(L, -1, "__index") == LUA_TTABLE) note_table(L, 1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_getglobal(L, LUA_STRLIBNAME);
  lua_getfield(L, -1, "gmatch");
  lua_pushliteral(L, "");
  lua_pushliteral(L, "");
  note_iterator(L, 2, 0);
  lua_pop(L, 1);
  lua_getglobal(L, LUA_IOLIBNAME);
  lua_getfield(L, -1, "lines");
  note_iterator(L, 0, 1);
  lua_pop(L, 1);
}

static lua_CFunction function_of(CallInfo *ci) {
  const TValue *function = s2v(ci->func.p);
  switch (ttypetag(function)) {
    case LUA_VLCF: return fvalue(function);
    case LUA_VCCL: return clCvalue(function)->f;
    default: return NULL;
  }
}

/*
** What a walk found at a frame and beneath it, kept in two bits of its `callstatus` that Lua leaves free. Lua writes that anew for each
** call, and nothing beneath changes while a frame stands: so each frame is looked at once, however deep the stack is at each switch.
*/
#define FRAMES_ALL_OURS (1 << 14)
#define FRAMES_SOME_FOREIGN (1 << 15)
#define FRAMES_WALKED (FRAMES_ALL_OURS | FRAMES_SOME_FOREIGN)
_Static_assert(CIST_LEQ < FRAMES_ALL_OURS && sizeof(((CallInfo *)0)->callstatus) == 2, "the two bits are free");

static int has_foreign_frames(lua_State *L) {
  CallInfo *ci, *walked;
  int found = FRAMES_ALL_OURS;
  for (ci = L->ci; ci != NULL && ci != &L->base_ci; ci = ci->previous) {
    lua_CFunction function;
    if (!(ci->callstatus & FRAMES_WALKED) && !isLua(ci) && (function = function_of(ci)) != NULL && !baton_lua_is_ours(function))
      ci->callstatus |= FRAMES_SOME_FOREIGN;
    if (ci->callstatus & FRAMES_WALKED) {
      found = ci->callstatus & FRAMES_WALKED;
      break;
    }
  }
  for (walked = L->ci; walked != ci; walked = walked->previous) walked->callstatus |= (unsigned short)found;
  return found == FRAMES_SOME_FOREIGN;
}

/* Inside the VM, since the monitor writes to it, too, when it judges. */
void baton_lua_mark_frame(lua_State *L, int is_foreign) {
  unsigned status = L->ci->callstatus & ~(unsigned)FRAMES_WALKED;
  L->ci->callstatus = (unsigned short)(is_foreign ? status | FRAMES_SOME_FOREIGN : status);
}

int baton_lua_has_foreign_frames(struct baton_process *process) {
  struct baton_resumed *resumed;
  if (process->keeps_thread || has_foreign_frames(process->L)) return 1;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (has_foreign_frames(resumed->L)) return 1;
  return 0;
}

lua_CFunction baton_lua_running_function(lua_State *L) { return isLua(L->ci) ? NULL : function_of(L->ci); }

/* Whether others may run beside the call of `function` that `L` is in, and what nobody else may touch meanwhile (NULL: nothing). */
static int may_run_beside(struct baton_process *process, lua_State *L, lua_CFunction function, void **object) {
  const int found = find(function);
  *object = NULL;
  if (found < 0) return baton_lua_policy_allows(process, L, function, object);
  if (retakable[found].has_object && process->object_of == function) *object = process->object;
  return 1;
}

void *baton_lua_object_of_running_call(struct baton_process *process, lua_State *L) {
  const lua_CFunction function = baton_lua_running_function(L);
  void *object = NULL;
  return function != NULL && may_run_beside(process, L, function, &object) ? object : NULL;
}

int baton_lua_judge(struct baton_process *process) {
  lua_State *L;
  lua_CFunction function;
  void *object;
  if (process->global == NULL) return 0;
  L = baton_lua_innermost(process);
  if (process->foreign_states > 0 || process->vm->in_report || (function = baton_lua_running_function(L)) == NULL) return 0;
  if (!may_run_beside(process, L, function, &object)) return 0;
  if (function == baton_ffi_call) baton_ffi_note_retaken(L);
  baton_lua_detach(process);
  baton_lua_use_begins(&process->use, process, object, BATON_ALONE);
  process->pinned = (unsigned char)baton_lua_has_foreign_frames(process);
  return process->pinned ? 2 : 1;
}

/* The name under which a loaded module holds the function, as Lua's own messages have it. Writes at most `size` bytes. */
void baton_lua_name_function(lua_State *L, char *text, size_t size) {
  lua_Debug ar;
  memset(&ar, 0, sizeof ar);
  ar.i_ci = L->ci;
  ar.name = NULL;
  if (lua_getinfo(L, "n", &ar) && ar.name != NULL)
    snprintf(text, size, "'%s'", ar.name);
  else
    snprintf(text, size, "a C function at %p", (void *)(size_t)function_of(L->ci));
}

/* Whether the function was named before, in whatever VM. The table has no lock, so that a fork leaves none behind; what does not fit is not remembered. */
static int was_warned_of(lua_CFunction function) {
  static lua_CFunction warned[64];
  size_t i;
  for (i = 0; i < sizeof warned / sizeof warned[0]; i++) {
    lua_CFunction there = NULL;
    /* Relaxed: a slot is written once, and leads to nothing. */
    if (__atomic_compare_exchange_n(&warned[i], &there, function, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 0;
    if (there == function) return 1;
  }
  return 0;
}

/* By the monitor, with the VM in its hands, or by the call's own thread: no allocation, no error. */
void baton_lua_warn_blocked(struct baton_process *process) {
  lua_State *L;
  char name[160];
  const char *module;
  lua_CFunction function;
  if (process->global == NULL) return;
  L = baton_lua_innermost(process);
  if (isLua(L->ci)) return;
  function = function_of(L->ci);
  if (function == baton_lua_exit) return; /* nobody is to go on */
  if (was_warned_of(function)) return;
  process->vm->in_report++;
  baton_lua_name_function(L, name, sizeof name);
  process->vm->in_report--;
  if (process->criticals > 0) {
    fprintf(stderr,
            "baton: warning: process '%s' (id %llu): %s, called inside process.critical, keeps all other processes%s waiting. Call it outside of the "
            "section, or raise process.params.warn_blocked if this is meant.%s\n",
            baton_lua_name_for_report(process), (unsigned long long)process->id, name,
            baton_ffi_has_visitors(process->vm) ? ", and a callback from another thread," : "",
            baton_ffi_has_visitors(process->vm) ? " If it waits for that thread, it waits for ever." : "");
    return;
  }
  module = baton_lua_module_name(process->vm, function);
  if (module != NULL)
    fprintf(stderr,
            "baton: warning: process '%s' (id %llu): %s of the module '%s' keeps all other processes waiting. If its calls may overlap, say so: "
            "process.concurrent('%s', 'object'), or 'serial' or 'concurrent', or BATON_CONCURRENT in the environment. Else call it in a program of its "
            "own (io.popen), or raise process.params.warn_blocked if this is meant.\n",
            baton_lua_name_for_report(process), (unsigned long long)process->id, name, module, module);
  else
    fprintf(stderr,
            "baton: warning: process '%s' (id %llu): %s keeps all other processes waiting. Do it in smaller pieces, or raise process.params.warn_blocked "
            "if this is meant.\n",
            baton_lua_name_for_report(process), (unsigned long long)process->id, name);
}
