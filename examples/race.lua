-- An update that is lost once in a million runs: baton --simulate 1-1000 examples/race.lua
local process = require "baton.process"

local balance = 0

local function deposit(amount)
  local before = balance
  balance = before + amount
end

local clerks = {}
for _ = 1, 2 do clerks[#clerks + 1] = process.spawn(deposit, 10) end
for _, clerk in ipairs(clerks) do clerk:join() end
assert(balance == 20, "a deposit is lost")
