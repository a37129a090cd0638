/*
** Objects in use: what calls are about that others of their VM may run beside, because they were retaken or are parked. While there are such calls,
** everybody asks here before they use an object (`baton_calls_watched`).
**
** A call that was retaken runs at the same time as others: its object is its alone. A parked one stands still at a place that is known, so
** that others may use the object meanwhile, if the module says so: what reads and what writes go their own ways (lanes).
*/
#include "guest.h"

#include <string.h>

static struct baton_process **bucket_of(struct baton_vm *vm, const void *object) {
  const uint64_t spread = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u;
  return &vm->busy[spread >> (64 - BATON_BUSY_BITS)];
}

static int excludes(enum baton_lane one, enum baton_lane other) {
  if (one == BATON_ALONE || other == BATON_ALONE) return 1;
  return one == other && one != BATON_BESIDE;
}

int baton_lua_is_busy(struct baton_vm *vm, const void *object, enum baton_lane lane) {
  const struct baton_process *process;
  if (vm->busy_count == 0) return 0;
  for (process = *bucket_of(vm, object); process != NULL; process = process->next_busy)
    if (process->busy_object == object && excludes((enum baton_lane)process->busy_lane, lane)) return 1;
  return 0;
}

/* The process's call was retaken or parks: nobody else uses its object, if it has one, in a way that its lane excludes. By the monitor, with the VM in its hands, or inside. */
void baton_lua_object_begins(struct baton_process *process, void *object, enum baton_lane lane) {
  struct baton_process **bucket;
  if (object == NULL) return;
  __atomic_fetch_add(&baton_calls_watched, 1, __ATOMIC_RELAXED); /* who has the VM next sees it, by the VM's mutex */
  bucket = bucket_of(process->vm, object);
  process->busy_object = object;
  process->busy_lane = (unsigned char)lane;
  process->next_busy = *bucket;
  *bucket = process;
  process->vm->busy_count++;
}

/* It has returned. Inside the VM. */
void baton_lua_object_ends(struct baton_process *process) {
  struct baton_process **link;
  if (process->busy_object == NULL) return;
  __atomic_fetch_sub(&baton_calls_watched, 1, __ATOMIC_RELAXED);
  link = bucket_of(process->vm, process->busy_object);
  while (*link != NULL && *link != process) link = &(*link)->next_busy;
  if (*link == process) *link = process->next_busy;
  process->vm->busy_count--;
  process->busy_object = NULL;
  process->next_busy = NULL;
  baton_rs_queue_wake_all(process->vm->executor, process->vm->object_queue);
}

/* In a fork's child: the calls of the others never end. Inside the VM. */
void baton_lua_forget_objects(struct baton_vm *vm) {
  __atomic_fetch_sub(&baton_calls_watched, vm->busy_count, __ATOMIC_RELAXED);
  memset(vm->busy, 0, sizeof vm->busy);
  vm->busy_count = 0;
  vm->parked = 0;
}
