#include "command_line.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static int is(const char *argument, const char *option) {
  return strcmp(argument, option) == 0;
}

/* `why` is a format with one %s, for the option. */
static Errand refuse(Invocation *call, const char *option, const char *why) {
  call->wrong = option;
  call->why = why;
  return REFUSE;
}

static const char unrecognized[] = "unrecognized option '%s'\n";

const char *const baton_commands[] = {
  "debug", "heap", "metrics", "profile", "set", "stacks", "top", "trace", NULL
};

static const char *const long_options[] = {
  "--help", "--version", "--simulate", "--jobs", "--limit", "--explain",
  "--trace", NULL
};

/* Reads a number at the beginning of the text. Returns the rest of the
   text, or NULL if there is no number, or text is NULL. */
static const char *read_number(const char *text, unsigned long long *number) {
  char *end;
  if (text == NULL || !isdigit((unsigned char)text[0]))
    return NULL;
  errno = 0;
  *number = strtoull(text, &end, 10);
  return errno == 0 ? end : NULL;
}

/* Returns the rest of the text after the character, or NULL. */
static const char *read_character(const char *text, char character) {
  return text != NULL && text[0] == character ? text + 1 : NULL;
}

/* Reads a decision such as "p2@57=3". Returns the rest, or NULL. */
static const char *read_decision(const char *text) {
  unsigned long long process = 0, step, again = 0, value = 0;
  if (text[0] != 'p' && text[0] != 'o' && text[0] != 's')
    return NULL;
  text = read_character(read_number(text + 1, &process), '@');
  text = read_number(text, &step);
  if (text != NULL && text[0] == '.')
    text = read_number(text + 1, &again);
  text = read_number(read_character(text, '='), &value);
  if (process > UINT32_MAX || again > UINT16_MAX || value > UINT32_MAX)
    return NULL;
  return text;
}

/* Whether the text is a list of decisions; it may be empty. */
static int are_decisions(const char *text) {
  if (text[0] == '\0')
    return 1;
  while ((text = read_decision(text)) != NULL && text[0] == ',')
    text++;
  return text != NULL && text[0] == '\0';
}

/* Reads "17", "17:p2@57=3" or "1-1000". */
static int read_seeds(Simulation *simulation, const char *text) {
  const char *rest = read_number(text, &simulation->first);
  simulation->last = simulation->first;
  simulation->decisions = NULL;
  if (rest != NULL && rest[0] == ':') {
    simulation->decisions = rest + 1;
    return are_decisions(rest + 1);
  }
  if (rest != NULL && rest[0] == '-')
    rest = read_number(rest + 1, &simulation->last);
  return rest != NULL && rest[0] == '\0' &&
         simulation->first <= simulation->last;
}

/* Reads a whole number from `least` to `most`. */
static int read_count(const char *text, unsigned least, unsigned most,
                      unsigned *count) {
  unsigned long long number;
  const char *rest = read_number(text, &number);
  if (rest == NULL || rest[0] != '\0' || number < least || number > most)
    return 0;
  *count = (unsigned)number;
  return 1;
}

#define MOST_JOBS 1024
#define MOST_RUNS 1000000
#define MOST_SECONDS 1e6

/* Reads seconds such as "2" or "0.5". */
static int read_limit(const char *text, double *seconds) {
  char *end;
  if (text == NULL || text[strspn(text, "0123456789.")] != '\0')
    return 0;
  *seconds = strtod(text, &end);
  return end != text && end[0] == '\0' && *seconds > 0 &&
         *seconds <= MOST_SECONDS;
}

/* Reads an option about simulated runs, and its value. */
static Errand read_simulation(Invocation *call, const char *option,
                              const char *value) {
  Simulation *simulation = &call->simulation;
  unsigned runs;
  if (is(option, "--simulate"))
    return value != NULL && read_seeds(simulation, value)
               ? RUN
               : refuse(call, option,
                        "'%s' needs a seed: a number, or a range such as "
                        "1-1000\n");
  call->for_simulation = option;
  if (is(option, "--jobs"))
    return read_count(value, 1, MOST_JOBS, &simulation->jobs)
               ? RUN
               : refuse(call, option, "'%s' needs a number from 1 to 1024\n");
  if (is(option, "--limit"))
    return read_limit(value, &simulation->limit)
               ? RUN
               : refuse(call, option, "'%s' needs seconds, such as 2 or 0.5\n");
  if (is(option, "--trace")) {
    simulation->trace = value;
    return value != NULL && value[0] != '\0'
               ? RUN
               : refuse(call, option, "'%s' needs a file to write\n");
  }
  if (!read_count(value, 0, MOST_RUNS, &runs))
    return refuse(call, option, "'%s' needs a number of runs, or 0\n");
  simulation->explain = (int)runs;
  return RUN;
}

static int is_about_simulation(const char *option) {
  return is(option, "--simulate") || is(option, "--jobs") ||
         is(option, "--limit") || is(option, "--explain") ||
         is(option, "--trace");
}

/* Reads argv[*i], an option other than "-" and "--". If its value is an
   argument of its own, moves *i to that. */
static Errand read_option(Invocation *call, int *i) {
  const char *option = call->argv[*i];
  if (is(option, "--help"))
    return SHOW_HELP;
  if (is(option, "--version"))
    return SHOW_VERSION;
  if (is_about_simulation(option)) {
    Errand errand = read_simulation(call, option, call->argv[*i + 1]);
    if (errand == RUN) {
      (*i)++;
      if (is(option, "--simulate"))
        call->simulation.seeds_at = *i;
    }
    return errand;
  }
  switch (option[1]) {
    case 'e':
    case 'l':
      if (option[2] == '\0') {
        const char *value = call->argv[*i + 1];
        if (value == NULL || value[0] == '-')
          return refuse(call, option, "'%s' needs argument\n");
        (*i)++;
      }
      call->has_code |= (option[1] == 'e');
      return RUN;
    case 'E':
      call->no_environment = 1;
      break;
    case 'i':
      call->interactive = 1;
      call->announce = 1;
      break;
    case 'v':
      call->announce = 1;
      break;
    case 'W':
      break;
    default:
      return refuse(call, option, unrecognized);
  }
  return option[2] == '\0' ? RUN : refuse(call, option, unrecognized);
}

static int reads_input(const Invocation *call) {
  if (call->interactive)
    return 1;
  if (call->script < call->argc)
    return is(call->argv[call->script], "-");
  return !call->has_code && !call->announce;
}

static Errand read_options(Invocation *call) {
  int i = 1;
  while (i < call->argc) {
    const char *argument = call->argv[i];
    Errand errand;
    if (argument[0] != '-' || argument[1] == '\0')
      break;
    if (is(argument, "--")) {
      call->options_end = i;
      call->script = i + 1;
      return RUN;
    }
    errand = read_option(call, &i);
    if (errand != RUN)
      return errand;
    i++;
  }
  call->options_end = call->script = i;
  return RUN;
}

/* Checks what only the whole command line can tell. */
static Errand check_simulation(Invocation *call) {
  Simulation *simulation = &call->simulation;
  if (simulation->seeds_at == 0)
    return call->for_simulation == NULL
               ? RUN
               : refuse(call, call->for_simulation, "'%s' needs --simulate\n");
  simulation->reads_input = reads_input(call);
  simulation->options_end = call->options_end;
  if (simulation->reads_input && simulation->first < simulation->last)
    return refuse(call, "--simulate",
                  "'%s' with a range needs a script or -e: the input can be read "
                  "only once\n");
  if (simulation->reads_input && simulation->limit > 0)
    return refuse(call, "--limit",
                  "'%s' needs a script or -e: the program's input is empty\n");
  if (simulation->reads_input && simulation->trace != NULL)
    return refuse(call, "--trace",
                  "'%s' needs a script or -e: the program's input is empty\n");
  return RUN;
}

Errand baton_read_command_line(Invocation *call) {
  Errand errand;
  call->simulation.explain = -1;
  errand = read_options(call);
  return errand == RUN ? check_simulation(call) : errand;
}

int baton_asks_for_simulation(int argc, char **argv, Simulation *simulation) {
  Invocation call = {0};
  call.argc = argc;
  call.argv = argv;
  if (baton_read_command_line(&call) != RUN || call.simulation.seeds_at == 0)
    return 0;
  *simulation = call.simulation;
  return 1;
}

const char *baton_take_simulation_role(void) {
  const char *role = getenv(BATON_SIMULATION);
  if (role != NULL)
    unsetenv(BATON_SIMULATION);
  return role;
}

void baton_print_usage(const char *program_name, const Invocation *call) {
  fprintf(stderr, "%s: ", program_name);
  fprintf(stderr, call->why, call->wrong);
  if (call->why == unrecognized && strncmp(call->wrong, "--", 2) == 0) {
    const char *meant = baton_lua_nearest(call->wrong, long_options);
    if (meant != NULL)
      fprintf(stderr, "did you mean '%s'?\n", meant);
  }
  fprintf(stderr,
          "usage: %s [options] [script [args]]\n"
          "Available options are:\n"
          "  -e stat   execute string 'stat'\n"
          "  -i        enter interactive mode after executing 'script'\n"
          "  -l mod    require library 'mod' into global 'mod'\n"
          "  -l g=mod  require library 'mod' into global 'g'\n"
          "  -v        show version information\n"
          "  -E        ignore environment variables\n"
          "  -W        turn warnings on\n"
          "  --simulate seed  run in virtual time, as the seed says\n"
          "  --jobs n         simulate n seeds at once\n"
          "  --limit s        a simulated run fails after s seconds\n"
          "  --explain n      explain a failing seed by n runs at most\n"
          "  --trace file     write the simulated run, or the failing one\n"
          "  --        stop handling options\n"
          "  -         stop handling options and execute stdin\n",
          program_name);
  fflush(stderr);
}

static const char help_text[] =
  "\n"
  "Runs a Lua 5.4 program. With no script, no -e and no -v it starts the\n"
  "interactive mode if the input is a terminal, else it runs the input.\n"
  "\n"
  "Options:\n"
  "  -e stat     run the string 'stat'\n"
  "  -l mod      require 'mod' into the global 'mod'\n"
  "  -l g=mod    require 'mod' into the global 'g'\n"
  "  -i          enter the interactive mode after the script\n"
  "  -v          show Lua's version\n"
  "  -E          ignore the environment variables below\n"
  "  -W          turn warnings on\n"
  "  --simulate seed  run in virtual time: sleeps cost nothing, and chance decides\n"
  "              which process runs when; the same seed gives the same run. With a\n"
  "              range (1-1000) a run for each seed, up to the first that fails. A\n"
  "              failing run is run again, to show its last switches, with as few\n"
  "              preemptions as possible\n"
  "  --jobs n    with --simulate: run so many seeds at once\n"
  "  --limit seconds  with --simulate: a run that takes longer is killed, and\n"
  "              has failed\n"
  "  --explain runs  with --simulate: explain a failing run by so many runs at\n"
  "              most (200), in half a minute; 0: do not explain it\n"
  "  --trace file  with --simulate: write the run, or the failing one with its\n"
  "              fewest preemptions, as a trace for ui.perfetto.dev\n"
  "  --          end of the options\n"
  "  -           end of the options; run the input\n"
  "  --help      show this text\n"
  "  --version   show Lua's and Baton's versions\n"
  "\n"
  "Commands:\n"
  "  stacks PID     show where each process of a running program is, what it\n"
  "                 waits for, and who holds that\n"
  "  top PID        show a live table of a running program's processes\n"
  "  profile PID    find out where a running program spends its time; with --alloc:\n"
  "                 what it allocates\n"
  "  trace PID      write what happens in a running program for ui.perfetto.dev\n"
  "  metrics PID    write the metrics of a running program for Prometheus\n"
  "  heap PID       take a snapshot of a running program's heap; heap --diff a b\n"
  "                 shows what has grown between two\n"
  "  set PID        show or set the parameters of a running program\n"
  "  debug PID      debug a running program, for an editor (Debug Adapter\n"
  "                 Protocol)\n"
  "  In place of PID, all but set take a script with its arguments, and start it.\n"
  "  Each has a --help of its own. A script of such a name is run by ./name.\n"
  "\n"
  "Environment:\n"
  "  LUA_INIT_5_4, LUA_INIT     code, or @file, to run before everything else\n"
  "  LUA_PATH_5_4, LUA_PATH     where 'require' looks for Lua modules\n"
  "  LUA_CPATH_5_4, LUA_CPATH   where 'require' looks for C modules\n"
  "  BATON_SLICE=0.010          a parameter of the runtime, by its name in\n"
  "                             process.params; likewise BATON_MAX_THREADS, ...\n"
  "  BATON_CONCURRENT=m=serial  how far calls into C modules may overlap, as by\n"
  "                             process.concurrent; more of them after commas\n"
  "  BATON_ATTACH=off           commands may not look into the program; with all,\n"
  "                             they may read its values and change it, too\n"
  "  BATON_FFI=1                'require \"ffi\"' finds baton.ffi; a program that finds\n"
  "                             'ffi' takes its interpreter for LuaJIT\n"
  "  BATON_METRICS=unix:PATH    serves the metrics over HTTP there, or at\n"
  "                             127.0.0.1:PORT or [::1]:PORT, while it runs\n"
  "  BATON_HISTORY=FILE         the prompt's history; empty: none\n"
  "\n"
  "What Baton adds to Lua:\n"
  "  require \"baton.process\"    preemptive processes by the thousand: spawn, join,\n"
  "                             kill, sleep, channel, select, mutex, ...\n"
  "  require \"baton.vm\"         several VMs, each on a core of its own: spawn, call,\n"
  "                             map, pool, channels and buffers that they share\n"
  "  require \"baton.cluster\"    more machines: messages, services, durable queues and\n"
  "                             tables over NATS\n"
  "  require \"baton.ffi\"        calls C libraries, with LuaJIT's interface\n"
  "  require \"baton.inspect\"    the program looks into itself, as commands do\n"
  "  require \"baton.json\"       JSON, with lua-cjson's interface\n"
  "  require \"baton.log\"        logs that delay nobody, with the request's fields\n"
  "  A function of Lua's library that blocks (os.execute, io.read), or of a C module\n"
  "  that is known (LuaSocket, ...) or declared, stops only the process that called\n"
  "  it. The program ends when its last process has ended.\n"
  "\n"
  "Example:\n"
  "  local process = require \"baton.process\"\n"
  "  local clock = process.spawn({daemon = true}, function()\n"
  "    while true do print(\"tick\") process.sleep(0.5) end\n"
  "  end)\n"
  "  os.execute(\"sleep 2\")   -- the clock goes on ticking\n";

void baton_print_help(const char *program_name) {
  printf("usage: %s [options] [script [args]]\n", program_name);
  printf("       %s command ...\n", program_name);
  fputs(help_text, stdout);
  fflush(stdout);
}
