/*
** require, and the modules that are adapted when they are loaded.
*/
#ifndef BATON_MODULES_H
#define BATON_MODULES_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* name_lookups.c */
void baton_lua_names_in_child(void);

/* require.c */
void baton_lua_keep_loads_of(struct baton_process *survivor);
void baton_lua_open_require(lua_State *L);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* adapted.c */
/* The value of a module that has just been loaded, but is not yet seen by others, is on the top of
   the stack. */
void baton_lua_adapt_module(lua_State *L, const char *name);

/* }====================================================== */

#endif
