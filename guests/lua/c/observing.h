/*
** Traces, and what observers of the program are told: functions of the guest's Rust half.
** baton.h explains the tags.
*/
#ifndef BATON_OBSERVING_H
#define BATON_OBSERVING_H

#include "baton.h"

/* Traces the VM from now on. Returns the number of the next event. */
BATON_INSIDE uint64_t baton_begin_trace(const baton_vm *vm);
/* Ends that. Returns the events from number `begin` on, for baton_write_trace, which frees them. */
struct baton_trace;
BATON_INSIDE struct baton_trace *baton_end_trace(const baton_vm *vm, uint64_t begin);
/* Writes a file for Perfetto. Returns 0 and writes a message if it cannot. */
BATON_ANY_THREAD int baton_write_trace(
    struct baton_trace *trace, const char *path, char *message, size_t size);
/* Writes a file with the events that the parameter flight keeps, if it keeps any, and says where.
   `why` is a word for the name of the file. */
BATON_INSIDE void baton_write_flight(const baton_vm *vm, const char *why);
/* To be called before the program ends otherwise than by the end of its main process. */
BATON_INSIDE void baton_before_exit(const baton_vm *vm);
/* Whether the signal of this siginfo_t is an observer's. */
BATON_SIGNAL_HANDLER int baton_is_observers(const void *info);
/* Notes a SIGQUIT: an observer's request, or a user's request of a report. */
BATON_SIGNAL_HANDLER void baton_note_quit(int is_observers);
/* Appends what this thread runs to the request of an observer, if there is one. */
BATON_SIGNAL_HANDLER void baton_note_running(const char *text, size_t size);

#endif
