/*
** Objects that several VMs share. Include baton.h, which includes this.
**
** They lie outside of all heaps and count their references. The function that makes one returns the
** first reference. An object lives until the last one was given back.
*/
#ifndef BATON_SHARED_H
#define BATON_SHARED_H

/* The size of a message of a channel, in bytes. Any thread may call it. */
typedef size_t (*baton_message_size)(const void *message);
/* The end of a message that nobody receives: frees it. Any thread may call it. */
typedef void (*baton_message_end)(void *message);
/* Whoever looks for references. */
struct baton_visitor;
/* Calls one of the functions below for each reference of the message to a channel or a dictionary.
   Without it (NULL), objects that refer to each other by messages are never freed. */
typedef void (*baton_message_references)(const void *message, struct baton_visitor *visitor);
/* What the messages of a channel are. */
struct baton_message_kind {
  baton_message_size size;
  baton_message_end end;
  baton_message_references references;
};
/* A channel; see below. */
struct baton_shared_channel;
/* A dictionary; see below. */
struct baton_dict;
/* The message that is visited has a reference to this channel. */
BATON_ANY_THREAD void baton_visit_channel(
    struct baton_visitor *visitor, struct baton_shared_channel *channel);
/* The message that is visited has a reference to this dictionary. */
BATON_ANY_THREAD void baton_visit_dict(struct baton_visitor *visitor, struct baton_dict *dict);

/* A channel for at most `capacity` messages of at most `bytes` bytes together. A larger message is
   let in alone. `capacity` is at least 1. `kind` lives as long as the program. */
/* Makes one. `name` is for reports; copied. */
BATON_ANY_THREAD struct baton_shared_channel *baton_shared_channel_new(uint64_t capacity,
    uint64_t bytes, const char *name, const struct baton_message_kind *kind);
/* Takes one reference more. */
BATON_ANY_THREAD void baton_shared_channel_hold(struct baton_shared_channel *channel);
/* Gives a reference back. */
BATON_ANY_THREAD void baton_shared_channel_release(struct baton_shared_channel *channel);
/* How many messages are in it. */
BATON_ANY_THREAD uint64_t baton_shared_channel_length(const struct baton_shared_channel *channel);
/* Writes its name, or nothing. */
BATON_ANY_THREAD void baton_shared_channel_name(
    const struct baton_shared_channel *channel, char *name, size_t size);
/* Sends a message. Unless the reason is BATON_DONE, it is still the caller's. */
BATON_INSIDE struct baton_wake baton_shared_send(const baton_vm *vm,
    struct baton_shared_channel *channel, void *message, baton_timeout timeout);
/* Receives a message, which is the value. */
BATON_INSIDE struct baton_wake baton_shared_receive(
    const baton_vm *vm, struct baton_shared_channel *channel, baton_timeout timeout);
/* Gives back a message that was received last. It is the next one again. */
BATON_INSIDE void baton_shared_give_back(
    const baton_vm *vm, struct baton_shared_channel *channel, void *message);
/* Closes it: senders are refused, and receivers get what is in it. */
BATON_INSIDE void baton_shared_close(const baton_vm *vm, struct baton_shared_channel *channel);
/* The same, by a thread that is in no VM or does not know in which one. */
BATON_ANY_THREAD void baton_shared_close_from_outside(struct baton_shared_channel *channel);

/* Words of 64 bits, counted from 0. All accesses are sequentially consistent. An index that is too
   large ends the program. */
struct baton_words;
/* Makes `count` words, all 0. Returns NULL without memory for them. */
BATON_ANY_THREAD struct baton_words *baton_words_new(uint64_t count);
/* Takes one reference more. */
BATON_ANY_THREAD void baton_words_hold(struct baton_words *words);
/* Gives a reference back. */
BATON_ANY_THREAD void baton_words_release(struct baton_words *words);
/* How many references there are. It is exact if the caller has the only one. */
BATON_ANY_THREAD uint64_t baton_words_references(const struct baton_words *words);
/* How many there are. */
BATON_ANY_THREAD uint64_t baton_words_count(const struct baton_words *words);
/* The value of a word. */
BATON_ANY_THREAD int64_t baton_words_load(const struct baton_words *words, uint64_t index);
/* Sets a word. */
BATON_ANY_THREAD void baton_words_store(
    struct baton_words *words, uint64_t index, int64_t value);
/* Adds `n` to a word. Returns the old value. A sum wraps around. */
BATON_ANY_THREAD int64_t baton_words_add(struct baton_words *words, uint64_t index, int64_t n);
/* Sets a word. Returns the old value. */
BATON_ANY_THREAD int64_t baton_words_exchange(
    struct baton_words *words, uint64_t index, int64_t value);
/* Sets a word if it has the expected value. Returns whether it had. `expected` becomes the value
   that it had. */
BATON_ANY_THREAD int baton_words_compare(
    struct baton_words *words, uint64_t index, int64_t *expected, int64_t value);
/* Waits for a wake-up, unless the word differs from `expected`: BATON_DONE in both cases. */
BATON_INSIDE struct baton_wake baton_words_wait(const baton_vm *vm, struct baton_words *words,
    uint64_t index, int64_t expected, baton_timeout timeout);
/* Wakes up to `n` processes of any VM. Returns how many. */
BATON_INSIDE uint64_t baton_words_wake(
    const baton_vm *vm, struct baton_words *words, uint64_t index, uint64_t n);
/* Wakes all of them, by a thread that is in no VM or does not know in which one. */
BATON_ANY_THREAD void baton_words_wake_from_outside(struct baton_words *words, uint64_t index);

/* A dictionary, bounded by bytes. Keys are bytes. A message that it stores is its own. */
/* What a value of a dictionary is. */
enum baton_dict_kind {
  BATON_DICT_ABSENT,
  BATON_DICT_FALSE,
  BATON_DICT_TRUE,
  BATON_DICT_INTEGER,
  BATON_DICT_FLOAT,
  BATON_DICT_BYTES,
  BATON_DICT_MESSAGE
};
/* A value. The member that its kind names is valid. */
struct baton_dict_value {
  int kind; /* an enum baton_dict_kind */
  int64_t integer;
  double number;
  const void *bytes; /* or the message */
  size_t size;       /* of the bytes */
  const void *held;  /* of a value that was found: a reference, for baton_dict_release_value */
};
/* A key: bytes, which the call copies. */
struct baton_dict_key {
  const void *bytes;
  size_t size;
};
/* What became of a change: it is done, there is no room, or it was not wanted. */
enum baton_dict_result { BATON_DICT_STORED, BATON_DICT_FULL, BATON_DICT_NOT_WANTED };

/* Makes one for at most so many bytes. If it is full, it drops the entries that were not used for
   the longest time (`evicts`), or refuses new ones. `kind` is for its messages. */
BATON_ANY_THREAD struct baton_dict *baton_dict_new(
    uint64_t bytes, int evicts, const struct baton_message_kind *kind);
/* Takes one reference more. */
BATON_ANY_THREAD void baton_dict_hold(struct baton_dict *dict);
/* Gives a reference back. */
BATON_ANY_THREAD void baton_dict_release(struct baton_dict *dict);
/* How many entries there are. */
BATON_ANY_THREAD uint64_t baton_dict_count(const struct baton_dict *dict);
/* How many bytes they take. */
BATON_ANY_THREAD uint64_t baton_dict_used(const struct baton_dict *dict);
/* Writes the value of the key, which is valid until its reference is given back. */
BATON_ANY_THREAD void baton_dict_get(const struct baton_dict *dict, struct baton_dict_key key,
    struct baton_dict_value *found);
/* Gives back the reference of a value that was found. */
BATON_ANY_THREAD void baton_dict_release_value(const struct baton_dict_value *found);
/* Stores a value until `end`, an absolute time. With `if_absent`, BATON_DICT_NOT_WANTED says that
   there is one already. */
BATON_ANY_THREAD int baton_dict_set(struct baton_dict *dict, struct baton_dict_key key,
    const struct baton_dict_value *value, uint64_t end, int if_absent);
/* Stores a value, or removes the key if it is absent, unless the present value differs from
   `expected`: BATON_DICT_NOT_WANTED. Messages are never equal. The end stays. Writes the value
   before, as baton_dict_get does. */
BATON_ANY_THREAD int baton_dict_compare(struct baton_dict *dict, struct baton_dict_key key,
    const struct baton_dict_value *expected, const struct baton_dict_value *value,
    struct baton_dict_value *before);
/* Adds the number `n` to that of the key, or to `initial` if there is none, and writes the sum.
   BATON_DICT_NOT_WANTED: the value is no number. The end stays. */
BATON_ANY_THREAD int baton_dict_add(struct baton_dict *dict, struct baton_dict_key key,
    const struct baton_dict_value *n, const struct baton_dict_value *initial,
    struct baton_dict_value *sum);
/* Removes a key. Returns whether it was there. */
BATON_ANY_THREAD int baton_dict_delete(struct baton_dict *dict, struct baton_dict_key key);
/* A list of keys. */
struct baton_dict_keys;
/* Lists at most `limit` keys. */
BATON_ANY_THREAD struct baton_dict_keys *baton_dict_keys(
    const struct baton_dict *dict, uint64_t limit);
/* Writes the key of this number, from 0. Returns 0 if there is none. */
BATON_ANY_THREAD int baton_dict_key_at(
    const struct baton_dict_keys *keys, uint64_t number, struct baton_dict_key *key);
/* Frees the list. */
BATON_ANY_THREAD void baton_dict_keys_free(struct baton_dict_keys *keys);

#endif
