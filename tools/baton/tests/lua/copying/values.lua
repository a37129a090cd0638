-- What arrives of plain values and tables.
local check = require "check"
local case = {}

function case.plain_values_arrive_as_they_are()
  check.results("plain", { true, false, 1, 1.5, "text", n = 5 }, copy(true, false, 1, 1.5, "text"))
  check.results("none", { n = 0 }, copy())
end

function case.nil_is_kept_among_the_arguments()
  check.results("nil", { nil, 1, nil, n = 3 }, copy(nil, 1, nil))
end

function case.numbers_keep_their_kind_and_their_bits()
  for _, number in ipairs {
    0, -1, math.maxinteger, math.mininteger, 0.0, -0.0, 1e308, 5e-324, math.huge, -math.huge, 2^53,
  } do
    local got = copy(number)
    check.equal(got, number)
    check.equal(math.type(got), math.type(number))
    check.equal(string.pack("n", got), string.pack("n", number))
  end
  check.equal(1 / copy(-0.0), -math.huge)
  local nan = copy { 0 / 0 }[1]
  check.that(nan ~= nan)
end

function case.strings_arrive_with_all_their_bytes()
  for length = 0, 100 do
    local text = string.char(0, 255, 10):rep(length // 3 + 1):sub(1, length)
    check.equal(copy(text), text)
    check.equal(next(copy { [text] = 1 }), text)
  end
  local long = ("0123456789\0"):rep(100000)
  check.equal(copy(long), long)
  local both = copy { long, long, short = long }
  check.equal(both[1], long)
  check.equal(both.short, long)
end

function case.tables_arrive_with_their_array_and_their_hash_part()
  local got = copy { 10, 20, 30, x = 1, y = { z = "deep" }, [100] = "far", [-1] = "below" }
  check.list(got, { 10, 20, 30 })
  check.equal(got.x, 1)
  check.equal(got.y.z, "deep")
  check.equal(got[100], "far")
  check.equal(got[-1], "below")
  check.equal(next(copy {}), nil)
end

function case.holes_stay_holes()
  local sent = { 1, nil, 3, nil, nil, 6, n = 8 }
  sent[8] = 8
  local got = copy(sent)
  for i = 1, 10 do check.equal(got[i], sent[i]) end
  local cleared = {}
  for i = 1, 100 do cleared[i] = i end
  for i = 1, 100 do cleared[i] = nil end
  check.equal(next(copy(cleared)), nil)
  for i = 1, 100 do cleared["key" .. i] = i end
  for i = 2, 100 do cleared["key" .. i] = nil end
  local rest = copy(cleared)
  check.equal(rest.key1, 1)
  check.equal(next(rest, "key1"), nil)
end

function case.a_table_that_is_shared_arrives_as_one()
  local part = { 1 }
  local got = copy { a = part, b = part, list = { part, part } }
  check.equal(got.a, got.b)
  check.equal(got.list[1], got.a)
  check.equal(got.list[2], got.a)
  local first, second = copy(part, part)
  check.equal(first, second)
  check.that(first ~= part)
end

function case.cycles_arrive_as_cycles()
  local sent = { name = "root" }
  sent.child = { parent = sent }
  sent.self = sent
  local got = copy(sent)
  check.equal(got.self, got)
  check.equal(got.child.parent, got)
  check.equal(got.name, "root")
end

function case.a_table_can_be_its_own_key_and_value()
  local sent = {}
  sent[sent] = sent
  local got = copy(sent)
  check.equal(got[got], got)
  check.equal(next(got), got)
  check.equal(next(got, got), nil)
end

function case.keys_of_every_kind_arrive()
  local key = { "key" }
  local sent = { [true] = 1, [false] = 2, [1.5] = 3, [2^53] = 4, [-7] = 5, [print] = 6 }
  sent[key] = key
  local got = copy(sent)
  check.equal(got[true], 1)
  check.equal(got[false], 2)
  check.equal(got[1.5], 3)
  check.equal(got[2^53], 4)
  check.equal(got[math.tointeger(2^53)], 4)
  check.equal(got[-7], 5)
  check.equal(got[print], 6)
  local found
  for k, v in pairs(got) do
    if type(k) == "table" then
      check.equal(k, v)
      found = k
    end
  end
  check.equal(found[1], "key")
end

function case.a_copy_is_independent()
  local sent = { list = { 1 } }
  local got = copy(sent)
  sent.list[1], sent.new = 2, true
  got.list[2] = 3
  check.equal(got.list[1], 1)
  check.equal(got.new, nil)
  check.equal(sent.list[2], nil)
  for i = 1, 1000 do got[i] = i end -- it grows as any table
  for i = 1, 1000 do got["k" .. i] = i end
  check.equal(got[1000], 1000)
  check.equal(got.k1000, 1000)
end

function case.a_million_tables_in_each_other_arrive()
  local sent = {}
  for i = 1, 1000000 do sent = { sent, i } end
  local got, depth = copy(sent), 0
  while got[1] do
    check.equal(got[2], 1000000 - depth)
    got, depth = got[1], depth + 1
  end
  check.equal(depth, 1000000)
end

function case.a_table_with_a_million_entries_arrives()
  local list, names = {}, {}
  for i = 1, 500000 do list[i], names["name" .. i] = i, i end
  local got, got_names = copy(list, names)
  check.equal(#got, 500000)
  for i = 1, 500000 do
    if got[i] ~= i or got_names["name" .. i] ~= i then error("entry " .. i) end
  end
  local count = 0
  for _ in pairs(got_names) do count = count + 1 end
  check.equal(count, 500000)
end

function case.no_metamethod_is_called()
  local vm = require "baton.vm"
  local function fail() error "a metamethod was called" end
  local class = { __index = fail, __newindex = fail, __len = fail, __pairs = fail, __eq = fail }
  vm.class("strict", class)
  local got = copy(setmetatable({ 1, x = 2 }, class))
  check.equal(rawget(got, "x"), 2)
  check.equal(rawget(got, 1), 1)
  check.equal(getmetatable(got), class)
end

function case.a_copy_can_become_a_metatable()
  local meta = copy { __index = { inherited = 1 }, __len = true }
  check.equal(setmetatable({}, meta).inherited, 1)
end

function case.the_size_of_a_block_is_that_of_the_message()
  local small, large = copy_out { id = 1 }, copy_out(("x"):rep(1000000))
  check.within(block_size(small), 10, 200)
  check.within(block_size(large), 1000000, 1000200)
end

function case.a_block_that_nobody_reads_is_freed()
  local function resident()
    collectgarbage()
    local file <close> = io.open "/proc/self/statm"
    file:read "n"
    return file:read "n" * 4096
  end
  local text = ("x"):rep(1 << 20)
  for _ = 1, 100 do copy_out(text) end
  local before = resident()
  for i = 1, 1000 do
    copy_out(text, { text })
    if i % 50 == 0 then collectgarbage() end
  end
  check.within(resident() - before, -math.huge, 200 << 20)
end

check.run(case)
