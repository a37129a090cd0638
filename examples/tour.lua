-- A tour of Baton in three seconds. Run it with: cargo run --release -- examples/tour.lua
--
-- Each part prints what it shows, and then the results.

local process = require "baton.process"

local started = process.now()

local function part(number, title, ...)
  print(("\n%d. %s"):format(number, title))
  for _, line in ipairs { ... } do print("   " .. line) end
end

local function show(format, ...)
  print(("   > " .. format):format(...))
end

print("Baton runs Lua as processes: green threads, cheap and preemptive.")

part(1, "Processes and a channel",
  "Three workers take numbers from one channel and send their squares to another.",
  "A send waits until a worker receives, so no value is lost.")
do
  local numbers, squares = process.channel(), process.channel()
  local workers = {}
  for i = 1, 3 do
    workers[i] = process.spawn({ name = "worker " .. i }, function()
      local done = 0
      for n in numbers:values() do
        squares:send(n * n)
        done = done + 1
      end
      return done
    end)
  end
  process.spawn({ name = "feeder" }, function()
    for n = 1, 9 do numbers:send(n) end
    numbers:close()
  end)
  local sum = 0
  for _ = 1, 9 do sum = sum + squares:receive() end
  local done = 0
  for _, worker in ipairs(workers) do
    local ok, count = worker:join()
    assert(ok, count)
    done = done + count
  end
  show("%d workers squared %d numbers; the sum of the squares is %d", #workers, done, sum)
end

part(2, "A call that blocks, beside a clock",
  "os.execute(\"sleep 1\") is Lua's own function, and returns after a second.",
  "Only the process that calls it waits. The clock's process goes on ticking.")
do
  local ticks = 0
  local clock = process.spawn({ name = "clock" }, function()
    while true do
      process.sleep(0.1)
      ticks = ticks + 1
      if ticks % 3 == 0 then show("tick %d", ticks) end
    end
  end)
  local before = process.now()
  local ok = os.execute("sleep 1")
  local took = process.now() - before
  clock:kill()
  clock:join()
  show("os.execute returned %s after %.1f s, in which the clock ticked %d times", ok, took, ticks)
  show(ticks >= 5 and "the clock ticked on" or "the clock was held up")
end

part(3, "A loop without end",
  "This process never yields, sleeps or calls a function. It is preempted all the same.",
  "It can be killed, and then its <close> variables are closed.")
do
  local turns, closed = 0, false
  local loop = process.spawn({ name = "endless" }, function()
    local _ <close> = setmetatable({}, { __close = function() closed = true end })
    while true do turns = turns + 1 end
  end)
  local naps = 0
  for _ = 1, 10 do
    process.sleep(0.1)
    naps = naps + 1
  end
  show(
    "it has turned more than a thousand times: %s; we were woken %d times meanwhile",
    turns > 1000,
    naps
  )
  loop:kill("no more of this")
  local ok, reason = loop:join()
  show("killed: join gives %s, %q; its variable was closed: %s", ok, reason, closed)
  show("its status is %q", loop:status())
end

part(4, "A process that fails",
  "An error ends its own process and no other. A process that joins it gets the error.",
  "If no process joins it, Baton prints the error, and the program's status is 1.")
do
  local function skate(ice)
    if ice < 3 then error("the ice is too thin") end
  end
  local skater = process.spawn({ name = "skater", quiet = true }, function() skate(2) end)
  local ok, err = skater:join()
  show("join gives %s, %q", ok, err)
end

part(5, "Many of them",
  "Ten thousand processes, each of which sleeps for half a second, at the same time.")
do
  local before = process.now()
  local sleepers = {}
  for i = 1, 10000 do
    sleepers[i] = process.spawn(function() return process.sleep(0.5) end)
  end
  local woken = 0
  for _, sleeper in ipairs(sleepers) do
    if sleeper:join() then woken = woken + 1 end
  end
  show("%d of them slept and ended, in %.1f s", woken, process.now() - before)
end

print(("\nThat was the tour, in %.1f s."):format(process.now() - started))
