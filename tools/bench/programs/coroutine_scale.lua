-- Many suspended coroutines: `coroutine_scale.lua n`. Times are microseconds of CPU time for each
-- coroutine, because stock Lua has no finer clock.
local n = tonumber(arg[1])

local function status(name)
  for line in io.lines("/proc/self/status") do
    local value = line:match("^" .. name .. ":%s+(%d+) kB")
    if value then
      return tonumber(value)
    end
  end
end

local ended = 0
local function body()
  coroutine.yield()
  ended = ended + 1
end

collectgarbage()
print("base_kib", status("VmRSS") + status("VmPTE"))
local start, list = os.clock(), {}
for i = 1, n do
  local co = coroutine.create(body)
  coroutine.resume(co)
  list[i] = co
end
print("spawn_us", (os.clock() - start) / n * 1e6)
print("rss_kib", status("VmRSS"))
print("pte_kib", status("VmPTE"))
start = os.clock()
for i = 1, n do
  coroutine.resume(list[i])
end
print("end_us", (os.clock() - start) / n * 1e6)
assert(ended == n, "not all have ended")
