/*
** Runs commands for os.execute. The C library's system(3) makes the whole program ignore SIGINT and
** SIGQUIT meanwhile. Here other processes run beside the command, and need their signals. SIGINT is
** for the command alone only if the process that would receive it is running the command, as in
** Lua.
**
** If others could run meanwhile, the process waits in the poller for the end of the command, and
** takes no native thread (see reading.c). When the program ends, it stops waiting, and the command
** continues. A VM that ends in a program that goes on leaves it to baton_commands_abandon.
*/
#include "seam/internals.h"
#include "io/io.h"
#include "state/state.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void baton_lua_forget_commands(const struct baton_lua_vm *vm) {
  baton_lua_give_interrupts_to_command(0);
  baton_commands_forked(vm->commands);
}

/*
** Waits for the end of the command in the poller. Returns 1 when the command has ended, or if
** baton_command_wait must wait for it. Returns 0 if the program ends and the command is left alone.
** Kills and interrupts are held back until the command has ended.
*/
static int await_end(struct baton_process *process, int command) {
  struct baton_watch watch;
  struct baton_mark mark;
  int descriptor, why;
  lua_State *L;
  if (!baton_lua_may_wait_beside_others(process)) return 1;
  descriptor = baton_command_descriptor(process->vm->commands, command);
  if (descriptor < 0) return 1;
  watch.descriptor = (uint32_t)descriptor;
  watch.wants = BATON_WANTS_READ;
  L = baton_lua_innermost(process);
  baton_lua_enter(L);
  baton_lua_begin_hold(process, &mark, BATON_MARK_CLOSE);
  process->awaits_command = 1;
  while ((why = baton_wait_ready(process->vm->executor, &watch, 1, BATON_NO_DEADLINE,
              baton_lua_is_readable, &descriptor)) == BATON_INTERRUPTED) {
    process->interrupted = 1;
    baton_lua_arm(L);
  }
  process->awaits_command = 0;
  baton_lua_end_hold(process);
  baton_lua_leave(L);
  return why != BATON_KILLED || !process->vm->ending;
}

/* Takes the status of the command. Runs on the thread that the process is on now. With a status,
   errno is 0: any other value means a failure to luaL_execresult. */
static __attribute__((noinline)) int take_status(
    const struct baton_commands *commands, int command) {
  int error;
  const int status = baton_command_wait(commands, command, &error);
  errno = error;
  return status;
}

/* Runs a command and returns its wait status, as system(3) does. 127 is the code of a shell that
   could not be started. Returns -1 with errno if the command could not be waited for. */
static int run(struct baton_process *process, const char *text) {
  const struct baton_commands *commands = process != NULL ? process->vm->commands : NULL;
  const int command = baton_command_start(commands, text);
  if (command >= 0 && await_end(process, command)) return take_status(commands, command);
  return 127 << 8;
}

int baton_run_command(const char *command) {
  struct baton_process *process = baton_gate_process();
  int is_interrupted_one, status;
  if (command == NULL) return system(NULL);
  is_interrupted_one = process != NULL && process == baton_lua_interrupt_target(process->vm);
  if (is_interrupted_one) baton_lua_give_interrupts_to_command(1);
  status = run(process, command);
  if (is_interrupted_one) baton_lua_give_interrupts_to_command(0);
  return status;
}
