/*
** The form of a block, and what the files that write and read it share.
**
** A block is one row of bytes: the values that are sent, and then the contents of the objects that
** they refer to. An object is a string, a table, a function, its code (a prototype), a variable
** that functions share (an upvalue) or a userdata. Objects are numbered from 0 in the order in
** which the writer meets them. At the first place an object is there as new; at all others, as its
** number. The contents of the objects follow in the order of the numbers, so that neither side
** recurses.
**
**   block    value* contents*
**   contents of a table      slots:u32 pairs:u32 value{slots} (key:value value){pairs}
**            of one with a shape   see contents.c
**            of a function   code:value variable:value{count}
**            of a variable   value
**            of code         see contents.c
**            of a string, a userdata: none
*/
#ifndef BATON_BLOCK_H
#define BATON_BLOCK_H

#include "seam/internals.h"
#include "copying/copying.h"

#include <string.h>

/* The first byte of a value, and what follows it. */
enum {
  BATON_NIL,
  BATON_FALSE,
  BATON_TRUE,
  BATON_INTEGER,      /* 8 bytes */
  BATON_FLOAT,        /* 8 bytes */
  BATON_SEEN,         /* the number of an object, 4 bytes */
  BATON_SHORT_STRING, /* new: length, 1 byte; bytes */
  BATON_LONG_STRING,  /* new: length, 8 bytes; bytes */
  BATON_TABLE,        /* new */
  BATON_INSTANCE,     /* new: a table with a class; its name, which is a string */
  BATON_FUNCTION,     /* new: the number of its variables, 1 byte */
  BATON_CODE,         /* new */
  BATON_VARIABLE,     /* new */
  BATON_USERDATA,     /* new: it is the next of the block's references */
  BATON_GLOBALS,      /* the reader's table of globals */
  BATON_C_FUNCTION,   /* a function of Lua's libraries, which is at the same address in all VMs */
  BATON_CLOSURE,      /* such a function that each VM has for itself; its number, 1 byte */
  BATON_NULL          /* the light userdata NULL, which stands for null in JSON and databases. Not
                         in what is frozen */
};

/* An object outside of all heaps that the block refers to. */
struct baton_reference {
  const struct baton_sendable *kind;
  void *object;
};

struct baton_block {
  struct baton_block *next; /* of a spare. First, as a shelf needs it */
  size_t size; /* bytes of the row */
  size_t room;
  uint32_t values;     /* how many were sent */
  uint32_t objects;    /* how many there are */
  uint32_t references; /* how many of them are userdata */
  uint32_t given;      /* of the references: the first ones, which a reader has taken over */
  unsigned char shelf; /* where it returns to as a spare, counted from 1; 0: it is freed */
  struct baton_reference *held;
  unsigned char row[];
};

/* An object that the writer has met. */
struct baton_met {
  GCObject *object;
  uint32_t parent; /* the number of the object where it was met first */
};
#define BATON_NO_PARENT UINT32_MAX

/* How a copy failed. */
enum baton_copy_status { BATON_COPIED, BATON_REFUSED, BATON_NO_MEMORY };

enum { BATON_FEW_OBJECTS = 64, BATON_FEW_PLACES = 2 * BATON_FEW_OBJECTS };

/* A walk over values. Objects and the places in their hash table lie on the C stack as long as they
   are few. */
struct baton_writer {
  lua_State *L;
  struct baton_lua_vm *vm;   /* whose spares are used; set by baton_block_begin */
  struct baton_block *block; /* `size` is set at the end */
  unsigned char *at, *end;   /* where in the row the next byte goes, and where the row ends */
  struct baton_met *objects;
  uint32_t *places; /* numbers, counted from 1; 0: empty */
  uint32_t count, mask; /* a mask of 0: there is no hash table yet */
  uint64_t walk; /* its number among those of the VM with shapes; 0: it has met none */
  const Table *globals;
  Table *classes;   /* NULL: not looked up yet */
  TValue refused;   /* the value that cannot be sent, */
  uint32_t in;      /* in the object of this number */
  const char *why;  /* NULL: its type says it */
  int freezes;      /* the values become a frozen value, so functions in Lua are refused */
  const TValue *first; /* the values that are sent, on the stack */
  int values;
  struct baton_met few_objects[BATON_FEW_OBJECTS];
  uint32_t few_places[BATON_FEW_PLACES];
};

/* {======================================================
** block.c
** ======================================================= */

/* Makes room for `size` more bytes. Returns 0 if there is no memory. */
int baton_block_grow(struct baton_writer *w, size_t size);
/* Begins a block, which has room for a small message. Returns 0 if there is no memory. Inside the
   VM, which may be NULL: a heap without processes. */
int baton_block_begin(struct baton_writer *w, struct baton_lua_vm *vm);
/* Whether Lua may have more memory. Without a reserve for the Rust half it may not. */
int baton_block_may_allocate(void);
/* Collects garbage before another attempt. Finalizers may run and wait. Returns a status of Lua's;
   an error is on the top of the stack. Outside the VM. */
int baton_copy_collect(lua_State *L);
/* Raises Lua's own error. Outside the VM. */
l_noret baton_copy_raise_memory_error(lua_State *L);
const struct baton_sendable *baton_copy_kind_of(lua_State *L, int index);

/* A block for a small message, without contents; NULL if malloc has to make one, which
   baton_spare_mark then may note. Inside the VM. */
struct baton_block *baton_spare_take(struct baton_lua_vm *vm);
/* Notes that a new block becomes a spare, if there are few of them. Inside the VM. */
void baton_spare_mark(struct baton_lua_vm *vm, struct baton_block *block);

/*
** Shelves for spares: guests/lua/src/spares.rs. By any thread.
*/
#define BATON_SHELVES 64u
/* Whether one more block may return to the shelf. It is counted then. */
int baton_shelf_claim(unsigned shelf);
/* So many blocks of the shelf will not return. */
void baton_shelf_leave(unsigned shelf, uint32_t count);
void baton_shelf_put(unsigned shelf, struct baton_block *block);
/* All blocks that are there; they are the caller's. */
struct baton_block *baton_shelf_take(unsigned shelf);

static inline int baton_reserve(struct baton_writer *w, size_t size) {
  return l_likely((size_t)(w->end - w->at) >= size) || baton_block_grow(w, size);
}

/* These need room. */
static inline void baton_put_u32(struct baton_writer *w, uint32_t value) {
  memcpy(w->at, &value, sizeof value);
  w->at += sizeof value;
}

static inline void baton_put(struct baton_writer *w, const void *bytes, size_t size) {
  memcpy(w->at, bytes, size);
  w->at += size;
}

/* }====================================================== */

/* {======================================================
** block.c: the objects that a writer has met
** ======================================================= */

void baton_met_begin(struct baton_writer *w);
void baton_met_end(struct baton_writer *w);
/* The number of an object. If it is new, `is_new` becomes 1, and it gets the next one. Returns
   BATON_NO_PARENT if there is no memory. */
uint32_t baton_meet(struct baton_writer *w, GCObject *object, uint32_t parent, int *is_new);

/* }====================================================== */

/* {======================================================
** known.c: what both sides know. All but the first three inside the VM.
** ======================================================= */

/* vm.class */
int baton_copy_class(lua_State *L);
/* Makes the table of classes, and notes the functions of Lua's libraries, when these are open. */
void baton_copy_note_known(lua_State *L);
/* Pushes the metatable of a class, or nil. */
void baton_copy_push_class(lua_State *L, const char *name, size_t length);

/* The table of classes: metatables by their names, and names by their metatables. */
Table *baton_copy_classes(lua_State *L);
/* Whether it is a C function of Lua's libraries with no state of its own. */
int baton_copy_is_library_function(lua_CFunction function);
/* The number of a function of Lua's libraries that each VM has for itself, from 1 to 255; 0 if it
   is none of them. The functions have the same numbers in all VMs. */
int baton_copy_number_of(lua_State *L, const TValue *function);
/* The function of that number in the VM of `g`, or an empty value. */
const TValue *baton_copy_function_of(const global_State *g, lua_Integer number);

/* }====================================================== */

/* path.c. Writes why the copy was refused: a message that begins with `verb`. Inside the VM. */
#define BATON_REFUSAL 1024
void baton_copy_explain(
    struct baton_writer *w, const char *verb, const char *name, char text[BATON_REFUSAL]);

/* out.c. As baton_copy_out, with one value. What cannot be frozen is refused. */
struct baton_block *baton_copy_to_freeze(lua_State *L, int index);

/* {======================================================
** contents.c: the contents of functions and their code
** ======================================================= */

struct baton_reader;
/* Writes a value that was met in the object of the number `parent` (out.c). */
typedef enum baton_copy_status (*baton_put_value)(
    struct baton_writer *w, const TValue *value, uint32_t parent);
enum baton_copy_status baton_put_function(
    struct baton_writer *w, const LClosure *function, uint32_t number, baton_put_value put);
enum baton_copy_status baton_put_variable(
    struct baton_writer *w, const UpVal *variable, uint32_t number, baton_put_value put);
enum baton_copy_status baton_put_code(
    struct baton_writer *w, const Proto *code, uint32_t number, baton_put_value put);

/* A table has a shape if this is in the number of its pairs. */
#define BATON_SHAPED 0x80000000u

/* A walk over a block. The collector does not run meanwhile, so nothing needs to be protected from
   it, and no object that the walk has made is black. */
struct baton_reader {
  lua_State *L;
  struct baton_lua_vm *vm; /* NULL: a heap without processes */
  struct baton_block *block;
  const unsigned char *at;
  GCObject **objects;
  uint32_t count;
  uint32_t references; /* how many of them were met */
  Table *classes;      /* NULL: not looked up yet */
  Table *userdata;     /* what was made of the references; NULL: there are none */
  TString *unknown; /* the class that this VM does not know */
  StkId to;            /* where on the stack the values go */
};

/* Reads a value (in.c). */
typedef void (*baton_get_value)(struct baton_reader *r, TValue *value);
void baton_get_function(struct baton_reader *r, LClosure *function, baton_get_value get);
void baton_get_code(struct baton_reader *r, Proto *code, baton_get_value get);

/* {======================================================
** contents.c: tables with the same names of fields. Inside the VM.
** ======================================================= */

struct baton_written_shape;
/* The shape of a table, if it has one and that is known. It is the VM's, until the next call. */
struct baton_written_shape *baton_shape_to_write(struct baton_writer *w, const Table *table);
/* Writes the number of pairs and the shape. Returns 0 if there is no memory. */
int baton_put_shape(struct baton_writer *w, struct baton_written_shape *shape);
/* Reads the contents of a table with a shape, behind the number of pairs. */
void baton_get_shaped(struct baton_reader *r, Table *table, uint32_t slots, uint32_t count,
    baton_get_value get);

/* }====================================================== */

static inline uint32_t baton_get_u32(struct baton_reader *r) {
  uint32_t value;
  memcpy(&value, r->at, sizeof value);
  r->at += sizeof value;
  return value;
}

static inline void baton_get(struct baton_reader *r, void *bytes, size_t size) {
  memcpy(bytes, r->at, size);
  r->at += size;
}

/* }====================================================== */

#endif
