/*
** The references of a thread, in a snapshot of the heap: what is on its stack, with the names of
** local variables. What is above the top is not read.
*/
#include "heap/records.h"

#include "lfunc.h"

size_t baton_heap_size_of_thread(const lua_State *L) {
  /* As lstate.c has them: the main thread lies beside what all threads share. */
  struct thread {
    lu_byte extra[LUA_EXTRASPACE];
    lua_State state;
  };
  struct main_thread {
    struct thread thread;
    global_State shared;
  };
  size_t size = L == G(L)->mainthread ? sizeof(struct main_thread) : sizeof(struct thread);
  if (L->stack.p != NULL) size += (size_t)(stacksize(L) + EXTRA_STACK) * sizeof(StackValue);
  return size + L->nci * sizeof(CallInfo);
}

/* The name of a slot of the frame, counted from 1 above its function. */
static const char *name_of_slot(const CallInfo *ci, int slot) {
  const Proto *p;
  if (!isLua(ci)) return NULL;
  p = ci_func(ci)->p;
  return luaF_getlocalname(p, slot, pcRel(ci->u.l.savedpc, p));
}

/* Writes what lies from the frame's function to `end`. */
static void write_frame(const CallInfo *ci, StkId end) {
  const StkId function = ci->func.p;
  StkId slot;
  for (slot = function; slot < end; slot++) {
    const char *name;
    if (!iscollectable(s2v(slot))) continue;
    if (slot == function) {
      baton_heap_part("function", gcvalue(s2v(slot)), 0);
      continue;
    }
    name = name_of_slot(ci, (int)(slot - function));
    if (name != NULL)
      baton_heap_variable(name, gcvalue(s2v(slot)));
    else
      baton_heap_part("stack", gcvalue(s2v(slot)), 0);
  }
}

void baton_heap_write_thread(lua_State *L) {
  const CallInfo *ci;
  const UpVal *variable;
  StkId end = L->top.p;
  if (L->stack.p == NULL) return; /* it is being made */
  for (ci = L->ci; ci != NULL; ci = ci->previous) {
    write_frame(ci, end);
    end = ci->func.p;
  }
  for (variable = L->openupval; variable != NULL; variable = variable->u.open.next)
    baton_heap_hidden(variable);
}
