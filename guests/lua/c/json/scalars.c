/*
** Text to values: strings, numbers and literals.
**
** A string without escapes is copied once, into the value. One with escapes is put together on the
** C stack if it is short. A long one is read twice: first its size is counted, then the value is
** filled.
**
** Numbers are those of lua-cjson: with leading zeros, a plus sign, in hexadecimal, infinities and
** NaN, unless `decode_invalid_numbers` is off. An integer that Lua's integers do not have is a
** float, as in Lua's own texts. (lua-cjson makes it the largest integer.)
*/
#include "json/inside.h"

#include "lstring.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__) || defined(__FreeBSD__)
#include <xlocale.h>
#endif

static inline void make_room(lua_State *L) {
  if (l_unlikely(L->ci->top.p - L->top.p < 2)) baton_json_grow(L);
}

/* {======================================================
** White space
** ======================================================= */

static int is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Comes to a stop in a long piece without a value. */
static void stop_at(struct baton_json_reader *r, const char *at, const char **next) {
  if (l_likely(at < *next)) return;
  baton_json_stop(r->L);
  *next = at + BATON_JSON_LONG_PIECE;
}

/* Skips a comment at `r->at`, if there is one and comments are allowed. */
static int skip_comment(struct baton_json_reader *r) {
  const char *at = r->at + 1, *next = at + BATON_JSON_LONG_PIECE;
  if (!r->settings->allows_comments || (*at != '*' && *at != '/')) return 0;
  if (*at == '/') {
    while (*at != '\n' && *at != '\0') stop_at(r, at++, &next);
  } else {
    for (at++; at[0] != '*' || at[1] != '/'; at++) {
      if (*at == '\0') return baton_json_fault(r, "unclosed multi-line comment", at);
      stop_at(r, at, &next);
    }
    at += 2;
  }
  r->at = at;
  return 1;
}

void baton_json_skip_long(struct baton_json_reader *r) {
  const char *next = r->at + BATON_JSON_LONG_PIECE;
  do {
    while (is_space(*r->at)) stop_at(r, r->at++, &next);
  } while (*r->at == '/' && skip_comment(r));
}

/* }====================================================== */

/* {======================================================
** Strings
** ======================================================= */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
/* The highest bits of the bytes that are zero. Those below the first of them are right. */
#define ZEROS(word) (((word) - EACH(1)) & ~(word) & EACH(0x80))

/* The first quote, backslash or zero byte from `at` on, or `limit`, which is at most the end. */
static const char *plain_end(const char *at, const char *limit) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  while (limit - at >= 8) {
    uint64_t word, hits;
    memcpy(&word, at, 8);
    hits = ZEROS(word) | ZEROS(word ^ EACH('"')) | ZEROS(word ^ EACH('\\'));
    if (hits != 0) return at + (__builtin_ctzll(hits) >> 3);
    at += 8;
  }
#endif
  while (at < limit && *at != '"' && *at != '\\' && *at != '\0') at++;
  return at;
}

/* The same without a limit. Others may run meanwhile. */
static const char *end_of_plain(struct baton_json_reader *r, const char *at) {
  for (;;) {
    const char *limit =
        r->end - at > BATON_JSON_LONG_PIECE ? at + BATON_JSON_LONG_PIECE : r->end;
    at = plain_end(at, limit);
    if (l_likely(at < limit || at == r->end)) return at;
    baton_json_stop(r->L);
  }
}

/* Four hexadecimal digits, or -1. */
static int32_t four_digits(const char *at) {
  int32_t number = 0;
  int i;
  for (i = 0; i < 4; i++) {
    const char c = at[i];
    int digit;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if ((c | 32) >= 'a' && (c | 32) <= 'f')
      digit = (c | 32) - 'a' + 10;
    else
      return -1; /* a zero byte, too, so nothing behind the end is read */
    number = number << 4 | digit;
  }
  return number;
}

/* Writes a character of Unicode in UTF-8. Returns the number of bytes. */
static int put_character(uint32_t code, char *to) {
  if (code < 0x80) {
    to[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    to[0] = (char)(0xc0 | code >> 6);
    to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
  }
  if (code < 0x10000) {
    to[0] = (char)(0xe0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 0x3f));
    to[2] = (char)(0x80 | (code & 0x3f));
    return 3;
  }
  to[0] = (char)(0xf0 | code >> 18);
  to[1] = (char)(0x80 | (code >> 12 & 0x3f));
  to[2] = (char)(0x80 | (code >> 6 & 0x3f));
  to[3] = (char)(0x80 | (code & 0x3f));
  return 4;
}

/* Reads the escape at `at` after its backslash and `u`. Returns its length with both, or 0. */
static int read_unicode(const char *at, char *to, int *size) {
  int32_t code = four_digits(at), second;
  if (code < 0 || (code & 0xfc00) == 0xdc00) return 0;
  if ((code & 0xfc00) != 0xd800) {
    *size = put_character((uint32_t)code, to);
    return 6;
  }
  if (at[4] != '\\' || at[5] != 'u' || ((second = four_digits(at + 6)) & ~0x3ff) != 0xdc00)
    return 0;
  *size = put_character(0x10000u + ((uint32_t)(code & 0x3ff) << 10 | (second & 0x3ff)), to);
  return 12;
}

/* Reads the escape at `at`, a backslash, and writes at most four bytes. Returns its length, or 0 if
   it is wrong. */
static int read_escape(const char *at, char *to, int *size) {
  *size = 1;
  switch (at[1]) {
    case '"': case '\\': case '/': *to = at[1]; return 2;
    case 'n': *to = '\n'; return 2;
    case 't': *to = '\t'; return 2;
    case 'r': *to = '\r'; return 2;
    case 'b': *to = '\b'; return 2;
    case 'f': *to = '\f'; return 2;
    case 'u': return read_unicode(at + 2, to, size);
    default: return 0;
  }
}

static int wrong_escape(struct baton_json_reader *r, const char *at) {
  return baton_json_fault(
      r, at[1] == 'u' ? "invalid unicode escape code" : "invalid escape code", at);
}

/* Counts the bytes of a string with escapes, from its first escape on, which is at `at`. Returns
   its closing quote, or NULL if something is wrong. */
static const char *count_bytes(struct baton_json_reader *r, const char *at, size_t *total) {
  const char *next = at + BATON_JSON_LONG_PIECE;
  for (;;) {
    const char *plain;
    char bytes[4];
    int size, length;
    if (l_unlikely(*at == '\0')) {
      baton_json_fault(r, "unexpected end of string", at);
      return NULL;
    }
    if (*at == '"') return at;
    length = read_escape(at, bytes, &size);
    if (l_unlikely(length == 0)) {
      wrong_escape(r, at);
      return NULL;
    }
    *total += (size_t)size;
    plain = at + length;
    at = end_of_plain(r, plain);
    *total += (size_t)(at - plain);
    stop_at(r, at, &next);
  }
}

/* Writes the string from `at` to its closing quote. */
static void fill(struct baton_json_reader *r, const char *at, const char *quote, char *to) {
  const char *next = at + BATON_JSON_LONG_PIECE;
  while (at < quote) {
    const char *plain_to = end_of_plain(r, at);
    int size = 0;
    memcpy(to, at, (size_t)(plain_to - at));
    to += plain_to - at;
    at = plain_to;
    if (at < quote) at += read_escape(at, to, &size);
    to += size;
    stop_at(r, at, &next);
  }
}

#define SHORT 1000 /* bytes of a string that is put together on the C stack */

/* Copies what is plain from `*at` on, which is at most SHORT bytes and 8 that do not count. */
static char *copy_plain(const struct baton_json_reader *r, const char **at, char *to, char *most) {
  const char *from = *at;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  while (r->end - from >= 8 && to <= most) {
    uint64_t word, hits;
    memcpy(&word, from, 8);
    memcpy(to, &word, 8);
    hits = ZEROS(word) | ZEROS(word ^ EACH('"')) | ZEROS(word ^ EACH('\\'));
    if (hits != 0) {
      *at = from + (__builtin_ctzll(hits) >> 3);
      return to + (__builtin_ctzll(hits) >> 3);
    }
    from += 8;
    to += 8;
  }
#endif
  while (to <= most && *from != '"' && *from != '\\' && *from != '\0') *to++ = *from++;
  *at = from;
  return to;
}

/* Reads a string with escapes if it is short. Returns -1 if it is not, and 0 if it is wrong. */
static int read_short_escaped(struct baton_json_reader *r, const char *begin) {
  char bytes[SHORT + 16], *to = bytes;
  const char *at = begin;
  int size, length;
  for (;;) {
    to = copy_plain(r, &at, to, bytes + SHORT);
    if (to > bytes + SHORT) return -1;
    if (*at != '\\') break;
    length = read_escape(at, to, &size);
    if (l_unlikely(length == 0)) return wrong_escape(r, at);
    at += length;
    to += size;
  }
  if (l_unlikely(*at == '\0')) return baton_json_fault(r, "unexpected end of string", at);
  setsvalue2s(r->L, r->L->top.p, luaS_newlstr(r->L, bytes, (size_t)(to - bytes)));
  r->L->top.p++;
  r->at = at + 1;
  return 1;
}

static int read_escaped(struct baton_json_reader *r, const char *begin, const char *escape) {
  lua_State *L = r->L;
  size_t total = (size_t)(escape - begin);
  const char *quote = count_bytes(r, escape, &total);
  TString *string;
  if (l_unlikely(quote == NULL)) return 0;
  string = luaS_createlngstrobj(L, total);
  setsvalue2s(L, L->top.p, string);
  L->top.p++;
  fill(r, begin, quote, getlngstr(string));
  r->at = quote + 1;
  return 1;
}

int baton_json_read_string(struct baton_json_reader *r) {
  const char *begin = r->at + 1, *end = end_of_plain(r, begin);
  TString *string;
  make_room(r->L);
  if (*end == '\\') {
    const int is_read = end - begin <= SHORT ? read_short_escaped(r, begin) : -1;
    return is_read >= 0 ? is_read : read_escaped(r, begin, end);
  }
  if (l_unlikely(*end == '\0')) return baton_json_fault(r, "unexpected end of string", end);
  string = luaS_newlstr(r->L, begin, (size_t)(end - begin));
  setsvalue2s(r->L, r->L->top.p, string);
  r->L->top.p++;
  r->at = end + 1;
  return 1;
}

/* }====================================================== */

/* {======================================================
** Numbers
** ======================================================= */

#define MOST_CHARACTERS 100000 /* of a number */
#define MOST_EXPONENT 100000   /* any larger one is infinite, or zero */
#define EXACT_POWERS 23        /* powers of ten that a double has exactly */
#define SURE_DIGITS 18         /* decimal digits that an integer always has */
#define MANTISSA_DIGITS 19     /* and 64 bits */

static int push_integer(struct baton_json_reader *r, lua_Integer number, const char *end) {
  setivalue(s2v(r->L->top.p), number);
  r->L->top.p++;
  r->at = end;
  return 1;
}

static int push_float(struct baton_json_reader *r, double number, int negative, const char *end) {
  setfltvalue(s2v(r->L->top.p), negative ? -number : number);
  r->L->top.p++;
  r->at = end;
  return 1;
}

static inline unsigned digit_at(const char *at) { return (unsigned)(unsigned char)*at - '0'; }

/* The C library's own conversion, whatever the program's locale is. */
static double convert(const char *text, char **end) {
  static locale_t plain; /* atomic. Relaxed suffices: another thread would make the same */
  locale_t used = __atomic_load_n(&plain, __ATOMIC_RELAXED);
  if (used == (locale_t)0) {
    used = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (used == (locale_t)0) return strtod(text, end);
    __atomic_store_n(&plain, used, __ATOMIC_RELAXED);
  }
  return strtod_l(text, end, used);
}

/* A number in parts. */
struct decimal {
  const char *digits; /* where it begins */
  const char *end;
  uint64_t mantissa;  /* as far as there are so few digits */
  int count;          /* of digits from the first one that is not zero */
  int exponent;       /* of ten */
  int is_integer;
};

static const char *take_digits(struct decimal *d, const char *at, const char *limit) {
  unsigned digit;
  while ((digit = digit_at(at)) <= 9 && at < limit) {
    if (d->count < MANTISSA_DIGITS) d->mantissa = d->mantissa * 10 + digit;
    if (d->count > 0 || digit > 0) d->count++;
    at++;
  }
  return at;
}

/* Takes a number apart. Returns 0 if there is none. */
static int take_apart(struct decimal *d, const char *at) {
  const char *limit = at + MOST_CHARACTERS, *point;
  int has_digits;
  memset(d, 0, sizeof *d);
  d->digits = at;
  d->is_integer = 1;
  at = take_digits(d, at, limit);
  has_digits = at > d->digits;
  if (*at == '.' && (has_digits || digit_at(at + 1) <= 9)) {
    d->is_integer = 0;
    point = ++at;
    at = take_digits(d, at, limit);
    d->exponent = -(int)(at - point);
    has_digits = 1;
  }
  if (has_digits && (*at | 32) == 'e') {
    const char *first = at + 1;
    const int negative = *first == '-';
    int exponent = 0;
    if (*first == '-' || *first == '+') first++;
    if (digit_at(first) <= 9) {
      for (at = first; digit_at(at) <= 9 && at < limit; at++)
        if (exponent < MOST_EXPONENT) exponent = exponent * 10 + (int)digit_at(at);
      d->exponent += negative ? -exponent : exponent;
    }
    d->is_integer = 0;
  }
  d->end = at;
  return has_digits && at < limit;
}

/* With 64 bits of a long double, the mantissa and more powers of ten are exact. So the result is
   right unless it lies in the middle between two doubles, or next to that. Returns 0 then. */
static int scale_in_64_bits(const struct decimal *d, double *number) {
#if LDBL_MANT_DIG == 64
  static const long double powers[] = {1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L, 1e8L, 1e9L,
      1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L,
      1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
  const int most = (int)(sizeof powers / sizeof powers[0]) - 1;
  long double scaled = (long double)d->mantissa;
  uint64_t bits;
  if (d->exponent > most || d->exponent < -most) return 0;
  scaled = d->exponent < 0 ? scaled / powers[-d->exponent] : scaled * powers[d->exponent];
  memcpy(&bits, &scaled, sizeof bits);
  *number = (double)scaled;
  return (bits & 0x7ff) < 0x3ff || (bits & 0x7ff) > 0x401;
#else
  (void)d;
  (void)number;
  return 0;
#endif
}

static int push_decimal(struct baton_json_reader *r, const struct decimal *d, int negative) {
  static const double powers[EXACT_POWERS] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
      1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  double number;
  if (d->count <= MANTISSA_DIGITS) {
    if (d->is_integer && d->mantissa <= (uint64_t)LUA_MAXINTEGER + (unsigned)negative)
      return push_integer(
          r, l_castU2S(negative ? 0u - d->mantissa : d->mantissa), d->end);
    /* both are exact, so the one operation rounds as it should */
    if (d->mantissa <= UINT64_C(1) << 53 && d->exponent > -EXACT_POWERS &&
        d->exponent < EXACT_POWERS)
      return push_float(r,
          d->exponent < 0 ? (double)d->mantissa / powers[-d->exponent]
                          : (double)d->mantissa * powers[d->exponent],
          negative, d->end);
    if (scale_in_64_bits(d, &number)) return push_float(r, number, negative, d->end);
  }
  return push_float(r, convert(d->digits, NULL), negative, d->end);
}

/* If the word is at `at`, whatever its case, returns where it ends. */
static const char *match(const char *at, const char *word) {
  for (; *word != '\0'; at++, word++)
    if ((*at | 32) != *word) return NULL;
  return at;
}

static int is_hexadecimal(const char *at) {
  const char c = *at | 32;
  return digit_at(at) <= 9 || (c >= 'a' && c <= 'f') || c == 'p' || *at == '.';
}

/* Infinities, NaN and hexadecimal numbers. Returns 0 if there is none. */
static int push_invalid(struct baton_json_reader *r, const char *at, int negative) {
  const char *end = match(at, "inf"), *whole;
  char *end_of_hex;
  double number;
  if (end != NULL) {
    whole = match(end, "inity");
    return push_float(r, HUGE_VAL, negative, whole != NULL ? whole : end);
  }
  if ((end = match(at, "nan")) != NULL) return push_float(r, NAN, negative, end);
  if (at[0] != '0' || (at[1] | 32) != 'x') return 0;
  end = at + 2;
  while (is_hexadecimal(end) && end - at < MOST_CHARACTERS) end++;
  if (end - at == MOST_CHARACTERS) return 0;
  number = convert(at, &end_of_hex);
  return end_of_hex - at > 2 && push_float(r, number, negative, end_of_hex);
}

/* Numbers with a sign, a point, an exponent, many digits, or what JSON does not have. */
static int read_any_number(struct baton_json_reader *r) {
  const int takes = r->settings->decode_invalid != BATON_JSON_REFUSES;
  const int negative = *r->at == '-';
  const char *at = r->at + (negative || *r->at == '+');
  struct decimal d;
  if (takes) {
    if (push_invalid(r, at, negative)) return 1;
  } else if (at[0] == '0' && (digit_at(at + 1) <= 9 || (at[1] | 32) == 'x')) {
    return baton_json_fault(r, "invalid number", r->at);
  }
  if (l_likely(take_apart(&d, at))) return push_decimal(r, &d, negative);
  return baton_json_fault(
      r, at > r->at || d.end > at ? "invalid number" : "invalid token", r->at);
}

static int read_number(struct baton_json_reader *r) {
  const int negative = *r->at == '-';
  const char *first = r->at + negative, *at = first;
  uint64_t number = 0;
  unsigned digit;
  while ((digit = digit_at(at)) <= 9 && at - first < SURE_DIGITS) {
    number = number * 10 + digit;
    at++;
  }
  if (l_unlikely(at == first || digit <= 9 || *at == '.' || (*at | 32) == 'e' ||
          (*first == '0' && at - first > 1) || (*at | 32) == 'x'))
    return read_any_number(r);
  return push_integer(r, l_castU2S(negative ? 0u - number : number), at);
}

/* }====================================================== */

static int push_literal(struct baton_json_reader *r, const char *word, size_t size) {
  TValue *value = s2v(r->L->top.p);
  if (l_unlikely(strncmp(r->at, word, size) != 0)) {
    if (*word == 'n' && r->settings->decode_invalid != BATON_JSON_REFUSES)
      return read_any_number(r); /* NaN */
    return baton_json_fault(r, "invalid token", r->at);
  }
  switch (*word) {
    case 't': setbtvalue(value); break;
    case 'f': setbfvalue(value); break;
    default: setpvalue(value, NULL); break;
  }
  r->L->top.p++;
  r->at += size;
  return 1;
}

int baton_json_read_scalar(struct baton_json_reader *r) {
  make_room(r->L);
  switch (*r->at) {
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7':
    case '8': case '9':
      return read_number(r);
    case 't': return push_literal(r, "true", 4);
    case 'f': return push_literal(r, "false", 5);
    case 'n': return push_literal(r, "null", 4);
    case '+': case 'i': case 'I': case 'N':
      if (r->settings->decode_invalid != BATON_JSON_REFUSES) return read_any_number(r);
      break;
    case '\0': case '[': case ']': case '{': case '}': case ',': case ':':
      return 0; /* its name comes later */
    default: break;
  }
  return baton_json_fault(r, "invalid token", r->at);
}
