/*
** The records of sockets, and how processes wait for them (sockets.h).
**
** Turns: if several processes receive from one socket, one does at a time, until it has what it
** wants. Sending works likewise. A process takes a turn only when it must wait. Others that come
** meanwhile wait until it gives the turn back.
**
** Registrations: a socket's registration with the poller is kept, so that a wait makes no system
** call. That holds while nobody else has the number of its descriptor. A program that has it
** (getfd, setfd) may close it, or give it to another file (dup2), in C. Nothing tells us, and the
** registration would be the old file's. So from then on each wait makes its own.
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"
#include "state/state.h"
#include "system.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char kind;

/* {======================================================
** Records
** ======================================================= */

static struct baton_socket *socket_of(const TValue *object) {
  const Udata *userdata;
  const TValue *kept;
  struct baton_socket *socket;
  if (!ttisfulluserdata(object)) return NULL;
  userdata = uvalue(object);
  if (userdata->nuvalue < 1) return NULL;
  kept = &userdata->uv[0].uv;
  if (!ttisfulluserdata(kept) || uvalue(kept)->len != sizeof *socket) return NULL;
  socket = (struct baton_socket *)getudatamem(uvalue(kept));
  return socket->kind == &kind ? socket : NULL;
}

struct baton_socket *baton_socket_at(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA) return NULL;
  return socket_of(s2v(index > 0 ? L->ci->func.p + index : L->top.p + index));
}

void baton_socket_call(lua_State *L, lua_CFunction function, int results) {
  lua_pushcfunction(L, function);
  lua_pushvalue(L, 1);
  lua_call(L, 1, results);
}

static void set_native_timeout(
    lua_State *L, const struct baton_socket_class *class, lua_Number seconds, const char *mode) {
  lua_pushcfunction(L, class->settimeout);
  lua_pushvalue(L, 1);
  lua_pushnumber(L, seconds);
  lua_pushstring(L, mode);
  lua_call(L, 3, 0);
}

static void set_native_timeouts(
    lua_State *L, const struct baton_socket_class *class, lua_Number block, lua_Number total) {
  set_native_timeout(L, class, block, "b");
  set_native_timeout(L, class, total, "t");
}

int baton_socket_descriptor(lua_State *L, const struct baton_socket_class *class) {
  int descriptor;
  baton_socket_call(L, class->getfd, 1);
  descriptor = (int)lua_tonumber(L, -1);
  lua_pop(L, 1);
  return descriptor;
}

/* Notes a new descriptor. Removes an earlier registration of its number, for another file. */
static void begin_descriptor(lua_State *L, struct baton_try *call, int descriptor) {
  call->socket->descriptor = descriptor;
  call->socket->is_drained = 0;
  call->socket->news_before = -1;
  call->socket->protocol = -1;
  if (descriptor < 0) return;
  baton_lua_enter(L);
  baton_descriptor_closes(call->process->vm->executor, (uint32_t)descriptor);
  baton_lua_leave(L);
}

/* Called at the first call of a method. Reads the object's timeouts, and sets them to 0. */
struct baton_socket *baton_socket_begin(lua_State *L, struct baton_try *call) {
  struct baton_socket *socket;
  lua_Number block = -1, total = -1;
  if (call->class->gettimeout != NULL) {
    baton_socket_call(L, call->class->gettimeout, 2);
    block = lua_tonumber(L, -2);
    total = lua_tonumber(L, -1);
    lua_pop(L, 2);
  }
  set_native_timeouts(L, call->class, 0, -1);
  socket = lua_newuserdatauv(L, sizeof *socket, 0);
  *socket = (struct baton_socket){.kind = &kind, .block = block, .total = total, .descriptor = -1};
  if (!lua_setiuservalue(L, 1, 1)) return NULL;
  call->socket = socket;
  begin_descriptor(L, call, baton_socket_descriptor(L, call->class));
  return socket;
}

/* Whether the first argument is an object of the module. The method itself refuses others. */
static int is_of_module(lua_State *L) {
  int is_known = 0;
  if (lua_type(L, 1) != LUA_TUSERDATA || !lua_getmetatable(L, 1)) return 0;
  lua_pushvalue(L, lua_upvalueindex(BATON_UV_CLASS));
  if (lua_getiuservalue(L, -1, 1) == LUA_TTABLE) {
    lua_pushvalue(L, -3);
    lua_rawget(L, -2);
    is_known = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 3);
  return is_known;
}

struct baton_socket *baton_socket_of_call(lua_State *L, struct baton_try *call) {
  *call = (struct baton_try){.process = baton_lua_running(L)};
  if (call->process == NULL || call->process->vm->closing || lua_gettop(L) == 0) return NULL;
  call->class = (const struct baton_socket_class *)getudatamem(
      uvalue(&clCvalue(s2v(L->ci->func.p))->upvalue[BATON_UV_CLASS - 1]));
  call->socket = socket_of(s2v(L->ci->func.p + 1));
  if (call->socket == NULL) {
    if (!is_of_module(L)) return NULL;
    return baton_socket_begin(L, call);
  }
  if (l_unlikely(call->socket->departed != NULL)) baton_socket_take_back(L, call);
  if (l_unlikely(call->socket->is_native)) { /* a native call has ended with an error */
    set_native_timeouts(L, call->class, 0, -1);
    call->socket->is_native = 0;
  }
  return call->socket;
}

void baton_socket_note_descriptor(lua_State *L, struct baton_try *call) {
  begin_descriptor(L, call, baton_socket_descriptor(L, call->class));
}

void baton_socket_is_known(lua_State *L, struct baton_try *call) {
  if (call->socket->is_known) return;
  call->socket->is_known = 1;
  begin_descriptor(L, call, call->socket->descriptor); /* who waits for it does so anew */
}

void baton_socket_closes(lua_State *L, struct baton_try *call) {
  struct baton_socket *socket = call->socket;
  const int descriptor = socket->descriptor;
  if (l_unlikely(socket->departed != NULL)) baton_departed_drop(&socket->departed->departed);
  socket->departed = NULL;
  socket->descriptor = -1;
  socket->is_drained = 0;
  if (descriptor < 0) return;
  baton_lua_enter(L);
  baton_descriptor_closes(call->process->vm->executor, (uint32_t)descriptor);
  baton_lua_leave(L);
}

/* }====================================================== */

/* {======================================================
** Moving
** ======================================================= */

void baton_socket_set_descriptor(
    lua_State *L, const struct baton_socket_class *class, int descriptor) {
  lua_pushcfunction(L, class->setfd);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, descriptor);
  lua_call(L, 2, 0);
}

/* The module fills its buffer when it receives. So it receives no bytes from a connection of ours
   that has the data. Returns 0, or an error number. */
static int fill_buffer(
    lua_State *L, const struct baton_socket_class *class, const char *data, size_t size) {
  int ends[2], left, error = 0;
  if (socketpair(AF_UNIX, BATON_STREAM, 0, ends) != 0) return errno;
  baton_prepare_descriptor(ends[0]);
  baton_prepare_descriptor(ends[1]);
  if (write(ends[1], data, size) != (ssize_t)size) {
    error = EMSGSIZE;
  } else {
    baton_socket_set_descriptor(L, class, ends[0]);
    lua_pushcfunction(L, class->receive);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    lua_call(L, 2, 0);
    baton_socket_set_descriptor(L, class, -1);
    if (ioctl(ends[0], FIONREAD, &left) != 0 || left != 0) error = EMSGSIZE;
  }
  close(ends[0]);
  close(ends[1]);
  return error;
}

void baton_socket_attach(
    lua_State *L, struct baton_try *call, const struct baton_departed_socket *from) {
  const struct baton_socket_class *class = call->class;
  if (from->size > 0) {
    const int error = fill_buffer(L, class, from->data, from->size);
    if (error != 0)
      luaL_error(L, "cannot hand over what the socket has received: %s", strerror(error));
  }
  if (from->has_data) {
    int i;
    lua_pushcfunction(L, class->setstats);
    lua_pushvalue(L, 1);
    for (i = 0; i < 3; i++) lua_pushnumber(L, from->counts[i]);
    lua_call(L, 4, 0);
  }
  baton_socket_set_descriptor(L, class, from->descriptor);
  call->socket->is_known = (unsigned char)from->is_known;
  begin_descriptor(L, call, from->descriptor);
  call->socket->received = HUGE_VAL; /* the next check finds no drained socket */
}

void baton_socket_take_back(lua_State *L, struct baton_try *call) {
  struct baton_departed_socket *departed = call->socket->departed;
  if (!baton_departed_is_back(&departed->departed)) return;
  baton_socket_attach(L, call, departed);
  call->socket->departed = NULL;
  baton_departed_arrives(&departed->departed);
}

/* }====================================================== */

/* {======================================================
** Trying
** ======================================================= */

int baton_socket_may_wait(const struct baton_try *call) {
  return baton_lua_may_wait_here(call->process);
}

static TValue *upvalue(lua_State *L, int number) {
  return &clCvalue(s2v(L->ci->func.p))->upvalue[number - 1];
}

int baton_socket_try(lua_State *L, struct baton_try *call, int count) {
  const int top = lua_gettop(L);
  int i;
  if (count >= LUA_MINSTACK - 1) luaL_checkstack(L, count + 1, "too many arguments");
  baton_lua_enter(L);
  setobj2s(L, L->top.p, upvalue(L, BATON_UV_ORIGINAL));
  L->top.p++;
  for (i = 1; i <= count; i++) {
    setobjs2s(L, L->top.p, L->ci->func.p + i);
    L->top.p++;
  }
  baton_lua_leave(L);
  if (call->process != NULL) call->harvests = baton_harvests(call->process->vm->executor);
  lua_call(L, count, LUA_MULTRET);
  return lua_gettop(L) - top;
}

int baton_socket_call_natively(lua_State *L, struct baton_try *call) {
  int results;
  call->socket->is_native = 1;
  set_native_timeouts(L, call->class, call->socket->block, call->socket->total);
  results = baton_socket_try(L, call, lua_gettop(L));
  set_native_timeouts(L, call->class, 0, -1);
  call->socket->is_native = 0;
  return results;
}

int baton_socket_would_wait(lua_State *L, int count, unsigned *wants) {
  const TValue *results = s2v(L->top.p - count);
  const TString *why;
  if (count < 2 || !l_isfalse(results) || !ttisstring(s2v(L->top.p - count + 1))) return 0;
  why = tsvalue(s2v(L->top.p - count + 1));
  switch (tsslen(why)) {
    case 7: return memcmp(getstr(why), "timeout", 7) == 0;
    case 8: *wants = BATON_WANTS_READ; return memcmp(getstr(why), "wantread", 8) == 0;
    case 9: *wants = BATON_WANTS_WRITE; return memcmp(getstr(why), "wantwrite", 9) == 0;
    default: return 0;
  }
}

/* }====================================================== */

/* {======================================================
** Waiting
** ======================================================= */

/* A deadline, in seconds from `time`. There is none for NaN or a time too far away. */
static uint64_t after(uint64_t time, lua_Number seconds) {
  if (!(seconds >= 0 && seconds < 9.0e9)) return BATON_NO_DEADLINE;
  return time + (uint64_t)(seconds * 1e9);
}

/* The deadline as in LuaSocket: with a total time, `block` counts for each wait, else for the
   call. */
static uint64_t deadline_of(struct baton_try *call) {
  const struct baton_socket *socket = call->socket;
  uint64_t now, each, all;
  if (socket->block < 0 && socket->total < 0) return BATON_NO_DEADLINE;
  now = baton_now();
  if (call->start == 0) call->start = now;
  if (socket->total < 0) return after(call->start, socket->block);
  all = after(call->start, socket->total);
  each = socket->block < 0 ? BATON_NO_DEADLINE : after(now, socket->block);
  return each < all ? each : all;
}

int baton_socket_is_at_once(const struct baton_socket *socket) {
  return socket->block == 0 || socket->total == 0;
}

/*
** Another process is closing the socket. The method will report that, once it is closed. Until then
** it would be tried again and again. Its calls mark the object as in use, and the other process may
** be waiting for that to end. So this process sleeps for a moment, outside of the method.
*/
static int await_close(lua_State *L, struct baton_try *call) {
  enum { MOMENT = 100000 }; /* nanoseconds */
  struct baton_wake wake;
  baton_lua_enter(L);
  wake = baton_sleep_until(call->process->vm->executor, baton_now() + MOMENT);
  baton_lua_leave(L);
  (void)baton_lua_after_wait(L, call->process, wake);
  return 1;
}

static int wait_until(lua_State *L, struct baton_try *call, unsigned wants, uint64_t deadline) {
  const struct baton_watch watch = {(uint32_t)call->socket->descriptor, wants};
  const void *vm = call->process->vm->executor;
  struct baton_wake wake = {0, 0, 0};
  int64_t news;
  int why;
  if (call->socket->descriptor < 0) return await_close(L, call);
  baton_lua_enter(L);
  news = baton_socket_news(call);
  call->socket->waits++;
  why = baton_await_ready(vm, &watch, 1, !call->socket->is_known, call->harvests, deadline);
  call->socket->waits--;
  if (why == BATON_TIMED_OUT && wants == BATON_WANTS_READ) {
    call->socket->is_drained = 1;
    call->socket->news = news;
  }
  baton_lua_leave(L);
  if (why < 0)
    luaL_error(L, "the socket cannot be waited for: its descriptor is %d", (int)watch.descriptor);
  wake.reason = (uint32_t)why;
  return baton_lua_after_wait(L, call->process, wake) != BATON_TIMED_OUT;
}

int baton_socket_refuse_simulated(lua_State *L) {
  return luaL_error(L,
      "a simulated run cannot wait for a descriptor (run without --simulate, or put something in "
      "its place that waits for time or for "
      "other processes)");
}

int baton_socket_wait(lua_State *L, struct baton_try *call, unsigned wants) {
  if (baton_socket_is_at_once(call->socket)) return 0;
  if (baton_simulated) return baton_socket_refuse_simulated(L);
  return wait_until(L, call, wants, deadline_of(call));
}

/* }====================================================== */

/* {======================================================
** Turns
** ======================================================= */

/* Whether another process has a turn. Processes that a fork has ended do not count. */
static int is_taken(
    const struct baton_socket *socket, const struct baton_process *process, unsigned ways) {
  int way;
  if (socket->forks != process->vm->forks) return 0;
  for (way = 0; way < 2; way++)
    if ((ways & 1u << way) && socket->holders[way] != NULL) return 1;
  return 0;
}

/* Called at the end of a turn, also after an error. Inside the VM. */
static void end_turn(struct baton_mark *mark) {
  struct baton_turn *turn = (struct baton_turn *)mark;
  int way;
  for (way = 0; way < 2; way++)
    if (turn->ways & 1u << way) turn->socket->holders[way] = NULL;
  if (turn->socket->waiting > 0)
    baton_queue_wake_all(turn->process->vm->executor, turn->process->vm->object_queue);
}

void baton_socket_take_turn(
    lua_State *L, struct baton_try *call, struct baton_turn *turn, unsigned ways) {
  struct baton_socket *socket = call->socket;
  struct baton_process *process = call->process;
  struct baton_lua_vm *vm = process->vm;
  int way;
  baton_lua_enter(L);
  while (is_taken(socket, process, ways)) {
    struct baton_wake wake;
    socket->waiting++;
    wake = baton_queue_wait(vm->executor, vm->object_queue, BATON_FOREVER);
    socket->waiting--;
    baton_lua_leave(L);
    baton_lua_after_wait(L, process, wake);
    baton_lua_enter(L);
  }
  if (socket->forks != vm->forks) {
    socket->forks = vm->forks;
    socket->holders[0] = socket->holders[1] = NULL;
    socket->waiting = 0;
  }
  for (way = 0; way < 2; way++)
    if (ways & 1u << way) socket->holders[way] = process;
  turn->socket = socket;
  turn->process = process;
  turn->ways = ways;
  turn->mark.ends = end_turn;
  baton_lua_put_turn(process, &turn->mark);
  baton_lua_leave(L);
}

void baton_socket_give_turn_back(lua_State *L, struct baton_turn *turn) {
  baton_lua_enter(L);
  baton_lua_drop_turn(turn->process);
  baton_lua_leave(L);
}

/* }====================================================== */
