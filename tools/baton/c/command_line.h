/* Reads the command line, and has the texts about it. Does not use Lua. */
#ifndef BATON_COMMAND_LINE_H
#define BATON_COMMAND_LINE_H

/* What to do after the options. */
typedef enum Errand {
  RUN,
  REFUSE, /* an option is wrong */
  SHOW_HELP,
  SHOW_VERSION
} Errand;

/* The result. The caller sets argc and argv, and the rest to zero;
   baton_read_command_line fills it in. */
typedef struct Invocation {
  int argc;
  char **argv;
  int options_end;    /* options are argv[1] up to here, exclusive */
  int script;         /* index in argv of the script's name; argc: none */
  const char *wrong;  /* with REFUSE: the wrong option */
  const char *why;    /* with REFUSE: the reason, a format with one %s */
  int interactive;    /* -i */
  int announce;       /* -v, or -i */
  int no_environment; /* -E */
  int has_code;       /* -e */
  int seeds_at;       /* index in argv of --simulate's value; 0: none */
  unsigned long long first_seed, last_seed; /* the seeds in that value */
} Invocation;

/* Reads all options. Stops at the first one that is wrong, and at --help or
   --version. */
Errand baton_read_command_line(Invocation *call);

/* Returns whether the program is to be simulated; if so, also the seeds,
   and their index in argv. Returns 0 for a wrong command line. */
int baton_asks_for_simulation(int argc, char **argv, int *seeds_at,
                              unsigned long long *first,
                              unsigned long long *last);

/* Prints to stderr what is wrong with an option, and the usage. */
void baton_print_usage(const char *program_name, const Invocation *call);

/* Prints the whole help to stdout. */
void baton_print_help(const char *program_name);

#endif
