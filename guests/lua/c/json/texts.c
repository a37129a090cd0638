/*
** Values to text: strings and numbers, and the memory of the text. The text is on the C stack as
** long as it is short, then in a userdata, so that nothing is left after an error or a kill.
*/
#include "json/inside.h"

#include "lstring.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* {======================================================
** The text
** ======================================================= */

void baton_json_make_room(struct baton_json_writer *w, size_t size) {
  lua_State *L = w->L;
  const size_t used = (size_t)(w->at - w->start), room = 2 * used + size;
  Udata *box = luaS_newudata(L, room, 0);
  char *start = getudatamem(box);
  memcpy(start, w->start, used);
  setuvalue(L, s2v(L->ci->func.p + w->box), box);
  w->start = start;
  w->at = start + used;
  w->end = start + room;
}

int baton_json_pause(struct baton_json_writer *w) {
  const size_t used = (size_t)(w->at - w->start);
  const lua_Unsigned most = (lua_Unsigned)w->settings->encode_max_size;
  if (l_unlikely(used > most)) return baton_json_refuse(w, NULL, "too large a text");
  baton_json_stop(w->L);
  w->steps = 0;
  w->stops++;
  w->stop = used + BATON_JSON_PIECE;
  if (w->stop > most) w->stop = (size_t)most + 1;
  return 1;
}

/* }====================================================== */

/* {======================================================
** Strings
** ======================================================= */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
/* Whether one of the eight bytes is zero, or less than `least`. Bytes from 128 on are not. */
#define ZEROS(word) (((word) - EACH(1)) & ~(word) & EACH(0x80))
#define LESS(word, least) (((word) - EACH(least)) & ~(word) & EACH(0x80))

#define LONGEST_ESCAPE 6

static inline int needs_escape(unsigned char c, int escapes_slash) {
  return c < 0x20 || c == '"' || c == '\\' || c == 0x7f || (c == '/' && escapes_slash);
}

static char *put_escape(char *to, unsigned char c) {
  static const char digits[] = "0123456789abcdef";
  static const char codes[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
  const char *code = c != 0 ? strchr(codes, c) : NULL;
  *to++ = '\\';
  if (code != NULL) {
    *to++ = letters[code - codes];
    return to;
  }
  memcpy(to, "u00", 3);
  to[3] = digits[c >> 4];
  to[4] = digits[c & 15];
  return to + 5;
}

/* Writes bytes of a string. There is room. */
static char *put_bytes(char *to, const char *at, const char *end, int escapes_slash) {
  const uint64_t slash = EACH(escapes_slash ? '/' : '"');
  while (end - at >= 8) {
    uint64_t word;
    const char *last = at + 8;
    memcpy(&word, at, 8);
    if (l_likely((LESS(word, 0x20) | ZEROS(word ^ EACH('"')) | ZEROS(word ^ EACH('\\')) |
            ZEROS(word ^ EACH(0x7f)) | ZEROS(word ^ slash)) == 0)) {
      memcpy(to, &word, 8);
      to += 8;
      at = last;
      continue;
    }
    for (; at < last; at++) {
      if (needs_escape((unsigned char)*at, escapes_slash))
        to = put_escape(to, (unsigned char)*at);
      else
        *to++ = *at;
    }
  }
  for (; at < end; at++) {
    if (l_unlikely(needs_escape((unsigned char)*at, escapes_slash)))
      to = put_escape(to, (unsigned char)*at);
    else
      *to++ = *at;
  }
  return to;
}

/* A long string is on the stack meanwhile: its table may lose it. */
static int write_long(struct baton_json_writer *w, TString *string) {
  lua_State *L = w->L;
  const char *at = getstr(string), *end = at + tsslen(string);
  if (L->ci->top.p - L->top.p < 2) baton_json_grow(L);
  setsvalue2s(L, L->top.p, string);
  L->top.p++;
  baton_json_reserve(w, 1);
  *w->at++ = '"';
  while (at < end) {
    const size_t size = end - at > BATON_JSON_PIECE ? BATON_JSON_PIECE : (size_t)(end - at);
    baton_json_reserve(w, LONGEST_ESCAPE * size);
    w->at = put_bytes(w->at, at, at + size, w->settings->escapes_slash);
    at += size;
    if ((size_t)(w->at - w->start) >= w->stop && !baton_json_pause(w)) return 0;
  }
  baton_json_reserve(w, 1);
  *w->at++ = '"';
  L->top.p--;
  return 1;
}

int baton_json_write_string(struct baton_json_writer *w, TString *string) {
  const size_t size = tsslen(string);
  const char *bytes = getstr(string);
  if (l_unlikely(size >= BATON_JSON_PIECE)) return write_long(w, string);
  baton_json_reserve(w, LONGEST_ESCAPE * size + 2);
  *w->at++ = '"';
  w->at = put_bytes(w->at, bytes, bytes + size, w->settings->escapes_slash);
  *w->at++ = '"';
  return 1;
}

/* }====================================================== */

/* {======================================================
** Numbers
** ======================================================= */

#define MOST_DIGITS 20
#define MOST_OF_FLOAT 40 /* bytes of a float's text */

/* Writes at least `least` digits. */
static char *put_digits(char *to, uint64_t number, int least) {
  char digits[MOST_DIGITS], *first = digits + sizeof digits;
  while (number > 0 || least > 0) {
    *--first = (char)('0' + number % 10);
    number /= 10;
    least--;
  }
  memcpy(to, first, (size_t)(digits + sizeof digits - first));
  return to + (digits + sizeof digits - first);
}

void baton_json_write_integer(struct baton_json_writer *w, lua_Integer number) {
  baton_json_reserve(w, MOST_DIGITS + 1);
  if (number < 0) *w->at++ = '-';
  w->at = put_digits(w->at, number < 0 ? 0u - (uint64_t)number : (uint64_t)number, 1);
}

/*
** The digits of a float, as "%.*g" finds them: those of the nearest decimal with so many digits.
**
** The number times a power of ten is computed in a long double, which has 64 bits at least. Both
** are exact there, so the product is wrong by half a unit of its last bit at most. Where that could
** matter, as the product is almost in the middle between two integers, the C library finds the
** digits.
*/
#define MOST_POWER 27 /* the largest power of ten that 64 bits have */

static const long double powers[MOST_POWER + 1] = {1e0L, 1e1L, 1e2L, 1e3L, 1e4L, 1e5L, 1e6L, 1e7L,
    1e8L, 1e9L, 1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L,
    1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

static long double scale(long double number, int power) {
  return power < 0 ? number / powers[-power] : number * powers[power];
}

/* Finds `precision` digits of a positive number, and the power of ten that the first one counts.
   Returns 0 if that is not sure. */
static uint64_t find_digits(double number, int precision, int *power) {
  long double scaled;
  uint64_t digits;
  int binary;
  frexp(number, &binary);
  *power = (int)floor((binary - 1) * 0.30102999566398120); /* of 2; perhaps one too small */
  if (precision - 1 - *power > MOST_POWER || precision - 1 - *power < -MOST_POWER + 1) return 0;
  scaled = scale(number, precision - 1 - *power);
  if (scaled >= powers[precision]) scaled = scale(number, precision - 1 - ++*power);
  digits = (uint64_t)(int64_t)scaled;
  scaled -= (long double)(int64_t)digits;
  if (fabsl(scaled - 0.5L) <= (long double)digits * 0x1p-62L) return 0;
  if (scaled > 0.5L) digits++;
  if (digits < (uint64_t)powers[precision]) return digits;
  ++*power;
  return digits / 10;
}

/* Writes a positive number as "%.*g" does, or returns NULL. */
static char *put_positive(char *to, double number, int precision) {
  char text[MOST_DIGITS];
  int power, count = precision, exponent;
  uint64_t digits = LDBL_MANT_DIG >= 64 ? find_digits(number, precision, &power) : 0;
  if (digits == 0) return NULL;
  for (; digits % 10 == 0; digits /= 10) count--;
  put_digits(text, digits, count);
  if (power < -4 || power >= precision) {
    *to++ = text[0];
    if (count > 1) *to++ = '.';
    memcpy(to, text + 1, (size_t)count - 1);
    to += count - 1;
    exponent = power < 0 ? -power : power;
    *to++ = 'e';
    *to++ = power < 0 ? '-' : '+';
    return put_digits(to, (uint64_t)exponent, 2);
  }
  if (power < 0) {
    memcpy(to, "0.0000", 6);
    to += 1 - power;
    memcpy(to, text, (size_t)count);
    return to + count;
  }
  if (count <= power + 1) {
    memset(to, '0', (size_t)power + 1);
    memcpy(to, text, (size_t)count);
    return to + power + 1;
  }
  memcpy(to, text, (size_t)power + 1);
  to += power + 1;
  *to++ = '.';
  memcpy(to, text + power + 1, (size_t)(count - power - 1));
  return to + (count - power - 1);
}

static char *put_float(char *to, double number, int precision) {
  if (signbit(number)) {
    *to++ = '-';
    number = -number;
  }
  if (number > 0) return put_positive(to, number, precision);
  *to++ = '0';
  return to;
}

/* Has a point in place of the decimal point of the program's locale. Returns the text's end. */
static char *without_locale(char *text, char *end) {
  char *to = text;
  for (; text < end; text++) {
    if (strchr("0123456789+-e", *text) != NULL)
      *to++ = *text;
    else if (to[-1] != '.')
      *to++ = '.';
  }
  return to;
}

static int write_invalid(struct baton_json_writer *w, double number) {
  const char *text = number != number ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  switch (w->settings->encode_invalid) {
    case BATON_JSON_REFUSES:
      return baton_json_refuse(w, "number", "must not be NaN or Infinity");
    case BATON_JSON_WRITES_NULL: text = "null"; break;
    default: break;
  }
  memcpy(w->at, text, strlen(text));
  w->at += strlen(text);
  return 1;
}

int baton_json_write_float(struct baton_json_writer *w, lua_Number number) {
  const int precision = w->settings->precision;
  char *end;
  baton_json_reserve(w, MOST_OF_FLOAT);
  if (l_unlikely(!isfinite(number))) return write_invalid(w, number);
  end = put_float(w->at, number, precision);
  if (end == NULL) {
    end = w->at + snprintf(w->at, MOST_OF_FLOAT, "%.*g", precision, number);
    end = without_locale(w->at, end);
  }
  w->at = end;
  return 1;
}

/* }====================================================== */
