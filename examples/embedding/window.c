/* A window of SDL that redraws 60 times a second, while scripts sleep, block and compute.
   Usage: window SCRIPT [SECONDS] */
#include <baton_lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include <SDL.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MILLISECOND UINT64_C(1000000)
#define FRAME (UINT64_C(1000000000) / 60)
#define BUDGET (4 * MILLISECOND)

static void sleep_until(uint64_t time) {
  uint64_t now;
  while ((now = baton_lua_now()) < time) { /* again after a signal */
    struct timespec left;
    left.tv_sec = (time_t)((time - now) / 1000000000);
    left.tv_nsec = (long)((time - now) % 1000000000);
    nanosleep(&left, NULL);
  }
}

static void draw(SDL_Renderer *renderer, int frame, long long slept) {
  SDL_Rect bar = {0, 220, (int)(slept % 640), 40};
  SDL_Rect ball = {frame * 3 % 640, 80, 30, 30};
  SDL_SetRenderDrawColor(renderer, 20, 20, 40, 255);
  SDL_RenderClear(renderer);
  SDL_SetRenderDrawColor(renderer, 240, 200, 80, 255);
  SDL_RenderFillRect(renderer, &ball);
  SDL_SetRenderDrawColor(renderer, 80, 200, 120, 255);
  SDL_RenderFillRect(renderer, &bar);
  SDL_RenderPresent(renderer);
}

static void fail(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

int main(int argc, char **argv) {
  const double seconds = argc > 2 ? atof(argv[2]) : 5;
  const int frames = (int)(seconds * 60);
  lua_State *L = luaL_newstate();
  SDL_Window *window;
  SDL_Renderer *renderer;
  uint64_t due, latest = 0;
  int frame, late = 0, is_over = 0;
  long long slept = 0;
  if (argc < 2 || L == NULL) return 2;
  luaL_openlibs(L);
  if (SDL_Init(SDL_INIT_VIDEO) != 0) fail(SDL_GetError());
  window = SDL_CreateWindow(
      "Baton", SDL_WINDOWPOS_CENTERED, SDL_WINDOWPOS_CENTERED, 640, 320, SDL_WINDOW_SHOWN);
  if (window == NULL) fail(SDL_GetError());
  renderer = SDL_CreateRenderer(window, -1, SDL_RENDERER_SOFTWARE);
  if (renderer == NULL) fail(SDL_GetError());
  draw(renderer, 0, 0);
  if (luaL_dofile(L, argv[1]) != LUA_OK) fail(lua_tostring(L, -1));

  due = baton_lua_now();
  for (frame = 0; frame < frames && !is_over; frame++) {
    SDL_Event event;
    uint64_t began;
    due += FRAME;
    while (SDL_PollEvent(&event))
      if (event.type == SDL_QUIT) is_over = 1;
    lua_getglobal(L, "update");
    if (lua_pcall(L, 0, 3, 0) != LUA_OK) fail(lua_tostring(L, -1));
    slept = lua_tointeger(L, -3);
    lua_pop(L, 3);
    baton_lua_run_until(L, baton_lua_now() + BUDGET);
    sleep_until(due);
    began = baton_lua_now();
    if (began > due + 4 * MILLISECOND) late++;
    if (began - due > latest) latest = began - due;
    draw(renderer, frame, slept);
  }
  lua_getglobal(L, "update");
  if (lua_pcall(L, 0, 3, 0) != LUA_OK) fail(lua_tostring(L, -1));
  printf("%d frames, %d drawn late by more than 4 ms; the latest by %.1f ms\n", frame, late,
      (double)latest / 1e6);
  printf("slept %lld times, blocked %lld times, computed %lld steps\n",
      (long long)lua_tointeger(L, -3), (long long)lua_tointeger(L, -2),
      (long long)lua_tointeger(L, -1));
  lua_close(L);
  SDL_DestroyRenderer(renderer);
  SDL_DestroyWindow(window);
  SDL_Quit();
  return 0;
}
