/*
** What the files of the synchronization objects share: their handles, and how the calling process waits.
*/
#ifndef BATON_OBJECTS_H
#define BATON_OBJECTS_H

#include "guest.h"

/* An object of the kernel, in a full userdata. */
struct baton_handle {
  struct baton_vm *vm;
  uint64_t id;
  int kind; /* enum baton_object */
};

/* Pushes a handle of `size` bytes without an object yet. */
struct baton_handle *baton_lua_new_handle(lua_State *L, int kind, size_t size, int values);
/* The handle at index 1, or raises. */
struct baton_handle *baton_lua_check_handle(lua_State *L, int kind);
/* Makes the metatable of a kind of handle. `gc` may be NULL, and is called with the kind as its upvalue. */
void baton_lua_open_kind(lua_State *L, int kind, const luaL_Reg *methods, lua_CFunction gc);
/* The caller, if it may wait for as long as `timeout` says. */
struct baton_process *baton_lua_waiter(lua_State *L, baton_timeout timeout);

/* One wait of the calling process, and what it raises or returns. */
#define BATON_WAIT(L, caller, call, reason)                 \
  do {                                                      \
    struct baton_wake wake_;                                \
    baton_enter(L);                                         \
    wake_ = (call);                                         \
    baton_leave(L);                                         \
    (reason) = baton_lua_after_wait(L, caller, wake_);      \
  } while (0)

/* The same of a wait that hands something over: `give_back` does that with what the caller cannot use, since it raises before. */
#define BATON_WAIT_FOR(L, caller, call, give_back, reason)                              \
  do {                                                                                  \
    struct baton_wake wake_;                                                            \
    enum baton_debt debt_;                                                              \
    baton_enter(L);                                                                     \
    wake_ = (call);                                                                     \
    baton_leave(L);                                                                     \
    debt_ = baton_lua_debt(caller);                                                     \
    if (debt_ != BATON_OWES_NOTHING && (wake_.reason == BATON_DONE || wake_.reason == BATON_ABANDONED)) { \
      baton_enter(L);                                                                   \
      (void)(give_back);                                                                \
      baton_leave(L);                                                                   \
      baton_lua_raise(L, caller, debt_);                                                \
    }                                                                                   \
    (reason) = baton_lua_after_wait(L, caller, wake_);                                  \
  } while (0)

/* locks_module.c */
void baton_lua_open_locks(lua_State *L);

#endif
