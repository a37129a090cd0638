/* A game's loop: 60 frames a second, of which scripts get 2 ms each, whatever they do.
   Usage: frames SCRIPT [SECONDS] */
#include <baton_lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MILLISECOND UINT64_C(1000000)
#define FRAME (UINT64_C(1000000000) / 60)
#define BUDGET (2 * MILLISECOND)

static void sleep_until(uint64_t time) {
  uint64_t now;
  while ((now = baton_lua_now()) < time) { /* again after a signal */
    struct timespec left;
    left.tv_sec = (time_t)((time - now) / 1000000000);
    left.tv_nsec = (long)((time - now) % 1000000000);
    nanosleep(&left, NULL);
  }
}

static void fail(lua_State *L) {
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(1);
}

int main(int argc, char **argv) {
  const double seconds = argc > 2 ? atof(argv[2]) : 5;
  const int frames = (int)(seconds * 60);
  lua_State *L = luaL_newstate();
  uint64_t due = baton_lua_now(), longest = 0;
  int frame, late = 0;
  if (argc < 2 || L == NULL) return 2;
  luaL_openlibs(L);
  if (luaL_dofile(L, argv[1]) != LUA_OK) fail(L);
  for (frame = 0; frame < frames; frame++) {
    uint64_t began, took;
    due += FRAME;
    sleep_until(due);
    began = baton_lua_now();
    if (began > due + 4 * MILLISECOND) late++;
    /* the game's own call into Lua, then the processes' time */
    lua_getglobal(L, "update");
    if (lua_pcall(L, 0, 3, 0) != LUA_OK) fail(L);
    lua_pop(L, 3);
    baton_lua_run_until(L, began + BUDGET);
    took = baton_lua_now() - began;
    if (took > longest) longest = took;
    /* here it would draw */
  }
  lua_getglobal(L, "update");
  if (lua_pcall(L, 0, 3, 0) != LUA_OK) fail(L);
  printf("%d frames, %d late by more than 4 ms; scripts took at most %.1f ms of one\n", frames,
      late, (double)longest / 1e6);
  printf("slept %lld times, blocked %lld times, computed %lld steps\n",
      (long long)lua_tointeger(L, -3), (long long)lua_tointeger(L, -2),
      (long long)lua_tointeger(L, -1));
  lua_close(L);
  return 0;
}
