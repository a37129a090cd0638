#include "command_line.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Reads a number at the beginning of the text. Returns the rest of the
   text, or NULL if there is no number. */
static const char *read_seed(const char *text, unsigned long long *seed) {
  char *end;
  if (!isdigit((unsigned char)text[0]))
    return NULL;
  errno = 0;
  *seed = strtoull(text, &end, 10);
  return errno == 0 ? end : NULL;
}

/* Reads "17" or "1-1000". */
static int read_seeds(Invocation *call, const char *text) {
  const char *rest = read_seed(text, &call->first_seed);
  call->last_seed = call->first_seed;
  if (rest != NULL && rest[0] == '-')
    rest = read_seed(rest + 1, &call->last_seed);
  return rest != NULL && rest[0] == '\0' && call->first_seed <= call->last_seed;
}

/* Reads argv[*i], an option other than "-" and "--". If its value is an
   argument of its own, moves *i to that. */
static Errand read_option(Invocation *call, int *i) {
  const char *option = call->argv[*i];
  if (is(option, "--help"))
    return SHOW_HELP;
  if (is(option, "--version"))
    return SHOW_VERSION;
  if (is(option, "--simulate")) {
    const char *value = call->argv[*i + 1];
    if (value == NULL || !read_seeds(call, value))
      return refuse(call, option, "'%s' needs a seed: a number, or a range such as 1-1000\n");
    call->seeds_at = ++(*i);
    return RUN;
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

Errand baton_read_command_line(Invocation *call) {
  Errand errand = read_options(call);
  if (errand == RUN && call->first_seed < call->last_seed && reads_input(call))
    return refuse(call, "--simulate",
                  "'%s' with a range needs a script or -e: the input can be read "
                  "only once\n");
  return errand;
}

int baton_asks_for_simulation(int argc, char **argv, int *seeds_at,
                              unsigned long long *first,
                              unsigned long long *last) {
  Invocation call = {0};
  call.argc = argc;
  call.argv = argv;
  if (baton_read_command_line(&call) != RUN || call.seeds_at == 0)
    return 0;
  *seeds_at = call.seeds_at;
  *first = call.first_seed;
  *last = call.last_seed;
  return 1;
}

void baton_print_usage(const char *program_name, const Invocation *call) {
  fprintf(stderr, "%s: ", program_name);
  fprintf(stderr, call->why, call->wrong);
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
  "              range (1-1000) a run for each seed, up to the first that fails\n"
  "  --          end of the options\n"
  "  -           end of the options; run the input\n"
  "  --help      show this text\n"
  "  --version   show Lua's and Baton's versions\n"
  "\n"
  "Commands:\n"
  "  stacks PID     show where each process of a running program is, what it\n"
  "                 waits for, and who holds that\n"
  "  profile PID    find out where a running program spends its time; also\n"
  "                 profile script [args]\n"
  "  metrics PID    write the counters of a running program as OpenMetrics\n"
  "  set PID        show or set the parameters of a running program\n"
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
  "                             they may change it, too\n"
  "\n"
  "What Baton adds to Lua:\n"
  "  require \"baton.process\"    preemptive processes by the thousand: spawn, join,\n"
  "                             kill, sleep, channel, select, mutex, ...\n"
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
