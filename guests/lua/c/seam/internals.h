/*
** The seam's face for files that must look inside Lua: Lua's private headers, and what is told in
** their words. Apart from guest.h, so that the others see no more than Lua's API.
*/
#ifndef BATON_INTERNALS_H
#define BATON_INTERNALS_H

#define LUA_CORE
#include "lprefix.h"

#include "lua.h"

#include "lapi.h"
#include "ldebug.h"
#include "ldo.h"
#include "lgc.h"
#include "lobject.h"
#include "lopcodes.h"
#include "lstate.h"
#include "ltable.h"

#include "seam/guest.h"

#include <setjmp.h>

/* The running process, if `L` is of its VM. */
static inline struct baton_process *baton_lua_running(lua_State *L) {
  struct baton_process *process = baton_gate_process();
  return luai_likely(process != NULL && process->global == G(L)) ? process : NULL;
}

/* A piece of the collector's work, which may be given up (collector.c); on the C stack. */
struct baton_collection {
  jmp_buf give_up;
  struct baton_collection *previous;
  lu_byte allows_hooks;
};

/*
** `status` of the state of a process that has ended. To Lua's library it is a coroutine that ended
** by an error: dead. What is on its stack are the results, for whoever joins the process.
*/
#define BATON_STATUS_ENDED 64

/* collector.c. Inside the VM: whether the daemon that calls finalizers has work; and what calls a
   finalizer. */
int baton_lua_is_finalizing(const struct baton_vm *vm);
LUAI_FUNC int baton_finalizer_pcall(
    lua_State *L, Pfunc func, void *u, ptrdiff_t oldtop, ptrdiff_t ef);

/* Lua's own collector, renamed (collector.c). */
LUAI_FUNC void baton_stock_gc_step(lua_State *L);
LUAI_FUNC void baton_stock_changemode(lua_State *L, int mode);

/* collector.c. All inside the VM. */
/* Whether the collector's next step is a part of a major collection in steps. */
int baton_lua_major_is_due(const struct baton_process *process, const global_State *g);
void baton_lua_major_step(lua_State *L, int unused);
/* Before a finalizer is called in the middle of a step: if it waits, others find the mode that was
   set. */
void baton_lua_keep_generational(const struct baton_vm *vm, global_State *g);

/* A coroutine has yielded or ended: what was asked of it is asked of its resumer (wrapped.c).
   Inside the VM. */
void baton_lua_resume_ends(lua_State *L, struct baton_process *process);

/* The C function of a frame; NULL: it is Lua's. */
static inline lua_CFunction baton_lua_function_of(const CallInfo *ci) {
  const TValue *function = s2v(ci->func.p);
  switch (ttypetag(function)) {
    case LUA_VLCF: return fvalue(function);
    case LUA_VCCL: return clCvalue(function)->f;
    default: return NULL;
  }
}

/* frames.c: whether functions of other modules lie in the executable. Atomic. */
extern __attribute__((visibility("hidden"))) int baton_functions_are_linked;

/* The code of the executable. */
extern char __executable_start[];
extern char etext[];

static inline int baton_lua_is_in_executable(lua_CFunction function) {
  const char *address = (const char *)function;
  return address >= __executable_start && address < etext;
}

/* Whether the function is Lua's, the guest's or the command line's. */
static inline int baton_lua_is_ours(lua_CFunction function) {
  if (!baton_lua_is_in_executable(function)) return 0;
  /* Relaxed: see add_note in frames.c. */
  return luai_likely(!__atomic_load_n(&baton_functions_are_linked, __ATOMIC_RELAXED)) ||
      !baton_lua_is_linked(function);
}

/* The state on which the process's code runs now. */
static inline lua_State *baton_lua_innermost(const struct baton_process *process) {
  return process->resumed != NULL ? process->resumed->L : process->L;
}

#endif
