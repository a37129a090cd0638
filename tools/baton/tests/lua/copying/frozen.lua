-- Frozen values: what a program reads of them, and what it cannot do.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

local freeze, thaw = vm.freeze, vm.thaw

function case.every_kind_of_value_is_read()
  local long = ("long "):rep(1000)
  local f = freeze {
    integer = 1, float = 1.5, yes = true, no = false, short = "text", long = long, zero = "a\0b",
    empty = {}, [1] = "first", [2] = "second", abs = math.abs, print = print,
  }
  check.equal(f.integer, 1)
  check.equal(math.type(f.integer), "integer")
  check.equal(f.float, 1.5)
  check.equal(f.yes, true)
  check.equal(f.no, false)
  check.equal(f.short, "text")
  check.equal(f.long, long)
  check.equal(f.zero, "a\0b")
  check.equal(f[1], "first")
  check.equal(f[2], "second")
  check.equal(#f.empty, 0)
  check.equal(f.abs, math.abs)
  check.equal(f.print, print)
  check.equal(f.absent, nil)
  check.equal(f[3], nil)
  check.equal(f[nil], nil)
  check.equal(type(f), "userdata")
  check.matches(tostring(f), "^baton%.frozen%*: 0x%x+$")
end

function case.keys_of_every_kind_are_found()
  local long = ("key "):rep(100)
  local f = freeze {
    [1.5] = "float", [2^53] = "large", [-3] = "below", [true] = "yes", [false] = "no",
    [long] = "long", ["a\0b"] = "zero", [""] = "empty", [math.huge] = "huge", [math.abs] = "abs",
    [print] = "print", [0] = "none", [10.0] = "ten",
  }
  check.equal(f[1.5], "float")
  check.equal(f[math.tointeger(2^53)], "large")
  check.equal(f[2^53], "large")
  check.equal(f[-3.0], "below")
  check.equal(f[true], "yes")
  check.equal(f[false], "no")
  check.equal(f[("key "):rep(100)], "long")
  check.equal(f["a\0" .. "b"], "zero")
  check.equal(f["a\0c"], nil)
  check.equal(f[""], "empty")
  check.equal(f[math.huge], "huge")
  check.equal(f[-math.huge], nil)
  check.equal(f[math.abs], "abs")
  check.equal(f[math.ceil], nil)
  check.equal(f[print], "print")
  check.equal(f[-0.0], "none")
  check.equal(f[10], "ten")
  check.equal(f[0 / 0], nil)
  check.equal(f[{}], nil)
  check.equal(f[coroutine.create(print)], nil)
end

function case.nested_values_are_the_same_each_time()
  local f = freeze { a = { b = { c = 1 } }, list = { {}, {} } }
  check.equal(f.a, f.a)
  check.equal(f.a.b.c, 1)
  check.that(f.list[1] ~= f.list[2])
  local a = f.a
  collectgarbage()
  collectgarbage()
  check.equal(f.a, a)
  check.that(freeze { 1 } ~= freeze { 1 })
  local seen = { [f.a] = "a" }
  check.equal(seen[f.a], "a")
end

function case.shared_tables_and_cycles_are_kept()
  local part = { name = "part" }
  local t = { one = part, two = part, [part] = "key" }
  t.self, part.up = t, t
  local f = freeze(t)
  check.equal(f.one, f.two)
  check.equal(f.self, f)
  check.equal(f.one.up, f)
  check.equal(f[f.one], "key")
  check.equal(f[f], nil)
end

function case.a_frozen_value_is_iterated()
  local t = { 10, 20, 30, x = 1, y = { 2 }, [2.5] = 3, [true] = 4 }
  local f, count = freeze(t), 0
  for key, value in pairs(f) do
    count = count + 1
    check.equal(f[key], value)
    if type(value) == "number" then check.equal(t[key], value) end
  end
  check.equal(count, 7)
  local list = {}
  for i, value in ipairs(f) do list[i] = value end
  check.list(list, { 10, 20, 30 })
  check.equal(#f, 3)
  for _ in pairs(freeze {}) do error "an empty one has a value" end
  check.equal(table.concat(f, " "), "10 20 30")
  check.list({ table.unpack(f) }, { 10, 20, 30 })
  local nested = freeze { { 1 }, { 2 } }
  for i, inner in ipairs(nested) do check.equal(inner[1], i) end
  local next_of, _, first = pairs(f)
  check.equal(first, nil)
  check.raises("invalid key to 'next'", next_of, f, "no such key")
end

function case.holes_are_nil()
  local f = freeze { 1, nil, 3, nil, 5 }
  check.equal(f[2], nil)
  check.equal(f[5], 5)
  local keys = {}
  for key in pairs(f) do keys[#keys + 1] = key end
  check.list(keys, { 1, 3, 5 })
  local t = {}
  for i = 10, 1, -1 do t[i] = i end -- in the hash part
  check.equal(#freeze(t), 10)
  for i, value in ipairs(freeze(t)) do check.equal(value, i) end
end

function case.a_change_is_refused_with_the_name_of_the_field()
  local f = freeze { x = 1, list = { 1 } }
  local what = "attempt to change a frozen value "
  check.raises("frozen%.lua:%d+: " .. what .. "%(field 'x'%)$", function() f.x = 2 end)
  check.raises(what .. "%(field 'new'%)$", function() f.new = 2 end)
  check.raises(what .. "%(field %[1%]%)$", function() f.list[1] = 2 end)
  check.raises(what .. "%(field %[2.5%]%)$", function() f[2.5] = 2 end)
  check.raises(what .. "%(field %[table%]%)$", function() f[{}] = 2 end)
  check.raises(what, table.insert, f.list, 5)
  check.equal(f.x, 1)
  check.equal(f.new, nil)
  check.equal(f.list[1], 1)
end

function case.the_original_may_change_afterwards()
  local t = { x = 1, list = { 1 } }
  local f = freeze(t)
  t.x, t.list[1], t.new = 2, 2, true
  check.equal(f.x, 1)
  check.equal(f.list[1], 1)
  check.equal(f.new, nil)
end

function case.plain_and_frozen_values_are_returned_as_they_are()
  for _, value in ipairs { 1, 1.5, "text", true, false, ("x"):rep(1000), freeze {} } do
    check.equal(freeze(value), value)
  end
  check.results("nil", { nil, n = 1 }, freeze(nil))
  check.results("nil", { nil, n = 1 }, thaw(nil))
  check.equal(thaw "text", "text")
  local f = freeze { a = { 1 } }
  check.equal(freeze(f.a), f.a)
  check.raises("value expected", freeze)
  check.raises("frozen value expected, got table", thaw, {})
end

function case.what_cannot_be_frozen_is_refused_with_its_path()
  local job = { a = { 1, io.stdout } }
  check.raises("cannot freeze value%.a%[2%]: userdata FILE%*$", freeze, job)
  check.raises("cannot freeze value%.f: function$", freeze, { f = function() end })
  check.raises("cannot freeze value: function$", freeze, function() end)
  check.raises("cannot freeze value: thread$", freeze, coroutine.create(print))
  check.raises("cannot freeze value: userdata baton%.event%*$", freeze, process.event())
  check.raises("cannot freeze value%[userdata key%]: userdata", freeze, { [io.stdout] = 1 })
  check.raises("table with a metatable that is not registered by vm%.class",
    freeze, { setmetatable({}, {}) })
end

function case.a_thawed_copy_is_plain()
  local part = { 1, 2 }
  local t = { x = 1.5, list = part, again = part, long = ("x"):rep(100), [2.5] = "half", p = print }
  t.self = t
  local got = thaw(freeze(t))
  check.equal(type(got), "table")
  check.equal(got.self, got)
  check.equal(got.list, got.again)
  check.equal(got.list[2], 2)
  check.equal(got.x, 1.5)
  check.equal(got[2.5], "half")
  check.equal(got.p, print)
  check.equal(got.long, t.long)
  got.new = 1
  check.equal(#thaw(freeze(t).list), 2)
end

function case.a_frozen_value_in_another_is_a_reference()
  local inner = freeze { deep = { 1 } }
  local outer = freeze { inner = inner, part = inner.deep, list = { inner } , [inner] = "key" }
  check.equal(outer.inner, inner)
  check.equal(outer.part, inner.deep)
  check.equal(outer.list[1], inner)
  check.equal(outer[inner], "key")
  check.equal(outer[inner.deep], nil)
  local got = thaw(outer)
  check.equal(type(got.inner), "table")
  check.equal(got.inner, got.list[1])
  check.equal(got.part, got.inner.deep)
  check.equal(got[got.inner], "key")
  inner = nil
  collectgarbage()
  collectgarbage()
  check.equal(outer.inner.deep[1], 1)
end

function case.a_class_gives_its_methods()
  local Point = {}
  Point.__index = Point
  function Point:sum() return self.x + self.y end
  vm.class("point", Point)
  local f = freeze { p = setmetatable({ x = 1, y = 2 }, Point) }
  check.equal(f.p:sum(), 3)
  check.equal(f.p.absent, nil)
  check.equal(getmetatable(thaw(f).p), Point)
  check.equal(thaw(f).p:sum(), 3)
  vm.class("computed", { __index = function(self, key) return self.base .. key end })
  local class = getmetatable(thaw(f).p)
  check.equal(class, Point)
  local g = freeze(setmetatable({ base = "b" }, vm.class("other", {
    __index = function(self, key) return self.base .. tostring(key) end,
  })))
  check.equal(g.x, "bx")
  check.equal(g[7], "b7")
  check.equal(freeze(setmetatable({}, vm.class("without", {}))).x, nil)
end

function case.a_million_tables_in_each_other_are_frozen()
  local t = { depth = 0 }
  for i = 1, 1000000 do t = { t, depth = i } end
  local f = freeze(t)
  t = nil
  local depth = 0
  while f[1] do
    check.equal(f.depth, 1000000 - depth)
    f, depth = f[1], depth + 1
  end
  check.equal(depth, 1000000)
end

function case.a_long_chain_of_frozen_values_is_freed()
  local f = freeze { 0 }
  for i = 1, 200000 do f = freeze { f, i } end
  check.equal(f[2], 200000)
  check.equal(f[1][2], 199999)
  f = nil
  collectgarbage()
  collectgarbage()
end

function case.a_million_entries_are_read()
  local t = {}
  for i = 1, 500000 do t[i], t["name" .. i] = i, i end
  local f = freeze(t)
  check.equal(#f, 500000)
  for i = 1, 500000 do
    if f[i] ~= i or f["name" .. i] ~= i then error("entry " .. i) end
  end
  local count = 0
  for key, value in pairs(f) do
    if t[key] ~= value then error(tostring(key)) end
    count = count + 1
  end
  check.equal(count, 1000000)
end

function case.random_tables_read_the_same_frozen_and_plain()
  math.randomseed(7)
  local random = math.random
  local function scalar()
    local kind = random(6)
    if kind == 1 then return random(-20, 40) end
    if kind == 2 then return random() end
    if kind == 3 then return ("k"):rep(random(50)) .. random(30) end
    if kind == 4 then return random(2) == 1 end
    if kind == 5 then return random(-5, 5) + 0.5 end
    return "key" .. random(100)
  end
  local tables = {}
  for i = 1, 300 do
    local t = {}
    for j = 1, random(60) do
      local value = random(4) == 1 and tables[random(#tables + 1)] or scalar()
      if random(2) == 1 then t[j + random(2)] = value else t[scalar()] = value end
    end
    tables[i] = t
  end
  local function same(a, b, done)
    if type(a) ~= "table" then return check.equal(b, a) end
    if done[a] then return check.equal(b, done[a]) end
    done[a] = b
    local count = 0
    for key, value in pairs(a) do same(value, b[key], done) count = count + 1 end
    for _ in pairs(b) do count = count - 1 end
    check.equal(count, 0)
    for _ = 1, 20 do
      local key = scalar()
      if a[key] == nil then check.equal(b[key], nil) end
    end
  end
  for i = 1, #tables do
    local f = freeze(tables[i])
    same(tables[i], f, {})
    same(tables[i], thaw(f), {})
    check.that(#f == 0 or f[#f] ~= nil)
    check.equal(f[#f + 1], nil)
  end
end

function case.memory_of_frozen_values_is_given_back()
  local function resident()
    local file <close> = io.open "/proc/self/statm"
    file:read "n"
    return file:read "n" * 4096
  end
  local text = ("x"):rep(1 << 20)
  local kept
  for i = 1, 50 do kept = freeze { text, i } end
  local before = resident()
  for i = 1, 2000 do kept = freeze { text, i } end
  check.equal(kept[2], 2000)
  check.within(resident() - before, -math.huge, 100 << 20)
end

function case.the_collector_may_run_at_any_read()
  local t = { long = ("long"):rep(100), n = { n = { long = ("other"):rep(100), x = "name" } } }
  for i = 1, 50 do t[i] = { i, "text " .. i, ("l" .. i):rep(30) } end
  for _, mode in ipairs { "incremental", "generational" } do
    collectgarbage(mode)
    for round = 1, 20 do
      local f = freeze(t)
      for i = 1, 50 do
        collectgarbage "step"
        check.equal(f[i][1], i)
        check.equal(f[i][2], "text " .. i)
        check.equal(f[i][3], ("l" .. i):rep(30))
        check.equal(f.n.n.long, t.n.n.long)
        if i % 10 == 0 then collectgarbage() end
        for _, inner in pairs(f.n) do check.equal(inner.x, "name") end
      end
    end
  end
  collectgarbage "incremental"
end

-- A full collection first calls the finalizers that an earlier one has left. What they read is not
-- alive for that reason.
function case.finalizers_may_read_in_the_middle_of_a_collection()
  local f, text = freeze { n = { text = ("text"):rep(50) } }, ("text"):rep(50)
  collectgarbage("incremental", 100, 50, 4)
  for _ = 1, 100 do
    local count = 0
    for _ = 1, 500 do
      setmetatable({}, { __gc = function()
        count = count + 1
        check.equal(f.n.text, text)
      end })
    end
    repeat collectgarbage "step" until count > 0
    check.that(count < 500)
    collectgarbage()
    collectgarbage "stop"
    local others = {}
    for i = 1, 200 do others[i] = ("other"):rep(40) .. i end -- in the memory that has become free
    check.equal(f.n.text, text)
    collectgarbage "restart"
    collectgarbage()
    check.equal(count, 500)
  end
end

function case.a_finalizer_reads_a_frozen_value_that_dies_with_it()
  local read = 0
  for i = 1, 300 do
    local object = setmetatable({}, { __gc = function(self)
      check.equal(self.config.list[2], "text " .. i)
      check.equal(#self.config.list, 2)
      read = read + 1
    end })
    object.config = freeze { list = { i, "text " .. i } } -- made later, and so finalized earlier
    if i % 50 == 0 then collectgarbage() end
  end
  object = nil
  collectgarbage()
  check.equal(read, 300)
end

function case.a_frozen_value_that_a_finalizer_keeps_is_lost()
  local kept, thawed
  setmetatable({ config = freeze { text = "read" } }, { __gc = function(self)
    kept, thawed = self.config, thaw(self.config)
  end })
  for _ = 1, 4 do collectgarbage() end
  check.equal(thawed.text, "read")
  check.raises("the frozen value has been collected", function() return kept.text end)
  check.raises("the frozen value has been collected", function() return #kept end)
  check.raises("the frozen value has been collected", pairs, kept)
  check.raises("the frozen value has been collected", thaw, kept)
  check.raises("it has been collected", freeze, { kept })
  check.equal(freeze({ 1 })[kept], nil)
end

function case.processes_read_beside_each_other()
  process.params.slice = 0.0001
  local f = freeze { n = { x = 1, text = "text " .. 1, long = ("long"):rep(30) } }
  check.join_all(check.spawn_all(4, function(n)
    for i = 1, 20000 do
      check.equal(f.n.text, "text 1")
      check.equal(f.n.long, ("long"):rep(30))
      check.equal(f.n, f.n)
      if i % 500 == n then collectgarbage "step" end
    end
  end))
end

function case.the_library_debug_cannot_break_it()
  local f = freeze { x = { y = 1 } }
  check.equal(debug.getuservalue(f, 1), nil)
  check.equal(debug.setuservalue(f, 1, 1), nil)
  local meta = debug.getmetatable(f)
  check.raises("frozen value expected", meta.__index, io.stdout, "x")
  check.raises("frozen value expected", meta.__len, {})
  check.raises("frozen value expected", meta.__pairs, 1)
  debug.setmetatable(f, { __index = { x = "other" } })
  check.equal(f.x, "other")
  debug.setmetatable(f, meta)
  check.equal(f.x.y, 1)
end

check.run(case)
