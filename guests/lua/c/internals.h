/* Lua's private headers, for the files of the guest that must look inside. */
#ifndef BATON_INTERNALS_H
#define BATON_INTERNALS_H

#define LUA_CORE
#include "lprefix.h"

#include "lua.h"

#include "lapi.h"
#include "ldebug.h"
#include "ldo.h"
#include "lgc.h"
#include "lobject.h"
#include "lopcodes.h"
#include "lstate.h"
#include "ltable.h"

/* A bit of `hookmask` that no hook of Lua's uses: a safepoint is wanted. */
#define BATON_HOOK_BIT (1 << 7)

#endif
