/*
** Functions and their frames: which functions are the guest's own, the function that runs, foreign
** frames on a process's stack, and how frames are armed for a safepoint.
*/
#include "seam/internals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Installed by the folders above. */
struct baton_seam_hooks baton_seam_hooks;
const struct baton_debugger_hooks *baton_debugger;
int baton_debugger_traces;

/* {======================================================
** Functions
** ======================================================= */

/*
** Which functions are ours. A module may be linked into the executable, as Lua and the guest are.
** So the address of a function does not decide that.
**
** Our own C files push functions with Lua's lua_pushcclosure, which seam.h renames. All other code
** calls the functions below. They note each function of the executable that other code pushes.
** Functions without a note are ours.
**
** Other code may also push a function of ours that it got from lua_tocfunction. So lua_tocfunction
** notes a function of ours before it returns it.
**
** A note has the function that pushed the noted one. A chain of notes leads to the function that
** opened the module.
*/
struct note {
  struct note *next; /* in its bucket; written before the note is in the bucket */
  lua_CFunction function;
  lua_CFunction pushed_by; /* a linked function, or NULL; atomic */
  int is_ours;
};

/* Heads of lists, by function. Any thread adds notes, at the head, and none is ever removed. */
static struct note *notes[256];

int baton_functions_are_linked;

static struct note **bucket_of(lua_CFunction function) {
  const uint64_t hash = (uint64_t)(uintptr_t)function * UINT64_C(0x9E3779B97F4A7C15);
  return &notes[hash >> 56];
}

static struct note *find_in(struct note *note, lua_CFunction function) {
  while (note != NULL && note->function != function) note = note->next;
  return note;
}

static struct note *find_note(lua_CFunction function) {
  /* Acquire: pairs with the exchange in `add_note`. */
  return find_in(__atomic_load_n(bucket_of(function), __ATOMIC_ACQUIRE), function);
}

/* Returns the function's note, which may be an older one; NULL: out of memory. */
static struct note *add_note(lua_CFunction function, lua_CFunction pushed_by, int is_ours) {
  struct note **bucket = bucket_of(function), *found, *note = malloc(sizeof *note);
  if (note == NULL) return NULL;
  note->function = function;
  note->pushed_by = pushed_by;
  note->is_ours = is_ours;
  /* Relaxed: the exchange below publishes it, and Lua has the function only after that. */
  if (!is_ours) __atomic_store_n(&baton_functions_are_linked, 1, __ATOMIC_RELAXED);
  /* Acquire: as in `find_note`. */
  note->next = __atomic_load_n(bucket, __ATOMIC_ACQUIRE);
  do {
    if ((found = find_in(note->next, function)) != NULL) {
      free(note);
      return found;
    }
    /* Release: pairs with the loads in `find_note` and here. */
  } while (!__atomic_compare_exchange_n(
      bucket, &note->next, note, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
  return note;
}

int baton_lua_is_linked(lua_CFunction function) {
  const struct note *note = find_note(function);
  return note != NULL && !note->is_ours;
}

lua_CFunction baton_lua_pusher_of(lua_CFunction function) {
  const struct note *note = find_note(function);
  /* Relaxed: it only leads to another note. */
  return note != NULL ? __atomic_load_n(&note->pushed_by, __ATOMIC_RELAXED) : NULL;
}

void baton_lua_note_opener(lua_CFunction function) {
  struct note *note = find_note(function);
  /* Relaxed: as above. */
  if (note != NULL) __atomic_store_n(&note->pushed_by, NULL, __ATOMIC_RELAXED);
}

/* Code that is not ours pushes the function. */
static void note_pushed(lua_State *L, lua_CFunction function) {
  lua_CFunction pusher;
  if (!baton_lua_is_in_executable(function) || find_note(function) != NULL) return;
  pusher = baton_lua_running_function(L);
  if (pusher != NULL && !baton_lua_is_linked(pusher)) pusher = NULL;
  if (add_note(function, pusher, 0) == NULL) {
    baton_lua_enter(L);
    luaD_throw(L, LUA_ERRMEM);
  }
}

const struct baton_own_code *baton_own_code;

int baton_lua_add_own_code(const char *low, const char *high) {
  struct baton_own_code *code = malloc(sizeof *code);
  if (code == NULL) return 0;
  code->low = low;
  code->high = high;
  /* Relaxed (also if another VM was faster): only the pointer is compared. */
  code->next = __atomic_load_n(&baton_own_code, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&baton_own_code, &code->next,
      (const struct baton_own_code *)code, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
  return 1;
}

#undef lua_pushcclosure
#undef lua_tocfunction
#undef luaL_setfuncs
#undef luaL_requiref

LUA_API void lua_pushcclosure(lua_State *L, lua_CFunction function, int upvalues) {
  note_pushed(L, function);
  baton_stock_pushcclosure(L, function, upvalues);
}

LUA_API lua_CFunction lua_tocfunction(lua_State *L, int index) {
  const lua_CFunction function = baton_stock_tocfunction(L, index);
  /* Without memory for the note, the function counts as another module's when it is pushed. */
  if (function != NULL && baton_lua_is_in_executable(function) && find_note(function) == NULL)
    add_note(function, NULL, 1);
  return function;
}

LUALIB_API void luaL_setfuncs(lua_State *L, const luaL_Reg *functions, int upvalues) {
  const luaL_Reg *entry;
  for (entry = functions; entry->name != NULL; entry++)
    if (entry->func != NULL) note_pushed(L, entry->func);
  baton_stock_setfuncs(L, functions, upvalues);
}

LUALIB_API void luaL_requiref(lua_State *L, const char *name, lua_CFunction open, int is_global) {
  note_pushed(L, open);
  baton_lua_note_opener(open);
  baton_stock_requiref(L, name, open, is_global);
}

/* Finalizers of the guest: those that neither wait nor call back, and those that give back what is
   outside of all heaps. Any VM adds to them when it opens a module, and none is ever removed. */
#define MOST_NOTED 16
static lua_CFunction quick[MOST_NOTED], giving[MOST_NOTED];

static void note(lua_CFunction *noted, lua_CFunction function) {
  size_t i;
  for (i = 0; i < MOST_NOTED; i++) {
    lua_CFunction found = NULL;
    /* Relaxed (both): the function's address publishes nothing. */
    if (__atomic_compare_exchange_n(
            &noted[i], &found, function, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        found == function)
      return;
  }
}

static int is_noted(const lua_CFunction *noted, lua_CFunction function) {
  size_t i;
  for (i = 0; i < MOST_NOTED; i++) {
    /* Relaxed: as above. */
    const lua_CFunction found = __atomic_load_n(&noted[i], __ATOMIC_RELAXED);
    if (found == function) return 1;
    if (found == NULL) return 0;
  }
  return 0;
}

void baton_lua_note_quick_finalizer(lua_CFunction function) { note(quick, function); }

int baton_lua_never_waits(lua_CFunction function) { return is_noted(quick, function); }

void baton_lua_note_giving_finalizer(lua_CFunction function) { note(giving, function); }

int baton_lua_gives_back(lua_CFunction function) { return is_noted(giving, function); }

/* }====================================================== */

/* {======================================================
** Frames
** ======================================================= */

static int has_foreign_frames(lua_State *L) {
  CallInfo *ci, *walked;
  int found = FRAMES_ALL_OURS;
  for (ci = L->ci; ci != NULL && ci != &L->base_ci; ci = ci->previous) {
    lua_CFunction function;
    if (!(ci->callstatus & FRAMES_WALKED) && !isLua(ci) &&
        (function = baton_lua_function_of(ci)) != NULL && !baton_lua_is_ours(function))
      ci->callstatus |= FRAMES_SOME_FOREIGN;
    if (ci->callstatus & FRAMES_WALKED) {
      found = ci->callstatus & FRAMES_SOME_FOREIGN ? FRAMES_SOME_FOREIGN : FRAMES_ALL_OURS;
      break;
    }
  }
  for (walked = L->ci; walked != ci; walked = walked->previous)
    walked->callstatus |= (unsigned short)found;
  return found == FRAMES_SOME_FOREIGN;
}

/* Inside the VM, as the retake policy writes these bits, too. */
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

/* }====================================================== */

/* {======================================================
** Arming frames for a safepoint
** ======================================================= */

/* Arms every frame of a killed process: the kill may be caught anywhere, and continues from
   there. */
static void arm_all_frames(lua_State *L) {
  CallInfo *ci;
  L->hookmask |= BATON_HOOK_BIT;
  for (ci = L->ci; ci != NULL; ci = ci->previous)
    if (isLua(ci)) ci->u.l.trap = 1;
}

void baton_lua_request_safepoint(struct baton_process *process) {
  struct baton_resumed *resumed;
  arm_all_frames(process->L);
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    arm_all_frames(resumed->L);
}

/* A simulated run counts every instruction. */
void baton_lua_begin_steps(lua_State *L) {
  if (baton_simulated) baton_lua_arm(L);
}

/* }====================================================== */

/* {======================================================
** The running call
** ======================================================= */

lua_CFunction baton_lua_running_function(lua_State *L) {
  return isLua(L->ci) ? NULL : baton_lua_function_of(L->ci);
}

void *baton_lua_object_of_running_call(struct baton_process *process, lua_State *L) {
  const lua_CFunction function = baton_lua_running_function(L);
  return function != NULL ? baton_seam_hooks.object_of_call(process, L, function) : NULL;
}

/* The string key with which a table has the function, or NULL. */
static const char *key_of(const Table *table, lua_CFunction function) {
  int i;
  for (i = 0; i < sizenode(table); i++) {
    Node *node = gnode(table, i);
    const TValue *value = gval(node);
    const int is_it = (ttislcf(value) && fvalue(value) == function) ||
        (ttisCclosure(value) && clCvalue(value)->f == function);
    if (is_it && keyisshrstr(node)) return getstr(keystrval(node));
  }
  return NULL;
}

/* The table in a field of the table, or NULL. */
static const Table *table_in(const Table *table, const char *field) {
  int i;
  for (i = 0; i < sizenode(table); i++) {
    Node *node = gnode(table, i);
    if (ttistable(gval(node)) && keyisshrstr(node) && strcmp(getstr(keystrval(node)), field) == 0)
      return hvalue(gval(node));
  }
  return NULL;
}

/* Writes the name of a field of a loaded module that has the function, as luaL_argerror does, but
   without an allocation. */
static int name_in_modules(lua_State *L, lua_CFunction function, char *text, size_t size) {
  const Table *loaded = table_in(hvalue(&G(L)->l_registry), LUA_LOADED_TABLE);
  int i;
  if (loaded == NULL) return 0;
  for (i = 0; i < sizenode(loaded); i++) {
    Node *node = gnode(loaded, i);
    const char *key;
    if (!ttistable(gval(node)) || !keyisshrstr(node)) continue;
    key = key_of(hvalue(gval(node)), function);
    if (key == NULL) continue;
    snprintf(text, size, "'%s.%s'", getstr(keystrval(node)), key);
    return 1;
  }
  return 0;
}

/* Writes the name of the C function of a frame: that of the call, or else that of a field of a
   loaded module. Without one, says so, and returns 0. At most `size` bytes. */
int baton_lua_name_frame(lua_State *L, CallInfo *ci, char *text, size_t size) {
  const lua_CFunction function = baton_lua_function_of(ci);
  lua_Debug ar;
  memset(&ar, 0, sizeof ar);
  ar.i_ci = ci;
  ar.name = NULL;
  if (lua_getinfo(L, "n", &ar) && ar.name != NULL) {
    snprintf(text, size, "'%s'", ar.name);
    return 1;
  }
  if (function != NULL && name_in_modules(L, function, text, size)) return 1;
  snprintf(text, size, "a C function without a name");
  return 0;
}

int baton_lua_name_function(lua_State *L, char *text, size_t size) {
  return baton_lua_name_frame(L, L->ci, text, size);
}

/* Called before each call of a C function while `baton_calls_watched`. Inside the VM. */
void baton_lua_before_call(lua_State *L, lua_CFunction function) {
  struct baton_process *process;
  if (baton_lua_is_ours(function)) return; /* io/files.c waits for its files */
  process = baton_lua_running(L);
  if (process == NULL) return;
  process->is_before_call = 1;
  baton_seam_hooks.before_foreign_call(L, process, function);
  process->is_before_call = 0;
}

/* Called when it has returned. Inside the VM. */
void baton_lua_after_call(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (process == NULL) return;
  if (process->uses != NULL) baton_lua_call_returns(process, L);
  if (process->turns_taken != NULL) baton_seam_hooks.after_foreign_call(L, process);
}

/* }====================================================== */

/* {======================================================
** Functions that stand in place of a module's own
** ======================================================= */

/*
** Some functions of LuaSocket, cqueues and others are replaced when the module is loaded, and the
** replacements call the originals. Messages and tracebacks are as if the program had called the
** original: the frames between are left out, and the original has the name by which the program
** called the replacement.
**
** A replacement in C is a closure of ours that keeps a function of another module as an upvalue.
** Those in Lua are in one chunk, lua/adapted_modules.lua.
*/

/* The renamed original. */
LUA_API int baton_stock_getinfo(lua_State *L, const char *what, lua_Debug *ar);

static int is_of_a_module(const TValue *value) {
  if (ttislcf(value)) return !baton_lua_is_ours(fvalue(value));
  return ttisCclosure(value) && !baton_lua_is_ours(clCvalue(value)->f);
}

static int stands_in(const CallInfo *ci) {
  const TValue *function = s2v(ci->func.p);
  const CClosure *closure;
  int i;
  if (isLua(ci)) {
    const TString *source = clLvalue(function)->p->source;
    return source != NULL && strcmp(getstr(source), BATON_ADAPTED_MODULES) == 0;
  }
  if (!ttisCclosure(function)) return 0;
  closure = clCvalue(function);
  if (!baton_lua_is_ours(closure->f)) return 0;
  for (i = 0; i < closure->nupvalues; i++)
    if (is_of_a_module(&closure->upvalue[i])) return 1;
  return 0;
}

/* As in ldebug.c, without the frames that stand in. The running function is always seen. */
LUA_API int lua_getstack(lua_State *L, int level, lua_Debug *ar) {
  CallInfo *ci;
  int is_found;
  if (level < 0) return 0;
  lua_lock(L);
  for (ci = L->ci; ci != &L->base_ci; ci = ci->previous)
    if ((ci == L->ci || !stands_in(ci)) && level-- == 0) break;
  is_found = ci != &L->base_ci;
  if (is_found) ar->i_ci = ci;
  lua_unlock(L);
  return is_found;
}

/* The frame that the program called, if the frame `ci` of a C function is that of an original. */
static CallInfo *frame_called(lua_State *L, CallInfo *ci) {
  if (isLua(ci) || ci == &L->base_ci) return ci;
  while (ci->previous != &L->base_ci && stands_in(ci->previous)) ci = ci->previous;
  return ci;
}

LUA_API int lua_getinfo(lua_State *L, const char *what, lua_Debug *ar) {
  const int status = baton_stock_getinfo(L, what, ar);
  lua_Debug called;
  if (*what == '>' || strpbrk(what, "nft") == NULL) return status;
  lua_lock(L);
  called.i_ci = frame_called(L, ar->i_ci);
  if (called.i_ci != ar->i_ci && strchr(what, 'f') != NULL)
    setobjs2s(L, L->top.p - (strchr(what, 'L') != NULL ? 2 : 1), called.i_ci->func.p);
  lua_unlock(L);
  if (called.i_ci == ar->i_ci) return status;
  baton_stock_getinfo(L, "nt", &called);
  if (strchr(what, 'n') != NULL) {
    ar->name = called.name;
    ar->namewhat = called.namewhat;
  }
  if (strchr(what, 't') != NULL) ar->istailcall = called.istailcall;
  return status;
}

/* }====================================================== */
