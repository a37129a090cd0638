/*
** The cores that the program may use: those of its first thread, which no VM binds to one.
*/
#include "vms/vms.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#if !defined(__APPLE__)

static void get_usable(cpu_set_t *set) {
  CPU_ZERO(set);
  if (sched_getaffinity(getpid(), sizeof *set, set) != 0) CPU_SET(0, set);
}

#else

/* macOS does not say which cores a program may use, so these are all. */
typedef struct {
  int count;
} cpu_set_t;

#define CPU_SETSIZE 1024
#define CPU_COUNT(set) ((set)->count)
#define CPU_ISSET(core, set) ((int)(core) < (set)->count)

static void get_usable(cpu_set_t *set) {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  set->count = count < 1 ? 1 : count > CPU_SETSIZE ? CPU_SETSIZE : (int)count;
}

#endif

/* cores() -> how many of them the program can keep busy: a quota of processor time that is no whole
   number counts as the next one */
int baton_vms_cores(lua_State *L) {
  cpu_set_t set;
  int cores, quota;
  get_usable(&set);
  cores = CPU_COUNT(&set);
  quota = baton_vms_quota();
  lua_pushinteger(L, quota > 0 && quota < cores ? quota : cores);
  return 1;
}

/* Writes the numbers in the set, such as "0-3, 6". */
static void name_all(const cpu_set_t *set, char *text, size_t size) {
  size_t length = 0;
  int core = 0, last;
  text[0] = '\0';
  for (; core < CPU_SETSIZE && length < size; core++) {
    const char *comma = length > 0 ? ", " : "";
    if (!CPU_ISSET(core, set)) continue;
    for (last = core; last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set);) last++;
    length += (size_t)(last > core
            ? snprintf(text + length, size - length, "%s%d-%d", comma, core, last)
            : snprintf(text + length, size - length, "%s%d", comma, core));
    core = last;
  }
}

int baton_vms_may_use(lua_Integer core, char *message, size_t size) {
  cpu_set_t set;
  char usable[BATON_MESSAGE / 2];
  get_usable(&set);
  if (core >= 0 && core < CPU_SETSIZE && CPU_ISSET((size_t)core, &set)) return 1;
  name_all(&set, usable, sizeof usable);
  snprintf(message, size, "no core " LUA_INTEGER_FMT ": the program may use %s", core, usable);
  return 0;
}
