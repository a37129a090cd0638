/*
** Values of C as Lua holds them: their records, and what is asked of the Rust half (src/ffi).
**
** A value of C that Lua holds is a *cdata*: a full userdata with its type, and the address of its
** bytes. These follow in the userdata, or belong to somebody else (a member of a structure, an
** element of an array); then the owner is kept alive by the user value. A pointer is a cdata whose
** bytes are the address. Functions of C are functions of Lua.
**
**   types.c      types as values, and by their texts
**   cdata.c      cdata: making; sizes
**   functions.c  functions of C as values
**   convert.c    values of Lua as bytes of C, and back
**   number.c     arithmetic, comparison, text
**   indexing.c   indexing, calling and ending cdata
**
** Outside the VM: everything, but what takes a state of the Rust half (`vm->state`); those calls
** stand between baton_enter and baton_leave, and raise nothing.
*/
#ifndef BATON_VALUES_H
#define BATON_VALUES_H

#include "seam/internals.h"
#include "state/state.h"
#include "direct.h"

#include <stdlib.h>

enum ffi_kind {
  FFI_VOID,
  FFI_BOOL,
  FFI_INTEGER,
  FFI_FLOATING,
  FFI_WIDE, /* numbers that Lua has no like of: carried around, and complex ones have parts */
  FFI_POINTER,
  FFI_ARRAY,
  FFI_RECORD,
  FFI_FUNCTION
};

enum {
  FFI_IS_VARIABLE = 1,
  FFI_IS_CHAR = 2,
  FFI_IS_ENUM = 4,
  FFI_IS_UNION = 8,
  FFI_IS_VARIADIC = 16,
  FFI_IS_COMPLEX = 32,
  FFI_IS_FLEXIBLE = 64, /* a structure that ends in an array without a length */
  /* a pointer that is used like what it leads to; no cdata is of such a type */
  FFI_IS_REFERENCE = 128
};

/* `Descriptor` of src/ffi/descriptor.rs. */
struct ffi_type {
  uint8_t kind;
  uint8_t flags;
  uint8_t is_signed;
  uint8_t is_const;
  uint32_t align;
  int64_t size; /* negative: not known; baton_ffi_size raises then */
  uint32_t id;
  int metatable; /* of the plain type: reference in the registry; 0: none */
  const struct ffi_type *element;
  int64_t length; /* -1: not said; -2: said when it is made */
  const struct ffi_type *const *parameters;
  uint64_t count;
  const struct ffi_type *plain;
  const char *name;
};

/* Whether objects of the type may not be written to; of an array, its elements say so. */
static inline int baton_ffi_is_constant(const struct ffi_type *type) {
  while (type->kind == FFI_ARRAY) type = type->element;
  return type->is_const;
}

struct ffi_field {
  const struct ffi_type *type;
  uint64_t offset;
  uint8_t first, width; /* of a bit-field; width 0: none */
};

/* A member that was looked up before. Its name is kept, so no other string has its address. */
struct ffi_known_member {
  const struct ffi_type *type; /* NULL: nothing is here yet */
  const TString *name;
  struct ffi_field field;
};
#define FFI_KNOWN_MEMBERS 128

struct ffi_argument {
  const struct ffi_type *type;
  const char *name;
  size_t size;
  int64_t number;
};

struct ffi_symbol {
  const struct ffi_type *type; /* NULL: a constant */
  char *link_name;
  int64_t value;
};

struct ffi_prepared {
  int kind, answer;
  size_t count, area, result_size;
  /* more follows in Rust */
};

/* The Rust half. */
struct ffi_state;
void *baton_ffi_new(void);
void baton_ffi_free_text(char *text);
int baton_ffi_declare(void *state, const char *text, size_t size, const struct ffi_argument *list,
    size_t count, char **message);
const struct ffi_type *baton_ffi_type(void *state, const char *text, size_t size,
    const struct ffi_argument *list, size_t count, char **message);
uint64_t baton_ffi_definitions(void *state);
int baton_ffi_symbol(void *state, const char *name, size_t size, struct ffi_symbol *found);
int baton_ffi_prototype(
    void *state, const char *text, size_t size, struct ffi_symbol *found, char **message);
int baton_ffi_enumerator(
    void *state, const struct ffi_type *type, const char *name, size_t size, int64_t *value);
int64_t baton_ffi_size_with(void *state, const struct ffi_type *type, uint64_t elements);
enum ffi_derivation { FFI_TO_POINTER, FFI_WITHOUT_CONST, FFI_TO_ARRAY, FFI_TO_REFERENCE };
const struct ffi_type *baton_ffi_derive(
    void *state, const struct ffi_type *type, int how, uint64_t length);
int baton_ffi_field(void *state, const struct ffi_type *type, const char *name, size_t size,
    struct ffi_field *found);
int baton_ffi_field_at(
    void *state, const struct ffi_type *type, size_t index, struct ffi_field *found);
const struct ffi_prepared *baton_ffi_prepare(void *state, const struct ffi_type *type,
    const struct ffi_type *const *further, size_t count, char **message);
void baton_ffi_call_prepared(
    const struct ffi_prepared *prepared, void (*function)(void), void **arguments, void *result);
typedef void (*ffi_handler)(void *word, void *result, void **arguments);
void *baton_ffi_callback_new(const struct ffi_prepared *prepared, ffi_handler handler, void *word,
    void **code, char **message);
void baton_ffi_callback_free(void *callback);
uint32_t baton_ffi_policy_begin(uint64_t *policy, int class);
int baton_ffi_policy_choose(uint64_t *policy, uint32_t skipped, uint32_t *skip);
uint32_t baton_ffi_policy_measured(uint64_t *policy, uint64_t duration, uint64_t window);
uint32_t baton_ffi_policy_retaken(uint64_t *policy, uint32_t skipped);
void *baton_ffi_library_load(const char *name, size_t size, int global, char **message);
void *baton_ffi_library_symbol(const void *library, const char *name, char **message);
void baton_ffi_library_close(void *library);

/* One VM's ffi. Lives in a userdata that the registry holds, made first and so collected last. */
struct ffi_vm {
  void *state;
  struct baton_vm *vm;
  Table *plain, *finalized; /* metatables of cdata; the second has __gc */
  struct ffi_callback *callbacks, *dead, *last_dead;
  int dead_count;
  struct ffi_helpers *helpers; /* threads for calls that can be given up; made with the first one */
  /* processes that wait for such a call, or for a thread for one; guarded by the VM lock */
  int awaiting;
  /* where threads that are none of the VM's come in; made with the first callback */
  struct ffi_door *door;
  struct ffi_known_member members[FFI_KNOWN_MEMBERS];
  const struct ffi_type *byte, *promoted, *integer, *uint64, *number, *boolean, *string, *pointer;
};

struct ffi_cdata {
  const struct ffi_type *type;
  void *data;
};

/* Words of memory for what is learned of a function (src/ffi/learning.rs). */
/* A function of C that Lua can call: the first upvalue of its closure. */
#define FFI_POLICY_WORDS 4
struct ffi_function {
  struct ffi_vm *vm;
  void (*address)(void);
  const struct ffi_type *type;
  const struct ffi_prepared *prepared; /* of the fixed arguments */
  /* so many of the next calls stay, and nobody looks at the clock; changed without the VM, too */
  uint32_t skip;
  /* what `skip` was when it was set; this and the next: guarded by the VM lock */
  uint32_t ahead;
  uint64_t policy[FFI_POLICY_WORDS];
  baton_timeout timeout;               /* if it is timed */
  unsigned char is_timed;              /* its calls can be given up */
  unsigned char is_quick;              /* `codes` suffice, and it has no timeout */
  unsigned char result;                /* enum ffi_code */
  unsigned char count;
  unsigned char codes[BATON_FFI_INTEGERS + BATON_FFI_FLOATINGS];
  char name[]; /* for messages; empty: only its address is known */
};

/* What one argument of a quick call is. */
enum ffi_code {
  CODE_INT32,
  CODE_UINT32,
  CODE_INT64,
  CODE_UINT64,
  CODE_SMALL,
  CODE_BOOL,
  CODE_DOUBLE,
  CODE_FLOAT,
  CODE_POINTER,
  CODE_STRING, /* a pointer that takes strings, too */
  CODE_VOID,
  CODE_OTHER
};

/* What values ask of the folder above: calls and callbacks. Installed before there is a state of
   Lua's. */
struct baton_value_hooks {
  lua_CFunction call; /* what all functions of C are, as functions of Lua */
  /* A function pointer of type `type` that leads to the function of Lua at `index`. */
  void *(*new_callback)(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index,
      int is_passed);
  /* Pushes the method of that name of a pointer to a function, if there is one. */
  int (*callback_method)(lua_State *L, struct ffi_cdata *cdata, const char *name);
};
extern __attribute__((visibility("hidden"))) struct baton_value_hooks baton_value_hooks;

/* types.c */
struct ffi_vm *baton_ffi_vm(lua_State *L);
/* Keeps the userdata on the top of the stack, which is popped, as the VM's ffi. */
void baton_ffi_keep_vm(lua_State *L);
/* Types as values, if there are none yet. `call` makes an object of the type that is its first
   argument. */
void baton_ffi_open_types(lua_State *L, lua_CFunction call);
const struct ffi_type *baton_ffi_type_of_value(lua_State *L, int index);
int baton_ffi_cdef(lua_State *L);
int baton_ffi_typeof(lua_State *L);
int baton_ffi_metatype(lua_State *L);
/* Before declarations of so many bytes are read: raises unless there is memory for what they
   make. */
void baton_ffi_get_room(lua_State *L, size_t text);
/* The type that an argument names: a string, a type, or a cdata. Of a reference, what it refers
   to. */
const struct ffi_type *baton_ffi_check_type(lua_State *L, struct ffi_vm *vm, int index);
/* The same, with references as they are. */
const struct ffi_type *baton_ffi_check_any_type(lua_State *L, struct ffi_vm *vm, int index);
const struct ffi_type *baton_ffi_test_type(lua_State *L, struct ffi_vm *vm, int index);
void baton_ffi_push_type(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type);

/* cdata.c */
/* Raises a message of the Rust half and frees it. */
l_noret baton_ffi_raise(lua_State *L, char *message);
struct ffi_cdata *baton_ffi_test_cdata(lua_State *L, const struct ffi_vm *vm, int index);
/* Pushes a cdata with `size` bytes of zero. */
struct ffi_cdata *baton_ffi_push_new(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, size_t size);
void baton_ffi_push_pointer(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *address);
/* Pushes the object at `data`, which the value at `owner` keeps alive (0: nothing does). */
void baton_ffi_push_reference(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *data, int owner);
int64_t baton_ffi_size(lua_State *L, const struct ffi_type *type);
/* Whether a pointer to it may be a string of Lua. */
int baton_ffi_takes_strings(const struct ffi_type *pointee);
/* The size of the cdata at `index`, with its part of variable length if it was made with it;
   negative: not known. */
int64_t baton_ffi_whole_size(lua_State *L, int index, const struct ffi_cdata *cdata);
const struct ffi_type *baton_ffi_derived(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int how, uint64_t length);
/* The type as ffi.typeof tells it: a reference, of an array or structure that lies in other
   memory. */
const struct ffi_type *baton_ffi_told_type(
    lua_State *L, struct ffi_vm *vm, int index, const struct ffi_cdata *cdata);
/* The metamethod of a type's own metatable; pushes it and returns 1, or nothing and 0. */
int baton_ffi_own_metamethod(lua_State *L, const struct ffi_type *type, const char *event);

/* convert.c */
enum ffi_how { FFI_ASSIGN, FFI_CAST, FFI_PASS };
/* Converts the value at `index` to bytes of a type at `to`, or raises. */
void baton_ffi_to_c(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *to,
    int index, enum ffi_how how);
void baton_ffi_store_field(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int index);
/* Pushes what the bytes of a type stand for. A structure or array is referred to, and `owner` kept
   alive by that. */
void baton_ffi_to_lua(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, const void *from, int owner);
void baton_ffi_push_field(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int owner);
/* Whether they are one type but for the signs of integers, which pointers do not look at, as
   LuaJIT's do not. */
int baton_ffi_is_alike(const struct ffi_type *a, const struct ffi_type *b);
/* Initializes an object by the values from `first` to `last`. */
void baton_ffi_initialize(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *to,
    int64_t size, int first, int last);
/* The address that a pointer, array, structure, string or function stands for; raises if `index` is
   none of them. */
void *baton_ffi_address(lua_State *L, struct ffi_vm *vm, int index, int *is_const);
int64_t baton_ffi_load_integer(const struct ffi_type *type, const void *from);
/* An argument that is an integer, of Lua or of C; raises if it is neither. */
lua_Integer baton_ffi_check_integer(lua_State *L, struct ffi_vm *vm, int index);

/* number.c */
void baton_ffi_open_numbers(lua_State *L, struct ffi_vm *vm);

/* indexing.c */
void baton_ffi_open_cdata(lua_State *L, struct ffi_vm *vm);
/* ffi.gc(cdata, finalizer or nil) */
int baton_ffi_gc(lua_State *L);
/* Has the finalizer of objects known for one that calls the program's. */
void baton_ffi_note_finalizer(void);

/* functions.c */
/* `library`: index of the library that it is of, or 0. */
void baton_ffi_push_function(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type,
    void *address, const char *name, int library);
/* Raises that the argument at `index` of the function of C being called is wrong. */
l_noret baton_ffi_wrong_argument(lua_State *L, int index, const char *message);
struct ffi_function *baton_ffi_test_function(lua_State *L, int index);
/* That which is being called. */
struct ffi_function *baton_ffi_running_function(lua_State *L);
/* What is asked of the Rust half once for each signature; raises. The arguments after the fixed
   ones have these types. */
const struct ffi_prepared *baton_ffi_prepare_for(lua_State *L, struct ffi_vm *vm,
    const struct ffi_type *type, const struct ffi_type **further, size_t count);
static inline struct ffi_function *baton_ffi_function_in(const TValue *closure) {
  return (struct ffi_function *)(void *)getudatamem(uvalue(&clCvalue(closure)->upvalue[0]));
}
enum ffi_class { FFI_AUTO, FFI_SHORT, FFI_LONG };
void baton_ffi_declare_class(struct ffi_function *function, enum ffi_class class);
void baton_ffi_set_skip(struct ffi_function *function, uint32_t skip);

#endif
