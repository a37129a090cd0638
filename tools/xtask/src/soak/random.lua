-- Random numbers of the loads, from a seed.
local Random = {}
Random.__index = Random

function Random.new(number)
  return setmetatable({ state = (number * 0x9e3779b97f4a7c15) | 1 }, Random)
end

function Random:next()
  local x = self.state
  x = x ~ x >> 12
  x = x ~ x << 25
  x = x ~ x >> 27
  self.state = x
  return (x * 0x2545f4914f6cdd1d) >> 11
end

function Random:below(limit) return self:next() % limit end
function Random:between(low, high) return low + self:below(high - low + 1) end
function Random:pick(list) return list[1 + self:below(#list)] end

return Random
