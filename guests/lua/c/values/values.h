/*
** The public header of values/: values of C in Lua, and the functions of the Rust half (src/ffi)
** for them.
**
** A value of C in Lua is a *cdata*: a full userdata with a type and an address. The bytes of the
** value are in the userdata itself, or in another object. Such a value is a member of a structure
** or an element of an array, and the user value keeps that object alive. A pointer is a cdata whose
** bytes are the address. A C function is a Lua function.
**
**   types.c      types as Lua values, and from their texts
**   cdata.c      making cdata; sizes
**   functions.c  C functions as Lua values
**   convert.c    Lua values to bytes of C, and back
**   number.c     arithmetic, comparison, text
**   indexing.c   indexing, calling and finalizing cdata
**
** All functions are called outside the VM, except those of the Rust half that take `vm->state`.
** Calls of these stand between baton_lua_enter and baton_lua_leave, and raise no error.
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
  FFI_WIDE, /* numbers that Lua cannot represent; they are only copied. Complex ones have parts */
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
  /* a pointer that is used like its pointee; no cdata has such a type */
  FFI_IS_REFERENCE = 128
};

/* The layout of `Descriptor` in src/ffi/descriptor.rs. */
struct ffi_type {
  uint8_t kind;
  uint8_t flags;
  uint8_t is_signed;
  uint8_t is_const;
  uint32_t align;
  int64_t size; /* negative: not known; baton_ffi_size then raises an error */
  uint32_t id;
  int metatable; /* of the plain type: a reference in the registry; 0: none */
  const struct ffi_type *element;
  int64_t length; /* -1: not given; -2: given when an object is made */
  const struct ffi_type *const *parameters;
  uint64_t count;
  const struct ffi_type *plain;
  const char *name;
};

/* Whether objects of the type are read-only. For an array, its elements decide. */
static inline int baton_ffi_is_constant(const struct ffi_type *type) {
  while (type->kind == FFI_ARRAY) type = type->element;
  return type->is_const;
}

struct ffi_field {
  const struct ffi_type *type;
  uint64_t offset;
  uint8_t first, width; /* of a bit-field; width 0: it is none */
};

/* A cached member. Its name is kept alive, so no other string has its address. */
struct ffi_known_member {
  const struct ffi_type *type; /* NULL: the entry is empty */
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
  /* Rust has more fields */
};

/* The Rust half: src/ffi. */
struct ffi_state;
void *baton_ffi_new(void);
void baton_ffi_free(void *state);
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
typedef void (*ffi_handler)(void *user_data, void *result, void **arguments);
void *baton_ffi_callback_new(const struct ffi_prepared *prepared, ffi_handler handler,
    void *user_data, void **code, char **message);
void baton_ffi_callback_free(void *callback);
uint32_t baton_ffi_policy_begin(uint64_t *policy, int class);
int baton_ffi_policy_choose(
    uint64_t *policy, uint32_t skipped, uint32_t *skip);
uint32_t baton_ffi_policy_measured(uint64_t *policy, uint64_t duration, uint64_t window);
uint32_t baton_ffi_policy_retaken(uint64_t *policy, uint32_t skipped);
void *baton_ffi_library_load(const char *name, size_t size, int global, char **message);
void *baton_ffi_library_symbol(const void *library, const char *name, char **message);
void baton_ffi_library_close(void *library);
void baton_ffi_library_leave_loaded(void *library);

/* One VM's ffi. A userdata in the registry, which is made first and so collected last. */
struct ffi_vm {
  void *state;
  struct baton_lua_vm *vm;
  Table *plain, *finalized; /* metatables of cdata; the second has __gc */
  struct ffi_callback *callbacks, *dead, *last_dead;
  int dead_count;
  /* the foreign callback queue; made with the first callback */
  const struct ffi_callback_queue *callback_queue;
  struct ffi_known_member members[FFI_KNOWN_MEMBERS];
  const struct ffi_type *byte, *promoted, *integer, *uint64, *number, *boolean, *string, *pointer;
};

struct ffi_cdata {
  const struct ffi_type *type;
  void *data;
};

/* The size of what is learned of a function (src/ffi/learning.rs), in 8-byte words. */
#define FFI_POLICY_WORDS 4

/* A C function that Lua can call: the first upvalue of its closure. */
struct ffi_function {
  struct ffi_vm *vm;
  void (*address)(void);
  const struct ffi_type *type;
  const struct ffi_prepared *prepared; /* for the fixed arguments */
  /* this many calls stay on their thread and do not read the clock; changed outside the VM, too */
  uint32_t skip;
  /* the value that `skip` was set to; the VM lock guards this and the next */
  uint32_t ahead;
  uint64_t policy[FFI_POLICY_WORDS];
  baton_timeout timeout;               /* if `is_timed` */
  unsigned char is_timed;              /* its calls have a timeout */
  unsigned char is_quick;              /* `codes` describe its arguments, and it has no timeout */
  unsigned char result;                /* enum ffi_code */
  unsigned char count;
  unsigned char codes[BATON_FFI_INTEGERS + BATON_FFI_FLOATINGS];
  char name[]; /* for messages; empty: not known */
};

/* The type of one argument of a quick call. */
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
  CODE_STRING, /* a pointer that may be a string of Lua, too */
  CODE_VOID,
  CODE_OTHER
};

/* Functions of the folder above for values: calls and callbacks. Installed before there is a Lua
   state. */
struct baton_value_hooks {
  lua_CFunction call; /* the Lua function for all C functions */
  /* Makes a C function pointer of type `type` that calls the Lua function at `index`. */
  void *(*new_callback)(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int index,
      int is_passed);
  /* Pushes a method of a function pointer. Returns 0 if there is none of that name. */
  int (*callback_method)(lua_State *L, struct ffi_cdata *cdata, const char *name);
};
extern __attribute__((visibility("hidden"))) struct baton_value_hooks baton_value_hooks;

/* types.c */
struct ffi_vm *baton_ffi_vm(lua_State *L);
/* Pops the userdata on the top of the stack, and keeps it as the VM's ffi. */
void baton_ffi_keep_vm(lua_State *L);
/* Makes the metatable of types, if there is none. `call` makes an object of its first argument, a
   type. */
void baton_ffi_open_types(lua_State *L, lua_CFunction call);
const struct ffi_type *baton_ffi_type_of_value(lua_State *L, int index);
int baton_ffi_cdef(lua_State *L);
int baton_ffi_typeof(lua_State *L);
int baton_ffi_metatype(lua_State *L);
/* Called before declarations of `text` bytes are read. Raises an error unless there is memory for
   them. */
void baton_ffi_get_room(lua_State *L, size_t text);
/* The type that an argument names: a string, a type, or a cdata. For a reference, the type that it
   refers to. */
const struct ffi_type *baton_ffi_check_type(lua_State *L, struct ffi_vm *vm, int index);
/* The same, but references stay references. */
const struct ffi_type *baton_ffi_check_any_type(lua_State *L, struct ffi_vm *vm, int index);
const struct ffi_type *baton_ffi_test_type(lua_State *L, struct ffi_vm *vm, int index);
void baton_ffi_push_type(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type);

/* cdata.c */
/* Raises an error with a message of the Rust half, and frees the message. */
l_noret baton_ffi_raise(lua_State *L, char *message);
struct ffi_cdata *baton_ffi_test_cdata(lua_State *L, const struct ffi_vm *vm, int index);
/* Pushes a cdata with `size` zero bytes. */
struct ffi_cdata *baton_ffi_push_new(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, size_t size);
void baton_ffi_push_pointer(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *address);
/* Pushes the object at `data`. It keeps the value at `owner` alive (0: none). */
void baton_ffi_push_reference(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *data, int owner);
int64_t baton_ffi_size(lua_State *L, const struct ffi_type *type);
/* Whether a pointer to this type may be a string of Lua. */
int baton_ffi_takes_strings(const struct ffi_type *pointee);
/* The size of the cdata at `index`, with its part of variable length if it was made with one.
   Negative: not known. */
int64_t baton_ffi_whole_size(lua_State *L, int index, const struct ffi_cdata *cdata);
const struct ffi_type *baton_ffi_derived(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, int how, uint64_t length);
/* The type that ffi.typeof returns. For an array or structure that lies in other memory, this is a
   reference. */
const struct ffi_type *baton_ffi_visible_type(
    lua_State *L, struct ffi_vm *vm, int index, const struct ffi_cdata *cdata);
/* Pushes a metamethod of a type's own metatable and returns 1, or returns 0 if there is none. */
int baton_ffi_own_metamethod(lua_State *L, const struct ffi_type *type, const char *event);

/* convert.c */
enum ffi_how { FFI_ASSIGN, FFI_CAST, FFI_PASS };
/* Converts the value at `index` to bytes of a type at `to`, or raises an error. */
void baton_ffi_to_c(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *to,
    int index, enum ffi_how how);
void baton_ffi_store_field(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int index);
/* Pushes the value of the bytes at `from`. For a structure or an array this is a reference, which
   keeps the value at `owner` alive. */
void baton_ffi_to_lua(
    lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, const void *from, int owner);
void baton_ffi_push_field(
    lua_State *L, struct ffi_vm *vm, const struct ffi_field *field, char *record, int owner);
/* Whether two types differ at most in the signs of integers. Pointers ignore these, as LuaJIT's
   do. */
int baton_ffi_is_alike(const struct ffi_type *a, const struct ffi_type *b);
/* Initializes an object with the values from `first` to `last`. */
void baton_ffi_initialize(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type, void *to,
    int64_t size, int first, int last);
/* The address that a pointer, array, structure, string or function has. Raises an error for other
   values. */
void *baton_ffi_address(lua_State *L, struct ffi_vm *vm, int index, int *is_const);
int64_t baton_ffi_load_integer(const struct ffi_type *type, const void *from);
/* The integer at `index`, of Lua or of C. Raises an error for other values. */
lua_Integer baton_ffi_check_integer(lua_State *L, struct ffi_vm *vm, int index);

/* number.c */
void baton_ffi_open_numbers(lua_State *L, struct ffi_vm *vm);

/* indexing.c */
void baton_ffi_open_cdata(lua_State *L, struct ffi_vm *vm);
/* ffi.gc(cdata, finalizer or nil) */
int baton_ffi_gc(lua_State *L);
/* Registers the finalizer of cdata as one that calls finalizers of the program. */
void baton_ffi_note_finalizer(void);

/* functions.c */
/* `library` is the index of the function's library, or 0. */
void baton_ffi_push_function(lua_State *L, struct ffi_vm *vm, const struct ffi_type *type,
    void *address, const char *name, int library);
/* Raises an error for the argument at `index` of the C function being called. */
l_noret baton_ffi_wrong_argument(lua_State *L, int index, const char *message);
struct ffi_function *baton_ffi_test_function(lua_State *L, int index);
/* The C function being called. */
struct ffi_function *baton_ffi_running_function(lua_State *L);
/* Prepares calls with arguments of these types after the fixed ones. The Rust half does so once for
   each signature. May raise an error. */
const struct ffi_prepared *baton_ffi_prepare_for(lua_State *L, struct ffi_vm *vm,
    const struct ffi_type *type, const struct ffi_type **further, size_t count);
static inline struct ffi_function *baton_ffi_function_in(const TValue *closure) {
  return (struct ffi_function *)(void *)getudatamem(uvalue(&clCvalue(closure)->upvalue[0]));
}
enum ffi_class { FFI_AUTO, FFI_SHORT, FFI_LONG };
void baton_ffi_declare_class(struct ffi_function *function, enum ffi_class class);
void baton_ffi_set_skip(struct ffi_function *function, uint32_t skip);

#endif
