/* The terminal's mode while a line is edited. */
#ifndef BATON_TERMINAL_H
#define BATON_TERMINAL_H

/* Call it with 1 before the line editor changes the terminal, and with 0
   when the editor has restored it. If the program ends in between, by
   os.exit in another process or by a signal, the terminal's mode is
   restored. */
void baton_terminal_guard(int on);

#endif
