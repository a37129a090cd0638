/*
** Copying out: one walk over values, into a block.
**
** The walk is inside the VM, in the middle of an API call of ours, so nothing changes meanwhile. It
** allocates nothing in the heap, calls no metamethods and does not recurse: the list of objects
** that it has met is its list of work. Userdata come last. Their kinds use Lua's API, so the walk
** leaves the VM for them, in a critical section.
*/
#include "copying/block.h"
#include "copying/frozen.h"
#include "state/state.h"

#include "lstring.h"

#include <stdlib.h>

/* {======================================================
** Values
** ======================================================= */

static enum baton_copy_status refuse(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  setobj(w->L, &w->refused, value);
  w->in = parent;
  return BATON_REFUSED;
}

static enum baton_copy_status put_value(
    struct baton_writer *w, const TValue *value, uint32_t parent);

static inline enum baton_copy_status put_object(
    struct baton_writer *w, GCObject *object, uint32_t parent, int tag, int *is_new) {
  const uint32_t number = baton_meet(w, object, parent, is_new);
  if (l_unlikely(number == BATON_NO_PARENT) || !baton_reserve(w, 16)) return BATON_NO_MEMORY;
  *w->at++ = (unsigned char)(*is_new ? tag : BATON_SEEN);
  if (!*is_new) baton_put_u32(w, number);
  return BATON_COPIED;
}

static enum baton_copy_status put_long_string(
    struct baton_writer *w, TString *string, uint32_t parent) {
  const uint64_t length = string->u.lnglen;
  int is_new;
  const enum baton_copy_status status =
      put_object(w, obj2gco(string), parent, BATON_LONG_STRING, &is_new);
  if (status != BATON_COPIED || !is_new) return status;
  baton_put(w, &length, sizeof length);
  if (!baton_reserve(w, length)) return BATON_NO_MEMORY;
  baton_put(w, getlngstr(string), length);
  return BATON_COPIED;
}

static inline enum baton_copy_status put_short_string(
    struct baton_writer *w, TString *string, uint32_t parent) {
  int is_new;
  const enum baton_copy_status status =
      put_object(w, obj2gco(string), parent, BATON_SHORT_STRING, &is_new);
  if (l_unlikely(status != BATON_COPIED) || !is_new) return status;
  *w->at++ = string->shrlen;
  if (!baton_reserve(w, LUAI_MAXSHORTLEN)) return BATON_NO_MEMORY;
  baton_put(w, getshrstr(string), string->shrlen);
  return BATON_COPIED;
}

static enum baton_copy_status put_table(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  Table *table = hvalue(value);
  const TValue *name;
  TValue key;
  int is_new;
  enum baton_copy_status status;
  if (l_unlikely(table == w->globals)) return refuse(w, value, parent);
  if (l_likely(table->metatable == NULL))
    return put_object(w, obj2gco(table), parent, BATON_TABLE, &is_new);
  if (w->classes == NULL) w->classes = baton_copy_classes(w->L);
  sethvalue(w->L, &key, table->metatable);
  name = luaH_get(w->classes, &key);
  if (isempty(name)) return refuse(w, value, parent);
  status = put_object(w, obj2gco(table), parent, BATON_INSTANCE, &is_new);
  if (status != BATON_COPIED || !is_new) return status;
  return put_value(w, name, parent);
}

static enum baton_copy_status put_userdata(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  int is_new;
  const enum baton_copy_status status =
      put_object(w, gcvalue(value), parent, BATON_USERDATA, &is_new);
  if (status == BATON_COPIED && is_new) w->block->references++;
  return status;
}

static enum baton_copy_status put_closure(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  int is_new;
  enum baton_copy_status status;
  if (w->freezes) return refuse(w, value, parent);
  status = put_object(w, gcvalue(value), parent, BATON_FUNCTION, &is_new);
  if (status != BATON_COPIED || !is_new) return status;
  *w->at++ = clLvalue(value)->nupvalues;
  return BATON_COPIED;
}

static enum baton_copy_status put_c_function(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  int number;
  if (!baton_reserve(w, 16)) return BATON_NO_MEMORY;
  if (ttislcf(value)) {
    const lua_CFunction function = fvalue(value);
    if (!baton_copy_is_library_function(function)) return refuse(w, value, parent);
    *w->at++ = BATON_C_FUNCTION;
    baton_put(w, &function, sizeof function);
    return BATON_COPIED;
  }
  number = baton_copy_number_of(w->L, value);
  if (number == 0) return refuse(w, value, parent);
  *w->at++ = BATON_CLOSURE;
  *w->at++ = (unsigned char)number;
  return BATON_COPIED;
}

/* A value of another kind than those that tables have: the code of a function, and a variable. */
static enum baton_copy_status put_part(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  int is_new;
  if (ttypetag(value) == LUA_VPROTO)
    return put_object(w, gcvalue(value), parent, BATON_CODE, &is_new);
  if (ttypetag(value) == LUA_VUPVAL)
    return put_object(w, gcvalue(value), parent, BATON_VARIABLE, &is_new);
  return refuse(w, value, parent);
}

static enum baton_copy_status put_value(
    struct baton_writer *w, const TValue *value, uint32_t parent) {
  switch (ttypetag(value)) {
    case LUA_VSHRSTR: return put_short_string(w, tsvalue(value), parent);
    case LUA_VLNGSTR: return put_long_string(w, tsvalue(value), parent);
    case LUA_VTABLE: return put_table(w, value, parent);
    case LUA_VLCL: return put_closure(w, value, parent);
    case LUA_VLCF: case LUA_VCCL: return put_c_function(w, value, parent);
    case LUA_VUSERDATA: return put_userdata(w, value, parent);
    default: break;
  }
  if (l_unlikely(!baton_reserve(w, 16))) return BATON_NO_MEMORY;
  switch (ttypetag(value)) {
    case LUA_VNUMINT:
      *w->at++ = BATON_INTEGER;
      baton_put(w, &ivalue(value), sizeof(lua_Integer));
      return BATON_COPIED;
    case LUA_VNUMFLT:
      *w->at++ = BATON_FLOAT;
      baton_put(w, &fltvalue(value), sizeof(lua_Number));
      return BATON_COPIED;
    case LUA_VFALSE: *w->at++ = BATON_FALSE; return BATON_COPIED;
    case LUA_VTRUE: *w->at++ = BATON_TRUE; return BATON_COPIED;
    case LUA_VLIGHTUSERDATA:
      if (pvalue(value) != NULL || w->freezes) return refuse(w, value, parent);
      *w->at++ = BATON_NULL;
      return BATON_COPIED;
    default:
      if (!ttisnil(value)) return put_part(w, value, parent);
      *w->at++ = BATON_NIL;
      return BATON_COPIED;
  }
}

/* }====================================================== */

/* {======================================================
** Contents
** ======================================================= */

/* The slots of the array part up to the last one that is not empty. */
static uint32_t slots_of(const Table *table) {
  uint32_t slots = luaH_realasize(table);
  while (slots > 0 && isempty(&table->array[slots - 1])) slots--;
  return slots;
}

static enum baton_copy_status put_slots(
    struct baton_writer *w, const Table *table, uint32_t slots, uint32_t number) {
  uint32_t i;
  for (i = 0; i < slots; i++) {
    const enum baton_copy_status status = put_value(w, &table->array[i], number);
    if (l_unlikely(status != BATON_COPIED)) return status;
  }
  return BATON_COPIED;
}

static enum baton_copy_status put_shaped(
    struct baton_writer *w, const Table *table, struct baton_written_shape *shape,
    uint32_t slots, uint32_t number) {
  const uint32_t nodes = (uint32_t)allocsizenode(table);
  enum baton_copy_status status;
  uint32_t i;
  if (!baton_put_shape(w, shape)) return BATON_NO_MEMORY;
  status = put_slots(w, table, slots, number);
  for (i = 0; i < nodes && status == BATON_COPIED; i++) {
    const Node *node = gnode(table, i);
    if (!isempty(gval(node))) status = put_value(w, gval(node), number);
  }
  return status;
}

static enum baton_copy_status put_contents(
    struct baton_writer *w, const Table *table, uint32_t number) {
  const uint32_t slots = slots_of(table), nodes = (uint32_t)allocsizenode(table);
  struct baton_written_shape *shape = baton_shape_to_write(w, table);
  enum baton_copy_status status;
  uint32_t i, pairs = 0;
  size_t place;
  if (!baton_reserve(w, 16)) return BATON_NO_MEMORY;
  baton_put_u32(w, slots);
  if (shape != NULL) return put_shaped(w, table, shape, slots, number);
  place = (size_t)(w->at - w->block->row);
  baton_put_u32(w, 0);
  status = put_slots(w, table, slots, number);
  if (l_unlikely(status != BATON_COPIED)) return status;
  for (i = 0; i < nodes; i++) {
    const Node *node = gnode(table, i);
    TValue key;
    if (isempty(gval(node))) continue; /* the key may be gone */
    getnodekey(w->L, &key, node);
    status = put_value(w, &key, number);
    if (l_unlikely(status != BATON_COPIED)) return status;
    status = put_value(w, gval(node), number);
    if (l_unlikely(status != BATON_COPIED)) return status;
    pairs++;
  }
  memcpy(w->block->row + place, &pairs, sizeof pairs);
  return BATON_COPIED;
}

static enum baton_copy_status walk(struct baton_writer *w) {
  const struct baton_process *process = baton_lua_running(w->L);
  enum baton_copy_status status = BATON_COPIED;
  uint32_t i;
  int value;
  if (!baton_block_begin(w, process != NULL ? process->vm : NULL)) return BATON_NO_MEMORY;
  for (value = 0; value < w->values && status == BATON_COPIED; value++)
    status = put_value(w, &w->first[value], BATON_NO_PARENT);
  for (i = 0; i < w->count && status == BATON_COPIED; i++) {
    const GCObject *object = w->objects[i].object;
    switch (object->tt) {
      case LUA_VTABLE: status = put_contents(w, gco2t(object), i); break;
      case LUA_VLCL: status = baton_put_function(w, gco2lcl(object), i, put_value); break;
      case LUA_VUPVAL: status = baton_put_variable(w, gco2upv(object), i, put_value); break;
      case LUA_VPROTO: status = baton_put_code(w, gco2p(object), i, put_value); break;
      default: break; /* a string or a userdata */
    }
  }
  return status;
}

/* }====================================================== */

/* {======================================================
** Userdata
** ======================================================= */

/* Takes a reference to what the userdata on the top of the stack stands for. Outside the VM. */
static enum baton_copy_status hold_top(struct baton_writer *w, struct baton_reference *reference) {
  reference->kind = baton_copy_kind_of(w->L, lua_gettop(w->L));
  w->why = NULL;
  if (reference->kind == NULL || (w->freezes && reference->kind != &baton_frozen_kind))
    return BATON_REFUSED;
  reference->object = reference->kind->hold(w->L, lua_gettop(w->L), &w->why);
  return reference->object != NULL ? BATON_COPIED : BATON_REFUSED;
}

/* Takes a reference to a frozen value without Lua's API. Returns 0 if it is none. */
static int hold_frozen(GCObject *object, struct baton_reference *reference) {
  const struct baton_view *view;
  TValue value;
  value.value_.gc = object;
  value.tt_ = ctb(LUA_VUSERDATA);
  view = baton_view_of(&value);
  if (view == NULL) return 0;
  baton_image_hold(view->image);
  reference->kind = &baton_frozen_kind;
  reference->object = (void *)(uintptr_t)view->table;
  return 1;
}

/* Takes a reference to the object of a userdata by the functions of its kind, which are called
   outside of the VM. Inside the VM, in a critical section or in a heap without processes. */
static enum baton_copy_status hold_by_kind(
    struct baton_writer *w, uint32_t number, struct baton_reference *reference) {
  lua_State *L = w->L;
  GCObject *object = w->objects[number].object;
  enum baton_copy_status status;
  TValue value;
  setuvalue(L, &value, gco2u(object));
  setobj2s(L, L->top.p, &value);
  L->top.p++;
  baton_lua_leave(L);
  status = hold_top(w, reference);
  lua_pop(L, 1);
  baton_lua_enter(L);
  return status == BATON_COPIED ? status : refuse(w, &value, w->objects[number].parent);
}

static enum baton_copy_status hold_in_critical_section(
    struct baton_writer *w, uint32_t number, struct baton_reference *reference) {
  struct baton_process *process = baton_lua_running(w->L);
  struct baton_mark mark;
  enum baton_copy_status status;
  if (process == NULL) return hold_by_kind(w, number, reference);
  baton_lua_begin_critical(process, &mark);
  status = hold_by_kind(w, number, reference);
  baton_lua_end_critical(process);
  return status;
}

/* Takes references to the objects of all userdata. Inside the VM. */
static enum baton_copy_status hold_all(struct baton_writer *w) {
  struct baton_block *block = w->block;
  const uint32_t references = block->references;
  uint32_t i;
  block->references = 0;
  if (!baton_block_may_allocate()) return BATON_NO_MEMORY;
  block->held = malloc(references * sizeof *block->held);
  if (block->held == NULL) return BATON_NO_MEMORY;
  for (i = 0; block->references < references; i++) {
    struct baton_reference *reference = &block->held[block->references];
    GCObject *object = w->objects[i].object;
    if (object->tt != LUA_VUSERDATA) continue;
    if (!hold_frozen(object, reference)) {
      const enum baton_copy_status status = hold_in_critical_section(w, i, reference);
      if (status != BATON_COPIED) return status;
    }
    block->references++;
  }
  return BATON_COPIED;
}

/* }====================================================== */

/* Copies, inside the VM. Returns NULL if it failed. */
static struct baton_block *copy(struct baton_writer *w, enum baton_copy_status *status) {
  w->block = NULL;
  w->at = w->end = NULL;
  w->walk = 0;
  w->classes = NULL;
  w->why = NULL;
  w->globals = hvalue(&hvalue(&G(w->L)->l_registry)->array[LUA_RIDX_GLOBALS - 1]);
  baton_met_begin(w);
  *status = walk(w);
  if (l_likely(*status == BATON_COPIED)) {
    w->block->size = (size_t)(w->at - w->block->row);
    w->block->values = (uint32_t)w->values;
    w->block->objects = w->count;
    if (l_likely(w->block->references == 0)) return w->block;
    *status = hold_all(w);
    if (*status == BATON_COPIED) return w->block;
  } else if (w->block != NULL) {
    w->block->references = 0; /* none is held yet */
  }
  return NULL;
}

static struct baton_block *copy_with_memory(
    lua_State *L, struct baton_writer *w, int first, const char *verb, const char *name) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_block *block;
  enum baton_copy_status status;
  char message[BATON_REFUSAL];
  int is_retry = 0;
  luaL_checkstack(L, LUA_MINSTACK, NULL); /* for the functions of kinds */
  for (;;) {
    baton_lua_enter(L);
    if (process != NULL) process->copies = 1;
    w->first = s2v(L->ci->func.p + first);
    block = copy(w, &status);
    if (l_unlikely(status == BATON_REFUSED)) {
      w->first = s2v(L->ci->func.p + first); /* a function of a kind may have moved the stack */
      baton_copy_explain(w, verb, name, message);
    }
    baton_met_end(w);
    if (process != NULL) process->copies = 0;
    baton_lua_leave(L);
    if (l_likely(block != NULL)) return block;
    baton_block_free(w->block);
    if (status == BATON_REFUSED) break;
    if (is_retry++) baton_copy_raise_memory_error(L);
    lua_gc(L, LUA_GCCOLLECT);
  }
  lua_pushstring(L, message);
  return NULL;
}

struct baton_block *baton_copy_out(lua_State *L, int first, int count, const char *name) {
  struct baton_writer w;
  w.L = L;
  w.values = count;
  w.freezes = 0;
  return copy_with_memory(L, &w, lua_absindex(L, first), "cannot send", name);
}

struct baton_block *baton_copy_to_freeze(lua_State *L, int index) {
  struct baton_writer w;
  w.L = L;
  w.values = 1;
  w.freezes = 1;
  return copy_with_memory(L, &w, lua_absindex(L, index), "cannot freeze", "value");
}
