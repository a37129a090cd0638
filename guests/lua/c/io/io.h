/*
** The public header of io/: files, commands and pipes, for liolib.c and loslib.c in place of the C
** library's functions.
*/
#ifndef BATON_IO_H
#define BATON_IO_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* files.c */
void baton_lua_open_io(lua_State *L);

/* commands.c */
/* Forgets the command in a fork's child, as it belongs to the parent. */
void baton_lua_forget_command(void);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* files.c */
void baton_io_flush_all(void);

/* reading.c */
/* An `attempt` for baton_wait_ready. Returns whether the descriptor that `descriptor` points to
   can be read without blocking, its end included. */
int baton_lua_is_readable(void *descriptor, int which, unsigned ready);

/* }====================================================== */

#endif
