/*
** How the functions of this folder find their handle, wait, and return the outcome.
*/
#ifndef BATON_WAITS_H
#define BATON_WAITS_H

#include "state/checks.h"
#include "objects/objects.h"

/* handles.c: raises the error for a value at index 1 that is no handle of that kind. */
void baton_lua_refuse_handle(lua_State *L, int kind);

/* Returns the handle at index 1, or raises an error. */
static inline struct baton_handle *baton_lua_check_handle(lua_State *L, int kind) {
  struct baton_handle *handle = baton_inline_test_sealed(L, 1, kind);
  if (l_unlikely(handle == NULL)) baton_lua_refuse_handle(L, kind);
  return handle;
}

/* The calling process. Raises an error unless it may wait, if `timeout` is not 0. */
static inline struct baton_process *baton_lua_waiter(lua_State *L, baton_timeout timeout) {
  struct baton_process *caller = baton_inline_caller(L);
  if (timeout != 0) baton_inline_check_may_wait(L, caller);
  return caller;
}

/* As baton_lua_pending. */
static inline enum baton_pending baton_inline_pending(struct baton_process *process) {
  return l_unlikely(process->killed || process->interrupted) ? baton_lua_pending(process)
                                                             : BATON_PENDING_NOTHING;
}

/* As baton_lua_push_outcome. */
static inline int baton_inline_push_outcome(lua_State *L, int reason) {
  if (l_unlikely(reason != BATON_DONE)) return baton_lua_push_outcome(L, reason);
  lua_pushboolean(L, 1);
  return 1;
}

/* Waits once, and then raises what is pending or sets `reason`. */
#define BATON_WAIT(L, caller, call, reason)                 \
  do {                                                      \
    struct baton_wake wake_;                                \
    baton_lua_enter(L);                                         \
    wake_ = (call);                                         \
    baton_lua_leave(L);                                         \
    (reason) = baton_inline_after_wait(L, caller, wake_);      \
  } while (0)

/* The same for a wait that hands something over. If the process raises an error instead of using
   it, `give_back` returns it first. `is_abandoned_` is for that. */
#define BATON_WAIT_FOR(L, caller, call, give_back, reason)                     \
  do {                                                                         \
    struct baton_wake wake_;                                                   \
    enum baton_pending pending_;                                               \
    baton_lua_enter(L);                                                            \
    wake_ = (call);                                                            \
    baton_lua_leave(L);                                                            \
    pending_ = baton_inline_pending(caller);                                      \
    if (pending_ != BATON_PENDING_NOTHING &&                                   \
        (wake_.reason == BATON_DONE || wake_.reason == BATON_ABANDONED)) {     \
      const int is_abandoned_ = wake_.reason == BATON_ABANDONED;               \
      (void)is_abandoned_;                                                     \
      baton_lua_enter(L);                                                          \
      (void)(give_back);                                                       \
      baton_lua_leave(L);                                                          \
      baton_lua_raise(L, caller, pending_);                                    \
    }                                                                          \
    (reason) = baton_inline_after_wait(L, caller, wake_);                         \
  } while (0)

#endif
