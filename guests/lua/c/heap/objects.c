/*
** Objects in a snapshot of the heap: what they are called, how large they are, and what they refer
** to. Tables and threads have files of their own.
*/
#include "heap/records.h"
#include "state/state.h"

#include "lfunc.h"
#include "lstring.h"

#include <string.h>

/* The string "__name"; NULL if the program has none, so that no metatable has such a field. */
static TString *name_field;

void baton_heap_prepare(const global_State *g) {
  static const char text[] = "__name";
  const size_t length = sizeof text - 1;
  TString *string = g->strt.hash[lmod(luaS_hash(text, length, g->seed), g->strt.size)];
  while (string != NULL &&
      (string->shrlen != length || memcmp(getstr(string), text, length) != 0))
    string = string->u.hnext;
  name_field = string;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* {======================================================
** Names
** ======================================================= */

/* The name that a metatable gives, or else `type`. */
static void write_head(
    enum baton_heap_kind kind, const GCObject *object, size_t size, Table *metatable,
    const char *type) {
  const char *name = type;
  size_t length = strlen(type);
  if (metatable != NULL && name_field != NULL) {
    const TValue *given = luaH_getshortstr(metatable, name_field);
    if (ttisstring(given)) {
      name = getstr(tsvalue(given));
      length = least(tsslen(tsvalue(given)), BATON_HEAP_TEXT);
    }
  }
  baton_heap_object(kind, (uintptr_t)object, size, name, length);
}

/* A text with a number at its end. */
struct numbered {
  char text[40];
};

static const char *number(struct numbered *numbered, const char *text, unsigned value) {
  char digits[12];
  size_t at = sizeof digits, length = strlen(text);
  digits[--at] = '\0';
  do {
    digits[--at] = (char)('0' + value % 10);
    value /= 10;
  } while (value != 0);
  memcpy(numbered->text, text, length);
  memcpy(numbered->text + length, digits + at, sizeof digits - at);
  return numbered->text;
}

/* Writes "function file:line", or "code of file:line". Returns its length. */
static size_t name_code(char *text, const char *what, const Proto *p) {
  char source[LUA_IDSIZE] = "?";
  struct numbered place;
  size_t used = strlen(what), length;
  memcpy(text, what, used);
  if (p->source != NULL) luaO_chunkid(source, getstr(p->source), tsslen(p->source));
  length = strlen(source);
  memcpy(text + used, source, length);
  used += length;
  number(&place, ":", (unsigned)p->linedefined);
  length = strlen(place.text);
  memcpy(text + used, place.text, length);
  return used + length;
}

#define LONGEST_CODE (LUA_IDSIZE + 32)

/* }====================================================== */

static void write_string(const TString *string) {
  char text[BATON_HEAP_TEXT + 3];
  const size_t length = tsslen(string);
  size_t used = least(length, BATON_HEAP_TEXT);
  memcpy(text, getstr(string), used);
  if (used < length) {
    memcpy(text + used, "...", 3);
    used += 3;
  }
  baton_heap_object(
      BATON_HEAP_STRING, (uintptr_t)string, sizelstring(length), text, used);
}

static void write_lua_function(const LClosure *function, size_t size) {
  char text[LONGEST_CODE];
  int i;
  if (function->p == NULL) { /* it is being made */
    baton_heap_object(BATON_HEAP_LUA_FUNCTION, (uintptr_t)function, size, "function", 8);
  } else {
    const size_t length = name_code(text, "function ", function->p);
    baton_heap_object(BATON_HEAP_LUA_FUNCTION, (uintptr_t)function, size, text, length);
    baton_heap_part("code", function->p, 0);
  }
  for (i = 0; i < function->nupvalues; i++) {
    const UpVal *variable = function->upvals[i];
    const TString *name;
    if (variable == NULL) continue;
    baton_heap_hidden(variable);
    if (!iscollectable(variable->v.p)) continue;
    name = function->p != NULL ? function->p->upvalues[i].name : NULL;
    baton_heap_variable(name != NULL ? getstr(name) : "?", gcvalue(variable->v.p));
  }
}

static void write_c_function(const CClosure *function, size_t size) {
  static const char name[] = "C function";
  struct numbered text;
  int i;
  baton_heap_object(
      BATON_HEAP_C_FUNCTION, (uintptr_t)function, size, name, sizeof name - 1);
  for (i = 0; i < function->nupvalues; i++)
    if (iscollectable(&function->upvalue[i]))
      baton_heap_part(
          number(&text, "upvalue ", (unsigned)i + 1), gcvalue(&function->upvalue[i]), 0);
}

static void write_variable(const UpVal *variable, size_t size) {
  static const char name[] = "variable";
  baton_heap_object(BATON_HEAP_VARIABLE, (uintptr_t)variable, size, name, sizeof name - 1);
  /* The value of an open one lies on a stack. */
  if (!upisopen(variable) && iscollectable(variable->v.p))
    baton_heap_part("value", gcvalue(variable->v.p), 0);
}

/* The names of the user values of a process's handle, or NULL. */
static const char *const *names_of_values(const Udata *userdata) {
  static const char *const names[BATON_UV_COUNT] = {
      "thread", "data", "name", "traceback", "reason", "next process", "spawned by"};
  const struct baton_process *process = (const struct baton_process *)getudatamem(userdata);
  const int is_handle = userdata->len >= sizeof *process &&
      userdata->nuvalue == BATON_UV_COUNT && process->seal == baton_lua_seal(BATON_SEALED_PROCESS);
  return is_handle ? names : NULL;
}

static void write_userdata(const Udata *userdata, size_t size) {
  const char *const *names = names_of_values(userdata);
  struct numbered text;
  unsigned i;
  write_head(
      BATON_HEAP_USERDATA, obj2gco(userdata), size, userdata->metatable, "userdata");
  if (userdata->metatable != NULL) baton_heap_part("metatable", userdata->metatable, 0);
  for (i = 0; i < userdata->nuvalue; i++) {
    const TValue *value = &userdata->uv[i].uv;
    if (iscollectable(value))
      baton_heap_part(
          names != NULL ? names[i] : number(&text, "user value ", i + 1), gcvalue(value), 0);
  }
}

static size_t size_of_code(const Proto *p) {
  return sizeof *p + (size_t)p->sizecode * sizeof *p->code + (size_t)p->sizep * sizeof *p->p +
      (size_t)p->sizek * sizeof *p->k + (size_t)p->sizelineinfo * sizeof *p->lineinfo +
      (size_t)p->sizeabslineinfo * sizeof *p->abslineinfo +
      (size_t)p->sizelocvars * sizeof *p->locvars +
      (size_t)p->sizeupvalues * sizeof *p->upvalues;
}

/* While a chunk is compiled, parts of it may be missing. */
static void write_code(const Proto *p, size_t size) {
  char text[LONGEST_CODE];
  const size_t length = name_code(text, "code of ", p);
  int i;
  baton_heap_object(BATON_HEAP_PROTOTYPE, (uintptr_t)p, size, text, length);
  if (p->source != NULL) baton_heap_part("source", p->source, 0);
  for (i = 0; i < p->sizek; i++)
    if (iscollectable(&p->k[i])) baton_heap_part("constant", gcvalue(&p->k[i]), 0);
  for (i = 0; i < p->sizep; i++)
    if (p->p[i] != NULL) baton_heap_part("function", p->p[i], 0);
  for (i = 0; i < p->sizeupvalues; i++)
    if (p->upvalues[i].name != NULL) baton_heap_part("name", p->upvalues[i].name, 0);
  for (i = 0; i < p->sizelocvars; i++)
    if (p->locvars[i].varname != NULL) baton_heap_part("name", p->locvars[i].varname, 0);
}

size_t baton_heap_size_of(const GCObject *object) {
  switch (object->tt) {
    case LUA_VSHRSTR:
    case LUA_VLNGSTR: return sizelstring(tsslen(gco2ts(object)));
    case LUA_VTABLE: return baton_heap_size_of_table(gco2t(object));
    case LUA_VLCL: return (size_t)sizeLclosure(gco2lcl(object)->nupvalues);
    case LUA_VCCL: return (size_t)sizeCclosure(gco2ccl(object)->nupvalues);
    case LUA_VUSERDATA: return sizeudata(gco2u(object)->nuvalue, gco2u(object)->len);
    case LUA_VTHREAD: return baton_heap_size_of_thread(gco2th(object));
    case LUA_VPROTO: return size_of_code(gco2p(object));
    default: return sizeof(UpVal);
  }
}

void baton_heap_write_object(const global_State *g, GCObject *object) {
  const size_t size = baton_heap_size_of(object);
  switch (object->tt) {
    case LUA_VSHRSTR:
    case LUA_VLNGSTR: write_string(gco2ts(object)); break;
    case LUA_VTABLE:
      write_head(BATON_HEAP_TABLE, object, size, gco2t(object)->metatable, "table");
      baton_heap_write_table(g, gco2t(object));
      break;
    case LUA_VLCL: write_lua_function(gco2lcl(object), size); break;
    case LUA_VCCL: write_c_function(gco2ccl(object), size); break;
    case LUA_VUSERDATA: write_userdata(gco2u(object), size); break;
    case LUA_VTHREAD:
      write_head(BATON_HEAP_THREAD, object, size, NULL, "coroutine");
      baton_heap_write_thread(gco2th(object));
      break;
    case LUA_VPROTO: write_code(gco2p(object), size); break;
    default: write_variable(gco2upv(object), size); break;
  }
}
