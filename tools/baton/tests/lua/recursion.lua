-- Each kind of recursion until it fails. Prints the message and the depth. With the argument
-- "process", each kind runs in a process of its own; otherwise in the main program, which stock lua
-- can run as well.
local depth

local kinds = {}

function kinds.lua()
  local function recurse() depth = depth + 1 return 1 + recurse() end
  recurse()
end

function kinds.lua_with_many_locals()
  local function recurse(a, b, c, d, e, f, g, h)
    depth = depth + 1
    local i, j, k = a, b, c
    return 1 + recurse(i, j, k, d, e, f, g, h)
  end
  recurse()
end

function kinds.varargs()
  local function recurse(...) depth = depth + 1 return 1 + recurse(1, ...) end
  recurse()
end

function kinds.pcall()
  local function recurse()
    depth = depth + 1
    local ok, message = pcall(recurse)
    error(message, 0)
  end
  recurse()
end

function kinds.xpcall()
  local function recurse()
    depth = depth + 1
    local ok, message = xpcall(recurse, function(m) return m end)
    error(message, 0)
  end
  recurse()
end

function kinds.gsub()
  local function recurse() depth = depth + 1 return (string.gsub("x", "x", recurse)) end
  recurse()
end

function kinds.sort()
  local function recurse() depth = depth + 1 table.sort({ 1, 2 }, recurse) end
  recurse()
end

function kinds.tostring()
  local object = setmetatable({}, {
    __tostring = function(self)
      depth = depth + 1
      return tostring(self)
    end,
  })
  tostring(object)
end

function kinds.index_functions()
  local object = setmetatable({}, {
    __index = function(self, key)
      depth = depth + 1
      return self[key]
    end,
  })
  return object.field
end

function kinds.index_chain()
  local object = {}
  setmetatable(object, { __index = object })
  return object.field
end

function kinds.concatenation()
  local object = setmetatable({}, { __concat = function(a, b) depth = depth + 1 return a .. b end })
  return object .. "x"
end

function kinds.comparison()
  local object = setmetatable({}, { __lt = function(a, b) depth = depth + 1 return a < b end })
  return object < object
end

function kinds.call_metamethod()
  local object = setmetatable({}, {
    __call = function(self)
      depth = depth + 1
      return 1 + self()
    end,
  })
  object()
end

function kinds.load()
  local function recurse()
    depth = depth + 1
    local f, message = load(function() recurse() end)
    error(message, 0)
  end
  recurse()
end

function kinds.dofile_like_chunks()
  recursive_chunk = function() depth = depth + 1 return load "return 1 + recursive_chunk()" () end
  recursive_chunk()
end

function kinds.coroutines()
  local function recurse()
    depth = depth + 1
    local ok, message = coroutine.resume(coroutine.create(recurse))
    if not ok then error(message, 0) end
  end
  recurse()
end

function kinds.wrapped_coroutines()
  local function recurse() depth = depth + 1 coroutine.wrap(recurse)() end
  recurse()
end

function kinds.close_variables()
  local function recurse()
    depth = depth + 1
    local guard <close> = setmetatable({}, { __close = function() recurse() end })
  end
  recurse()
end

function kinds.iterators()
  local function recurse() depth = depth + 1 for _ in recurse do end end
  recurse()
end

function kinds.unpack()
  depth = 0
  return table.unpack({}, 1, 1e7)
end

-- Finds the deepest nesting that the parser accepts, then fails one level deeper.
local function deepest(first, before, middle, after)
  local function text(n) return first .. before:rep(n) .. middle .. after:rep(n) end
  return function()
    local low, high = 1, 1000
    while low < high do
      local try = (low + high + 1) // 2
      if load(text(try)) then low = try else high = try - 1 end
    end
    depth = low
    error(select(2, load(text(low + 1))), 0)
  end
end

kinds.nested_parentheses = deepest("return ", "(", "1", ")")
kinds.nested_calls = deepest("return ", "f(", "1", ")")
kinds.nested_functions = deepest("", "local function f() ", "", " end")
kinds.nested_blocks = deepest("", "do ", "", " end")
kinds.nested_loops = deepest("", "while true do ", "", " end")
kinds.nested_tables = deepest("return ", "{", "", "}")
kinds.nested_unary = deepest("return ", "not ", "1", "")
kinds.nested_powers = deepest("return ", "2^", "1", "")
kinds.nested_concatenations = deepest("return ", "a..", "a", "")

local function report(name)
  depth = 0
  local ok, message = pcall(kinds[name])
  message = tostring(message)
  -- A message that carries another carries many; what counts is how each begins and ends.
  if #message > 300 then message = message:sub(1, 150) .. " ... " .. message:sub(-150) end
  return string.format("%s: depth %d: %s", name, depth, message)
end

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)

if arg[1] == "process" then
  local process = require "baton.process"
  for _, name in ipairs(names) do print(select(2, process.spawn(report, name):join())) end
else
  for _, name in ipairs(names) do print(report(name)) end
end
