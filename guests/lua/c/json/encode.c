/*
** encode(value): tables, and what cannot be written.
**
** There is no recursion, and the order is that of `next`. A table that is being written has a
** *level* on Lua's stack: the table, the position of what comes next in it, its length as an array,
** and a word about the level around it. A position is a number, and everything else is looked up
** anew after each stop. So others may change a table in the middle: then the text may have values
** from before and after the change, and an entry of a table that was rehashed may be missing or
** come twice.
**
** A table is an array if all its keys are positive integers, as in lua-cjson. Metamethods are not
** called.
*/
#include "json/inside.h"

#include "lstring.h"
#include "ltm.h"

#include <string.h>

enum { ARRAY, OBJECT };

enum { TABLE, POSITION, LENGTH, AROUND, LEVEL };
/* The word about the level around: its kind, and its place. */
#define PLACE_SHIFT 1

#define STEPS 4096         /* places of tables between two stops */
#define COUNTED 65536      /* places that are counted between two stops */
#define SPARE 1000         /* places of the stack that levels leave */

static inline StkId level_of(const struct baton_json_writer *w) {
  return w->L->ci->func.p + w->base;
}

static inline int is_due(struct baton_json_writer *w) {
  return l_unlikely((size_t)(w->at - w->start) >= w->stop || ++w->steps >= STEPS);
}

static inline void put(struct baton_json_writer *w, const char *text, size_t size) {
  baton_json_reserve(w, size);
  memcpy(w->at, text, size);
  w->at += size;
}

/* {======================================================
** Arrays
** ======================================================= */

struct counted {
  uint64_t items, last; /* values, and the last position */
  int is_object;        /* there is another key than a position */
};

static void count_slots(const Table *table, uint64_t from, uint64_t to, struct counted *counted) {
  for (; from < to; from++) {
    if (isempty(&table->array[from])) continue;
    counted->items++;
    if (from >= counted->last) counted->last = from + 1;
  }
}

static void count_nodes(const Table *table, uint64_t from, uint64_t to, struct counted *counted) {
  for (; from < to; from++) {
    const Node *node = gnode(table, from);
    if (isempty(gval(node))) continue;
    if (!keyisinteger(node) || keyival(node) < 1) {
      counted->is_object = 1;
      return;
    }
    counted->items++;
    if ((uint64_t)keyival(node) > counted->last) counted->last = (uint64_t)keyival(node);
  }
}

/* Counts one part of the table on the top of the stack. Others may run meanwhile. */
static void count(lua_State *L, int is_array_part, struct counted *counted) {
  uint64_t from = 0;
  for (;;) {
    const Table *table = hvalue(s2v(L->top.p - 1));
    const uint64_t size = is_array_part ? luaH_realasize(table) : (uint64_t)sizenode(table);
    const uint64_t to = size > from + COUNTED ? from + COUNTED : size;
    (is_array_part ? count_slots : count_nodes)(table, from, to, counted);
    if (counted->is_object || to >= size) return;
    from = to;
    baton_json_stop(L);
  }
}

/* The length of the table on the top of the stack as an array, or -1 if it is an object. Sets `why`
   if it is neither. */
static lua_Integer length_of(struct baton_json_writer *w, const char **why) {
  const struct baton_json_settings *settings = w->settings;
  Table *table = hvalue(s2v(w->L->top.p - 1));
  struct counted counted = {0, 0, 0};
  if (table->metatable != NULL && table->metatable == w->array_mt)
    return (lua_Integer)luaH_getn(table);
  count(w->L, 0, &counted);
  if (counted.is_object) return -1;
  count(w->L, 1, &counted);
  /* as floor((last - 1) / ratio) >= items, it is last > items * ratio */
  if (settings->sparse_ratio > 0 && counted.last > (uint64_t)settings->sparse_safe &&
      (counted.last - 1) / (uint64_t)settings->sparse_ratio >= counted.items) {
    if (!settings->sparse_converts) *why = "excessively sparse array";
    return -1;
  }
  return (lua_Integer)counted.last;
}

/* Whether the table on the top of the stack is written as an array. */
static int is_array(struct baton_json_writer *w, lua_Integer length) {
  Table *table = hvalue(s2v(w->L->top.p - 1));
  if (length > 0) return 1;
  if (table->metatable != NULL && table->metatable == w->array_mt) return 1;
  if (length == 0 && !w->settings->empty_as_object) return 1;
  return table->metatable != NULL && table->metatable == w->empty_array_mt &&
      luaH_getn(table) == 0;
}

/* }====================================================== */

/* {======================================================
** Levels
** ======================================================= */

static void new_line(struct baton_json_writer *w) {
  const struct baton_json_settings *settings = w->settings;
  const size_t size = (size_t)settings->indent_size;
  int i;
  if (l_likely(size == 0)) return;
  baton_json_reserve(w, 1);
  *w->at++ = '\n';
  for (i = 0; i < w->depth; i++) put(w, settings->indent, size);
}

/* What comes before a value or a key. */
static inline void separate(struct baton_json_writer *w) {
  baton_json_reserve(w, 1);
  if (!w->is_first) *w->at++ = ',';
  if (l_unlikely(w->settings->indent_size > 0)) new_line(w);
}

/* Opens a level for a table. Returns 0 if it is refused. */
static int open_level(struct baton_json_writer *w, const TValue *value) {
  lua_State *L = w->L;
  const char *why = NULL;
  const lua_Integer around = w->kind | (lua_Integer)w->base << PLACE_SHIFT;
  lua_Integer length;
  TValue table;
  StkId base;
  int array;
  if (l_unlikely(w->depth >= w->settings->encode_max_depth ||
          L->top.p - L->stack.p > LUAI_MAXSTACK - SPARE)) {
    w->depth++;
    return baton_json_refuse(w, NULL, "excessive nesting");
  }
  setobj(L, &table, value); /* which may be on the stack itself */
  if (L->ci->top.p - L->top.p < LEVEL) baton_json_grow(L);
  setobj2s(L, L->top.p, &table);
  L->top.p++;
  length = length_of(w, &why);
  if (l_unlikely(why != NULL)) return baton_json_refuse(w, "table", why);
  array = is_array(w, length);
  base = L->top.p - 1;
  setivalue(s2v(base + POSITION), 0);
  setivalue(s2v(base + LENGTH), length > 0 ? length : 0);
  setivalue(s2v(base + AROUND), around);
  L->top.p = base + LEVEL;
  w->base = base - L->ci->func.p;
  w->kind = array ? ARRAY : OBJECT;
  w->depth++;
  w->is_first = 1;
  put(w, array ? "[" : "{", 1);
  return 1;
}

static void close_level(struct baton_json_writer *w) {
  const StkId base = level_of(w);
  const lua_Integer around = ivalue(s2v(base + AROUND));
  w->depth--;
  if (!w->is_first) new_line(w);
  put(w, w->kind == ARRAY ? "]" : "}", 1);
  w->kind = (int)(around & ((1 << PLACE_SHIFT) - 1));
  w->base = (ptrdiff_t)(around >> PLACE_SHIFT);
  w->is_first = 0;
  w->L->top.p = base;
}

/* }====================================================== */

/* {======================================================
** Values
** ======================================================= */

static const char unsupported[] = "type not supported";

/* Writes a value, or opens a level for it. Returns 0 if it is refused. */
static int write_value(struct baton_json_writer *w, const TValue *value) {
  switch (ttypetag(value)) {
    case LUA_VSHRSTR: case LUA_VLNGSTR: return baton_json_write_string(w, tsvalue(value));
    case LUA_VNUMINT: baton_json_write_integer(w, ivalue(value)); return 1;
    case LUA_VNUMFLT: return baton_json_write_float(w, fltvalue(value));
    case LUA_VTABLE: return open_level(w, value);
    case LUA_VTRUE: put(w, "true", 4); return 1;
    case LUA_VFALSE: put(w, "false", 5); return 1;
    case LUA_VLIGHTUSERDATA:
      if (pvalue(value) == NULL) break;
      if (pvalue(value) != &baton_json_empty_array)
        return baton_json_refuse(w, "userdata", unsupported);
      put(w, "[]", 2);
      return 1;
    default:
      if (!ttisnil(value)) return baton_json_refuse(w, ttypename(ttype(value)), unsupported);
  }
  put(w, "null", 4);
  return 1;
}

/* Whether the value that was refused is left out. */
static int is_left_out(struct baton_json_writer *w, size_t before, int was_first) {
  if (w->why != unsupported || !w->settings->skips_unsupported || w->depth == 0) return 0;
  w->why = NULL;
  w->at = w->start + before;
  w->is_first = was_first;
  w->L->top.p = level_of(w) + LEVEL;
  return 1;
}

static int write_number_as_key(struct baton_json_writer *w, const TValue *key) {
  put(w, "\"", 1);
  if (ttisinteger(key))
    baton_json_write_integer(w, ivalue(key));
  else if (!baton_json_write_float(w, fltvalue(key)))
    return 0;
  put(w, "\"", 1);
  return 1;
}

static int write_key(struct baton_json_writer *w, const TValue *key) {
  if (l_likely(ttisstring(key))) {
    if (!baton_json_write_string(w, tsvalue(key))) return 0;
  } else if (ttisnumber(key)) {
    if (!write_number_as_key(w, key)) return 0;
  } else {
    return baton_json_refuse(
        w, ttypename(ttype(key)), "table key must be a number or string");
  }
  if (l_likely(w->settings->indent_size == 0))
    put(w, ":", 1);
  else
    put(w, ": ", 2);
  return 1;
}

/* Writes the innermost level up to its end, or up to a table in it, or up to the next stop. Returns
   0 if something is refused. */
static int write_items(struct baton_json_writer *w) {
  const StkId base = level_of(w);
  Table *table = hvalue(s2v(base));
  const lua_Integer length = ivalue(s2v(base + LENGTH));
  const int depth = w->depth;
  lua_Integer i = ivalue(s2v(base + POSITION));
  while (i < length) {
    const TValue *value = (lua_Unsigned)i < table->alimit ? &table->array[i]
                                                          : luaH_getint(table, i + 1);
    const size_t before = (size_t)(w->at - w->start);
    const int was_first = w->is_first;
    separate(w);
    setivalue(s2v(level_of(w) + POSITION), ++i);
    w->is_first = 0;
    if (l_unlikely(!write_value(w, value)) && !is_left_out(w, before, was_first)) return 0;
    if (w->depth != depth || is_due(w)) return 1;
  }
  close_level(w);
  return 1;
}

/* The pair at a position, in the order of `next`. Returns 0 if there is none. */
static int pair_at(
    lua_State *L, Table *table, lua_Integer position, uint64_t slots, TValue *key,
    const TValue **value) {
  if ((uint64_t)position < slots) {
    *value = &table->array[position];
    if (isempty(*value)) return 0;
    setivalue(key, position + 1);
  } else {
    const Node *node = gnode(table, position - (lua_Integer)slots);
    *value = gval(node);
    if (isempty(*value)) return 0;
    getnodekey(L, key, node);
  }
  return 1;
}

/* A pair with a long key, in whose middle others may run: the table may lose the value then. */
static int write_long_pair(struct baton_json_writer *w, const TValue *key, const TValue *value) {
  lua_State *L = w->L;
  TValue kept;
  if (L->ci->top.p - L->top.p < 1) baton_json_grow(L);
  setobj2s(L, L->top.p, value);
  L->top.p++;
  if (!write_key(w, key)) return 0;
  setobj(L, &kept, s2v(L->top.p - 1));
  if (ttisstring(&kept)) { /* it may be long, too: it stays on the stack */
    const int is_written = write_value(w, &kept);
    L->top.p--;
    return is_written;
  }
  L->top.p--;
  return write_value(w, &kept);
}

static int write_pair(struct baton_json_writer *w, const TValue *key, const TValue *value) {
  if (l_unlikely(ttisstring(key) && tsslen(tsvalue(key)) >= BATON_JSON_PIECE))
    return write_long_pair(w, key, value);
  return write_key(w, key) && write_value(w, value);
}

static int write_pairs(struct baton_json_writer *w) {
  lua_State *L = w->L;
  const StkId base = level_of(w);
  Table *table = hvalue(s2v(base));
  const uint64_t slots = luaH_realasize(table);
  const uint64_t all = slots + (uint64_t)sizenode(table);
  const int depth = w->depth;
  lua_Integer i = ivalue(s2v(base + POSITION));
  while ((uint64_t)i < all) {
    const size_t before = (size_t)(w->at - w->start);
    const int was_first = w->is_first;
    const TValue *value;
    TValue key;
    const int is_pair = pair_at(L, table, i, slots, &key, &value);
    setivalue(s2v(level_of(w) + POSITION), ++i);
    if (is_pair) {
      const unsigned stops = w->stops;
      separate(w);
      w->is_first = 0;
      if (l_unlikely(!write_pair(w, &key, value)) && !is_left_out(w, before, was_first)) return 0;
      if (w->stops != stops) return 1; /* the table may have another size */
    }
    if (w->depth != depth || is_due(w)) return 1;
  }
  close_level(w);
  return 1;
}

static int write_all(struct baton_json_writer *w, const TValue *value) {
  if (!write_value(w, value)) return 0;
  while (w->depth > 0) {
    if (is_due(w) && !baton_json_pause(w)) return 0;
    if (!(w->kind == ARRAY ? write_items(w) : write_pairs(w))) return 0;
  }
  return (size_t)(w->at - w->start) <= (lua_Unsigned)w->settings->encode_max_size ||
      baton_json_pause(w);
}

/* }====================================================== */

/* Raises an error, or returns it. */
static int refuse(struct baton_json_writer *w) {
  lua_State *L = w->L;
  lua_settop(L, 0);
  if (w->type != NULL)
    lua_pushfstring(L, "Cannot serialise %s: %s", w->type, w->why);
  else if (w->depth > w->settings->encode_max_depth)
    lua_pushfstring(L, "Cannot serialise, %s (%d)", w->why, w->depth);
  else
    lua_pushfstring(L, "Cannot serialise, %s (at most %I bytes are allowed)", w->why,
        (LUAI_UACINT)w->settings->encode_max_size);
  if (!w->settings->is_safe) return luaL_error(L, "%s", lua_tostring(L, -1));
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

static const Table *metatable_at(lua_State *L, int upvalue) {
  return (const Table *)lua_topointer(L, lua_upvalueindex(upvalue));
}

/* encode(value) */
int baton_json_encode(lua_State *L) {
  struct baton_json_settings settings =
      *(struct baton_json_settings *)lua_touserdata(L, lua_upvalueindex(BATON_JSON_SETTINGS));
  struct baton_json_writer w;
  TString *text;
  luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
  lua_pushnil(L); /* for what has the text */
  w.L = L;
  w.settings = &settings;
  w.array_mt = metatable_at(L, BATON_JSON_ARRAY_MT);
  w.empty_array_mt = metatable_at(L, BATON_JSON_EMPTY_ARRAY_MT);
  w.start = w.at = w.local;
  w.end = w.local + sizeof w.local;
  w.stop = BATON_JSON_PIECE;
  if (settings.encode_max_size < BATON_JSON_PIECE) w.stop = (size_t)settings.encode_max_size + 1;
  w.steps = w.stops = 0;
  w.box = 2;
  w.base = 0;
  w.kind = ARRAY;
  w.depth = 0;
  w.is_first = 1;
  w.type = w.why = NULL;
  baton_lua_enter(L);
  if (l_unlikely(!write_all(&w, s2v(L->ci->func.p + 1)))) {
    baton_lua_leave(L);
    return refuse(&w);
  }
  text = luaS_newlstr(L, w.start, (size_t)(w.at - w.start));
  setsvalue2s(L, L->top.p, text); /* there is room: LUA_MINSTACK */
  L->top.p++;
  luaC_checkGC(L);
  baton_lua_leave(L);
  return 1;
}
