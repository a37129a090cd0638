/*
** Writes the records of a snapshot, through a buffer that is there already. records.h describes
** them.
*/
#include "heap/records.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The one snapshot that a copy of the program writes. */
static struct {
  int descriptor;
  int error; /* of a write; 0: none */
  size_t used;
  uintptr_t last; /* the last address */
  unsigned char bytes[1 << 16];
} out;

/* {======================================================
** Numbers, addresses and texts
** ======================================================= */

static void flush(void) {
  size_t done = 0;
  while (done < out.used && out.error == 0) {
    const ssize_t wrote = write(out.descriptor, out.bytes + done, out.used - done);
    if (wrote >= 0)
      done += (size_t)wrote;
    else if (errno != EINTR)
      out.error = errno;
  }
  out.used = 0;
}

static void put(unsigned char byte) {
  if (out.used == sizeof out.bytes) flush();
  out.bytes[out.used++] = byte;
}

static void put_number(uint64_t number) {
  while (number >= 0x80) {
    put((unsigned char)(number | 0x80));
    number >>= 7;
  }
  put((unsigned char)number);
}

static void put_signed(int64_t number) {
  const uint64_t sign = number < 0 ? ~(uint64_t)0 : 0;
  put_number((uint64_t)number << 1 ^ sign);
}

/* Objects are aligned to 8 bytes at least. */
static void put_address(uintptr_t address) {
  put_signed(((int64_t)address - (int64_t)out.last) / 8);
  out.last = address;
}

static void put_text(const char *text, size_t length) {
  size_t i;
  put_number(length);
  for (i = 0; i < length; i++) put((unsigned char)text[i]);
}

/* }====================================================== */

void baton_heap_start(int descriptor, uint64_t bytes) {
  out.descriptor = descriptor;
  put('B');
  put_number(BATON_HEAP_VERSION);
  put_number(bytes);
}

int baton_heap_end(uint64_t dead, uint64_t dead_bytes) {
  put('Z');
  put_number(dead);
  put_number(dead_bytes);
  flush();
  return out.error;
}

int baton_heap_has_failed(void) { return out.error != 0; }

void baton_heap_object(
    enum baton_heap_kind kind, uintptr_t address, size_t bytes, const char *name, size_t length) {
  put('O');
  put_address(address);
  put_number(kind);
  put_number(bytes);
  put_text(name, length);
}

void baton_heap_rename(const void *object, const char *name, size_t length) {
  put('T');
  put_address((uintptr_t)object);
  put_text(name, length);
}

void baton_heap_reference_of(const void *from, const char *name, const void *to) {
  put('X');
  put_address((uintptr_t)from);
  put_text(name, strlen(name));
  put_address((uintptr_t)to);
}

void baton_heap_field(const TString *name, const void *to, int is_weak) {
  put(is_weak ? 'P' : 'p');
  put_address((uintptr_t)name);
  put_address((uintptr_t)to);
}

void baton_heap_element(lua_Integer key, const void *to, int is_weak) {
  put(is_weak ? 'E' : 'e');
  put_signed(key);
  put_address((uintptr_t)to);
}

/* A name in Lua may be of any length. */
static void reference(unsigned char letter, const char *name, const void *to) {
  put(letter);
  put_text(name, strnlen(name, BATON_HEAP_TEXT));
  put_address((uintptr_t)to);
}

void baton_heap_part(const char *name, const void *to, int is_weak) {
  reference(is_weak ? 'I' : 'i', name, to);
}

void baton_heap_named(const char *name, const void *to) { reference('n', name, to); }

void baton_heap_variable(const char *name, const void *to) { reference('c', name, to); }

void baton_heap_hidden(const void *to) {
  put('h');
  put_address((uintptr_t)to);
}
