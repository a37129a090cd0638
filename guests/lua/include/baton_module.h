/*
** For the modules of Baton's own that are files: baton/NAME.so, which `require "baton.NAME"` loads.
** A module exports one record, `baton_module`. It may call Lua's API (lua.h, lauxlib.h), baton.h,
** and what is declared here and in baton_net.h. The program that loads the module exports all of
** these.
**
** The program refuses a module that was built for other headers (`built_for`). So all declarations
** may change at any time.
**
** A module's functions count as the guest's own. That asks four things of them:
**
**   none blocks     nobody else runs while one is called: a process waits by baton.process, in Lua,
**                   or by baton_net.h. The trait BATON_MODULE_LETS_RUN is for the others
**   none stays      a function that calls Lua may continue on another thread. It keeps no address
**                   of a thread-local variable over such a call
**   no lua_close    a module is never unloaded. What it keeps outside of Lua is all VMs'
**   no other copy   it links no crate of the runtime: that would be a second runtime, with
**                   variables of its own
*/
#ifndef BATON_MODULE_H
#define BATON_MODULE_H

#include <stddef.h>

#include "lua.h"
#include "baton_net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a module exports, under the name `baton_module`. */
struct baton_module_record {
  const char *built_for; /* BATON_MODULE_BUILT_FOR, which the build scripts define */
  lua_CFunction open;    /* called in each VM with the name "baton.NAME"; returns the module */
};

/* Whether this is a simulated run. It is one from the start, or never. */
int baton_module_is_simulated(void);

/* Called before something is made outside of Lua's heap. Raises Lua's error if memory is out. */
void baton_module_check_memory(lua_State *L);

/* Pushes the function that a text in Lua is. The name is "NAME", or "NAME/PART": tracebacks call it
   "baton.NAME/PART". VMs share its code, so the text of a name is always the same. */
void baton_module_load(lua_State *L, const char *name, const char *text, size_t size);

/* Functions of the guest for a module that is partly in Lua. */
enum baton_module_function {
  /* refuse(level, number, name, text): raises an error about the argument of this number of the
     function at this level, as luaL_argerror does for functions in C. `level` is that of `error`.
     The name of a method begins with a colon. Its object has the number 0. */
  BATON_MODULE_REFUSE,
  /* raise(value, traceback): raises an error of another process or program. While it is handled, a
     traceback continues with this one. */
  BATON_MODULE_RAISE,
  /* end_process(process, reason): kills a process that may be killed already. Its closing methods
     run. */
  BATON_MODULE_END_PROCESS
};
/* Pushes one of them. */
void baton_module_push(lua_State *L, enum baton_module_function function);

/* What a function of a module is. */
enum baton_module_trait {
  /* It uses the API for long, and others may run in its middle. */
  BATON_MODULE_GIVES_WAY = 1,
  /* It is a finalizer that neither waits nor calls back. */
  BATON_MODULE_IS_QUICK = 2,
  /* It is a finalizer that gives back what is outside of all heaps. It is called when its VM is
     halted, too. */
  BATON_MODULE_GIVES_BACK = 4,
  /* It may take long between two calls of Lua's API, and others run meanwhile, on other threads. */
  BATON_MODULE_LETS_RUN = 8
};
/* Notes the traits of a function, as a sum. Called when the module is opened. */
void baton_module_note(lua_CFunction function, unsigned traits);

#ifdef __cplusplus
}
#endif

#endif
