/*
** The methods of sockets that wait in place of the module's (sockets.h).
*/
#include "seam/internals.h"
#include "modules/modules.h"
#include "modules/sockets.h"

#include <string.h>

#define RECEIVES (1u << BATON_RECEIVES)
#define SENDS (1u << BATON_SENDS)

int baton_socket_call_through(lua_State *L) {
  struct baton_try call = {0};
  return baton_socket_try(L, &call, lua_gettop(L));
}

/* {======================================================
** Pieces
** ======================================================= */

/*
** What has been received so far lies on the stack in pieces, each at least twice as long as the
** next one above it: so there are few, and few bytes are copied often. A further piece is on the
** top.
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

/* Bytes: what was there before the call, what has come, and what is wanted in all (0: not so
   many). */
struct received {
  size_t before, now;
  lua_Number wanted;
  int until_closed;
  int given;  /* arguments for the next attempt */
  int pieces; /* on the stack above them */
};

enum { RECEIVE_ARGUMENTS = 3 };

/* Before the first piece: there are to be as many arguments as the method has. */
static void fill_arguments(lua_State *L, struct received *received) {
  for (; received->given < RECEIVE_ARGUMENTS; received->given++) {
    lua_pushnil(L);
    lua_insert(L, received->given + 1);
  }
  for (; received->given > RECEIVE_ARGUMENTS; received->given--) lua_remove(L, received->given);
  /* there are fewer pieces than bits in a length; room for them, and copies */
  luaL_checkstack(L, 2 * 8 * (int)sizeof(size_t) + LUA_MINSTACK, NULL);
  if (lua_isnumber(L, 2)) {
    received->wanted = lua_tonumber(L, 2);
  } else if (lua_type(L, 2) == LUA_TSTRING) {
    const char *pattern = lua_tostring(L, 2);
    received->until_closed = pattern[pattern[0] == '*'] == 'a';
  }
  if (lua_isstring(L, 3)) (void)lua_tolstring(L, 3, &received->before);
}

/* The results of an attempt that did not get all, nil, why, part, are on the top. Keeps the part as
   a piece, and has the next attempt ask for the rest. */
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
  lua_replace(L, 3); /* it holds what was there before the call, which is in the first piece */
  if (received->wanted > 0) {
    lua_pushnumber(L, received->wanted - (lua_Number)received->now);
    lua_replace(L, 2);
  }
}

/* The end of the stream came after a part, and all up to there is wanted: that is no failure. */
static int has_all_until_closed(lua_State *L, const struct received *received, int first) {
  return received->until_closed && received->now > received->before &&
      strcmp(lua_tostring(L, first + 1), "closed") == 0;
}

/* The results of the last attempt, `count` values on the top, become those of the whole call. */
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

static int receive_on(lua_State *L, struct baton_try *call, int given, int count, unsigned wants) {
  struct received received = {.given = given};
  struct baton_turn turn;
  int came;
  baton_socket_take_turn(L, call, &turn, RECEIVES);
  do {
    keep_part(L, &received, count);
    came = baton_socket_wait(L, call, wants);
    wants = BATON_WANTS_READ;
    count = baton_socket_try(L, call, received.given);
  } while (came && baton_socket_would_wait(L, count, &wants));
  baton_socket_give_turn_back(L, &turn);
  return finish_receiving(L, &received, count);
}

/* Waits until nobody else has a turn. */
static void await_turn(lua_State *L, struct baton_try *call, unsigned ways) {
  struct baton_turn turn;
  int way;
  for (way = 0; way < 2; way++) {
    if (!(ways & 1u << way) || luai_likely(call->socket->holders[way] == NULL)) continue;
    baton_socket_take_turn(L, call, &turn, ways);
    baton_socket_give_turn_back(L, &turn);
  }
}

int baton_socket_receive(lua_State *L) {
  struct baton_try call;
  unsigned wants = BATON_WANTS_READ;
  const int given = lua_gettop(L);
  int count;
  if (baton_socket_of_call(L, &call) == NULL) return baton_socket_call_through(L);
  if (!baton_socket_may_wait(&call)) return baton_socket_call_natively(L, &call);
  await_turn(L, &call, RECEIVES);
  baton_socket_wait_if_drained(L, &call);
  count = baton_socket_try(L, &call, given);
  if (!baton_socket_would_wait(L, count, &wants)) {
    call.socket->is_drained = 0;
    return count;
  }
  return baton_socket_is_at_once(call.socket) ? count : receive_on(L, &call, given, count, wants);
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
    /* nil, why, the index of the last byte sent */
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
  if (!baton_socket_would_wait(L, count, &wants)) return count;
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
** What is tried again as it is
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

/* Each connection and each datagram is one piece: who is faster has it. */
int baton_socket_accept(lua_State *L) { return try_again(L, BATON_WANTS_READ); }

int baton_socket_send_datagram(lua_State *L) { return try_again(L, BATON_WANTS_WRITE); }

/* LuaSec looks into what closing has freed. */
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

int baton_socket_settimeout(lua_State *L) {
  struct baton_try call;
  const int has_number = lua_isnoneornil(L, 2) || lua_isnumber(L, 2);
  const char *mode = lua_isnoneornil(L, 3) ? "b"
      : lua_type(L, 3) == LUA_TSTRING      ? lua_tostring(L, 3)
                                           : "";
  if (!has_number || strchr("brt", mode[0]) == NULL || mode[0] == '\0' ||
      baton_socket_of_call(L, &call) == NULL)
    return baton_socket_call_through(L); /* which says what is wrong */
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
