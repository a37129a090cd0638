/*
** The public header of heap/: a snapshot of Lua's heap, and samples of what is allocated.
*/
#ifndef BATON_HEAP_H
#define BATON_HEAP_H

#include "seam/guest.h"

/* {======================================================
** For the Rust half and the interpreter
** ======================================================= */

/* allocations.c */
/* Lets samples be taken of what Lua allocates, the first one after so many bytes, until none are
   wanted. Returns 1; 2 if samples are taken already, and nothing has changed; 0 if the program has
   set another allocator. No process runs meanwhile. */
int baton_lua_sample_allocations(struct baton_process *process, uint64_t until);

/* heap.c */
/* Writes all objects of the process's VM to a descriptor, as records (records.h). Returns 0, or the
   errno of a write. To be called in a copy of the program whose only thread is the calling one, and
   in which no process runs. Async-signal-safe. */
int baton_lua_write_heap(const struct baton_process *process, int descriptor);

/* }====================================================== */

#endif
