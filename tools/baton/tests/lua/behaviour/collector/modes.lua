-- collectgarbage: options, modes and counts. Warnings, including those of failing finalizers. Files
-- that were not closed.
local t = ...

-- Options.
t:equal(collectgarbage(), 0)
t:equal(collectgarbage "collect", 0)
t:equal(math.type(collectgarbage "count"), "float")
t:equal(collectgarbage "isrunning", true)
t:equal(collectgarbage "stop", 0)
t:equal(collectgarbage "isrunning", false)
t:equal(collectgarbage "restart", 0)
t:equal(collectgarbage "isrunning", true)
for _, wrong in ipairs { "", "Collect", "cou", "generation" } do
  t:raises("invalid option", collectgarbage, wrong)
end
t:raises("string expected", collectgarbage, {})
t:raises("number expected", collectgarbage, "step", {})

-- Changing the mode gives the previous one, any number of times.
local previous = collectgarbage "incremental"
for i = 1, 30 do
  t:equal(
    collectgarbage(i % 2 == 1 and "generational" or "incremental"),
    i % 2 == 1 and "incremental" or "generational"
  )
end
for _, arguments in ipairs { { 20, 100 }, { 5, 50 }, { 0, 0 }, { 100, 1000 } } do
  t:equal(collectgarbage("generational", arguments[1], arguments[2]), "incremental")
  t:equal(collectgarbage("incremental", arguments[1] + 100, arguments[2] + 100, 13), "generational")
end
collectgarbage("generational", 20, 100)
collectgarbage("incremental", 200, 100, 13)
for _, option in ipairs { "setpause", "setstepmul" } do
  local old = collectgarbage(option, 150)
  t:equal(collectgarbage(option, 300), 150 // 4 * 4, "kept in fours")
  t:equal(collectgarbage(option, 400), 300)
  collectgarbage(option, old)
  t:equal(collectgarbage(option, old), old // 4 * 4)
end

-- Stopped: no allocation triggers a collection, but a full collection and a step still work.
do
  local weak = setmetatable({}, { __mode = "v" })
  collectgarbage "stop"
  weak[1] = {}
  for _ = 1, 30000 do local x = {} end
  t:that(weak[1], "nothing is collected while stopped")
  collectgarbage()
  t:equal(weak[1], nil)
  t:equal(collectgarbage "isrunning", false)
  weak[1] = {}
  for _ = 1, 100 do if collectgarbage("step", 0) then break end end
  for _ = 1, 100 do if collectgarbage("step", 0) then break end end
  t:equal(weak[1], nil)
  collectgarbage "restart"
end
for _, mode in ipairs { "incremental", "generational" } do
  collectgarbage(mode)
  local weak, turns = setmetatable({}, { __mode = "v" }), 0
  weak[1] = {}
  while weak[1] and turns < 1000000 do turns = turns + 1 local x = { {}, {} } end
  t:equal(weak[1], nil, "collected without being asked, " .. mode)
  local steps = 0
  repeat steps = steps + 1 until collectgarbage("step", 0) or steps > 1000
  t:equal(
    steps <= 1000,
    mode == "incremental",
    "steps come to the end of a cycle, where cycles have an end"
  )
  t:equal(type(collectgarbage "step"), "boolean")
end
collectgarbage "incremental"

-- The generational collector through minor and major collections: reachable objects stay, old or
-- young.
do
  collectgarbage "generational"
  local old = {}
  for i = 1, 100 do old[i] = { i } end
  for round = 1, 10 do
    collectgarbage "step"
    for i = 1, 100 do old[i].young = { round, setmetatable({}, { __index = { i } }) } end
    collectgarbage "step"
    local good = true
    for i = 1, 100 do
      good = good and old[i][1] == i and old[i].young[1] == round and old[i].young[2][1] == i
    end
    t:that(good, "round " .. round)
  end
  local weak = setmetatable({}, { __mode = "k" })
  for i = 1, 100 do weak[old[i]] = { i } end
  for _ = 1, 5 do collectgarbage "step" end
  for i = 1, 100, 9 do t:equal(weak[old[i]][1], i) end
  old = nil
  collectgarbage()
  t:equal(next(weak), nil)
  local co = coroutine.wrap(function()
    local young = {}
    while true do
      young[#young + 1] = { #young }
      coroutine.yield(young)
    end
  end)
  for i = 1, 50 do
    local young = co()
    collectgarbage "step"
    t:equal(young[i][1], i - 1)
  end
  collectgarbage "incremental"
end

-- A change of mode in the middle of all kinds of work.
for i = 1, 40 do
  collectgarbage(i % 2 == 0 and "generational" or "incremental")
  local list = {}
  for k = 1, 50 do list[k] = { k, tostring(k) } end
  local sum = 0
  for _, v in ipairs(list) do sum = sum + v[1] + #v[2] end
  t:equal(sum, 1275 + 91)
  table.sort(list, function(a, b) return a[1] > b[1] end)
  t:equal(list[1][1], 50)
end
collectgarbage "incremental"

-- A finalizer that fails makes a warning, and the others run.
do
  local log = t:log()
  warn "@off"
  for n = 1, 10 do
    for i = 1, n do
      setmetatable({}, {
        __gc = function()
          log(i)
          if i % 2 == 0 then error "in a finalizer" end
        end,
      })
    end
    t:equal(collectgarbage(), 0)
    local wanted = {}
    for i = n, 1, -1 do wanted[#wanted + 1] = i end
    log:is(table.concat(wanted, " "))
  end
  setmetatable({}, { __gc = function() error(setmetatable({}, { __tostring = error })) end })
  setmetatable({}, { __gc = function() error() end })
  setmetatable({}, { __gc = function() local function f() return f() + 1 end f() end })
  t:equal(collectgarbage(), 0)
  setmetatable({}, { __gc = function() log(select(2, pcall(coroutine.yield, 1))) end })
  coroutine.wrap(function() collectgarbage() end)()
  log:is "attempt to yield across a C-call boundary"
end

-- warn checks its arguments first. Other files test its output, with programs that they run.
do
  t:raises("string expected", warn)
  t:raises("string expected", warn, {})
  t:raises("string expected", warn, "a", {})
  t:raises("string expected", warn, nil)
  t:values("", warn("@off"))
  t:values("", warn("not", " ", "seen", 5))
  t:values("", warn("@unknown"))
  local function written(code)
    local path = t:scratch()
    local program = arg[-1] or arg[0]
    for i = -1, -20, -1 do if arg[i] then program = arg[i] end end
    local p = assert(io.popen("'" .. program .. "' -e '" .. code .. "' 2>&1"))
    local text = p:read "a"
    p:close()
    return text
  end
  for code, wanted in pairs {
    ["warn \"x\""] = "", ["warn \"@on\" warn \"x\""] = "Lua warning: x\n",
    ["warn \"@on\" warn(\"a\", \"b\", \"c\")"] = "Lua warning: abc\n",
    ["warn \"@on\" warn(\"@off\") warn \"x\" warn \"@on\" warn \"y\""] = "Lua warning: y\n",
    ["warn \"@on\" warn(\"@\", \"off\") warn \"y\""] = "Lua warning: @off\nLua warning: y\n",
    ["warn \"@on\" warn \"@other\" warn \"z\""] = "Lua warning: z\n",
    ["warn \"@on\" warn(1, 2.5)"] = "Lua warning: 12.5\n",
    ["warn \"@on\" warn \"\""] = "Lua warning: \n",
    ["warn \"@on\" setmetatable({}, { __gc = function() error(\"oops\", 0) end }) "
      .. "collectgarbage()"] = "Lua warning: error in __gc\n",
    ["warn \"@on\" setmetatable({}, { __gc = function() error {} end }) collectgarbage()"] =
      "Lua warning: error in __gc\n",
    ["local o = setmetatable({}, { __gc = function() print \"at the end\" end })"] = "at the end\n",
    ["for i = 1, 3 do _G[i] = setmetatable({}, { __gc = function() print(i) end }) end"] =
      "3\n2\n1\n",
    ["x = setmetatable({}, { __gc = function() "
      .. "setmetatable({}, { __gc = function() print \"again\" end }) print \"once\" end })"] =
      "once\n",
    ["local x <close> = setmetatable({}, { __close = function() print \"closed\" end }) "
      .. "y = setmetatable({}, { __gc = function() print \"collected\" end })"] =
      "closed\ncollected\n",
    ["y = setmetatable({}, { __gc = function() "
      .. "print(type(print), type(string), pcall(error)) end })"] = "function\ttable\tfalse\tnil\n",
  } do
    local got = written(code)
    if wanted:find "error in __gc" then
      t:matches(got, "^Lua warning: error in ", code)
    else
      t:equal(got, wanted, code)
    end
  end
end

-- A file that was not closed is closed when it is collected, and the data written to it is there.
for i = 1, 5 do
  local path = t:scratch()
  io.open(path, "w"):write("written ", i, "\n")
  collectgarbage()
  local f <close> = assert(io.open(path))
  t:equal(f:read "a", "written " .. i .. "\n")
  os.remove(path)
end
collectgarbage(previous)
