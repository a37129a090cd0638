/*
** Objects in use: what calls are about that others of their VM may run beside, because they were retaken, are parked, or are interrupted by a finalizer.
** While there are such calls, everybody asks here before they use an object (`baton_calls_watched`).
**
** A call that was retaken runs at the same time as others: its object is its alone. So is that of a call in whose middle the collector calls a finalizer,
** which may wait: the call goes on with what it has read of the object before. A parked one stands still at a place that is known, so
** that others may use the object meanwhile, if the module says so: what reads and what writes go their own ways (lanes).
*/
#include "guest.h"

#include <string.h>

static struct baton_use **bucket_of(struct baton_vm *vm, const void *object) {
  const uint64_t spread = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u;
  return &vm->busy[spread >> (64 - BATON_BUSY_BITS)];
}

static int excludes(enum baton_lane one, enum baton_lane other) {
  if (one == BATON_ALONE || other == BATON_ALONE) return 1;
  return one == other && one != BATON_BESIDE;
}

int baton_lua_is_busy(const struct baton_process *asker, const void *object, enum baton_lane lane) {
  const struct baton_use *use;
  if (asker->vm->busy_count == 0) return 0;
  for (use = *bucket_of(asker->vm, object); use != NULL; use = use->next)
    if (use->object == object && use->process != asker && excludes(use->lane, lane)) return 1;
  return 0;
}

/* By the monitor, with the VM in its hands, or inside. */
void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object, enum baton_lane lane) {
  struct baton_use **bucket;
  use->object = object;
  if (object == NULL) return;
  __atomic_fetch_add(&baton_calls_watched, 1, __ATOMIC_RELAXED); /* who has the VM next sees it, by the VM's mutex */
  bucket = bucket_of(process->vm, object);
  use->process = process;
  use->lane = lane;
  use->next = *bucket;
  *bucket = use;
  process->vm->busy_count++;
}

/* Inside the VM. In a fork's child it may be forgotten already. */
void baton_lua_use_ends(struct baton_use *use) {
  struct baton_use **link;
  struct baton_vm *vm;
  if (use->object == NULL) return;
  vm = use->process->vm;
  link = bucket_of(vm, use->object);
  use->object = NULL;
  while (*link != NULL && *link != use) link = &(*link)->next;
  if (*link == NULL) return;
  *link = use->next;
  __atomic_fetch_sub(&baton_calls_watched, 1, __ATOMIC_RELAXED);
  vm->busy_count--;
  baton_rs_queue_wake_all(vm->executor, vm->object_queue);
}

/* In a fork's child: the calls of the others never end. Inside the VM. */
void baton_lua_forget_objects(struct baton_vm *vm) {
  __atomic_fetch_sub(&baton_calls_watched, vm->busy_count, __ATOMIC_RELAXED);
  memset(vm->busy, 0, sizeof vm->busy);
  vm->busy_count = 0;
  vm->parked = 0;
}
