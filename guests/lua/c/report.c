/*
** What a process is doing, written to standard error without allocating: for SIGQUIT, deadlocks and overflows.
*/
#include "internals.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_LEVELS 22

static void report_level(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "Sln", ar);
  if (ar->currentline > 0)
    fprintf(stderr, "\t%s:%d: in ", ar->short_src, ar->currentline);
  else
    fprintf(stderr, "\t%s: in ", ar->short_src);
  if (ar->name != NULL)
    fprintf(stderr, "%s '%s'\n", *ar->namewhat ? ar->namewhat : "function", ar->name);
  else if (*ar->what == 'm')
    fprintf(stderr, "main chunk\n");
  else if (*ar->what != 'C')
    fprintf(stderr, "function <%s:%d>\n", ar->short_src, ar->linedefined);
  else
    fprintf(stderr, "?\n");
}

static void report_state(lua_State *L) {
  lua_Debug ar;
  int level;
  memset(&ar, 0, sizeof ar);
  for (level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == MOST_LEVELS) {
      fprintf(stderr, "\t...\n");
      return;
    }
    report_level(L, &ar);
  }
}

/* The name that reports use: cut to fit, and without asking Lua. */
const char *baton_lua_name_for_report(struct baton_process *process) {
  if (process == process->vm->main_process) return "main";
  return process->name[0] != '\0' ? process->name : "unnamed";
}

void baton_lua_report_process(struct baton_process *process, const char *state, const char *blocker) {
  struct baton_resumed *resumed;
  fprintf(stderr, "process '%s' (id %llu): %s%s%s\n", baton_lua_name_for_report(process), (unsigned long long)process->id, state,
          *blocker ? ", " : "", blocker);
  if (process->L == NULL) return;
  fprintf(stderr, "stack traceback:\n");
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous) report_state(resumed->L);
  report_state(process->L);
}

/*
** On the signal stack of a thread that faulted: if that was in the guard of the stack of its process, says so by write(2) only. The process may be out in a
** call beside which others run: then the function's name is not asked for, as that is to enter.
*/
int baton_lua_report_overflow(uintptr_t address) {
  struct baton_process *process = baton_gate_process();
  struct baton_gate *gate = baton_gate_here();
  char text[480], function[160] = "a C function";
  int length;
  if (process == NULL || address < process->stack_guard || address >= process->stack_low) return 0;
  if ((gate->gate & 1) == 0) baton_gate_leave(); /* nothing comes back from here */
  if (process->global != NULL && !process->retaken && (gate->slow & BATON_SLOW_REVOKED) == 0)
    baton_lua_name_function(baton_lua_innermost(process), function, sizeof function);
  length = snprintf(text, sizeof text,
                        "baton: process '%s' (id %llu) overflowed its C stack of %zu bytes (stack_size) inside %s; "
                        "give it more with the option stack_size of spawn\n",
                        baton_lua_name_for_report(process), (unsigned long long)process->id, (size_t)(process->stack_high - process->stack_low), function);
  if (length > 0 && write(2, text, (size_t)length) < 0) return 1;
  return 1;
}
