/*
** vm.shared(n): words of 64 bits that VMs change atomically and wait at.
*/
#include "sharing/inside.h"

static struct baton_words *words_of(const struct baton_handle *handle) {
  return (struct baton_words *)(size_t)handle->id;
}

static struct baton_words *check_words(lua_State *L) {
  return words_of(baton_shared_check_live(L, 1, BATON_SEALED_WORDS));
}

/* The index of a word at argument 2, from 0. */
static uint64_t check_index(lua_State *L, const struct baton_words *words) {
  const lua_Integer index = luaL_checkinteger(L, 2);
  const uint64_t count = baton_words_count(words);
  if (l_unlikely(index < 1 || (uint64_t)index > count))
    luaL_argerror(L, 2, lua_pushfstring(L, "index from 1 to %I expected", (LUAI_UACINT)count));
  return (uint64_t)index - 1;
}

int baton_sharing_is_shared(lua_State *L) {
  lua_pushboolean(L, baton_words_references(check_words(L)) > 1);
  return 1;
}

int baton_shared_new_words(lua_State *L) {
  const lua_Integer count = luaL_checkinteger(L, 1);
  struct baton_handle *handle;
  luaL_argcheck(L, count >= 1, 1, "at least one word expected");
  luaL_argcheck(L, count <= LUA_MAXINTEGER / 16, 1, "too many words");
  handle = baton_shared_new_handle(L, BATON_SEALED_WORDS, sizeof *handle);
  baton_lua_get_room(L, (size_t)count * sizeof(int64_t));
  handle->id = (uintptr_t)baton_words_new((uint64_t)count);
  if (handle->id == 0) luaL_error(L, "not enough memory");
  return 1;
}

static int words_gc(lua_State *L) {
  struct baton_handle *handle = baton_shared_check(L, 1, BATON_SEALED_WORDS);
  if (handle->id != 0) baton_words_release(words_of(handle));
  handle->id = 0;
  return 0;
}

static int words_length(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)baton_words_count(check_words(L)));
  return 1;
}

static int words_load(lua_State *L) {
  struct baton_words *words = check_words(L);
  lua_pushinteger(L, baton_words_load(words, check_index(L, words)));
  return 1;
}

static int words_store(lua_State *L) {
  struct baton_words *words = check_words(L);
  const uint64_t index = check_index(L, words);
  baton_words_store(words, index, luaL_checkinteger(L, 3));
  return 0;
}

/* w:add(i, [n=1]) -> the new value */
static int words_add(lua_State *L) {
  struct baton_words *words = check_words(L);
  const uint64_t index = check_index(L, words);
  const lua_Integer n = luaL_optinteger(L, 3, 1);
  lua_pushinteger(L, l_castU2S(l_castS2U(baton_words_add(words, index, n)) + l_castS2U(n)));
  return 1;
}

/* w:exchange(i, v) -> the old value */
static int words_exchange(lua_State *L) {
  struct baton_words *words = check_words(L);
  const uint64_t index = check_index(L, words);
  lua_pushinteger(L, baton_words_exchange(words, index, luaL_checkinteger(L, 3)));
  return 1;
}

/* w:compare(i, expected, new) -> true; or false, the present value */
static int words_compare(lua_State *L) {
  struct baton_words *words = check_words(L);
  const uint64_t index = check_index(L, words);
  int64_t value = luaL_checkinteger(L, 3);
  const int is_set = baton_words_compare(words, index, &value, luaL_checkinteger(L, 4));
  lua_pushboolean(L, is_set);
  if (is_set) return 1;
  lua_pushinteger(L, value);
  return 2;
}

static int words_wait(lua_State *L) {
  struct baton_words *words = check_words(L);
  const uint64_t index = check_index(L, words);
  const lua_Integer expected = luaL_checkinteger(L, 3);
  const baton_timeout timeout = baton_inline_check_timeout(L, 4);
  struct baton_process *caller = baton_shared_waiter(L, timeout);
  struct baton_wake wake;
  baton_lua_check_memory_for_object(L, caller->vm, 0);
  baton_lua_enter(L);
  wake = baton_words_wait(caller->vm->executor, words, index, expected, timeout);
  /* a kill comes with another reason: this is an interrupt, which passes the wake-up on */
  if (l_unlikely(caller->interrupted) && wake.reason == BATON_DONE)
    (void)baton_words_wake(caller->vm->executor, words, index, 1);
  baton_lua_leave(L);
  return baton_lua_push_outcome(L, baton_inline_after_wait(L, caller, wake));
}

/* w:wake(i, [n=1]) -> how many were woken */
static int words_wake(lua_State *L) {
  struct baton_words *words = check_words(L);
  const uint64_t index = check_index(L, words);
  const lua_Integer n = luaL_optinteger(L, 3, 1);
  const struct baton_process *caller = baton_inline_caller(L);
  uint64_t woken;
  luaL_argcheck(L, n >= 0, 3, "count must not be negative");
  baton_lua_enter(L);
  woken = baton_words_wake(caller->vm->executor, words, index, (uint64_t)n);
  baton_lua_leave(L);
  lua_pushinteger(L, (lua_Integer)woken);
  return 1;
}

/* {======================================================
** Sending
** ======================================================= */

static int is_words(lua_State *L, int index) {
  return baton_lua_test_sealed(L, index, BATON_SEALED_WORDS) != NULL;
}

static void *hold_words(lua_State *L, int index, const char **why) {
  struct baton_words *words = words_of(baton_lua_test_sealed(L, index, BATON_SEALED_WORDS));
  *why = "it was collected";
  if (words != NULL) baton_words_hold(words);
  return words;
}

static void *hold_words_again(void *object) {
  baton_words_hold(object);
  return object;
}

static void release_words(void *object) { baton_words_release(object); }

static void push_words(lua_State *L, void *object) {
  baton_shared_push(
      L, BATON_SEALED_WORDS, sizeof(struct baton_handle), object, release_words);
}

void baton_shared_install_words(void) {
  static const luaL_Reg methods[] = {{"load", words_load}, {"store", words_store},
      {"add", words_add}, {"exchange", words_exchange}, {"compare", words_compare},
      {"wait", words_wait}, {"wake", words_wake}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {
      {"__gc", words_gc}, {"__len", words_length}, {NULL, NULL}};
  static const struct baton_sendable kind = {
      is_words, hold_words, push_words, release_words, hold_words_again, NULL};
  baton_shared_install_kind(BATON_SEALED_WORDS, methods, metamethods);
  baton_copy_register(&kind);
}

/* }====================================================== */
