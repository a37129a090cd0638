-- Replaces itself by hello_service (arg[1]), and passes it a socket that listens on the port arg[2]
-- as descriptor 3, as systemd does.
local check = require "check"
local ffi = require "baton.ffi"
local socket = require "socket"

ffi.cdef [[
  int dup2(int, int); int setenv(const char *, const char *, int); int getpid(void);
  int execv(const char *, const char **);
]]

local server = assert(socket.bind("127.0.0.1", tonumber(arg[2]), 4096))
if server:getfd() == 3 then
  ffi.cdef "int fcntl(int, int, ...);"
  ffi.C.fcntl(3, 2, ffi.cast("int", 0)) -- F_SETFD: it stays open
else
  ffi.C.dup2(server:getfd(), 3)
end
ffi.C.setenv("LISTEN_PID", tostring(ffi.C.getpid()), 1)
ffi.C.setenv("LISTEN_FDS", "1", 1)
ffi.C.setenv("LISTEN_FDNAMES", "http", 1)
local interpreter = check.interpreter()
local arguments = ffi.new("const char *[3]", { interpreter, arg[1] })
ffi.C.execv(interpreter, arguments)
error "cannot become the service"
