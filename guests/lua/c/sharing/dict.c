/*
** vm.dict: a dictionary that VMs share.
**
** Booleans, numbers and strings are stored as they are. Any other value is a block, of which each
** reader gets a copy.
*/
#include "sharing/inside.h"

#include <string.h>

#define DEFAULT_BYTES ((lua_Integer)16 << 20)

static struct baton_dict *dict_of(const struct baton_handle *handle) {
  return (struct baton_dict *)(size_t)handle->id;
}

static struct baton_dict *check_dict(lua_State *L) {
  return dict_of(baton_shared_check_live(L, 1, BATON_SEALED_DICT));
}

static size_t size_of_block(const void *block) { return baton_block_size(block); }
static void free_block(void *block) { baton_block_free(block); }
static void visit_block(const void *block, struct baton_visitor *visitor) {
  baton_block_visit(block, visitor);
}
static const struct baton_message_kind blocks = {size_of_block, free_block, visit_block};

/* {======================================================
** Making a dictionary
** ======================================================= */

static lua_Integer check_bytes(lua_State *L) {
  int is_integer = 1;
  lua_Integer bytes = DEFAULT_BYTES;
  if (lua_getfield(L, 1, "bytes") != LUA_TNIL) bytes = lua_tointegerx(L, -1, &is_integer);
  luaL_argcheck(L, is_integer && bytes >= 1, 1, "option 'bytes': positive integer expected");
  lua_pop(L, 1);
  return bytes;
}

static int check_evict(lua_State *L) {
  const char *evict = "error";
  if (lua_getfield(L, 1, "evict") != LUA_TNIL)
    evict = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  luaL_argcheck(L, strcmp(evict, "error") == 0 || strcmp(evict, "lru") == 0, 1,
      "option 'evict': \"error\" or \"lru\" expected");
  lua_pop(L, 1);
  return strcmp(evict, "lru") == 0;
}

/* Raises an error for an unknown option. */
static void check_options(lua_State *L) {
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (strcmp(key, "bytes") != 0 && strcmp(key, "evict") != 0) {
      luaL_tolstring(L, -2, NULL);
      luaL_argerror(L, 1, lua_pushfstring(L, "unknown option '%s'", lua_tostring(L, -1)));
    }
    lua_pop(L, 1);
  }
}

/* vm.dict{bytes=, evict=} */
int baton_shared_new_dict(lua_State *L) {
  lua_Integer bytes = DEFAULT_BYTES;
  int evicts = 0;
  struct baton_handle *handle;
  if (!lua_isnoneornil(L, 1)) {
    luaL_checktype(L, 1, LUA_TTABLE);
    check_options(L);
    bytes = check_bytes(L);
    evicts = check_evict(L);
  }
  handle = baton_shared_new_handle(L, BATON_SEALED_DICT, sizeof *handle);
  handle->id = (uintptr_t)baton_dict_new((uint64_t)bytes, evicts, &blocks);
  return 1;
}

static int dict_gc(lua_State *L) {
  struct baton_handle *handle = baton_shared_check(L, 1, BATON_SEALED_DICT);
  if (handle->id != 0) baton_dict_release(dict_of(handle));
  handle->id = 0;
  return 0;
}

/* }====================================================== */

/* {======================================================
** Keys: a letter for the type, and the bytes
** ======================================================= */

#define SHORT_KEY 200

/* Writes a key of a letter and some bytes into `room`, or onto Lua's stack if it is longer. */
static struct baton_dict_key make_key(
    lua_State *L, char room[SHORT_KEY], char letter, const void *bytes, size_t size) {
  char *text = size < SHORT_KEY ? room : lua_newuserdatauv(L, size + 1, 0);
  struct baton_dict_key key;
  text[0] = letter;
  memcpy(text + 1, bytes, size);
  key.bytes = text;
  key.size = size + 1;
  return key;
}

/* The key at argument 2. May leave a value that it needs on the stack, above the arguments. */
static struct baton_dict_key check_key(lua_State *L, int arguments, char room[SHORT_KEY]) {
  size_t size;
  const char *text;
  lua_settop(L, arguments);
  switch (lua_type(L, 2)) {
    case LUA_TSTRING:
      text = lua_tolstring(L, 2, &size);
      return make_key(L, room, 's', text, size);
    case LUA_TBOOLEAN: return make_key(L, room, lua_toboolean(L, 2) ? 't' : 'f', "", 0);
    case LUA_TNUMBER: {
      int is_integer;
      const lua_Integer integer = lua_tointegerx(L, 2, &is_integer); /* 2.0 is 2, as in tables */
      const lua_Number number = lua_tonumber(L, 2);
      if (is_integer) return make_key(L, room, 'i', &integer, sizeof integer);
      luaL_argcheck(L, number == number, 2, "a key cannot be NaN");
      return make_key(L, room, 'n', &number, sizeof number);
    }
    default:
      luaL_typeerror(L, 2, "string, number or boolean");
      return make_key(L, room, 0, "", 0);
  }
}

static void push_key(lua_State *L, struct baton_dict_key key) {
  const char *bytes = (const char *)key.bytes + 1;
  lua_Integer integer;
  lua_Number number;
  switch (*(const char *)key.bytes) {
    case 's': lua_pushlstring(L, bytes, key.size - 1); break;
    case 't': lua_pushboolean(L, 1); break;
    case 'f': lua_pushboolean(L, 0); break;
    case 'i':
      memcpy(&integer, bytes, sizeof integer);
      lua_pushinteger(L, integer);
      break;
    default:
      memcpy(&number, bytes, sizeof number);
      lua_pushnumber(L, number);
      break;
  }
}

/* }====================================================== */

/* {======================================================
** Values
** ======================================================= */

/* Reads nil, a boolean, a number or a string. Returns 0 for another value. */
static int read_plain(lua_State *L, int index, struct baton_dict_value *value) {
  memset(value, 0, sizeof *value);
  switch (lua_type(L, index)) {
    case LUA_TNIL: case LUA_TNONE: value->kind = BATON_DICT_ABSENT; return 1;
    case LUA_TBOOLEAN:
      value->kind = lua_toboolean(L, index) ? BATON_DICT_TRUE : BATON_DICT_FALSE;
      return 1;
    case LUA_TNUMBER:
      value->kind = lua_isinteger(L, index) ? BATON_DICT_INTEGER : BATON_DICT_FLOAT;
      value->integer = lua_tointeger(L, index);
      value->number = lua_tonumber(L, index);
      return 1;
    case LUA_TSTRING:
      value->kind = BATON_DICT_BYTES;
      value->bytes = lua_tolstring(L, index, &value->size);
      return 1;
    default: return 0;
  }
}

/* Reads any value that can be sent. A block that it makes is for the next call of the runtime, so
   nothing may raise an error before that. */
static void read_value(lua_State *L, int index, struct baton_dict_value *value) {
  struct baton_block *block;
  if (read_plain(L, index, value)) return;
  block = baton_copy_out(L, index, 1, "value");
  if (block == NULL) luaL_error(L, "%s", lua_tostring(L, -1));
  if (!baton_block_can_be_read_again(block)) {
    baton_block_free(block);
    luaL_error(L, "cannot store a value that is moved (it can be received only once)");
  }
  value->kind = BATON_DICT_MESSAGE;
  value->bytes = block;
}

static int push_bytes(lua_State *L) {
  const struct baton_dict_value *value = lua_touserdata(L, 1);
  lua_pushlstring(L, value->bytes, value->size);
  return 1;
}

/* Pushes a value that was found, and gives its reference back. */
static void push_value(lua_State *L, struct baton_dict_value *value) {
  struct baton_block *block;
  int status;
  switch (value->kind) {
    case BATON_DICT_ABSENT: lua_pushnil(L); break;
    case BATON_DICT_FALSE: case BATON_DICT_TRUE:
      lua_pushboolean(L, value->kind == BATON_DICT_TRUE);
      break;
    case BATON_DICT_INTEGER: lua_pushinteger(L, value->integer); break;
    case BATON_DICT_FLOAT: lua_pushnumber(L, value->number); break;
    case BATON_DICT_BYTES:
      lua_pushcfunction(L, push_bytes);
      lua_pushlightuserdata(L, value);
      status = lua_pcall(L, 1, 1, 0);
      baton_dict_release_value(value);
      if (status != LUA_OK) lua_error(L);
      break;
    default:
      block = baton_block_again(value->bytes);
      baton_dict_release_value(value);
      if (block == NULL) luaL_error(L, "not enough memory");
      baton_copy_in(L, block);
      break;
  }
}

/* The end of a value's time, by the argument at `index`. */
static uint64_t check_end(lua_State *L, int index) {
  baton_timeout ttl;
  if (lua_isnoneornil(L, index)) return UINT64_MAX;
  ttl = baton_lua_check_timeout(L, index);
  luaL_argcheck(L, ttl != 0, index, "time to live must be positive");
  return ttl < 0 ? UINT64_MAX : baton_now() + (uint64_t)ttl;
}

/* Pushes `true`, or `nil, why`. */
static int push_result(lua_State *L, int result) {
  if (result == BATON_DICT_STORED) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, result == BATON_DICT_FULL ? "full" : "exists");
  return 2;
}

/* }====================================================== */

/* {======================================================
** Methods
** ======================================================= */

static int dict_get(lua_State *L) {
  const struct baton_dict *dict = check_dict(L);
  char room[SHORT_KEY];
  struct baton_dict_value found;
  baton_dict_get(dict, check_key(L, 2, room), &found);
  push_value(L, &found);
  return 1;
}

static int store(lua_State *L, int if_absent) {
  struct baton_dict *dict = check_dict(L);
  char room[SHORT_KEY];
  const struct baton_dict_key key = check_key(L, 4, room);
  const uint64_t end = check_end(L, 4);
  struct baton_dict_value value;
  luaL_argcheck(L, !lua_isnil(L, 3), 3, "value expected (d:delete(key) removes a key)");
  read_value(L, 3, &value);
  return push_result(L, baton_dict_set(dict, key, &value, end, if_absent));
}

static int dict_set(lua_State *L) { return store(L, 0); }
static int dict_add(lua_State *L) { return store(L, 1); }

/* d:compare(key, expected, new) -> true; or false, the present value; or nil, "full" */
static int dict_compare(lua_State *L) {
  struct baton_dict *dict = check_dict(L);
  char room[SHORT_KEY];
  struct baton_dict_value expected, value, before;
  struct baton_dict_key key;
  int result;
  luaL_checkany(L, 4);
  key = check_key(L, 4, room);
  if (!read_plain(L, 3, &expected)) luaL_typeerror(L, 3, "nil, boolean, number or string");
  read_value(L, 4, &value);
  result = baton_dict_compare(dict, key, &expected, &value, &before);
  if (result == BATON_DICT_NOT_WANTED) {
    push_value(L, &before);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
  }
  baton_dict_release_value(&before);
  return push_result(L, result);
}

static int dict_delete(lua_State *L) {
  struct baton_dict *dict = check_dict(L);
  char room[SHORT_KEY];
  lua_pushboolean(L, baton_dict_delete(dict, check_key(L, 2, room)));
  return 1;
}

static void check_number(lua_State *L, int index, lua_Integer otherwise,
    struct baton_dict_value *value) {
  if (lua_isnoneornil(L, index)) {
    memset(value, 0, sizeof *value);
    value->kind = BATON_DICT_INTEGER;
    value->integer = otherwise;
  } else if (lua_type(L, index) != LUA_TNUMBER) {
    luaL_typeerror(L, index, "number");
  } else {
    read_plain(L, index, value);
  }
}

/* d:incr(key, [n=1], [initial=0]) -> the sum; or nil, "full" */
static int dict_incr(lua_State *L) {
  struct baton_dict *dict = check_dict(L);
  char room[SHORT_KEY];
  const struct baton_dict_key key = check_key(L, 4, room);
  struct baton_dict_value n, initial, sum;
  int result;
  check_number(L, 3, 1, &n);
  check_number(L, 4, 0, &initial);
  result = baton_dict_add(dict, key, &n, &initial, &sum);
  if (result == BATON_DICT_NOT_WANTED) luaL_error(L, "the value of the key is not a number");
  if (result == BATON_DICT_FULL) return push_result(L, result);
  push_value(L, &sum);
  return 1;
}

/* Pushes a list of the keys in the argument. */
static int push_keys(lua_State *L) {
  const struct baton_dict_keys *keys = lua_touserdata(L, 1);
  struct baton_dict_key key;
  lua_Integer number = 0;
  lua_newtable(L);
  while (baton_dict_key_at(keys, (uint64_t)number, &key)) {
    push_key(L, key);
    lua_rawseti(L, -2, ++number);
  }
  return 1;
}

static int dict_keys(lua_State *L) {
  const struct baton_dict *dict = check_dict(L);
  const lua_Integer limit = luaL_optinteger(L, 2, LUA_MAXINTEGER);
  struct baton_dict_keys *keys;
  int status;
  luaL_argcheck(L, limit >= 0, 2, "limit must not be negative");
  lua_pushcfunction(L, push_keys);
  keys = baton_dict_keys(dict, (uint64_t)limit);
  lua_pushlightuserdata(L, keys);
  status = lua_pcall(L, 1, 1, 0);
  baton_dict_keys_free(keys);
  if (status != LUA_OK) lua_error(L);
  return 1;
}

static int dict_length(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)baton_dict_count(check_dict(L)));
  return 1;
}

static int dict_used(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)baton_dict_used(check_dict(L)));
  return 1;
}

/* }====================================================== */

/* {======================================================
** Sending
** ======================================================= */

static int is_dict(lua_State *L, int index) {
  return baton_lua_test_sealed(L, index, BATON_SEALED_DICT) != NULL;
}

static void *hold_dict(lua_State *L, int index, const char **why) {
  struct baton_dict *dict = dict_of(baton_lua_test_sealed(L, index, BATON_SEALED_DICT));
  *why = "it was collected";
  if (dict != NULL) baton_dict_hold(dict);
  return dict;
}

static void *hold_dict_again(void *object) {
  baton_dict_hold(object);
  return object;
}

static void release_dict(void *object) { baton_dict_release(object); }

static void visit_dict(void *object, struct baton_visitor *visitor) {
  baton_visit_dict(visitor, object);
}

static void push_dict(lua_State *L, void *object) {
  baton_shared_push(L, BATON_SEALED_DICT, sizeof(struct baton_handle), object, release_dict);
}

void baton_shared_install_dict(void) {
  static const luaL_Reg methods[] = {{"get", dict_get}, {"set", dict_set}, {"add", dict_add},
      {"compare", dict_compare}, {"delete", dict_delete}, {"incr", dict_incr},
      {"keys", dict_keys}, {"used", dict_used}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {
      {"__gc", dict_gc}, {"__len", dict_length}, {NULL, NULL}};
  static const struct baton_sendable kind = {
      is_dict, hold_dict, push_dict, release_dict, hold_dict_again, visit_dict};
  baton_shared_install_kind(BATON_SEALED_DICT, methods, metamethods);
  baton_copy_register(&kind);
}

/* }====================================================== */
