/*
** Stops in the middle of both directions, and room on the stack.
*/
#include "json/inside.h"

const char baton_json_empty_array;

void baton_json_stop(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  luaC_checkGC(L);
  baton_lua_leave(L);
  if (process != NULL && l_unlikely(process->killed | process->interrupted | process->evaluates))
    baton_lua_raise_pending(L, process);
  baton_lua_enter(L);
}

void baton_json_grow(lua_State *L) {
  const int more = 64;
  if (L->stack_last.p - L->top.p <= more) luaD_growstack(L, more, 1);
  if (L->ci->top.p < L->top.p + more) L->ci->top.p = L->top.p + more;
}
