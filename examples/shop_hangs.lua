-- A shop that stops selling after a while. The guide's page "When it hangs" finds out why.
--
--   baton examples/shop_hangs.lua
--
-- Clerks take orders, and each writes a line to the journal for every order. The journal's process
-- copies the lines, ten at a time, to an archive. The archive was closed for the night.

local process = require "baton.process"

local orders = process.channel { 100, name = "orders" }
local journal = process.channel { 10, name = "journal" }
local archive = process.event { name = "archive open" }

-- The fault: this process waits for the archive while the journal fills up behind it.
local function keep_journal()
  local written = 0
  for _ in journal:values() do
    written = written + 1
    if written % 10 == 0 then archive:wait() end
  end
end

local sold = 0

local function sell(item)
  journal:send("sold " .. item)
  sold = sold + 1
end

local function serve()
  for item in orders:values() do sell(item) end
end

process.spawn({ name = "journal", daemon = true }, keep_journal)
for number = 1, 8 do
  process.spawn({ name = "clerk " .. number, daemon = true }, serve)
end
process.spawn({ name = "customers", daemon = true }, function()
  for number = 1, math.huge do orders:send("item " .. number) end
end)

while true do
  process.sleep(1)
  print(sold .. " sold")
  io.stdout:flush()
end
