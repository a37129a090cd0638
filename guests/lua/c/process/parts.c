/*
** The guest's parts that are written in Lua (../lua), as functions.
**
** The program's first VM compiles a part when it needs it. The first of the other VMs that needs it
** compiles it, too, and keeps its code for those that come later: loading code takes a tenth of the
** instructions. Whether there is kept code does not depend on the time, so a simulated run is as it
** was.
*/
#include "seam/internals.h"
#include "process/process.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

/* The code of a part, as lua_dump writes it. Never freed. */
struct code {
  struct code *next;
  size_t size, room;
  char *bytes;
  char name[];
};

/*
** A list that grows at its head. Two VMs that compile a part at the same time both add their code,
** which is the same.
**
** | operation | ordering | why |
** |---|---|---|
** | find_code | acquire | pairs with the release of keep_code: what the list has is complete |
** | keep_code | release | pairs with the acquire of find_code |
*/
static struct code *codes;

static const struct code *find_code(const char *name) {
  const struct code *code = __atomic_load_n(&codes, __ATOMIC_ACQUIRE);
  while (code != NULL && strcmp(code->name, name) != 0) code = code->next;
  return code;
}

static int write_code(lua_State *L, const void *bytes, size_t size, void *argument) {
  struct code *code = argument;
  (void)L;
  if (size > code->room - code->size) {
    const size_t room = 2 * (code->size + size);
    char *larger = realloc(code->bytes, room);
    if (larger == NULL) return 1;
    code->bytes = larger;
    code->room = room;
  }
  memcpy(code->bytes + code->size, bytes, size);
  code->size += size;
  return 0;
}

/* Keeps the code of the function on the top of the stack, if there is memory. */
static void keep_code(lua_State *L, const char *name) {
  struct code *code = calloc(1, sizeof *code + strlen(name) + 1);
  if (code == NULL) return;
  strcpy(code->name, name);
  if (lua_dump(L, write_code, code, 0) != 0) {
    free(code->bytes);
    free(code);
    return;
  }
  code->next = __atomic_load_n(&codes, __ATOMIC_RELAXED);
  /* Relaxed (the load above, and if another VM was faster): only the pointer is compared. */
  while (!__atomic_compare_exchange_n(
      &codes, &code->next, code, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

void baton_lua_load_text(
    lua_State *L, const char *name, const char *text, size_t size, const char *chunk) {
  const struct code *code = find_code(name);
  const struct baton_process *process = baton_lua_here(L);
  if (code != NULL) {
    if (luaL_loadbufferx(L, code->bytes, code->size, chunk, "b") != LUA_OK) lua_error(L);
    return;
  }
  if (luaL_loadbufferx(L, text, size, chunk, "t") != LUA_OK) lua_error(L);
  if (process != NULL && process->vm->start != NULL) keep_code(L, name);
}

void baton_lua_load_part(lua_State *L, const char *name, const char *chunk) {
  size_t size;
  const char *text = baton_lua_source(name, &size);
  baton_lua_load_text(L, name, text, size, chunk);
}

void baton_lua_run_part(lua_State *L, int arguments, int results) {
  struct baton_process *process = baton_simulated ? baton_lua_here(L) : NULL;
  uint32_t left;
  int status;
  if (process == NULL) {
    lua_call(L, arguments, results);
    return;
  }
  left = process->vm->steps_left;
  process->vm->steps_left = UINT32_MAX;
  status = lua_pcall(L, arguments, results, 0);
  process->vm->steps_left = left;
  if (status != LUA_OK) lua_error(L);
}

/* In a simulated run a part is run at once: then when it is first used makes no difference. */
void baton_lua_load_later(lua_State *L, const char *const *names, int entries) {
  const int load = lua_gettop(L), module = load - 1;
  int count = 0;
  if (baton_simulated) {
    lua_pushvalue(L, module);
    lua_call(L, 1, 0);
    return;
  }
  baton_lua_load_part(L, "later", "=baton.later");
  lua_pushvalue(L, module);
  lua_pushvalue(L, load);
  lua_newtable(L);
  for (; names[count] != NULL; count++) {
    lua_pushstring(L, names[count]);
    lua_rawseti(L, -2, count + 1);
  }
  if (entries != 0) lua_pushvalue(L, entries);
  baton_lua_run_part(L, entries != 0 ? 4 : 3, 0);
  lua_pop(L, 1);
}

/* {======================================================
** process.supervise (lua/supervise.lua) and process.pool (lua/pool.lua). As they are written in
** Lua, a process can be switched from and killed anywhere in them. Each loader gets the table in
** which it sets its functions.
** ======================================================= */

static int load_supervise(lua_State *L) {
  baton_lua_load_part(L, "supervise", "=process.supervise");
  lua_pushvalue(L, 1);
  lua_pushcfunction(L, baton_lua_raise_with_trace);
  lua_pushcfunction(L, baton_lua_end_process);
  lua_pushcfunction(L, baton_lua_refuse_argument);
  lua_pushcfunction(L, baton_lua_type_given);
  baton_lua_run_part(L, 5, 0);
  return 0;
}

static int load_pool(lua_State *L) {
  baton_lua_load_part(L, "pool", "=process.pool");
  lua_pushvalue(L, 1);
  lua_pushcfunction(L, baton_lua_refuse_argument);
  lua_pushcfunction(L, baton_lua_type_given);
  baton_lua_run_part(L, 3, 0);
  return 0;
}

/* Adds the functions to the module's table on the top of the stack. */
void baton_lua_open_parts(lua_State *L) {
  static const char *const of_supervise[] = {"supervise", NULL};
  static const char *const of_pool[] = {"pool", NULL};
  lua_pushcfunction(L, load_supervise);
  baton_lua_load_later(L, of_supervise, 0);
  lua_pushcfunction(L, load_pool);
  baton_lua_load_later(L, of_pool, 0);
}

/* }====================================================== */
