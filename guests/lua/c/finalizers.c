/*
** Finalizers, which may wait here, and the collector that calls them (see seam.h).
*/
#include "internals.h"
#include "guest.h"

#include <setjmp.h>

/* The renamed originals. */
LUAI_FUNC void baton_stock_gc_step(lua_State *L);
LUAI_FUNC void baton_stock_fullgc(lua_State *L, int is_emergency);
LUAI_FUNC void baton_stock_changemode(lua_State *L, int mode);
LUAI_FUNC int baton_finalizer_pcall(lua_State *L, Pfunc func, void *u, ptrdiff_t oldtop, ptrdiff_t ef);
LUAI_FUNC int baton_room_for_finalizers(lua_State *L);

/*
** A finalizer may wait, and meanwhile others collect. The collector's functions do not expect to find the heap in another phase, or in another
** mode, when a finalizer returns to them: one that goes on with a cycle in a heap which another one has made generational frees what is in use. So
** the work in whose middle a finalizer was called is given up if the collector was called since; what is left of it is for the next collection. See
** docs/adr/0020.
*/
struct baton_collection {
  jmp_buf give_up;
  struct baton_collection *previous;
  lu_byte allows_hooks;
};

/* The C stack is about to be cut back to `where`. */
void baton_lua_leave_collections(struct baton_process *process, const void *where) {
  while (process->collection != NULL && (const char *)process->collection < (const char *)where)
    process->collection = process->collection->previous;
}

/* Whether the collector came to the end of what it does. */
static int collect(lua_State *L, void (*work)(lua_State *L, int argument), int argument) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_collection collection;
  int is_done;
  if (process == NULL) {
    work(L, argument);
    return 1;
  }
  process->vm->collections++;
  collection.previous = process->collection;
  collection.allows_hooks = L->allowhook;
  process->collection = &collection;
  is_done = _setjmp(collection.give_up) == 0;
  if (is_done) work(L, argument);
  process->collection = collection.previous;
  return is_done;
}

/* From a finalizer's call, which ended with `status`: its caller in the collector would end the call so, and then go on. */
static l_noret give_up_collection(lua_State *L, struct baton_collection *collection, int status) {
  L->ci->callstatus &= (unsigned short)~CIST_FIN;
  L->allowhook = collection->allows_hooks;
  G(L)->gcstp &= cast_byte(~GCSTPGC);
  if (status != LUA_OK) {
    luaE_warnerror(L, "__gc");
    L->top.p--;
  }
  _longjmp(collection->give_up, 1);
}

LUAI_FUNC int baton_finalizer_pcall(lua_State *L, Pfunc func, void *u, ptrdiff_t oldtop, ptrdiff_t ef) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_mark mark;
  struct baton_use interrupted;
  void *object;
  lua_CFunction object_of;
  uint64_t before;
  int status;
  if (process == NULL) return luaD_pcall(L, func, u, oldtop, ef);
  before = process->vm->collections;
  /* The C function in whose middle this is goes on afterwards with what it is about. */
  object = process->object;
  object_of = process->object_of;
  baton_lua_use_begins(&interrupted, process, baton_lua_object_of_running_call(process, L), BATON_ALONE);
  baton_lua_begin_hold(process, &mark, BATON_MARK_FINALIZER);
  status = luaD_pcall(L, func, u, oldtop, ef);
  baton_lua_end_hold(process);
  baton_lua_use_ends(&interrupted);
  process->object = object;
  process->object_of = object_of;
  if (l_unlikely(process->killed)) baton_lua_arm(L);
  if (l_unlikely(process->collection != NULL && process->vm->collections != before)) give_up_collection(L, process->collection, status);
  return status;
}

static void step(lua_State *L, int unused) {
  (void)unused;
  baton_stock_gc_step(L);
}

/* Chosen so that the next step takes its collection for a good one, after which Lua's collector is generational again. */
#define GOOD_COLLECTION (~(lu_mem)0 / 2)

/*
** Within a finalizer, where the collector is stopped, a step collects nothing; then the one outside has not been interfered with. Lua goes on incrementally for the
** time of a full collection; if that is given up, it has still to go back.
*/
LUAI_FUNC void luaC_step(lua_State *L) {
  global_State *g = G(L);
  const struct baton_process *process = baton_lua_running(L);
  if (g->gcstp != 0)
    baton_stock_gc_step(L);
  else if (!collect(L, step, 0) && process->vm->is_generational && !isdecGCmodegen(g))
    g->lastatomic = GOOD_COLLECTION;
}

/* As often as finalizers wait, but not for ever: they may leave others behind. */
#define ATTEMPTS 1000

LUAI_FUNC void luaC_fullgc(lua_State *L, int is_emergency) {
  int attempts = 0;
  while (!collect(L, baton_stock_fullgc, is_emergency) && attempts++ < ATTEMPTS) {
  }
}

LUAI_FUNC void luaC_changemode(lua_State *L, int mode) {
  const struct baton_process *process = baton_lua_running(L);
  int attempts = 0;
  if (process != NULL) process->vm->is_generational = mode == KGC_GEN;
  while (!collect(L, baton_stock_changemode, mode) && attempts++ < ATTEMPTS) {
  }
}

/*
** Finalizers wait for another collection where Lua's stack is all but full. Lua 5.4.9 takes for them the slots that it has in store for handling
** an overflow, and keeps them: the overflow that comes next would then be reported as an error in error handling.
*/
LUAI_FUNC int baton_room_for_finalizers(lua_State *L) {
  ptrdiff_t needed = L->top.p - L->stack.p + BASIC_STACK_SIZE;
  return needed <= LUAI_MAXSTACK && luaD_checkminstack(L);
}
