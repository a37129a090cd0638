/*
** The objects that a writer has met: their numbers, found by their addresses in a hash table with
** open addressing.
*/
#include "copying/block.h"

#include <stdlib.h>

void baton_met_begin(struct baton_writer *w) {
  w->objects = w->few_objects;
  w->places = w->few_places;
  w->count = 0;
  w->mask = BATON_FEW_PLACES - 1;
  memset(w->few_places, 0, sizeof w->few_places);
}

void baton_met_end(struct baton_writer *w) {
  if (w->objects != w->few_objects) free(w->objects);
  if (w->places != w->few_places) free(w->places);
}

/* Objects are at least 16 bytes apart, so the lowest bits say nothing. */
static inline uint32_t place_of(const struct baton_writer *w, const GCObject *object) {
  const uint64_t bits = (uint64_t)((uintptr_t)object >> 4) * 0x9E3779B97F4A7C15u;
  return (uint32_t)(bits >> 32) & w->mask;
}

/* Doubles the room for objects. Returns 0 if there is no memory. */
static int grow(struct baton_writer *w) {
  const uint64_t room = ((uint64_t)w->mask + 1) * 2;
  const int were_few = w->objects == w->few_objects;
  struct baton_met *objects;
  uint32_t *places, i;
  if (room > (uint64_t)UINT32_MAX + 1 || !baton_block_may_allocate()) return 0;
  objects = realloc(were_few ? NULL : w->objects, (size_t)(room / 2) * sizeof *objects);
  if (objects == NULL) return 0;
  if (were_few) memcpy(objects, w->few_objects, w->count * sizeof *objects);
  w->objects = objects;
  places = calloc((size_t)room, sizeof *places);
  if (places == NULL) return 0;
  if (w->places != w->few_places) free(w->places);
  w->places = places;
  w->mask = (uint32_t)(room - 1);
  for (i = 0; i < w->count; i++) {
    uint32_t at = place_of(w, objects[i].object);
    while (places[at] != 0) at = (at + 1) & w->mask;
    places[at] = i + 1;
  }
  return 1;
}

uint32_t baton_meet(struct baton_writer *w, GCObject *object, uint32_t parent, int *is_new) {
  uint32_t at = place_of(w, object);
  *is_new = 0;
  while (w->places[at] != 0) {
    if (w->objects[w->places[at] - 1].object == object) return w->places[at] - 1;
    at = (at + 1) & w->mask;
  }
  if (l_unlikely(w->count > w->mask / 2)) {
    if (!grow(w)) return BATON_NO_PARENT;
    at = place_of(w, object);
    while (w->places[at] != 0) at = (at + 1) & w->mask;
  }
  w->objects[w->count].object = object;
  w->objects[w->count].parent = parent;
  w->places[at] = ++w->count;
  *is_new = 1;
  return w->count - 1;
}
