/*
** Breakpoints: their places in functions, and the marks that lead to them.
**
** A breakpoint is at the instructions that begin its line. Their function's prototype has a mark, a
** bit that is dropped with it. So an entry of the table below is valid only if the prototype has
** the mark: then the prototype is the one that the entry was made for, or it was marked later, and
** its older entries were removed.
*/
#include "debugger/inside.h"

#include <stdlib.h>
#include <string.h>

static struct baton_breakpoint *breakpoints;

/* An instruction with a breakpoint. */
struct entry {
  struct entry *next; /* in its bucket */
  const Proto *function;
  int pc;
  struct baton_breakpoint *breakpoint;
};

#define BUCKETS 256

static struct entry *table[BUCKETS];

static struct entry **bucket_of(const Proto *function) {
  const uint64_t hash = (uint64_t)(uintptr_t)function * UINT64_C(0x9E3779B97F4A7C15);
  return &table[hash >> 56];
}

struct baton_breakpoint *baton_debugger_breakpoint_at(
    const Proto *function, int pc, const struct baton_breakpoint *after) {
  const struct entry *entry;
  for (entry = *bucket_of(function); entry != NULL; entry = entry->next) {
    if (entry->function != function || entry->pc != pc) continue;
    if (after == NULL) return entry->breakpoint;
    if (entry->breakpoint == after) after = NULL;
  }
  return NULL;
}

int baton_debugger_has_breakpoints(void) { return breakpoints != NULL; }

/* {======================================================
** Lines of functions
** ======================================================= */

/* The line of the instruction at `pc`, whose predecessor has `line`. */
static int next_line(const Proto *function, int pc, int line) {
  const ls_byte step = function->lineinfo[pc];
  return step == ABSLINEINFO ? luaG_getfuncline(function, pc) : line + step;
}

/* An instruction that belongs to no line of the program. */
static int is_prologue(const Proto *function, int pc) {
  return pc == 0 && GET_OPCODE(function->code[0]) == OP_VARARGPREP;
}

/* Lines for a breakpoint: the first one from the wanted line on that has code, or MAX_INT; and the
   last one of all, for a breakpoint behind the end of the file. */
struct lines {
  int wanted, first, last;
};

static void find_lines(const Proto *function, struct lines *lines) {
  int pc, line = function->linedefined;
  if (function->lineinfo == NULL) return;
  for (pc = 0; pc < function->sizelineinfo; pc++) {
    line = next_line(function, pc, line);
    if (is_prologue(function, pc)) continue;
    if (line >= lines->wanted && line < lines->first) lines->first = line;
    if (line > lines->last) lines->last = line;
  }
}

/* The line for the breakpoint; 0: none. `has_all`: the lines are those of the whole file. */
static int choose_line(const struct lines *lines, int has_all) {
  if (lines->first != MAX_INT) return lines->first;
  return has_all ? lines->last : 0;
}

static void add_entry(const Proto *function, int pc, struct baton_breakpoint *breakpoint) {
  struct entry **bucket = bucket_of(function), *entry = malloc(sizeof *entry);
  if (entry == NULL) return;
  entry->function = function;
  entry->pc = pc;
  entry->breakpoint = breakpoint;
  entry->next = *bucket;
  *bucket = entry;
}

static void mark(Proto *function, struct baton_breakpoint *breakpoint) {
  int pc, line = function->linedefined, previous = -1;
  if (function->lineinfo == NULL) return;
  for (pc = 0; pc < function->sizelineinfo; pc++) {
    line = next_line(function, pc, line);
    if (is_prologue(function, pc)) continue;
    if (line == breakpoint->placed && line != previous) {
      add_entry(function, pc, breakpoint);
      function->marked |= BATON_PROTO_HAS_BREAKPOINT;
    }
    previous = line;
  }
}

/* Removes the entries of a function, or of a breakpoint, from a bucket. */
static void remove_from_bucket(struct entry **link, const Proto *function,
    const struct baton_breakpoint *breakpoint) {
  struct entry *entry;
  while ((entry = *link) != NULL) {
    if (entry->function == function || entry->breakpoint == breakpoint) {
      *link = entry->next;
      free(entry);
    } else {
      link = &entry->next;
    }
  }
}

/* Takes a function's mark away, and removes its entries. The memory of a function that is gone may
   be used again, so there may be entries without a mark. */
static void unmark(Proto *function) {
  function->marked &= (lu_byte)~BATON_PROTO_HAS_BREAKPOINT;
  remove_from_bucket(bucket_of(function), function, NULL);
}

static void remove_entries_of(const struct baton_breakpoint *breakpoint) {
  size_t i;
  for (i = 0; i < BUCKETS; i++) remove_from_bucket(&table[i], NULL, breakpoint);
}

/* }====================================================== */

/* {======================================================
** Files
** ======================================================= */

/* Whether a chunk was loaded from the file of this absolute path. */
static int is_from(const TString *source, const char *path) {
  const char *name;
  char *real;
  int is_same;
  if (source == NULL || *(name = getstr(source)) != '@') return 0;
  if (strcmp(name + 1, path) == 0) return 1;
  real = realpath(name + 1, NULL);
  is_same = real != NULL && strcmp(real, path) == 0;
  free(real);
  return is_same;
}

/* Remembers the last answer, as functions of a chunk share their source. */
struct file {
  const char *path;
  const TString *last;
  int was_from;
};

static int belongs_to(struct file *file, const Proto *function) {
  if (function->source != file->last) {
    file->last = function->source;
    file->was_from = is_from(function->source, file->path);
  }
  return file->was_from;
}

/* }====================================================== */

/* {======================================================
** All functions and states of the heap
** ======================================================= */

static void trace_frames(lua_State *L) {
  CallInfo *ci;
  L->hookmask |= BATON_DEBUG_BIT;
  for (ci = L->ci; ci != NULL; ci = ci->previous)
    if (isLua(ci) && ci_func(ci)->p->marked & BATON_PROTO_HAS_BREAKPOINT)
      ci->u.l.trap = 1;
}

void baton_debugger_trace_states(void) {
  global_State *g = baton_debugger_vm()->global;
  GCObject *object;
  if (baton_debugger_traces == BATON_TRACES_NOTHING)
    baton_debugger_traces = BATON_TRACES_BREAKPOINTS;
  if (g == NULL) return;
  trace_frames(g->mainthread);
  /* In the middle of a sweep there are dead objects, whose parts may be gone. */
  for (object = g->allgc; object != NULL; object = object->next)
    if (object->tt == LUA_VTHREAD && !isdead(g, object) && gco2th(object)->stack.p != NULL)
      trace_frames(gco2th(object));
}

/* Functions. */
struct functions {
  Proto **all;
  size_t count, room;
};

/* Adds a function. Without memory, it is left out. */
static void add_function(struct functions *functions, Proto *function) {
  if (functions->count == functions->room) {
    const size_t room = functions->room * 2 + 64;
    Proto **larger = realloc(functions->all, room * sizeof *larger);
    if (larger == NULL) return;
    functions->all = larger;
    functions->room = room;
  }
  functions->all[functions->count++] = function;
}

/* Places breakpoints of a file in all functions. */
static void place_everywhere(const char *path) {
  struct file file = {path, NULL, 0};
  struct functions functions = {NULL, 0, 0};
  struct baton_breakpoint *breakpoint;
  const global_State *g = baton_debugger_vm()->global;
  GCObject *object;
  size_t i;
  int has_main = 0;
  for (object = g->allgc; object != NULL; object = object->next)
    if (object->tt == LUA_VPROTO && !isdead(g, object) && belongs_to(&file, gco2p(object)))
      add_function(&functions, gco2p(object));
  for (i = 0; i < functions.count; i++) {
    unmark(functions.all[i]);
    has_main |= functions.all[i]->linedefined == 0;
  }
  for (breakpoint = breakpoints; breakpoint != NULL; breakpoint = breakpoint->next) {
    struct lines lines = {breakpoint->line, MAX_INT, 0};
    if (strcmp(breakpoint->path, path) != 0) continue;
    for (i = 0; i < functions.count; i++) find_lines(functions.all[i], &lines);
    breakpoint->placed = choose_line(&lines, has_main);
    for (i = 0; i < functions.count && breakpoint->placed != 0; i++)
      mark(functions.all[i], breakpoint);
  }
  free(functions.all);
}

/* }====================================================== */

/* {======================================================
** Chunks that are loaded later
** ======================================================= */

static void find_lines_in_tree(const Proto *function, struct lines *lines) {
  int i;
  find_lines(function, lines);
  for (i = 0; i < function->sizep; i++) find_lines_in_tree(function->p[i], lines);
}

static void mark_tree(Proto *function, struct baton_breakpoint *breakpoint) {
  int i;
  mark(function, breakpoint);
  for (i = 0; i < function->sizep; i++) mark_tree(function->p[i], breakpoint);
}

static void unmark_tree(Proto *function) {
  int i;
  unmark(function);
  for (i = 0; i < function->sizep; i++) unmark_tree(function->p[i]);
}

void baton_debugger_place_in(Proto *main, baton_breakpoint_placed *placed, void *context) {
  struct baton_breakpoint *breakpoint;
  int is_unmarked = 0;
  for (breakpoint = breakpoints; breakpoint != NULL; breakpoint = breakpoint->next) {
    struct lines lines = {breakpoint->line, MAX_INT, 0};
    int best;
    if (!is_from(main->source, breakpoint->path)) continue;
    if (!is_unmarked) unmark_tree(main);
    is_unmarked = 1;
    find_lines_in_tree(main, &lines);
    best = choose_line(&lines, 1);
    if (best == 0) continue;
    if (breakpoint->placed != best) {
      breakpoint->placed = best;
      placed(context, breakpoint->id, best);
    }
    mark_tree(main, breakpoint);
  }
}

/* }====================================================== */

/* {======================================================
** Setting them
** ======================================================= */

static char *copy(const char *text) { return text != NULL ? strdup(text) : NULL; }

static void free_breakpoint(struct baton_breakpoint *breakpoint) {
  free(breakpoint->path);
  free(breakpoint->condition);
  free(breakpoint->log);
  free(breakpoint);
}

void baton_debugger_begin_use(struct baton_breakpoint *breakpoint) { breakpoint->uses++; }

int baton_debugger_end_use(struct baton_breakpoint *breakpoint) {
  const int is_removed = breakpoint->is_removed;
  if (--breakpoint->uses == 0 && is_removed) free_breakpoint(breakpoint);
  return is_removed;
}

/* Removes those of a file; NULL: of all. */
static void remove_from(const char *path) {
  struct baton_breakpoint **link = &breakpoints, *breakpoint;
  while ((breakpoint = *link) != NULL) {
    if (path == NULL || strcmp(breakpoint->path, path) == 0) {
      *link = breakpoint->next;
      remove_entries_of(breakpoint);
      breakpoint->is_removed = 1;
      if (breakpoint->uses == 0) free_breakpoint(breakpoint);
    } else {
      link = &breakpoint->next;
    }
  }
}

void baton_debugger_remove_breakpoints(void) { remove_from(NULL); }

static struct baton_breakpoint *new_breakpoint(
    const char *path, const struct baton_breakpoint_wish *wish) {
  struct baton_breakpoint *breakpoint = calloc(1, sizeof *breakpoint);
  if (breakpoint == NULL) return NULL;
  breakpoint->path = copy(path);
  if (breakpoint->path == NULL) {
    free(breakpoint);
    return NULL;
  }
  breakpoint->id = wish->id;
  breakpoint->line = wish->line;
  breakpoint->condition = copy(wish->condition);
  breakpoint->log = copy(wish->log);
  breakpoint->comparison = wish->comparison;
  breakpoint->hits_wanted = wish->hits;
  return breakpoint;
}

int baton_debugger_set_breakpoints(const char *path, const struct baton_breakpoint_wish *wishes,
    size_t count, baton_breakpoint_placed *placed, void *context) {
  const struct baton_lua_vm *vm = baton_debugger_vm();
  struct baton_breakpoint *breakpoint;
  size_t i;
  if (vm->chunks_loading > 0) return 0;
  remove_from(path);
  for (i = 0; i < count; i++) {
    breakpoint = new_breakpoint(path, &wishes[i]);
    if (breakpoint == NULL) continue;
    breakpoint->next = breakpoints;
    breakpoints = breakpoint;
  }
  if (vm->global != NULL) place_everywhere(path);
  for (breakpoint = breakpoints; breakpoint != NULL; breakpoint = breakpoint->next)
    if (strcmp(breakpoint->path, path) == 0) placed(context, breakpoint->id, breakpoint->placed);
  if (breakpoints != NULL)
    baton_debugger_trace_states();
  else if (baton_debugger_traces == BATON_TRACES_BREAKPOINTS)
    baton_debugger_traces = BATON_TRACES_NOTHING;
  return 1;
}

/* }====================================================== */
