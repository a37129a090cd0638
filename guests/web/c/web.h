/*
** The half of the module in C: what reads, writes and waits, by baton_net.h.
**
** module.c      opens the module
** tls.c         contexts; TLS as a transport of a connection
** websocket.c   sockets of WebSocket over a connection
** http2.c       the server's side of HTTP/2 over a connection
**
** The protocols are in Rust (src/c), as state machines that never wait. The upgrade from HTTP to
** WebSocket is in Lua (lua/).
*/
#ifndef BATON_WEB_H
#define BATON_WEB_H

#include "baton.h"
#include "baton_module.h"
#include "baton_net.h"
#include "lauxlib.h"

#include <math.h>

/* module.c */
/* Opens the module. */
int baton_web_open(lua_State *L);

/* tls.c, websocket.c, http2.c */
/* Add their functions to the table on the top. */
void baton_web_open_tls(lua_State *L);
void baton_web_open_websocket(lua_State *L);
void baton_web_open_http2(lua_State *L);

/* The deadline of a timeout in seconds: the argument `index`, which may be absent. */
static inline uint64_t baton_web_deadline(lua_State *L, int index) {
  const lua_Number seconds = luaL_optnumber(L, index, HUGE_VAL);
  luaL_argcheck(L, seconds == seconds, index, "a number expected, got nan");
  if (seconds <= 0) return 0;
  if (seconds > 9.0e9) return BATON_NO_DEADLINE;
  return baton_now() + (uint64_t)(seconds * 1e9);
}

/* {======================================================
** Records of src/c
** ======================================================= */

struct web_bytes {
  const char *at; /* NULL: there are none */
  size_t size;
};

/* Where a text is written. */
struct web_room {
  char *at;
  size_t size;
};

#define BATON_WEB_MESSAGE 512 /* bytes of such a text */

/* The argument as bytes, which live as long as the argument. */
static inline struct web_bytes baton_web_bytes(lua_State *L, int index) {
  struct web_bytes bytes;
  bytes.at = luaL_checklstring(L, index, &bytes.size);
  return bytes;
}

/* }====================================================== */

#endif
