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

/* The simulated runs that the options ask for; src/main.rs has the same. */
typedef struct Simulation {
  int seeds_at; /* index in argv of --simulate's value; 0: none */
  unsigned long long first, last; /* the seeds in that value */
  const char *decisions; /* given after a single seed; NULL: none */
  unsigned jobs;         /* --jobs; 0: not given */
  double limit;          /* --limit, in seconds; 0: none */
  int explain;           /* --explain; -1: not given */
  const char *trace;     /* --trace; NULL: not given */
  int reads_input;       /* the program itself comes from the input */
  int options_end;       /* as in Invocation */
} Simulation;

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
  Simulation simulation;
  const char *for_simulation; /* an option that needs --simulate, or NULL */
} Invocation;

/* Reads all options. Stops at the first one that is wrong, and at --help or
   --version. */
Errand baton_read_command_line(Invocation *call);

/* Returns whether the program is to be simulated, and how. Returns 0 for a
   wrong command line. */
int baton_asks_for_simulation(int argc, char **argv, Simulation *simulation);

/* The variable by which a simulated program tells another one what it is
   for. */
#define BATON_SIMULATION "BATON_SIMULATION"

/* Returns the value of that variable, or NULL. Removes it, so that programs
   which the program starts do not see it. Allocates nothing, as that would
   change the addresses of a simulated run. */
const char *baton_take_simulation_role(void);

/* The names of the commands that look into running programs, ended by NULL. */
extern const char *const baton_commands[];

/* Prints to stderr what is wrong with an option, and the usage. */
void baton_print_usage(const char *program_name, const Invocation *call);

/* Prints the whole help to stdout. */
void baton_print_help(const char *program_name);

#endif
