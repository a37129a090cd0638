/*
** io.popen, and the pipes of daemons. The end of the program does not wait for a daemon's child. If
** only a VM ends and the program goes on, a thread waits for it.
*/
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* A pipe that a daemon of the VM has opened. Guarded by the VM lock. */
struct daemons_pipe {
  struct daemons_pipe *next;
  FILE *file;
};

static struct daemons_pipe **find_pipe(struct baton_lua_vm *vm, const FILE *file) {
  struct daemons_pipe **link = &vm->daemons_pipes;
  while (*link != NULL && (*link)->file != file) link = &(*link)->next;
  return link;
}

/* As popen of the C library. If the VM ends meanwhile, nobody gets the file. */
static FILE *open_pipe(const struct baton_process *process, const char *command, const char *mode) {
  const struct baton_commands *commands = process != NULL ? process->vm->commands : NULL;
  const int ended = commands != NULL && baton_commands_are_abandoned(commands);
  FILE *file = process != NULL ? baton_command_pipe(command, mode) : popen(command, mode);
  if (file == NULL || commands == NULL || ended || !baton_commands_are_abandoned(commands))
    return file;
  pclose(file);
  return NULL;
}

/* The new file is on the top of the stack. */
FILE *baton_io_popen(lua_State *L, const char *command, const char *mode) {
  const struct baton_process *process = baton_lua_here(L);
  struct daemons_pipe *pipe = process != NULL && process->daemon ? malloc(sizeof *pipe) : NULL;
  FILE *file;
  ((struct baton_stream *)lua_touserdata(L, -1))->is_pipe = 1;
  baton_io_flush_all();
  file = open_pipe(process, command, mode);
  if (pipe == NULL || file == NULL) { /* without memory for a record it is an ordinary pipe */
    const int error = errno;
    free(pipe);
    errno = error;
    return file;
  }
  baton_lua_enter(L);
  pipe->file = file;
  pipe->next = process->vm->daemons_pipes;
  process->vm->daemons_pipes = pipe;
  baton_lua_leave(L);
  return file;
}

/* Writes as much of the buffer as the pipe takes without blocking. */
static void flush_without_waiting(FILE *file) {
  const int descriptor = fileno(file), flags = fcntl(descriptor, F_GETFL);
  if (flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0) fflush(file);
}

static void *close_pipe(void *file) {
  pclose(file);
  return NULL;
}

/* Has a thread that receives no signals close the pipe and wait for its child. Without room for a
   thread, the pipe stays open. */
static void close_elsewhere(FILE *file) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, NULL, close_pipe, file) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int baton_io_pclose(lua_State *L, FILE *file) {
  const struct baton_process *process = baton_lua_here(L);
  struct daemons_pipe **link, *pipe;
  if (process == NULL) return pclose(file);
  baton_lua_enter(L);
  link = find_pipe(process->vm, file);
  pipe = *link;
  if (pipe != NULL) *link = pipe->next;
  baton_lua_leave(L);
  free(pipe);
  if (!process->vm->closing) return pclose(file);
  if (baton_lua_is_busy(process, file)) return 0;
  if (pipe == NULL) return pclose(file);
  if (process->vm->host != NULL || process->vm->start != NULL)
    close_elsewhere(file);
  else
    flush_without_waiting(file);
  return 0;
}
