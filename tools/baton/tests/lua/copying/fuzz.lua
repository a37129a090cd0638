-- Random graphs of values, copied and compared.
local check = require "check"
local vm = require "baton.vm"
local case = {}

local SEED = tonumber(os.getenv "COPYING_SEED") or 20261125
local ROUNDS = tonumber(os.getenv "COPYING_ROUNDS") or 400

local classes = {}
for i = 1, 3 do classes[i] = vm.class("class " .. i, { number = i }) end
-- Values that are the same afterwards.
local library = {
  print, string.format, math.abs, require, os.exit, vm.freeze { 1, name = "frozen" }, vm.freeze {},
}

-- Makes a graph. `bad`, if given, is put somewhere into it.
local function graph(random, size, bad)
  local made, value = {}, nil
  local function scalar()
    local kind = random(9)
    if kind == 1 then return random(2) == 1 end
    if kind == 2 then return random(-100, 100) end
    if kind == 3 then return random(0) end
    if kind == 4 then return random() * 1e10 end
    if kind == 5 then return ("s"):rep(random(60)) .. random(5) end
    if kind == 6 then return string.char(random(256) - 1, 0, random(256) - 1) end
    if kind == 7 then return ({ -0.0, math.huge, 2^53, 1 / 3 })[random(4)] end
    if kind == 8 then return library[random(#library)] end
    return "key" .. random(20)
  end
  local function any()
    if #made > 0 and random(3) == 1 then return made[random(#made)] end
    return scalar()
  end
  local function closure()
    local a, b = any(), any()
    local f = function(set, x) if set then a = x end return a, b end
    local g = function() return a, f end
    made[#made + 1] = f
    return g
  end
  for i = 1, size do
    local kind = random(8)
    if kind == 1 then
      made[#made + 1] = closure()
    else
      local t = {}
      made[#made + 1] = t
      if kind == 2 then setmetatable(t, classes[random(#classes)]) end
      local n = random(3) == 1 and random(40) or random(4)
      for j = 1, n do
        if random(2) == 1 then t[j + (random(10) == 1 and 3 or 0)] = any() else
          t[random(8) == 1 and any() or scalar()] = any()
        end
      end
      if kind == 3 and i > 1 then t.deep = made[i - 1] end
      if kind == 4 then t[t] = t end
    end
  end
  for i = 1, #made do -- so that all of them are reached
    if type(made[i]) == "table" then made[i].rest = made[i + 1] end
  end
  value = { list = made }
  if bad then
    local t
    repeat t = made[random(#made)] until type(t) == "table"
    t[random(2) == 1 and "bad key" or 3.5] = bad
  end
  return value
end

-- Compares two values, with what is the same so far in `pairs_of`. Tables are compared from a list,
-- as they may be deep. Keys that are tables or functions are compared by the order of `same`.
local function compare(first, second)
  local same, back, work = {}, {}, {}
  local function equal(a, b, what)
    if type(a) ~= type(b) or math.type(a) ~= math.type(b) then
      error(("%s: %s and %s"):format(what, a, b))
    end
    local is_object = type(a) == "table" or
      type(a) == "function" and debug.getinfo(a, "S").what ~= "C"
    if not is_object then
      if a ~= b or a == 0 and 1 / a ~= 1 / b then error(("%s: %s and %s"):format(what, a, b)) end
      return
    end
    if same[a] ~= nil or back[b] ~= nil then
      if same[a] ~= b or back[b] ~= a then error(what .. ": another object") end
      return
    end
    if a == b then error(what .. ": not copied") end
    same[a], back[b] = b, a
    work[#work + 1] = { a, b, what }
  end
  local function tables(a, b, what)
    check.equal(getmetatable(b), getmetatable(a), what)
    local plain, objects, others = 0, 0, 0
    for k, v in next, a do
      if type(k) ~= "table" and type(k) ~= "function" or library[k] or same[k] or
        type(k) == "function" and debug.getinfo(k, "S").what == "C" then
        equal(v, rawget(b, same[k] or k), what .. "." .. tostring(k))
        plain = plain + 1
      else
        objects = objects + 1
      end
    end
    for _ in next, b do others = others + 1 end
    check.equal(others, plain + objects, what)
    return objects
  end
  equal(first, second, "root")
  while #work > 0 do
    local a, b, what = table.unpack(table.remove(work))
    if type(a) == "table" then
      tables(a, b, what)
    else
      for i = 1, 10 do
        local name, value = debug.getupvalue(a, i)
        local other, copied = debug.getupvalue(b, i)
        check.equal(other, name)
        if not name then break end
        if value == _G then
          check.equal(copied, _G)
        else
          equal(value, copied, what .. ":" .. name)
        end
        check.that(debug.upvalueid(a, i) ~= debug.upvalueid(b, i))
      end
    end
  end
  return same
end

-- Functions that share a variable share its copy.
local function compare_variables(same)
  local copies = {}
  for a, b in pairs(same) do
    for i = 1, type(a) == "function" and debug.getinfo(a, "u").nups or 0 do
      local id, other = debug.upvalueid(a, i), debug.upvalueid(b, i)
      check.equal(other, copies[id] or other)
      copies[id] = other
    end
  end
end

function case.random_graphs_arrive_as_they_are()
  math.randomseed(SEED)
  for round = 1, ROUNDS do
    local sent = graph(math.random, math.random(round % 20 == 0 and 300 or 30))
    local ok, why = pcall(function()
      compare_variables(compare(sent, (copy(sent))))
      local once = copy(sent)
      compare_variables(compare(sent, (copy(once))))
    end)
    if not ok then error(("seed %d, round %d: %s"):format(SEED, round, why)) end
    if round % 50 == 0 then collectgarbage() end
  end
end

function case.random_graphs_with_a_bad_value_are_refused_with_its_path()
  math.randomseed(SEED + 1)
  local bad = coroutine.create(print)
  for round = 1, ROUNDS do
    local sent = graph(math.random, math.random(20) + 5, bad)
    local ok, message = pcall(copy, sent)
    check.equal(ok, false)
    local path = check.matches(message, "^cannot send job.*: thread$"):match "job(.*): thread"
    if not path:find("key]", 1, true) and not path:find("[table]", 1, true) and
      not path:find("upvalue", 1, true) and not path:find("...", 1, true) and
      not path:find("[function]", 1, true) and not path:find("\\", 1, true) and
      not path:find("%.%d+%]") then
      check.equal(assert(load("return (...)" .. path))(sent), bad, "round " .. round .. path)
    end
  end
end

check.run(case)
