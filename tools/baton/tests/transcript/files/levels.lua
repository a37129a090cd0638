local function f(level) error("message", level) end
for level = 0, 4 do print(level, pcall(f, level)) end
local function g() f(2) end
g()
