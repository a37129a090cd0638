/* The terminal's mode while a line is edited. */
#ifndef BATON_TERMINAL_H
#define BATON_TERMINAL_H

/* On (1) before the line editor changes the terminal, off (0) when it has put
   it back. A program that ends in between, by os.exit in another process or
   by a signal, leaves the terminal as it was. */
void baton_terminal_guard(int on);

#endif
