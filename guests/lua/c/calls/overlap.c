/*
** Which calls of C modules overlap: what a call uses, and who waits for it. The policy of the
** function decides (policies.c).
**
** Calls overlap after a retake, if one gives way, or if one calls back and the callback waits or is
** preempted. From then on until the call returns, what it uses is in use (seam/objects_in_use.c).
** Then, or while native threads are short, `baton_calls_watched` is set, and each call of a C
** function comes here first. At other times the check costs nothing.
**
** A process that calls what another one uses waits. A process never waits for itself, so callbacks
** may call the module again.
**
** | the module is | beside a callback that waits, another process |
** |---|---|
** | known to serve others then, or declared as `loop` | enters at once |
** | known, or declared otherwise | waits until the call has returned |
** | neither | waits for a second at most: an event loop never returns |
**
** If a process has waited for a second, a warning says so, once for each function.
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "calls/policies.h"
#include "state/state.h"

/* Nanoseconds that others wait for a call before they are told, or enter. */
#define PATIENCE 1000000000u

/* {======================================================
** What a call uses
** ======================================================= */

/* A call in progress, or one that is about to be made. */
struct call {
  struct baton_module *module;
  lua_State *L;
  CallInfo *ci;
  enum policy policy;
};

/* Returns 0 if the function belongs to no known module. */
static int find_call(lua_State *L, CallInfo *ci, lua_CFunction function, struct call *call) {
  call->module = baton_policies_find(function);
  call->L = L;
  call->ci = ci;
  if (call->module == NULL) return 0;
  call->policy = baton_policies_of(call->module, function);
  return 1;
}

static const TValue *end_of_arguments(const struct call *call) {
  const CallInfo *ci = call->ci;
  return s2v(ci == call->L->ci ? call->L->top.p : ci->next->func.p);
}

/* The userdata that a call is about: its first argument, or else an upvalue of the function. */
static const Udata *userdata_of(const struct call *call) {
  const TValue *function = s2v(call->ci->func.p), *first = s2v(call->ci->func.p + 1);
  if (first < end_of_arguments(call) && ttisfulluserdata(first)) return uvalue(first);
  if (ttypetag(function) == LUA_VCCL) {
    const CClosure *closure = clCvalue(function);
    int i;
    for (i = 0; i < closure->nupvalues; i++)
      if (ttisfulluserdata(&closure->upvalue[i])) return uvalue(&closure->upvalue[i]);
  }
  return NULL;
}

static void *memory_of(const Udata *userdata) {
  return userdata != NULL ? (void *)getudatamem(userdata) : NULL;
}

/* What was made from a connection notes the connection in its last user value. */
static void *connection_of(const Udata *userdata) {
  const TValue *last;
  if (userdata == NULL || userdata->nuvalue == 0) return memory_of(userdata);
  last = &userdata->uv[userdata->nuvalue - 1].uv;
  return ttislightuserdata(last) ? pvalue(last) : memory_of(userdata);
}

void *baton_lua_connection_of_new(lua_State *L) {
  const lua_CFunction function = baton_lua_running_function(L);
  struct call call;
  if (function == NULL || baton_lua_is_ours(function) || !find_call(L, L->ci, function, &call))
    return NULL;
  return call.policy == CONNECTION ? connection_of(userdata_of(&call)) : NULL;
}

typedef int visitor(const struct call *call, void *object, void *data);

static int visit_value(
    const struct call *call, const TValue *value, visitor *visit, void *data) {
  return ttisfulluserdata(value) && visit(call, getudatamem(uvalue(value)), data);
}

/* An exclusive function may use all its arguments. */
static int visit_all_userdata(const struct call *call, visitor *visit, void *data) {
  const TValue *function = s2v(call->ci->func.p), *end = end_of_arguments(call);
  StkId argument;
  int i;
  for (argument = call->ci->func.p + 1; s2v(argument) < end; argument++)
    if (visit_value(call, s2v(argument), visit, data)) return 1;
  for (i = 0; ttypetag(function) == LUA_VCCL && i < clCvalue(function)->nupvalues; i++)
    if (visit_value(call, &clCvalue(function)->upvalue[i], visit, data)) return 1;
  return 0;
}

/* Calls `visit` for each object that the call uses, until that returns nonzero. Returns whether it
   did. */
static int visit_used(const struct call *call, visitor *visit, void *data) {
  void *object = NULL;
  switch (call->policy) {
    case CONCURRENT: return 0;
    case SERIAL: return visit(call, call->module, data);
    case OBJECT: object = memory_of(userdata_of(call)); break;
    case CONNECTION: object = connection_of(userdata_of(call)); break;
    case CLOSES:
      object = connection_of(userdata_of(call));
      if (visit(call, call->module, data)) return 1;
      break;
    default:
      return visit(call, call->module, data) || visit_all_userdata(call, visit, data);
  }
  return object != NULL && visit(call, object, data);
}

/* What others may do with the call's module while the call's callback waits. */
static enum baton_in_callbacks in_callbacks(const struct call *call) {
  const struct baton_built_in_policy *known = baton_policies_known(call->module);
  if (call->policy == LOOP) return OTHERS_ENTER;
  return known != NULL ? known->in_callbacks : OTHERS_WAIT;
}

static int keep(const struct call *call, void *object, void *data) {
  struct baton_use_list *list = data;
  if (object == call->module && in_callbacks(call) == OTHERS_WAIT_FOR_ARGUMENTS) return 0;
  return !baton_lua_keep_in_use(list, call->L, call->ci, object);
}

void baton_lua_keep_used_by(
    lua_State *L, CallInfo *ci, lua_CFunction function, struct baton_use_list *list) {
  struct call call;
  if (find_call(L, ci, function, &call) && in_callbacks(&call) != OTHERS_ENTER)
    visit_used(&call, keep, list);
}

/* What a call of a module uses only until it calls back, or NULL. */
static void *used_until_callback(const struct call *call) {
  if (in_callbacks(call) != OTHERS_ENTER || call->policy != OBJECT) return NULL;
  return memory_of(userdata_of(call));
}

int baton_lua_policy_allows(lua_State *L, lua_CFunction function, void **object) {
  struct call call;
  if (!find_call(L, L->ci, function, &call) || !baton_policy_lets_others_run(call.policy)) return 0;
  *object = used_until_callback(&call);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Waiting
** ======================================================= */

/* Whether nothing is known of the function's module, so that nobody waits for ever for a call. */
static int is_undeclared(lua_CFunction function) {
  const struct baton_module *module = baton_policies_find(function);
  return module != NULL && baton_policies_known(module) == NULL && !module->is_declared;
}

/* Others have waited for a call for long. Inside the VM before and after. */
static void lose_patience(
    lua_State *L, struct baton_process *process, const void *object) {
  struct baton_use *use = baton_lua_use_of(process, object);
  int enters;
  if (use == NULL || use->ci == NULL) return;
  baton_lua_settle_uses(use->process); /* is it in its call, still? */
  use = baton_lua_use_of(process, object);
  if (use == NULL || use->ci == NULL) return;
  use->was_reported = 1;
  enters = is_undeclared(use->function);
  if (enters) baton_lua_give_up_uses(use);
  baton_lua_warn_of_use(L, process, use, enters);
}

/* How long to wait before somebody says that the object is in use for long. */
static baton_timeout patience_with(struct baton_use *use) {
  uint64_t now, waited;
  if (use == NULL || use->ci == NULL || use->was_reported) return BATON_FOREVER;
  now = baton_now();
  if (use->awaited_since == 0) use->awaited_since = now;
  waited = now - use->awaited_since;
  return (baton_timeout)(waited < PATIENCE ? PATIENCE - waited : 0);
}

int baton_lua_wait_for_object(lua_State *L, struct baton_process *process, const void *object) {
  struct baton_use *use = baton_lua_use_of(process, object);
  struct baton_wake wake;
  if (use == NULL || process->vm->closing) return 0;
  if (use->ci != NULL && is_undeclared(use->function) && !baton_lua_may_wait_here(process))
    return 0;
  lua_unlock(L);
  baton_lua_check_may_wait(L, process);
  lua_lock(L);
  /* Asked again: outside, this call may have been retaken, and the object may be free by now. */
  use = baton_lua_use_of(process, object);
  if (use == NULL) return 1;
  wake = baton_queue_wait(process->vm->executor, process->vm->object_queue, patience_with(use));
  if (wake.reason == BATON_TIMED_OUT) lose_patience(L, process, object);
  lua_unlock(L);
  baton_lua_after_wait(L, process, wake);
  lua_lock(L);
  return 1;
}

/* At the end of the program no process waits for a call any more. */
static int wait_or_refuse(const struct call *call, void *object, void *data) {
  struct baton_process *process = data;
  const struct baton_use *use;
  if (!process->vm->closing) return baton_lua_wait_for_object(call->L, process, object);
  use = baton_lua_use_of(process, object);
  if (use != NULL && (use->ci == NULL || !is_undeclared(use->function)))
    luaG_runerror(call->L, "a call of the module '%s' that has not returned uses this",
        call->module->name);
  return 0;
}

/* Whether one VM at a time may call the function. */
static int needs_turn(const struct baton_module *module, lua_CFunction function) {
  const struct baton_built_in_policy *known = baton_policies_known(module);
  const enum policy policy = baton_policies_of(module, function);
  if (known != NULL && known->is_one_vms) return 1;
  return policy == SERIAL || policy == CLOSES ||
      (!baton_policy_lets_others_run(policy) && known == NULL);
}

const void *baton_lua_finalizer_waits_for(
    struct baton_process *process, lua_CFunction function, const struct TValue *object) {
  struct baton_module *module = baton_policies_find(function);
  const Udata *userdata = ttisfulluserdata(object) ? uvalue(object) : NULL;
  const void *used[2] = {module, NULL};
  int i;
  if (module == NULL) return NULL;
  if (needs_turn(module, function) && baton_turns_are_others(process, &module->turns))
    return &module->turns;
  if (process->vm->busy_count == 0) return NULL;
  switch (baton_policies_of(module, function)) {
    case CONCURRENT: return NULL;
    case OBJECT: used[0] = memory_of(userdata); break;
    case CONNECTION: used[0] = connection_of(userdata); break;
    case CLOSES: used[1] = connection_of(userdata); break;
    default: break;
  }
  for (i = 0; i < 2; i++)
    if (used[i] != NULL && baton_lua_is_busy(process, used[i])) return used[i];
  return NULL;
}

/* Waits for the turn of the VM to call a function of the program's. A module whose opener is being
   called is new. Inside the VM before and after. */
static void begin_turn(lua_State *L, struct baton_process *process, struct baton_module *module,
    lua_CFunction function) {
  if (module == NULL) module = baton_policies_add_opened(function);
  if (module != NULL && needs_turn(module, function))
    baton_turns_begin(L, process, &module->turns, module->name);
}

void baton_lua_before_foreign_call(
    lua_State *L, struct baton_process *process, lua_CFunction function) {
  struct call call;
  /* Relaxed: a VM beside the first one starts after it was set. */
  if (__atomic_load_n(&baton_turns_are_on, __ATOMIC_RELAXED))
    begin_turn(L, process, baton_policies_find(function), function);
  /* What follows waits for objects in use, or for threads. */
  if (process->vm->busy_count == 0 && !process->vm->threads_are_short) return;
  if (!find_call(L, L->ci, function, &call)) return;
  do {
    if (process->vm->threads_are_short && !process->vm->closing &&
        baton_policy_lets_others_run(call.policy)) {
      lua_unlock(L);
      baton_lua_before_blocking(L, process);
      lua_lock(L);
    }
    call.policy = baton_policies_of(call.module, function); /* it may have been declared since */
  } while (visit_used(&call, wait_or_refuse, process));
}

/* }====================================================== */
