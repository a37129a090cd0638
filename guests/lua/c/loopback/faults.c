/*
** What goes wrong in the network of a simulated run. All is drawn from one generator for the run,
** which begins with its seed. So a seed repeats it.
*/
#include "loopback/loopback.h"

#define MILLISECOND 1000000u

static struct baton_faults faults = {.delay = MILLISECOND};

void baton_loopback_set_faults(const struct baton_faults *now) { faults = *now; }

/* splitmix64, by Sebastiano Vigna */
static uint64_t draw(void) {
  static uint64_t state;
  static int has_begun;
  uint64_t number;
  if (!has_begun) state = baton_lua_simulated_seed();
  has_begun = 1;
  number = state += 0x9e3779b97f4a7c15u;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

uint64_t baton_loopback_draw(uint64_t bound) { return draw() % bound; }

uint64_t baton_loopback_arrival(void) {
  return baton_now() + baton_loopback_draw(faults.delay + 1);
}

uint64_t baton_loopback_passage(size_t size) {
  return faults.rate == 0 ? 0 : (uint64_t)((double)size * 1e9 / (double)faults.rate);
}

size_t baton_loopback_piece(size_t size) {
  size_t piece;
  if (faults.piece == 0) return size;
  piece = 1 + (size_t)baton_loopback_draw(faults.piece);
  return piece < size ? piece : size;
}

static int happens(double chance) {
  return chance > 0 && (double)(draw() >> 11) * 0x1p-53 < chance;
}

int baton_loopback_loses(void) { return happens(faults.loss); }

int baton_loopback_drops(void) { return happens(faults.drop); }

int baton_loopback_repeats(void) { return happens(faults.twice); }

int baton_loopback_number(void) {
  static int numbers = 1 << 20; /* MOST_DESCRIPTORS of the runtime */
  return numbers++;
}
