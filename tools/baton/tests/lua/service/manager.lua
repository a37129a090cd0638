-- process.notify and process.listen_fds. The program is its own service manager.
local check = require "check"
local process = require "baton.process"
local ffi = require "baton.ffi"
local case = {}

ffi.cdef [[
  int setenv(const char *, const char *, int); int unsetenv(const char *); int getpid(void);
  int dup2(int, int); int close(int); int fcntl(int, int, ...); int pipe(int *);
  int socket(int, int, int); int bind(int, const void *, unsigned);
  long recv(int, void *, size_t, int); long read(int, void *, size_t);
]]

local AF_UNIX, SOCK_DGRAM, DONT_WAIT, F_GETFD = 1, 2, 0x40, 1

-- Returns a bound datagram socket. The '@' of its name stands for a zero byte.
local function manager(name)
  local fd = ffi.C.socket(AF_UNIX, SOCK_DGRAM, 0)
  local address = string.pack("=I2", AF_UNIX) .. name:gsub("^@", "\0")
  check.equal(ffi.C.bind(fd, address, #address), 0)
  ffi.C.setenv("NOTIFY_SOCKET", name, 1)
  return fd
end

local function received(fd)
  local buffer = ffi.new("char[65536]")
  local n = ffi.C.recv(fd, buffer, 65536, DONT_WAIT)
  return n >= 0 and ffi.string(buffer, n) or nil
end

function case.a_text_goes_to_the_socket_as_one_datagram()
  local fd = manager(check.scratch "notify")
  check.results("notify", { true }, process.notify "READY=1")
  check.results("notify", { true }, process.notify("STATUS=ready\nMAINPID=7", 0))
  check.equal(received(fd), "READY=1")
  check.equal(received(fd), "STATUS=ready\nMAINPID=7")
  check.equal(received(fd), nil)
end

function case.the_socket_may_have_an_abstract_name()
  local fd = manager("@baton-test-" .. ffi.C.getpid())
  check.results("notify", { true }, process.notify "WATCHDOG=1")
  check.equal(received(fd), "WATCHDOG=1")
end

function case.without_a_manager_nothing_happens()
  ffi.C.unsetenv "NOTIFY_SOCKET"
  check.results("notify", { false }, process.notify "READY=1")
  ffi.C.setenv("NOTIFY_SOCKET", "", 1)
  check.results("notify", { false }, process.notify "READY=1")
end

function case.a_missing_manager_is_reported()
  ffi.C.setenv("NOTIFY_SOCKET", check.scratch "nobody", 1)
  local ok, why, code = process.notify "READY=1"
  check.equal(ok, nil)
  check.matches(why, "nobody%d+: No such file or directory$")
  check.equal(code, 2)
  for _, name in ipairs { "vsock:2:1234", "relative", "@", "/", "/" .. ("x"):rep(200) } do
    ffi.C.setenv("NOTIFY_SOCKET", name, 1)
    check.equal((process.notify "READY=1"), nil, name)
  end
end

function case.a_manager_that_does_not_read_delays_only_the_caller()
  local fd = manager(check.scratch "notify")
  local sent = 0
  while true do
    local ok, why = process.notify("WATCHDOG=1", 0)
    if not ok then
      check.equal(why, "timeout")
      break
    end
    sent = sent + 1
  end
  check.results("in time", { nil, "timeout" }, process.notify("WATCHDOG=1", 0.01))
  local p = process.spawn(process.notify, "READY=1")
  check.becomes(p, "waiting")
  local q = process.spawn(process.notify, "READY=1")
  check.becomes(q, "waiting")
  check.that(q:kill())
  check.equal(q:join(), false)
  for _ = 1, sent do check.equal(received(fd), "WATCHDOG=1") end
  check.results("join", { true, true }, p:join())
  check.equal(received(fd), "READY=1")
  check.equal(received(fd), nil)
end


function case.nothing_is_passed_to_others()
  for _, set in ipairs {
    function() end,
    function() ffi.C.setenv("LISTEN_PID", "1", 1) end,
    function() ffi.C.setenv("LISTEN_PID", "x", 1) end,
  } do
    ffi.C.setenv("LISTEN_FDS", "2", 1)
    set()
    check.equal(#process.listen_fds(), 0)
  end
end

function case.passed_descriptors_that_are_not_open_are_refused()
  ffi.C.setenv("LISTEN_PID", tostring(ffi.C.getpid()), 1)
  ffi.C.setenv("LISTEN_FDS", "500", 1)
  check.raises("LISTEN_FDS: descriptor %d+ is not open", process.listen_fds)
  ffi.C.setenv("LISTEN_FDS", "99999", 1)
  check.raises("LISTEN_FDS: at most 10000 descriptors", process.listen_fds)
  for _, wrong in ipairs { "-1", "x", "1x", "" } do
    ffi.C.setenv("LISTEN_FDS", wrong, 1)
    check.equal(#process.listen_fds(), 0)
  end
end

function case.wrong_texts_are_refused()
  check.raises("string expected, got nil", process.notify, nil)
  check.raises("text expected", process.notify, "")
  check.raises("NaN", process.notify, "READY=1", 0 / 0)
end

check.run(case)
