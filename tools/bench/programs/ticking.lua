-- A process that ticks every 10 ms beside one that blocks: `ticking.lua case fifo seconds`. Results
-- go to standard error, because standard output may be what blocks. They are the longest gap
-- between ticks in milliseconds, and then `done`.
local process = require "baton.process"
local case, fifo, seconds = arg[1], arg[2], tonumber(arg[3])

local started, ended = false, false
local cases = {}

function cases.alone() end

-- This pattern tries every way to split the text before it fails.
function cases.match()
  local text, pattern = ("a"):rep(32), ("a*"):rep(8) .. "b"
  assert(string.match(text, pattern) == nil)
  ended = true
end

function cases.print()
  print(("x"):rep(1 << 20))
end

-- The other end is open, but nothing is written to it.
function cases.fifo_read()
  local file = assert(io.open(fifo, "r"))
  file:read(1)
end

-- The other end is never opened.
function cases.fifo_open()
  io.open(fifo, "r")
end

local function tick()
  local longest, ticks = 0, 0
  local last = process.now()
  local begin = last
  while true do
    process.sleep(0.010)
    local now = process.now()
    longest, ticks, last = math.max(longest, now - last), ticks + 1, now
    if ended or now - begin > (case == "match" and 60 or seconds) then
      return longest, ticks, now - begin
    end
  end
end

local ticker = process.spawn({ name = "ticker" }, tick)
process.sleep(0.05)
process.spawn({ name = case, daemon = true }, function()
  started = true
  cases[case]()
end)
local ok, longest, ticks, lasted = ticker:join()
assert(ok, longest)
assert(started, "the blocking process never ran")
io.stderr:write(
  string.format("gap_ms %.3f\nticks %d\nseconds %.3f\ndone\n", longest * 1e3, ticks, lasted)
)
os.exit(0)
