/*
** The objects of baton.process that processes wait for: their handles, and how the calling process
** waits.
*/
#ifndef BATON_OBJECTS_H
#define BATON_OBJECTS_H

#include "state/state.h"

/* An object of the kernel, in a full userdata. */
struct baton_handle {
  const void *seal; /* must be first */
  struct baton_vm *vm;
  uint64_t id;
  int kind; /* enum baton_object */
};

struct channel;

/* What feeds a channel from outside of the program. Inside the VM. */
struct channel_source {
  void (*deliver)(struct baton_vm *vm); /* gives it what has just arrived, too */
  void (*end)(struct channel *channel); /* no more comes */
};

/* A channel: a value waits in its table (user value 1) under a small number, its token, which is
   what the kernel passes on. */
struct channel {
  struct baton_handle handle; /* must be first: freed like the others */
  uint32_t *free_tokens;
  uint32_t free_count, free_capacity, next_token;
  unsigned char is_listed;         /* signals are posted to it */
  /* a set of them, if it is a channel of signals: then its values stay in its table */
  uint64_t signals;
  const struct channel_source *source; /* NULL: processes send to it */
  struct channel *next_of_signals; /* of those that are listed */
};

/* Pushes a channel with a table of values. */
struct channel *baton_lua_new_channel(lua_State *L, lua_Integer capacity);
/* Puts the value at `index` into the channel's table of values, which is at `values`; answers its
   token. */
uint32_t baton_lua_store_value(lua_State *L, struct channel *channel, int index, int values);
/* Takes the value of a token out of the table on the top of the stack, and pushes it. */
void baton_lua_take_value(lua_State *L, struct channel *channel, uint32_t token);

/*
** The argument of a constructor may be a table of options in its place: {argument, name="..."}.
** Leaves the argument, or nil, at index 1 and then, if there was a table, the name, or nil, at
** index 2.
*/
void baton_lua_take_options(lua_State *L);
/* A mistyped option in the table at index 1 raises, rather than having no effect. */
void baton_lua_check_options(lua_State *L);
/* Gives the object of `handle` the name that baton_lua_take_options has left. */
void baton_lua_name_object(lua_State *L, struct baton_handle *handle);
/* Pushes a handle of `size` bytes without an object yet. */
struct baton_handle *baton_lua_new_handle(lua_State *L, int kind, size_t size, int values);
/* The handle at index 1, or raises. */
struct baton_handle *baton_lua_check_handle(lua_State *L, int kind);
/* The handle at `index`, or NULL if another value is there. */
struct baton_handle *baton_lua_test_handle(lua_State *L, int index, int kind);
/* __gc of handles: gives the object back. */
int baton_lua_collect_handle(lua_State *L);
/* Makes the metatable of a kind of handle. `gc` may be NULL. */
void baton_lua_open_kind(lua_State *L, int kind, const luaL_Reg *methods, lua_CFunction gc);
/* The caller, if it may wait for as long as `timeout` says. */
struct baton_process *baton_lua_waiter(lua_State *L, baton_timeout timeout);

/* One wait of the calling process, and what it raises or returns. */
#define BATON_WAIT(L, caller, call, reason)                 \
  do {                                                      \
    struct baton_wake wake_;                                \
    baton_enter(L);                                         \
    wake_ = (call);                                         \
    baton_leave(L);                                         \
    (reason) = baton_lua_after_wait(L, caller, wake_);      \
  } while (0)

/* The same of a wait that hands something over: `give_back` does that with what the caller cannot
   use, since it raises before. */
#define BATON_WAIT_FOR(L, caller, call, give_back, reason)                 \
  do {                                                                     \
    struct baton_wake wake_;                                               \
    enum baton_debt debt_;                                                 \
    baton_enter(L);                                                        \
    wake_ = (call);                                                        \
    baton_leave(L);                                                        \
    debt_ = baton_lua_debt(caller);                                        \
    if (debt_ != BATON_OWES_NOTHING &&                                     \
        (wake_.reason == BATON_DONE || wake_.reason == BATON_ABANDONED)) { \
      baton_enter(L);                                                      \
      (void)(give_back);                                                   \
      baton_leave(L);                                                      \
      baton_lua_raise(L, caller, debt_);                                   \
    }                                                                      \
    (reason) = baton_lua_after_wait(L, caller, wake_);                     \
  } while (0)

/* channels.c */
void baton_lua_open_channels(lua_State *L);
/* locks.c */
void baton_lua_open_locks(lua_State *L);
/* Before the caller waits without a timeout for a lock that others hold: warns if that closes a
   cycle of locks, or raises (parameter `deadlock`). */
void baton_lua_check_cycle(lua_State *L, struct baton_handle *handle);
/* alarms.c */
void baton_lua_open_alarms(lua_State *L);
/* select.c */
void baton_lua_open_select(lua_State *L);

/* objects.c */
void baton_lua_open_objects(lua_State *L);

/* timers.c */
void baton_lua_open_timers(lua_State *L);

/* signal_channels.c */
/* Inside the VM: gives the channels of signals what has arrived. */
void baton_lua_deliver_signals(struct baton_vm *vm);
/* In a fork's child, inside the VM: what the channels hold was for the parent. */
void baton_lua_forget_signals(void);
/* Sets the action of a signal, as it is while no channel is open for it. */
void baton_lua_set_action(int signal, void (*handler)(int));
void baton_lua_open_signals(lua_State *L);

#endif
