/*
** The frames of a process, with its coroutines: from the innermost state to the process's own.
** Neither enters the VM nor allocates Lua's memory.
*/
#include "shown/inside.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

struct baton_process *baton_debugger_find(struct baton_lua_vm *vm, uint64_t number) {
  struct baton_process *process;
  for (process = vm->main_process; process != NULL; process = process->next_live)
    if (process->id == number) return process->outcome == BATON_ALIVE ? process : NULL;
  return NULL;
}

/* Goes on to the next state, outwards. `resumed` is that of the present one. */
static lua_State *outer_state(
    const struct baton_process *process, const struct baton_resumed **resumed) {
  if (*resumed == NULL) return NULL;
  *resumed = (*resumed)->previous;
  return *resumed != NULL ? (*resumed)->L : process->L;
}

static int is_frame(const lua_State *L, const CallInfo *ci) { return ci != &L->base_ci; }

static int count_frames(const struct baton_process *process) {
  const struct baton_resumed *resumed = process->resumed;
  lua_State *L = baton_lua_innermost(process);
  int all = 0;
  for (; L != NULL; L = outer_state(process, &resumed)) {
    const CallInfo *ci;
    for (ci = L->ci; is_frame(L, ci); ci = ci->previous) all++;
  }
  return all;
}

/* `above` is the number of frames from this one to the outermost one. */
static uint64_t mark(const CallInfo *ci, int above) {
  const TValue *function = s2v(ci->func.p);
  uint64_t address = isLua(ci) ? (uintptr_t)clLvalue(function)->p
                               : (uintptr_t)baton_lua_function_of(ci);
  return (address ^ ((uint64_t)above << 48)) | 1;
}

uint64_t baton_debugger_mark_of(const struct baton_process *process, int index) {
  struct baton_place place;
  if (!baton_debugger_find_frame(process, index, &place)) return 0;
  return mark(place.ci, count_frames(process) - index);
}

int baton_debugger_find_frame(
    const struct baton_process *process, int index, struct baton_place *place) {
  const struct baton_resumed *resumed = process->resumed;
  lua_State *L = baton_lua_innermost(process);
  while (L != NULL) {
    CallInfo *ci;
    for (ci = L->ci; is_frame(L, ci); ci = ci->previous) {
      if (index-- != 0) continue;
      place->L = L;
      place->ci = ci;
      return 1;
    }
    L = outer_state(process, &resumed);
  }
  return 0;
}

static void describe_lua(const CallInfo *ci, struct baton_debugger_frame *frame, char *text) {
  const Proto *p = ci_func(ci)->p;
  frame->line = luaG_getfuncline(p, pcRel(ci->u.l.savedpc, p));
  frame->defined = p->linedefined;
  frame->kind = p->linedefined == 0 ? BATON_FRAME_MAIN : BATON_FRAME_LUA;
  if (p->source == NULL) {
    strcpy(text, "?");
    return;
  }
  frame->source = getstr(p->source);
  frame->source_size = tsslen(p->source);
  luaO_chunkid(text, frame->source, frame->source_size);
  if (*frame->source == '@') frame->path = realpath(frame->source + 1, NULL);
}

static void show(lua_State *L, CallInfo *ci, int above, baton_debugger_frame_visitor *visit,
    void *context) {
  struct baton_debugger_frame frame = {0};
  char text[LUA_IDSIZE];
  frame.short_source = text;
  frame.mark = mark(ci, above);
  frame.begins_coroutine = ci == L->ci;
  frame.called_as = baton_lua_called_as(L, ci, &frame.name);
  if (isLua(ci)) {
    describe_lua(ci, &frame, text);
  } else {
    strcpy(text, "[C]");
    frame.kind = BATON_FRAME_C;
  }
  visit(context, &frame);
  free((void *)frame.path);
}

int baton_debugger_visit_frames(const struct baton_process *process, int first, int count,
    baton_debugger_frame_visitor *visit, void *context) {
  const struct baton_resumed *resumed = process->resumed;
  const int all = count_frames(process);
  lua_State *L = baton_lua_innermost(process);
  int n = 0;
  for (; L != NULL; L = outer_state(process, &resumed)) {
    CallInfo *ci;
    for (ci = L->ci; is_frame(L, ci); ci = ci->previous, n++)
      if (n >= first && n - first < count) show(L, ci, all - n, visit, context);
  }
  return all;
}

int baton_debugger_visit_frames_of(const struct baton_process *answers, uint64_t number, int first,
    int count, baton_debugger_frame_visitor *visit, void *context) {
  const struct baton_process *process;
  lua_State *L = answers->L;
  baton_lua_enter(L);
  process = baton_debugger_find(answers->vm, number);
  baton_lua_leave(L);
  return process != NULL ? baton_debugger_visit_frames(process, first, count, visit, context) : 0;
}
