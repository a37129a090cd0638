/*
** The references of a table, in a snapshot of the heap.
**
** An entry keeps its key and its value alive, unless the table is weak. Lua never removes strings
** from weak tables, so references to them are strong there, too. In a table with weak keys only, an
** entry keeps its value alive while its key lives. That is written as a reference of the key.
*/
#include "heap/records.h"

#include <string.h>

/* What a table does not keep alive. */
struct weakness {
  int keys, values;
};

size_t baton_heap_size_of_table(const Table *t) {
  return sizeof(Table) + luaH_realasize(t) * sizeof(TValue) +
      (size_t)allocsizenode(t) * sizeof(Node);
}

static struct weakness weakness_of(const global_State *g, Table *t) {
  struct weakness weak = {0, 0};
  const TValue *mode;
  if (t->metatable == NULL) return weak;
  mode = luaH_getshortstr(t->metatable, g->tmname[TM_MODE]);
  if (!ttisstring(mode)) return weak;
  weak.keys = strchr(getstr(tsvalue(mode)), 'k') != NULL;
  weak.values = strchr(getstr(tsvalue(mode)), 'v') != NULL;
  return weak;
}

static int is_string(const GCObject *object) { return novariant(object->tt) == LUA_TSTRING; }

static int is_removed(int is_weak, const GCObject *object) { return is_weak && !is_string(object); }

/* What the value of a key that is no string and no integer is called. */
static const char *name_of_value(const Node *node) {
  switch (keytt(node) & 0x3F) {
    case LUA_VNUMFLT: return "value of a float";
    case LUA_VFALSE: return "value of false";
    case LUA_VTRUE: return "value of true";
    case LUA_VLIGHTUSERDATA: return "value of a light userdata";
    case LUA_VTABLE: return "value of a table";
    case LUA_VUSERDATA: return "value of a userdata";
    case LUA_VTHREAD: return "value of a thread";
    default: return "value of a function";
  }
}

static void write_value(const Node *node, const GCObject *value, int is_weak) {
  if (keyisinteger(node))
    baton_heap_element(keyival(node), value, is_weak);
  else if (keyiscollectable(node) && is_string(gckey(node)))
    baton_heap_field(gco2ts(gckey(node)), value, is_weak);
  else
    baton_heap_part(name_of_value(node), value, is_weak);
}

static void write_entry(const Node *node, struct weakness weak) {
  const GCObject *key = keyiscollectable(node) ? gckey(node) : NULL;
  const GCObject *value = iscollectable(gval(node)) ? gcvalue(gval(node)) : NULL;
  const int key_is_weak = key != NULL && is_removed(weak.keys, key);
  if (key != NULL) baton_heap_part("key", key, key_is_weak);
  if (value == NULL) return;
  write_value(node, value, is_removed(weak.values, value) || key_is_weak);
  if (key_is_weak && !is_removed(weak.values, value))
    baton_heap_reference_of(key, "value in a table with weak keys", value);
}

void baton_heap_write_table(const global_State *g, Table *t) {
  const struct weakness weak = weakness_of(g, t);
  const unsigned elements = luaH_realasize(t);
  unsigned i;
  if (t->metatable != NULL) baton_heap_part("metatable", t->metatable, 0);
  for (i = 0; i < elements; i++) {
    const TValue *value = &t->array[i];
    if (iscollectable(value))
      baton_heap_element(
          (lua_Integer)i + 1, gcvalue(value), is_removed(weak.values, gcvalue(value)));
  }
  for (i = 0; i < (unsigned)sizenode(t); i++) {
    const Node *node = gnode(t, i);
    /* The key of an empty entry may be gone. */
    if (!isempty(gval(node))) write_entry(node, weak);
  }
}
