/*
** The public header of io/: files, commands and pipes, for liolib.c and loslib.c in place of the C
** library's functions.
*/
#ifndef BATON_IO_H
#define BATON_IO_H

#include "seam/guest.h"
#include "sharing/sharing.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* files.c */
void baton_lua_open_io(lua_State *L);

/* log_files.c. The loader of "baton.log". */
int baton_lua_open_log(lua_State *L);

/* moving.c */
/* Called once, before there is a VM. */
void baton_io_install(void);

/* commands.c */
/* Forgets the commands in a fork's child, as they belong to the parent. */
void baton_lua_forget_commands(const struct baton_lua_vm *vm);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* files.c */
void baton_io_flush_all(void);

/* moving.c */
/* A file that liolib.c has made. */
struct baton_stream {
  luaL_Stream stream; /* must be first */
  struct departed_file *departed; /* what vm.move has sent, until it is known to have arrived */
  int is_pipe;
};
/* Takes a closed file back that vm.move had sent to another VM, if it was never received. Returns
   whether it is another VM's now. `ends`: the file is collected. */
int baton_io_has_moved(lua_State *L, int index, int ends);

/* reading.c */
/* An `attempt` for baton_wait_ready. Returns whether the descriptor that `descriptor` points to
   can be read without blocking, its end included. */
int baton_lua_is_readable(void *descriptor, int which, unsigned ready);

/* }====================================================== */

#endif
