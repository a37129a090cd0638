/* The policies of C modules (policies.c), those that are built in (built_in_policies.c), and what
   calls use (overlap.c). */
#ifndef BATON_POLICIES_H
#define BATON_POLICIES_H

#include "seam/guest.h"

enum policy {
  EXCLUSIVE,
  OBJECT,
  SERIAL,
  CONCURRENT,
  LOOP, /* exclusive, but others enter while a callback waits */
  UNKNOWN, /* the names of policies end here: a program declares none of those below */
  CONNECTION, /* one call at a time for each connection and what was made from it */
  CLOSES      /* the same, and besides one at a time of all such calls and those that are serial */
};

/* Whether other processes run beside a call. */
static inline int baton_policy_lets_others_run(enum policy policy) {
  return policy != EXCLUSIVE && policy != LOOP;
}

/* What other processes do that would call what a call uses, while the call's callback waits. */
enum baton_in_callbacks {
  OTHERS_WAIT,
  OTHERS_WAIT_FOR_ARGUMENTS, /* not for the module */
  OTHERS_ENTER
};

struct baton_built_in_policy {
  const char *name; /* the module's; a dot at the end includes all its submodules */
  enum policy policy; /* of all functions that are not listed below */
  /*
  ** Names of functions, separated by commas. "f" is a field of the module, "t" a table of
  ** functions, "M:f" a field of the metatable M. "f()" means the function that f returns when it
  ** is called without arguments. "f^" means the first upvalue of f.
  */
  const char *concurrent, *object, *serial, *closes;
  enum baton_in_callbacks in_callbacks;
  int is_one_vms; /* its calls share something even if they come from different VMs */
  int keeps_no_threads; /* it uses a Lua thread only while it is called on it */
  const char *why; /* why the rest is exclusive, for the warning; NULL: there is no rest */
};

/*
** Whose turn it is to call into a module that only one VM may use at a time. The turn guards
** `owner` and `calls`: only the VM that has it writes them.
*/
struct baton_turns {
  const struct baton_turn *turn; /* atomic; made when it is first needed */
  const struct baton_lua_vm *owner;  /* atomic; the VM that has the turn, or NULL */
  unsigned calls;                /* calls of the owner that have not returned */
  int was_reported;              /* atomic; that a VM has waited for a second */
};

/* What is known of one function. */
struct baton_noted_function {
  lua_CFunction function;
  enum policy policy;
};

/* The noted functions of a module. When they outgrow their room, a larger copy replaces them. The
   old one stays, as others may be reading it. */
struct baton_noted_functions {
  int count; /* atomic */
  int room;
  struct baton_noted_function functions[];
};

#define BATON_LONGEST_MODULE_NAME 63

/*
** The object file of loaded modules, or a module that is linked into the executable. Before
** anything is loaded from it: the declared policy for a module of this name.
**
** These are the program's, not a VM's: a library is loaded once, whoever requires it. Any VM adds
** to the list, and none is ever removed. Changes are made under a mutex. Readers take none, as they
** may be the monitor: they see `policy` and the functions before or after a change.
*/
struct baton_module {
  struct baton_module *next; /* written before the module is in the list */
  const char *low, *high; /* its code; both NULL: linked, or a declaration for a later module */
  lua_CFunction opener;   /* of a linked module: the function that opened it; else NULL */
  enum policy policy; /* atomic, as are the next three */
  /* the origin of `policy`; NULL: declared, or nothing is known */
  const struct baton_built_in_policy *known;
  int is_declared;
  struct baton_noted_functions *noted; /* NULL: none */
  struct baton_turns turns;
  /* the name that it was first required by; that of its file while it is being loaded */
  char name[BATON_LONGEST_MODULE_NAME + 1];
  int is_being_loaded;
};

/* policies.c */
/* The module that the function belongs to, or NULL. */
struct baton_module *baton_policies_find(lua_CFunction function);
enum policy baton_policies_of(const struct baton_module *module, lua_CFunction function);
const struct baton_built_in_policy *baton_policies_known(const struct baton_module *module);
/* Adds the module that `function`, which is about to be called, opens. Returns NULL if the function
   is the guest's own, or memory is short. */
struct baton_module *baton_policies_add_opened(lua_CFunction function);

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
