/*
** Warnings of delays longer than the parameter warn_blocked. An exclusive call, the collector, or a
** call on a thread that others need can cause one. Each function is warned of once, with advice.
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "state/state.h"

#include <stdio.h>
#include <string.h>

/* Installed by higher folders: whether a callback from another thread waits for a listener, and the
   function that ends the program. */
static int (*has_queued_calls)(const struct baton_lua_vm *vm);
static lua_CFunction function_that_ends;

void baton_lua_set_queued_calls_test(int (*has)(const struct baton_lua_vm *vm)) {
  has_queued_calls = has;
}

void baton_lua_note_function_that_ends(lua_CFunction function) { function_that_ends = function; }

enum subject { OF_ALL, OF_ITS_THREAD, OF_WHAT_IT_USES, OF_A_COPY, SUBJECTS };

/* Whether the function was warned of before, in any VM. The table has no lock, so a fork cannot
   leave it locked. It forgets what does not fit. */
static int was_warned_of(enum subject subject, lua_CFunction function) {
  static lua_CFunction warned[SUBJECTS][64];
  size_t i;
  for (i = 0; i < sizeof warned[subject] / sizeof *warned[subject]; i++) {
    lua_CFunction there = NULL;
    /* Relaxed: a slot is written once, and no other data depends on it. */
    if (__atomic_compare_exchange_n(
            &warned[subject][i], &there, function, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return 0;
    if (there == function) return 1;
  }
  return 0;
}

/* The place in the program, in parentheses after a space; nothing if there is none. */
static const char *place_of(const struct baton_process *process, char text[BATON_SITE + 16]) {
  char site[BATON_SITE];
  baton_lua_place(process, site, sizeof site);
  snprintf(text, BATON_SITE + 16, site[0] != '\0' ? " (at %s)" : "", site);
  return text;
}

/* Where the call does not name the function, and no loaded module does, names the call's place. */
static void name_function(struct baton_process *process, lua_State *L, char *name, size_t size) {
  int is_named;
  process->vm->in_report++;
  is_named = baton_lua_name_function(L, name, size);
  process->vm->in_report--;
  if (!is_named) {
    const size_t length = strlen(name);
    char place[BATON_SITE + 16];
    snprintf(name + length, size - length, "%s", place_of(process, place));
  }
}

void baton_lua_name_call(struct baton_process *process, char *text, size_t size) {
  lua_State *L;
  text[0] = '\0';
  if (process->global == NULL) return;
  L = baton_lua_innermost(process);
  if (baton_lua_running_function(L) != NULL) name_function(process, L, text, size);
}

/* Why a call does not give way although its module's policy allows it: the place of the call. NULL:
   not known. */
static const char *place_without_others(const struct baton_process *process, const lua_State *L) {
  if (baton_lua_is_in_finalizer(process)) return "a finalizer";
  if (!L->allowhook) return "a hook";
  if (process->foreign_states > 0) return "a call on another state";
  return NULL;
}

/* Says what the user can do about a call of a C module. */
static void warn_of_module(struct baton_process *process, const lua_State *L, const char *title,
    const char *name, const struct baton_policy_of_call *policy) {
  const char *place = policy->lets_others_run ? place_without_others(process, L) : NULL;
  if (policy->lets_others_run)
    baton_lua_warn("baton: warning: %s: %s of the module '%s' keeps all other processes waiting, "
                   "although its policy lets them run: %s%s. Call it %s, or raise "
                   "process.params.warn_blocked if this is meant.\n",
        title, name, policy->module,
        place != NULL ? "it is called in "
                      : "its process lets nobody preempt it, or there is no native thread for them",
        place != NULL ? place : "",
        place != NULL ? "elsewhere"
                      : "in a process that is preemptible, or raise process.params.max_threads");
  else if (policy->why != NULL)
    baton_lua_warn("baton: warning: %s: %s of the module '%s' keeps all other processes waiting. "
                   "Others may not run beside it: %s. Give it less at a time, or call it "
                   "in a program of its own (io.popen), or raise process.params.warn_blocked if "
                   "this is meant.\n",
        title, name, policy->module, policy->why);
  else if (policy->is_declared)
    baton_lua_warn("baton: warning: %s: %s of the module '%s', which is declared exclusive, keeps "
                   "all other processes waiting. Give it less at a time, or call it "
                   "in a program of its own (io.popen), or raise process.params.warn_blocked if "
                   "this is meant.\n",
        title, name, policy->module);
  else
    baton_lua_warn("baton: warning: %s: %s of the module '%s' keeps all other processes waiting. "
                   "If its calls may overlap, say so: "
                   "process.concurrent('%s', 'object'), or 'serial' or 'concurrent', or "
                   "BATON_CONCURRENT in the environment. Else call it in a program of its "
                   "own (io.popen), or raise process.params.warn_blocked if this is meant.\n",
        title, name, policy->module, policy->module);
}

/* {======================================================
** The collector
** ======================================================= */

int baton_lua_has_delayed(const struct baton_lua_vm *vm) { return vm->collector_caused_delay; }

static int warn_of_collector(void) {
  static int was_warned;
  /* relaxed: it orders nothing */
  if (__atomic_exchange_n(&was_warned, 1, __ATOMIC_RELAXED)) return 0;
  baton_lua_warn("baton: warning: the garbage collector keeps all processes waiting, in a piece of "
                 "its work that cannot be interrupted. It is the shorter, the less is "
                 "alive and the smaller the tables are; call collectgarbage 'step' rather than "
                 "have all collected at once; or raise "
                 "process.params.warn_blocked if this is meant.\n");
  return 1;
}

/* }====================================================== */

static void warn_of_copy(const struct baton_process *process, const char *title) {
  char place[BATON_SITE + 16];
  baton_lua_warn("baton: warning: %s: a large value is being copied for another VM%s, and keeps "
                 "all other processes waiting. Send it in smaller pieces, or as a buffer or a "
                 "frozen value (vm.buffer, vm.freeze), or raise process.params.warn_blocked if "
                 "this is meant.\n",
      title, place_of(process, place));
}

/* On the monitor's thread, which owns the VM at that moment, or on the call's own thread. Allocates
   nothing and raises nothing. */
int baton_lua_warn_blocked(struct baton_process *process) {
  struct baton_policy_of_call policy;
  lua_State *L;
  char title[BATON_TITLE], name[160];
  lua_CFunction function;
  if (process->global == NULL) return 0;
  if (process->vm->collector_caused_delay) {
    process->vm->collector_caused_delay = 0;
    return warn_of_collector();
  }
  L = baton_lua_innermost(process);
  function = baton_lua_running_function(L);
  if (function == NULL || function == function_that_ends) return 0;
  if (was_warned_of(process->copies ? OF_A_COPY : OF_ALL, function)) return 0;
  name_function(process, L, name, sizeof name);
  if (process->copies)
    warn_of_copy(process, baton_lua_title(process, title));
  else if (process->criticals > 0)
    baton_lua_warn("baton: warning: %s: %s, called inside process.critical, keeps all other "
                   "processes%s waiting. Call it outside of the "
                   "section, or raise process.params.warn_blocked if this is meant.%s\n",
        baton_lua_title(process, title), name,
        has_queued_calls(process->vm) ? ", and a callback from another thread," : "",
        has_queued_calls(process->vm) ? " If it waits for that thread, it waits for ever."
                                            : "");
  else if (baton_lua_policy_of_call(function, &policy))
    warn_of_module(process, L, baton_lua_title(process, title), name, &policy);
  else
    baton_lua_warn("baton: warning: %s: %s keeps all other processes waiting. Do it in smaller "
                   "pieces, or raise process.params.warn_blocked "
                   "if this is meant.\n",
        baton_lua_title(process, title), name);
  return 1;
}

/* The call of `holder` occupies the native thread that `waiter` and others need. Outside the VM,
   while no other process can run. */
void baton_lua_warn_thread(
    struct baton_process *holder, struct baton_process *waiter, int is_bound) {
  lua_State *L;
  char title[BATON_TITLE], of_waiter[BATON_TITLE], name[160];
  lua_CFunction function;
  if (holder->global == NULL) return;
  L = baton_lua_innermost(holder);
  function = baton_lua_running_function(L);
  if (function == NULL || was_warned_of(OF_ITS_THREAD, function)) return;
  name_function(holder, L, name, sizeof name);
  baton_lua_warn("baton: warning: %s: %s has the native thread of %s, which %s, and keeps it "
                 "waiting. Call it in a process that is bound to a thread of its own "
                 "(process.spawn({ thread = 'name' }, ...)), or raise process.params.warn_blocked "
                 "if this is meant.\n",
      baton_lua_title(holder, title), name, baton_lua_title(waiter, of_waiter),
      is_bound ? "is bound to it" : "has a C function's frames there");
}

/* While a report is made, no call is retaken. So the frame stays, although its name is found
   outside. */
void baton_lua_warn_of_use(
    lua_State *L, struct baton_process *process, const struct baton_use *use, int enters) {
  struct baton_policy_of_call policy;
  char title[BATON_TITLE], of_waiter[BATON_TITLE], name[160];
  if (was_warned_of(OF_WHAT_IT_USES, use->function)) return;
  if (!baton_lua_policy_of_call(use->function, &policy)) return;
  baton_lua_title(use->process, title);
  baton_lua_title(process, of_waiter);
  process->vm->in_report++;
  lua_unlock(L);
  baton_lua_name_frame(use->L, use->ci, name, sizeof name);
  lua_lock(L);
  process->vm->in_report--;
  lua_unlock(L);
  if (enters)
    baton_lua_warn("baton: warning: %s: %s of the module '%s' has called back, and kept %s waiting "
                   "for a second, which now calls the module beside it. If the function is an "
                   "event loop, say so: process.concurrent('%s', 'loop'). Else let others wait "
                   "until it has returned: process.concurrent('%s', 'exclusive').\n",
        title, name, policy.module, of_waiter, policy.module, policy.module);
  else
    baton_lua_warn("baton: warning: %s: %s of the module '%s' has kept %s waiting for a second: "
                   "one call at a time may use what it uses, callbacks included. Make the call "
                   "shorter, or give each process an object of its own.%s%s%s\n",
        title, name, policy.module, of_waiter,
        policy.is_declared ? " If the function is an event loop, say so: process.concurrent('" : "",
        policy.is_declared ? policy.module : "", policy.is_declared ? "', 'loop')." : "");
  lua_lock(L);
}

void baton_lua_warn_of_foreign_state(const struct baton_process *process) {
  static int warned;
  char title[BATON_TITLE];
  if (!warned) {
    warned = 1;
    baton_lua_warn("baton: warning: %s calls on a lua_State that another process runs on "
            "(a module stored it); no other process runs until that call returns\n",
            baton_lua_title(process, title));
  }
}
