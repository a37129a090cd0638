/*
** A second public header of state/, for files that look inside Lua: the checks that functions on
** objects make at each call, inline. `baton_inline_X` is `baton_lua_X` of state.h.
*/
#ifndef BATON_CHECKS_H
#define BATON_CHECKS_H

#include "seam/internals.h"
#include "state/state.h"

/* {======================================================
** The calling process (waiting.c)
** ======================================================= */

void baton_lua_refuse_caller(lua_State *L);
void baton_lua_refuse_wait(lua_State *L, const struct baton_process *process);
baton_timeout baton_lua_read_timeout(lua_State *L, int index);
void baton_lua_end_wait(lua_State *L, struct baton_process *process, int reason);

static inline struct baton_process *baton_inline_caller(lua_State *L) {
  struct baton_process *process = baton_lua_running(L);
  if (l_unlikely(process == NULL || process->vm->closing)) baton_lua_refuse_caller(L);
  return process;
}

static inline void baton_inline_check_may_wait(lua_State *L, struct baton_process *process) {
  if (l_unlikely(process == process->vm->hook_process || process->foreign_states > 0))
    baton_lua_refuse_wait(L, process);
}

/* An argument that is not there is the most frequent case. Like lua_type, this does not lock. */
static inline baton_timeout baton_inline_check_timeout(lua_State *L, int index) {
  if (l_likely(L->ci->func.p + index >= L->top.p)) return BATON_FOREVER;
  return baton_lua_read_timeout(L, index);
}

static inline int baton_inline_after_wait(
    lua_State *L, struct baton_process *process, struct baton_wake wake) {
  if (l_unlikely(process->killed || process->interrupted || wake.reason >= BATON_INTERRUPTED))
    baton_lua_end_wait(L, process, (int)wake.reason);
  return (int)wake.reason;
}

/* }====================================================== */

/* {======================================================
** Sealed objects (sealed.c)
** ======================================================= */

extern __attribute__((visibility("hidden"))) const char baton_lua_seals[BATON_SEALS];

static inline const void *baton_inline_seal(int kind) { return &baton_lua_seals[kind]; }

/* The beginning of a full userdata that is large enough for a seal, or NULL. A value that is no
   argument or local value of the running function is never ours. Like lua_touserdata, this does not
   lock. */
static inline const struct baton_sealed *baton_inline_large_userdata(lua_State *L, int index) {
  const StkId at = index > 0 ? L->ci->func.p + index : L->top.p + index;
  const Udata *userdata;
  if (l_unlikely(index <= LUA_REGISTRYINDEX || at >= L->top.p || !ttisfulluserdata(s2v(at))))
    return NULL;
  userdata = uvalue(s2v(at));
  if (l_unlikely(userdata->len < sizeof(struct baton_sealed))) return NULL;
  return (const struct baton_sealed *)getudatamem(userdata);
}

/* The kind of an object with room for a seal, or -1 if it is not ours. */
static inline int baton_inline_kind_of(const struct baton_sealed *sealed) {
  const uintptr_t kind = (uintptr_t)sealed->seal - (uintptr_t)baton_lua_seals;
  return kind < BATON_SEALS ? (int)kind : -1;
}

static inline void *baton_inline_test_sealed(lua_State *L, int index, int kind) {
  const struct baton_sealed *sealed = baton_inline_large_userdata(L, index);
  const int is_of_kind = sealed != NULL && sealed->seal == baton_inline_seal(kind);
  return l_likely(is_of_kind) ? (void *)(size_t)sealed : NULL;
}

static inline void *baton_inline_check_sealed(lua_State *L, int index, int kind, const char *name) {
  void *sealed = baton_inline_test_sealed(L, index, kind);
  if (l_unlikely(sealed == NULL)) luaL_typeerror(L, index, name);
  return sealed;
}

/* }====================================================== */

#endif
