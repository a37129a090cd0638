/*
** Lua's way to name a called function, without entering the VM. `lua_getinfo` enters, which a
** signal handler must not do. So this is a second copy of ldebug.c: its locks do nothing, and
** build.rs renames its functions.
**
** The part in use reads frames, code and constants, and calls strcmp. It allocates nothing.
*/
#undef lua_lock
#undef lua_unlock
#define lua_lock(L) ((void)(L))
#define lua_unlock(L) ((void)(L))

#include "ldebug.c"

#include "seam/guest.h"

/* The base of a state was called by nobody. It has no frame before it. */
const char *baton_lua_called_as(struct lua_State *L, struct CallInfo *ci, const char **name) {
  return ci != &L->base_ci ? getfuncname(L, ci, name) : NULL;
}

const char *baton_lua_called_name(struct lua_State *L, struct CallInfo *ci) {
  const char *name = NULL;
  return baton_lua_called_as(L, ci, &name) != NULL ? name : NULL;
}
