/*
** Reading frozen values without allocating. All inside the VM but for baton_frozen_note.
**
** The interpreter's loop and Lua's API read through baton_frozen_get, before they look for a
** metamethod. Where an object has to be made, that leaves the work to __index, a function of C.
*/
#include "copying/frozen.h"

#include "lstring.h"
#include "lvm.h"

static inline struct baton_cached *entry_of(struct baton_frozen_heap *heap, const void *part) {
  const uint64_t bits = (uint64_t)((uintptr_t)part >> 3) * 0x9E3779B97F4A7C15u;
  return &heap->cache[bits >> 56];
}

static inline GCObject *find_cached(struct baton_frozen_heap *heap, const void *part) {
  const struct baton_cached *entry = entry_of(heap, part);
  if (heap->collections == NULL || entry->part != part) return NULL;
  return entry->collection == *heap->collections ? entry->object : NULL;
}

/* Notes the object on the top of the stack. Outside the VM. */
void baton_frozen_note(lua_State *L, struct baton_frozen_heap *heap, const void *part) {
  struct baton_cached *entry = entry_of(heap, part);
  if (heap->collections == NULL) return;
  baton_lua_enter(L);
  entry->part = part;
  entry->object = gcvalue(s2v(L->top.p - 1));
  entry->collection = *heap->collections;
  baton_lua_leave(L);
}

static inline uint64_t word_at(const char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

/* As memcmp, for bytes that are nearly always the same and few: without a call. */
static inline int are_same(const char *a, const char *b, size_t length) {
  size_t i;
  if (length < sizeof(uint64_t)) {
    for (i = 0; i < length; i++)
      if (a[i] != b[i]) return 0;
    return 1;
  }
  for (i = 0; i + sizeof(uint64_t) < length; i += sizeof(uint64_t))
    if (word_at(a + i) != word_at(b + i)) return 0;
  i = length - sizeof(uint64_t);
  return word_at(a + i) == word_at(b + i);
}

/* The string in this heap with these bytes, or NULL. As luaS_newlstr, but the hash is known. */
static inline TString *find_short_string(
    const global_State *g, const struct baton_frozen_string *string) {
  TString *found = g->strt.hash[lmod(string->hash, g->strt.size)];
  for (; found != NULL; found = found->u.hnext) {
    if (found->hash != string->hash || found->shrlen != string->length ||
        !are_same(getshrstr(found), string->bytes, string->length))
      continue;
    if (isdead(g, found)) changewhite(found); /* not swept yet */
    return found;
  }
  return NULL;
}

static int give_object(struct baton_frozen_heap *heap, const void *part, TValue *to) {
  GCObject *object = find_cached(heap, part);
  if (object == NULL) return 0;
  to->value_.gc = object;
  to->tt_ = ctb(object->tt);
  return 1;
}

/* Stores the value of a cell. Returns 0 if it has to be made first. */
static inline int give(const global_State *g, const struct baton_view *view,
    const struct baton_cell *cell, TValue *to) {
  const struct baton_frozen_string *string;
  const TValue *function;
  TString *found;
  switch (cell->tag) {
    case LUA_VNUMINT: setivalue(to, cell->as.integer); return 1;
    case LUA_VNUMFLT: setfltvalue(to, cell->as.number); return 1;
    case LUA_VTRUE: setbtvalue(to); return 1;
    case LUA_VFALSE: setbfvalue(to); return 1;
    case LUA_VLCF: setfvalue(to, cell->as.function); return 1;
    case LUA_VSHRSTR:
      string = baton_string_at(view->image, cell->as.offset);
      if (l_unlikely(view->image->seed != g->seed)) return 0;
      found = find_short_string(g, string);
      if (found == NULL) return 0;
      to->value_.gc = obj2gco(found);
      to->tt_ = ctb(LUA_VSHRSTR);
      return 1;
    case LUA_VLNGSTR: case LUA_VTABLE:
      return give_object(view->heap, (const char *)view->image + cell->as.offset, to);
    case LUA_VUSERDATA: return give_object(view->heap, cell->as.table, to);
    case LUA_VCCL:
      function = baton_copy_function_of(g, cell->as.integer);
      to->value_ = function->value_;
      to->tt_ = function->tt_;
      return 1;
    default: return 0;
  }
}

static inline uint32_t hash_in(
    const global_State *g, const struct baton_image *image, const TString *key) {
  if (l_likely(key->tt == LUA_VSHRSTR && image->seed == g->seed)) return key->hash;
  return luaS_hash(getstr(key), tsslen(key), image->seed);
}

static inline const struct baton_cell *find_short(
    const global_State *g, const struct baton_view *view, const TString *key) {
  const struct baton_frozen_table *table = view->table;
  const struct baton_frozen_pair *pairs = baton_pairs_of(table);
  const uint32_t last = table->pairs - 1, hash = hash_in(g, view->image, key);
  uint32_t at;
  if (l_unlikely(table->pairs == 0)) return NULL;
  for (at = hash & last; pairs[at].key.tag != LUA_VNIL; at = (at + 1) & last) {
    const struct baton_frozen_string *string;
    if (pairs[at].key.hash != hash || pairs[at].key.tag != LUA_VSHRSTR) continue;
    string = baton_string_at(view->image, pairs[at].key.as.offset);
    if (string->length == key->shrlen &&
        are_same(string->bytes, getshrstr(key), key->shrlen))
      return &pairs[at].value;
  }
  return NULL;
}

/* A table as a key is a view. It lies in the same image, or in another one. */
static const struct baton_cell *find_view(
    const struct baton_view *view, const struct baton_view *key) {
  struct baton_cell cell;
  memset(&cell, 0, sizeof cell);
  if (key->image == view->image) {
    cell.tag = LUA_VTABLE;
    cell.as.offset = key->table->offset;
  } else {
    cell.tag = LUA_VUSERDATA;
    cell.as.table = key->table;
  }
  cell.hash = baton_image_hash(&cell);
  return baton_image_find(view->table, &cell, NULL, 0);
}

static const struct baton_cell *find_string(
    lua_State *L, const struct baton_view *view, const TString *key) {
  struct baton_cell cell;
  memset(&cell, 0, sizeof cell);
  cell.tag = LUA_VLNGSTR;
  cell.hash = hash_in(G(L), view->image, key);
  return baton_image_find(view->table, &cell, getstr(key), tsslen(key));
}

static const struct baton_cell *find_other(
    lua_State *L, const struct baton_view *view, const TValue *key) {
  struct baton_cell cell;
  const struct baton_view *table = baton_view_of(key);
  if (table != NULL) return find_view(view, table);
  memset(&cell, 0, sizeof cell);
  cell.tag = (uint8_t)ttypetag(key);
  switch (cell.tag) {
    case LUA_VNUMINT: cell.as.integer = ivalue(key); break;
    case LUA_VNUMFLT:
      cell.as.number = fltvalue(key);
      if (luaV_flttointeger(fltvalue(key), &cell.as.integer, F2Ieq)) cell.tag = LUA_VNUMINT;
      break;
    case LUA_VTRUE: case LUA_VFALSE: break;
    case LUA_VLCF: cell.as.function = fvalue(key); break;
    case LUA_VCCL:
      cell.as.integer = baton_copy_number_of(L, key);
      if (cell.as.integer == 0) return NULL;
      break;
    default: return NULL;
  }
  cell.hash = baton_image_hash(&cell);
  return baton_image_find(view->table, &cell, NULL, 0);
}

/* The value of any key, or NULL. */
static inline const struct baton_cell *find(
    lua_State *L, const struct baton_view *view, const TValue *key) {
  const struct baton_cell *cell;
  if (ttisshrstring(key))
    cell = find_short(G(L), view, tsvalue(key));
  else if (ttisinteger(key) && l_castS2U(ivalue(key)) - 1u < view->table->slots)
    cell = &view->table->array[ivalue(key) - 1];
  else if (ttisstring(key))
    cell = find_string(L, view, tsvalue(key));
  else
    cell = find_other(L, view, key);
  return cell != NULL && cell->tag != LUA_VNIL ? cell : NULL;
}

static inline struct baton_field *field_of(const struct baton_view *view, const TString *key) {
  const uintptr_t table = (uintptr_t)view->table >> 3, name = (uintptr_t)key >> 4;
  return &view->heap->fields[(table ^ name ^ name >> 8) % BATON_FIELDS];
}

/* Reads the field of a short string and notes it. */
static int get_field(
    lua_State *L, const struct baton_view *view, const TString *key, struct baton_field *field,
    TValue *to) {
  const struct baton_cell *cell;
  if (l_unlikely(view->holder->state == BATON_HOLDS_NOTHING)) return 0;
  cell = find_short(G(L), view, key);
  if (l_unlikely(cell == NULL || cell->tag == LUA_VNIL)) {
    if (view->table->class_name != 0) return 0;
    setnilvalue(to);
    return 1;
  }
  if (!give(G(L), view, cell, to)) return 0;
  if (l_unlikely(view->heap->collections == NULL)) return 1;
  field->table = view->table;
  field->key = key;
  field->collection = *view->heap->collections;
  setobj(L, &field->value, to);
  return 1;
}

int baton_frozen_give(const global_State *g, const struct baton_view *view,
    const struct baton_cell *cell, TValue *to) {
  return give(g, view, cell, to);
}

const struct baton_cell *baton_frozen_find(
    lua_State *L, const struct baton_view *view, const TValue *key) {
  return find(L, view, key);
}

/* Replaces __index in the interpreter's loop and in Lua's API, where nothing has to be made. */
int baton_frozen_get(lua_State *L, const Udata *object, const TValue *key, TValue *to) {
  const struct baton_view *view = (const struct baton_view *)getudatamem(object);
  const struct baton_cell *cell;
  if (l_unlikely(object->metatable != view->heap->metatable)) return 0;
  if (ttisshrstring(key)) {
    const TString *name = tsvalue(key);
    struct baton_field *field = field_of(view, name);
    if (l_unlikely(field->table != view->table || field->key != name ||
            field->collection != *view->heap->collections))
      return get_field(L, view, name, field, to);
    setobj(L, to, &field->value);
    return 1;
  }
  if (l_unlikely(view->holder->state == BATON_HOLDS_NOTHING)) return 0;
  cell = find(L, view, key);
  if (l_likely(cell != NULL)) return give(G(L), view, cell, to);
  if (view->table->class_name != 0) return 0;
  setnilvalue(to);
  return 1;
}

/* Replaces __len there. */
int baton_frozen_length(const Udata *object, TValue *to) {
  const struct baton_view *view = (const struct baton_view *)getudatamem(object);
  if (l_unlikely(object->metatable != view->heap->metatable)) return 0;
  if (l_unlikely(view->holder->state == BATON_HOLDS_NOTHING)) return 0;
  setivalue(to, (lua_Integer)view->table->length);
  return 1;
}
