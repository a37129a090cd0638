/*
** The private header of heap/: the records of a snapshot, and what writes them.
**
** A snapshot is a stream of bytes. `runtime/observe/src/heap/stream.rs` reads it. The stream has
** numbers, addresses and texts:
**
**   number    unsigned LEB128; a signed one is zigzag-encoded first
**   address   a signed number: the difference to the last address in the stream, divided by 8
**   text      its length, a number, and its bytes
**
** Each record begins with a letter:
**
**   B  the version of the records and the bytes of the heap, numbers
**   O  an object: its address, its kind and its bytes, numbers, and its name, a text.
**      Its references follow
**   T  the address of an object, and its name in place of the one that its own record has
**   X  a reference of another object: its address, a text, and the target's address
**   Z  the end: the number of dead objects, and their bytes
**
** A reference is a letter, what it is called, and the target's address. The letters in capitals are
** for references that do not keep the target alive:
**
**   p P  a field; the name is a string, given by its address
**   e E  an element of a table; its key is an integer, a signed number
**   i I  a part that programs cannot name; a text
**   n    a field; the name is a text
**   c    a variable; a text
**   h    nothing
*/
#ifndef BATON_HEAP_RECORDS_H
#define BATON_HEAP_RECORDS_H

#include "seam/internals.h"

#define BATON_HEAP_VERSION 1

/* The kinds of objects. `stream.rs` has the same numbers. */
enum baton_heap_kind {
  BATON_HEAP_GROUP, /* no object: a name for a group of references */
  BATON_HEAP_STRING,
  BATON_HEAP_TABLE,
  BATON_HEAP_LUA_FUNCTION,
  BATON_HEAP_C_FUNCTION,
  BATON_HEAP_USERDATA,
  BATON_HEAP_THREAD,
  BATON_HEAP_PROTOTYPE,
  BATON_HEAP_VARIABLE, /* of several functions: an upvalue */
  BATON_HEAP_INTERNAL
};

/* The addresses of groups. No object has them. */
enum baton_heap_group {
  BATON_HEAP_ROOT = 8,
  BATON_HEAP_PROCESSES = 16,
  BATON_HEAP_FIXED = 24,
  BATON_HEAP_TO_FINALIZE = 32,
  BATON_HEAP_STRING_TABLE = 40
};

/* The maximal number of bytes of a string or a name that are written. */
#define BATON_HEAP_TEXT 100

/* {======================================================
** Between the files of this folder
** ======================================================= */

/* records.c. After an error, all but the last function do nothing. */
void baton_heap_start(int descriptor, uint64_t bytes);
/* Returns 0, or the errno of a write. */
int baton_heap_end(uint64_t dead, uint64_t dead_bytes);
int baton_heap_has_failed(void);
void baton_heap_object(
    enum baton_heap_kind kind, uintptr_t address, size_t bytes, const char *name, size_t length);
void baton_heap_rename(const void *object, const char *name, size_t length);
void baton_heap_reference_of(const void *from, const char *name, const void *to);
/* References of the last object. */
void baton_heap_field(const TString *name, const void *to, int is_weak);
void baton_heap_element(lua_Integer key, const void *to, int is_weak);
void baton_heap_part(const char *name, const void *to, int is_weak);
void baton_heap_named(const char *name, const void *to);
void baton_heap_variable(const char *name, const void *to);
void baton_heap_hidden(const void *to);

/* tables.c */
/* The size of a table, and its references. */
size_t baton_heap_size_of_table(const Table *t);
void baton_heap_write_table(const global_State *g, Table *t);

/* threads.c: the same of a thread */
size_t baton_heap_size_of_thread(const lua_State *L);
void baton_heap_write_thread(lua_State *L);

/* objects.c */
/* Called first: finds what names objects. */
void baton_heap_prepare(const global_State *g);
/* Writes an object of any type. */
void baton_heap_write_object(const global_State *g, GCObject *object);
/* The size of an object, as Lua accounts for it. */
size_t baton_heap_size_of(const GCObject *object);

/* }====================================================== */

#endif
