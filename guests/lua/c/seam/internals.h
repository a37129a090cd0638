/*
** The public header of the seam for files that look inside Lua: Lua's private headers, and what
** needs their types. guest.h shows only Lua's API.
*/
#ifndef BATON_INTERNALS_H
#define BATON_INTERNALS_H

#define LUA_CORE
#include "lprefix.h"

#include "lua.h"

#include "lapi.h"
#include "ldebug.h"
#include "ldo.h"
#include "lfunc.h"
#include "lgc.h"
#include "lobject.h"
#include "lopcodes.h"
#include "lstate.h"
#include "ltable.h"

#include "seam/guest.h"

#include <setjmp.h>

/* The running process, if it belongs to the VM of `L`. */
static inline struct baton_process *baton_lua_running(lua_State *L) {
  struct baton_process *process = baton_gate_process();
  return luai_likely(process != NULL && process->global == G(L)) ? process : NULL;
}

/* Whether the expression that the process evaluates for a debugger is to end, as that was asked, or
   the debugger has gone. Inside the VM. */
static inline int baton_lua_evaluation_ends(const struct baton_process *process) {
  /* Relaxed: nothing else is read by it, and the process looks again at each safepoint. */
  return luai_unlikely(process->evaluates) &&
      (__atomic_load_n(&process->evaluation_ends, __ATOMIC_RELAXED) ||
          baton_lua_debugger() == NULL);
}

/* A piece of the collector's work that may be abandoned (collector.c); on the C stack. */
struct baton_collection {
  jmp_buf give_up;
  struct baton_collection *previous;
  uint64_t began;                  /* if `weight` is not 0 */
  volatile uint64_t in_finalizers; /* nanoseconds; written after _setjmp */
  unsigned weight;                 /* for how many pieces its time stands; 0: it is not timed */
  lu_byte allows_hooks;
};

/*
** `status` of the state of an ended process. To Lua's library it is a dead coroutine that ended by
** an error. Its stack holds the results for the processes that join it.
*/
#define BATON_STATUS_ENDED 64

/*
** A bit of a function's prototype: a debugger has a breakpoint in it. Lua uses the bit only of
** objects with finalizers, clears it in new objects, and keeps it in a collection.
*/
#define BATON_PROTO_HAS_BREAKPOINT bitmask(FINALIZEDBIT)

/* collector.c. Whether the daemon that calls finalizers has work (inside the VM), and the function
   that calls a finalizer. */
int baton_lua_is_finalizing(const struct baton_lua_vm *vm);
LUAI_FUNC int baton_finalizer_pcall(
    lua_State *L, Pfunc func, void *u, ptrdiff_t oldtop, ptrdiff_t ef);

/* marks.c. The state on which to raise the error on the top of `L`. That is `L`, or, if its handler
   is on another C stack, the state with the innermost handler on the process's own. Moves the error
   there. `process` is the running one, or NULL. Inside the VM. */
lua_State *baton_lua_state_to_raise_on(struct baton_process *process, lua_State *L);

/* Lua's own collector, renamed (collector.c). */
LUAI_FUNC void baton_stock_gc_step(lua_State *L);
LUAI_FUNC void baton_stock_changemode(lua_State *L, int mode);

/* collector.c. All inside the VM. */
/* Whether the collector's next step is a part of a major collection in steps. */
int baton_lua_major_is_due(const struct baton_process *process, const global_State *g);
void baton_lua_major_step(lua_State *L, int unused);
/* Called before a step that the program asks for: the step is not put off. Outside the VM. */
void baton_lua_make_next_step(lua_State *L);
/* Called before a finalizer in the middle of a step. If the finalizer waits, other processes find
   the mode that was set. */
void baton_lua_keep_generational(const struct baton_lua_vm *vm, global_State *g);

/* Lua's own end of a state, renamed (wrapped.c). Stays inside. */
LUA_API void baton_stock_close(lua_State *L);

/* Called when a coroutine has yielded or ended (wrapped.c): passes a preempt request on to its
   resumer. Inside the VM. */
void baton_lua_resume_ends(lua_State *L, struct baton_process *process);

/* A bit of the `callstatus` of a state's base that Lua does not use. The state is permanent: a
   module in C was opened on it, and it is never collected. */
#define BATON_BASE_IS_PERMANENT (1 << 15)

/* The C function of a frame, or NULL for a Lua function. */
static inline lua_CFunction baton_lua_function_of(const CallInfo *ci) {
  const TValue *function = s2v(ci->func.p);
  switch (ttypetag(function)) {
    case LUA_VLCF: return fvalue(function);
    case LUA_VCCL: return clCvalue(function)->f;
    default: return NULL;
  }
}

/* The chunk with the replacements that are written in Lua (frames.c, modules/adapted.c). */
#define BATON_ADAPTED_MODULES "=adapted_modules"

/* frames.c: whether functions of other modules lie in the executable. Atomic. */
extern __attribute__((visibility("hidden"))) int baton_functions_are_linked;

/* The code of the executable, or of the shared library that has Lua. */
extern __attribute__((visibility("hidden"))) char __ehdr_start[];
extern __attribute__((visibility("hidden"))) char etext[];

static inline int baton_lua_is_in_executable(lua_CFunction function) {
  const char *address = (const char *)function;
  return address >= __ehdr_start && address < etext;
}

/*
** The code of a module of Baton's own that is a file (program/own_modules.c). The list grows at its
** head. Nothing is removed, as these modules are never unloaded. Two VMs that load a module at the
** same time may both add it.
**
** | operation | ordering | why |
** |---|---|---|
** | baton_lua_is_in_own_code | acquire | pairs with the release of baton_lua_add_own_code |
** | baton_lua_add_own_code | release | pairs with the acquire of baton_lua_is_in_own_code |
*/
struct baton_own_code {
  const struct baton_own_code *next;
  const char *low, *high;
};
extern __attribute__((visibility("hidden"))) const struct baton_own_code *baton_own_code;

static inline int baton_lua_is_in_own_code(const void *address) {
  const struct baton_own_code *code = __atomic_load_n(&baton_own_code, __ATOMIC_ACQUIRE);
  const char *at = address;
  while (code != NULL && (at < code->low || at >= code->high)) code = code->next;
  return code != NULL;
}

/* frames.c. Returns 0 without memory. */
int baton_lua_add_own_code(const char *low, const char *high);

/*
** What a walk found in a frame and below it, kept in two bits of its `callstatus` that Lua does not
** use. Lua resets them for each call, and nothing below a frame changes while it exists. So each
** frame is examined once, however deep the stack is at each switch.
*/
#define FRAMES_ALL_OURS (1 << 14)
#define FRAMES_SOME_FOREIGN (1 << 15)
#define FRAMES_WALKED (FRAMES_ALL_OURS | FRAMES_SOME_FOREIGN)
/* Some are foreign, and what their calls use is in use (objects_in_use.c). */
#define FRAMES_FOUND FRAMES_WALKED
_Static_assert(CIST_LEQ < FRAMES_ALL_OURS && sizeof(((CallInfo *)0)->callstatus) == 2,
    "the two bits are free");

/* Whether the function is Lua's, the guest's, the command line's, or of a module of Baton's own. */
static inline int baton_lua_is_ours(lua_CFunction function) {
  if (!baton_lua_is_in_executable(function))
    return baton_lua_is_in_own_code((const void *)(size_t)function);
  /* Relaxed: see add_note in frames.c. */
  return luai_likely(!__atomic_load_n(&baton_functions_are_linked, __ATOMIC_RELAXED)) ||
      !baton_lua_is_linked(function);
}

/* The state on which the process's code runs now. */
static inline lua_State *baton_lua_innermost(const struct baton_process *process) {
  return process->resumed != NULL ? process->resumed->L : process->L;
}

#endif
