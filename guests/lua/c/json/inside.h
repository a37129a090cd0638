/*
** What the files of json/ share.
**
**   module.c     the functions of the module, as lua-cjson has them
**   stops.c      stops
**   settings.c   its settings, which each module table made by `new` has of its own
**   decode.c     text to values: containers, and what is wrong
**   scalars.c    text to values: strings, numbers and literals
**   encode.c     values to text: containers, and what is wrong
**   texts.c      values to text: strings and numbers, and the text's memory
**
** Both directions work inside the VM, on Lua's own structures, and hold nothing but Lua's values:
** an error or a kill in the middle leaves nothing behind. Each few kilobytes they come to a *stop*
** (baton_json_stop), where the collector takes its step, others may run, and a kill takes effect.
** All values are on the process's stack then. Addresses in that stack are invalid after it.
*/
#ifndef BATON_JSON_INSIDE_H
#define BATON_JSON_INSIDE_H

#include "seam/internals.h"

#include <stddef.h>
#include <stdint.h>

#define BATON_JSON_PIECE 4096       /* bytes of text between two stops */
#define BATON_JSON_LONG_PIECE 65536 /* of one string, or of white space */
#define BATON_JSON_INDENT 64        /* bytes of an indentation at most */

/* What is done with numbers that JSON does not have. */
enum baton_json_invalid { BATON_JSON_REFUSES, BATON_JSON_TAKES, BATON_JSON_WRITES_NULL };

struct baton_json_settings {
  lua_Integer encode_max_size, decode_max_size; /* bytes */
  int encode_max_depth, decode_max_depth;
  int sparse_ratio, sparse_safe;
  int precision;
  int indent_size;
  unsigned char is_safe;
  unsigned char encode_invalid, decode_invalid; /* enum baton_json_invalid */
  unsigned char sparse_converts, keeps_buffer, empty_as_object, marks_arrays, escapes_slash,
      skips_unsupported, allows_comments;
  char indent[BATON_JSON_INDENT];
};

/* Upvalues of the module's functions. */
enum { BATON_JSON_SETTINGS = 1, BATON_JSON_ARRAY_MT, BATON_JSON_EMPTY_ARRAY_MT };

/* stops.c */
/* Its address stands for an empty array. */
extern __attribute__((visibility("hidden"))) const char baton_json_empty_array;
/* A stop. Inside the VM before and after. */
void baton_json_stop(lua_State *L);
/* Makes room for some values on the stack, or raises an error. Inside the VM. */
void baton_json_grow(lua_State *L);

/* settings.c */
void baton_json_begin_settings(struct baton_json_settings *settings);
/* Adds the functions that change settings to the table on the top of the stack. Upvalues as above
   are below it, at `upvalues`. */
void baton_json_add_settings(lua_State *L, int upvalues);

/* {======================================================
** Text to values
** ======================================================= */

struct baton_json_reader {
  lua_State *L;
  const struct baton_json_settings *settings;
  Table *array_mt;
  const char *text, *at, *end; /* a zero byte is at `end` */
  const char *stop;            /* where the next stop is due */
  /* what was found in place of a value, and where; NULL: nothing is wrong */
  const char *found, *found_at;
  /* the innermost container: its place, from the function's; and its kind */
  ptrdiff_t base;
  int kind, depth;
};

/* decode.c */
int baton_json_decode(lua_State *L);

/* scalars.c. All inside the VM. The first two push a value, and return 0 if something is wrong. */
int baton_json_read_string(struct baton_json_reader *r);
int baton_json_read_scalar(struct baton_json_reader *r);
/* Skips white space and comments. */
void baton_json_skip_long(struct baton_json_reader *r);

static inline int baton_json_fault(
    struct baton_json_reader *r, const char *found, const char *at) {
  if (r->found == NULL) { /* the first one counts */
    r->found = found;
    r->found_at = at;
  }
  return 0;
}

/* }====================================================== */

/* {======================================================
** Values to text
** ======================================================= */

#define BATON_JSON_LOCAL 1024

struct baton_json_writer {
  lua_State *L;
  const struct baton_json_settings *settings;
  const Table *array_mt, *empty_array_mt;
  char *start, *at, *end;
  size_t stop;    /* at this size of the text, the next stop is due, or it is too large */
  unsigned steps, stops; /* steps since the last stop */
  int box;        /* the index of what has the text, once it is longer than `local` */
  /* the innermost container: its place, from the function's; and its kind */
  ptrdiff_t base;
  int kind, depth;
  int is_first; /* no value of it was written yet */
  /* why it cannot be written: a type and a reason, or only a reason; NULL: it can be */
  const char *type, *why;
  char local[BATON_JSON_LOCAL];
};

/* encode.c */
int baton_json_encode(lua_State *L);

/* texts.c. All inside the VM. */
void baton_json_make_room(struct baton_json_writer *w, size_t size);
/* Has room for so many bytes more. */
static inline void baton_json_reserve(struct baton_json_writer *w, size_t size) {
  if (l_unlikely((size_t)(w->end - w->at) < size)) baton_json_make_room(w, size);
}
/* A stop, if the text is not too large. Otherwise returns 0. */
int baton_json_pause(struct baton_json_writer *w);
/* The rest returns 0 if the value is refused. */
int baton_json_write_string(struct baton_json_writer *w, TString *string);
void baton_json_write_integer(struct baton_json_writer *w, lua_Integer number);
int baton_json_write_float(struct baton_json_writer *w, lua_Number number);

static inline int baton_json_refuse(
    struct baton_json_writer *w, const char *type, const char *why) {
  w->type = type;
  w->why = why;
  return 0;
}

/* }====================================================== */

#endif
