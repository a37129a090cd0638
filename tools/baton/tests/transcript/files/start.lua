-- Prints how deep two kinds of recursion go from where this chunk was started.
local depth = 0
local function f() depth = depth + 1 return f() + 1 end
print(pcall(f))
print(depth)
depth = 0
local function g(s) depth = depth + 1 return string.gsub(s, ".", g) end
print(pcall(g, "a"))
print(depth)
