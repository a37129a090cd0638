/*
** Wrapped functions of Lua (see seam.h): calls on other states, API functions that do not lock,
** methods of userdata, and loading libraries.
*/
#include "seam/internals.h"
#include "system.h"

#include "lstring.h"
#include "lvm.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The renamed originals. */
LUA_API void baton_stock_callk(
    lua_State *L, int nargs, int nresults, lua_KContext ctx, lua_KFunction k);
LUA_API int baton_stock_pcallk(
    lua_State *L, int nargs, int nresults, int errfunc, lua_KContext ctx, lua_KFunction k);
LUA_API lua_Unsigned baton_stock_rawlen(lua_State *L, int idx);
LUA_API size_t baton_stock_stringtonumber(lua_State *L, const char *s);
LUA_API void baton_stock_upvaluejoin(lua_State *L, int fidx1, int n1, int fidx2, int n2);
LUA_API int baton_stock_closethread(lua_State *L, lua_State *from);
LUA_API int baton_stock_gc(lua_State *L, int what, ...);
LUA_API int baton_stock_pushthread(lua_State *L);
LUA_API void baton_stock_sethook(lua_State *L, lua_Hook func, int mask, int count);
LUA_API void baton_stock_setwarnf(lua_State *L, lua_WarnFunction f, void *ud);

/* {======================================================
** Wrapped functions of Lua
** ======================================================= */

/*
** The errors of ldo.c. To Lua, only the main state is not a coroutine. Here the base of every
** process is not a coroutine, either, so a yield there has the same message. Stock Lua gives that
** message for a yield across a C call, too.
*/
LUAI_FUNC l_noret baton_do_runerror(lua_State *L, const char *format, ...) {
  const struct baton_process *process = baton_lua_running(L);
  char text[160];
  va_list list;
  if (process != NULL && L == process->L &&
      strcmp(format, "attempt to yield across a C-call boundary") == 0)
    format = "attempt to yield from outside a coroutine";
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  luaG_runerror(L, "%s", text);
}

/* A thread that the program may know is not given to another process. */
LUA_API int lua_pushthread(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL && process->L == L) process->shows_thread = 1;
  return baton_stock_pushthread(L);
}

/* The renamed original. */
LUAI_FUNC l_noret baton_stock_errormsg(lua_State *L);

/*
** Shows an error to a debugger before the message handler runs. A module may raise an error on a
** state that it has stored, outside of any call there. The handlers of that state are another
** process's, the message handler, too.
*/
LUAI_FUNC l_noret luaG_errormsg(lua_State *L) {
  const struct baton_debugger_hooks *debugger = baton_lua_debugger();
  struct baton_process *process = baton_lua_running(L);
  if (l_likely(L->errorJmp != NULL)) L = baton_lua_state_to_raise_on(process, L);
  if (l_unlikely(debugger != NULL) && process != NULL && !process->in_debugger)
    debugger->raises(L, process);
  baton_stock_errormsg(L);
}

/* Replaces luaD_protectedparser in lapi.c. */
LUAI_FUNC int baton_load_chunk(lua_State *L, ZIO *stream, const char *name, const char *mode) {
  const struct baton_debugger_hooks *debugger;
  struct baton_process *process = baton_lua_running(L);
  int status;
  if (l_likely(process != NULL)) process->vm->chunks_loading++;
  status = luaD_protectedparser(L, stream, name, mode);
  if (l_likely(process != NULL)) process->vm->chunks_loading--;
  debugger = baton_lua_debugger();
  if (l_unlikely(debugger != NULL) && status == LUA_OK) debugger->loaded(L);
  return status;
}

/* Called when a coroutine with a request has yielded or ended. Inside the VM. */
void baton_lua_resume_ends(lua_State *L, struct baton_process *process) {
  if (L->hookmask & BATON_HOOK_BIT && !baton_simulated) { /* passes it on to its resumer */
    L->hookmask &= ~BATON_HOOK_BIT;
    baton_lua_arm(baton_lua_innermost(process));
  }
  /* After an error, a coroutine's variables are not closed by themselves. After a kill they must
     be. */
  if (process->killed && L->status > LUA_YIELD) luaE_resetthread(L, L->status);
}

/* Notes that code runs on the state as a part of the process, until `drop_resumed`. Both inside the
   VM. */
static void note_resumed(
    struct baton_process *process, lua_State *L, struct baton_resumed *record) {
  record->process = process;
  record->L = L;
  record->previous = process->resumed;
  baton_signal_fence();
  process->resumed = record;
}

static void drop_resumed(struct baton_process *process, const struct baton_resumed *record) {
  process->resumed = record->previous;
  baton_signal_fence();
}

/*
** Closing a coroutine runs its __close methods on the coroutine's state, though no process resumes
** it. The state is noted as if it was resumed. So the methods can wait, be preempted and be killed.
*/
LUAI_FUNC int baton_close_protected(lua_State *L, ptrdiff_t level, int status) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_resumed record;
  if (process == NULL || L == baton_lua_innermost(process))
    return luaD_closeprotected(L, level, status);
  note_resumed(process, L, &record);
  status = luaD_closeprotected(L, level, status);
  drop_resumed(process, &record);
  if (l_unlikely(L->hookmask & BATON_HOOK_BIT)) baton_lua_resume_ends(L, process);
  return status;
}

/* Whether `L` is a state of the running process, or no process runs on it. */
static int belongs(struct baton_process *process, lua_State *L) {
  struct baton_resumed *resumed;
  if (L == process->L || L->ci == &L->base_ci) return 1;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (resumed->L == L) return 1;
  return 0;
}

/*
** A call on another state than the one that the process's code runs on, which a module has stored.
** The call is a part of the calling process, as if the process had resumed the state. So calls in
** it belong to that state, and so do their errors. The process can be preempted and killed in it.
**
** If the state has another process's frames, it is a *foreign* state. While our frames lie above
** those, the calling process cannot be switched. A suspended coroutine belongs to no other process:
** cqueues calls on it to find what it waits for.
*/
struct call_on_other_state {
  struct baton_resumed record;
  struct baton_mark mark;
  int is_foreign;
};

static void begin_on_other_state(
    struct call_on_other_state *call, struct baton_process *process, lua_State *L) {
  call->is_foreign = !belongs(process, L);
  if (call->is_foreign) {
    if (L->status != LUA_YIELD) baton_seam_hooks.warn_of_foreign_state(process);
    baton_lua_begin_hold(process, &call->mark, BATON_MARK_FOREIGN_STATE);
  }
  baton_lua_enter(L);
  note_resumed(process, L, &call->record);
  baton_lua_leave(L);
}

/* A preempt request is passed on, and stays on the state: it may be one to the other process. */
static void end_on_other_state(
    struct call_on_other_state *call, struct baton_process *process, lua_State *L) {
  baton_lua_enter(L);
  drop_resumed(process, &call->record);
  if (L->hookmask & BATON_HOOK_BIT && !baton_simulated)
    baton_lua_arm(baton_lua_innermost(process));
  baton_lua_leave(L);
  if (call->is_foreign) baton_lua_end_hold(process);
}

/* The outermost call on a foreign state raises its error on the state of its caller: the handlers
   below it, on the foreign state, are the other process's. */
static l_noret raise_from_foreign_state(struct baton_process *process, lua_State *L, int status) {
  lua_State *own = baton_lua_innermost(process);
  lua_xmove(L, own, 1);
  lua_lock(own);
  /* its message handler has not seen the error; a kill passes over message handlers */
  if (status == LUA_ERRRUN && !baton_lua_kill_is_due(process)) baton_stock_errormsg(own);
  luaD_throw(own, status);
}

static __attribute__((noinline)) void call_on_other_state(
    struct baton_process *process, lua_State *L, int nargs, int nresults) {
  struct call_on_other_state call;
  int status = LUA_OK;
  begin_on_other_state(&call, process, L);
  if (call.is_foreign)
    status = baton_stock_pcallk(L, nargs, nresults, 0, 0, NULL);
  else
    baton_stock_callk(L, nargs, nresults, 0, NULL);
  end_on_other_state(&call, process, L);
  if (status != LUA_OK) raise_from_foreign_state(process, L, status);
}

static __attribute__((noinline)) int pcall_on_other_state(
    struct baton_process *process, lua_State *L, int nargs, int nresults, int errfunc) {
  struct call_on_other_state call;
  int status;
  begin_on_other_state(&call, process, L);
  status = baton_stock_pcallk(L, nargs, nresults, errfunc, 0, NULL);
  end_on_other_state(&call, process, L);
  return status;
}

LUA_API void lua_callk(lua_State *L, int nargs, int nresults, lua_KContext ctx, lua_KFunction k) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL && l_unlikely(L != baton_lua_innermost(process)))
    call_on_other_state(process, L, nargs, nresults);
  else
    baton_stock_callk(L, nargs, nresults, ctx, k);
}

LUA_API int lua_pcallk(
    lua_State *L, int nargs, int nresults, int errfunc, lua_KContext ctx, lua_KFunction k) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL && l_unlikely(L != baton_lua_innermost(process)))
    return pcall_on_other_state(process, L, nargs, nresults, errfunc);
  return baton_stock_pcallk(L, nargs, nresults, errfunc, ctx, k);
}

/* These three do not lock in stock Lua, but write a table's size hint, a stack slot, an upvalue. */
LUA_API lua_Unsigned lua_rawlen(lua_State *L, int idx) {
  lua_Unsigned length;
  lua_lock(L);
  length = baton_stock_rawlen(L, idx);
  lua_unlock(L);
  return length;
}

LUA_API size_t lua_stringtonumber(lua_State *L, const char *s) {
  size_t size;
  lua_lock(L);
  size = baton_stock_stringtonumber(L, s);
  lua_unlock(L);
  return size;
}

LUA_API void lua_upvaluejoin(lua_State *L, int fidx1, int n1, int fidx2, int n2) {
  lua_lock(L);
  baton_stock_upvaluejoin(L, fidx1, n1, fidx2, n2);
  lua_unlock(L);
}

/* A reference to a value in a table, as in lauxlib.c, but in one step. Otherwise two calls that
   overlap could be given the same one. */
#define FREE_REFERENCES (LUA_RIDX_LAST + 1)

static lua_Integer integer_at(Table *table, lua_Integer index) {
  const TValue *value = luaH_getint(table, index);
  return ttisinteger(value) ? ivalue(value) : 0;
}

static void set_integer(lua_State *L, Table *table, lua_Integer index, lua_Integer integer) {
  TValue value;
  setivalue(&value, integer);
  luaH_setint(L, table, index, &value);
}

LUALIB_API int luaL_ref(lua_State *L, int index) {
  Table *table;
  TValue *value;
  lua_Integer reference;
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    return LUA_REFNIL;
  }
  lua_pushvalue(L, index);
  lua_lock(L);
  table = hvalue(s2v(L->top.p - 1));
  value = s2v(L->top.p - 2);
  reference = integer_at(table, FREE_REFERENCES);
  if (reference != 0) {
    set_integer(L, table, FREE_REFERENCES, integer_at(table, reference));
  } else {
    if (isempty(luaH_getint(table, FREE_REFERENCES))) set_integer(L, table, FREE_REFERENCES, 0);
    reference = (lua_Integer)luaH_getn(table) + 1;
  }
  luaH_setint(L, table, reference, value);
  luaC_barrierback(L, obj2gco(table), value);
  L->top.p -= 2;
  lua_unlock(L);
  return (int)reference;
}

LUALIB_API void luaL_unref(lua_State *L, int index, int reference) {
  Table *table;
  if (reference < 0) return;
  lua_pushvalue(L, index);
  lua_lock(L);
  table = hvalue(s2v(L->top.p - 1));
  set_integer(L, table, reference, integer_at(table, FREE_REFERENCES));
  set_integer(L, table, FREE_REFERENCES, reference);
  L->top.p--;
  lua_unlock(L);
}

int baton_connections_are_known;

/* Replaces luaS_newudata in lapi.c. What a call about a database connection makes has one more user
   value than the program sees: the connection's address. */
LUAI_FUNC Udata *baton_lua_new_udata(lua_State *L, size_t size, int values) {
  void *connection;
  Udata *userdata;
  /* Relaxed: the module's first call sees what its loading wrote. */
  if (l_likely(!__atomic_load_n(&baton_connections_are_known, __ATOMIC_RELAXED)) ||
      (connection = baton_seam_hooks.connection_of_new(L)) == NULL)
    return luaS_newudata(L, size, values);
  userdata = luaS_newudata(L, size, values + 1);
  setpvalue(&userdata->uv[values].uv, connection);
  return userdata;
}

/* A full collection that freed this much returns memory to the system. */
#define TRIM_FROM 2048 /* KiB */

/* Called after a collection that the program requested. */
static void await_finalizers(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (process != NULL && baton_lua_is_finalizing(process->vm))
    baton_seam_hooks.await_finalizers(L, process);
}

LUA_API int lua_gc(lua_State *L, int what, ...) {
  va_list list;
  int first, second, third, before, result;
  va_start(list, what);
  switch (what) {
    case LUA_GCCOLLECT:
      before = baton_stock_gc(L, LUA_GCCOUNT);
      result = baton_stock_gc(L, what);
      await_finalizers(L);
      if (before - baton_stock_gc(L, LUA_GCCOUNT) > TRIM_FROM) baton_trim_memory();
      break;
    case LUA_GCINC:
      first = va_arg(list, int);
      second = va_arg(list, int);
      third = va_arg(list, int);
      result = baton_stock_gc(L, what, first, second, third);
      break;
    case LUA_GCGEN:
      first = va_arg(list, int);
      second = va_arg(list, int);
      result = baton_stock_gc(L, what, first, second);
      break;
    case LUA_GCSTEP:
      first = va_arg(list, int);
      baton_lua_make_next_step(L);
      result = baton_stock_gc(L, what, first);
      break;
    case LUA_GCSETPAUSE: case LUA_GCSETSTEPMUL:
      first = va_arg(list, int);
      result = baton_stock_gc(L, what, first);
      break;
    default: result = baton_stock_gc(L, what); break;
  }
  va_end(list);
  return result;
}

/* Never unlocks in stock Lua. A module may close its own state on our thread. */
LUA_API void lua_close(lua_State *L) {
  if (l_unlikely(baton_seam_hooks.host_closes != NULL) && baton_seam_hooks.host_closes(L)) return;
  baton_stock_close(L);
  lua_unlock(L);
}

/* An ended process has nothing left to close, and its results must stay. */
LUA_API int lua_closethread(lua_State *L, lua_State *from) {
  return L->status == BATON_STATUS_ENDED ? LUA_OK : baton_stock_closethread(L, from);
}

LUA_API int lua_resetthread(lua_State *L) { return lua_closethread(L, NULL); }

/* A simulated run counts every instruction, whatever hooks there are. A debugger traces on. Modules
   call this in signal handlers. */
LUA_API void lua_sethook(lua_State *L, lua_Hook func, int mask, int count) {
  int traced;
  L = baton_lua_state_to_hook(L, func, mask, count);
  if (L == NULL) return;
  traced = L->hookmask & BATON_DEBUG_BIT;
  baton_stock_sethook(L, func, mask, count);
  L->hookmask |= traced;
  if (baton_simulated) L->hookmask |= BATON_HOOK_BIT;
}

/* If the VM was idle, no process runs on this thread. Then the main process gets the hook. */
void baton_lua_set_wanted_hook(struct baton_lua_vm *vm) {
  const struct baton_process *process = baton_gate_process();
  struct baton_wanted_hook wanted;
  if (!baton_lua_take_wanted_hook(&wanted)) return;
  if (process == NULL) process = vm->main_process;
  if (process != NULL && process->global != NULL)
    lua_sethook(baton_lua_innermost(process), wanted.hook, wanted.mask, wanted.count);
}

/* Warn functions call this while the state is locked. */
LUA_API void lua_setwarnf(lua_State *L, lua_WarnFunction f, void *ud) {
  if ((baton_gate_here()->gate & 1) == 0) {
    G(L)->ud_warn = ud;
    G(L)->warnf = f;
  } else {
    baton_stock_setwarnf(L, f, ud);
  }
}

/* }====================================================== */

/* {======================================================
** Loading libraries
** ======================================================= */

/*
** A library's constructors may take long, and meanwhile the system's loader is locked. A native
** thread that starts then waits for that lock. So a thread is started first and makes the call, and
** the VM stays where it is.
*/
void baton_lua_offload_load(void) {
  struct baton_process *process = baton_gate_process();
  lua_State *L;
  if (process == NULL || process->vm->closing || baton_simulated || process->vm->living == 0 ||
      process->foreign_states > 0)
    return;
  if (baton_lua_has_foreign_frames(process)) return;
  L = baton_lua_innermost(process);
  baton_lua_enter(L);
  if (baton_lua_offload(process) != BATON_OFFLOADED) baton_lua_leave(L);
}

/* Written before a module's code can run, and never cleared. Relaxed: the process that loads the
   module sees its own store, and others see it when they enter the VM after that process. */
static int modules_keep_threads;

int baton_lua_modules_keep_threads(void) {
  return __atomic_load_n(&modules_keep_threads, __ATOMIC_RELAXED) != 0 ||
      __atomic_load_n(&baton_functions_are_linked, __ATOMIC_RELAXED) != 0;
}

/* Replaces dlopen in loadlib.c. */
void *baton_lua_dlopen(const char *path, int flags);
void *baton_lua_dlopen(const char *path, int flags) {
  void *library;
  if (baton_seam_hooks.keeps_no_threads == NULL || !baton_seam_hooks.keeps_no_threads(path))
    __atomic_store_n(&modules_keep_threads, 1, __ATOMIC_RELAXED);
  baton_lua_offload_load();
  library = dlopen(path, flags);
  if (library != NULL) baton_lua_note_exception_globals();
  return library;
}

/* }====================================================== */

/* {======================================================
** Methods of userdata, found without Lua's general search. The interpreter's loop calls
** baton_lua_finishget where it calls luaV_finishget in stock Lua.
** ======================================================= */

/* As luaH_getshortstr, but NULL for a key that is not there. */
static inline const TValue *find(const Table *table, const TString *key) {
  const Node *node = gnode(table, lmod(key->hash, sizenode(table)));
  for (;;) {
    if (keyisshrstr(node) && eqshrstr(keystrval(node), key)) return gval(node);
    if (gnext(node) == 0) return NULL;
    node += gnext(node);
  }
}

lua_CFunction baton_lua_index_of_methods;

/* The methods of a userdata with this metatable, or NULL. */
static inline const Table *methods_of(const lua_State *L, const Table *metatable) {
  const TValue *index = find(metatable, G(L)->tmname[TM_INDEX]);
  if (l_unlikely(index == NULL)) return NULL;
  if (ttistable(index)) return hvalue(index);
  if (ttisCclosure(index) && clCvalue(index)->f == baton_lua_index_of_methods)
    return hvalue(&clCvalue(index)->upvalue[0]);
  return NULL;
}

struct baton_index_sealed baton_lua_index_sealed;

/* Whether a userdata is read without a call. */
static inline int is_read_at_once(const Udata *userdata) {
  const void *seal = baton_lua_index_sealed.seal;
  const void *memory = getudatamem(userdata);
  return seal != NULL && userdata->len >= sizeof seal && *(const void *const *)memory == seal;
}

/* A field of a frozen value. A function of its own, so that methods are found without saving
   registers. */
static __attribute__((noinline)) void finishget_frozen(
    lua_State *L, const TValue *object, TValue *key, StkId value, const TValue *slot) {
  if (!baton_lua_index_sealed.get(L, uvalue(object), key, s2v(value)))
    luaV_finishget(L, object, key, value, slot);
}

/* Finds a method of a userdata, or a field of a frozen value. In all other cases, the general
   search decides. */
LUAI_FUNC void baton_lua_finishget(
    lua_State *L, const TValue *object, TValue *key, StkId value, const TValue *slot) {
  if (ttisfulluserdata(object)) {
    const Udata *userdata = uvalue(object);
    if (l_unlikely(is_read_at_once(userdata))) {
      finishget_frozen(L, object, key, value, slot);
      return;
    }
    if (ttisshrstring(key) && userdata->metatable != NULL) {
      const Table *methods = methods_of(L, userdata->metatable);
      const TValue *found = methods != NULL ? find(methods, tsvalue(key)) : NULL;
      if (l_likely(found != NULL && !isempty(found))) {
        setobj2s(L, value, found);
        return;
      }
    }
  }
  luaV_finishget(L, object, key, value, slot);
}

/* The length of a frozen value. In all other cases, stock Lua decides. */
LUAI_FUNC void baton_lua_objlen(lua_State *L, StkId value, const TValue *object) {
  if (ttisfulluserdata(object) && is_read_at_once(uvalue(object)) &&
      baton_lua_index_sealed.length(uvalue(object), s2v(value)))
    return;
  luaV_objlen(L, value, object);
}

/* }====================================================== */

/* {======================================================
** Tables that the interpreter's loop makes. It has not saved its instruction, `pc`.
** ======================================================= */

LUAI_FUNC Table *baton_lua_new_table(lua_State *L, const Instruction *pc) {
  L->ci->u.l.savedpc = pc;
  return luaH_new(L);
}

LUAI_FUNC void baton_lua_resize_array(
    lua_State *L, const Instruction *pc, Table *table, unsigned int size) {
  L->ci->u.l.savedpc = pc;
  luaH_resizearray(L, table, size);
}

/* }====================================================== */
