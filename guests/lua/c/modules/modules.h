/*
** The public header of modules/: require, and the adapted modules.
*/
#ifndef BATON_MODULES_H
#define BATON_MODULES_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* name_lookups.c */
void baton_lua_names_in_child(void);
/* Pushes a table of numeric addresses. Returns 0, an error of getaddrinfo, or the number below if
   the deadline has passed. Raises a kill. */
enum { BATON_NAME_TIMED_OUT = 100000 };
int baton_lua_look_up_name(lua_State *L, struct baton_process *process, const char *host,
    int family, uint64_t deadline);

/* socket_moving.c */
/* Called once, before there is a VM. */
void baton_modules_install(void);

/* Puts the network of a simulated run in the place of the system's, in the loaded module
   socket.core on the top of the stack. Installed before there is a Lua state. */
extern __attribute__((visibility("hidden"))) void (*baton_lua_simulate_sockets)(lua_State *L);

/* require.c */
void baton_lua_keep_loads_of(struct baton_process *survivor);
void baton_lua_open_require(lua_State *L);
/* Lets `require "ffi"` find baton.ffi. */
void baton_lua_offer_ffi(lua_State *L);

/* }====================================================== */

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* inspect.c. Opens the module baton.inspect. */
int baton_lua_open_inspect(lua_State *L);


/* adapted.c */
/* Adapts a module that was just loaded. Its value is on the top of the stack, and no other process
   has seen it yet. */
void baton_lua_adapt_module(lua_State *L, const char *name);

/* }====================================================== */

#endif
