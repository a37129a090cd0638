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
  int keeps_no_threads; /* it uses a Lua thread only while it is called on it */
  const char *why; /* why the rest is exclusive, for the warning; NULL: there is no rest */
};

/* The built-in policy for the module of this name, or NULL. */
const struct baton_built_in_policy *baton_lua_built_in_policy(const char *name);
/* Whether the library of this path has a module that is known to keep no address of a Lua
   thread. */
int baton_lua_keeps_no_threads(const char *path);

#endif
