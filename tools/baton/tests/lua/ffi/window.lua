-- A library that must run on one thread: SDL's window and its events, in a process that is bound to
-- the thread named by the first argument. Beside it run a ticker, a process that posts events, a
-- process on the same thread, and one on a thread of its own. That one acts as a user: it moves the
-- mouse and presses keys through the X server, and saves a picture of the screen to the second
-- argument.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local thread, picture = arg[1], arg[2]

ffi.cdef [[
typedef struct SDL_Window SDL_Window;
typedef struct SDL_Surface SDL_Surface;
typedef struct { int x, y, w, h; } SDL_Rect;
typedef union {
  uint32_t type;
  struct { uint32_t type, timestamp, window; int32_t code; void *data1, *data2; } user;
  struct {
    uint32_t type, timestamp, window; uint8_t state, repeat, padding[2]; int32_t scancode, sym;
  } key;
  struct {
    uint32_t type, timestamp, window, which; uint8_t button, state, clicks, padding; int32_t x, y;
  } button;
  uint8_t padding[64];
} SDL_Event;
int SDL_Init(uint32_t flags);
void SDL_Quit(void);
const char *SDL_GetError(void);
SDL_Window *SDL_CreateWindow(const char *title, int x, int y, int w, int h, uint32_t flags);
void SDL_DestroyWindow(SDL_Window *window);
void SDL_SetWindowTitle(SDL_Window *window, const char *title);
const char *SDL_GetWindowTitle(SDL_Window *window);
SDL_Surface *SDL_GetWindowSurface(SDL_Window *window);
int SDL_FillRect(SDL_Surface *to, const SDL_Rect *area, uint32_t colour);
int SDL_UpdateWindowSurface(SDL_Window *window);
int SDL_WaitEvent(SDL_Event *event);
int SDL_PushEvent(SDL_Event *event);
uint32_t SDL_RegisterEvents(int count);
unsigned long SDL_ThreadID(void);

typedef struct Display Display;
typedef struct XImage XImage;
Display *XOpenDisplay(const char *name);
int XCloseDisplay(Display *display);
unsigned long XDefaultRootWindow(Display *display);
int XSync(Display *display, int discard);
uint8_t XKeysymToKeycode(Display *display, unsigned long keysym);
XImage *XGetImage(Display *display, unsigned long drawable, int x, int y, unsigned w, unsigned h,
                  unsigned long planes, int format);
unsigned long XGetPixel(XImage *image, int x, int y);
int XTestFakeMotionEvent(Display *display, int screen, int x, int y, unsigned long delay);
int XTestFakeButtonEvent(Display *display, unsigned button, int down, unsigned long delay);
int XTestFakeKeyEvent(Display *display, unsigned key, int down, unsigned long delay);
]]

local sdl, x11, xtest = ffi.load "libSDL2-2.0.so.0", ffi.load "libX11.so.6", ffi.load "libXtst.so.6"
local VIDEO, QUIT, KEY_DOWN, BUTTON_DOWN, KEY_A = 0x20, 0x100, 0x300, 0x401, 4
local LEFT, TOP, WIDTH, HEIGHT = 20, 10, 320, 240
local STRIPES = { 0xff0000, 0x00ff00, 0x0000ff, 0xffff00 }

local log, window, own_events = {}, nil, nil
local ready = process.event()

-- Fills one of the stripes.
local function draw(stripe)
  local surface = sdl.SDL_GetWindowSurface(window)
  local width = WIDTH // #STRIPES
  sdl.SDL_FillRect(
    surface,
    ffi.new("SDL_Rect", { (stripe - 1) * width, 0, width, HEIGHT }),
    STRIPES[stripe]
  )
  check.equal(sdl.SDL_UpdateWindowSurface(window), 0)
end

local function show_window()
  check.equal(sdl.SDL_Init(VIDEO), 0, ffi.string(sdl.SDL_GetError()))
  window = sdl.SDL_CreateWindow("stripes", LEFT, TOP, WIDTH, HEIGHT, 0)
  check.that(window ~= ffi.nullptr, ffi.string(sdl.SDL_GetError()))
  own_events = sdl.SDL_RegisterEvents(1)
  ready:set()
end

-- Runs the window until it is closed. Returns the thread on which each event was handled.
local function handle_events()
  show_window()
  local home, event = sdl.SDL_ThreadID(), ffi.new "SDL_Event"
  repeat
    check.equal(sdl.SDL_WaitEvent(event), 1)
    check.equal(sdl.SDL_ThreadID(), home)
    check.equal(process.thread(), thread)
    if event.type == own_events then
      draw(event.user.code)
      log[#log + 1] = "stripe " .. event.user.code
    elseif event.type == KEY_DOWN and event.key["repeat"] == 0 then
      log[#log + 1] = "key " .. event.key.scancode
    elseif event.type == BUTTON_DOWN then
      log[#log + 1] = ("button %d at %d,%d"):format(
        event.button.button,
        event.button.x,
        event.button.y
      )
    end
  until event.type == QUIT
  local title = ffi.string(sdl.SDL_GetWindowTitle(window))
  sdl.SDL_DestroyWindow(window)
  sdl.SDL_Quit()
  return home, title
end

local ticks = 0
process.spawn({ daemon = true, name = "ticker" }, function()
  while true do
    process.sleep(0.001)
    ticks = ticks + 1
  end
end)

local gui = process.spawn({ thread = thread, name = "gui" }, handle_events)
ready:wait()

-- The window waits for events in a C call, and other processes run.
local function await_quiet()
  check.becomes(gui, "foreign")
  local before = ticks
  check.eventually(
    "the ticker runs while the window waits",
    function() return ticks >= before + 20 end
  )
end

local function post(type, code)
  local event = ffi.new "SDL_Event"
  event.user.type, event.user.code = type, code or 0
  check.equal(sdl.SDL_PushEvent(event), 1)
end

local function logged(text)
  check.eventually(text, function() return log[#log] == text end)
end

local poster = process.spawn({ name = "poster" }, function()
  for stripe = 1, #STRIPES do
    await_quiet()
    post(own_events, stripe)
    logged("stripe " .. stripe)
  end
end)
check.results("the poster", { true }, poster:join())

-- Returns the pixels of the window as the screen shows them.
local function screen_shot(display)
  local root = x11.XDefaultRootWindow(display)
  local image = x11.XGetImage(display, root, LEFT, TOP, WIDTH, HEIGHT, 0xffffff, 2)
  local rows = {}
  for y = 0, HEIGHT - 1 do
    local row = {}
    for x = 0, WIDTH - 1 do
      row[x + 1] = string.pack(">I3", x11.XGetPixel(image, x, y) & 0xffffff)
    end
    rows[y + 1] = table.concat(row)
  end
  check.write_file(picture, ("P6 %d %d 255\n"):format(WIDTH, HEIGHT) .. table.concat(rows))
end

local user = process.spawn({ thread = "user", name = "user" }, function()
  local display = x11.XOpenDisplay(nil)
  await_quiet()
  xtest.XTestFakeMotionEvent(display, 0, LEFT + 100, TOP + 50, 0)
  xtest.XTestFakeButtonEvent(display, 1, 1, 0)
  xtest.XTestFakeButtonEvent(display, 1, 0, 0)
  x11.XSync(display, 0)
  logged "button 1 at 100,50"
  local key = x11.XKeysymToKeycode(display, ("a"):byte())
  xtest.XTestFakeKeyEvent(display, key, 1, 0)
  xtest.XTestFakeKeyEvent(display, key, 0, 0)
  x11.XSync(display, 0)
  logged("key " .. KEY_A)
  screen_shot(display)
  x11.XCloseDisplay(display)
  return process.thread()
end)
check.results("the user", { true, "user" }, user:join())

-- Another process on the same thread runs when the window's call returns.
await_quiet()
local titler = process.spawn({ thread = thread }, function()
  sdl.SDL_SetWindowTitle(window, "all seen")
  return sdl.SDL_ThreadID()
end)
process.yield()
check.matches(titler:stats().waits_for, "^for the thread '" .. thread)
post(own_events, 1)
local _, beside = titler:join()
await_quiet()
post(QUIT)
check.results("the window", { true, beside, "all seen" }, gui:join())
print(table.concat(log, "; "))
