/*
** Lua's allocator, samples of what it allocates, and running out of memory in the Rust half: Lua's
** own error, raised before a call that would allocate.
**
** Rust's collections cannot fail. So there is a reserve for them (runtime/sys/src/reserve.rs), and
** while it is missing, nothing new is made.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <stdlib.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

/* The C stacks of ended processes have address space that malloc may need. Returns how many bytes
   of it were given back. Outside the VM. */
static size_t unmap_stacks(lua_State *L, struct baton_process *process) {
  size_t bytes;
  if (process == NULL || process->vm->closing) return 0;
  baton_lua_enter(L);
  bytes = baton_unmap_stacks(process->vm->executor);
  baton_lua_leave(L);
  return bytes;
}

/* Tries again for a C function that fills a buffer: for that, Lua collects no garbage. */
static void *allocate_again(void *block, size_t size) {
  struct baton_process *process = baton_gate_process();
  if (baton_gate_is_inside() || process == NULL || process->global == NULL) return NULL;
  return unmap_stacks(baton_lua_innermost(process), process) > 0 ? realloc(block, size) : NULL;
}

/* Takes what memory there is. */
static void *allocate_urgently(void *nothing, void *block, size_t old, size_t size) {
  void *now;
  (void)nothing;
  (void)old;
  if (size == 0) {
    free(block);
    return NULL;
  }
  now = realloc(block, size);
  return l_likely(now != NULL) ? now : allocate_again(block, size);
}

/* Lua's allocator. Memory that the reserve gave back is for the Rust half. Lua gets no more memory
   until there is a reserve again. */
static void *allocate(void *nothing, void *block, size_t old, size_t size) {
  if (l_unlikely(__atomic_load_n(&baton_memory_is_short, __ATOMIC_RELAXED) != 0) && size != 0 &&
      (block == NULL || size > old) && !baton_hold_least())
    return NULL;
  return allocate_urgently(nothing, block, old, size);
}

/* As `allocate`, for a VM whose heap has a limit. C functions also use it outside of the VM, for
   buffers that Lua does not count. They may see an older total. */
static void *allocate_limited(void *record, void *block, size_t old, size_t size) {
  const struct baton_lua_vm *vm = record;
  const size_t before = block == NULL ? 0 : old;
  if (size > before && gettotalbytes(vm->global) + (size - before) > vm->memory_limit) return NULL;
  return allocate(NULL, block, old, size);
}

void baton_lua_set_allocator(struct baton_lua_vm *vm) {
  if (vm->memory_limit > 0)
    lua_setallocf(vm->main, allocate_limited, vm);
  else
    lua_setallocf(vm->main, allocate, NULL);
}

/* {======================================================
** Samples
** ======================================================= */

/*
** Samples of what Lua allocates. While a profile wants them, Lua has another allocator, which
** counts bytes and calls the Rust half about every 512 KiB. Otherwise nothing is counted.
**
** | allocator | left by |
** |---|---|
** | allocate | baton_lua_sample_allocations, while no process runs |
** | allocate_sampled | itself, inside the VM, when a sample is due and none are wanted |
**
** Where the frames of the running process are walked:
**
** - Inside the VM, in the middle of an operation of Lua's. Its frames are whole there, with one
**   exception: while a stack grows, they have offsets instead of pointers.
** - Outside, in a C function that fills a buffer of Lua's library. Such a call may have been
**   retaken. Nobody changes the frames of its process meanwhile, and luaD_shrinkstack waits.
*/

/* inside/profile/allocations.rs. Takes a sample of the process, which has
   allocated `size` bytes. The last `over` of them are behind the point where a sample was due.
   Returns the bytes until the next one; 0: none are wanted. */
uint64_t baton_sample_allocation(
    const struct baton_process *process, uint64_t size, uint64_t over);
/* Counts `size` bytes that were allocated outside of the VM, and takes a sample if one is due. On
   any thread. */
void baton_count_outside(const struct baton_process *process, uint64_t size);

/* The bytes until the next sample. Only code inside the VM uses it. */
static uint64_t until_sample;

/* The state in the chain of the process whose stack is this block, or NULL. */
static lua_State *state_with_stack(const struct baton_process *process, const void *block) {
  const struct baton_resumed *resumed;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (resumed->L->stack.p == block) return resumed->L;
  return process->L != NULL && process->L->stack.p == block ? process->L : NULL;
}

/* Gives the frames of a growing stack pointers into its new block, which has the same values. */
static void use_pointers(lua_State *L, char *stack) {
  CallInfo *ci;
  for (ci = L->ci; ci != NULL; ci = ci->previous) ci->func.p = (StkId)(stack + ci->func.offset);
}

static void use_offsets(lua_State *L, const char *stack) {
  CallInfo *ci;
  for (ci = L->ci; ci != NULL; ci = ci->previous) ci->func.offset = (char *)ci->func.p - stack;
}

/* A sample is due. `block` was reallocated: it is compared only. Inside the VM. */
static uint64_t sample(uint64_t size, const void *block, void *now) {
  struct baton_process *process = baton_gate_process();
  lua_State *grows = NULL;
  uint64_t until;
  if (process != NULL && block != NULL) grows = state_with_stack(process, block);
  if (grows != NULL) use_pointers(grows, now);
  until = baton_sample_allocation(process, size, size - until_sample);
  if (grows != NULL) use_offsets(grows, now);
  return until;
}

static void *allocate_sampled(void *global, void *block, size_t old, size_t size);

/* Inside the VM. */
static void end_samples(global_State *g) {
  until_sample = UINT64_MAX;
  /* The program may have set another allocator, which uses ours. */
  if (g->frealloc == allocate_sampled) g->frealloc = allocate;
}

static void *allocate_sampled(void *global, void *block, size_t old, size_t size) {
  void *now = allocate(NULL, block, old, size);
  if (block == NULL) old = 0; /* what `old` says then is the kind of the object */
  if (size <= old || now == NULL) return now;
  size -= old;
  if (!baton_gate_is_inside()) {
    baton_count_outside(baton_gate_process(), size);
  } else if (l_likely(size < until_sample)) {
    until_sample -= size;
  } else {
    until_sample = sample(size, block, now);
    if (until_sample == 0) end_samples(global);
  }
  return now;
}

int baton_lua_sample_allocations(struct baton_process *process, uint64_t until) {
  global_State *g = process->global;
  if (g->frealloc == allocate_sampled) return 2;
  if (g->frealloc != allocate) return 0;
  until_sample = until;
  g->ud = g;
  g->frealloc = allocate_sampled;
  return 1;
}

/* }====================================================== */

/*
** A finalizer may be the only way to get memory back. So its call gets the few bytes that it needs,
** even if what is left is too little for the reserve. A program's own allocator decides for itself.
*/
int baton_lua_make_room_for_finalizer(lua_State *L) {
  global_State *g = G(L);
  const lua_Alloc allocator = g->frealloc;
  int is_room = luaD_checkminstack(L);
  if (l_likely(is_room)) return is_room;
  if (allocator != allocate && allocator != allocate_limited && allocator != allocate_sampled)
    return is_room;
  g->frealloc = allocate_urgently;
  is_room = luaD_checkminstack(L);
  g->frealloc = allocator;
  return is_room;
}

void baton_lua_free_memory(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  unmap_stacks(L, baton_lua_here(L));
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

static l_noret raise_memory_error(lua_State *L) {
  lua_lock(L);
  luaD_throw(L, LUA_ERRMEM);
}

void baton_lua_get_memory(lua_State *L) {
  if (baton_replenish()) return;
  baton_lua_free_memory(L);
  if (!baton_replenish()) raise_memory_error(L);
}

static int is_room_for_object(lua_State *L, struct baton_lua_vm *vm, uint64_t channel) {
  int is_room;
  if (baton_replenish()) return 1;
  baton_lua_enter(L);
  is_room = baton_replenish_for_object(vm->executor, channel);
  baton_lua_leave(L);
  return is_room;
}

void baton_lua_get_memory_for_object(lua_State *L, struct baton_lua_vm *vm, uint64_t channel) {
  if (is_room_for_object(L, vm, channel)) return;
  baton_lua_free_memory(L);
  if (!is_room_for_object(L, vm, channel)) raise_memory_error(L);
}

void baton_lua_get_room(lua_State *L, size_t size) {
  baton_lua_check_memory(L);
  if (baton_has_room(size)) return;
  baton_lua_free_memory(L);
  if (!baton_has_room(size)) raise_memory_error(L);
}
