/*
** Where modules are searched when nothing is said: where Debian's lua5.4 looks, which is Lua's own defaults and Debian's
** directories. Compiled into Lua, so that it also holds for states that a module makes for itself.
*/
#ifndef BATON_SEARCH_PATHS_H
#define BATON_SEARCH_PATHS_H

#if defined(__x86_64__) && defined(__linux__)
#define BATON_TRIPLET_CPATH "/usr/lib/x86_64-linux-gnu/lua/5.4/?.so;"
#elif defined(__aarch64__) && defined(__linux__)
#define BATON_TRIPLET_CPATH "/usr/lib/aarch64-linux-gnu/lua/5.4/?.so;"
#else
#define BATON_TRIPLET_CPATH ""
#endif

#define LUA_PATH_DEFAULT                                                       \
  "/usr/local/share/lua/5.4/?.lua;/usr/local/share/lua/5.4/?/init.lua;"        \
  "/usr/local/lib/lua/5.4/?.lua;/usr/local/lib/lua/5.4/?/init.lua;"            \
  "/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;./?.lua;./?/init.lua"
#define LUA_CPATH_DEFAULT                                                      \
  "/usr/local/lib/lua/5.4/?.so;" BATON_TRIPLET_CPATH "/usr/lib/lua/5.4/?.so;"  \
  "/usr/local/lib/lua/5.4/loadall.so;./?.so"

#endif
