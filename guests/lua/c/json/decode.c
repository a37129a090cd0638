/*
** decode(text): the containers of a text, and what is wrong with it.
**
** There is no recursion. A container that is open has a *level* on Lua's stack: its table, or nil
** as long as there is none; a word about the level around it; and the values that are not in the
** table yet. Most containers get their table at their end, in its final size, so that nothing is
** rehashed. A large one gets it earlier, and its values in portions.
**
** The names of what was found instead are those of lua-cjson.
*/
#include "json/inside.h"
#include "state/state.h"

#include <limits.h>
#include <string.h>

enum { ROOT, ARRAY, OBJECT };

/* A level: the table, and the word. */
#define LEVEL 2
/* The word: the kind of the level around it, the place of that, and how many values of an array are
   in its table. */
#define PLACE_SHIFT 2
#define COUNT_SHIFT 24
#define PLACE_MASK ((1 << (COUNT_SHIFT - PLACE_SHIFT)) - 1)
_Static_assert(LUAI_MAXSTACK < PLACE_MASK, "a place of the stack fits into the word");

#define MANY 64      /* values that wait for their table while a container in theirs is open */
#define SPARE 100000 /* places of the stack that levels leave for other values */

static inline StkId level_of(const struct baton_json_reader *r) {
  return r->L->ci->func.p + r->base;
}

/* {======================================================
** Tables
** ======================================================= */

static Table *table_at(lua_State *L, StkId base) {
  if (ttisnil(s2v(base))) {
    Table *table = luaH_new(L);
    sethvalue2s(L, base, table);
  }
  return hvalue(s2v(base));
}

static void put_pairs(lua_State *L, Table *table, StkId from, StkId to) {
  for (; from < to; from += 2) {
    const TValue *key = s2v(from), *value = s2v(from + 1);
    const TValue *slot = ttisshrstring(key) ? luaH_getshortstr(table, tsvalue(key))
                                            : luaH_get(table, key);
    luaH_finishset(L, table, key, slot, s2v(from + 1)); /* of equal keys, the last one stays */
    luaC_barrierback(L, obj2gco(table), value);
  }
  invalidateTMcache(table); /* it may become a metatable */
}

static void put_items(lua_State *L, Table *table, uint64_t count, StkId from, StkId to) {
  TValue *array = table->array + count;
  for (; from < to; from++, array++) {
    setobj2t(L, array, s2v(from));
    luaC_barrierback(L, obj2gco(table), s2v(from));
  }
}

/* Puts what waits on the stack into the table of the innermost level, except for the last `keep`
   values. */
static void flush(struct baton_json_reader *r, int keep) {
  lua_State *L = r->L;
  const StkId base = level_of(r), from = base + LEVEL, to = L->top.p - keep;
  Table *table;
  if (from >= to) return;
  table = table_at(L, base);
  if (r->kind == OBJECT) {
    put_pairs(L, table, from, to);
  } else {
    const lua_Integer word = ivalue(s2v(base + 1));
    const uint64_t count = (uint64_t)word >> COUNT_SHIFT, all = count + (uint64_t)(to - from);
    if (all > luaH_realasize(table)) {
      if (l_unlikely(all > INT_MAX)) luaG_runerror(r->L, "array too large");
      luaH_resizearray(L, table, (unsigned)(all > 2 * count ? all : 2 * count));
    }
    put_items(L, table, count, from, to);
    setivalue(s2v(base + 1), word + ((lua_Integer)(to - from) << COUNT_SHIFT));
  }
  if (keep != 0) setobjs2s(L, from, to);
  L->top.p = from + keep;
}

/* The last portion, and the table's final size. */
static void complete_array(struct baton_json_reader *r, StkId base) {
  lua_State *L = r->L;
  const size_t waiting = (size_t)(L->top.p - (base + LEVEL));
  Table *table;
  if (l_likely(ttisnil(s2v(base)))) {
    table = table_at(L, base);
    if (waiting > 0) {
      luaH_resize(L, table, (unsigned)waiting, 0);
      put_items(L, table, 0, base + LEVEL, L->top.p);
    }
  } else {
    flush(r, 0);
    table = hvalue(s2v(base));
    luaH_resizearray(L, table, (unsigned)((uint64_t)ivalue(s2v(base + 1)) >> COUNT_SHIFT));
  }
  if (r->settings->marks_arrays) {
    table->metatable = r->array_mt;
    luaC_objbarrier(L, table, r->array_mt);
  }
}

static void complete_object(struct baton_json_reader *r, StkId base) {
  lua_State *L = r->L;
  const size_t waiting = (size_t)(L->top.p - (base + LEVEL));
  if (l_likely(ttisnil(s2v(base)))) {
    Table *table = table_at(L, base);
    if (waiting == 0) return;
    luaH_resize(L, table, 0, (unsigned)(waiting / 2));
    put_pairs(L, table, base + LEVEL, L->top.p);
  } else {
    flush(r, 0);
  }
}

/* }====================================================== */

/* {======================================================
** Levels
** ======================================================= */

/* Opens a level. Returns 0 if there are too many. */
static int open_level(struct baton_json_reader *r, int kind) {
  lua_State *L = r->L;
  const lua_Integer around = r->kind | (lua_Integer)r->base << PLACE_SHIFT;
  if (l_unlikely(++r->depth > r->settings->decode_max_depth ||
          L->top.p - L->stack.p > LUAI_MAXSTACK - SPARE))
    return 0;
  if (r->kind != ROOT && L->top.p - level_of(r) > MANY) flush(r, r->kind == OBJECT);
  if (l_unlikely(L->ci->top.p - L->top.p < LEVEL)) baton_json_grow(L);
  r->base = L->top.p - L->ci->func.p;
  r->kind = kind;
  setnilvalue(s2v(L->top.p));
  setivalue(s2v(L->top.p + 1), around);
  L->top.p += LEVEL;
  return 1;
}

/* Closes the innermost level. Its table is a value of the level around it. */
static void close_level(struct baton_json_reader *r) {
  const StkId base = level_of(r);
  const lua_Integer word = ivalue(s2v(base + 1));
  if (r->kind == ARRAY)
    complete_array(r, base);
  else
    complete_object(r, base);
  r->kind = (int)(word & ((1 << PLACE_SHIFT) - 1));
  r->base = (ptrdiff_t)(word >> PLACE_SHIFT & PLACE_MASK);
  r->L->top.p = base + 1;
  r->depth--;
}

/* }====================================================== */

/* {======================================================
** The walk
** ======================================================= */

static const char too_deep[] = "";

static inline void skip(struct baton_json_reader *r) {
  if ((unsigned char)*r->at <= ' ' || *r->at == '/') baton_json_skip_long(r);
}

static void stop(struct baton_json_reader *r) {
  baton_json_stop(r->L);
  r->stop = r->at + BATON_JSON_PIECE;
  if (r->kind != ROOT && r->L->top.p - level_of(r) > MANY) flush(r, 0);
}

/* Reads a key and its colon. Returns what was expected, or NULL. */
static const char *read_key(struct baton_json_reader *r) {
  skip(r);
  if (l_unlikely(*r->at != '"' || !baton_json_read_string(r))) return "object key string";
  skip(r);
  if (l_unlikely(*r->at != ':')) return "colon";
  r->at++;
  return NULL;
}

/* Begins a container: what comes first in it, up to the first value. Sets `is_empty` if it has
   ended. Returns what was expected, or NULL. */
static const char *begin(struct baton_json_reader *r, int kind, int *is_empty) {
  const char last = kind == ARRAY ? ']' : '}';
  if (l_unlikely(!open_level(r, kind))) return too_deep;
  r->at++;
  skip(r);
  *is_empty = *r->at == last;
  if (!*is_empty) return kind == OBJECT ? read_key(r) : NULL;
  r->at++;
  close_level(r);
  return NULL;
}

/* After a value: goes on to where the next one begins. Sets `is_over` if that was the last one.
   Returns what was expected, or NULL. */
static const char *go_on(struct baton_json_reader *r, int *is_over) {
  for (;;) {
    if (l_unlikely(r->at >= r->stop)) stop(r);
    skip(r);
    *is_over = r->kind == ROOT;
    if (*is_over) {
      if (r->at == r->end) return NULL;
      if (*r->at == '\0') baton_json_fault(r, "invalid token", r->at);
      return "the end";
    }
    if (*r->at == ',') {
      r->at++;
      return r->kind == OBJECT ? read_key(r) : NULL;
    }
    if (*r->at != (r->kind == ARRAY ? ']' : '}'))
      return r->kind == ARRAY ? "comma or array end" : "comma or object end";
    r->at++;
    close_level(r);
  }
}

/* Reads the text, and leaves its value on the top. Returns what was expected, or NULL. Inside the
   VM. */
static const char *read_text(struct baton_json_reader *r) {
  int is_empty, is_over;
  const char *expected;
  do {
    skip(r);
    is_empty = 1;
    switch (*r->at) {
      case '[': expected = begin(r, ARRAY, &is_empty); break;
      case '{': expected = begin(r, OBJECT, &is_empty); break;
      case '"': expected = baton_json_read_string(r) ? NULL : "value"; break;
      default: expected = baton_json_read_scalar(r) ? NULL : "value"; break;
    }
    is_over = 0;
    if (is_empty && expected == NULL) expected = go_on(r, &is_over);
    if (l_unlikely(expected != NULL)) return expected;
  } while (!is_over);
  return NULL;
}

/* }====================================================== */

/* {======================================================
** What is wrong
** ======================================================= */

/* Names what is at `r->at`, unless something is wrong in it. */
static void name_found(struct baton_json_reader *r) {
  static const char marks[] = "{}[],:";
  static const char *const names[] = {
      "T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_COMMA", "T_COLON"};
  const char *at = r->at, *mark = *at != '\0' ? strchr(marks, *at) : NULL;
  if (mark != NULL) {
    baton_json_fault(r, names[mark - marks], at);
  } else if (*at == '\0') {
    baton_json_fault(r, "T_END", at);
  } else if (*at == '"' ? baton_json_read_string(r) : baton_json_read_scalar(r)) {
    const TValue *value = s2v(r->L->top.p - 1);
    baton_json_fault(r,
        ttisstring(value)      ? "T_STRING"
            : ttisinteger(value) ? "T_INTEGER"
            : ttisnumber(value)  ? "T_NUMBER"
            : ttisboolean(value) ? "T_BOOLEAN"
                                 : "T_NULL",
        at);
  }
}

/* Raises an error, or returns it. */
static int fail(lua_State *L, const struct baton_json_settings *settings) {
  if (!settings->is_safe) return luaL_error(L, "%s", lua_tostring(L, -1));
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

static int refuse(struct baton_json_reader *r, const char *expected) {
  lua_State *L = r->L;
  lua_settop(L, 1);
  if (expected == too_deep)
    lua_pushfstring(L, "Found too many nested data structures (%d) at character %I", r->depth,
        (LUAI_UACINT)(r->at - r->text + 1));
  else
    lua_pushfstring(L, "Expected %s but found %s at character %I", expected, r->found,
        (LUAI_UACINT)(r->found_at - r->text + 1));
  return fail(L, r->settings);
}

/* What is wrong with the text as a whole, or nothing: pushes a message, and returns 1. */
static int is_unfit(
    lua_State *L, const struct baton_json_settings *settings, const char *text, size_t size) {
  if (l_unlikely(size > (lua_Unsigned)settings->decode_max_size)) {
    lua_pushfstring(L, "Found too large a text (%I bytes, at most %I are allowed)",
        (LUAI_UACINT)size, (LUAI_UACINT)settings->decode_max_size);
    return 1;
  }
  if (l_unlikely(size >= 2 && (text[0] == '\0' || text[1] == '\0'))) {
    lua_pushliteral(L, "JSON parser does not support UTF-16 or UTF-32");
    return 1;
  }
  return 0;
}

/* }====================================================== */

/* decode(text) */
int baton_json_decode(lua_State *L) {
  struct baton_json_settings settings =
      *(struct baton_json_settings *)lua_touserdata(L, lua_upvalueindex(BATON_JSON_SETTINGS));
  struct baton_json_reader r;
  const char *expected;
  size_t size;
  luaL_argcheck(L, lua_gettop(L) == 1, 1, "expected 1 argument");
  if (settings.is_safe && !lua_isstring(L, 1)) {
    lua_pushfstring(
        L, "bad argument #1 to 'decode' (string expected, got %s)", luaL_typename(L, 1));
    return fail(L, &settings);
  }
  r.L = L;
  r.settings = &settings;
  r.array_mt = (Table *)(uintptr_t)lua_topointer(L, lua_upvalueindex(BATON_JSON_ARRAY_MT));
  r.text = r.at = luaL_checklstring(L, 1, &size);
  r.end = r.text + size;
  r.stop = r.text + BATON_JSON_PIECE;
  r.found = r.found_at = NULL;
  r.base = 0;
  r.kind = ROOT;
  r.depth = 0;
  if (is_unfit(L, &settings, r.text, size)) return fail(L, &settings);
  baton_lua_enter(L);
  expected = read_text(&r);
  if (l_unlikely(expected != NULL && expected != too_deep && r.found == NULL)) name_found(&r);
  luaC_checkGC(L);
  baton_lua_leave(L);
  return l_likely(expected == NULL) ? 1 : refuse(&r, expected);
}
