/*
** Copying in: one walk over a block, into the heap of the reader.
**
** The walk is inside the VM, and Lua's collector does not run in it: no step is made, and memory
** that runs out ends the walk instead of starting a collection. So new objects are white, and need
** no protection, no barriers and no anchors until the values are on the stack. If memory runs out,
** the heap is collected and the walk begins again, once. What it has made is garbage then.
**
** A string in a Lua 5.4 heap has its bytes behind its header. So the bytes of a string are copied
** once into a block and once out of it. Only a frozen value's strings leave out the first copy: a
** message has a reference to the frozen value.
*/
#include "copying/block.h"
#include "state/checks.h"

#include "lmem.h"
#include "lstring.h"

#include <stdlib.h>

#if defined(BATON_CHECKS)
#include <assert.h>
#define check_block(condition) assert(condition)
#else
#define check_block(condition) ((void)0)
#endif

/* Objects whose addresses lie on the C stack. */
#define FEW 128

/* {======================================================
** Values
** ======================================================= */

static void get_value(struct baton_reader *r, TValue *value);

static inline void note(struct baton_reader *r, GCObject *object, TValue *value) {
  check_block(r->count < r->block->objects);
  r->objects[r->count++] = object;
  value->value_.gc = object;
  value->tt_ = ctb(object->tt);
}

static void get_string(struct baton_reader *r, size_t length, TValue *value) {
  TString *string = luaS_newlstr(r->L, (const char *)r->at, length);
  r->at += length;
  note(r, obj2gco(string), value);
}

/* A table gets its metatable while it is the newest object: a table with a finalizer moves to
   another list of Lua's, in which Lua looks for it. */
static void get_instance(struct baton_reader *r, TValue *value) {
  Table *table = luaH_new(r->L);
  const TValue *metatable;
  TValue name;
  note(r, obj2gco(table), value);
  get_value(r, &name);
  if (r->classes == NULL) r->classes = baton_copy_classes(r->L);
  metatable = luaH_get(r->classes, &name);
  if (isempty(metatable)) {
    if (r->unknown == NULL) r->unknown = tsvalue(&name);
    return;
  }
  table->metatable = hvalue(metatable);
  luaC_checkfinalizer(r->L, obj2gco(table), table->metatable);
}

static void get_function(struct baton_reader *r, TValue *value) {
  note(r, obj2gco(luaF_newLclosure(r->L, *r->at++)), value);
}

static void get_variable(struct baton_reader *r, TValue *value) {
  UpVal *variable = gco2upv(luaC_newobj(r->L, LUA_VUPVAL, sizeof(UpVal)));
  variable->v.p = &variable->u.value;
  setnilvalue(variable->v.p);
  note(r, obj2gco(variable), value);
}

static void get_userdata(struct baton_reader *r, TValue *value) {
  const TValue *userdata = luaH_getint(r->userdata, ++r->references);
  check_block(ttisfulluserdata(userdata));
  note(r, gcvalue(userdata), value);
}

static void get_closure(struct baton_reader *r, TValue *value) {
  const TValue *function = baton_copy_function_of(G(r->L), *r->at++);
  check_block(ttisCclosure(function)); /* all VMs have the same libraries */
  setobj(r->L, value, function);
}

static void get_seen(struct baton_reader *r, TValue *value) {
  const uint32_t number = baton_get_u32(r);
  GCObject *object;
  check_block(number < r->count);
  object = r->objects[number];
  value->value_.gc = object;
  value->tt_ = ctb(object->tt);
}

static void get_value(struct baton_reader *r, TValue *value) {
  uint64_t length;
  lua_CFunction function;
  switch (*r->at++) {
    case BATON_NIL: setnilvalue(value); break;
    case BATON_FALSE: setbfvalue(value); break;
    case BATON_TRUE: setbtvalue(value); break;
    case BATON_NULL: setpvalue(value, NULL); break;
    case BATON_INTEGER:
      baton_get(r, &value->value_.i, sizeof(lua_Integer));
      settt_(value, LUA_VNUMINT);
      break;
    case BATON_FLOAT:
      baton_get(r, &value->value_.n, sizeof(lua_Number));
      settt_(value, LUA_VNUMFLT);
      break;
    case BATON_SEEN: get_seen(r, value); break;
    case BATON_SHORT_STRING: get_string(r, *r->at++, value); break;
    case BATON_LONG_STRING:
      baton_get(r, &length, sizeof length);
      get_string(r, (size_t)length, value);
      break;
    case BATON_TABLE: note(r, obj2gco(luaH_new(r->L)), value); break;
    case BATON_INSTANCE: get_instance(r, value); break;
    case BATON_FUNCTION: get_function(r, value); break;
    case BATON_CODE: note(r, obj2gco(luaF_newproto(r->L)), value); break;
    case BATON_VARIABLE: get_variable(r, value); break;
    case BATON_USERDATA: get_userdata(r, value); break;
    case BATON_GLOBALS:
      setobj(r->L, value, &hvalue(&G(r->L)->l_registry)->array[LUA_RIDX_GLOBALS - 1]);
      break;
    case BATON_C_FUNCTION:
      baton_get(r, &function, sizeof function);
      setfvalue(value, function);
      break;
    case BATON_CLOSURE: get_closure(r, value); break;
    default: check_block(0);
  }
}

/* }====================================================== */

/* {======================================================
** Contents
** ======================================================= */

/* Both parts get their size first, so that nothing is rehashed. */
static void get_contents(struct baton_reader *r, Table *table) {
  static const TValue absent = {ABSTKEYCONSTANT};
  const uint32_t slots = baton_get_u32(r), pairs = baton_get_u32(r);
  uint32_t i;
  if (l_likely((pairs & BATON_SHAPED) != 0)) {
    baton_get_shaped(r, table, slots, pairs - BATON_SHAPED, get_value);
    invalidateTMcache(table); /* as below */
    return;
  }
  if (slots + pairs > 0) luaH_resize(r->L, table, slots, pairs);
  for (i = 0; i < slots; i++) get_value(r, &table->array[i]);
  for (i = 0; i < pairs; i++) {
    TValue key, value;
    get_value(r, &key);
    get_value(r, &value);
    /* The sender's keys are all different, and none is of the array part. */
    luaH_finishset(r->L, table, &key, &absent, &value);
  }
  invalidateTMcache(table); /* the table may become a metatable */
}

static void walk(lua_State *L, void *reader) {
  struct baton_reader *r = reader;
  const uint32_t values = r->block->values;
  uint32_t i;
  (void)L;
  for (i = 0; i < values; i++) get_value(r, s2v(r->to + i));
  for (i = 0; i < r->count; i++) {
    GCObject *object = r->objects[i];
    switch (object->tt) {
      case LUA_VTABLE: get_contents(r, gco2t(object)); break;
      case LUA_VLCL: baton_get_function(r, gco2lcl(object), get_value); break;
      case LUA_VUPVAL: get_value(r, gco2upv(object)->v.p); break;
      case LUA_VPROTO: baton_get_code(r, gco2p(object), get_value); break;
      default: break; /* a string or a userdata */
    }
  }
  check_block(r->count == r->block->objects);
  check_block(r->at == r->block->row + r->block->size);
}

/* Walks over the block with the collector off. Returns a status of Lua's. Inside the VM. */
static int walk_uncollected(struct baton_reader *r) {
  lua_State *L = r->L;
  global_State *g = G(L);
  const lu_byte stopped = g->gcstopem;
  const ptrdiff_t handler = L->errfunc;
  int status;
  r->at = r->block->row;
  r->count = r->references = 0;
  r->classes = NULL;
  r->unknown = NULL;
  r->to = L->top.p;
  g->gcstopem = 1;
  L->errfunc = 0;
  status = luaD_rawrunprotected(L, walk, r);
  L->errfunc = handler;
  g->gcstopem = stopped;
  L->top.p = r->to;
  return status;
}

/* }====================================================== */

/* {======================================================
** Userdata
** ======================================================= */

/* Pushes a table with a userdata for each reference of the block, the argument. */
static int push_userdata(lua_State *L) {
  struct baton_block *block = lua_touserdata(L, 1);
  lua_createtable(L, block->references <= INT_MAX ? (int)block->references : INT_MAX, 0);
  while (block->given < block->references) {
    const struct baton_reference *reference = &block->held[block->given++];
    reference->kind->push(L, reference->object);
    lua_rawseti(L, -2, block->given);
  }
  return 1;
}

/* }====================================================== */

/* Makes the values and frees the block, unless memory runs out. Returns a status of Lua's. */
static int read_block(struct baton_reader *r, GCObject **many) {
  lua_State *L = r->L;
  const struct baton_process *process;
  int status;
  baton_lua_enter(L);
  process = baton_lua_running(L);
  r->vm = process != NULL ? process->vm : NULL;
  status = walk_uncollected(r);
  if (l_likely(status == LUA_OK)) {
    if (l_unlikely(r->unknown != NULL)) {
      setsvalue2s(L, L->top.p, r->unknown);
      L->top.p++;
    } else {
      L->top.p += r->block->values;
    }
    baton_block_free(r->block);
    free(many);
    luaC_checkGC(L); /* last, as finalizers run */
  }
  baton_lua_leave(L);
  return status;
}

static void read_with_memory(struct baton_reader *r) {
  lua_State *L = r->L;
  GCObject *few[FEW];
  GCObject **many = NULL;
  const int has_few = r->block->objects <= FEW;
  int is_retry;
  r->objects = few;
  for (is_retry = 0;; is_retry++) {
    if (!has_few && many == NULL && baton_block_may_allocate())
      many = r->objects = malloc(r->block->objects * sizeof *many);
    if ((has_few || many != NULL) && l_likely(read_block(r, many) == LUA_OK)) return;
    if (is_retry) break;
    if (baton_copy_collect(L) != LUA_OK) {
      free(many);
      baton_block_free(r->block);
      lua_error(L);
    }
  }
  free(many);
  baton_block_free(r->block);
  baton_copy_raise_memory_error(L);
}

int baton_copy_in(lua_State *L, struct baton_block *block) {
  struct baton_reader r;
  const int values = (int)block->values;
  int anchor = 0;
  if (l_unlikely(!lua_checkstack(L, values + LUA_MINSTACK))) {
    baton_block_free(block);
    return luaL_error(L, "stack overflow");
  }
  r.L = L;
  r.block = block;
  r.userdata = NULL;
  if (l_unlikely(block->references > 0)) {
    lua_pushcfunction(L, push_userdata);
    lua_pushlightuserdata(L, block);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
      baton_block_free(block);
      return lua_error(L);
    }
    anchor = lua_gettop(L);
    baton_lua_enter(L);
    r.userdata = hvalue(s2v(L->top.p - 1));
    baton_lua_leave(L);
  }
  read_with_memory(&r);
  if (l_unlikely(r.unknown != NULL))
    return luaL_error(
        L, "cannot receive: no class '%s' is registered by vm.class here", lua_tostring(L, -1));
  if (anchor != 0) lua_remove(L, anchor);
  return values;
}
