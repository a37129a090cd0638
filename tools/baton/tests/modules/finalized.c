/* Objects whose finalizers record the order of their calls, and calls that keep the module busy
   until a byte arrives. */
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_LOG 4096

struct object {
  char name[32];
  int ends[2];
};

static char text[LONGEST_LOG];
static size_t length;
static int finalized, inside;

/* new(name) -> object */
static int new_object(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  struct object *object = lua_newuserdatauv(L, sizeof *object, 0);
  snprintf(object->name, sizeof object->name, "%s", name);
  luaL_setmetatable(L, "finalized");
  return 1;
}

static int finalize(lua_State *L) {
  struct object *object = luaL_checkudata(L, 1, "finalized");
  finalized++;
  if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0) return luaL_error(L, "a call is inside");
  length += (size_t)snprintf(
      text + length, length < LONGEST_LOG ? LONGEST_LOG - length : 0, "%s ", object->name);
  if (length > LONGEST_LOG) length = LONGEST_LOG;
  if (strncmp(object->name, "fails", 5) == 0) return luaL_error(L, "%s", object->name);
  if (strncmp(object->name, "speaks", 6) == 0) { /* also when the state is being closed */
    printf("%s\n", object->name);
    fflush(stdout);
  }
  return 0;
}

/* name(object) */
static int name_of(lua_State *L) {
  lua_pushstring(L, ((struct object *)luaL_checkudata(L, 1, "finalized"))->name);
  return 1;
}

/* hold(descriptor): returns when a byte has arrived. */
static int hold(lua_State *L) {
  char byte;
  const int descriptor = (int)luaL_checkinteger(L, 1);
  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  while (read(descriptor, &byte, 1) < 0) {
  }
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/* pipe() -> reading end, writing end */
static int make_pipe(lua_State *L) {
  int ends[2];
  if (pipe(ends) != 0) return luaL_error(L, "no pipe");
  lua_pushinteger(L, ends[0]);
  lua_pushinteger(L, ends[1]);
  return 2;
}

/* path(descriptor) */
static int path_of(lua_State *L) {
  lua_pushfstring(L, "/proc/self/fd/%d", (int)luaL_checkinteger(L, 1));
  return 1;
}

static const luaL_Reg methods[] = {{"name", name_of}, {"__gc", finalize}, {NULL, NULL}};
static const luaL_Reg functions[] = {
    {"new", new_object}, {"hold", hold}, {"pipe", make_pipe}, {"path", path_of}, {NULL, NULL}};

/* The addresses of the records, so that tests can read them without the module, which may be
   busy. */
int luaopen_finalized(lua_State *L) {
  luaL_newmetatable(L, "finalized");
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  luaL_newlib(L, functions);
  lua_pushlightuserdata(L, text);
  lua_setfield(L, -2, "text");
  lua_pushlightuserdata(L, &finalized);
  lua_setfield(L, -2, "count");
  return 1;
}
