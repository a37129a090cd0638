/*
** The public header of http/: `require "baton.http"`.
*/
#ifndef BATON_HTTP_H
#define BATON_HTTP_H

#include "lua.h"

/* Opens the module. */
int baton_http_open(lua_State *L);

#endif
