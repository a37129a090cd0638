-- A clock that ticks once per second, without a window, or with the argument "window" in an X11
-- window. It waits for the X11 connection in the poller, through LuaSocket. It prints "ticking" at
-- the start, and three ticks later how often it has waited meanwhile, and ticks on.
local process = require "baton.process"
local PERIOD = 1

local function open_window()
  local ffi = require "baton.ffi"
  ffi.cdef [[
    typedef struct Display Display;
    typedef struct GC *GC;
    typedef union { int type; long pad[24]; } XEvent;
    Display *XOpenDisplay(const char *name);
    unsigned long XDefaultRootWindow(Display *display);
    unsigned long XCreateSimpleWindow(Display *display, unsigned long parent, int x, int y,
                                      unsigned width, unsigned height, unsigned border_width,
                                      unsigned long border, unsigned long background);
    GC XCreateGC(Display *display, unsigned long drawable, unsigned long mask, void *values);
    int XSelectInput(Display *display, unsigned long window, long mask);
    int XMapWindow(Display *display, unsigned long window);
    int XDrawImageString(Display *display, unsigned long drawable, GC gc, int x, int y,
                         const char *text, int length);
    int XFlush(Display *display);
    int XPending(Display *display);
    int XNextEvent(Display *display, XEvent *event);
    int XConnectionNumber(Display *display);
  ]]
  local EXPOSURE, EXPOSE = 1 << 15, 12
  local x11 = ffi.load "libX11.so.6"
  local display = x11.XOpenDisplay(ffi.nullptr)
  assert(display ~= ffi.nullptr, "no display")
  local window =
    x11.XCreateSimpleWindow(display, x11.XDefaultRootWindow(display), 0, 0, 100, 40, 0, 0, 0xffffff)
  local gc = x11.XCreateGC(display, window, 0, ffi.nullptr)
  x11.XSelectInput(display, window, EXPOSURE)
  x11.XMapWindow(display, window)
  x11.XFlush(display)

  -- The object that LuaSocket's select needs for a connection.
  local connection = {
    getfd = function() return x11.XConnectionNumber(display) end,
    dirty = function() return x11.XPending(display) > 0 end,
  }
  local self = { is_exposed = false }
  local socket, event = require "socket", ffi.new "XEvent"

  -- Handles events until `due`.
  function self.wait_until(due)
    repeat
      socket.select({ connection }, nil, math.max(0, due - process.now()))
      while x11.XPending(display) > 0 do
        x11.XNextEvent(display, event)
        self.is_exposed = self.is_exposed or event.type == EXPOSE
      end
    until process.now() >= due
  end

  function self.show(text)
    x11.XDrawImageString(display, window, gc, 10, 20, text, #text)
    x11.XFlush(display)
  end
  return self
end

-- Ticks for ever.
local function tick()
  local window = arg[1] == "window" and open_window()
  local wait_until = window and window.wait_until or process.sleep_until
  local due, waits = process.now(), nil
  for count = 0, math.huge do
    if window then window.show(tostring(count)) end
    if count == 2 then
      assert(not window or window.is_exposed, "the window was not shown")
      waits = process.stats().idle_waits
      print("ticking")
    elseif count == 5 then
      print(process.stats().idle_waits - waits, "waits")
    end
    io.stdout:flush()
    due = due + PERIOD
    wait_until(due)
  end
end

process.spawn(tick):join()
