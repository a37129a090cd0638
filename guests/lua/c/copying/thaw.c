/*
** Copies of frozen values as plain tables: an image is written as a block, and that is copied in.
*/
#include "copying/frozen.h"

#include <stdlib.h>

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
      return put_tag(w, BATON_NAMED) && put_string(w, baton_string_at(image, cell->as.offset));
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

static int walk(struct baton_writer *w, const struct baton_frozen_table *root) {
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
    is_done = walk(&w, table);
    baton_met_end(&w);
    if (is_done) break;
    baton_block_free(w.block);
    if (is_retry++) baton_copy_raise_memory_error(L);
    lua_gc(L, LUA_GCCOLLECT);
  }
  baton_copy_in(L, w.block);
}
