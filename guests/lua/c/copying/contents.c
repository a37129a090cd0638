/*
** The contents of tables with a shape, of functions and of their code.
**
** Shapes: the names of the fields of many tables that are alike.
**
** A table whose keys, beside those of its array part, are a few short strings has a shape: these
** strings in the order of Lua's nodes. A VM keeps the shapes of tables that it sends and receives
** more than once. A table of a known shape is written as the bytes of the shape and its values, and
** made by copying nodes with the keys in their places: no key is hashed, interned or inserted.
**
** Shapes are kept as long as the collector does not work (`collections` of the VM), as no string is
** freed until then. Afterwards the sender makes its shape again, and the receiver looks only for
** its strings: where the keys lie in a table depends on their bytes alone.
**
** A reader and a writer know nothing of each other's shapes. A table that the reader makes in
** the long way has its keys in the same places, so the order of `pairs` is the same.
**
**   contents of a table with a shape   slots:u32 (pairs + BATON_SHAPED):u32 place:u32
**                                      [record] value{slots} value{pairs}
**   record   hash:u32 size:u16 (length:u8 bytes){pairs}
**
** `place` is where in the row the record lies, or 0: it is the one that follows.
**
** Functions in a block: their code, which is copied as it is, and their variables.
**
**   contents of code   the numbers of `struct counts`; the instructions, the information about
**                      lines, as bytes; source:value constant:value* inner code:value*
**                      (name:value description of a variable)* (name:value first:u32 last:u32)*
*/
#include "copying/block.h"
#include "state/state.h"

#include "lmem.h"
#include "lstring.h"

#include <stdlib.h>

enum {
  SHAPES = 32, /* that a VM keeps, to send and to receive; a power of 2 */
  MOST_KEYS = 16,
  MOST_BYTES = 240, /* of a record's keys */
  RECORD_HEAD = 6   /* bytes before them */
};

/* A shape as it is sent. */
struct baton_written_shape {
  uint64_t collection;
  uint64_t sum; /* of the addresses of the keys */
  const TString *keys[MOST_KEYS];
  uint32_t count, size;
  uint64_t walk; /* the last walk that has written its record, */
  uint32_t place; /* here */
  unsigned char record[RECORD_HEAD + MOST_BYTES];
};

/* A shape as it is received. */
struct read_shape {
  uint64_t collection;
  uint32_t hash, size;
  unsigned char log_of_nodes, count;
  unsigned char last_free; /* the node behind the free ones */
  unsigned char places[MOST_KEYS]; /* the node of each key */
  Node nodes[MOST_KEYS]; /* without values */
  unsigned char bytes[MOST_BYTES];
};

/* The shapes of a VM, each in its place. One is made when it is met for the second time. */
struct baton_shapes {
  uint64_t walks;
  uint32_t met_by_writer[SHAPES], met_by_reader[SHAPES];
  struct baton_written_shape *written[SHAPES];
  struct read_shape *read[SHAPES];
};

static struct baton_shapes *shapes_of(struct baton_lua_vm *vm) {
  if (l_likely(vm->shapes != NULL)) return vm->shapes;
  if (baton_block_may_allocate()) vm->shapes = calloc(1, sizeof *vm->shapes);
  return vm->shapes;
}

void baton_shapes_free(struct baton_lua_vm *vm) {
  int i;
  if (vm->shapes == NULL) return;
  for (i = 0; i < SHAPES; i++) {
    free(vm->shapes->written[i]);
    free(vm->shapes->read[i]);
  }
  free(vm->shapes);
  vm->shapes = NULL;
}

/* {======================================================
** Shapes: out
** ======================================================= */

/* The keys of a table and a sum over their addresses. Returns how many; 0: it has no shape. */
static uint32_t keys_of(const Table *table, const TString *keys[MOST_KEYS], uint64_t *sum) {
  const int nodes = allocsizenode(table);
  uint32_t count = 0;
  int i;
  if (nodes > MOST_KEYS) return 0;
  *sum = 0;
  for (i = 0; i < nodes; i++) {
    const Node *node = gnode(table, i);
    if (isempty(gval(node))) continue; /* the key may be gone */
    if (!keyisshrstr(node)) return 0;
    keys[count] = keystrval(node);
    *sum = (*sum ^ ((uintptr_t)keys[count] >> 4)) * 0x9E3779B97F4A7C15u;
    count++;
  }
  return count;
}

/* Writes the record of a shape. Returns 0 if it would be too long. */
static int make_record(struct baton_written_shape *shape) {
  unsigned char *const keys = shape->record + RECORD_HEAD;
  uint16_t size;
  uint32_t i, hash;
  shape->size = 0;
  for (i = 0; i < shape->count; i++) {
    const TString *key = shape->keys[i];
    if (shape->size + 1 + key->shrlen > MOST_BYTES) return 0;
    keys[shape->size++] = key->shrlen;
    memcpy(keys + shape->size, getshrstr(key), key->shrlen);
    shape->size += key->shrlen;
  }
  hash = luaS_hash((const char *)keys, shape->size, shape->count);
  size = (uint16_t)shape->size;
  memcpy(shape->record, &hash, sizeof hash);
  memcpy(shape->record + sizeof hash, &size, sizeof size);
  shape->size += RECORD_HEAD;
  return 1;
}

struct baton_written_shape *baton_shape_to_write(struct baton_writer *w, const Table *table) {
  const TString *keys[MOST_KEYS];
  struct baton_written_shape *shape;
  struct baton_shapes *shapes;
  uint64_t sum;
  uint32_t count, slot;
  if (w->vm == NULL || w->freezes) return NULL;
  count = keys_of(table, keys, &sum);
  if (count == 0 || (shapes = shapes_of(w->vm)) == NULL) return NULL;
  slot = (uint32_t)(sum >> 32) % SHAPES;
  shape = shapes->written[slot];
  if (w->walk == 0) w->walk = ++shapes->walks;
  if (l_likely(shape != NULL && shape->sum == sum && shape->count == count &&
          shape->collection == w->vm->collections &&
          memcmp(shape->keys, keys, count * sizeof *keys) == 0))
    return shape;
  if (shapes->met_by_writer[slot] != (uint32_t)sum) {
    shapes->met_by_writer[slot] = (uint32_t)sum;
    return NULL;
  }
  if (shape == NULL) {
    if (!baton_block_may_allocate() || (shape = malloc(sizeof *shape)) == NULL) return NULL;
    shapes->written[slot] = shape;
  }
  memcpy(shape->keys, keys, count * sizeof *keys);
  shape->count = count;
  shape->walk = 0;
  shape->collection = w->vm->collections;
  shape->sum = make_record(shape) ? sum : 0;
  return shape->sum != 0 ? shape : NULL;
}

int baton_put_shape(struct baton_writer *w, struct baton_written_shape *shape) {
  const uint32_t is_there = shape->walk == w->walk;
  if (!baton_reserve(w, 8 + sizeof shape->record)) return 0;
  baton_put_u32(w, shape->count + BATON_SHAPED);
  baton_put_u32(w, is_there ? shape->place : 0);
  if (is_there) return 1;
  shape->walk = w->walk;
  shape->place = (uint32_t)(w->at - w->block->row);
  /* Blocks of 4 GiB have more shapes than their places can say: each table has a record then. */
  if ((size_t)(w->at - w->block->row) > UINT32_MAX) shape->walk = 0;
  baton_put(w, shape->record, shape->size);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Shapes: in
** ======================================================= */

/* A record in a block. */
struct record {
  uint32_t hash, size;
  const unsigned char *keys;
};

static struct record get_record(struct baton_reader *r) {
  const uint32_t place = baton_get_u32(r);
  const unsigned char *at = place == 0 ? r->at : r->block->row + place;
  struct record record;
  uint16_t size;
  memcpy(&record.hash, at, sizeof record.hash);
  memcpy(&size, at + sizeof record.hash, sizeof size);
  record.size = size;
  record.keys = at + RECORD_HEAD;
  if (place == 0) r->at += RECORD_HEAD + record.size;
  return record;
}

/* After the collector has worked: finds the strings, or makes them again. */
static void renew(struct baton_reader *r, struct read_shape *shape, uint64_t collection) {
  const unsigned char *at = shape->bytes;
  uint32_t i;
  for (i = 0; i < shape->count; i++) {
    TValue key;
    setsvalue(r->L, &key, luaS_newlstr(r->L, (const char *)at + 1, *at));
    setnodekey(r->L, &shape->nodes[shape->places[i]], &key);
    at += 1 + *at;
  }
  shape->collection = collection;
}

/* The shape of a record, if it is known. */
static struct read_shape *find(struct baton_reader *r, const struct record *record) {
  struct read_shape *shape;
  if (l_unlikely(r->vm == NULL || r->vm->shapes == NULL)) return NULL;
  shape = r->vm->shapes->read[record->hash % SHAPES];
  if (shape == NULL || shape->hash != record->hash || shape->size != record->size ||
      memcmp(shape->bytes, record->keys, record->size) != 0)
    return NULL;
  if (l_unlikely(shape->collection != r->vm->collections)) renew(r, shape, r->vm->collections);
  return shape;
}

/* Notes the shape of a table that was made of a record, if it was met before. */
static void note(
    struct baton_reader *r, const struct record *record, Table *table, uint32_t count) {
  struct baton_shapes *shapes = r->vm != NULL ? shapes_of(r->vm) : NULL;
  const uint32_t slot = record->hash % SHAPES;
  const unsigned char *at = record->keys;
  struct read_shape *shape;
  uint32_t i;
  int node;
  if (shapes == NULL || allocsizenode(table) > MOST_KEYS) return;
  if (shapes->met_by_reader[slot] != record->hash) {
    shapes->met_by_reader[slot] = record->hash;
    return;
  }
  shape = shapes->read[slot];
  if (shape == NULL) {
    if (!baton_block_may_allocate() || (shape = malloc(sizeof *shape)) == NULL) return;
    shapes->read[slot] = shape;
  }
  for (i = 0; i < count; i++) {
    TString *key = luaS_newlstr(r->L, (const char *)at + 1, *at); /* it is there */
    shape->places[i] = (unsigned char)((const Node *)luaH_getshortstr(table, key) - table->node);
    at += 1 + *at;
  }
  shape->hash = record->hash;
  shape->size = record->size;
  memcpy(shape->bytes, record->keys, record->size);
  shape->count = (unsigned char)count;
  shape->log_of_nodes = table->lsizenode;
  shape->last_free = (unsigned char)(table->lastfree - table->node);
  memcpy(shape->nodes, table->node, sizenode(table) * sizeof(Node));
  for (node = 0; node < sizenode(table); node++) setempty(gval(&shape->nodes[node]));
  shape->collection = r->vm->collections;
}

static void get_slots(
    struct baton_reader *r, const Table *table, uint32_t slots, baton_get_value get) {
  uint32_t i;
  for (i = 0; i < slots; i++) get(r, &table->array[i]);
}

void baton_get_shaped(struct baton_reader *r, Table *table, uint32_t slots, uint32_t count,
    baton_get_value get) {
  static const TValue absent = {ABSTKEYCONSTANT};
  const struct record record = get_record(r);
  const struct read_shape *shape = find(r, &record);
  const unsigned char *at = record.keys;
  uint32_t i;
  if (l_likely(shape != NULL)) {
    const size_t nodes = (size_t)1 << shape->log_of_nodes;
    Node *node;
    if (slots > 0) luaH_resize(r->L, table, slots, 0);
    node = luaM_newvector(r->L, nodes, Node);
    memcpy(node, shape->nodes, nodes * sizeof *node);
    table->node = node;
    table->lsizenode = shape->log_of_nodes;
    table->lastfree = node + shape->last_free;
    get_slots(r, table, slots, get);
    for (i = 0; i < count; i++) get(r, gval(&node[shape->places[i]]));
    return;
  }
  luaH_resize(r->L, table, slots, count);
  get_slots(r, table, slots, get);
  for (i = 0; i < count; i++) {
    TValue key, value;
    setsvalue(r->L, &key, luaS_newlstr(r->L, (const char *)at + 1, *at));
    at += 1 + *at;
    get(r, &value);
    luaH_finishset(r->L, table, &key, &absent, &value);
  }
  note(r, &record, table, count);
}

/* }====================================================== */

/* The plain fields of a prototype. */
struct counts {
  int constants, instructions, inner, variables, lines, absolute_lines, locals;
  int line, last_line;
  lu_byte parameters, is_vararg, stack_size;
};

/* {======================================================
** Functions: out
** ======================================================= */

/* A value for an object that no value in Lua refers to. */
static TValue value_of(GCObject *object) {
  TValue value;
  value.value_.gc = object;
  value.tt_ = ctb(object->tt);
  return value;
}

/* A string that may be missing. */
static enum baton_copy_status put_name(
    struct baton_writer *w, TString *name, uint32_t number, baton_put_value put) {
  TValue value;
  setnilvalue(&value);
  if (name != NULL) value = value_of(obj2gco(name));
  return put(w, &value, number);
}

enum baton_copy_status baton_put_function(
    struct baton_writer *w, const LClosure *function, uint32_t number, baton_put_value put) {
  const TValue code = value_of(obj2gco(function->p));
  enum baton_copy_status status = put(w, &code, number);
  int i;
  for (i = 0; i < function->nupvalues && status == BATON_COPIED; i++) {
    const TValue variable = value_of(obj2gco(function->upvals[i]));
    status = put(w, &variable, number);
  }
  return status;
}

enum baton_copy_status baton_put_variable(
    struct baton_writer *w, const UpVal *variable, uint32_t number, baton_put_value put) {
  const TValue *value = variable->v.p; /* on a stack while the variable is open */
  if (!ttistable(value) || hvalue(value) != w->globals) return put(w, value, number);
  if (!baton_reserve(w, 1)) return BATON_NO_MEMORY;
  *w->at++ = BATON_GLOBALS;
  return BATON_COPIED;
}

static int put_array(struct baton_writer *w, const void *array, int count, size_t size) {
  if (count == 0) return 1;
  if (!baton_reserve(w, (size_t)count * size)) return 0;
  baton_put(w, array, (size_t)count * size);
  return 1;
}

static enum baton_copy_status put_names(
    struct baton_writer *w, const Proto *code, uint32_t number, baton_put_value put) {
  enum baton_copy_status status = put_name(w, code->source, number, put);
  int i;
  for (i = 0; i < code->sizeupvalues && status == BATON_COPIED; i++) {
    const Upvaldesc *variable = &code->upvalues[i];
    const lu_byte description[] = {variable->instack, variable->idx, variable->kind};
    status = put_name(w, variable->name, number, put);
    if (!put_array(w, description, 3, 1)) return BATON_NO_MEMORY;
  }
  for (i = 0; i < code->sizelocvars && status == BATON_COPIED; i++) {
    const LocVar *local = &code->locvars[i];
    const int range[] = {local->startpc, local->endpc};
    status = put_name(w, local->varname, number, put);
    if (!put_array(w, range, 2, sizeof(int))) return BATON_NO_MEMORY;
  }
  return status;
}

enum baton_copy_status baton_put_code(
    struct baton_writer *w, const Proto *code, uint32_t number, baton_put_value put) {
  const struct counts counts = {code->sizek, code->sizecode, code->sizep, code->sizeupvalues,
      code->sizelineinfo, code->sizeabslineinfo, code->sizelocvars, code->linedefined,
      code->lastlinedefined, code->numparams, code->is_vararg, code->maxstacksize};
  enum baton_copy_status status = BATON_COPIED;
  int i;
  if (!put_array(w, &counts, 1, sizeof counts) ||
      !put_array(w, code->code, code->sizecode, sizeof *code->code) ||
      !put_array(w, code->lineinfo, code->sizelineinfo, sizeof *code->lineinfo) ||
      !put_array(w, code->abslineinfo, code->sizeabslineinfo, sizeof *code->abslineinfo))
    return BATON_NO_MEMORY;
  for (i = 0; i < code->sizek && status == BATON_COPIED; i++)
    status = put(w, &code->k[i], number);
  for (i = 0; i < code->sizep && status == BATON_COPIED; i++) {
    const TValue inner = value_of(obj2gco(code->p[i]));
    status = put(w, &inner, number);
  }
  return status == BATON_COPIED ? put_names(w, code, number, put) : status;
}

/* }====================================================== */

/* {======================================================
** In. An error of memory may leave an object half made. It is never called, and its counts say what
** there is to free.
** ======================================================= */

void baton_get_function(struct baton_reader *r, LClosure *function, baton_get_value get) {
  TValue value;
  int i;
  get(r, &value);
  function->p = gco2p(gcvalue(&value));
  for (i = 0; i < function->nupvalues; i++) {
    get(r, &value);
    function->upvals[i] = gco2upv(gcvalue(&value));
  }
}

static TString *get_name(struct baton_reader *r, baton_get_value get) {
  TValue value;
  get(r, &value);
  return ttisnil(&value) ? NULL : tsvalue(&value);
}

static void get_values(
    struct baton_reader *r, Proto *code, const struct counts *counts, baton_get_value get) {
  int i;
  code->k = luaM_newvectorchecked(r->L, counts->constants, TValue);
  code->sizek = counts->constants;
  for (i = 0; i < counts->constants; i++) get(r, &code->k[i]);
  code->p = luaM_newvectorchecked(r->L, counts->inner, Proto *);
  code->sizep = counts->inner;
  for (i = 0; i < counts->inner; i++) {
    TValue value;
    get(r, &value);
    code->p[i] = gco2p(gcvalue(&value));
  }
}

static void get_names(
    struct baton_reader *r, Proto *code, const struct counts *counts, baton_get_value get) {
  int i;
  code->source = get_name(r, get);
  code->upvalues = luaM_newvectorchecked(r->L, counts->variables, Upvaldesc);
  code->sizeupvalues = counts->variables;
  for (i = 0; i < counts->variables; i++) {
    Upvaldesc *variable = &code->upvalues[i];
    lu_byte description[3];
    variable->name = get_name(r, get);
    baton_get(r, description, sizeof description);
    variable->instack = description[0];
    variable->idx = description[1];
    variable->kind = description[2];
  }
  code->locvars = luaM_newvectorchecked(r->L, counts->locals, LocVar);
  code->sizelocvars = counts->locals;
  for (i = 0; i < counts->locals; i++) {
    LocVar *local = &code->locvars[i];
    int range[2];
    local->varname = get_name(r, get);
    baton_get(r, range, sizeof range);
    local->startpc = range[0];
    local->endpc = range[1];
  }
}

void baton_get_code(struct baton_reader *r, Proto *code, baton_get_value get) {
  struct counts counts;
  baton_get(r, &counts, sizeof counts);
  code->numparams = counts.parameters;
  code->is_vararg = counts.is_vararg;
  code->maxstacksize = counts.stack_size;
  code->linedefined = counts.line;
  code->lastlinedefined = counts.last_line;
  code->code = luaM_newvectorchecked(r->L, counts.instructions, Instruction);
  code->sizecode = counts.instructions;
  baton_get(r, code->code, (size_t)counts.instructions * sizeof *code->code);
  code->lineinfo = luaM_newvectorchecked(r->L, counts.lines, ls_byte);
  code->sizelineinfo = counts.lines;
  baton_get(r, code->lineinfo, (size_t)counts.lines);
  code->abslineinfo = luaM_newvectorchecked(r->L, counts.absolute_lines, AbsLineInfo);
  code->sizeabslineinfo = counts.absolute_lines;
  baton_get(r, code->abslineinfo, (size_t)counts.absolute_lines * sizeof *code->abslineinfo);
  get_values(r, code, &counts, get);
  get_names(r, code, &counts, get);
}

/* }====================================================== */
