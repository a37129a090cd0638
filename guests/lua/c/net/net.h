/*
** The public header of net/: `require "baton.net"`. Connections as C code uses them are in
** baton_net.h (guests/lua/include), which modules that are files include as well.
*/
#ifndef BATON_NET_FACE_H
#define BATON_NET_FACE_H

#include "baton_net.h"
#include "state/state.h"

/* Called once, before there is a VM, and before a simulated run begins. */
void baton_net_install_kinds(void);
/* Opens the module. */
int baton_net_open(lua_State *L);
/* Frees what a VM keeps for its connections. Its heap is freed already. */
void baton_net_forget(struct baton_lua_vm *vm);
/* A VM is started beside the caller's: in a simulated run, both have one network. */
void baton_net_note_vms(lua_State *L);
/* A VM has ended or was halted: in a simulated run, its connections are lost. Called by any thread
   that is in no VM. */
void baton_net_end_of_vm(const struct baton_lua_vm *vm);

/*
** net.tls(connection, options), and the option `tls` of net.connect, call the function `tls` of the
** module baton.web, a file (baton_module.h), with a connection and a table of options. In the table
** of net.connect, `name` is the host's. The function returns the same connection, with its
** transport installed and the handshake made; or nil and a text.
*/

#endif
