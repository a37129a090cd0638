/*
** Turns: a C module that is not known to stand more is in one VM at a time. So are the calls of
** other modules that may not overlap (the policy `serial`).
**
** A VM has the turn while a call of one of its processes is in progress. Its own policies decide
** what its other processes may do meanwhile. A call that waits, or calls back into Lua, keeps the
** turn. Turns begin when the program starts a second VM: a call that is in progress then has none.
** Nor has a function that a coroutine continues after a yield (lua_callk's continuation).
**
** | the turn | edge | function |
** |---|---|---|
** | nobody's -> ours | | baton_turn_try, or baton_turn_take after a wait |
** | ours, n calls -> n + 1 | another call of our VM | baton_turns_begin |
** | ours, n calls -> n - 1 | a call returns, or an error unwinds it | end |
** | ours, 1 call -> nobody's | the last one does | end, baton_turn_give |
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "calls/policies.h"
#include "state/state.h"

#include <stdlib.h>
#include <time.h>

int baton_turns_are_on;

/* A call that has a turn; malloc'd. It belongs to its process. */
struct baton_turn_taken {
  struct baton_turn_taken *previous;
  struct baton_turns *turns;
  const CallInfo *ci;
  const void *where; /* on the C stack, below the frame that makes the call */
};

/* Called inside a VM, before the second VM starts. */
void baton_turns_turn_on(void) {
  if (__atomic_exchange_n(&baton_turns_are_on, 1, __ATOMIC_RELAXED)) return;
  /* Relaxed (both): the second VM starts later, and each call of this VM reads its own store. */
  __atomic_fetch_add(&baton_calls_watched, 1, __ATOMIC_RELAXED);
}

/* Returns NULL without memory. */
static const struct baton_turn *turn_of(struct baton_turns *turns, const char *name) {
  /* Acquire: pairs with the release below. */
  const struct baton_turn *turn = __atomic_load_n(&turns->turn, __ATOMIC_ACQUIRE), *new;
  if (turn != NULL) return turn;
  new = baton_turn_new(name);
  /* Release: publishes the turn. Of two that are made at the same time, one is used. */
  if (__atomic_compare_exchange_n(
          &turns->turn, &turn, new, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
    return new;
  return turn;
}

static const struct baton_lua_vm *owner_of(const struct baton_turns *turns) {
  /* Relaxed: a VM reads its own address only if it wrote it. */
  return __atomic_load_n(&turns->owner, __ATOMIC_RELAXED);
}

int baton_turns_are_others(const struct baton_process *process, const struct baton_turns *turns) {
  const struct baton_lua_vm *owner = owner_of(turns);
  /* Relaxed: as in turn_on */
  return __atomic_load_n(&baton_turns_are_on, __ATOMIC_RELAXED) && owner != NULL &&
      owner != process->vm;
}

/* While the state is being closed, no process waits any more. So its thread does. */
static void take_without_waiting(const struct baton_lua_vm *vm, const struct baton_turn *turn) {
  const struct timespec moment = {0, 200000};
  while (!baton_turn_try(turn)) {
    if (baton_simulated)
      baton_turn_pause(vm->executor, (uint64_t)moment.tv_nsec);
    else
      nanosleep(&moment, NULL);
  }
}

static void end(struct baton_process *process) {
  struct baton_turn_taken *taken = process->turns_taken;
  struct baton_turns *turns = taken->turns;
  process->turns_taken = taken->previous;
  free(taken);
  if (--turns->calls > 0) return;
  /* Relaxed: as in owner_of. */
  __atomic_store_n(&turns->owner, NULL, __ATOMIC_RELAXED);
  baton_turn_give(turns->turn);
}

/* Nanoseconds that a process waits before it says so. */
#define PATIENCE 1000000000

/* Reports once for each module that a process has waited for long. Inside the VM before and
   after. */
static void report(lua_State *L, const struct baton_process *process, struct baton_turns *turns,
    const char *name) {
  char title[BATON_TITLE];
  /* Relaxed: it orders nothing. */
  if (__atomic_exchange_n(&turns->was_reported, 1, __ATOMIC_RELAXED)) return;
  baton_lua_title(process, title);
  lua_unlock(L);
  baton_lua_warn("baton: warning: %s has waited for a second to call the module '%s': another VM "
                 "is in a call of it, and one VM at a time may be. Make such calls shorter. If "
                 "they may overlap, say so: process.concurrent('%s', 'object') or 'concurrent'.\n",
      title, name, name);
  lua_lock(L);
}

/* Takes the turn. Raises an error if the process is killed meanwhile. */
static void take(lua_State *L, struct baton_process *process, struct baton_turns *turns,
    const char *name) {
  const struct baton_turn *turn = turn_of(turns, name);
  struct baton_wake wake = {BATON_DONE, 0, 0};
  baton_timeout timeout = PATIENCE;
  while (!baton_turn_try(turn)) {
    if (process->vm->closing) {
      take_without_waiting(process->vm, turn);
      return;
    }
    lua_unlock(L);
    baton_lua_check_may_wait(L, process);
    lua_lock(L);
    wake.reason = baton_turn_take(process->vm->executor, turn, timeout);
    if (wake.reason == BATON_DONE) {
      if (baton_lua_pending(process) == BATON_PENDING_NOTHING) return;
      baton_turn_give(turn);
    } else if (wake.reason == BATON_TIMED_OUT) {
      report(L, process, turns, name);
      timeout = BATON_FOREVER;
    }
    lua_unlock(L);
    baton_lua_after_wait(L, process, wake);
    lua_lock(L);
  }
}

void baton_turns_begin(lua_State *L, struct baton_process *process, struct baton_turns *turns,
    const char *name) {
  struct baton_turn_taken *taken;
  if (owner_of(turns) != process->vm) {
    take(L, process, turns, name);
    /* Relaxed: as in owner_of. */
    __atomic_store_n(&turns->owner, process->vm, __ATOMIC_RELAXED);
    turns->calls = 0;
  }
  taken = malloc(sizeof *taken);
  if (taken == NULL) {
    if (turns->calls == 0) {
      __atomic_store_n(&turns->owner, NULL, __ATOMIC_RELAXED);
      baton_turn_give(turns->turn);
    }
    luaD_throw(L, LUA_ERRMEM);
  }
  turns->calls++;
  taken->turns = turns;
  taken->ci = L->ci;
  taken->where = __builtin_frame_address(0);
  taken->previous = process->turns_taken;
  process->turns_taken = taken;
}

/* Called after each call of a C function while `baton_calls_watched`. Inside the VM. */
void baton_lua_after_foreign_call(lua_State *L, struct baton_process *process) {
  while (process->turns_taken != NULL && process->turns_taken->ci == L->ci) end(process);
}

/* The C stack is about to be cut at `where`. Inside the VM. */
void baton_turns_unwind(struct baton_process *process, const void *where) {
  while (process->turns_taken != NULL &&
      (const char *)process->turns_taken->where < (const char *)where)
    end(process);
}
