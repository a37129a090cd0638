-- Prints what baton found on this system, in one line.
local names = {}
for name, value in pairs(require "baton.process".features()) do
  names[#names + 1] = name .. "=" .. tostring(value)
end
table.sort(names)
print(table.concat(names, " "))
