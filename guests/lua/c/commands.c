/*
** What os.execute runs commands with. As system(3), which has the whole program ignore SIGINT and SIGQUIT meanwhile; here others run beside it, and signals
** are theirs too. Only while the process that SIGINT is for runs a command itself, the signal is the command's alone, as in Lua.
*/
#include "guest.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

/* A wait status, like system's: that of a shell which could not be run has the code 127. -1 with errno: it could not be waited for. */
static int run(const char *command) {
  char *const arguments[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"--"}, (char *)command, NULL};
  int status = 127 << 8;
  posix_spawnattr_t attributes;
  sigset_t child_ended, before;
  pid_t pid;
  /* A handler of the program's for SIGCHLD is not to take the command's end from it. */
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child_ended, &before);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  if (posix_spawn(&pid, "/bin/sh", NULL, &attributes, arguments, environ) == 0) {
    while (waitpid(pid, &status, 0) < 0) {
      if (errno == EINTR) continue;
      status = -1;
      break;
    }
  }
  posix_spawnattr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return status;
}

int baton_run_command(const char *command) {
  struct baton_process *process = baton_gate_process();
  int is_interrupted_one, status;
  if (command == NULL) return system(NULL);
  is_interrupted_one = process != NULL && process == baton_lua_whom_to_interrupt(process->vm);
  if (is_interrupted_one) baton_lua_leave_interrupts_to_command(1);
  status = run(command);
  if (is_interrupted_one) baton_lua_leave_interrupts_to_command(0);
  return status;
}
