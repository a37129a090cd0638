/*
** The public header of json/: JSON as text and as values.
*/
#ifndef BATON_JSON_H
#define BATON_JSON_H

#include "seam/guest.h"

/* {======================================================
** For the folders above
** ======================================================= */

/* module.c. The loaders of "baton.json" and "baton.json.safe". */
int baton_json_open(lua_State *L);
int baton_json_open_safe(lua_State *L);

/* }====================================================== */

#endif
