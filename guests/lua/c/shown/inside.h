/*
** Between the files of shown/.
*/
#ifndef BATON_SHOWN_INSIDE_H
#define BATON_SHOWN_INSIDE_H

#include "seam/internals.h"

#include "shown/shown.h"

/* frames.c */
/* The mark of a frame; 0: there is none. */
uint64_t baton_debugger_mark_of(const struct baton_process *process, int index);

/* lookup.c. Each may raise an error. Outside the VM. */
/* Pushes the function of a frame. */
void baton_debugger_push_function(lua_State *L, const struct baton_place *place);
/* Pushes the n-th local variable, or extra argument for a negative n. Returns its name, or NULL. */
const char *baton_debugger_push_local(lua_State *L, const struct baton_place *place, int n);
/* Pops a value, and sets that variable or argument. Returns 0, and pops nothing, if there is
   none. */
int baton_debugger_set_local(lua_State *L, const struct baton_place *place, int n);
/* Pops a value, and sets the variable that the frame sees by this name. Returns 0 if there is none,
   and pops nothing. */
int baton_debugger_set_variable(lua_State *L, const struct baton_place *place, const char *name);
/* Pushes the globals that the frame sees. */
void baton_debugger_push_globals(lua_State *L, const struct baton_place *place);
/* Pushes the value of the variable that the frame sees by this name. Returns 0, and pushes nothing,
   if there is none. */
int baton_debugger_push_variable(
    lua_State *L, const struct baton_place *place, const char *name);

/* keys.c */
/* Pushes a list of the keys of the table on the top of the stack, in order: numbers, strings, other
   ones. Those of its first `elements` elements are left out. */
void baton_debugger_push_keys(lua_State *L, int64_t elements);

/* complete.c */
/* Visits the names that begin so in the value of `path`, or in the frame if that is empty. */
typedef void baton_debugger_name_visitor(lua_State *L, void *context, const char *name);
void baton_debugger_complete(lua_State *L, const struct baton_place *place, const char *path,
    const char *beginning, baton_debugger_name_visitor *visit, void *context);

#endif
