-- Metamethods of every kind: vectors with operators, computed fields and call syntax.
local rounds = tonumber(arg[1]) or 700000

local Vector = {}
local computed = {
  length = function(v) return math.sqrt(v[1] * v[1] + v[2] * v[2]) end,
  sum = function(v) return v[1] + v[2] end,
}
local function new(x, y)
  return setmetatable({ x, y }, Vector)
end
Vector.__add = function(a, b) return new(a[1] + b[1], a[2] + b[2]) end
Vector.__sub = function(a, b) return new(a[1] - b[1], a[2] - b[2]) end
Vector.__mul = function(a, k) return new(a[1] * k, a[2] * k) end
Vector.__eq = function(a, b) return a[1] == b[1] and a[2] == b[2] end
Vector.__lt = function(a, b) return a.sum < b.sum end
Vector.__len = function() return 2 end
Vector.__index = function(v, key) return computed[key](v) end
Vector.__call = function(v, k) return v[1] * k + v[2] end

local position, velocity = new(0, 0), new(1.5, -0.75)
local turned, met = 0, 0
for i = 1, rounds do
  position = position + velocity * 0.01
  if position.length > 10 then
    velocity = velocity * -1
    position = position + velocity * 0.02
    turned = turned + 1
  end
  if position < velocity then
    met = met + #position
  end
  if position == velocity then
    met = met - position(i)
  end
end
print(string.format("%.6f %d %d", position.sum, turned, met))
