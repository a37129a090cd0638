-- Prints in one line which mechanisms baton uses on this system.
local names = {}
for name, value in pairs(require "baton.process".features()) do
  names[#names + 1] = name .. "=" .. tostring(value)
end
table.sort(names)
print(table.concat(names, " "))
