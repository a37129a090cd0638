/*
** What observers are told of a process: where it was spawned, and the frames of its stacks. And
** what they may do to it. The functions neither enter the VM nor allocate, so any thread may call
** them while no process runs.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <stdio.h>
#include <string.h>

/* Writes "file:12" for an instruction of a function. */
static void write_site(const Proto *function, int pc, char *text, size_t size) {
  char source[LUA_IDSIZE] = "";
  luaO_chunkid(source, getstr(function->source), tsslen(function->source));
  snprintf(text, size, "%s:%d", source, luaG_getfuncline(function, pc));
}

/* Writes where the process was spawned, such as "file:12", or nothing. */
const char *baton_lua_spawn_site(const struct baton_process *process, char *text, size_t size) {
  text[0] = '\0';
  if (process->spawn_function != NULL)
    write_site((const Proto *)process->spawn_function, process->spawn_pc, text, size);
  return text;
}

/* `inside/stacks.rs` has the same number. */
typedef char source_has_60_bytes[LUA_IDSIZE == 60 ? 1 : -1];

uint64_t baton_lua_number(const struct baton_process *process) { return process->id; }

static int is_same_closure(const TValue *value, const TValue *closure) {
  return ttisLclosure(value) && clLvalue(value) == clLvalue(closure);
}

/* How the nearest Lua function below calls a callback of a function in C, such as the comparison of
** table.sort: the variable that has it. NULL if there is none. A variable of a function that still
** runs is on a stack, which may be growing at the moment, or be another process's. So of upvalues
** only those are looked at that have their value by themselves. */
static const char *name_of_callback(lua_State *L, CallInfo *ci) {
  const TValue *callback = s2v(ci->func.p);
  const CallInfo *caller = ci->previous;
  const char *name;
  const LClosure *closure;
  StkId base;
  int i, pc;
  if (caller == NULL || isLua(caller)) return NULL;
  while (caller != NULL && caller != &L->base_ci && !isLua(caller))
    caller = caller->previous;
  if (caller == NULL || caller == &L->base_ci) return NULL;
  closure = ci_func(caller);
  base = caller->func.p + 1;
  pc = pcRel(caller->u.l.savedpc, closure->p);
  for (i = 0; (name = luaF_getlocalname(closure->p, i + 1, pc)) != NULL; i++)
    if (is_same_closure(s2v(base + i), callback)) return name;
  for (i = 0; i < closure->nupvalues; i++) {
    const TString *upvalue = closure->p->upvalues[i].name;
    const UpVal *variable = closure->upvals[i];
    if (upvalue != NULL && !upisopen(variable) &&
        is_same_closure(&variable->u.value, callback))
      return getstr(upvalue);
  }
  return NULL;
}

static void describe(lua_State *L, CallInfo *ci, struct baton_frame *frame) {
  frame->called_as = baton_lua_called_as(L, ci, &frame->name);
  if (frame->called_as == NULL && isLua(ci)) frame->name = name_of_callback(L, ci);
  if (isLua(ci)) {
    const Proto *p = ci_func(ci)->p;
    if (p->source != NULL)
      luaO_chunkid(frame->source, getstr(p->source), tsslen(p->source));
    else
      strcpy(frame->source, "?");
    frame->line = luaG_getfuncline(p, pcRel(ci->u.l.savedpc, p));
    frame->defined = p->linedefined;
    frame->kind = p->linedefined == 0 ? BATON_FRAME_MAIN : BATON_FRAME_LUA;
    frame->function = NULL;
  } else {
    strcpy(frame->source, "[C]");
    frame->line = frame->defined = 0;
    frame->kind = BATON_FRAME_C;
    frame->function = baton_lua_function_of(ci);
  }
}

static void visit_state(lua_State *L, int most, baton_frame_visitor visit, void *context) {
  struct baton_frame frame;
  CallInfo *ci;
  for (ci = L->ci; ci != &L->base_ci && most-- > 0; ci = ci->previous) {
    frame.name = NULL;
    describe(L, ci, &frame);
    visit(context, &frame);
  }
  visit(context, NULL);
}

void baton_lua_visit_frames(
    const struct baton_process *process, int most, baton_frame_visitor visit, void *context) {
  const struct baton_resumed *resumed;
  if (process->L == NULL) return;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    visit_state(resumed->L, most, visit, context);
  visit_state(process->L, most, visit, context);
}

uint64_t baton_lua_heap_size(const struct baton_process *process) {
  return (uint64_t)gettotalbytes(process->global);
}

uint64_t baton_lua_collector_time(const struct baton_process *process, uint64_t *collections) {
  *collections = process->vm->whole_collections;
  return process->vm->collector_time;
}

const char *baton_lua_call_out(const struct baton_process *process) {
  lua_State *L = process->L != NULL ? baton_lua_innermost(process) : NULL;
  return L != NULL && !isLua(L->ci) ? baton_lua_called_name(L, L->ci) : NULL;
}

int baton_lua_note_kill(struct baton_process *process) {
  if (process->outcome != BATON_ALIVE) return -1;
  if (process->killed && process->holds > 0) process->abandoned = 1;
  process->killed = 1;
  if (process->holds > 0) baton_lua_request_safepoint(process); /* it counts the time from there */
  return process->holds > 0;
}

void baton_lua_place(const struct baton_process *process, char *text, size_t size) {
  const lua_State *L = process->resumed != NULL ? process->resumed->L : process->L;
  int pc = 0;
  const Proto *function = L != NULL ? baton_lua_program_function(L, &pc) : NULL;
  text[0] = '\0';
  if (function != NULL) write_site(function, pc, text, size);
}
