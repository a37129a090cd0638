/*
** The public header of http/: `require "baton.http"`.
*/
#ifndef BATON_HTTP_H
#define BATON_HTTP_H

#include "lua.h"

#include <stdint.h>

/* Opens the module. */
int baton_http_open(lua_State *L);
/* A figure of all servers of the program (inside.h, enum baton_http_figure). Any thread may ask. */
uint64_t baton_http_figure(unsigned figure);

#endif
