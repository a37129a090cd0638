/*
** The head of a reply. What a program gives as fields is walked through twice: to count and to
** check the bytes, and to write them. So nothing is written before all of it is right.
*/
#include "http/inside.h"

#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include <time.h>

const char baton_http_reply_fields = 0;

struct head {
  char *at; /* NULL: only counted */
  size_t size;
  struct baton_http_reply *reply;
  int has_type, has_length;
};

static void put(struct head *head, const char *text, size_t size) {
  if (head->at != NULL) memcpy(head->at + head->size, text, size);
  head->size += size;
}

static void put_text(struct head *head, const char *text) { put(head, text, strlen(text)); }

static void put_field(struct head *head, const char *name, size_t name_size, const char *value,
    size_t value_size) {
  put(head, name, name_size);
  put(head, ": ", 2);
  put(head, value, value_size);
  put(head, "\r\n", 2);
}

/* {======================================================
** Fields of the program
** ======================================================= */

static int is(const char *name, size_t size, const char *other) {
  return size == strlen(other) && strncasecmp(name, other, size) == 0;
}

/* Whether the server writes this field itself. */
static int is_ours(struct head *head, const char *name, size_t size, const char *value) {
  if (is(name, size, "connection")) {
    if (strcasecmp(value, "close") == 0) head->reply->keeps_alive = 0;
    return strcasecmp(value, "upgrade") != 0;
  }
  if (is(name, size, "content-length")) {
    if (!head->reply->is_head || head->reply->is_stream) return 1;
    head->has_length = 1; /* of the reply that GET would have */
    return 0;
  }
  return is(name, size, "transfer-encoding") || is(name, size, "keep-alive") ||
      is(name, size, "date");
}

/* Adds a field, whose value is on the top. */
static void add_field(lua_State *L, struct head *head, const char *name, size_t name_size) {
  size_t size;
  const char *value = lua_tolstring(L, -1, &size);
  if (value == NULL)
    luaL_error(L, "field '%s' of the reply: string, number or list of them expected, got %s", name,
        luaL_typename(L, -1));
  if (head->at == NULL && !baton_http_is_value(value, size))
    luaL_error(L, "field '%s' of the reply: its value has a control character, such as the end of "
                  "a line; take that out", name);
  if (is_ours(head, name, name_size, value)) return;
  if (is(name, name_size, "content-type")) head->has_type = 1;
  put_field(head, name, name_size, value, size);
}

static void add_list(lua_State *L, struct head *head, const char *name, size_t name_size) {
  const lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  lua_Integer i;
  for (i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, i);
    add_field(L, head, name, name_size);
    lua_pop(L, 1);
  }
}

static void add_fields(lua_State *L, struct head *head, int index) {
  if (index == 0) return;
  lua_pushnil(L);
  while (lua_next(L, index) != 0) {
    size_t size;
    const char *name;
    if (lua_type(L, -2) != LUA_TSTRING)
      luaL_error(L, "fields of a reply: names expected as keys, got a %s", luaL_typename(L, -2));
    name = lua_tolstring(L, -2, &size);
    if (head->at == NULL && !baton_http_is_token(name, size))
      luaL_error(L, "fields of a reply: '%s' cannot be a name", name);
    if (lua_istable(L, -1))
      add_list(L, head, name, size);
    else
      add_field(L, head, name, size);
    lua_pop(L, 1);
  }
}

/* }====================================================== */

static size_t digits_of(uint64_t number, char *digits) {
  char reversed[20];
  size_t count = 0, i;
  do {
    reversed[count++] = (char)('0' + number % 10);
  } while ((number /= 10) > 0);
  for (i = 0; i < count; i++) digits[i] = reversed[count - 1 - i];
  return count;
}

/* What follows the fields of the program. */
static void put_end(struct head *head) {
  const struct baton_http_reply *reply = head->reply;
  const int has_no_body = baton_http_has_no_body(reply->status);
  if (!head->has_type && !has_no_body && (reply->length > 0 || reply->is_stream))
    put_text(head, "Content-Type: text/plain; charset=utf-8\r\n");
  if (has_no_body || head->has_length) {
    /* nothing */
  } else if (!reply->is_stream) {
    char digits[20];
    put_field(head, "Content-Length", 14, digits, digits_of(reply->length, digits));
  } else if (reply->is_1_1) {
    put_text(head, "Transfer-Encoding: chunked\r\n");
  }
  if (!reply->keeps_alive)
    put_text(head, "Connection: close\r\n");
  else if (!reply->is_1_1)
    put_text(head, "Connection: keep-alive\r\n");
  put(head, "\r\n", 2);
}

static void walk(lua_State *L, struct head *head) {
  head->has_type = head->has_length = 0;
  add_fields(L, head, head->reply->fields[0]);
  add_fields(L, head, head->reply->fields[1]);
  put_end(head);
}

/* Seconds since 1970, which are virtual in a simulated run. */
static uint64_t date(void) {
  return l_likely(!baton_simulated) ? (uint64_t)time(NULL) : (uint64_t)baton_lua_simulated_date();
}

struct iovec baton_http_write_head(lua_State *L, struct baton_http_reply *reply, char *room) {
  struct head head = {NULL, 0, reply, 0, 0};
  struct iovec part = {room, 0};
  const int has_fields = reply->fields[0] != 0 || reply->fields[1] != 0;
  if (has_fields) walk(L, &head);
  if (head.size > BATON_HTTP_ROOM - BATON_HTTP_MOST_BEGIN)
    part.iov_base = lua_newuserdatauv(L, head.size + BATON_HTTP_MOST_BEGIN, 0);
  else
    lua_pushnil(L);
  part.iov_len = baton_http_begin_reply(part.iov_base, reply->status, date());
  head.at = (char *)part.iov_base + part.iov_len;
  head.size = 0;
  walk(L, &head);
  part.iov_len += head.size;
  return part;
}
