/* The command line: what it asks for, and the texts about it. Knows no Lua. */
#ifndef BATON_COMMAND_LINE_H
#define BATON_COMMAND_LINE_H

/* What to do once the options are read. */
typedef enum Errand {
  RUN,
  REFUSE, /* there is a wrong option */
  SHOW_HELP,
  SHOW_VERSION
} Errand;

/* How the program was called. The caller sets argc and argv, and the rest to
   zero; baton_read_command_line fills it in. */
typedef struct Invocation {
  int argc;
  char **argv;
  int options_end;    /* options are argv[1] up to here, exclusive */
  int script;         /* index in argv of the script's name; argc: none */
  const char *wrong;  /* with REFUSE: the option */
  const char *why;    /* and what is wrong, a format with a place for it */
  int interactive;    /* -i */
  int announce;       /* -v, or -i */
  int no_environment; /* -E */
  int has_code;       /* -e */
  int seeds_at;       /* index in argv of --simulate's value; 0: none */
  unsigned long long first_seed, last_seed; /* what it says */
} Invocation;

/* Reads all options; stops at the first that is wrong or ends the matter. */
Errand baton_read_command_line(Invocation *call);

/* Whether the program is to be simulated; if so, with which seeds, and where in
   argv they stand. Answers 0 also for a wrong command line. */
int baton_asks_for_simulation(int argc, char **argv, int *seeds_at,
                              unsigned long long *first,
                              unsigned long long *last);

/* Prints to stderr what is wrong with an option, and the usage. */
void baton_print_usage(const char *program_name, const Invocation *call);

/* Prints the whole help to stdout. */
void baton_print_help(const char *program_name);

#endif
