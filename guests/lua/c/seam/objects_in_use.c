/*
** Objects in use: what calls are about that others of their VM may run beside, because the call was
** retaken, has given way in its middle, waits in the poller, or is interrupted by a finalizer.
** While there are such calls, everybody asks here before they use an object
** (`baton_calls_watched`).
**
** Such a call has its object for itself. One that was retaken runs at the same time as others. The
** rest go on with what they have read of the object before.
*/
#include "seam/guest.h"

#include <string.h>

int baton_calls_watched;

static struct baton_use **bucket_of(struct baton_vm *vm, const void *object) {
  const uint64_t spread = (uint64_t)(uintptr_t)object * 0x9E3779B97F4A7C15u;
  return &vm->busy[spread >> (64 - BATON_BUSY_BITS)];
}

int baton_lua_is_busy(const struct baton_process *asker, const void *object) {
  const struct baton_use *use;
  if (asker->vm->busy_count == 0) return 0;
  for (use = *bucket_of(asker->vm, object); use != NULL; use = use->next)
    if (use->object == object && use->process != asker) return 1;
  return 0;
}

/* By the monitor, with the VM in its hands, or inside. */
void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object) {
  struct baton_use **bucket;
  use->object = object;
  if (object == NULL) return;
  /* who has the VM next sees it, by the VM's mutex */
  __atomic_fetch_add(&baton_calls_watched, 1, __ATOMIC_RELAXED);
  bucket = bucket_of(process->vm, object);
  use->process = process;
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
}
