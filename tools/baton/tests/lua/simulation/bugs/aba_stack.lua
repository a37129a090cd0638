-- ABA: the top of a stack is the same again, but what is below it has changed meanwhile.
local process = require "baton.process"

local c = { name = "c" }
local b = { name = "b", below = c }
local a = { name = "a", below = b }
local top = a
local function pop()
  while true do
    local old = top
    local below = old.below
    local is_same = process.critical(function()
      if top ~= old then return false end
      top = below
      return true
    end)
    if is_same then return old end
  end
end
local function push(node)
  process.critical(function() node.below, top = top, node end)
end

local popped = {}
local one = process.spawn(function() popped[pop().name] = true end)
local other = process.spawn(function()
  local first = pop()
  popped[pop().name] = true
  push(first)
end)
one:join()
other:join()
assert(not popped[top.name], "what was popped is on the stack")
