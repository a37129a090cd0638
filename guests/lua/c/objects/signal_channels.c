/*
** process.signals: channels that receive the names of signals.
**
** The handler notes the signal with a number for the order of arrival, and requests a safepoint. At
** the safepoint, inside the VM, `baton_lua_deliver_signals` posts each noted signal to the channels
** that are open for it. A channel holds each signal at most once. So a storm of one signal does not
** fill it, and hides no other signal.
**
** No signal is lost. The handler notes the signal before it sets the request
** (baton_request_signalled). The owner clears the request before it reads the notes. So either
** the owner reads this note, or the request comes later and the owner reads the notes again.
*/
#include "objects/objects.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNALS 64 /* numbers 1 to 64: a set of them fits into 64 bits */

static uint64_t bit_of(int signal) { return (uint64_t)1 << (signal - 1); }

/* {======================================================
** Notes of the handlers
** ======================================================= */

/* For each signal its number in the order of arrival; 0: it has not arrived. Written by handlers,
   cleared by the owner of the VM. */
static uint64_t arrived[SIGNALS + 1];
static uint64_t arrivals; /* the last number given out */

static void on_signal(int signal) {
  const int saved_errno = errno;
  uint64_t none = 0;
  /* Relaxed: the number only has to be unique */
  uint64_t place = __atomic_add_fetch(&arrivals, 1, __ATOMIC_RELAXED);
  /* Release: pairs with the exchange in `take_arrivals`. A signal that has arrived before keeps its
     number. */
  __atomic_compare_exchange_n(
      &arrived[signal], &none, place, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  baton_lua_ask_for_safepoint();
  errno = saved_errno;
}

struct arrival {
  uint64_t place;
  int signal;
};

static int by_place(const void *left, const void *right) {
  const struct arrival *one = left, *other = right;
  return one->place < other->place ? -1 : one->place > other->place;
}

/* Clears the notes, and writes them to `list` in the order of arrival. Returns their number. */
static int take_arrivals(struct arrival *list) {
  int signal, count = 0;
  for (signal = 1; signal <= SIGNALS; signal++) {
    /* Relaxed: the exchange below orders it */
    if (__atomic_load_n(&arrived[signal], __ATOMIC_RELAXED) == 0) continue;
    /* Acquire: pairs with the release in `on_signal` */
    list[count].place = __atomic_exchange_n(&arrived[signal], 0, __ATOMIC_ACQUIRE);
    list[count++].signal = signal;
  }
  qsort(list, (size_t)count, sizeof *list, by_place);
  return count;
}

/* In a fork's child, before it continues: forgets signals that were for the parent. */
static void forget_arrivals(void) { memset(arrived, 0, sizeof arrived); }

/* }====================================================== */

/* {======================================================
** Actions
** ======================================================= */

/* For each signal: how many channels are open for it, and its action while there are none. Guarded
   by the VM lock. */
static unsigned open_channels[SIGNALS + 1];
static struct sigaction former[SIGNALS + 1];

static struct channel *first_channel; /* the list of open channels. Guarded by the VM lock. */

static void set_handler(struct sigaction *action, void (*handler)(int)) {
  memset(action, 0, sizeof *action);
  action->sa_handler = handler;
  action->sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action->sa_mask);
}

void baton_lua_set_action(int signal, void (*handler)(int)) {
  struct sigaction action;
  set_handler(&action, handler);
  if (open_channels[signal] > 0)
    former[signal] = action;
  else
    sigaction(signal, &action, NULL);
}

static int watch(int signal) {
  struct sigaction action;
  if (open_channels[signal]++ > 0) return 1;
  /* Relaxed: removes the note of a late handler, for a channel that is closed */
  __atomic_store_n(&arrived[signal], 0, __ATOMIC_RELAXED);
  set_handler(&action, on_signal);
  if (sigaction(signal, &action, &former[signal]) == 0) return 1;
  open_channels[signal]--;
  return 0;
}

static void unwatch(int signal) {
  if (--open_channels[signal] == 0) sigaction(signal, &former[signal], NULL);
}

void baton_lua_deliver_signals(struct baton_vm *vm) {
  struct arrival list[SIGNALS];
  int i, count;
  const struct channel *channel;
  if (first_channel == NULL) return;
  count = take_arrivals(list);
  for (i = 0; i < count; i++)
    for (channel = first_channel; channel != NULL; channel = channel->next_of_signals)
      if (channel->signals & bit_of(list[i].signal))
        baton_channel_post_once(vm->executor, channel->handle.id, (uint64_t)list[i].signal);
}

void baton_lua_forget_signals(void) {
  const struct channel *channel;
  for (channel = first_channel; channel != NULL; channel = channel->next_of_signals)
    baton_channel_clear(channel->handle.vm->executor, channel->handle.id);
}

static void end_signals(struct channel *channel) {
  struct channel **link = &first_channel;
  int signal;
  if (!channel->is_listed) return;
  baton_lua_deliver_signals(channel->handle.vm);
  while (*link != channel) link = &(*link)->next_of_signals;
  *link = channel->next_of_signals;
  channel->is_listed = 0;
  baton_channel_set_fed(channel->handle.vm->executor, channel->handle.id, 0);
  for (signal = 1; signal <= SIGNALS; signal++)
    if (channel->signals & bit_of(signal)) unwatch(signal);
}

/* }====================================================== */

static const struct channel_source source = {baton_lua_deliver_signals, end_signals};

/* {======================================================
** Names
** ======================================================= */

struct name {
  const char *name;
  int signal;
};

static const struct name names[] = {{"HUP", SIGHUP}, {"INT", SIGINT}, {"QUIT", SIGQUIT},
    {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},
    {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF},
    {"WINCH", SIGWINCH}, {"IO", SIGIO},
#ifdef SIGPWR
    {"PWR", SIGPWR},
#endif
    {NULL, 0}};

/* Signals that cannot be caught: the system forbids it for the first two, faults cannot be handled
   later, and the last one preempts processes. */
static const char *const not_caught[] = {
    "KILL", "STOP", "SEGV", "BUS", "FPE", "ILL", "TRAP", "ABRT", "SYS", "URG", NULL};

#ifdef SIGRTMIN
/* The number of "RTMIN", "RTMIN+n" or "RTMAX-n". Returns 0 for other texts and for unknown
   numbers. */
static int real_time_signal(const char *name) {
  const int is_from_end = strncmp(name, "RTMAX", 5) == 0;
  long offset = 0;
  char *end = (char *)name + 5;
  if (!is_from_end && strncmp(name, "RTMIN", 5) != 0) return 0;
  if (*end != '\0') {
    if (*end != (is_from_end ? '-' : '+') || end[1] < '0' || end[1] > '9') return 0;
    offset = strtol(end + 1, &end, 10);
  }
  if (*end != '\0' || offset > SIGRTMAX - SIGRTMIN) return 0;
  return is_from_end ? SIGRTMAX - (int)offset : SIGRTMIN + (int)offset;
}
#else
static int real_time_signal(const char *name) { return name == NULL; }
#endif

static int check_signal(lua_State *L, int index) {
  int i, signal;
  const char *name;
  if (lua_type(L, index) != LUA_TSTRING) luaL_typeerror(L, index, "name of a signal");
  name = lua_tostring(L, index);
  for (i = 0; names[i].name != NULL; i++)
    if (strcmp(name, names[i].name) == 0) return names[i].signal;
  for (i = 0; not_caught[i] != NULL; i++)
    if (strcmp(name, not_caught[i]) == 0)
      luaL_argerror(L, index, lua_pushfstring(L, "signal '%s' cannot be caught", name));
  signal = real_time_signal(name);
  if (signal != 0) return signal;
  if (strncmp(name, "SIG", 3) == 0)
    luaL_argerror(L, index,
        lua_pushfstring(L, "unknown signal '%s'; names come without SIG: '%s'", name, name + 3));
  return luaL_argerror(L, index, lua_pushfstring(L, "unknown signal '%s'", name));
}

/* }====================================================== */

/* Opens the channel for its signals. Returns 0, or a signal that the system refuses. Then it has
   undone everything. */
static int begin_signals(struct channel *channel) {
  int signal, refused = 0;
  for (signal = 1; signal <= SIGNALS && refused == 0; signal++)
    if (channel->signals & bit_of(signal) && !watch(signal)) refused = signal;
  if (refused != 0) {
    for (signal = 1; signal < refused; signal++)
      if (channel->signals & bit_of(signal)) unwatch(signal);
    return refused;
  }
  channel->next_of_signals = first_channel;
  channel->is_listed = 1;
  first_channel = channel;
  baton_channel_set_fed(channel->handle.vm->executor, channel->handle.id, 1);
  return 0;
}

/* Names the channel after its signals, the arguments, for reports. It names as many as fit. */
static void name_channel(lua_State *L, const struct channel *channel, int count) {
  char name[BATON_OBJECT_NAME] = "signals";
  size_t used = strlen(name);
  int i;
  for (i = 1; i <= count; i++) {
    const char *signal = lua_tostring(L, i);
    if (used + strlen(signal) + 2 > sizeof name) break;
    used += (size_t)snprintf(name + used, sizeof name - used, " %s", signal);
  }
  baton_enter(L);
  baton_set_object_name(channel->handle.vm->executor, BATON_CHANNEL, channel->handle.id, name);
  baton_leave(L);
}

/* process.signals(name, ...). The values of the channel are numbers of signals. Its table maps them
   to names. */
static int process_signals(lua_State *L) {
  static int is_prepared;
  const int count = lua_gettop(L);
  struct channel *channel;
  uint64_t signals = 0;
  int i, refused;
  check_signal(L, 1);
  for (i = 1; i <= count; i++) signals |= bit_of(check_signal(L, i));
  channel = baton_lua_new_channel(L, SIGNALS);
  lua_getiuservalue(L, -1, 1);
  for (i = 1; i <= count; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, check_signal(L, i));
  }
  lua_pop(L, 1);
  channel->signals = signals;
  channel->source = &source;
  name_channel(L, channel, count);
  baton_enter(L);
  if (!is_prepared) is_prepared = pthread_atfork(NULL, NULL, forget_arrivals) == 0;
  refused = begin_signals(channel);
  baton_leave(L);
  if (refused != 0) {
    channel->signals = 0;
    channel->source = NULL;
    luaL_error(L, "the system does not let signal %d be caught: %s", refused, strerror(errno));
  }
  return 1;
}

/* Adds process.signals to the module's table on the top of the stack. */
void baton_lua_open_signals(lua_State *L) {
  lua_pushcfunction(L, process_signals);
  lua_setfield(L, -2, "signals");
}
