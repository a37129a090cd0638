/*
** The module's functions that make shared objects.
*/
#include "sharing/sharing.h"

void baton_sharing_functions(lua_State *L) { (void)L; }
