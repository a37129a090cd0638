-- require and package: searchers, preload, loaded, path and cpath, searchpath, and the arguments of
-- loaders. Processes share loaded modules, so every name contains something unique to this run.
local t = ...

local mine = tostring(t):gsub("%W", "") -- an address that stays in use during this run
local directory = t:scratch()
assert(os.execute("mkdir -p '" .. directory .. "/sub'"))
local function file(name, text)
  local f <close> = assert(io.open(directory .. "/" .. name, "w"))
  f:write(text)
end
local function name(n) return "behaviour_" .. mine .. "_" .. n end

-- preload: arguments and results of loaders.
for i = 1, 40 do
  local n = name("preload" .. i)
  local calls, got = 0, nil
  package.preload[n] = function(...)
    calls = calls + 1
    got = table.pack(...)
    return i % 4 ~= 0 and { i } or nil
  end
  t:equal(package.loaded[n], nil)
  local value, data = require(n)
  t:equal(data, ":preload:")
  if i % 4 == 0 then t:equal(value, true) else t:equal(value[1], i) end
  t:equal(package.loaded[n], value)
  local again, no_data = require(n)
  t:equal(again, value)
  t:equal(no_data, nil)
  t:equal(calls, 1)
  t:equal(got[1], n)
  t:equal(got[2], ":preload:")
  -- Removed from package.loaded, it is loaded again.
  package.loaded[n] = nil
  require(n)
  t:equal(calls, 2)
  package.loaded[n], package.preload[n] = nil, nil
  t:raises("module '" .. n .. "' not found", require, n)
end
do -- false, values set by the loader itself, errors
  local n = name "false"
  package.preload[n] = function() return false end
  t:equal((require(n)), false)
  t:equal(package.loaded[n], false)
  n = name "sets itself"
  package.preload[n] = function(m) package.loaded[m] = "set" end
  t:equal((require(n)), "set")
  n = name "sets and returns"
  package.preload[n] = function(m) package.loaded[m] = "set" return "returned" end
  t:equal((require(n)), "returned")
  n = name "fails"
  local calls = 0
  package.preload[n] = function() calls = calls + 1 error("loader " .. calls, 0) end
  for i = 1, 5 do t:gives("! loader " .. i, require, n) t:equal(package.loaded[n], nil) end
  local object = {}
  package.preload[n] = function() error(object) end
  t:equal(select(2, pcall(require, n)), object)
  package.preload[n] = nil
  t:raises("string expected", require)
  t:raises("string expected", require, {})
end

-- Files: templates of a path; dots become directory separators.
for i = 1, 20 do
  file(
    name("file" .. i) .. ".lua",
    ("local name, path = ... return { name = name, path = path, n = %d }"):format(i)
  )
  local path = directory .. "/" .. name("file" .. i) .. ".lua"
  local found = package.searchpath(name("file" .. i), directory .. "/?.lua")
  t:equal(found, path)
  local loaded = loadfile(found)(name("file" .. i), found)
  t:equal(loaded.n, i)
  local missing, why =
    package.searchpath(name "missing", directory .. "/?.lua;" .. directory .. "/?/init.lua")
  t:equal(missing, nil)
  t:equal(
    why,
    "no file '"
      .. directory
      .. "/"
      .. name "missing"
      .. ".lua'\n\tno file '"
      .. directory
      .. "/"
      .. name "missing"
      .. "/init.lua'"
  )
end
file("sub/" .. name "dotted" .. ".lua", "return ...")
for _, row in ipairs {
  {
    "sub." .. name "dotted",
    directory .. "/?.lua",
    directory .. "/sub/" .. name "dotted" .. ".lua",
  },
  {
    "sub/" .. name "dotted",
    directory .. "/?.lua",
    directory .. "/sub/" .. name "dotted" .. ".lua",
  },
  {
    "sub:" .. name "dotted",
    directory .. "/?.lua",
    directory .. "/sub/" .. name "dotted" .. ".lua",
    ":",
  },
  {
    "sub." .. name "dotted",
    directory .. "/?.lua",
    directory .. "/sub|" .. name "dotted" .. ".lua",
    ".",
    "|",
  },
  {
    name "dotted",
    "nowhere/?.lua;" .. directory .. "/sub/?.lua",
    directory .. "/sub/" .. name "dotted" .. ".lua",
  },
  {
    "ignored",
    directory .. "/sub/" .. name "dotted" .. ".lua",
    directory .. "/sub/" .. name "dotted" .. ".lua",
  },
} do
  local found, why = package.searchpath(row[1], row[2], row[4], row[5])
  if row[5] then
    t:equal(found, nil)
    t:equal(why, "no file '" .. row[3] .. "'")
  else
    t:equal(found, row[3])
    t:equal(why, nil)
  end
end
t:equal(package.searchpath("x", ""), nil)
t:raises("string expected", package.searchpath, "x")
t:raises("string expected", package.searchpath, nil, "x")

-- The searchers, called directly.
do
  t:equal(#package.searchers, 4)
  local preload, lua, c, all_in_one = table.unpack(package.searchers)
  t:equal(preload(name "none"), "no field package.preload['" .. name "none" .. "']")
  t:equal(type(lua(name "none")), "string")
  t:equal(type(c(name "none")), "string")
  t:equal(all_in_one(name "none"), nil)
  t:equal(type(all_in_one(name "none" .. ".sub")), "string")
  package.preload[name "here"] = print
  t:values("function ':preload:'", preload(name "here"))
  package.preload[name "here"] = nil
end

-- Constants and the standard entries.
t:equal(package.config, "/\n;\n?\n!\n-\n")
for _, library in ipairs {
  "string",
  "table",
  "math",
  "io",
  "os",
  "coroutine",
  "utf8",
  "debug",
  "package",
} do
  t:equal(package.loaded[library], _G[library])
  t:equal((require(library)), _G[library])
end
t:equal(package.loaded._G, _G)
t:equal((require "_G"), _G)
t:equal(type(package.path), "string")
t:equal(type(package.cpath), "string")
t:equal(package.loaded, debug.getregistry()._LOADED)
t:equal(package.preload, debug.getregistry()._PRELOAD)
t:values(
  "nil 'absent'",
  (function()
    local f, _, where = package.loadlib("/nonexistent.so", "*")
    return f, where == "open" and "absent" or where
  end)()
)
t:has(select(2, package.loadlib("/nonexistent.so", "f")), "/nonexistent.so")

-- A module that requires another one, in chains; and a module that requires itself, so its loader
-- runs recursively until it stops.
for depth = 1, 15 do
  for i = 1, depth do
    package.preload[name("chain" .. i)] = function()
      return i == 1 and 1 or 1 + require(name("chain" .. i - 1))
    end
  end
  t:equal((require(name("chain" .. depth))), depth)
  for i = 1, depth do
    package.loaded[name("chain" .. i)], package.preload[name("chain" .. i)] = nil, nil
  end
end
do
  local n, depth = name "itself", 0
  package.preload[n] = function()
    depth = depth + 1
    if depth < 5 then return require(n) .. depth end
    return "end"
  end
  t:matches(require(n), "^end")
  t:equal(depth, 5)
  package.preload[n] = nil
end

-- In a coroutine, under pcall, and with an error that ends the coroutine: the next require tries
-- again.
for i = 1, 20 do
  local n, calls = name("again" .. i), 0
  package.preload[n] = function()
    calls = calls + 1
    if calls <= 2 then error("attempt " .. calls, 0) end
    return "third"
  end
  t:values("false 'attempt 1'", coroutine.resume(coroutine.create(require), n))
  t:gives("! attempt 2", require, n)
  t:equal(coroutine.wrap(function() return (require(n)) end)(), "third")
  t:equal(calls, 3)
  package.preload[n] = nil
end
os.execute("rm -r '" .. directory .. "'")
