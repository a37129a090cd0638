-- Processes that make blocking calls at the same time: `blocking.lua execute|popen count`. Prints
-- the seconds until all have ended.
local process = require "baton.process"
local kind, count = arg[1], tonumber(arg[2])

local calls = {}

function calls.execute()
  assert(os.execute("sleep 1"))
end

function calls.popen()
  local pipe = assert(io.popen("sleep 1"))
  assert(pipe:read("a") == "")
  assert(pipe:close())
end

local start, list = process.now(), {}
for i = 1, count do
  list[i] = process.spawn(calls[kind])
end
for _, p in ipairs(list) do
  assert(p:join())
end
print("seconds", process.now() - start)
