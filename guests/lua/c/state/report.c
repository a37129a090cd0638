/*
** Reports on what processes are doing, for SIGQUIT and deadlocks.
*/
#include "seam/internals.h"
#include "state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LEVELS 22

/* The report under construction. */
static FILE *report;
static char *report_text;
static size_t report_size;

void baton_lua_begin_report(const char *heading) {
  report = open_memstream(&report_text, &report_size);
  if (report == NULL) report = stderr; /* no memory */
  fprintf(report, "baton: %s\n", heading);
}

void baton_lua_end_report(int is_last) {
  if (report != stderr) {
    fclose(report);
    baton_lua_post_notice(report_text, report_size);
    free(report_text);
  }
  report = NULL;
  if (is_last) baton_lua_end_notices(1);
}

static void report_level(lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "Sln", ar);
  if (ar->currentline > 0)
    fprintf(report, "\t%s:%d: in ", ar->short_src, ar->currentline);
  else
    fprintf(report, "\t%s: in ", ar->short_src);
  if (ar->name != NULL)
    fprintf(report, "%s '%s'\n", *ar->namewhat ? ar->namewhat : "function", ar->name);
  else if (*ar->what == 'm')
    fprintf(report, "main chunk\n");
  else if (*ar->what != 'C')
    fprintf(report, "function <%s:%d>\n", ar->short_src, ar->linedefined);
  else
    fprintf(report, "?\n");
}

static void report_state(lua_State *L) {
  lua_Debug ar;
  int level;
  memset(&ar, 0, sizeof ar);
  for (level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == MOST_LEVELS) {
      fprintf(report, "\t...\n");
      return;
    }
    report_level(L, &ar);
  }
}

/* Writes where the process was spawned, such as "file:12", or nothing. */
const char *baton_lua_spawn_site(const struct baton_process *process, char *text, size_t size) {
  const Proto *function = (const Proto *)process->spawn_function;
  char source[LUA_IDSIZE] = "";
  text[0] = '\0';
  if (function == NULL) return text;
  luaO_chunkid(source, getstr(function->source), tsslen(function->source));
  snprintf(text, size, "%s:%d", source, luaG_getfuncline(function, process->spawn_pc));
  return text;
}

void baton_lua_report_process(
    struct baton_process *process, const char *state, const char *blocker, double since) {
  struct baton_resumed *resumed;
  char title[BATON_TITLE], site[BATON_SITE];
  const int waits = strcmp(state, "waiting") == 0 || strcmp(state, "sleeping") == 0 ||
      strcmp(state, "suspended") == 0 || strcmp(state, "foreign") == 0;
  fprintf(
      report, "%s: %s%s%s", baton_lua_title(process, title), state, *blocker ? ", " : "", blocker);
  if (waits && since >= 0) fprintf(report, ", since %.3f s", since);
  if (*baton_lua_spawn_site(process, site, sizeof site) != '\0')
    fprintf(report, " (spawned at %s)", site);
  fputc('\n', report);
  if (process->L == NULL) return;
  fprintf(report, "stack traceback:\n");
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    report_state(resumed->L);
  report_state(process->L);
}
