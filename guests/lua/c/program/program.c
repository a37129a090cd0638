/*
** The program: Lua's state, the main process, and its end.
*/
#include "seam/internals.h"
#include "program/program.h"
#include "modules/modules.h"
#include "net/net.h"
#include "ffi/ffi.h"
#include "io/io.h"
#include "process/process.h"
#include "calls/calls.h"
#include "copying/copying.h"
#include "sharing/sharing.h"
#include "debugger/debugger.h"
#include "state/state.h"
#include "system.h"
#include "lualib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The host's function that reports the error on the top of the stack, and pops it. Set once. */
static void (*report_error)(lua_State *L);

/* Runs the main process of a state that a program embeds (hosting/). Set once, before there is
   one. */
static void (*keep_place)(struct baton_host *host);

/* {======================================================
** The module for other VMs
** ======================================================= */

/* Of the folder above; noted before there is a VM. */
static lua_CFunction open_vm_module;
static void (*free_start)(struct baton_lua_vm *vm);
static void (*halt_others)(const void *executor);

void baton_lua_note_vms(lua_CFunction open, void (*free)(struct baton_lua_vm *vm),
    void (*halt)(const void *executor)) {
  open_vm_module = open;
  free_start = free;
  halt_others = halt;
}

lua_CFunction baton_lua_vm_module(void) { return open_vm_module; }

/* }====================================================== */

/* {======================================================
** The end
** ======================================================= */

int baton_lua_wait_for_rest(lua_State *L) { return baton_lua_finish(L, 1); }

/* Whether other processes keep the program alive when the main process is done. */
int baton_lua_has_rest(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  struct baton_wake wake;
  baton_lua_enter(L);
  wake = baton_wait_for_rest(caller->vm->executor, 0);
  baton_lua_leave(L);
  return baton_lua_after_wait(L, caller, wake) == BATON_TIMED_OUT;
}

/* An allocator that frees nothing. */
static void *keep_memory(void *unused, void *block, size_t old_size, size_t size) {
  void *larger;
  (void)unused;
  if (size == 0) return NULL;
  larger = malloc(size);
  if (larger != NULL && block != NULL) memcpy(larger, block, old_size < size ? old_size : size);
  return larger;
}

void baton_lua_close_state(struct baton_process *process) {
  struct baton_lua_vm *vm = process->vm;
  struct baton_process *last = vm->last;
  lua_State *L = vm->main;
  baton_lua_enter(L);
  if (process->debugged != NULL) baton_seam_hooks.debugged_ends(process);
  baton_lua_stop(vm->executor);
  baton_lua_leave(L);
  /* the end of a whole program leaves its commands to the system */
  if (vm->host != NULL) baton_commands_abandon(vm->commands);
  *last = *process;
  last->L = L;
  last->resumed = NULL;
  vm->closing = 1;
  vm->main_process = NULL;
  vm->heir = NULL;
  baton_gate_set_process(last);
  /* A C function that has not returned may still write to Lua's memory that it was given. */
  if (vm->outstanding > 0 || baton_ffi_is_calling(vm)) lua_setallocf(L, keep_memory, NULL);
  lua_close(L);
  last->global = NULL;
  vm->main = NULL;
}

/* Whether the calling process, the main one, is being killed. If so, its errors are not
   reported. */
int baton_lua_main_was_killed(void) {
  struct baton_process *process = baton_gate_process();
  return process != NULL && process->killed > 0;
}

/* Sets whether the calling process stays on its thread, as it has frames of the host on its
   stack. */
void baton_lua_keep_thread(int on) {
  struct baton_process *process = baton_gate_process();
  if (process == NULL) return;
  baton_lua_enter(process->L); /* the monitor reads it */
  process->keeps_thread = (unsigned char)on;
  baton_lua_leave(process->L);
}

static void before_exit(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (process == NULL || process->vm->closing) return;
  baton_lua_enter(L);
  baton_before_exit(process->vm->executor);
  baton_lua_leave(L);
}

/* The program ends by an error. */
void baton_lua_write_flight(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  if (process == NULL || process->vm->closing) return;
  baton_lua_enter(L);
  baton_write_flight(process->vm->executor, "error");
  baton_lua_leave(L);
}

/* Another process is ending the program, and waits for the caller: ends the caller, whatever holds
   kills back. Its status counts only if no other process has exited. */
static l_noret end_with_program(lua_State *L, struct baton_process *process, int status) {
  int kills;
  if (!process->vm->exiting) {
    process->vm->exiting = 1;
    process->vm->exit_status = status;
  }
  baton_lua_enter(L);
  baton_lua_leave_criticals(process);
  baton_lua_leave(L);
  baton_lua_push_process(L, process);
  for (kills = process->killed; kills < 2; kills++) {
    if (kills == 0)
      lua_pushliteral(L, "the program is ending");
    else
      lua_getiuservalue(L, -1, BATON_UV_REASON);
    baton_lua_kill_process(L, process, process, lua_gettop(L) - 1);
  }
  baton_lua_raise_kill(L, process);
}

/* os.exit([code [, close]]). The state of a program that embeds Lua is not closed: the program's
   own code may use it until it ends. */
int baton_lua_exit_program(lua_State *L) {
  struct baton_process *process;
  int status = EXIT_SUCCESS;
  if (lua_isboolean(L, 1))
    status = lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE;
  else
    status = (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
  process = baton_lua_here(L);
  if (lua_toboolean(L, 2) && (process == NULL || process->vm->host == NULL)) {
    if (process != NULL && process->vm->closing) {
      lua_close(process->vm->main); /* in a finalizer: the other finalizers run first, as in Lua */
    } else if (process != NULL) {
      baton_lua_check_may_wait(L, process);
      if (process->vm->exiting || process->vm->ending) end_with_program(L, process, status);
      process->vm->exiting = 1;
      baton_lua_enter(L);
      baton_lua_leave_criticals(process);
      baton_lua_leave(L);
      baton_lua_finish(L, 0);
      baton_lua_close_state(process);
    }
  } else {
    before_exit(L);
  }
  process = baton_gate_process();
  if (process != NULL) halt_others(process->vm->executor);
  BATON_NOTE_END(status);
  exit(status);
  return 0;
}

/* }====================================================== */

/* {======================================================
** The main process
** ======================================================= */

int baton_lua_open_vm(lua_State *L) {
  struct baton_process *first = lua_touserdata(L, 1), *process;
  struct baton_lua_vm *vm = first->vm;
  baton_lua_open_private(L);
  baton_lua_open_handles(L, vm);
  process = lua_newuserdatauv(L, sizeof *process, BATON_UV_COUNT);
  *process = *first;
  baton_lua_set_name(process, "main", 4);
  process->seal = baton_lua_seal(BATON_SEALED_PROCESS);
  baton_lua_set_sealed_metatable(L, BATON_SEALED_PROCESS);
  lua_pushliteral(L, "main");
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  baton_lua_keep_private(L, vm);
  baton_lua_enter(L);
  vm->main_process = process;
  baton_gate_set_process(process);
  process->marks = NULL;
  baton_set_user_data(vm->executor, process->sched_id, (uintptr_t)process);
  vm->object_queue = baton_queue_new(vm->executor);
  vm->finalizer_queue = baton_queue_new(vm->executor);
  vm->finalized_queue = baton_queue_new(vm->executor);
  vm->require_queue = baton_queue_new(vm->executor);
  baton_lua_leave(L);
  return 0;
}

static int wait_for_rest(lua_State *L) {
  lua_pushinteger(L, baton_lua_finish(L, 1));
  return 1;
}

/* Notifies watchers that the main process was killed. It continues only to wait for the others. */
static void notify_of_kill(struct baton_process *process) {
  lua_settop(process->L, 0);
  baton_lua_prepare_ending(process, BATON_WAS_KILLED);
  baton_lua_enter(process->L);
  baton_lua_post_ending(process);
  process->is_ending = 0;
  baton_lua_leave(process->L);
}

/* Pushes the message about the kill of the main process. The argument is its record. */
static int describe_kill(lua_State *L) {
  baton_lua_push_reason(L, lua_touserdata(L, 1));
  lua_pushfstring(L, "the main process was killed: %s", luaL_tolstring(L, -1, NULL));
  return 1;
}

/* Of the program's first VM: tells that its main process was killed. */
static void report_kill(lua_State *L, struct baton_process *process) {
  if (process->vm->start != NULL) return;
  lua_pushcfunction(L, describe_kill);
  lua_pushlightuserdata(L, process);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    lua_pop(L, 1);
    lua_pushliteral(L, "the main process was killed");
  }
  report_error(L);
}

/* Continues after a kill of the main process: waits for the others. */
static void end_after_kill(lua_State *L, struct baton_process *process) {
  baton_lua_enter(L);
  baton_withdraw_kill(process->vm->executor, process->sched_id);
  process->killed = 0;
  baton_lua_leave(L);
  lua_settop(L, 0);
  report_kill(L, process);
  lua_pushcfunction(L, wait_for_rest);
  (void)lua_pcall(L, 0, 1, 0);
}

/* Makes a state that lives as long as the VM, and returns its address. */
static int make_last_state(lua_State *L) {
  lua_State *last = lua_newthread(L);
  baton_lua_set_base_depth(last);
  baton_lua_keep_private(L, last);
  lua_pushlightuserdata(L, last);
  return 1;
}

/* Waits for the others, and ends those that are left. It uses a state of its own, as the process's
   state has the results for its joiners. */
static int end_others(struct baton_process *process) {
  struct baton_resumed resumed;
  int status = EXIT_FAILURE;
  lua_State *last = NULL;
  if (lua_checkstack(process->L, 4)) {
    lua_pushcfunction(process->L, make_last_state);
    if (lua_pcall(process->L, 0, 1, 0) == LUA_OK) last = lua_touserdata(process->L, -1);
    lua_pop(process->L, 1);
  }
  if (last == NULL) return status;
  resumed.previous = process->resumed;
  resumed.process = process;
  resumed.L = last;
  baton_lua_enter(process->L); /* others look at the list only while nobody is inside */
  baton_signal_fence();
  process->resumed = &resumed;
  baton_lua_leave(process->L);
  lua_pushcfunction(last, wait_for_rest);
  if (lua_pcall(last, 0, 1, 0) == LUA_OK) status = (int)lua_tointeger(last, -1);
  lua_settop(last, 0);
  baton_lua_set_interruptible(0);
  baton_lua_finish(last, 0);
  baton_lua_enter(process->L);
  process->resumed = resumed.previous;
  baton_signal_fence();
  baton_lua_leave(process->L);
  return status;
}

/*
** Called in a fork's child without a main process, when the body of the process that forked has
** returned. Ends the program when the others have ended. Returns 0 if another process is ending it.
** Outside the VM before and after.
*/
static int end_as_main(struct baton_process *process) {
  lua_State *L = process->L;
  int status;
  if (process->killed && process->vm->exiting) return 0;
  baton_lua_enter(L);
  baton_withdraw_kill(process->vm->executor, process->sched_id);
  process->killed = 0;
  baton_release_joiners(process->vm->executor, process->sched_id);
  baton_lua_leave(L);
  status = end_others(process);
  baton_lua_close_state(process);
  if (!process->vm->exiting) process->vm->exit_status = status;
  return 1;
}

/* The renamed original of luaL_newstate. */
LUALIB_API lua_State *baton_stock_newstate(void);

/*
** Ends the VM, as its main process could not begin. What there is of Lua's state is freed with the
** VM. The record of the process may lie in it, so a copy replaces the record. Outside the VM before
** and after.
*/
static void end_early(struct baton_process *first) {
  struct baton_lua_vm *vm = first->vm;
  struct baton_process *last = vm->last;
  if (baton_gate_enter() != 0) baton_enter_cold(vm->executor);
  baton_lua_stop(vm->executor);
  vm->main_process = NULL;
  *last = *first;
  last->global = NULL;
  baton_gate_set_process(last);
  baton_gate_leave();
  free(first);
}

/* Opens Lua and runs the body in a protected call at the base, as the standalone `lua` does.
   Outside the VM before and after, which has ended. An error of a VM beside the program's first one
   is told by the one that started it. */
static int run_main(struct baton_process *first, lua_CFunction body, int argc, char **argv) {
  struct baton_lua_vm *vm = first->vm;
  int status = EXIT_FAILURE;
  lua_State *L = baton_stock_newstate();
  if (L == NULL) {
    if (vm->start == NULL)
      fprintf(stderr, "%s: cannot create state: not enough memory\n", vm->progname);
    end_early(first);
    return EXIT_FAILURE;
  }
  vm->main = L;
  vm->global = G(L);
  baton_lua_set_allocator(vm);
  baton_lua_begin_steps(L);
  first->L = L;
  first->global = G(L);
  lua_pushcfunction(L, baton_lua_open_vm);
  lua_pushlightuserdata(L, first);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    if (vm->start == NULL) report_error(L);
    end_early(first);
    return EXIT_FAILURE;
  }
  free(first); /* its copy is in the handle */
  baton_lua_note_function(body);
  if (vm->start == NULL) { /* the program's first VM has its signals and its debugger */
    baton_lua_watch_signals(vm);
    baton_debugger_await_start(L);
  }
  lua_pushcfunction(L, body);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  status = lua_pcall(L, 2, 1, 0);
  baton_lua_run_exit_hook(vm->main_process);
  if (!vm->main_process->killed) {
    if (status == LUA_OK) {
      status = (int)lua_tointeger(L, -1);
    } else {
      if (vm->start == NULL) report_error(L);
      status = EXIT_FAILURE;
    }
  } else if (vm->exiting) { /* another process ends the program */
    return status;
  } else {
    notify_of_kill(vm->main_process);
    end_after_kill(L, vm->main_process);
    status = EXIT_FAILURE;
  }
  if (vm->start == NULL) baton_lua_set_interruptible(0);
  lua_settop(L, 0);
  baton_lua_finish(L, 0);
  baton_lua_close_state(vm->main_process);
  if (!vm->exiting) vm->exit_status = status;
  return vm->exit_status;
}

/* Runs a process on its own C stack. Inside the VM before and after. */
void baton_lua_run(struct baton_process *process) {
  if (process->vm->host != NULL && process->vm->main_process == NULL) { /* the main one */
    keep_place(process->vm->host);
    return;
  }
  baton_stack_bounds(process->vm->executor, process->sched_id, &process->stack_guard,
      &process->stack_low, &process->stack_high);
  baton_gate_leave();
  if (process->body != NULL) {
    run_main(process, process->body, process->argc, process->argv);
    (void)baton_gate_enter(); /* the state is closed, so only the executor can be entered */
    return;
  }
  baton_lua_run_body(process);
  if (process->vm->heir == process && end_as_main(process)) {
    (void)baton_gate_enter(); /* as above */
    return;
  }
  baton_lua_enter(process->L);
  baton_lua_end_record(process);
}

/* }====================================================== */

/* {======================================================
** Records that exist before Lua does
** ======================================================= */

/* The program cannot begin. Nothing here allocates. */
static void end_without_memory(const char *progname) {
  static const char text[] = ": not enough memory\n";
  ssize_t written = write(STDERR_FILENO, progname, strlen(progname));
  if (written >= 0) written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written;
  _exit(EXIT_FAILURE);
}

int baton_lua_exit_status(const struct baton_lua_vm *vm) { return vm->exit_status; }

struct baton_lua_vm *baton_lua_make_vm(const char *progname) {
  struct baton_lua_vm *vm = calloc(1, sizeof *vm);
  if (vm == NULL) return NULL;
  vm->last = calloc(1, sizeof *vm->last);
  if (vm->last == NULL) {
    free(vm);
    return NULL;
  }
  vm->commands = baton_commands_new();
  vm->exit_status = EXIT_FAILURE;
  vm->progname = progname;
  vm->pid = getpid();
  return vm;
}

void baton_lua_install_guest(void (*keep)(struct baton_host *host)) {
  keep_place = keep;
  baton_lua_install_calls();
  baton_lua_install_process();
  baton_ffi_install();
  baton_lua_note_function_that_ends(baton_lua_exit_program);
}

/* Whether the program is one that runs Lua as a whole, as the interpreter does. Written before
   there is a state. */
static int is_interpreter;

int baton_lua_is_interpreter(void) { return is_interpreter; }

struct baton_lua_vm *baton_lua_new_vm(const char *progname) {
  struct baton_lua_vm *vm = baton_lua_make_vm(progname);
  if (vm == NULL) end_without_memory(progname);
  is_interpreter = 1;
  baton_lua_install_guest(NULL);
  baton_debugger_install(vm);
  baton_lua_end_with(vm);
  return vm;
}

/* A VM beside the program's first one that has not closed its state. A state that a program embeds
   is the program's. */
int baton_lua_has_heap(const struct baton_lua_vm *vm) {
  return vm->start != NULL && vm->main != NULL;
}

uint64_t baton_lua_kept_size(const struct baton_lua_vm *vm) {
  return baton_lua_has_heap(vm) ? gettotalbytes(vm->global) : 0;
}

/* Undoes what the processes of a halted VM have changed outside of it, and frees its heap. */
static void free_abandoned(struct baton_lua_vm *vm) {
  struct baton_process *process;
  for (process = vm->main_process; process != NULL; process = process->next_live)
    baton_seam_hooks.unwinds_calls(process, (const void *)UINTPTR_MAX);
  /* if it was closing its state */
  baton_seam_hooks.unwinds_calls(vm->last, (const void *)UINTPTR_MAX);
  baton_lua_uncount_calls(vm);
  baton_lua_forget_objects(vm);
  for (process = vm->main_process; process != NULL; process = process->next_live)
    baton_lua_forget_uses(process);
  baton_ffi_close_callback_queue(vm);
  if (baton_ffi_is_calling(vm)) return; /* C code works on what it was given */
  baton_lua_set_allocator(vm);
  baton_lua_free_heap(vm);
}

void baton_lua_free_vm(struct baton_lua_vm *vm) {
  if (baton_lua_has_heap(vm)) free_abandoned(vm);
  free_start(vm);
  baton_ffi_free_types(vm);
  baton_spares_free(vm);
  baton_shapes_free(vm);
  baton_net_forget(vm);
  baton_commands_free(vm->commands);
  free(vm->last);
  free(vm);
}

struct baton_process *baton_lua_make_main(struct baton_lua_vm *vm, lua_CFunction body) {
  struct baton_process *process = calloc(1, sizeof *process);
  if (process == NULL) return NULL;
  process->vm = vm;
  process->id = ++vm->next_id;
  process->body = body;
  process->outcome = BATON_ALIVE;
  return process;
}

struct baton_process *baton_lua_new_main(struct baton_lua_vm *vm, lua_CFunction body,
    void (*report)(lua_State *L), int argc, char **argv) {
  struct baton_process *process = baton_lua_make_main(vm, body);
  if (process == NULL) end_without_memory(vm->progname);
  report_error = report;
  process->argc = argc;
  process->argv = argv;
  return process;
}

void baton_lua_set_main_id(struct baton_process *process, uint64_t id) { process->sched_id = id; }

/* }====================================================== */
