/*
** The public header of objects/: the objects of baton.process that processes wait for, their
** handles.
*/
#ifndef BATON_OBJECTS_H
#define BATON_OBJECTS_H

#include "state/state.h"

/* A handle: a full userdata that names an object of the scheduler. */
struct baton_handle {
  const void *seal; /* must be first */
  struct baton_lua_vm *vm;
  uint64_t id;
  int kind; /* enum baton_object */
};

struct channel;

/* A source of values from outside of the program. Both functions run inside the VM. */
struct channel_source {
  void (*deliver)(struct baton_lua_vm *vm); /* delivers what has arrived since */
  void (*end)(struct channel *channel); /* stops the delivery */
};

/* A channel. A value waits in the channel's table (user value 1). The scheduler passes on its key,
   a small number called token. */
struct channel {
  struct baton_handle handle; /* must be first: it is freed like other handles */
  uint32_t *free_tokens;
  uint32_t free_count, free_capacity, next_token;
  unsigned char is_listed;         /* it receives signals */
  /* the set of its signals, or 0. A channel of signals keeps its values in its table */
  uint64_t signals;
  const struct channel_source *source; /* NULL: only processes send to it */
  struct channel *next_of_signals; /* the next listed channel */
};

/* Channels between VMs, of a folder above, as cases of a select. Their handles are of the kind
   BATON_SEALED_SHARED_CHANNEL, and the id is a pointer. Installed before there is a Lua state. */
struct baton_shared_cases {
  /* Replaces the value at `index` by a box with its copy. Raises an error if it cannot be sent. */
  void (*pack)(lua_State *L, int index);
  /* Takes the copy out of its box, for BATON_CASE_SHARED_SEND. Inside the VM. */
  uint64_t (*unpack)(void *box);
  /* Pushes a received message. */
  void (*push)(lua_State *L, uint64_t message);
};
extern __attribute__((visibility("hidden"))) struct baton_shared_cases baton_shared_cases;

/* Pushes a channel with a table of values. */
struct channel *baton_lua_new_channel(lua_State *L, lua_Integer capacity);
/* Stores the value at an index of the running function, which is not negative, in the channel.
   Returns its token. Inside the VM. */
uint32_t baton_lua_store_value(lua_State *L, struct channel *channel, int index);
/* Removes the value of a token from the channel, and pushes it. Inside the VM. */
void baton_lua_take_value(lua_State *L, struct channel *channel, uint32_t token);
/* Puts back the value on the top of the stack, which had that token when it was received last. It
   is the next one again. Inside the VM. */
void baton_lua_give_back_value(lua_State *L, struct channel *channel, uint32_t token);

/*
** Reads the argument of a constructor, which may be in a table with options: {argument,
** name="..."}. Leaves the argument, or nil, at index 1. If there was a table, leaves the name, or
** nil, at index 2.
*/
void baton_lua_take_options(lua_State *L);
/* Raises an error for an unknown option in the table at index 1. */
void baton_lua_check_options(lua_State *L);
/* Sets the name that baton_lua_take_options has left for the object of `handle`. */
void baton_lua_name_object(lua_State *L, struct baton_handle *handle);
/* Pushes a handle of `size` bytes, still without an object. */
struct baton_handle *baton_lua_new_handle(lua_State *L, int kind, size_t size, int values);
/* The handle at `index`, or NULL if there is another value. */
struct baton_handle *baton_lua_test_handle(lua_State *L, int index, int kind);
/* __gc of handles: frees the object. */
int baton_lua_collect_handle(lua_State *L);
/* Makes the metatable of a kind of handle. `gc` may be NULL. */
void baton_lua_open_kind(lua_State *L, int kind, const luaL_Reg *methods, lua_CFunction gc);

/* context.c */
/* Adds process.context and its kin to the module's table on the top of the stack. */
void baton_lua_open_context(lua_State *L);
/* Pushes a field of the caller's context, or nil. */
void baton_lua_push_context_field(lua_State *L, const char *name);
/* text_of_context(kind, f): the text that `f` makes of the fields of the caller's context, or
   nothing if it has none. `f` is called once for each context and kind, a positive integer. */
int baton_lua_text_of_context(lua_State *L);
/* Shows each field, in the order of the names. Numbers and booleans come as texts, which are valid
   during the call. While the process does not run. */
typedef void (*baton_field_visitor)(void *context, const char *name, const char *text, size_t size);
void baton_lua_visit_context(
    const struct baton_process *process, baton_field_visitor visit, void *context);

/* channels.c */
void baton_lua_open_channels(lua_State *L);
/* locks.c */
void baton_lua_open_locks(lua_State *L);
/* Called before a wait without a timeout for a lock that others hold. If it closes a cycle of
   locks, warns or raises an error (parameter `deadlock`). */
void baton_lua_check_cycle(lua_State *L, struct baton_handle *handle);
/* alarms.c */
void baton_lua_open_alarms(lua_State *L);
/* select.c */
void baton_lua_open_select(lua_State *L);

/* objects.c */
void baton_lua_open_objects(lua_State *L);

/* timers.c */
void baton_lua_open_timers(lua_State *L);
/* Called for a process that ends without its body having run. If a timer of process.every has
   started it, makes the process of the next firing. Outside the VM. */
void baton_lua_timer_goes_on(lua_State *L, struct baton_process *process);

/* signal_channels.c */
/* Delivers signals that have arrived to their channels. Inside the VM. */
void baton_lua_deliver_signals(struct baton_lua_vm *vm);
/* Empties the channels of signals in a fork's child: those were for the parent. Inside the VM. */
void baton_lua_forget_signals(void);
void baton_lua_open_signals(lua_State *L);

#endif
