/*
** Objects in use. Some calls run beside other processes of their VM. A call may be retaken, may
** give way in its middle, may wait in the poller, or a finalizer may interrupt it. The object of
** such a call is in use until the call ends, and all other users of the object wait. While there
** are such calls, every use of an object checks here first (`baton_calls_watched`).
*/
#include "seam/guest.h"

#include <string.h>

int baton_calls_watched;

static struct baton_use **bucket_of(struct baton_lua_vm *vm, const void *object) {
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

/* Inside the VM, or on the monitor's thread while it owns the VM. */
void baton_lua_use_begins(struct baton_use *use, struct baton_process *process, void *object) {
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
