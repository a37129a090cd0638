/*
** The methods of sockets that wait, in place of the module's own (sockets.h).
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"

#include <math.h>
#include <string.h>

#define RECEIVES (1u << BATON_RECEIVES)
#define SENDS (1u << BATON_SENDS)

int baton_socket_call_through(lua_State *L) {
  struct baton_try call = {0};
  return baton_socket_try(L, &call, lua_gettop(L));
}

int baton_socket_use(lua_State *L) {
  struct baton_try call;
  (void)baton_socket_of_call(L, &call);
  return baton_socket_call_through(L);
}

/* {======================================================
** Pieces
** ======================================================= */

/*
** Adds the piece on the top to the received pieces below it. Each piece is at least twice as long
** as the next one above it. So there are few pieces, and few bytes are copied often.
*/
static void add_piece(lua_State *L, int *pieces) {
  (*pieces)++;
  while (*pieces > 1 && lua_rawlen(L, -2) < 2 * lua_rawlen(L, -1)) {
    lua_concat(L, 2);
    (*pieces)--;
  }
}

/* }====================================================== */

/* {======================================================
** Receiving from streams
** ======================================================= */

/* The state of a receive. In bytes: data given by the caller as a prefix, data so far (`now`), and
   data wanted in all (0: no number was given). */
struct received {
  size_t before, now;
  lua_Number wanted;
  int until_closed;
  int given;  /* the number of arguments for the next attempt */
  int pieces; /* the number of pieces on the stack above them */
};

enum { RECEIVE_ARGUMENTS = 3 };

/* Before the first piece: gives the call all arguments that the method has. */
static void fill_arguments(lua_State *L, struct received *received) {
  for (; received->given < RECEIVE_ARGUMENTS; received->given++) {
    lua_pushnil(L);
    lua_insert(L, received->given + 1);
  }
  for (; received->given > RECEIVE_ARGUMENTS; received->given--) lua_remove(L, received->given);
  /* there are fewer pieces than bits in a length; this is room for them and for copies */
  luaL_checkstack(L, 2 * 8 * (int)sizeof(size_t) + LUA_MINSTACK, NULL);
  if (lua_isnumber(L, 2)) {
    received->wanted = lua_tonumber(L, 2);
  } else if (lua_type(L, 2) == LUA_TSTRING) {
    const char *pattern = lua_tostring(L, 2);
    received->until_closed = pattern[pattern[0] == '*'] == 'a';
  }
  if (lua_isstring(L, 3)) (void)lua_tolstring(L, 3, &received->before);
}

/* Keeps the part that an incomplete attempt returned (nil, why, part), and reduces what the next
   attempt wants. The results are on the top. */
static void keep_part(lua_State *L, struct received *received, int count) {
  const size_t length = count == 3 && lua_type(L, -1) == LUA_TSTRING ? lua_rawlen(L, -1) : 0;
  if (length == 0) {
    lua_settop(L, lua_gettop(L) - count);
    return;
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
  if (received->pieces == 0) fill_arguments(L, received);
  received->now += length;
  add_piece(L, &received->pieces);
  lua_pushnil(L);
  lua_replace(L, 3); /* the prefix is in the first piece now */
  if (received->wanted > 0) {
    lua_pushnumber(L, received->wanted - (lua_Number)received->now);
    lua_replace(L, 2);
  }
}

/* Whether the stream ended after all data until its end was wanted: this is a success. */
static int has_all_until_closed(lua_State *L, const struct received *received, int first) {
  return received->until_closed && received->now > received->before &&
      strcmp(lua_tostring(L, first + 1), "closed") == 0;
}

/* Makes the results of the whole call from those of the last attempt, `count` values on the top. */
static int finish_receiving(lua_State *L, const struct received *received, int count) {
  const int first = lua_gettop(L) - count + 1;
  const int has_failed = count == 3 && lua_isnil(L, first);
  const int place = has_failed ? first + 2 : first;
  int i;
  if (received->pieces == 0) return count;
  for (i = 0; i < received->pieces; i++) lua_pushvalue(L, first - received->pieces + i);
  if (lua_type(L, place) == LUA_TSTRING) lua_pushvalue(L, place);
  else lua_pushliteral(L, "");
  lua_concat(L, received->pieces + 1);
  if (has_failed && has_all_until_closed(L, received, first)) {
    lua_pushnil(L);
    lua_pushnil(L);
  } else {
    lua_replace(L, place);
  }
  return count;
}

/* Waits, and tries again until the data has come. The calling process has the turn. `count` is the
   number of results of the attempt that would wait; 0: none was made. */
static int receive_on(lua_State *L, struct baton_try *call, int given, int count, unsigned wants) {
  struct received received = {.given = given};
  const int is_sole = call->socket->receiving == 0;
  int came, would_wait;
  do {
    if (count > 0) keep_part(L, &received, count);
    came = baton_socket_wait(L, call, wants);
    wants = BATON_WANTS_READ;
    baton_socket_note_news(L, call);
    count = baton_socket_try(L, call, received.given);
    would_wait = baton_socket_would_wait(L, count, &wants);
    baton_socket_note_attempt(call, is_sole, would_wait);
  } while (came && would_wait);
  return finish_receiving(L, &received, count);
}

/* Waits until no other process has a turn for these ways. */
static void await_turn(lua_State *L, struct baton_try *call, unsigned ways) {
  struct baton_turn turn;
  int way;
  for (way = 0; way < 2; way++) {
    if (!(ways & 1u << way) || luai_likely(call->socket->holders[way] == NULL)) continue;
    baton_socket_take_turn(L, call, &turn, ways);
    baton_socket_give_turn_back(L, &turn);
  }
}

static int receive_in_turn(
    lua_State *L, struct baton_try *call, int given, int count, unsigned wants) {
  struct baton_turn turn;
  baton_socket_take_turn(L, call, &turn, RECEIVES);
  count = receive_on(L, call, given, count, wants);
  baton_socket_give_turn_back(L, &turn);
  return count;
}

/* Receives after the process has sent something. Waits without an attempt if that would find
   nothing. */
static int receive_answer(lua_State *L, struct baton_try *call, int given) {
  struct baton_turn turn;
  unsigned wants = BATON_WANTS_READ;
  int count = 0;
  baton_socket_take_turn(L, call, &turn, RECEIVES);
  if (!baton_socket_is_drained(L, call)) count = baton_socket_try(L, call, given);
  call->socket->receiving--;
  if (count == 0 || baton_socket_would_wait(L, count, &wants))
    count = receive_on(L, call, given, count, wants);
  baton_socket_give_turn_back(L, &turn);
  return count;
}

/* An error leaves the call counted as receiving, so that later ones always try first. */
int baton_socket_receive(lua_State *L) {
  struct baton_try call;
  unsigned wants = BATON_WANTS_READ;
  const int given = lua_gettop(L);
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  call.socket->receiving++;
  if (!baton_socket_may_wait(&call)) {
    count = baton_socket_call_natively(L, &call);
    call.socket->receiving--;
    return count;
  }
  await_turn(L, &call, RECEIVES);
  if (baton_socket_may_be_drained(L, &call)) return receive_answer(L, &call, given);
  baton_socket_wait_if_drained(L, &call);
  count = baton_socket_try(L, &call, given);
  call.socket->receiving--;
  if (!baton_socket_would_wait(L, count, &wants)) {
    call.socket->is_drained = 0;
    return count;
  }
  if (baton_socket_is_at_once(call.socket)) return count;
  return receive_in_turn(L, &call, given, count, wants);
}

/* }====================================================== */

/* {======================================================
** Sending on streams
** ======================================================= */

enum { SEND_ARGUMENTS = 4 };

static int send_on(lua_State *L, struct baton_try *call, int count, unsigned wants) {
  struct baton_turn turn;
  baton_socket_take_turn(L, call, &turn, SENDS);
  for (;;) {
    /* the results are nil, why, the index of the last byte sent */
    lua_pushnumber(L, lua_tonumber(L, -1) + 1);
    lua_replace(L, 3);
    lua_pop(L, count);
    const int came = baton_socket_wait(L, call, wants);
    wants = BATON_WANTS_WRITE;
    count = baton_socket_try(L, call, SEND_ARGUMENTS);
    if (!came || !baton_socket_would_wait(L, count, &wants)) break;
  }
  baton_socket_give_turn_back(L, &turn);
  return count;
}

int baton_socket_send(lua_State *L) {
  struct baton_try call;
  unsigned wants = BATON_WANTS_WRITE;
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  if (!baton_socket_may_wait(&call)) return baton_socket_call_natively(L, &call);
  await_turn(L, &call, SENDS);
  count = baton_socket_try(L, &call, lua_gettop(L));
  if (!baton_socket_would_wait(L, count, &wants)) {
    call.socket->has_sent = 1;
    return count;
  }
  if (baton_socket_is_at_once(call.socket) || count != 3) return count;
  {
    const int given = lua_gettop(L) - count;
    int i;
    for (i = given; i < SEND_ARGUMENTS; i++) {
      lua_pushnil(L);
      lua_insert(L, i + 1);
    }
    for (i = given; i > SEND_ARGUMENTS; i--) lua_remove(L, i);
  }
  return send_on(L, &call, count, wants);
}

/* }====================================================== */

/* {======================================================
** Methods that are retried with the same arguments
** ======================================================= */

static int try_again(lua_State *L, unsigned first_wants) {
  struct baton_try call;
  unsigned wants = first_wants;
  const int given = lua_gettop(L);
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  if (!baton_socket_may_wait(&call)) return baton_socket_call_natively(L, &call);
  if (first_wants == BATON_WANTS_READ) baton_socket_wait_if_drained(L, &call);
  count = baton_socket_try(L, &call, given);
  if (!baton_socket_would_wait(L, count, &wants)) {
    call.socket->is_drained = 0;
    return count;
  }
  if (baton_socket_is_at_once(call.socket)) return count;
  for (;;) {
    int came;
    lua_settop(L, given);
    came = baton_socket_wait(L, &call, wants);
    wants = first_wants;
    count = baton_socket_try(L, &call, given);
    if (!came || !baton_socket_would_wait(L, count, &wants)) break;
  }
  return count;
}

/* accept and receiving datagrams. They need no turn: each attempt gets a whole connection or
   datagram. */
int baton_socket_accept(lua_State *L) { return try_again(L, BATON_WANTS_READ); }

int baton_socket_send_datagram(lua_State *L) { return try_again(L, BATON_WANTS_WRITE); }

/* The result for a closed connection: LuaSec itself would read freed memory. */
static int say_closed(lua_State *L) {
  lua_pushboolean(L, 0);
  lua_pushliteral(L, "closed");
  return 2;
}

int baton_socket_handshake(lua_State *L) {
  struct baton_try call;
  struct baton_turn turn;
  unsigned wants = BATON_WANTS_READ;
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  lua_settop(L, 1);
  if (!baton_socket_may_wait(&call)) return baton_socket_call_natively(L, &call);
  baton_socket_take_turn(L, &call, &turn, RECEIVES | SENDS);
  do {
    if (call.socket->descriptor < 0) {
      count = say_closed(L);
      break;
    }
    count = baton_socket_try(L, &call, 1);
  } while (baton_socket_would_wait(L, count, &wants) && baton_socket_wait(L, &call, wants));
  baton_socket_give_turn_back(L, &turn);
  return count;
}

/* }====================================================== */

/* {======================================================
** Closing, changing, timeouts
** ======================================================= */

int baton_socket_close(lua_State *L) {
  struct baton_try call = {.process = baton_lua_running(L)};
  if (lua_gettop(L) > 0 && call.process != NULL) {
    call.socket = baton_socket_at(L, 1);
    if (call.socket != NULL) baton_socket_closes(L, &call);
  }
  return baton_socket_call_through(L);
}

int baton_socket_change(lua_State *L) {
  struct baton_try call;
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  count = baton_socket_call_natively(L, &call);
  baton_socket_note_descriptor(L, &call);
  return count;
}

/* The program may have the number from elsewhere, but for the one that says "none". */
int baton_socket_setfd(lua_State *L) {
  const int is_known = lua_tointeger(L, 2) >= 0;
  struct baton_try call;
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  call.socket->is_known = (unsigned char)is_known;
  count = baton_socket_call_natively(L, &call);
  baton_socket_note_descriptor(L, &call);
  return count;
}

/* The program may change the counts of the module. The next check finds no drained socket. */
int baton_socket_setstats(lua_State *L) {
  struct baton_try call;
  if (baton_socket_of_call(L, &call) != NULL) call.socket->received = HUGE_VAL;
  return baton_socket_call_through(L);
}

int baton_socket_settimeout(lua_State *L) {
  struct baton_try call;
  const int has_number = lua_isnoneornil(L, 2) || lua_isnumber(L, 2);
  const char *mode = lua_isnoneornil(L, 3) ? "b"
      : lua_type(L, 3) == LUA_TSTRING      ? lua_tostring(L, 3)
                                           : "";
  if (!has_number || strchr("brt", mode[0]) == NULL || mode[0] == '\0' ||
      baton_socket_of_call(L, &call) == NULL)
    return baton_socket_call_through(L); /* the module's own function reports the error */
  *(mode[0] == 'b' ? &call.socket->block : &call.socket->total) = luaL_optnumber(L, 2, -1);
  lua_pushnumber(L, 1);
  return 1;
}

int baton_socket_gettimeout(lua_State *L) {
  struct baton_try call;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  lua_pushnumber(L, call.socket->block);
  lua_pushnumber(L, call.socket->total);
  return 2;
}

/* }====================================================== */
