/* Lua's private headers, for the files of the guest that must look inside. */
#ifndef BATON_INTERNALS_H
#define BATON_INTERNALS_H

#define LUA_CORE
#include "lprefix.h"

#include "lua.h"

#include "lapi.h"
#include "ldebug.h"
#include "ldo.h"
#include "lgc.h"
#include "lobject.h"
#include "lopcodes.h"
#include "lstate.h"
#include "ltable.h"

#include "guest.h"

/* The running process, if `L` is of its VM. */
static inline struct baton_process *baton_lua_running(lua_State *L) {
  struct baton_process *process = baton_gate_process();
  return luai_likely(process != NULL && process->global == G(L)) ? process : NULL;
}

/* A coroutine has yielded or ended: what was asked of it is asked of its resumer (seam.c). Inside the VM. */
void baton_lua_resume_ends(lua_State *L, struct baton_process *process);

/* The state on which the process's code runs now. */
static inline lua_State *baton_lua_innermost(const struct baton_process *process) {
  return process->resumed != NULL ? process->resumed->L : process->L;
}

#endif
