/*
** The program: Lua's state, the main process, its end.
*/
#include "guest.h"
#include "internals.h"
#include "lualib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void baton_standalone_report(lua_State *L);

/* What the program ends with; set by the main process. */
static int exit_status = EXIT_FAILURE;

/* {======================================================
** Libraries
** ======================================================= */

void baton_lua_openlibs(lua_State *L) {
  struct baton_process *process = baton_lua_here(L);
  luaL_openlibs(L);
  baton_lua_seed_random(L);
  baton_lua_open_io(L);
  baton_lua_open_debug(L);
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_pushcfunction(L, baton_lua_exit);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
  baton_lua_open_require(L);
  baton_lua_note_library_functions(L);
  lua_getfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  if (process != NULL && !lua_toboolean(L, -1)) {
    char message[200];
    message[0] = '\0';
    if (baton_rs_read_environment(process->vm->executor, message, sizeof message) != 0) luaL_error(L, "%s", message);
    if (getenv("BATON_CONCURRENT") != NULL) baton_lua_read_declarations(L, getenv("BATON_CONCURRENT"));
  }
  lua_pop(L, 1);
}

/* }====================================================== */

/* {======================================================
** The end
** ======================================================= */

int baton_lua_wait_for_rest(lua_State *L) { return baton_lua_finish(L, 1); }

/* Frees nothing. */
static void *keep_memory(void *unused, void *block, size_t old_size, size_t size) {
  void *larger;
  (void)unused;
  if (size == 0) return NULL;
  larger = malloc(size);
  if (larger != NULL && block != NULL) memcpy(larger, block, old_size < size ? old_size : size);
  return larger;
}

/*
** Closes Lua's state. Nobody else runs any more. The record of the calling process lies in the state: a copy takes its place.
*/
static void close_state(struct baton_process *process) {
  static struct baton_process last;
  struct baton_vm *vm = process->vm;
  lua_State *L = vm->main;
  baton_enter(L);
  baton_rs_stop(vm->executor);
  baton_leave(L);
  last = *process;
  last.L = L;
  last.resumed = NULL;
  vm->closing = 1;
  vm->main_process = NULL;
  vm->heir = NULL;
  baton_gate_set_process(&last);
  /* A function of C that has not returned may still write to memory of Lua's that it was passed. */
  if (vm->outstanding > 0 || baton_ffi_is_calling(vm)) lua_setallocf(L, keep_memory, NULL);
  lua_close(L);
}

/* Whether the calling process, the main one, is being killed: then its errors are not to be reported. */
int baton_lua_main_was_killed(void) {
  struct baton_process *process = baton_gate_process();
  return process != NULL && process->killed > 0;
}

/* While it is on, the calling process, which has frames of the host on its stack, continues only on the thread that it is on. */
void baton_lua_keep_thread(int on) {
  struct baton_process *process = baton_gate_process();
  if (process == NULL) return;
  baton_enter(process->L); /* the monitor reads it */
  process->keeps_thread = (unsigned char)on;
  baton_leave(process->L);
}

/* os.exit([code [, close]]) */
int baton_lua_exit(lua_State *L) {
  int status = EXIT_SUCCESS;
  if (lua_isboolean(L, 1))
    status = lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE;
  else
    status = (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
  if (lua_toboolean(L, 2)) {
    struct baton_process *process = baton_lua_here(L);
    if (process != NULL && !process->vm->closing) {
      baton_lua_check_may_wait(L, process);
      process->vm->exiting = 1;
      baton_enter(L);
      baton_lua_leave_criticals(process);
      baton_leave(L);
      baton_lua_finish(L, 0);
      close_state(process);
    }
  }
  exit(status);
  return 0;
}

/* }====================================================== */

/* {======================================================
** The main process
** ======================================================= */

/* Gives the main process its handle: from now on the record lies there. Arguments: the first record. */
static int open_vm(lua_State *L) {
  struct baton_process *first = lua_touserdata(L, 1), *process;
  struct baton_vm *vm = first->vm;
  baton_lua_open_handles(L);
  process = lua_newuserdatauv(L, sizeof *process, BATON_UV_COUNT);
  *process = *first;
  luaL_setmetatable(L, "baton.process*");
  lua_pushthread(L);
  lua_setiuservalue(L, -2, BATON_UV_THREAD);
  lua_pushliteral(L, "main");
  lua_setiuservalue(L, -2, BATON_UV_NAME);
  lua_rawsetp(L, LUA_REGISTRYINDEX, vm);
  baton_enter(L);
  vm->main_process = process;
  baton_gate_set_process(process);
  process->marks = NULL;
  baton_rs_set_word(vm->executor, process->kernel_id, (uintptr_t)process);
  vm->object_queue = baton_rs_queue_new(vm->executor);
  vm->require_queue = baton_rs_queue_new(vm->executor);
  baton_leave(L);
  return 0;
}

static int wait_for_rest(lua_State *L) {
  lua_pushinteger(L, baton_lua_finish(L, 1));
  return 1;
}

/* The main process was killed, which is no error: the others go on to their end. */
static int end_after_kill(lua_State *L, struct baton_process *process) {
  int status = EXIT_FAILURE;
  baton_enter(L);
  baton_rs_pardon(process->vm->executor, process->kernel_id);
  process->killed = 0;
  baton_leave(L);
  lua_settop(L, 0);
  lua_pushcfunction(L, wait_for_rest);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK) status = (int)lua_tointeger(L, -1);
  return status;
}

/* A state that lives as long as the VM; answers its address. */
static int make_last_state(lua_State *L) {
  lua_State *last = lua_newthread(L);
  baton_lua_set_base_depth(last);
  luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushlightuserdata(L, last);
  return 1;
}

/* Waits for the others, and ends those that are left, on a state of its own: the results on the process's stay for whoever joins it. */
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
  baton_signal_fence();
  process->resumed = &resumed;
  lua_pushcfunction(last, wait_for_rest);
  if (lua_pcall(last, 0, 1, 0) == LUA_OK) status = (int)lua_tointeger(last, -1);
  lua_settop(last, 0);
  baton_lua_set_interruptible(0);
  baton_lua_finish(last, 0);
  process->resumed = resumed.previous;
  baton_signal_fence();
  return status;
}

/*
** The body of the process that forked has returned in the child, where there is no main process: it ends the program, when the others
** have ended. Returns 0 if another process is ending it. Outside the VM at both ends.
*/
int baton_lua_end_as_main(struct baton_process *process) {
  lua_State *L = process->L;
  if (process->killed && process->vm->exiting) return 0;
  baton_enter(L);
  baton_rs_pardon(process->vm->executor, process->kernel_id);
  process->killed = 0;
  baton_rs_release_joiners(process->vm->executor, process->kernel_id);
  baton_leave(L);
  exit_status = end_others(process);
  close_state(process);
  return 1;
}

/* Opens Lua and runs the body as a plain protected call at the base, as the standalone `lua` does. Outside the VM at both ends. */
int baton_lua_main(struct baton_process *first, lua_CFunction body, int argc, char **argv) {
  struct baton_vm *vm = first->vm;
  int status = EXIT_FAILURE;
  lua_State *L = luaL_newstate();
  if (L == NULL) {
    fprintf(stderr, "%s: cannot create state: not enough memory\n", vm->progname);
    return EXIT_FAILURE;
  }
  baton_lua_begin_steps(L);
  vm->main = L;
  first->L = L;
  vm->global = G(L);
  first->global = G(L);
  lua_pushcfunction(L, open_vm);
  lua_pushlightuserdata(L, first);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    baton_standalone_report(L);
    return EXIT_FAILURE;
  }
  baton_lua_note_function(body);
  baton_lua_watch_signals(vm);
  lua_pushcfunction(L, body);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  status = lua_pcall(L, 2, 1, 0);
  baton_lua_run_exit_hook(vm->main_process);
  if (!vm->main_process->killed) {
    if (status == LUA_OK) {
      status = (int)lua_tointeger(L, -1);
    } else {
      baton_standalone_report(L);
      status = EXIT_FAILURE;
    }
  } else if (vm->exiting) { /* another process ends the program */
    return status;
  } else {
    status = end_after_kill(L, vm->main_process);
  }
  baton_lua_set_interruptible(0);
  lua_settop(L, 0);
  baton_lua_finish(L, 0);
  close_state(vm->main_process);
  exit_status = status;
  return status;
}

/* }====================================================== */

/* {======================================================
** Records that exist before Lua does
** ======================================================= */

int baton_lua_exit_status(void) { return exit_status; }

struct baton_vm *baton_lua_new_vm(const void *executor, const char *progname) {
  struct baton_vm *vm = calloc(1, sizeof *vm);
  if (vm == NULL) abort();
  vm->executor = executor;
  vm->progname = progname;
  return vm;
}

struct baton_process *baton_lua_new_main(struct baton_vm *vm, lua_CFunction body, int argc, char **argv) {
  struct baton_process *process = calloc(1, sizeof *process);
  if (process == NULL) abort();
  process->vm = vm;
  baton_lua_park_for(vm);
  process->id = ++vm->next_id;
  process->body = body;
  process->argc = argc;
  process->argv = argv;
  process->outcome = BATON_ALIVE;
  return process;
}

void baton_lua_set_main_id(struct baton_process *process, uint64_t id) { process->kernel_id = id; }

/* }====================================================== */
