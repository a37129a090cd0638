/*
** A snapshot of Lua's heap: all objects with their sizes, names and references, and the roots,
** which keep the others alive.
**
** It is written in a copy of the program, at a moment when no process ran. Another thread of the
** program may have been anywhere then, in malloc for example, and does not exist in the copy. So
** the functions of this folder only read Lua's heap, fill a static buffer and call write. All of
** them are async-signal-safe (`tools/xtask/src/tidy/signal_safe.rs` checks it). The functions of
** Lua that they call allocate nothing.
**
** The collector may be in the middle of a cycle. Then the heap has objects that it will free, and
** what these refer to may be gone already. They are counted, and nothing of them but their sizes is
** read. All other objects refer only to such as are there: the collector's invariant.
*/
#include "heap/heap.h"

#include "heap/records.h"
#include "state/state.h"

#include <string.h>

struct totals {
  uint64_t dead, dead_bytes;
};

static void write_list(const global_State *g, GCObject *list, struct totals *totals) {
  GCObject *object;
  for (object = list; object != NULL && !baton_heap_has_failed(); object = object->next) {
    if (isdead(g, object)) {
      totals->dead++;
      totals->dead_bytes += baton_heap_size_of(object);
    } else {
      baton_heap_write_object(g, object);
    }
  }
}

static void group(enum baton_heap_group group, const char *name) {
  baton_heap_object(BATON_HEAP_GROUP, group, 0, name, strlen(name));
}

static const void *address(enum baton_heap_group group) { return (const void *)(uintptr_t)group; }

/* {======================================================
** Processes
** ======================================================= */

#define TITLE (sizeof((struct baton_process *)0)->name + 40)

/* Writes "process 'name'", or with its number "process 7 'name'". Returns the length. */
static size_t write_title(char *text, const struct baton_process *process, int with_number) {
  static const char word[] = "process";
  const size_t length = strnlen(process->name, sizeof process->name);
  size_t used = sizeof word - 1;
  memcpy(text, word, used);
  if (with_number) {
    char digits[20];
    size_t at = sizeof digits;
    uint64_t number = process->id;
    do {
      digits[--at] = (char)('0' + number % 10);
      number /= 10;
    } while (number != 0);
    text[used++] = ' ';
    memcpy(text + used, digits + at, sizeof digits - at);
    used += sizeof digits - at;
  }
  if (length > 0) {
    memcpy(text + used, " '", 2);
    memcpy(text + used + 2, process->name, length);
    used += length + 2;
    text[used++] = '\'';
  }
  text[used] = '\0';
  return used;
}

/* The userdata that has the record. */
static const void *handle_of(const struct baton_process *process) {
  return (const char *)process - udatamemoffset(BATON_UV_COUNT);
}

static void write_processes(const struct baton_lua_vm *vm) {
  const struct baton_process *process;
  char title[TITLE];
  group(BATON_HEAP_PROCESSES, "(processes)");
  for (process = vm->main_process; process != NULL; process = process->next_live) {
    const struct baton_resumed *resumed;
    write_title(title, process, 1);
    baton_heap_part("handle", handle_of(process), 0);
    if (process->L == NULL) continue;
    baton_heap_named(title, process->L);
    for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
      if (G(resumed->L) == vm->global) baton_heap_named(title, resumed->L);
  }
  for (process = vm->main_process; process != NULL; process = process->next_live)
    if (process->L != NULL)
      baton_heap_rename(process->L, title, write_title(title, process, 0));
}

/* }====================================================== */

/* {======================================================
** Roots
** ======================================================= */

static void write_members(const GCObject *list) {
  const GCObject *object;
  for (object = list; object != NULL; object = object->next) baton_heap_hidden(object);
}

static void write_metatables(const global_State *g) {
  static const char *const names[LUA_NUMTYPES] = {
      "metatable of nil", "metatable of booleans", "metatable of light userdata",
      "metatable of numbers", "metatable of strings", "metatable of tables",
      "metatable of functions", "metatable of userdata", "metatable of threads"};
  int i;
  for (i = 0; i < LUA_NUMTYPES; i++)
    if (g->mt[i] != NULL) baton_heap_part(names[i], g->mt[i], 0);
}

static void write_roots(const struct baton_lua_vm *vm, const global_State *g) {
  static const char table[] = "(table of strings)";
  const Table *registry = hvalue(&g->l_registry);
  group(BATON_HEAP_ROOT, "(root)");
  if (luaH_realasize(registry) >= LUA_RIDX_GLOBALS &&
      iscollectable(&registry->array[LUA_RIDX_GLOBALS - 1]))
    baton_heap_named("_G", gcvalue(&registry->array[LUA_RIDX_GLOBALS - 1]));
  baton_heap_named("registry", registry);
  baton_heap_part("processes", address(BATON_HEAP_PROCESSES), 0);
  baton_heap_part("main thread", g->mainthread, 0);
  write_metatables(g);
  baton_heap_part("fixed", address(BATON_HEAP_FIXED), 0);
  baton_heap_part("to be finalized", address(BATON_HEAP_TO_FINALIZE), 0);
  baton_heap_part("strings", address(BATON_HEAP_STRING_TABLE), 0);
  write_processes(vm);
  group(BATON_HEAP_FIXED, "(names of Lua)");
  write_members(g->fixedgc);
  group(BATON_HEAP_TO_FINALIZE, "(to be finalized)");
  write_members(g->tobefnz);
  write_members((const GCObject *)vm->set_aside);
  baton_heap_object(BATON_HEAP_INTERNAL, BATON_HEAP_STRING_TABLE,
      (size_t)g->strt.size * sizeof(TString *), table, sizeof table - 1);
}

/* }====================================================== */

int baton_lua_write_heap(const struct baton_process *process, int descriptor) {
  const struct baton_lua_vm *vm = process->vm;
  const global_State *g = process->global;
  struct totals totals = {0, 0};
  baton_heap_prepare(g);
  baton_heap_start(descriptor, gettotalbytes(g));
  write_roots(vm, g);
  write_list(g, g->allgc, &totals);
  write_list(g, g->finobj, &totals);
  write_list(g, g->tobefnz, &totals);
  write_list(g, (GCObject *)vm->set_aside, &totals);
  write_list(g, g->fixedgc, &totals);
  return baton_heap_end(totals.dead, totals.dead_bytes);
}
