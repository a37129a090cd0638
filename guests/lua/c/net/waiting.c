/*
** Waits of baton.net: for a descriptor, for the turn to read or to write, and for a place below the
** limit of a listener.
**
** Turns: one process reads from a connection, and one writes to it. A process takes its turn only
** when it must wait, or for several calls together. Others that come meanwhile wait until it gives
** the turn back, which an error does as well.
**
** Places: an open connection has one of its listener's. It may be closed in another VM, which
** writes to a signal then. A process that waits for a place waits for the signal's descriptor.
** The mutex guards all fields but the signal's numbers, which never change. So a connection that
** ends sees the process that waits, or that process sees the free place.
*/
#include "net/inside.h"
#include "system.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

/* {======================================================
** Descriptors
** ======================================================= */

/* In a simulated run with several VMs, processes of all of them wait at this word. Until there are
   several, it is NULL, and processes wait in a queue of their VM. */
static struct baton_words *stirs;

void baton_net_await_stir(lua_State *L, struct baton_process *process, uint64_t until) {
  const void *executor = process->vm->executor;
  const uint64_t now = baton_now();
  baton_timeout timeout = until > now ? (baton_timeout)(until - now) : 0;
  struct baton_wake wake;
  if (until == BATON_NO_DEADLINE) timeout = BATON_FOREVER;
  baton_inline_check_may_wait(L, process);
  if (stirs != NULL) baton_lua_check_memory_for_object(L, process->vm, 0);
  baton_lua_enter(L);
  /* nobody else has run since the caller has looked */
  wake = stirs != NULL ? baton_words_wait(executor, stirs, 0, baton_words_load(stirs, 0), timeout)
                       : baton_queue_wait(executor, process->vm->object_queue, timeout);
  baton_lua_leave(L);
  baton_inline_after_wait(L, process, wake);
}

void baton_net_stir(lua_State *L) {
  const struct baton_process *process = baton_lua_running(L);
  if (stirs != NULL) (void)baton_words_add(stirs, 0, 1);
  if (process == NULL || process->vm->closing) {
    if (stirs != NULL) baton_words_wake_from_outside(stirs, 0);
    return;
  }
  baton_lua_enter(L);
  if (stirs != NULL) (void)baton_words_wake(process->vm->executor, stirs, 0, UINT64_MAX);
  baton_queue_wake_all(process->vm->executor, process->vm->object_queue);
  baton_lua_leave(L);
}

void baton_net_note_vms(lua_State *L) {
  if (!baton_simulated || stirs != NULL) return;
  stirs = baton_words_new(1);
  if (stirs == NULL) luaL_error(L, "not enough memory");
  baton_net_stir(L); /* those who wait go over to the word */
}

void baton_net_end_of_vm(const struct baton_lua_vm *vm) {
  if (stirs == NULL) return;
  baton_loopback_end_of(vm);
  (void)baton_words_add(stirs, 0, 1);
  baton_words_wake_from_outside(stirs, 0);
}

/* A wait in a simulated run: until the next change that needs no process, or until one stirs. */
static enum baton_net_result await_simulated(lua_State *L, struct baton_process *process,
    struct baton_net_socket *socket, unsigned wants, uint64_t deadline) {
  const int is_port = socket->seal == baton_inline_seal(BATON_SEALED_LISTENER);
  const int is_mailbox = socket->seal == baton_inline_seal(BATON_SEALED_DATAGRAMS);
  const uint64_t next = is_port ? baton_port_next(socket->simulated)
      : is_mailbox              ? baton_mailbox_next(socket->simulated)
                                : baton_link_next(socket->simulated, wants == BATON_WANTS_WRITE);
  if (deadline <= baton_now()) return BATON_NET_TIMED_OUT;
  socket->waits++;
  baton_net_await_stir(L, process, next < deadline ? next : deadline);
  socket->waits--;
  if (socket->descriptor < 0) return BATON_NET_CLOSED;
  return BATON_NET_DONE;
}

enum baton_net_result baton_net_wait(lua_State *L, struct baton_process *process,
    struct baton_net_socket *socket, unsigned wants, uint64_t harvests, uint64_t deadline) {
  const struct baton_watch watch = {(uint32_t)socket->descriptor, wants};
  struct baton_wake wake = {0, 0, 0};
  int why;
  if (socket->descriptor < 0) return BATON_NET_CLOSED;
  baton_inline_check_may_wait(L, process);
  if (l_unlikely(socket->simulated != NULL))
    return await_simulated(L, process, socket, wants, deadline);
  baton_lua_enter(L);
  socket->waits++;
  why = baton_await_ready(process->vm->executor, &watch, 1, 1, harvests, deadline);
  socket->waits--;
  baton_lua_leave(L);
  if (l_unlikely(why < 0))
    luaL_error(L, "the socket cannot be waited for: its descriptor is %d", (int)watch.descriptor);
  wake.reason = (uint32_t)why;
  if (baton_inline_after_wait(L, process, wake) == BATON_TIMED_OUT) return BATON_NET_TIMED_OUT;
  return socket->descriptor < 0 ? BATON_NET_CLOSED : BATON_NET_DONE;
}

uint64_t baton_net_deadline_in(uint64_t nanoseconds) {
  if (nanoseconds == 0 || nanoseconds == BATON_NO_DEADLINE) return nanoseconds;
  return baton_now() + nanoseconds;
}

uint64_t baton_net_deadline_at(lua_State *L, int index, uint64_t otherwise) {
  baton_timeout timeout;
  if (lua_isnoneornil(L, index)) return baton_net_deadline_in(otherwise);
  timeout = baton_inline_check_timeout(L, index);
  return baton_net_deadline_in(timeout < 0 ? BATON_NO_DEADLINE : (uint64_t)timeout);
}

/* }====================================================== */

/* {======================================================
** Turns
** ======================================================= */

/* Called at the end of a turn, also after an error. Inside the VM. */
static void end_turn(struct baton_mark *mark) {
  struct baton_net_held *held = (struct baton_net_held *)mark;
  held->socket->holders[held->way] = NULL;
  if (held->socket->waiting > 0)
    baton_queue_wake_all(held->process->vm->executor, held->process->vm->object_queue);
}

/* Waits until nobody has the turn. Inside the VM before and after. */
static void await_turn(lua_State *L, struct baton_process *process,
    struct baton_net_socket *socket, enum baton_net_way way) {
  struct baton_lua_vm *vm = process->vm;
  while (baton_net_is_held(socket, process, way)) {
    struct baton_wake wake;
    socket->waiting++;
    wake = baton_queue_wait(vm->executor, vm->object_queue, BATON_FOREVER);
    socket->waiting--;
    baton_lua_leave(L);
    baton_inline_after_wait(L, process, wake);
    baton_lua_enter(L);
  }
}

void baton_net_hold(lua_State *L, struct baton_process *process, struct baton_net_socket *socket,
    struct baton_net_held *held, enum baton_net_way way) {
  held->socket = NULL;
  if (socket->forks == process->vm->forks && socket->holders[way] == process) return;
  if (baton_net_is_held(socket, process, way)) baton_inline_check_may_wait(L, process);
  baton_lua_enter(L);
  await_turn(L, process, socket, way);
  if (socket->forks != process->vm->forks) { /* a fork has ended the processes that had it */
    socket->forks = process->vm->forks;
    socket->holders[0] = socket->holders[1] = NULL;
    socket->waiting = socket->waits = 0;
  }
  socket->holders[way] = process;
  held->socket = socket;
  held->process = process;
  held->way = way;
  held->mark.ends = end_turn;
  baton_lua_put_turn(process, &held->mark);
  baton_lua_leave(L);
}

void baton_net_let_go(lua_State *L, struct baton_net_held *held) {
  if (held->socket == NULL) return;
  baton_lua_enter(L);
  baton_lua_drop_turn(held->process);
  baton_lua_leave(L);
}

void baton_net_begin(lua_State *L, struct baton_net_connection *connection,
    struct baton_net_turn *turn, enum baton_net_way way) {
  baton_net_hold(
      L, baton_inline_caller(L), &connection->socket, (struct baton_net_held *)turn, way);
}

void baton_net_end(lua_State *L, struct baton_net_turn *turn) {
  baton_net_let_go(L, (struct baton_net_held *)turn);
}

/* }====================================================== */

/* {======================================================
** Places
** ======================================================= */

struct baton_net_places {
  pthread_mutex_t mutex;
  unsigned references; /* of the listener, and of each connection that has a place */
  lua_Integer open, limit;
  unsigned waiting; /* processes that wait; too large after a kill, which does no harm */
  int signal[2];    /* the first is readable after a place became free while one waited */
};

struct baton_net_places *baton_net_new_places(lua_Integer limit) {
  struct baton_net_places *places = calloc(1, sizeof *places);
  if (places == NULL) return NULL;
  pthread_mutex_init(&places->mutex, NULL);
  places->references = 1;
  places->limit = limit;
  if (baton_open_signal(places->signal)) return places;
  pthread_mutex_destroy(&places->mutex);
  free(places);
  return NULL;
}

/* Gives a reference back, and a place if the reference had one. */
static void leave(struct baton_net_places *places, int has_place) {
  unsigned left;
  pthread_mutex_lock(&places->mutex);
  left = --places->references;
  if (has_place) places->open--;
  if (has_place && places->waiting > 0) {
    const uint64_t one = 1;
    (void)!write(places->signal[1], &one, sizeof one);
  }
  pthread_mutex_unlock(&places->mutex);
  if (left > 0) return;
  baton_close_signal(places->signal);
  pthread_mutex_destroy(&places->mutex);
  free(places);
}

void baton_net_leave_place(struct baton_net_places *places) {
  if (places != NULL) leave(places, 1);
}

void baton_net_end_places(struct baton_net_places *places) {
  if (places != NULL) leave(places, 0);
}

void baton_net_take_place(struct baton_net_places *places) {
  if (places == NULL) return;
  pthread_mutex_lock(&places->mutex);
  places->references++;
  places->open++;
  pthread_mutex_unlock(&places->mutex);
}

/* Whether a place is free. If none is, `waits` counts the caller as one that waits. */
static int is_free(struct baton_net_places *places, int waits) {
  int is;
  pthread_mutex_lock(&places->mutex);
  is = places->open < places->limit;
  if (!is && waits) places->waiting++;
  pthread_mutex_unlock(&places->mutex);
  return is;
}

static void has_waited(struct baton_net_places *places) {
  uint64_t count;
  pthread_mutex_lock(&places->mutex);
  if (places->waiting > 0) places->waiting--;
  (void)!read(places->signal[0], &count, sizeof count);
  pthread_mutex_unlock(&places->mutex);
}

enum baton_net_result baton_net_await_place(lua_State *L, struct baton_process *process,
    struct baton_net_socket *listener, struct baton_net_places *places, uint64_t deadline) {
  while (places != NULL && !is_free(places, 1)) {
    if (l_unlikely(listener->simulated != NULL)) { /* its connections stir when they end */
      if (deadline <= baton_now()) return BATON_NET_TIMED_OUT;
      baton_net_await_stir(L, process, deadline);
      has_waited(places);
      if (listener->descriptor < 0) return BATON_NET_CLOSED;
      continue;
    }
    /* nothing urgent comes to a listener: only its end ends the second wait */
    const struct baton_watch watches[2] = {{(uint32_t)places->signal[0], BATON_WANTS_READ},
        {(uint32_t)listener->descriptor, BATON_WANTS_PRIORITY}};
    const void *vm = process->vm->executor;
    struct baton_wake wake = {0, 0, 0};
    int why;
    baton_inline_check_may_wait(L, process);
    baton_lua_enter(L);
    listener->waits++;
    why = baton_await_ready(vm, watches, 2, 0, baton_harvests(vm), deadline);
    listener->waits--;
    baton_lua_leave(L);
    has_waited(places);
    if (why < 0) return BATON_NET_FAILED;
    wake.reason = (uint32_t)why;
    if (baton_inline_after_wait(L, process, wake) == BATON_TIMED_OUT) return BATON_NET_TIMED_OUT;
    if (listener->descriptor < 0) return BATON_NET_CLOSED;
  }
  return BATON_NET_DONE;
}

/* }====================================================== */
