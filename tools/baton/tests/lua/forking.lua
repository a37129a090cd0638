-- fork: only the process that called it runs in the child. Prints what each side saw.
local process = require "baton.process"
local forker = require "forker"
local path = os.getenv "SCRATCH" .. "/ticks"

process.params.warn_blocked = 10

local home = forker.getpid()
local function tick(name)
  return function()
    while true do
      local file <close> = io.open(path, "a")
      file:write(name, " ", forker.getpid() == home and "parent" or "child", "\n")
      file:close()
      process.sleep(0.001)
    end
  end
end

local function forking()
  local pid = forker.fork()
  if pid == 0 then
    -- The child: sleeping, spawning and foreign calls still work, and no other process runs.
    process.sleep(0.05)
    local ok, sum = process.spawn(function() process.sleep(0.005) return 6 * 7 end):join()
    local answer = io.popen "echo answer":read "l"
    local stranger = false
    for line in io.lines(path) do stranger = stranger or line:find "child" ~= nil end
    os.exit(ok and sum == 42 and answer == "answer" and not stranger and 42 or 1)
  end
  local status
  repeat
    process.sleep(0.002)
    status = forker.reap(pid)
  until status
  return status
end

process.spawn({ daemon = true }, tick "one")
process.spawn({ daemon = true, priority = 60 }, tick "two")
process.spawn({ daemon = true }, function() while true do process.yield() end end)
process.sleep(0.005)

if arg[1] == "main" then
  print(forking())
else
  print(select(2, process.spawn(forking):join()))
end
