/*
** process.signals: channels that receive the names of signals.
**
** The handler notes the signal and requests a safepoint. There, inside the VM,
** `baton_lua_deliver_signals` posts each noted signal to the channels that are open for it, in the
** order of arrival. A channel holds each signal at most once. So a storm of one signal does not
** fill it, and hides no other signal.
**
** No signal is lost. The handler notes the signal before it sets the request
** (baton_request_signalled). The owner clears the request before it reads the notes, which are in
** runtime/sys/src/signals/arrivals.rs. So either the owner reads this note, or the request comes
** later and the owner reads the notes again.
*/
#include "objects/objects.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static uint64_t bit_of(int signal) { return (uint64_t)1 << (signal - 1); }

static void on_signal(int signal, const void *info, const void *context) {
  const int saved_errno = errno;
  (void)context;
  if (signal == SIGQUIT && baton_lua_is_observers(info)) {
    baton_lua_quit(1);
  } else {
    baton_note_signal(signal);
    baton_lua_ask_for_safepoint();
  }
  errno = saved_errno;
}

static struct channel *first_channel; /* the list of open channels. Guarded by the VM lock. */

void baton_lua_deliver_signals(struct baton_lua_vm *vm) {
  int list[BATON_SIGNALS];
  size_t i, count;
  const struct channel *channel;
  if (first_channel == NULL) return;
  count = baton_take_signals(list);
  for (i = 0; i < count; i++)
    for (channel = first_channel; channel != NULL; channel = channel->next_of_signals)
      if (channel->signals & bit_of(list[i]))
        baton_channel_post_once(vm->executor, channel->handle.id, (uint64_t)list[i]);
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
  for (signal = 1; signal <= BATON_SIGNALS; signal++)
    if (channel->signals & bit_of(signal)) baton_unwatch_signal(signal);
}

static const struct channel_source source = {baton_lua_deliver_signals, end_signals};

static int check_signal(lua_State *L, int index) {
  int signal;
  const char *name;
  if (lua_type(L, index) != LUA_TSTRING) luaL_typeerror(L, index, "name of a signal");
  name = lua_tostring(L, index);
  signal = baton_signal_number(name);
  if (signal > 0) return signal;
  if (signal < 0)
    luaL_argerror(L, index, lua_pushfstring(L, "signal '%s' cannot be caught", name));
  if (strncmp(name, "SIG", 3) == 0)
    luaL_argerror(L, index,
        lua_pushfstring(L, "unknown signal '%s'; names come without SIG: '%s'", name, name + 3));
  return luaL_argerror(L, index, lua_pushfstring(L, "unknown signal '%s'", name));
}

/* Opens the channel for its signals. Returns 0, or a signal that the system refuses and the error.
   Then it has undone everything. */
static int begin_signals(struct channel *channel, int *error) {
  int signal, refused = 0;
  for (signal = 1; signal <= BATON_SIGNALS && refused == 0; signal++)
    if (channel->signals & bit_of(signal) &&
        (*error = baton_watch_signal(signal, on_signal)) != 0)
      refused = signal;
  if (refused != 0) {
    for (signal = 1; signal < refused; signal++)
      if (channel->signals & bit_of(signal)) baton_unwatch_signal(signal);
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
  baton_lua_enter(L);
  baton_set_object_name(channel->handle.vm->executor, BATON_CHANNEL, channel->handle.id, name);
  baton_lua_leave(L);
}

/* process.signals(name, ...). The values of the channel are numbers of signals. Its table maps them
   to names. */
static int process_signals(lua_State *L) {
  static int is_prepared;
  const int count = lua_gettop(L);
  struct channel *channel;
  uint64_t signals = 0;
  int i, refused, error = 0;
  check_signal(L, 1);
  if (baton_lua_caller(L)->vm->start != NULL)
    luaL_error(L, "signals arrive in the program's first VM; let it send them on by a vm.channel");
  if (baton_lua_caller(L)->vm->host != NULL)
    luaL_error(L, "the program that embeds Lua handles signals itself");
  for (i = 1; i <= count; i++) signals |= bit_of(check_signal(L, i));
  channel = baton_lua_new_channel(L, BATON_SIGNALS);
  lua_getiuservalue(L, -1, 1);
  for (i = 1; i <= count; i++) {
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, check_signal(L, i));
  }
  lua_pop(L, 1);
  channel->signals = signals;
  channel->source = &source;
  name_channel(L, channel, count);
  baton_lua_enter(L);
  if (!is_prepared) is_prepared = pthread_atfork(NULL, NULL, baton_forget_signals) == 0;
  refused = begin_signals(channel, &error);
  baton_lua_leave(L);
  if (refused != 0) {
    channel->signals = 0;
    channel->source = NULL;
    luaL_error(L, "the system does not let signal %d be caught: %s", refused, strerror(error));
  }
  return 1;
}

/* Adds process.signals to the module's table on the top of the stack. */
void baton_lua_open_signals(lua_State *L) {
  lua_pushcfunction(L, process_signals);
  lua_setfield(L, -2, "signals");
}
