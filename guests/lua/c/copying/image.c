/*
** Images of frozen values: how they are made, searched, freed and copied.
**
** An image is made of a block, which has all that is needed in the order of the objects' numbers.
** A first walk over the block finds where each object goes. A second one writes them.
*/
#include "copying/frozen.h"

#include "lstring.h"

#include <stdlib.h>

/* {======================================================
** Search
** ======================================================= */

uint32_t baton_image_hash(const struct baton_cell *key) {
  uint64_t bits = (uint64_t)key->as.integer;
  if (key->tag == LUA_VTRUE || key->tag == LUA_VFALSE) bits = 0;
  bits = (bits ^ key->tag) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(bits >> 32);
}

static int is_string(const struct baton_cell *cell) {
  return cell->tag == LUA_VSHRSTR || cell->tag == LUA_VLNGSTR;
}

static int is_key(const struct baton_image *image, const struct baton_cell *own,
    const struct baton_cell *key, const char *bytes, size_t length) {
  if (own->hash != key->hash || own->tag != key->tag) return 0;
  if (is_string(own)) {
    const struct baton_frozen_string *string = baton_string_at(image, own->as.offset);
    return string->length == length && memcmp(string->bytes, bytes, length) == 0;
  }
  return own->tag == LUA_VTRUE || own->tag == LUA_VFALSE || own->as.integer == key->as.integer;
}

const struct baton_cell *baton_image_find(const struct baton_frozen_table *table,
    const struct baton_cell *key, const char *bytes, size_t length) {
  const struct baton_image *image = baton_image_of(table);
  const struct baton_frozen_pair *pairs = baton_pairs_of(table);
  uint32_t at;
  if (key->tag == LUA_VNUMINT && (uint64_t)key->as.integer - 1 < table->slots)
    return &table->array[key->as.integer - 1];
  if (table->pairs == 0) return NULL;
  for (at = key->hash & (table->pairs - 1); pairs[at].key.tag != LUA_VNIL;
       at = (at + 1) & (table->pairs - 1))
    if (is_key(image, &pairs[at].key, key, bytes, length)) return &pairs[at].value;
  return NULL;
}

/* }====================================================== */

/* {======================================================
** Making
** ======================================================= */

/* An object of the block. */
struct object {
  uint64_t offset; /* where it goes; of a userdata: its number among the references */
  uint32_t class_name; /* the number of a string, counted from 1 */
  uint8_t tag;
};

struct maker {
  const struct baton_block *block;
  const unsigned char *at;
  struct object *objects;
  uint32_t count, references;
  uint64_t size; /* first walk: of what was laid out */
  struct baton_image *image; /* second walk */
};

/* What is at one place of the block. */
struct piece {
  uint8_t tag;     /* of Lua's */
  uint32_t number;     /* of an object */
  lua_Integer integer; /* also the number of a closure of Lua's libraries */
  lua_Number real;
  lua_CFunction function;
};

static void take(struct maker *m, void *bytes, size_t size) {
  memcpy(bytes, m->at, size);
  m->at += size;
}

static uint64_t aligned(uint64_t size) { return (size + 7) & ~(uint64_t)7; }

/* Notes a new string and passes over its bytes. In the second walk, copies them. */
static uint32_t take_string(struct maker *m, uint8_t tag, uint64_t length) {
  struct object *object = &m->objects[m->count];
  if (m->image == NULL) {
    object->tag = tag;
    object->offset = m->size;
    m->size += aligned(sizeof(struct baton_frozen_string) + length + 1);
  } else {
    struct baton_frozen_string *string =
        (struct baton_frozen_string *)(void *)((char *)m->image + object->offset);
    string->length = length;
    memcpy(string->bytes, m->at, length);
    if (tag == LUA_VSHRSTR) string->hash = luaS_hash(string->bytes, length, m->image->seed);
  }
  m->at += length;
  return m->count++;
}

static void take_piece(struct maker *m, struct piece *piece);

static uint32_t take_table(struct maker *m, int has_class) {
  const uint32_t number = m->count++;
  struct piece name;
  m->objects[number].tag = LUA_VTABLE;
  if (has_class) {
    take_piece(m, &name);
    m->objects[number].class_name = name.number + 1;
  }
  return number;
}

static uint32_t take_userdata(struct maker *m) {
  m->objects[m->count].tag = LUA_VUSERDATA;
  m->objects[m->count].offset = m->references++;
  return m->count++;
}

static void take_object(struct maker *m, struct piece *piece, int tag) {
  uint64_t length;
  switch (tag) {
    case BATON_SEEN: take(m, &piece->number, 4); break;
    case BATON_SHORT_STRING:
      length = *m->at++;
      piece->number = take_string(m, LUA_VSHRSTR, length);
      break;
    case BATON_LONG_STRING:
      take(m, &length, sizeof length);
      piece->number = take_string(m, LUA_VLNGSTR, length);
      break;
    case BATON_TABLE: piece->number = take_table(m, 0); break;
    case BATON_INSTANCE: piece->number = take_table(m, 1); break;
    default: piece->number = take_userdata(m); break;
  }
  piece->tag = m->objects[piece->number].tag;
}

static void take_piece(struct maker *m, struct piece *piece) {
  const int tag = *m->at++;
  switch (tag) {
    case BATON_NIL: piece->tag = LUA_VNIL; break;
    case BATON_FALSE: piece->tag = LUA_VFALSE; break;
    case BATON_TRUE: piece->tag = LUA_VTRUE; break;
    case BATON_INTEGER:
      piece->tag = LUA_VNUMINT;
      take(m, &piece->integer, sizeof piece->integer);
      break;
    case BATON_FLOAT:
      piece->tag = LUA_VNUMFLT;
      take(m, &piece->real, sizeof piece->real);
      break;
    case BATON_C_FUNCTION:
      piece->tag = LUA_VLCF;
      take(m, &piece->function, sizeof piece->function);
      break;
    case BATON_CLOSURE:
      piece->tag = LUA_VCCL;
      piece->integer = *m->at++;
      break;
    default: take_object(m, piece, tag); break;
  }
}

/* A power of 2, of which at most three quarters are used. */
static uint64_t places_for(uint32_t pairs) {
  uint64_t places = 1;
  if (pairs == 0) return 0;
  while (places * 3 < (uint64_t)pairs * 4 || places < (uint64_t)pairs + 1) places *= 2;
  return places;
}

static void lay_out_table(struct maker *m, struct object *object) {
  struct piece piece;
  uint32_t slots, pairs;
  uint64_t cells;
  take(m, &slots, 4);
  take(m, &pairs, 4);
  object->offset = m->size;
  m->size += sizeof(struct baton_frozen_table) + slots * sizeof(struct baton_cell) +
      places_for(pairs) * sizeof(struct baton_frozen_pair);
  for (cells = slots + 2 * (uint64_t)pairs; cells > 0; cells--) take_piece(m, &piece);
}

/* A cell for what is at one place. */
static struct baton_cell cell_of(const struct maker *m, const struct piece *piece) {
  struct baton_cell cell;
  memset(&cell, 0, sizeof cell);
  cell.tag = piece->tag;
  switch (piece->tag) {
    case LUA_VNUMINT: case LUA_VCCL: cell.as.integer = piece->integer; break;
    case LUA_VNUMFLT: cell.as.number = piece->real; break;
    case LUA_VLCF: cell.as.function = piece->function; break;
    case LUA_VUSERDATA: cell.as.table = m->image->other[m->objects[piece->number].offset]; break;
    case LUA_VSHRSTR: case LUA_VLNGSTR: case LUA_VTABLE:
      cell.as.offset = m->objects[piece->number].offset;
      break;
    default: break; /* its tag says it all */
  }
  return cell;
}

static uint32_t hash_of(const struct baton_image *image, const struct baton_cell *key) {
  const struct baton_frozen_string *string;
  if (!is_string(key)) return baton_image_hash(key);
  string = baton_string_at(image, key->as.offset);
  return luaS_hash(string->bytes, string->length, image->seed);
}

static void write_table(struct maker *m, const struct object *object) {
  struct baton_frozen_table *table =
      (struct baton_frozen_table *)(void *)((char *)m->image + object->offset);
  struct baton_frozen_pair *pairs;
  struct baton_cell next;
  struct piece piece;
  uint32_t count, i;
  take(m, &table->slots, 4);
  take(m, &count, 4);
  table->offset = object->offset;
  table->pairs = (uint32_t)places_for(count);
  if (object->class_name != 0)
    table->class_name = m->objects[object->class_name - 1].offset;
  for (i = 0; i < table->slots; i++) {
    take_piece(m, &piece);
    table->array[i] = cell_of(m, &piece);
  }
  pairs = (struct baton_frozen_pair *)(void *)(table->array + table->slots);
  for (i = 0; i < count; i++) {
    struct baton_frozen_pair pair;
    uint32_t at;
    take_piece(m, &piece);
    pair.key = cell_of(m, &piece);
    take_piece(m, &piece);
    pair.value = cell_of(m, &piece);
    pair.key.hash = hash_of(m->image, &pair.key);
    at = pair.key.hash & (table->pairs - 1);
    while (pairs[at].key.tag != LUA_VNIL) at = (at + 1) & (table->pairs - 1);
    pairs[at] = pair;
  }
  memset(&next, 0, sizeof next);
  next.tag = LUA_VNUMINT;
  table->length = table->slots; /* the last slot is not empty */
  for (;;) {
    next.as.integer = (lua_Integer)table->length + 1;
    next.hash = baton_image_hash(&next);
    if (baton_image_find(table, &next, NULL, 0) == NULL) break;
    table->length++;
  }
}

static void walk(struct maker *m) {
  struct piece piece;
  uint32_t i;
  m->at = m->block->row;
  m->count = m->references = 0;
  take_piece(m, &piece);
  for (i = 0; i < m->count; i++) {
    if (m->objects[i].tag != LUA_VTABLE) continue;
    if (m->image == NULL)
      lay_out_table(m, &m->objects[i]);
    else
      write_table(m, &m->objects[i]);
  }
}

struct baton_image *baton_image_make(struct baton_block *block, uint32_t seed) {
  struct maker m = {.block = block};
  uint32_t i;
  if (!baton_block_may_allocate()) return NULL;
  m.objects = calloc(block->objects, sizeof *m.objects);
  if (m.objects == NULL) return NULL;
  m.size = sizeof *m.image + block->references * sizeof m.image->other[0];
  walk(&m);
  m.image = calloc(1, m.size);
  if (m.image != NULL) {
    m.image->references = 1;
    m.image->size = m.size;
    m.image->seed = seed;
    m.image->others = block->references;
    m.image->root = m.objects[0].offset;
    for (i = 0; i < block->references; i++) m.image->other[i] = block->held[i].object;
    walk(&m);
    block->given = block->references;
  }
  free(m.objects);
  return m.image;
}

/* }====================================================== */

/* {======================================================
** References
** ======================================================= */

/* Images do not change for their readers, but their counts do. */
static struct baton_image *counted(const struct baton_image *image) {
  return (struct baton_image *)(uintptr_t)image;
}

void baton_image_hold(const struct baton_image *image) {
  /* Relaxed: see the table in frozen.h. */
  __atomic_fetch_add(&counted(image)->references, 1, __ATOMIC_RELAXED);
}

/* Returns whether that was the last reference. */
static int drop(struct baton_image *image) {
  /* Release: pairs with the fence, so that the last one frees after all reads. */
  if (__atomic_fetch_sub(&image->references, 1, __ATOMIC_RELEASE) != 1) return 0;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return 1;
}

/* Images may refer to each other in a long chain, so they are freed from a list. */
void baton_image_release(const struct baton_image *image) {
  struct baton_image *list = NULL;
  if (!drop(counted(image))) return;
  list = counted(image);
  list->next = NULL;
  while (list != NULL) {
    struct baton_image *freed = list;
    uint32_t i;
    list = freed->next;
    for (i = 0; i < freed->others; i++) {
      struct baton_image *other = counted(baton_image_of(freed->other[i]));
      if (!drop(other)) continue;
      other->next = list;
      list = other;
    }
    free(freed);
  }
}

/* }====================================================== */

/* {======================================================
** Copies as plain tables: an image is written as a block, and that is copied in.
** ======================================================= */

/* What `parent` of an object that was met says here. */
enum { IS_STRING, IS_TABLE };

static int put_tag(struct baton_writer *w, int tag) {
  if (!baton_reserve(w, 16)) return 0;
  *w->at++ = (unsigned char)tag;
  return 1;
}

/* Notes a part of an image. Parts are found by their addresses, as a heap's objects are. */
static int put_part(
    struct baton_writer *w, const void *part, uint32_t what, int tag, int *is_new) {
  const uint32_t number = baton_meet(w, (GCObject *)(uintptr_t)part, what, is_new);
  if (number == BATON_NO_PARENT || !put_tag(w, *is_new ? tag : BATON_SEEN)) return 0;
  if (!*is_new) baton_put_u32(w, number);
  return 1;
}

static int put_string(struct baton_writer *w, const struct baton_frozen_string *string) {
  const int is_short = string->length <= LUAI_MAXSHORTLEN;
  int is_new;
  if (!put_part(w, string, IS_STRING, is_short ? BATON_SHORT_STRING : BATON_LONG_STRING, &is_new))
    return 0;
  if (!is_new) return 1;
  if (is_short)
    *w->at++ = (unsigned char)string->length;
  else
    baton_put(w, &string->length, sizeof string->length);
  if (!baton_reserve(w, string->length)) return 0;
  baton_put(w, string->bytes, string->length);
  return 1;
}

static int put_table(struct baton_writer *w, const struct baton_frozen_table *table) {
  int is_new;
  if (table->class_name == 0) return put_part(w, table, IS_TABLE, BATON_TABLE, &is_new);
  if (!put_part(w, table, IS_TABLE, BATON_INSTANCE, &is_new)) return 0;
  return !is_new || put_string(w, baton_string_at(baton_image_of(table), table->class_name));
}

static int put_cell(
    struct baton_writer *w, const struct baton_image *image, const struct baton_cell *cell) {
  switch (cell->tag) {
    case LUA_VSHRSTR: case LUA_VLNGSTR:
      return put_string(w, baton_string_at(image, cell->as.offset));
    case LUA_VTABLE: return put_table(w, baton_table_at(image, cell->as.offset));
    case LUA_VUSERDATA: return put_table(w, cell->as.table);
    case LUA_VCCL:
      if (!put_tag(w, BATON_CLOSURE)) return 0;
      *w->at++ = (unsigned char)cell->as.integer;
      return 1;
    case LUA_VNIL: return put_tag(w, BATON_NIL);
    case LUA_VFALSE: return put_tag(w, BATON_FALSE);
    case LUA_VTRUE: return put_tag(w, BATON_TRUE);
    case LUA_VNUMINT:
      if (!put_tag(w, BATON_INTEGER)) return 0;
      baton_put(w, &cell->as.integer, sizeof cell->as.integer);
      return 1;
    case LUA_VNUMFLT:
      if (!put_tag(w, BATON_FLOAT)) return 0;
      baton_put(w, &cell->as.number, sizeof cell->as.number);
      return 1;
    default:
      if (!put_tag(w, BATON_C_FUNCTION)) return 0;
      baton_put(w, &cell->as.function, sizeof cell->as.function);
      return 1;
  }
}

static int put_contents(struct baton_writer *w, const struct baton_frozen_table *table) {
  const struct baton_image *image = baton_image_of(table);
  const struct baton_frozen_pair *pairs = baton_pairs_of(table);
  uint32_t i, count = 0;
  for (i = 0; i < table->pairs; i++) count += pairs[i].key.tag != LUA_VNIL;
  if (!baton_reserve(w, 16)) return 0;
  baton_put_u32(w, table->slots);
  baton_put_u32(w, count);
  for (i = 0; i < table->slots; i++)
    if (!put_cell(w, image, &table->array[i])) return 0;
  for (i = 0; i < table->pairs; i++) {
    if (pairs[i].key.tag == LUA_VNIL) continue;
    if (!put_cell(w, image, &pairs[i].key) || !put_cell(w, image, &pairs[i].value)) return 0;
  }
  return 1;
}

static int write_block(struct baton_writer *w, const struct baton_frozen_table *root) {
  uint32_t i;
  if (!baton_block_grow(w, 0) || !put_table(w, root)) return 0;
  for (i = 0; i < w->count; i++) {
    const void *part = w->objects[i].object;
    if (w->objects[i].parent == IS_TABLE && !put_contents(w, part)) return 0;
  }
  w->block->size = (size_t)(w->at - w->block->row);
  w->block->values = 1;
  w->block->objects = w->count;
  return 1;
}

void baton_image_thaw(lua_State *L, const struct baton_frozen_table *table) {
  struct baton_writer w;
  int is_retry = 0, is_done;
  for (;;) {
    w.block = NULL;
    w.at = w.end = NULL;
    baton_met_begin(&w);
    is_done = write_block(&w, table);
    baton_met_end(&w);
    if (is_done) break;
    baton_block_free(w.block);
    if (is_retry++) baton_copy_raise_memory_error(L);
    lua_gc(L, LUA_GCCOLLECT);
  }
  baton_copy_in(L, w.block);
}

/* }====================================================== */
