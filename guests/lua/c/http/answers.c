/*
** Replies that a client gets: heads are read, and bodies part by part.
**
** What of the body has come is at the beginning of the connection's buffer. `left` bytes of it are
** known to be data: of all of the body, or of the chunk that the decoder has found last.
*/
#include "http/inside.h"

#include <stddef.h>
#include <string.h>

#define MOST_INTERIM 16 /* replies before the final one, such as 103 */

/* The object's user value is the connection. */
struct answer {
  const void *seal; /* must be first */
  struct baton_net_connection *connection;
  struct baton_http_decoder decoder;
  uint64_t left;
  unsigned char is_chunked, is_until_end, keeps_alive, has_ended, is_faulty;
};

static struct answer *check_answer(lua_State *L, int index) {
  return baton_inline_check_sealed(L, index, BATON_SEALED_HTTP_ANSWER, "reply");
}

static uint64_t deadline_at(lua_State *L, int index) {
  const lua_Number seconds = luaL_checknumber(L, index);
  if (!(seconds < 1e9)) return BATON_NO_DEADLINE;
  return seconds > 0 ? baton_http_deadline_in((uint64_t)(seconds * 1e9)) : 0;
}

static int push_why(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* {======================================================
** Heads
** ======================================================= */

static void push_lower(lua_State *L, const char *text, size_t size) {
  luaL_Buffer small;
  char *to = luaL_buffinitsize(L, &small, size);
  size_t i;
  for (i = 0; i < size; i++)
    to[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + ('a' - 'A')) : text[i];
  luaL_pushresultsize(&small, size);
}

/* Pushes two tables: names in lower case to values, and the values of Set-Cookie, in which commas
   mean something else. */
static void push_fields(lua_State *L, const struct baton_http_answer *head, const char *data) {
  lua_Integer cookies = 0;
  uint32_t i;
  lua_createtable(L, 0, (int)head->count);
  lua_newtable(L);
  for (i = 0; i < head->count; i++) {
    const struct baton_http_field field = head->fields[i];
    push_lower(L, data + field.name.start, field.name.size);
    if (strcmp(lua_tostring(L, -1), "set-cookie") == 0) {
      lua_pushlstring(L, data + field.value.start, field.value.size);
      lua_rawseti(L, -3, ++cookies);
    }
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -4) == LUA_TSTRING) {
      lua_pushliteral(L, ", ");
      lua_pushlstring(L, data + field.value.start, field.value.size);
      lua_concat(L, 3);
    } else {
      lua_pop(L, 1);
      lua_pushlstring(L, data + field.value.start, field.value.size);
    }
    lua_rawset(L, -4);
  }
}

/* Waits for a head. Returns NULL if it has come, or why not. */
static const char *await_head(lua_State *L, struct baton_net_connection *connection, int is_to_head,
    size_t limit, uint64_t deadline, struct baton_http_answer *head) {
  size_t seen = 0, size;
  for (;;) {
    const char *data = baton_net_view(connection, &size);
    uint32_t what;
    enum baton_net_result result;
    memset(head, 0, offsetof(struct baton_http_answer, fields));
    what = baton_http_parse_answer(data, size, &seen, limit, is_to_head, head);
    if (what == BATON_HTTP_PARSED) return NULL;
    if (what != BATON_HTTP_PARTIAL) return what == 431 ? "too large" : "malformed";
    result = baton_net_fill(L, connection, size + 1, deadline);
    if (result == BATON_NET_TIMED_OUT) return "timeout";
    if (result == BATON_NET_FAILED) {
      const char *fault = baton_net_fault_text(connection);
      return *fault != '\0' ? fault : strerror(baton_net_fault(connection));
    }
    if (result != BATON_NET_DONE) return size > 0 ? "cut off" : "closed";
  }
}

static void push_answer(lua_State *L, struct baton_net_connection *connection,
    const struct baton_http_answer *head) {
  struct answer *answer;
  baton_lua_check_memory(L);
  answer = lua_newuserdatauv(L, sizeof *answer, 1);
  memset(answer, 0, sizeof *answer);
  answer->seal = baton_inline_seal(BATON_SEALED_HTTP_ANSWER);
  answer->connection = connection;
  answer->left = head->length;
  answer->is_chunked = head->is_chunked;
  answer->is_until_end = head->is_until_end;
  answer->keeps_alive = head->keeps_alive;
  answer->has_ended = !head->is_chunked && !head->is_until_end && head->length == 0;
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  baton_lua_set_sealed_metatable(L, BATON_SEALED_HTTP_ANSWER);
}

/* answer(connection, is_to_head, limit, seconds): the answer, its status, two tables of fields, and
   its version; or nil and why: "closed" if nothing of it has come. */
int baton_http_read_answer(lua_State *L) {
  struct baton_net_connection *connection = baton_net_check(L, 1);
  const int is_to_head = lua_toboolean(L, 2);
  const size_t limit = (size_t)luaL_checkinteger(L, 3);
  const uint64_t deadline = deadline_at(L, 4);
  struct baton_http_answer head;
  int interim = 0;
  for (;;) {
    const char *why = await_head(L, connection, is_to_head, limit, deadline, &head);
    if (why != NULL && interim > 0 && strcmp(why, "closed") == 0) why = "cut off";
    if (why != NULL) return push_why(L, why);
    /* 101 would make it another protocol, which nobody has asked for */
    if (head.status >= 200) break;
    if (head.status == 101 || ++interim > MOST_INTERIM) return push_why(L, "malformed");
    baton_net_consume(connection, head.size);
  }
  push_answer(L, connection, &head);
  lua_pushinteger(L, head.status);
  {
    size_t size;
    push_fields(L, &head, baton_net_view(connection, &size));
  }
  baton_net_consume(connection, head.size);
  lua_pushstring(L, head.is_1_1 ? "1.1" : "1.0");
  return 5;
}

/* }====================================================== */

/* {======================================================
** Bodies
** ======================================================= */

/* Lets the decoder find the next data. Returns 0 if the body is wrong. */
static int decode(struct answer *answer, size_t *size) {
  const char *data = baton_net_view(answer->connection, size);
  const struct baton_http_piece piece = baton_http_next_piece(&answer->decoder, data, *size);
  if (piece.what == BATON_HTTP_BAD) return 0;
  baton_net_consume(answer->connection, piece.skip);
  *size -= piece.skip;
  answer->left = piece.size;
  answer->has_ended = piece.what == BATON_HTTP_END;
  return 1;
}

static int fail(lua_State *L, struct answer *answer, const char *why) {
  answer->is_faulty = 1;
  return push_why(L, why);
}

/* Pushes a part that lies in the buffer. */
static int push_part(lua_State *L, struct answer *answer, size_t most) {
  size_t size;
  const char *data = baton_net_view(answer->connection, &size);
  if (!answer->is_until_end && size > answer->left) size = (size_t)answer->left;
  if (size > most) size = most;
  lua_pushlstring(L, data, size);
  baton_net_consume(answer->connection, size);
  if (answer->is_until_end) return 1;
  answer->left -= size;
  if (answer->left == 0 && !answer->is_chunked) answer->has_ended = 1;
  return 1;
}

/* answer:read(size, seconds): the next part of the body, nil at its end; or nil and why. A timeout
   can be followed by another call. */
static int answer_read(lua_State *L) {
  struct answer *answer = check_answer(L, 1);
  const lua_Integer most = luaL_checkinteger(L, 2);
  const uint64_t deadline = deadline_at(L, 3);
  luaL_argcheck(L, most > 0, 2, "number of bytes, at least 1, expected");
  while (!answer->has_ended && !answer->is_faulty) {
    enum baton_net_result result;
    size_t size, wanted = 1;
    (void)baton_net_view(answer->connection, &size);
    if (answer->is_chunked && answer->left == 0) {
      if (!decode(answer, &size)) return fail(L, answer, "malformed");
      if (answer->has_ended) break;
      if (answer->left == 0) wanted = size + 1;
    }
    if (size >= wanted) return push_part(L, answer, (size_t)most);
    result = baton_net_fill(L, answer->connection, wanted, deadline);
    if (result == BATON_NET_DONE) continue;
    if (result == BATON_NET_TIMED_OUT) return push_why(L, "timeout");
    if (result != BATON_NET_END) return fail(L, answer, "closed");
    if (!answer->is_until_end) return fail(L, answer, "cut off");
    answer->has_ended = 1;
  }
  if (answer->is_faulty) return push_why(L, "closed");
  lua_pushnil(L);
  return 1;
}

/* answer:state(): whether the body has ended, and whether its connection can carry another
   request */
static int answer_state(lua_State *L) {
  const struct answer *answer = check_answer(L, 1);
  size_t size;
  (void)baton_net_view(answer->connection, &size);
  lua_pushboolean(L, answer->has_ended);
  lua_pushboolean(L, answer->has_ended && answer->keeps_alive && !answer->is_faulty && size == 0 &&
          baton_net_is_open(answer->connection));
  return 2;
}

/* answer:length(): bytes of the body that are known to come; nil if that is not known */
static int answer_length(lua_State *L) {
  const struct answer *answer = check_answer(L, 1);
  if (answer->is_chunked || answer->is_until_end) return 0;
  lua_pushinteger(L, (lua_Integer)answer->left);
  return 1;
}

/* }====================================================== */

void baton_http_open_answers(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"read", answer_read}, {"state", answer_state}, {"length", answer_length}, {NULL, NULL}};
  baton_lua_new_sealed_metatable(L, BATON_SEALED_HTTP_ANSWER, "baton.http.answer*");
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
