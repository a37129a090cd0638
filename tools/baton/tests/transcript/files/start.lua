-- Prints the depth of two kinds of recursion, starting from this chunk.
local depth = 0
local function f() depth = depth + 1 return f() + 1 end
print(pcall(f))
print(depth)
depth = 0
local function g(s) depth = depth + 1 return string.gsub(s, ".", g) end
print(pcall(g, "a"))
print(depth)
