-- Prints how deep a nesting the parser, the matcher and calls accept.
local function most(name, accepts)
  local low, high = 1, 4096
  while low < high do
    local middle = (low + high + 1) // 2
    if accepts(middle) then low = middle else high = middle - 1 end
  end
  print(name, low)
end
local function parses(before, inside, after)
  return function(n) return load(before:rep(n) .. inside .. after:rep(n)) ~= nil end
end

most("blocks", parses("do ", "", " end"))
most("functions", parses("return function() ", "", " end"))
most(
  "parentheses",
  function(n) return load("return " .. ("("):rep(n) .. "1" .. (")"):rep(n)) ~= nil end
)
most("tables", function(n) return load("return " .. ("{"):rep(n) .. ("}"):rep(n)) ~= nil end)
most("operators", function(n) return load("return " .. ("-"):rep(n, " ") .. "1") ~= nil end)
most("powers", function(n) return load("return " .. ("2^"):rep(n) .. "1") ~= nil end)
most("pattern", function(n) return pcall(string.find, ("a"):rep(n), ("a?"):rep(n)) end)
most("captures", function(n) return pcall(string.find, "a", ("()"):rep(n)) end)
most("format", function(n) return pcall(string.format, ("%s"):rep(n), table.unpack({}, 1, n)) end)
most("arguments", function(n) 
  return pcall(function() return select("#", table.unpack({}, 1, n * 256)) end)
end)
