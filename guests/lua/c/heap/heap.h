/*
** The public header of heap/: a snapshot of Lua's heap.
*/
#ifndef BATON_HEAP_H
#define BATON_HEAP_H

#include "seam/guest.h"

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* heap.c */
/* Writes all objects of the process's VM to a descriptor, as records (records.h). Returns 0, or the
   errno of a write. To be called in a copy of the program whose only thread is the calling one, and
   in which no process runs. Async-signal-safe. */
int baton_lua_write_heap(const struct baton_process *process, int descriptor);

/* }====================================================== */

#endif
