/* The policies of C modules (policies.c), and those that are built in (built_in_policies.c). */
#ifndef BATON_POLICIES_H
#define BATON_POLICIES_H

#include "seam/guest.h"

enum policy { EXCLUSIVE, OBJECT, SERIAL, CONCURRENT, UNKNOWN };

struct baton_built_in_policy {
  const char *name; /* the module's; a dot at the end includes all its submodules */
  enum policy policy; /* of all functions that are not listed below */
  /*
  ** Names of functions, separated by commas. "f" is a field of the module, "t" a table of
  ** functions, "M:f" a field of the metatable M. "f()" means the function that f returns when it
  ** is called without arguments. "f^" means the first upvalue of f.
  */
  const char *concurrent, *object, *serial;
  int is_one_vms; /* its calls share something even if they come from different VMs */
  int keeps_no_threads; /* it uses a Lua thread only while it is called on it */
  const char *why; /* why the rest is exclusive, for the warning; NULL: there is no rest */
};

/*
** Whose turn it is to call into a module that only one VM may use at a time. All but the first
** member are guarded by the turn: only the VM that has it writes them.
*/
struct baton_turns {
  const struct baton_turn *turn; /* atomic; made when it is first needed */
  const struct baton_lua_vm *owner;  /* atomic; the VM that has the turn, or NULL */
  unsigned calls;                /* calls of the owner that have not returned */
};

/* turns.c */
extern int baton_turns_are_on; /* atomic: the program has had a second VM */
/* Waits for the turn of the process's VM, until the call of `function` that is about to be made has
   ended. Inside the VM before and after. */
void baton_turns_begin(lua_State *L, struct baton_process *process, struct baton_turns *turns,
    const char *name);
/* Whether the process would have to wait for another VM. */
int baton_turns_are_others(const struct baton_process *process, const struct baton_turns *turns);

/* The built-in policy for the module of this name, or NULL. */
const struct baton_built_in_policy *baton_lua_built_in_policy(const char *name);
/* Whether the library of this path has a module that is known to keep no address of a Lua
   thread. */
int baton_lua_keeps_no_threads(const char *path);

#endif
