/*
** Bytes become a value. They may come from anyone: whatever they are, there is a value or a text
** that says what is wrong, and no more memory is used than a small multiple of their number. Others
** run meanwhile, as both functions give way (BATON_MODULE_GIVES_WAY).
**
** Whoever chooses the keys of a map can choose numbers that Lua puts into one chain. Lua's hashes
** of strings have a seed, those of numbers have none. Each insertion then walks the whole chain,
** and so does each step of a rehash, in which nobody else runs. So the pairs of a large map are
** read first. Then the numbers are counted by the places that they would get. If they do not share
** too many, the table is made in its full size, so that it is not rehashed.
*/
#include "cluster.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* What a table is made for at first. More is only believed when it comes. */
#define MOST_FORESEEN 64

struct reader {
  lua_State *L;
  const unsigned char *at, *end;
};

/* What is wrong, or NULL. Each function that returns this has pushed one value, if it is NULL. */
typedef const char *fault;

static const char truncated[] = "it is truncated";

static fault read_value(struct reader *reader, int depth);

static int has(const struct reader *reader, size_t size) {
  return (size_t)(reader->end - reader->at) >= size;
}

/* Reads a number of `size` bytes. */
static int read_number(struct reader *reader, int size, uint64_t *number) {
  if (!has(reader, (size_t)size)) return 0;
  for (*number = 0; size > 0; size--) *number = *number << 8 | *reader->at++;
  return 1;
}

static fault read_string(struct reader *reader, uint64_t size) {
  if (!has(reader, size)) return truncated;
  lua_pushlstring(reader->L, (const char *)reader->at, (size_t)size);
  reader->at += size;
  return NULL;
}

static int foreseen(uint64_t count) { return count < MOST_FORESEEN ? (int)count : MOST_FORESEEN; }

static fault read_array(struct reader *reader, uint64_t count, int depth) {
  uint64_t i;
  if (!has(reader, count)) return truncated; /* each value has a byte at least */
  lua_createtable(reader->L, foreseen(count), 0);
  for (i = 1; i <= count; i++) {
    const fault wrong = read_value(reader, depth + 1);
    if (wrong != NULL) return wrong;
    lua_rawseti(reader->L, -2, (lua_Integer)i);
  }
  return NULL;
}

static fault read_key(struct reader *reader, int depth) {
  lua_State *L = reader->L;
  const fault wrong = read_value(reader, depth);
  if (wrong != NULL) return wrong;
  if (lua_isnil(L, -1) || lua_istable(L, -1)) return "a key is nil or a table";
  if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1))
    return "a key is not a number";
  return NULL;
}

/* {======================================================
** Large maps
** ======================================================= */

/* What the chains of a table may cost: steps for each key, and a number of steps that nobody
   notices. Keys at equal distances make some chains, as multiples of a day in seconds do. */
#define STEPS_FOR_EACH 128u
#define STEPS_FOR_ALL (1u << 22)

/* Lua's hash of a float (ltable.c, l_hashfloat). */
static uint64_t hash_of_float(lua_Number number) {
  int exponent;
  lua_Integer whole;
  const lua_Number scaled = frexp(number, &exponent) * -(lua_Number)INT_MIN;
  if (!lua_numbertointeger(scaled, &whole)) return 0; /* an infinity */
  {
    const unsigned sum = (unsigned)exponent + (unsigned)whole;
    return sum <= INT_MAX ? sum : ~sum;
  }
}

/* Whether the numbers among the keys cost too much in a table with 2^bits places. The pairs are in
   the list on the top of the stack. */
static int is_crowded(lua_State *L, uint64_t count, unsigned bits) {
  const uint64_t places = (uint64_t)1 << bits, most = STEPS_FOR_ALL + STEPS_FOR_EACH * count;
  uint32_t *there = (uint32_t *)lua_newuserdatauv(L, places * sizeof *there, 0);
  uint64_t steps = 0, i;
  memset(there, 0, places * sizeof *there);
  for (i = 0; i < count && steps <= most; i++) {
    if (lua_rawgeti(L, -2, (lua_Integer)(2 * i + 1)) == LUA_TNUMBER) {
      int is_integer; /* or a float that becomes one as a key */
      const lua_Integer integer = lua_tointegerx(L, -1, &is_integer);
      const uint64_t hash =
          is_integer ? (uint64_t)integer : hash_of_float(lua_tonumber(L, -1));
      steps += there[hash % ((places - 1) | 1)]++;
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return steps > most;
}

/* The table will have 2^n places, and the double number when the program adds something. */
static fault check_keys(lua_State *L, uint64_t count) {
  unsigned bits = 0;
  while ((uint64_t)1 << bits < count) bits++;
  return is_crowded(L, count, bits) || is_crowded(L, count, bits + 1)
      ? "too many of its keys would share one place of a table"
      : NULL;
}

/* Reads the pairs into a list: each key, and then its value. */
static fault read_pairs(struct reader *reader, uint64_t count, int depth) {
  lua_State *L = reader->L;
  uint64_t i;
  lua_createtable(L, MOST_FORESEEN, 0);
  for (i = 1; i <= 2 * count; i++) {
    const fault wrong =
        i % 2 == 1 ? read_key(reader, depth) : read_value(reader, depth);
    if (wrong != NULL) return wrong;
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  return NULL;
}

static fault read_large_map(struct reader *reader, uint64_t count, int depth) {
  lua_State *L = reader->L;
  fault wrong = read_pairs(reader, count, depth + 1);
  uint64_t i;
  if (wrong == NULL) wrong = check_keys(L, count);
  if (wrong != NULL) return wrong;
  lua_createtable(L, 0, (int)count);
  for (i = 1; i < 2 * count; i += 2) {
    lua_rawgeti(L, -2, (lua_Integer)i);
    lua_rawgeti(L, -3, (lua_Integer)i + 1);
    lua_rawset(L, -3);
  }
  lua_remove(L, -2);
  return NULL;
}

/* }====================================================== */

static fault read_map(struct reader *reader, uint64_t count, int depth) {
  lua_State *L = reader->L;
  if (!has(reader, count * 2)) return truncated;
  if (count > MOST_FORESEEN) {
    if (count > INT_MAX / 2) return "a map is too large";
    return read_large_map(reader, count, depth);
  }
  lua_createtable(L, 0, foreseen(count));
  for (; count > 0; count--) {
    fault wrong = read_key(reader, depth + 1);
    if (wrong != NULL) return wrong;
    wrong = read_value(reader, depth + 1);
    if (wrong != NULL) return wrong;
    lua_rawset(L, -3);
  }
  return NULL;
}

static fault push_signed(struct reader *reader, int size) {
  uint64_t number;
  if (!read_number(reader, size, &number)) return truncated;
  if (size < 8 && number >> (8 * size - 1) != 0) number |= ~(uint64_t)0 << 8 * size;
  lua_pushinteger(reader->L, (lua_Integer)number);
  return NULL;
}

static fault push_unsigned(struct reader *reader, int size) {
  uint64_t number;
  if (!read_number(reader, size, &number)) return truncated;
  if (number > INT64_MAX) return "an integer is above 2^63 - 1";
  lua_pushinteger(reader->L, (lua_Integer)number);
  return NULL;
}

static fault push_float(struct reader *reader, int size) {
  uint64_t number;
  uint32_t half;
  float small;
  double large;
  if (!read_number(reader, size, &number)) return truncated;
  if (size == 4) {
    half = (uint32_t)number;
    memcpy(&small, &half, sizeof small);
    large = small;
  } else {
    memcpy(&large, &number, sizeof large);
  }
  lua_pushnumber(reader->L, large);
  return NULL;
}

/* Strings, arrays and maps whose length has `size` bytes. */
static fault read_long(
    struct reader *reader, int size, int depth, fault (*read)(struct reader *, uint64_t, int)) {
  uint64_t length;
  if (!read_number(reader, size, &length)) return truncated;
  return read == NULL ? read_string(reader, length) : read(reader, length, depth);
}

static fault read_value(struct reader *reader, int depth) {
  lua_State *L = reader->L;
  unsigned first;
  if (depth > BATON_VALUES_DEPTH) return "it has more than 100 tables within tables";
  if (!has(reader, 1)) return truncated;
  if (!lua_checkstack(L, 8)) return "it has too many tables within tables";
  first = *reader->at++;
  if (first < 0x80 || first >= 0xe0) {
    lua_pushinteger(L, first < 0x80 ? (lua_Integer)first : (lua_Integer)first - 256);
    return NULL;
  }
  if (first < 0x90) return read_map(reader, first & 0x0f, depth);
  if (first < 0xa0) return read_array(reader, first & 0x0f, depth);
  if (first < 0xc0) return read_string(reader, first & 0x1f);
  switch (first) {
    case 0xc0: lua_pushnil(L); return NULL;
    case 0xc2: case 0xc3: lua_pushboolean(L, first == 0xc3); return NULL;
    case 0xc4: case 0xd9: return read_long(reader, 1, depth, NULL);
    case 0xc5: case 0xda: return read_long(reader, 2, depth, NULL);
    case 0xc6: case 0xdb: return read_long(reader, 4, depth, NULL);
    case 0xca: return push_float(reader, 4);
    case 0xcb: return push_float(reader, 8);
    case 0xcc: return push_unsigned(reader, 1);
    case 0xcd: return push_unsigned(reader, 2);
    case 0xce: return push_unsigned(reader, 4);
    case 0xcf: return push_unsigned(reader, 8);
    case 0xd0: return push_signed(reader, 1);
    case 0xd1: return push_signed(reader, 2);
    case 0xd2: return push_signed(reader, 4);
    case 0xd3: return push_signed(reader, 8);
    case 0xdc: return read_long(reader, 2, depth, read_array);
    case 0xdd: return read_long(reader, 4, depth, read_array);
    case 0xde: return read_long(reader, 2, depth, read_map);
    case 0xdf: return read_long(reader, 4, depth, read_map);
    default: return "it has a type that is no value of Lua";
  }
}

/* The results of a function that fails. */
static int fail(lua_State *L, fault wrong) {
  lua_settop(L, 1);
  lua_pushboolean(L, 0);
  lua_pushfstring(L, "the message cannot be read: %s", wrong);
  return 2;
}

/* Reads the version, and leaves the map before the value out. */
static fault begin(lua_State *L, struct reader *reader) {
  unsigned version;
  fault wrong;
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  lua_settop(L, 1);
  reader->L = L;
  reader->at = (const unsigned char *)bytes;
  reader->end = reader->at + size;
  if (size == 0) return "it is empty";
  version = *reader->at++;
  if (version == BATON_VALUES_VERSION) return NULL;
  if (version != BATON_VALUES_WITH_WORK)
    return "it is of another version, or not from baton.cluster";
  wrong = read_value(reader, 0);
  lua_settop(L, 1);
  return wrong;
}

int baton_cluster_unpack(lua_State *L) {
  struct reader reader;
  fault wrong = begin(L, &reader);
  lua_pushboolean(L, 1);
  if (wrong == NULL) wrong = read_value(&reader, 0);
  if (wrong == NULL && reader.at != reader.end) wrong = "something follows the value";
  return wrong != NULL ? fail(L, wrong) : 2;
}

int baton_cluster_unpack_list(lua_State *L) {
  struct reader reader;
  fault wrong = begin(L, &reader);
  uint64_t count = 0, i;
  lua_pushboolean(L, 1);
  if (wrong == NULL) {
    const unsigned first = has(&reader, 1) ? *reader.at++ : 0;
    if (first >= 0x90 && first < 0xa0)
      count = first & 0x0f;
    else if (first != 0xdc || !read_number(&reader, 2, &count))
      wrong = "it is no list";
  }
  if (wrong == NULL && !has(&reader, count)) wrong = truncated;
  if (wrong == NULL && !lua_checkstack(L, (int)count + 8)) wrong = "it has too many values";
  for (i = 0; wrong == NULL && i < count; i++) wrong = read_value(&reader, 0);
  if (wrong == NULL && reader.at != reader.end) wrong = "something follows the list";
  return wrong != NULL ? fail(L, wrong) : 1 + (int)count;
}

int baton_cluster_work_of(lua_State *L) {
  struct reader reader;
  size_t size;
  const char *bytes = luaL_checklstring(L, 1, &size);
  if (size == 0 || *bytes != BATON_VALUES_WITH_WORK) return 0;
  reader.L = L;
  reader.at = (const unsigned char *)bytes + 1;
  reader.end = (const unsigned char *)bytes + size;
  if (read_value(&reader, 0) != NULL || !lua_istable(L, -1)) return 0;
  return 1;
}
