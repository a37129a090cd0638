/*
** Functions in a block: their code, which is copied as it is, and their variables.
**
**   contents of code   the numbers of `struct counts`; the instructions, the information about
**                      lines, as bytes; source:value constant:value* inner code:value*
**                      (name:value description of a variable)* (name:value first:u32 last:u32)*
*/
#include "copying/block.h"

#include "lmem.h"

/* The plain fields of a prototype. */
struct counts {
  int constants, instructions, inner, variables, lines, absolute_lines, locals;
  int line, last_line;
  lu_byte parameters, is_vararg, stack_size;
};

/* {======================================================
** Out
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
