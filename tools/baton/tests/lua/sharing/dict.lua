-- The shared dictionary, within one VM.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

function case.values_of_all_kinds_come_back()
  local d = vm.dict()
  for _, value in ipairs { false, true, 0, -1, math.maxinteger, 0.5, math.huge, "", "a\0b" } do
    check.results("set", { true }, d:set("key", value))
    check.results("get", { value }, d:get "key")
    check.equal(math.type(d:get "key"), math.type(value))
  end
  check.results("absent", { n = 1, nil }, d:get "other")
end

function case.each_reader_of_a_table_gets_a_copy()
  local d = vm.dict()
  local stored = { list = { 1, 2 }, frozen = vm.freeze { 7 } }
  stored.itself = stored
  d:set("t", stored)
  stored.list[1] = "changed"
  local first, second = d:get "t", d:get "t"
  check.that(first ~= second and first.itself == first)
  check.equal(first.list[1], 1)
  first.list[2] = "changed"
  check.equal(second.list[2], 2)
  check.equal(d:get("t").frozen[1], 7)
end

function case.shared_objects_are_stored_by_reference()
  local d, ch, words = vm.dict(), vm.channel(), vm.shared(1)
  d:set("objects", { ch, words, vm.buffer("bytes"):freeze(), d })
  for _ = 1, 2 do
    local got = d:get "objects"
    got[1]:send "through"
    got[2]:add(1)
    check.equal(got[3]:string(), "bytes")
    check.equal(#got[4], 1)
  end
  check.equal(#ch, 2)
  check.equal(words:load(1), 2)
  check.equal(d:delete "objects", true) -- it has a reference to itself
end

function case.keys_are_strings_numbers_and_booleans()
  local d = vm.dict()
  local keys = { "1", 1, 1.5, true, false, "true", "", ("k"):rep(10000), -0.0, math.mininteger }
  for i, key in ipairs(keys) do d:set(key, i) end
  for i, key in ipairs(keys) do check.equal(d:get(key), i) end
  check.equal(d:get(1.0), 2) -- as in tables
  check.equal(d:get(0), 9)
  check.equal(#d, #keys)
  local listed = {}
  for _, key in ipairs(d:keys()) do listed[key] = true end
  for _, key in ipairs(keys) do check.that(listed[key], key) end
  check.equal(#d:keys(3), 3)
  check.equal(#d:keys(0), 0)
  check.equal(d:compare(("k"):rep(10000), 8, 9), true)
  check.equal(d:incr(("k"):rep(10000)), 10)
  check.equal(d:delete(("k"):rep(10000)), true)
end

function case.add_stores_only_what_is_absent()
  local d = vm.dict()
  check.results("add", { true }, d:add("key", 1))
  check.results("add", { n = 2, nil, "exists" }, d:add("key", 2))
  check.equal(d:get "key", 1)
  check.results("delete", { true }, d:delete "key")
  check.results("delete", { false }, d:delete "key")
  check.results("add", { true }, d:add("key", { 3 }))
  check.equal(d:get("key")[1], 3)
end

function case.compare_stores_only_in_place_of_the_expected_value()
  local d = vm.dict()
  check.results("absent", { true }, d:compare("key", nil, 1))
  check.results("not absent", { false, 1 }, d:compare("key", nil, 2))
  check.results("equal", { true }, d:compare("key", 1.0, "text"))
  check.results("different", { false, "text" }, d:compare("key", "Text", 3))
  check.results("equal", { true }, d:compare("key", "text", { 4 }))
  local ok, present = d:compare("key", "text", 5)
  check.equal(ok, false)
  check.equal(present[1], 4)
  d:set("key", false)
  check.results("false is not nil", { false, false }, d:compare("key", nil, 1))
  check.results("removed", { true }, d:compare("key", false, nil))
  check.equal(d:get "key", nil)
  check.results("still absent", { n = 2, false, nil }, d:compare("key", 1, 2))
end

function case.incr_counts_from_its_initial_value()
  local d = vm.dict()
  check.equal(d:incr "n", 1)
  check.equal(d:incr("n", 41), 42)
  check.equal(d:incr("n", -50), -8)
  check.equal(d:incr("m", 1, 100), 101)
  check.equal(d:incr("m", 1, 100), 102)
  check.equal(d:incr("m", 0.5), 102.5)
  d:set("n", math.maxinteger)
  check.equal(d:incr "n", math.mininteger)
  d:set("text", "1")
  check.raises("the value of the key is not a number", d.incr, d, "text")
  check.equal(d:get "text", "1")
end

function case.a_full_dictionary_refuses_and_keeps_what_it_has()
  local d = vm.dict { bytes = 2000 }
  check.that(d:set("a", ("x"):rep(1000)))
  check.results("full", { n = 2, nil, "full" }, d:set("b", ("x"):rep(1000)))
  check.results("full", { n = 2, nil, "full" }, d:add("b", ("x"):rep(1000)))
  check.results("full", { n = 2, nil, "full" }, d:compare("b", nil, { ("x"):rep(1000) }))
  check.results("full", { n = 2, nil, "full" }, d:set("a", ("x"):rep(3000)))
  check.equal(#d:get "a", 1000)
  check.equal(#d, 1)
  check.that(d:set("a", ("x"):rep(1750)), "in its own place")
  check.results("full", { n = 2, nil, "full" }, d:incr("n", 1, 0)) -- an entry takes bytes, too
  check.within(d:used(), 1750, 2000)
  check.that(d:set("a", 1))
  check.equal(d:incr "n", 1)
end

function case.many_small_entries_count_with_their_overhead()
  local d, count = vm.dict { bytes = 100000 }, 0
  while d:set(count, true) do count = count + 1 end
  check.within(count, 300, 1000)
  check.equal(#d, count)
end

function case.the_least_recently_used_entry_is_evicted()
  local d = vm.dict { bytes = 10000, evict = "lru" }
  for i = 1, 8 do d:set(i, ("x"):rep(1000)) end
  d:get(1)
  d:set(2, d:get(2))
  d:set(9, ("x"):rep(1000))
  d:set(10, ("x"):rep(1000))
  for _, i in ipairs { 1, 2, 9, 10 } do check.that(d:get(i), i) end
  check.equal(d:get(3), nil)
  check.within(d:used(), 1, 10000)
  for i = 1, 1000 do check.that(d:set("k" .. i, i)) end
  check.equal(d:get "k1000", 1000)
  check.results("too large", { n = 2, nil, "full" }, d:set("large", ("x"):rep(20000)))
  check.equal(d:get "k1000", 1000)
end

function case.an_entry_ends_with_its_time()
  local d = vm.dict()
  d:set("short", 1, 0.3)
  d:set("long", 2, 3600)
  d:set("for ever", 3, math.huge)
  d:incr "short" -- keeps its end
  check.equal(d:compare("short", 2, 5), true)
  check.eventually("the end", function() return d:get "short" == nil end)
  check.equal(d:get "long", 2)
  check.equal(d:get "for ever", 3)
  d:set("short", 1, 0.001)
  d:set("short", 2) -- without an end
  process.sleep(0.003)
  check.equal(d:get "short", 2)
end

function case.what_has_ended_is_absent_for_every_method()
  local d = vm.dict()
  for _, key in ipairs { "a", "b", "c", "d", "e" } do d:set(key, 10, 0.0001) end
  process.sleep(0.002)
  check.equal(#d:keys(), 0)
  check.results("add", { true }, d:add("a", 1))
  check.results("compare", { true }, d:compare("b", nil, 1))
  check.equal(d:incr("c", 1), 1)
  check.equal(d:delete "d", false)
  check.equal(d:get "e", nil)
end

function case.what_has_ended_makes_room()
  local d = vm.dict { bytes = 5000 }
  for i = 1, 4 do check.that(d:set(i, ("x"):rep(1000), 0.3)) end
  check.results("full", { n = 2, nil, "full" }, d:set(5, ("x"):rep(1000)))
  for i = 5, 8 do
    check.eventually("room", function() return d:set(i, ("x"):rep(1000)) end)
  end
  check.equal(#d, 4)
end

function case.a_dictionary_is_sent_by_reference()
  local d, ch = vm.dict(), vm.channel()
  ch:send { d }
  ch:receive()[1]:set("key", "value")
  check.equal(d:get "key", "value")
end

function case.processes_count_together()
  local d, all = vm.dict(), {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      for _ = 1, 100 do
        repeat
          local n = d:get "n"
          process.yield()
        until d:compare("n", n, (n or 0) + 1)
      end
    end)
  end
  for _, p in ipairs(all) do check.equal(p:join(), true) end
  check.equal(d:get "n", 2000)
end

function case.memory_of_replaced_values_is_given_back()
  local d = vm.dict { bytes = 64 << 20 }
  local value = { ("x"):rep(1 << 20) }
  for i = 1, 3000 do check.that(d:set(i % 10, value)) end
  local file <close> = io.open "/proc/self/statm"
  local _, resident = file:read("n", "n")
  check.that(resident * 4096 < 1 << 30, resident .. " pages")
end

function case.misuse_raises()
  local d = vm.dict()
  for _, name in ipairs { "get", "set", "add", "compare", "delete", "incr", "keys", "used" } do
    check.raises("shared dictionary expected, got no value", d[name])
    check.raises("shared dictionary expected, got table", d[name], {}, 1, 1, 1)
  end
  for _, name in ipairs { "get", "set", "add", "compare", "delete", "incr" } do
    check.raises("string, number or boolean expected, got nil", d[name], d, nil, 1, 1)
    check.raises("string, number or boolean expected, got table", d[name], d, {}, 1, 1)
    check.raises("a key cannot be NaN", d[name], d, 0 / 0, 1, 1)
  end
  for _, name in ipairs { "set", "add" } do
    check.raises("value expected", d[name], d, "k")
    check.raises("value expected %(d:delete%(key%) removes a key%)", d[name], d, "k", nil)
    check.raises("cannot send value%[1%]: userdata FILE%*", d[name], d, "k", { io.stdout })
    check.raises("time to live must be positive", d[name], d, "k", 1, 0)
    check.raises("time to live must be positive", d[name], d, "k", 1, -1)
    check.raises("number expected, got NaN", d[name], d, "k", 1, 0 / 0)
    check.raises("number expected, got string", d[name], d, "k", 1, "x")
  end
  local b = vm.buffer(1)
  check.raises("cannot store a value that is moved", d.set, d, "k", { vm.move(b) })
  check.equal(#b, 1)
  check.raises("value expected", d.compare, d, "k", 1)
  check.raises("nil, boolean, number or string expected, got table", d.compare, d, "k", {}, 1)
  check.raises("cannot send value: userdata FILE%*", d.compare, d, "k", nil, io.stdout)
  check.raises("number expected, got string", d.incr, d, "k", "1")
  check.raises("number expected, got boolean", d.incr, d, "k", 1, false)
  check.raises("limit must not be negative", d.keys, d, -1)
  check.raises("unknown option 'size'", vm.dict, { size = 3 })
  check.raises("unknown option '1'", vm.dict, { 100 })
  check.raises("option 'bytes': positive integer expected", vm.dict, { bytes = 0 })
  check.raises("option 'bytes': positive integer expected", vm.dict, { bytes = 1.5 })
  check.raises("option 'evict': \"error\" or \"lru\" expected", vm.dict, { evict = "random" })
  check.raises("table expected, got number", vm.dict, 100)
  check.equal(#d, 0)
end

local function resident()
  for line in io.lines "/proc/self/status" do
    local kib = tonumber(line:match "^VmRSS:%s*(%d+)")
    if kib then return kib end
  end
end

-- Guards against counts of references that never become zero.
function case.objects_that_refer_to_each_other_are_freed()
  local long = ("x"):rep(100000)
  local makes = {
    function()
      local d = vm.dict()
      d:set("itself", d)
      d:set("long", long)
    end,
    function()
      local c = vm.channel()
      c:send(c)
      c:send(long)
    end,
    function()
      local d, c, e = vm.dict(), vm.channel(), vm.dict()
      d:set("c", { { c } })
      c:send { e, d }
      e:set("d", d)
      e:set("long", long)
    end,
    function() -- the living one is no part of the circle
      local d, living = vm.dict(), vm.dict()
      d:set("d", { d, living })
      d:set("long", long)
      return living
    end,
  }
  local living = {}
  local function round(count)
    for i = 1, count do
      living[#living + 1] = makes[i % #makes + 1]()
      if i % 10 == 0 then collectgarbage() end
    end
    collectgarbage()
    return resident()
  end
  local before = round(40)
  check.within(round(300) - before, -math.huge, 10000, "KiB more")
  check.equal(#living, 85)
  for i, d in ipairs(living) do check.equal(d:set("number", i), true) end
end

function case.objects_that_refer_to_each_other_live_as_long_as_one_of_them_is_used()
  local d, e = vm.dict(), vm.dict()
  d:set("e", e)
  e:set("d", d)
  d:set("text", "here")
  d = nil
  collectgarbage()
  check.equal(e:get("d"):get "text", "here")
  local c = vm.channel()
  c:send(e)
  e = nil
  collectgarbage()
  check.equal(c:receive():get("d"):get("e"):get("d"):get "text", "here")
end

function case.circles_are_collected_beside_other_vms_that_use_them()
  local c = vm.channel(20)
  local w = vm.spawn(function(c)
    for i = 1, 300 do
      local e = c:receive():get "e"
      if i % 5 == 0 then collectgarbage() end
      local number = e:get("d"):get "number"
      if number ~= i then error(("%d expected, got %s"):format(i, number)) end
    end
    return "all"
  end, c)
  for i = 1, 300 do
    local d, e = vm.dict(), vm.dict()
    d:set("e", e)
    e:set("d", d)
    d:set("number", i)
    c:send(d)
    if i % 7 == 0 then collectgarbage() end
  end
  check.results("join", { true, "all" }, w:join())
end

check.run(case)
