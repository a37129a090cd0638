/*
** process.select: waits for one of several events.
*/
#include "objects/waits.h"

#include <limits.h>
#include <string.h>

#define MOST_CASES 10000
#define BYTES_OF_A_CASE 256 /* at most, in the Rust half */
#define FEW_CASES 9         /* fewer are on the C stack */

/* The stack: the two arguments, the cases, and three places for each case, the second of which only
   its reading uses. */
enum { AT_CASES = 3, AT_FIRST = 4, PER_CASE = 3, OBJECT = 0, SENT = 2 };

struct baton_shared_cases baton_shared_cases;

static int place_of(int i) { return AT_FIRST + PER_CASE * i; }

/* lua_touserdata does not lock. */
static struct channel *channel_of(lua_State *L, int i) {
  return lua_touserdata(L, place_of(i) + OBJECT);
}

/* {======================================================
** Reading a case. Its value is on the top of the stack, at its place. Two more values follow it.
** ======================================================= */

static int refuse(lua_State *L, int i, const char *what) {
  return luaL_argerror(L, 1, lua_pushfstring(L, "case %d: %s", i + 1, what));
}

static int is_process(lua_State *L, int index, struct baton_case *found) {
  struct baton_process *process = baton_lua_test_sealed(L, index, BATON_SEALED_PROCESS);
  if (process == NULL) return 0;
  found->kind = BATON_CASE_JOIN;
  found->id = process->outcome == BATON_ALIVE ? process->sched_id : 0;
  return 1;
}

/* Reads a case that consists of an object alone. Does not lock. */
static int is_object(lua_State *L, int index, struct baton_case *found) {
  static const signed char kinds[BATON_SEALS] = {
      [BATON_SEMAPHORE] = BATON_CASE_SEMAPHORE + 1,
      [BATON_MUTEX] = BATON_CASE_MUTEX + 1,
      [BATON_EVENT] = BATON_CASE_EVENT + 1,
      [BATON_CHANNEL] = BATON_CASE_RECEIVE + 1,
      [BATON_ALARM] = BATON_CASE_ALARM + 1,
      [BATON_SEALED_SHARED_CHANNEL] = BATON_CASE_SHARED_RECEIVE + 1,
  };
  const struct baton_sealed *sealed = baton_inline_large_userdata(L, index);
  const int kind = sealed != NULL ? baton_inline_kind_of(sealed) : -1;
  if (kind < 0 || kinds[kind] == 0) return is_process(L, index, found);
  found->kind = kinds[kind] - 1;
  found->id = ((const struct baton_handle *)sealed)->id;
  return 1;
}

/* Reads what a descriptor is waited for from the value at `index`. The default is reading. */
static uint32_t check_wants(lua_State *L, int i, int index) {
  const char *mode = lua_isnil(L, index) ? "r" : lua_tostring(L, index);
  if (mode != NULL && strcmp(mode, "r") == 0) return BATON_WANTS_READ;
  if (mode != NULL && strcmp(mode, "w") == 0) return BATON_WANTS_WRITE;
  if (mode != NULL && strcmp(mode, "rw") == 0) return BATON_WANTS_READ | BATON_WANTS_WRITE;
  return (uint32_t)refuse(L, i, "\"r\", \"w\" or \"rw\" expected for what to wait for");
}

static void read_descriptor(lua_State *L, int i, int index, struct baton_case *found) {
  int is_integer;
  lua_Integer fd = lua_tointegerx(L, index, &is_integer);
  if (!is_integer || fd > INT_MAX) refuse(L, i, "the number of a descriptor expected");
  /* a closed socket returns -1 */
  found->kind = fd < 0 ? BATON_CASE_CLOSED : BATON_CASE_DESCRIPTOR;
  found->id = (uint64_t)fd;
}

/* Calls a method without arguments, and leaves its result. Returns 0 if there is no such method. */
static int call_method(lua_State *L, int index, const char *name) {
  if (lua_type(L, index) == LUA_TUSERDATA && luaL_getmetafield(L, index, "__index") == LUA_TNIL)
    return 0;
  if (lua_type(L, index) == LUA_TUSERDATA) lua_pop(L, 1);
  if (lua_getfield(L, index, name) != LUA_TFUNCTION) {
    lua_pop(L, 1);
    return 0;
  }
  lua_pushvalue(L, index);
  lua_call(L, 1, 1);
  return 1;
}

/* Reads a case that has a descriptor. An object with data in its own buffer is ready: its method
   dirty() says so. */
static int is_selectable(lua_State *L, int i, int index, int mode, struct baton_case *found) {
  if (lua_type(L, index) != LUA_TUSERDATA && lua_type(L, index) != LUA_TTABLE) return 0;
  if (!call_method(L, index, "getfd")) return 0;
  read_descriptor(L, i, -1, found);
  lua_pop(L, 1);
  if (mode != 0)
    found->wants = check_wants(L, i, mode);
  else
    found->wants = BATON_WANTS_READ;
  if (found->kind == BATON_CASE_DESCRIPTOR && (found->wants & BATON_WANTS_READ) != 0 &&
      call_method(L, index, "dirty")) {
    if (lua_toboolean(L, -1)) found->kind = BATON_CASE_READY;
    lua_pop(L, 1);
  }
  return 1;
}

static void take_place(lua_State *L, int at, int index) {
  lua_pushvalue(L, index);
  lua_replace(L, at + OBJECT);
}

/* {channel, value} */
static int is_send(lua_State *L, int i, int at, struct baton_case *found) {
  struct baton_handle *channel = baton_lua_test_handle(L, at + 1, BATON_CHANNEL);
  const int is_shared = channel == NULL;
  if (is_shared) channel = baton_lua_test_handle(L, at + 1, BATON_SEALED_SHARED_CHANNEL);
  if (channel == NULL) return 0;
  if (lua_isnil(L, at + 2)) refuse(L, i, "{channel, value} expected (nil cannot be sent)");
  found->id = channel->id;
  if (is_shared) {
    baton_shared_cases.pack(L, at + SENT);
    found->kind = BATON_CASE_SHARED_SEND;
    return 1;
  }
  if (((struct channel *)channel)->signals != 0)
    refuse(L, i, "nothing can be sent to a channel of signals");
  found->kind = BATON_CASE_SEND;
  return 1;
}

/* {channel, value}, {fd=n, "r"}, {object, "w"}, or an object that is a table. */
static int is_table(lua_State *L, int i, int at, struct baton_case *found) {
  if (lua_type(L, at) != LUA_TTABLE) return 0;
  lua_rawgeti(L, at, 1);
  lua_rawgeti(L, at, 2);
  if (is_send(L, i, at, found)) {
    take_place(L, at, at + 1);
    return 1;
  }
  lua_pushliteral(L, "fd");
  if (lua_rawget(L, at) != LUA_TNIL) {
    read_descriptor(L, i, -1, found);
    if (lua_tointeger(L, -1) < 0) refuse(L, i, "the number of a descriptor expected");
    found->wants = check_wants(L, i, at + 1);
    lua_settop(L, at + 2);
    return 1;
  }
  lua_settop(L, at + 2);
  if (is_selectable(L, i, at, 0, found)) return 1;
  if (!is_selectable(L, i, at + 1, at + 2, found)) return 0;
  take_place(L, at, at + 1);
  return 1;
}

/* Pushes the value of the table at index 1, and two times nil. */
static void push_place(lua_State *L, lua_Integer key) {
  const TValue *value;
  baton_lua_enter(L);
  value = luaH_getint(hvalue(s2v(L->ci->func.p + 1)), key);
  if (isempty(value)) {
    setnilvalue(s2v(L->top.p));
  } else {
    setobj2s(L, L->top.p, value);
  }
  setnilvalue(s2v(L->top.p + 1));
  setnilvalue(s2v(L->top.p + 2));
  L->top.p += PER_CASE;
  baton_lua_leave(L);
}

/* Reads case `i` of the table at index 1. */
static void read_case(lua_State *L, int i, struct baton_case *found) {
  const int at = place_of(i);
  push_place(L, i + 1);
  if (l_likely(is_object(L, at, found))) return;
  lua_settop(L, at);
  if (is_table(L, i, at, found)) return;
  if (lua_type(L, at) == LUA_TUSERDATA && is_selectable(L, i, at, 0, found)) {
    lua_settop(L, at);
    lua_pushnil(L);
    lua_pushnil(L);
    return;
  }
  refuse(L, i,
      lua_pushfstring(L,
          "channel, {channel, value}, process, event, semaphore, mutex, timer, {fd=n} or an object "
          "with getfd() expected, got %s",
          luaL_typename(L, at)));
}

/* }====================================================== */

/* Stores the values to be sent in their channels. From here to the wait, only a lack of memory
   raises an error. Inside the VM. */
static void store_values(lua_State *L, struct baton_case *cases, int count) {
  int i;
  for (i = 0; i < count; i++) {
    if (cases[i].kind == BATON_CASE_SEND)
      cases[i].value = baton_lua_store_value(L, channel_of(L, i), place_of(i) + SENT);
    else if (cases[i].kind == BATON_CASE_SHARED_SEND)
      cases[i].value = baton_shared_cases.unpack(lua_touserdata(L, place_of(i) + SENT));
  }
}

/* Takes back the values that were not sent, and pushes the received value, or nil. Inside the
   VM. */
static void take_values(
    lua_State *L, const struct baton_case *cases, int count, struct baton_wake wake) {
  const int chosen = (int)wake.case_index, is_done = wake.reason == BATON_DONE;
  int i;
  for (i = 0; i < count; i++) {
    if (cases[i].kind != BATON_CASE_SEND || (is_done && chosen == i)) continue;
    baton_lua_take_value(L, channel_of(L, i), (uint32_t)cases[i].value);
    L->top.p--;
  }
  if (is_done && cases[chosen].kind == BATON_CASE_RECEIVE) {
    baton_lua_take_value(L, channel_of(L, chosen), (uint32_t)wake.value);
  } else {
    setnilvalue(s2v(L->top.p));
    api_incr_top(L);
  }
}

/* If the caller is about to raise an error, returns what the wait has handed over, and raises
   it. */
static void give_back(lua_State *L, struct baton_process *caller, const struct baton_case *taken,
    struct baton_wake wake) {
  enum baton_pending pending = baton_inline_pending(caller);
  if (pending == BATON_PENDING_NOTHING ||
      (wake.reason != BATON_DONE && wake.reason != BATON_ABANDONED))
    return;
  baton_lua_enter(L);
  if (taken->kind == BATON_CASE_SEMAPHORE)
    baton_semaphore_signal(caller->vm->executor, taken->id, 1);
  if (taken->kind == BATON_CASE_MUTEX)
    baton_mutex_give_back(caller->vm->executor, taken->id, wake.reason == BATON_ABANDONED);
  if (taken->kind == BATON_CASE_RECEIVE && wake.reason == BATON_DONE)
    baton_lua_give_back_value(L, channel_of(L, (int)wake.case_index), (uint32_t)wake.value);
  if (taken->kind == BATON_CASE_SHARED_RECEIVE && wake.reason == BATON_DONE)
    baton_shared_give_back(caller->vm->executor,
        (void *)(size_t)taken->id, (void *)(size_t)wake.value);
  baton_lua_leave(L);
  baton_lua_raise(L, caller, pending);
}

/* Pushes the case's number and the results of the corresponding single call. A received value is on
   the top of the stack. */
static int push_chosen(
    lua_State *L, const struct baton_case *cases, int i, struct baton_wake wake) {
  const int reason = (int)wake.reason;
  int results;
  if (reason == BATON_DONE && cases[i].kind == BATON_CASE_SHARED_RECEIVE) {
    lua_pushinteger(L, i + 1);
    baton_shared_cases.push(L, wake.value);
    return 2;
  }
  if (reason == BATON_DONE && cases[i].kind == BATON_CASE_RECEIVE) {
    lua_pushinteger(L, i + 1);
    lua_pushvalue(L, -2);
    return 2;
  }
  if (reason == BATON_DONE && cases[i].kind == BATON_CASE_JOIN) {
    struct baton_process *process = lua_touserdata(L, place_of(i));
    lua_pushvalue(L, place_of(i));
    lua_replace(L, 1); /* baton_lua_push_results expects it there */
    lua_settop(L, 1);
    lua_pushinteger(L, i + 1);
    return 1 + baton_lua_push_results(L, process);
  }
  lua_pushinteger(L, i + 1);
  results = baton_lua_push_outcome(L, reason);
  return 1 + results;
}

/* The length of the table at index 1. */
static lua_Integer count_cases(lua_State *L) {
  Table *table = hvalue(s2v(L->ci->func.p + 1));
  lua_Integer length;
  if (table->metatable != NULL) return luaL_len(L, 1);
  baton_lua_enter(L);
  length = (lua_Integer)luaH_getn(table);
  baton_lua_leave(L);
  return length;
}

static int process_select(lua_State *L) {
  baton_timeout timeout = baton_inline_check_timeout(L, 2);
  struct baton_process *caller = baton_lua_waiter(L, timeout);
  char message[BATON_MESSAGE] = "";
  struct baton_case few[FEW_CASES], *cases = few;
  struct baton_wake wake;
  lua_Integer length;
  int i, count, reason;
  luaL_checktype(L, 1, LUA_TTABLE);
  length = count_cases(L);
  luaL_argcheck(L, length >= 0, 1, "number of cases must not be negative");
  luaL_argcheck(L, length <= MOST_CASES, 1, "too many cases (the limit is 10000)");
  count = (int)length;
  luaL_argcheck(L, count > 0 || timeout != BATON_FOREVER, 1,
      "no cases and no timeout: this would wait for ever");
  baton_lua_get_room(L, (size_t)count * BYTES_OF_A_CASE);
  lua_settop(L, 2);
  if (count < FEW_CASES)
    lua_pushnil(L); /* in place of the cases */
  else
    cases = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *cases, 0);
  memset(cases, 0, (size_t)(count + 1) * sizeof *cases);
  luaL_checkstack(L, PER_CASE * count + 8, "too many cases");
  for (i = 0; i < count; i++) {
    read_case(L, i, &cases[i]);
    if (baton_simulated && cases[i].kind == BATON_CASE_DESCRIPTOR)
      refuse(L, i, "a simulated run cannot wait for descriptors");
  }
  baton_lua_enter(L);
  store_values(L, cases, count);
  baton_lua_deliver_signals(caller->vm);
  wake =
      baton_select(caller->vm->executor, cases, (size_t)count, timeout, message, sizeof message);
  take_values(L, cases, count, wake);
  baton_lua_leave(L);
  i = (int)wake.case_index;
  if (wake.reason == BATON_MISUSE) {
    if (cases[i].kind == BATON_CASE_JOIN) refuse(L, i, "a process cannot wait for its own end");
    refuse(L, i, "the mutex is already locked by this process (it is not recursive)");
  }
  if (message[0] != '\0') luaL_error(L, "cannot wait: %s", message);
  give_back(L, caller, &cases[i], wake);
  reason = baton_inline_after_wait(L, caller, wake);
  if (reason != BATON_DONE && reason != BATON_CLOSED && reason != BATON_ABANDONED)
    return baton_lua_push_outcome(L, reason);
  return push_chosen(L, cases, i, wake);
}

/* Adds process.select to the module's table on the top of the stack. */
void baton_lua_open_select(lua_State *L) {
  lua_pushcfunction(L, process_select);
  lua_setfield(L, -2, "select");
}
