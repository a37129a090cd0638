-- A forked child sends 100,000 signals: USR1, except that every 500th is another signal. The child
-- waits until that one was received before it continues.
local process = require "baton.process"
local ffi = require "baton.ffi"

ffi.cdef [[
  int fork(void); int getppid(void); int kill(int, int); int pipe(int *);
  long read(int, void *, size_t); long write(int, const void *, size_t);
  void _exit(int); int waitpid(int, int *, int);
]]

local OTHERS = { { "HUP", 1 }, { "TERM", 15 }, { "USR2", 12 }, { "WINCH", 28 } }
local STORM, BETWEEN = 100000, 500

local signals = process.signals("USR1", "HUP", "TERM", "USR2", "WINCH")
local answers = ffi.new("int[2]")
assert(ffi.C.pipe(answers) == 0)

local sender = ffi.C.fork()
if sender == 0 then
  local parent, answer = ffi.C.getppid(), ffi.new("char[1]")
  for i = 1, STORM do
    if i % BETWEEN == 0 then
      ffi.C.kill(parent, OTHERS[i // BETWEEN % #OTHERS + 1][2])
      if ffi.C.read(answers[0], answer, 1) ~= 1 then ffi.C._exit(1) end
    else
      ffi.C.kill(parent, 10)
    end
  end
  ffi.C._exit(0)
end

-- A process computes meanwhile.
process.spawn({ daemon = true }, function() while true do end end)
local others, storm = 0, 0
while others < STORM // BETWEEN do
  local name = signals:receive()
  if name == "USR1" then
    storm = storm + 1
  else
    others = others + 1
    assert(name == OTHERS[others % #OTHERS + 1][1], name)
    ffi.C.write(answers[1], "x", 1)
  end
end
local status = ffi.new("int[1]")
ffi.C.waitpid(sender, status, 0)
assert(status[0] == 0, "the sender failed")
print(("all %d others came, and %d of the storm"):format(others, storm))
