/*
** Objects in use. Some calls run beside other processes of their VM. A call may be retaken, may
** give way in its middle, may wait in the poller, or a finalizer may interrupt it. The object of
** such a call is in use until the call ends, and all other users of the object wait. While there
** are such calls, every use of an object checks here first (`baton_calls_watched`).
**
** The calls of modules that a process is in are found when others begin to run beside them: when
** the process is switched, or its call is retaken (`baton_lua_keep_calls_in_use`). Until then they
** cost nothing. From then on they use their objects until they return, callbacks included. A call
** that waits to begin uses nothing yet. Frames that were found are marked, so that each is examined
** once:
**
** | the uses of a call | edge | function |
** |---|---|---|
** | none -> listed | others begin to run | baton_lua_keep_calls_in_use |
** | listed -> gone | the call returns | baton_lua_call_returns |
** | listed -> none | a yield leaves the call (a resume may continue it) | baton_lua_calls_are_cut |
** | listed -> perhaps cut | an error is raised | baton_lua_calls_are_cut |
** | perhaps cut -> listed, gone | a call returns, others begin to run | baton_lua_settle_uses |
** | listed -> given up | others have waited for too long | baton_lua_give_up_uses |
*/
#include "seam/internals.h"

#include <stdlib.h>
#include <string.h>

int baton_calls_watched;

static struct baton_use **bucket_of(struct baton_lua_vm *vm, const void *object) {
  const uint64_t spread = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u;
  return &vm->busy[spread >> (64 - BATON_BUSY_BITS)];
}

struct baton_use *baton_lua_use_of(const struct baton_process *asker, const void *object) {
  struct baton_use *use;
  if (asker->vm->busy_count == 0) return NULL;
  for (use = *bucket_of(asker->vm, object); use != NULL; use = use->next)
    if (use->object == object && use->process != asker) return use;
  return NULL;
}

int baton_lua_is_busy(const struct baton_process *asker, const void *object) {
  return baton_lua_use_of(asker, object) != NULL;
}

/* Inside the VM, or on the monitor's thread while it owns the VM. */
static void begin(struct baton_use *use, struct baton_process *process, void *object) {
  struct baton_use **bucket;
  use->object = object;
  if (object == NULL) return;
  /* Relaxed: the VM's mutex passes it on to the next owner */
  __atomic_fetch_add(&baton_calls_watched, 1, __ATOMIC_RELAXED);
  bucket = bucket_of(process->vm, object);
  use->process = process;
  use->next = *bucket;
  *bucket = use;
  process->vm->busy_count++;
}

void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object) {
  use->ci = NULL;
  begin(use, process, object);
}

/* Inside the VM. In a fork's child the use may be forgotten already. */
void baton_lua_use_ends(struct baton_use *use) {
  struct baton_use **link;
  struct baton_lua_vm *vm;
  if (use->object == NULL) return;
  vm = use->process->vm;
  link = bucket_of(vm, use->object);
  use->object = NULL;
  while (*link != NULL && *link != use) link = &(*link)->next;
  if (*link == NULL) return;
  *link = use->next;
  __atomic_fetch_sub(&baton_calls_watched, 1, __ATOMIC_RELAXED);
  vm->busy_count--;
  baton_queue_wake_all(vm->executor, vm->object_queue);
}

/* In a fork's child, the calls of the other threads never end. Inside the VM. */
void baton_lua_forget_objects(struct baton_lua_vm *vm) {
  __atomic_fetch_sub(&baton_calls_watched, vm->busy_count, __ATOMIC_RELAXED);
  memset(vm->busy, 0, sizeof vm->busy);
  vm->busy_count = 0;
}

/* {======================================================
** Calls of modules
** ======================================================= */

int baton_lua_keep_in_use(
    struct baton_use_list *list, lua_State *L, CallInfo *ci, void *object) {
  struct baton_use *use = malloc(sizeof *use);
  if (use == NULL) return 0; /* others may enter */
  use->ci = ci;
  use->L = L;
  use->function = baton_lua_function_of(ci);
  use->previous = NULL;
  use->awaited_since = 0;
  use->was_reported = 0;
  use->may_be_continued = L != list->process->L && ci->u.c.k != NULL;
  begin(use, list->process, object);
  *list->end = use;
  list->end = &use->previous;
  return 1;
}

/* Finds the calls in the frames of one state, from `top` down, that were not found before. */
static void keep_calls_of(struct baton_use_list *list, lua_State *L, CallInfo *top) {
  CallInfo *ci, *lowest = NULL; /* the lowest frame that is foreign, or counts as that */
  unsigned short below = FRAMES_ALL_OURS, mark;
  for (ci = top; ci != NULL && ci != &L->base_ci; ci = ci->previous) {
    const unsigned seen = ci->callstatus & FRAMES_WALKED;
    lua_CFunction function;
    if (seen == FRAMES_ALL_OURS || seen == FRAMES_FOUND) {
      below = (unsigned short)seen;
      break;
    }
    if (seen == FRAMES_SOME_FOREIGN) lowest = ci;
    if (isLua(ci) || (function = baton_lua_function_of(ci)) == NULL || baton_lua_is_ours(function))
      continue;
    lowest = ci;
    baton_seam_hooks.keep_used_by(L, ci, function, list);
  }
  mark = lowest != NULL ? FRAMES_FOUND : below;
  for (ci = top; ci != NULL && ci != &L->base_ci; ci = ci->previous) {
    if ((ci->callstatus & FRAMES_WALKED) == FRAMES_FOUND) break;
    if ((ci->callstatus & FRAMES_WALKED) == FRAMES_ALL_OURS) break;
    ci->callstatus |= mark;
    if (ci == lowest) mark = below;
  }
}

void baton_lua_keep_calls_in_use(struct baton_process *process) {
  struct baton_use *found = NULL;
  struct baton_use_list list = {process, &found};
  struct baton_resumed *resumed = process->resumed;
  lua_State *L = baton_lua_innermost(process);
  CallInfo *top = process->is_before_call ? L->ci->previous : L->ci;
  baton_lua_settle_uses(process);
  for (; resumed != NULL; resumed = resumed->previous) {
    keep_calls_of(&list, L, top);
    L = resumed->previous != NULL ? resumed->previous->L : process->L;
    top = L->ci;
  }
  keep_calls_of(&list, L, top);
  *list.end = process->uses;
  process->uses = found;
}

static void drop_innermost(struct baton_process *process) {
  struct baton_use *use = process->uses;
  process->uses = use->previous;
  baton_lua_use_ends(use);
  free(use);
}

/* Whether the process is still in the call. */
static int is_in_call(const struct baton_process *process, const struct baton_use *use) {
  const struct baton_resumed *resumed;
  const CallInfo *ci;
  if (use->L != process->L) {
    for (resumed = process->resumed; resumed != NULL && resumed->L != use->L;)
      resumed = resumed->previous;
    if (resumed == NULL) return 0;
  }
  for (ci = use->L->ci; ci != NULL && ci != use->ci; ci = ci->previous) continue;
  /* another call has another mark */
  return ci != NULL && (ci->callstatus & FRAMES_WALKED) == FRAMES_FOUND;
}

void baton_lua_settle_uses(struct baton_process *process) {
  if (!process->uses_are_cut && (process->uses == NULL || !process->uses->may_be_continued)) return;
  process->uses_are_cut = 0;
  while (process->uses != NULL && !is_in_call(process, process->uses)) drop_innermost(process);
}

void baton_lua_call_returns(struct baton_process *process, lua_State *L) {
  baton_lua_settle_uses(process);
  while (process->uses != NULL && process->uses->ci == L->ci && process->uses->L == L)
    drop_innermost(process);
}

void baton_lua_calls_are_cut(struct baton_process *process, lua_State *L, int yields) {
  CallInfo *ci;
  if (process->uses->L != L) return; /* the error is caught within the innermost of the calls */
  if (!yields) {
    process->uses_are_cut = 1;
    return;
  }
  while (process->uses != NULL && process->uses->L == L) drop_innermost(process);
  for (ci = L->ci; ci != NULL; ci = ci->previous)
    ci->callstatus &= (unsigned short)~FRAMES_WALKED;
}

void baton_lua_give_up_uses(const struct baton_use *given_up) {
  const CallInfo *ci = given_up->ci;
  struct baton_use *use;
  for (use = given_up->process->uses; use != NULL; use = use->previous)
    if (use->ci == ci) baton_lua_use_ends(use);
}

void baton_lua_forget_uses(struct baton_process *process) {
  while (process->uses != NULL) drop_innermost(process);
}

/* }====================================================== */
