/*
** Why a copy was refused: the path from an argument to the value, and what the value is.
**
** The writer notes only in which object it met another one first. The keys are looked up here,
** where that is rare. A long path is shown with its first and last steps.
*/
#include "copying/block.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

/* Steps that are shown at each end of a long path. */
#define STEPS 8

/* Bytes of a key that are shown. */
#define KEY 40

struct text {
  char *at, *end;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...) {
  const size_t room = (size_t)(text->end - text->at);
  va_list list;
  int length;
  va_start(list, format);
  length = vsnprintf(text->at, room, format, list);
  va_end(list);
  if (length > 0) text->at += (size_t)length < room ? (size_t)length : room - 1;
}

/* {======================================================
** Steps
** ======================================================= */

static int is_reserved(const TString *key) { return key->tt == LUA_VSHRSTR && key->extra > 0; }

/* Whether the key can follow a dot. */
static int is_name(const TString *key) {
  const char *bytes = getstr(key);
  const size_t length = tsslen(key);
  size_t i;
  if (length == 0 || length > KEY || is_reserved(key) || isdigit((unsigned char)*bytes)) return 0;
  for (i = 0; i < length; i++)
    if (!isalnum((unsigned char)bytes[i]) && bytes[i] != '_') return 0;
  return 1;
}

static void add_string_key(struct text *text, const TString *key) {
  const unsigned char *bytes = (const unsigned char *)getstr(key);
  const size_t length = tsslen(key), shown = length <= KEY ? length : KEY;
  size_t i;
  if (is_name(key)) {
    add(text, ".%s", getstr(key));
    return;
  }
  add(text, "[\"");
  for (i = 0; i < shown; i++) {
    if (bytes[i] == '"' || bytes[i] == '\\')
      add(text, "\\%c", bytes[i]);
    else if (iscntrl(bytes[i]))
      add(text, "\\%03d", bytes[i]);
    else
      add(text, "%c", bytes[i]);
  }
  add(text, shown < length ? "...\"]" : "\"]");
}

static void add_key(struct text *text, const TValue *key) {
  char number[64];
  switch (ttypetag(key)) {
    case LUA_VSHRSTR: case LUA_VLNGSTR: add_string_key(text, tsvalue(key)); break;
    case LUA_VNUMINT: add(text, "[" LUA_INTEGER_FMT "]", ivalue(key)); break;
    case LUA_VNUMFLT:
      lua_number2str(number, sizeof number, fltvalue(key));
      add(text, "[%s]", number);
      break;
    case LUA_VTRUE: add(text, "[true]"); break;
    case LUA_VFALSE: add(text, "[false]"); break;
    default: add(text, "[%s]", ttypename(ttype(key))); break;
  }
}

static int is_same(const TValue *a, const TValue *b) {
  if (rawtt(a) != rawtt(b)) return 0;
  if (iscollectable(a)) return gcvalue(a) == gcvalue(b);
  return ttislcf(a) ? fvalue(a) == fvalue(b) : pvalue(a) == pvalue(b);
}

static int add_step_in_nodes(
    struct baton_writer *w, struct text *text, const Table *table, const TValue *value) {
  uint32_t i;
  for (i = 0; i < (uint32_t)allocsizenode(table); i++) {
    const Node *node = gnode(table, i);
    TValue key;
    if (isempty(gval(node))) continue;
    getnodekey(w->L, &key, node);
    if (is_same(&key, value)) {
      add(text, "[%s key]", ttypename(ttype(&key)));
      return 1;
    }
    if (is_same(gval(node), value)) {
      add_key(text, &key);
      return 1;
    }
  }
  return 0;
}

static void add_step_in_table(
    struct baton_writer *w, struct text *text, const Table *table, const TValue *value) {
  const uint32_t slots = luaH_realasize(table);
  uint32_t i;
  for (i = 0; i < slots; i++)
    if (is_same(&table->array[i], value)) break;
  if (i < slots)
    add(text, "[%u]", i + 1);
  else if (!add_step_in_nodes(w, text, table, value))
    add(text, "[?]");
}

static void add_step_in_function(
    struct text *text, const LClosure *function, const TValue *variable) {
  int i;
  if (ttypetag(variable) != LUA_VUPVAL) return; /* its code */
  for (i = 0; i < function->nupvalues; i++) {
    const TString *name = i < function->p->sizeupvalues ? function->p->upvalues[i].name : NULL;
    if (obj2gco(function->upvals[i]) != gcvalue(variable)) continue;
    add(text, "[upvalue %s]", name != NULL ? getstr(name) : "?");
    return;
  }
}

/* Adds the step from an object to a value in it. */
static void add_step(
    struct baton_writer *w, struct text *text, GCObject *object, const TValue *value) {
  switch (object->tt) {
    case LUA_VTABLE: add_step_in_table(w, text, gco2t(object), value); break;
    case LUA_VLCL: add_step_in_function(text, gco2lcl(object), value); break;
    default: break; /* a variable has one value */
  }
}

/* }====================================================== */

/* Adds the argument in which `value` is. */
static void add_argument(
    const struct baton_writer *w, struct text *text, const char *name, const TValue *value) {
  int i;
  for (i = 0; i < w->values - 1 && !is_same(&w->first[i], value); i++) {
  }
  if (w->values == 1)
    add(text, "%s", name);
  else
    add(text, "%s[%d]", name, i + 1);
}

static TValue value_of(GCObject *object) {
  TValue value;
  value.value_.gc = object;
  value.tt_ = ctb(object->tt);
  return value;
}

static void add_path(struct baton_writer *w, struct text *text, const char *name) {
  uint32_t last[STEPS + 1], depth = 0, at, step;
  uint32_t first[STEPS + 1];
  for (at = w->in; at != BATON_NO_PARENT; at = w->objects[at].parent) depth++;
  /* last[i] is the i-th object counted from the end, and first[i] from the beginning */
  for (step = 0, at = w->in; at != BATON_NO_PARENT; at = w->objects[at].parent, step++) {
    if (step <= STEPS) last[step] = at;
    if (depth - 1 - step <= STEPS) first[depth - 1 - step] = at;
  }
  if (depth == 0) {
    add_argument(w, text, name, &w->refused);
    return;
  }
  {
    const TValue value = value_of(w->objects[first[0]].object);
    add_argument(w, text, name, &value);
  }
  for (step = 0; step < depth; step++) {
    const uint32_t left = depth - 1 - step; /* objects behind this one */
    uint32_t here, next;
    TValue value;
    if (step >= STEPS && left >= STEPS) {
      if (step == STEPS) add(text, " ... ");
      step = depth - 1 - STEPS; /* the loop adds one */
      continue;
    }
    here = step <= STEPS ? first[step] : last[left];
    next = left == 0 ? 0 : step + 1 <= STEPS ? first[step + 1] : last[left - 1];
    value = left == 0 ? w->refused : value_of(w->objects[next].object);
    add_step(w, text, w->objects[here].object, &value);
  }
}

/* {======================================================
** What the value is
** ======================================================= */

/* The name that a metatable gives. Nothing is allocated for that. */
static const char *given_name(lua_State *L, const Table *metatable) {
  static const char field[] = "__name";
  uint32_t i;
  (void)L;
  if (metatable == NULL) return NULL;
  for (i = 0; i < (uint32_t)allocsizenode(metatable); i++) {
    const Node *node = gnode(metatable, i);
    if (keyisshrstr(node) && keystrval(node)->shrlen == sizeof field - 1 &&
        memcmp(getshrstr(keystrval(node)), field, sizeof field) == 0 && ttisstring(gval(node)))
      return getstr(tsvalue(gval(node)));
  }
  return NULL;
}

static void add_kind(struct baton_writer *w, struct text *text) {
  const TValue *value = &w->refused;
  const char *name;
  switch (ttypetag(value)) {
    case LUA_VUSERDATA:
      name = given_name(w->L, uvalue(value)->metatable);
      add(text, name != NULL ? "userdata %.100s" : "userdata", name);
      break;
    case LUA_VLIGHTUSERDATA: add(text, "light userdata"); break;
    case LUA_VTABLE:
      if (hvalue(value) == w->globals)
        add(text, "the table of globals");
      else
        add(text, "table with a metatable that is not registered by vm.class");
      break;
    case LUA_VLCF: case LUA_VCCL:
      add(text, "C function that is not in Lua's libraries");
      break;
    default: add(text, "%s", ttypename(ttype(value))); break;
  }
}

/* }====================================================== */

void baton_copy_explain(
    struct baton_writer *w, const char *verb, const char *name, char buffer[BATON_REFUSAL]) {
  struct text text = {buffer, buffer + BATON_REFUSAL};
  add(&text, "%s ", verb);
  add_path(w, &text, name);
  add(&text, ": ");
  add_kind(w, &text);
  if (w->why != NULL) add(&text, " (%s)", w->why);
}
