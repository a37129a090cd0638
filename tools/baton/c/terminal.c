#include "terminal.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* The signals that end a program by default, except SIGINT, which the
   editor handles. */
static const int deadly[] = {SIGHUP, SIGTERM, SIGABRT};
#define DEADLY_COUNT (sizeof deadly / sizeof deadly[0])

/* The mode to restore; written before `edited` is set. */
static struct termios mode;
static volatile sig_atomic_t edited;

/* Async-signal-safe. */
static void put_back(void) {
  static const char no_bracketed_paste[] = "\x1b[?2004l\r\n";
  if (!edited)
    return;
  edited = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &mode);
  if (write(STDOUT_FILENO, no_bracketed_paste, sizeof no_bracketed_paste - 1) < 0)
    return; /* the terminal is gone */
}

static void on_deadly(int number) {
  put_back();
  signal(number, SIG_DFL);
  raise(number);
}

/* Changes the action of the signals that now have the action `from`. */
static void redirect(void (*from)(int), void (*to)(int)) {
  struct sigaction action, old;
  size_t i;
  memset(&action, 0, sizeof action);
  action.sa_handler = to;
  sigemptyset(&action.sa_mask);
  for (i = 0; i < DEADLY_COUNT; i++)
    if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler == from)
      sigaction(deadly[i], &action, NULL);
}

void baton_terminal_guard(int on) {
  static int registered;
  if (!registered)
    registered = atexit(put_back) == 0;
  if (on) {
    edited = tcgetattr(STDIN_FILENO, &mode) == 0;
    redirect(SIG_DFL, on_deadly);
  } else {
    edited = 0;
    redirect(on_deadly, SIG_DFL);
  }
}
