/* A program with libuv's loop, in which processes of Lua run.
   Usage: uv SCRIPT [SECONDS] */
#include <baton_lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <uv.h>

#include <stdio.h>
#include <stdlib.h>

#define MILLISECOND UINT64_C(1000000)

static lua_State *L;
static int ticks;

static void fail(void) {
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  exit(1);
}

/* Before the loop waits: what can run runs, but at most for 5 ms, so that the loop's other events
   are not delayed for long. If there is more to do then, the descriptor says so. */
static void before_wait(uv_prepare_t *handle) {
  (void)handle;
  baton_lua_run_until(L, baton_lua_now() + 5 * MILLISECOND);
}

/* It only ends the loop's wait: `before_wait` does the work. */
static void has_something_to_do(uv_poll_t *handle, int status, int events) {
  (void)handle;
  (void)status;
  (void)events;
}

/* An event of the program's own, which calls into Lua. */
static void tick(uv_timer_t *timer) {
  (void)timer;
  ticks++;
  lua_getglobal(L, "update");
  if (lua_pcall(L, 0, 3, 0) != LUA_OK) fail();
  lua_pop(L, 3);
}

static void end(uv_timer_t *timer) { uv_stop(timer->loop); }

int main(int argc, char **argv) {
  const double seconds = argc > 2 ? atof(argv[2]) : 5;
  uv_loop_t *loop = uv_default_loop();
  uv_prepare_t prepare;
  uv_poll_t poll;
  uv_timer_t timer, last;
  if (argc < 2 || (L = luaL_newstate()) == NULL) return 2;
  luaL_openlibs(L);
  if (baton_lua_start(L) != LUA_OK || luaL_dofile(L, argv[1]) != LUA_OK) fail();

  uv_prepare_init(loop, &prepare);
  uv_prepare_start(&prepare, before_wait);
  uv_poll_init(loop, &poll, baton_lua_descriptor(L));
  uv_poll_start(&poll, UV_READABLE, has_something_to_do);

  uv_timer_init(loop, &timer);
  uv_timer_start(&timer, tick, 10, 10);
  uv_timer_init(loop, &last);
  uv_timer_start(&last, end, (uint64_t)(seconds * 1000), 0);
  uv_run(loop, UV_RUN_DEFAULT);

  lua_getglobal(L, "update");
  if (lua_pcall(L, 0, 3, 0) != LUA_OK) fail();
  printf("%d ticks of the loop\n", ticks);
  printf("slept %lld times, blocked %lld times, computed %lld steps\n",
      (long long)lua_tointeger(L, -3), (long long)lua_tointeger(L, -2),
      (long long)lua_tointeger(L, -1));
  uv_close((uv_handle_t *)&poll, NULL); /* before the descriptor is closed */
  uv_close((uv_handle_t *)&prepare, NULL);
  uv_close((uv_handle_t *)&timer, NULL);
  uv_close((uv_handle_t *)&last, NULL);
  uv_run(loop, UV_RUN_DEFAULT);
  uv_loop_close(loop);
  lua_close(L);
  return 0;
}
