-- Prints what the ffi knows about generated declarations. A C program prints the same
-- (tests/oracle).
local ffi = require "baton.ffi"
local oracle = {}

ffi.cdef "typedef int (*oracle_function)(int, double);"
local library

function oracle.load(path) library = ffi.load(path) end

function oracle.declare(text)
  -- An error message includes the declaration.
  local ok, message = pcall(ffi.cdef, text)
  if not ok then error(message .. " in\n" .. text, 0) end
end

local function address(pointer) return ffi.tonumber(ffi.cast("uintptr_t", pointer)) end

-- Formats a value as the C program does.
local show = {
  integer = function(value) return ("%d"):format(ffi.tonumber(value)) end,
  unsigned = function(value) return (tostring(value):gsub("ULL$", "")) end,
  bool = function(value) return value and "1" or "0" end,
  floating = function(value) return ("%a"):format(value) end,
  pointer = function(value) return (tostring(ffi.cast("uintptr_t", value)):gsub("ULL$", "")) end,
}
show["long double"] = function(value) return ("%a"):format(ffi.tonumber(value)) end

-- Converts a literal to the value that is stored or passed.
local function given(leaf, value)
  if leaf[2] == "pointer" then return ffi.cast(leaf.cast, value) end
  if leaf[2] == "bool" then return value ~= 0 end
  return value
end

-- Returns the innermost structure or array on the way to a leaf, and the leaf's key in it.
local function place(object, path)
  local parent, key
  for word in path:gmatch "[^.%[%]]+" do
    if key ~= nil then object = object[key] end
    parent, key = object, math.tointeger(word) or word
  end
  return parent, key
end

local function offset(object, path)
  local parent, key = place(object, path)
  local start = address(ffi.cast("char *", object))
  if math.type(key) == "integer" then return address(parent + key) - start end
  return address(ffi.cast("char *", parent)) - start + ffi.offsetof(parent, key)
end

local function bytes(object)
  return (
    ffi
      .string(ffi.cast("char *", object), ffi.sizeof(object))
      :gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
  )
end

local function write(object, leaf, which)
  local parent, key = place(object, leaf[1])
  parent[key] = given(leaf, leaf[3 + which])
end

local function read(object, leaf)
  local parent, key = place(object, leaf[1])
  return show[leaf[2]](parent[key])
end

local function listing(object, leaves)
  local list = {}
  for _, leaf in ipairs(leaves) do
    if leaf.apart then list[#list + 1] = " " .. read(object, leaf) end
  end
  return table.concat(list)
end

local function filled(ct, leaves, which)
  local object = ffi.new(ct)
  for _, leaf in ipairs(leaves) do
    if leaf.apart then write(object, leaf, which) end
  end
  return object
end

local function leaf_by_leaf(label, ct, leaves)
  for _, leaf in ipairs(leaves) do
    local object = ffi.new(ct)
    write(object, leaf, 0)
    io.write(label, ".", leaf[1], " ")
    if leaf[2] ~= "long double" then io.write(bytes(object)) end
    if not leaf.bits then io.write(" at ", offset(object, leaf[1])) end
    io.write(" is ", read(object, leaf), "\n")
  end
end

local function pass(label, ct, index, leading, leaves)
  local text, arguments = ffi.new "char[100000]", { ffi.new "char *" }
  arguments[1] = text
  for i = 1, leading do arguments[#arguments + 1] = i end
  arguments[#arguments + 1] = filled(ct, leaves, 0)
  arguments[#arguments + 1] = 1.5
  arguments[#arguments + 1] = filled(ct, leaves, 1)
  arguments[#arguments + 1] = 2.5
  library["take" .. index](table.unpack(arguments))
  io.write(label, ": take ", ffi.string(text), "\n")
end

local function come_back(label, ct, index, leaves)
  io.write(label, ": make", listing(library["make" .. index](1), leaves), "\n")
  local more
  local ok, turned = pcall(library["turn" .. index], function(object, integer, floating)
    more = (" %d %a"):format(integer, floating)
    local copy = ffi.new(ct)
    for _, leaf in ipairs(leaves) do
      if leaf.apart then
        local parent, key = place(object, leaf[1])
        local to = place(copy, leaf[1])
        to[key] = parent[key]
      end
    end
    return copy
  end, filled(ct, leaves, 0))
  if ok then
    io.write(label, ": turn", more, listing(turned, leaves), "\n")
  elseif turned:find "cannot be passed to a callback by value" then
    io.write(label, ": turn is refused\n")
  else
    error(turned, 0)
  end
end

function oracle.record(label, name, index, leading, is_passed, is_returned, leaves)
  local ct = ffi.typeof(name)
  io.write(label, " ", ffi.sizeof(ct), " ", ffi.alignof(ct), "\n")
  leaf_by_leaf(label, ct, leaves)
  local object = ffi.new(ct)
  library["fill" .. index](object, 0)
  io.write(label, ": read", listing(object, leaves), "\n")
  if is_passed then pass(label, ct, index, leading, leaves) end
  if is_returned then come_back(label, ct, index, leaves) end
end

function oracle.enumeration(label, name, constants)
  io.write(label, " ", ffi.sizeof(name), " ", ffi.alignof(name), "\n")
  for _, constant in ipairs(constants) do
    io.write(label, ".", constant, " ", show.integer(ffi.C[constant]), "\n")
  end
end

-- Calls a function with these arguments, and lets C call a callback that calls it.
function oracle.call(label, name, form, ...)
  local arguments = {}
  for i, argument in ipairs { ... } do arguments[i] = given(argument, argument[3]) end
  local f = library[name]
  io.write(label, ": ", show[form](f(table.unpack(arguments))), "\n")
  io.write(
    label,
    ": ",
    show[form](library[name .. "_through"](function(...) return f(...) end)),
    " through\n"
  )
end

return oracle
