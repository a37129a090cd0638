/*
** Frozen values: tables in an image outside of all heaps, which is read in place.
**
** An image is one piece of memory with tables, strings, and references to other images. It never
** changes, so any thread may read it. Positions in it are offsets in bytes.
**
**   image    header, references, and tables and strings in the order of their numbers
**   table    header, cells of the array part, pairs of cells of the hash part
**   string   header, bytes, zeros up to the next 8 bytes
**
** The hash part has a power of 2 of pairs, at least a quarter of them empty. A key is searched from
** its hash upwards. The hash of a string is Lua's, with the seed of the VM that froze the value.
** Short strings of a VM with that seed know their hash.
*/
#ifndef BATON_FROZEN_H
#define BATON_FROZEN_H

#include "copying/block.h"
#include "state/checks.h"

/* A value, with a tag of Lua's. */
struct baton_cell {
  union {
    lua_Integer integer; /* also the number of a closure of Lua's libraries */
    lua_Number number;
    lua_CFunction function;
    uint64_t offset; /* of a string or a table of this image */
    const struct baton_frozen_table *table; /* of another image */
  } as;
  uint8_t tag; /* LUA_VUSERDATA: a table of another image; LUA_VCCL: a closure */
  uint32_t hash; /* of a key */
};

struct baton_frozen_pair {
  struct baton_cell key, value;
};

struct baton_frozen_string {
  uint64_t length;
  uint32_t hash; /* 0 if it is long and no key */
  char bytes[];
};

struct baton_frozen_table {
  uint64_t offset; /* from the beginning of the image */
  uint64_t class_name; /* the offset of a string; 0: it has none */
  uint64_t length; /* a border, as Lua's operator # gives it */
  uint32_t slots;
  uint32_t pairs; /* with the empty ones; 0 or a power of 2 */
  struct baton_cell array[];
};

struct baton_image {
  /*
  ** | operation | ordering | why |
  ** |---|---|---|
  ** | baton_image_hold | relaxed | the caller has a reference, so it is not 0 |
  ** | baton_image_release | release | pairs with the fence below |
  ** | the same, on 0 | acquire fence | reads of other threads are over before it is freed |
  */
  uint64_t references;
  uint64_t size;
  struct baton_image *next; /* in a list of images to be freed */
  uint32_t seed;
  uint32_t others; /* references to other images */
  uint64_t root;   /* the offset of the table that was frozen */
  const struct baton_frozen_table *other[];
};

static inline const struct baton_frozen_string *baton_string_at(
    const struct baton_image *image, uint64_t offset) {
  return (const struct baton_frozen_string *)(const void *)((const char *)image + offset);
}

static inline const struct baton_frozen_table *baton_table_at(
    const struct baton_image *image, uint64_t offset) {
  return (const struct baton_frozen_table *)(const void *)((const char *)image + offset);
}

static inline const struct baton_image *baton_image_of(const struct baton_frozen_table *table) {
  return (const struct baton_image *)(const void *)((const char *)table - table->offset);
}

static inline const struct baton_frozen_pair *baton_pairs_of(
    const struct baton_frozen_table *table) {
  return (const struct baton_frozen_pair *)(const void *)(table->array + table->slots);
}

/* image.c. Makes an image of a block that was copied to be frozen, and takes over its references.
   NULL: no memory. Outside the VM. */
struct baton_image *baton_image_make(struct baton_block *block, uint32_t seed);
void baton_image_hold(const struct baton_image *image);
/* By any thread. */
void baton_image_release(const struct baton_image *image);
/* The value of a key of which `hash` is known. NULL: there is none. A string is compared by `bytes`
   and `length`, other keys by their cells. */
const struct baton_cell *baton_image_find(const struct baton_frozen_table *table,
    const struct baton_cell *key, const char *bytes, size_t length);
/* The hash of a key that is no string. */
uint32_t baton_image_hash(const struct baton_cell *key);
/* Pushes a copy of a table, with all tables in it, as plain tables. Outside the VM. */
void baton_image_thaw(lua_State *L, const struct baton_frozen_table *table);

/*
** A userdata with a VM's reference to an image. The views of the image keep it alive. Finalizers of
** the program that the same collection calls may still read the image, so its own gives nothing
** back. A program that keeps such a value for later has a view without an image.
**
** | state | next | when |
** |---|---|---|
** | HOLDS | HOLDS_DEAD | the collector calls its finalizer (collect_holder) |
** | HOLDS_DEAD | HOLDS_NOTHING | all finalizers have run (give_back_dead), or it is called again |
** | any | HOLDS_NOTHING | the VM ends (collect_guard) |
*/
struct baton_holder {
  const struct baton_image *image;
  struct baton_holder *next, **link; /* in the list of the VM's dead ones, or of the others */
  enum { BATON_HOLDS, BATON_HOLDS_DEAD, BATON_HOLDS_NOTHING } state;
};

/* The userdata by which a program reads a table of an image. */
struct baton_frozen_heap;
struct baton_view {
  const void *seal; /* must be first */
  const struct baton_frozen_table *table;
  const struct baton_image *image;
  const struct baton_holder *holder;
  struct baton_frozen_heap *heap; /* what the VM needs to read images */
};

/* The view that a value is, or NULL. It is none if its image is gone. Inside the VM. */
static inline const struct baton_view *baton_view_of(const TValue *value) {
  const struct baton_view *view;
  if (!ttisfulluserdata(value) || uvalue(value)->len != sizeof *view) return NULL;
  view = (const struct baton_view *)(const void *)getudatamem(uvalue(value));
  if (view->seal != baton_inline_seal(BATON_SEALED_FROZEN)) return NULL;
  return view->holder->state != BATON_HOLDS_NOTHING ? view : NULL;
}

/* Objects that were made of parts of images, found by the addresses of these parts. An entry is
   valid until the collector works: `collection` is the VM's count of its steps. */
#define BATON_CACHED 256
struct baton_cached {
  const void *part;
  GCObject *object;
  uint64_t collection;
};

/* Fields that were read, found by the addresses of a table and of a short string. Like the objects
   above, they are valid until the collector works: no string is freed before. */
#define BATON_FIELDS 256
struct baton_field {
  const struct baton_frozen_table *table;
  const TString *key;
  uint64_t collection;
  TValue value;
};

struct baton_guard;
/* What a VM needs to read images. */
struct baton_frozen_heap {
  const uint64_t *collections; /* NULL: a state without processes; nothing is cached */
  const Table *metatable;      /* of views; a program can replace it by the library debug */
  struct baton_guard *guard;
  struct baton_cached cache[BATON_CACHED];
  struct baton_field fields[BATON_FIELDS];
};

/* reading.c */
/* Notes the object on the top of the stack, made of a part of an image. Outside the VM. */
void baton_frozen_note(lua_State *L, struct baton_frozen_heap *heap, const void *part);
/* Stores the value of a cell. Returns 0 if it has to be made first. */
int baton_frozen_give(const global_State *g, const struct baton_view *view,
    const struct baton_cell *cell, TValue *to);
/* The value of any key, or NULL. */
const struct baton_cell *baton_frozen_find(
    lua_State *L, const struct baton_view *view, const TValue *key);
/* The functions of `struct baton_index_sealed`. */
int baton_frozen_get(lua_State *L, const Udata *object, const TValue *key, TValue *to);
int baton_frozen_length(const Udata *object, TValue *to);

/* frozen.c */
extern const struct baton_sendable baton_frozen_kind;

#endif
