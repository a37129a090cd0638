/*
** The states of a program that have processes, and the host's way into their VMs.
*/
#include "seam/internals.h"
#include "hosting/hosting.h"

#include <stdio.h>
#include <stdlib.h>

/*
** Any thread may search the list, as any thread may have a state. Entries are added at the head,
** and used again when their VM has ended; none is ever removed.
**
** | field | written | read |
** |---|---|---|
** | `global` | release: the entry is complete; NULL when the VM has ended | acquire |
** | `vm` | before `global` | after `global`, by the thread that uses that state |
*/
struct hosted {
  struct hosted *next;
  const global_State *global; /* atomic; NULL: free */
  struct baton_lua_vm *vm;
};

static struct hosted *all; /* atomic */

static struct hosted *find(const global_State *global) {
  struct hosted *hosted = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
  while (hosted != NULL && __atomic_load_n(&hosted->global, __ATOMIC_ACQUIRE) != global)
    hosted = hosted->next;
  return hosted;
}

/* On the way to be used again: neither free nor found. */
static const char taken;

static struct hosted *take_free(void) {
  struct hosted *hosted = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
  for (; hosted != NULL; hosted = hosted->next) {
    const global_State *nothing = NULL;
    /* Acquire: pairs with the release by which the entry became free. */
    if (__atomic_compare_exchange_n(&hosted->global, &nothing,
            (const global_State *)(const void *)&taken, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return hosted;
  }
  return NULL;
}

int baton_hosted_add(struct baton_lua_vm *vm) {
  struct hosted *hosted = take_free();
  if (hosted != NULL) {
    hosted->vm = vm;
    __atomic_store_n(&hosted->global, vm->global, __ATOMIC_RELEASE);
    return 1;
  }
  hosted = malloc(sizeof *hosted);
  if (hosted == NULL) return 0;
  hosted->vm = vm;
  hosted->global = vm->global;
  hosted->next = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
  /* Release: pairs with the loads in `find`. */
  while (!__atomic_compare_exchange_n(
      &all, &hosted->next, hosted, 0, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
  }
  return 1;
}

void baton_hosted_remove(const struct baton_lua_vm *vm) {
  struct hosted *hosted = find(vm->global);
  if (hosted != NULL) __atomic_store_n(&hosted->global, NULL, __ATOMIC_RELEASE);
}

struct baton_lua_vm *baton_hosted_vm_of(lua_State *L) {
  const struct hosted *hosted = find(G(L));
  return hosted != NULL ? hosted->vm : NULL;
}

struct baton_process *baton_hosted_enter(struct baton_lua_vm *vm) {
  struct baton_process *process = baton_gate_process();
  if (process != NULL) return process == vm->main_process ? process : NULL;
  if (baton_gate_here()->carrier != 0 || !baton_host_is_at_home(vm->host)) return NULL;
  baton_host_come(vm->host);
  baton_gate_leave();
  return vm->main_process;
}
