/*
** Files, commands and pipes: what liolib.c and loslib.c call in place of the C library.
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
/* In a fork's child: the command is the parent's. */
void baton_lua_forget_command(void);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* files.c */
void baton_io_flush_all(void);

/* reading.c */
/* An attempt of baton_rs_wait_ready: whether there is something to read from the descriptor that is
   pointed to, or nothing will come any more. */
int baton_lua_is_readable(void *descriptor, int which, unsigned ready);

/* }====================================================== */

#endif
