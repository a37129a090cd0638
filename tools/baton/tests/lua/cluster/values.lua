-- Tests values as they travel: what they become as bytes, and bytes that nobody should send.
local check = require "check"
local cluster = require "baton.cluster"

local case = {}

-- The functions in C, which programs do not see.
local function engine()
  local i = 0
  repeat
    i = i + 1
    local name, value = debug.getupvalue(cluster.connect, i)
    if name == "engine" then return value end
  until not name
  error "the module has no engine"
end
engine = engine()
local pack, unpack = engine.pack, engine.unpack

local function same(a, b)
  if type(a) ~= type(b) then return false end
  if type(a) ~= "table" then
    return math.type(a) == math.type(b) and (a == b or a ~= a and b ~= b)
  end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

local function nested(depth)
  local outer = {}
  for _ = 2, depth do outer = { outer } end
  return outer
end

local all_bytes = {}
for i = 0, 255 do all_bytes[i + 1] = string.char(i) end
all_bytes = table.concat(all_bytes)

local VALUES = {
  true, false, 0, 1, 127, 128, 255, 256, 65535, 65536, 4294967295, 4294967296, math.maxinteger, -1,
  -32, -33, -128, -129, -32768, -32769, -2147483648, -2147483649, math.mininteger, 0.0, -0.0, 1.5,
  1e300, math.huge, -math.huge, 0 / 0, 3.0, "", "a", ("x"):rep(31), ("x"):rep(32), ("x"):rep(255),
  ("x"):rep(256), ("x"):rep(65536), "größe", "\xff", all_bytes, {}, { 1, 2, 3 }, { a = 1 },
  { 1, 2, x = 3 }, { [2] = 2 }, { [1.5] = 1, [true] = 2, [false] = 3, [-1] = 4 },
  { { {} }, { a = { b = { "c" } } } }, nested(100),
}

function case.values_come_back_as_they_were()
  for i, value in ipairs(VALUES) do
    local is_read, back = unpack(pack("value", value))
    check.that(is_read, "value " .. i)
    check.that(same(value, back), "value " .. i)
  end
  check.results("nil", { true, nil, n = 2 }, unpack(pack("value", nil)))
  local long = {}
  for i = 1, 70000 do long[i] = i end
  local _, back = unpack(pack("value", long))
  check.equal(#back, 70000)
  check.equal(back[70000], 70000)
end

function case.the_bytes_are_messagepack()
  for value, bytes in pairs {
    [1] = "\x01\x01", [-1] = "\x01\xff", [128] = "\x01\xcc\x80", [-33] = "\x01\xd0\xdf",
    [70000] = "\x01\xce\x00\x01\x11\x70", [1.5] = "\x01\xcb\x3f\xf8\0\0\0\0\0\0",
    ["hi"] = "\x01\xa2hi", ["\xff"] = "\x01\xc4\x01\xff", [true] = "\x01\xc3",
  } do
    check.equal(pack("value", value), bytes)
  end
  check.equal(pack("value", {}), "\x01\x90")
  check.equal(pack("value", { 1, "a" }), "\x01\x92\x01\xa1a")
  check.equal(pack("value", { a = false }), "\x01\x81\xa1a\xc2")
end

function case.strings_that_are_not_utf8_are_bytes()
  for _, text in ipairs {
    "\x80", "\xc0\x80", "\xc3", "\xed\xa0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80",
    "\xf8\x88\x80\x80\x80", "a\xe2\x82",
  } do
    check.equal(pack("value", text):byte(2), 0xc4, ("%q"):format(text))
  end
  for _, text in ipairs { "é", "€", "😀", "\u{10ffff}", "\u{d7ff}", "a\0b" } do
    check.equal(pack("value", text):byte(2) & 0xe0, 0xa0, ("%q"):format(text))
  end
end

function case.what_cannot_be_sent_is_named_with_its_path()
  local circle = { a = {} }
  circle.a.b = circle
  for _, wrong in ipairs {
    { print, "cannot send job: function" },
    { { handle = { 1, 2, io.stdout } }, "cannot send job.handle[3]: userdata FILE*" },
    { { { x = coroutine.create(print) } }, "cannot send job[1].x: thread" },
    { { [true] = { print } }, "cannot send job[true][1]: function" },
    { { [{}] = 1 }, "cannot send job: a key that is a table" },
    { { a = { [print] = 1 } }, "cannot send job.a: a key that is a function" },
    { circle, "cannot send job.a.b: a table that contains itself" },
    { nested(101), "cannot send job: more than 100 tables within tables" },
  } do
    local is_packed, message = pcall(pack, "job", wrong[1])
    check.that(not is_packed)
    check.equal(message, wrong[2])
  end
end

function case.a_table_may_be_there_twice()
  local shared = { 1 }
  check.equal(pack("value", { shared, shared }), "\x01\x92\x91\x01\x91\x01")
end

function case.every_truncated_message_is_refused()
  for i, value in ipairs(VALUES) do
    local bytes = pack("value", value)
    for size = 0, math.min(#bytes - 1, 300) do
      local is_read, why = unpack(bytes:sub(1, size))
      check.equal(is_read, false, "value " .. i .. ", bytes " .. size)
      check.that(why:find "^the message cannot be read: ")
    end
  end
end

function case.what_is_no_value_is_refused()
  for bytes, why in pairs {
    [""] = "it is empty", ["\x03\x01"] = "another version",
    ["\x02\x01"] = "truncated", ["\x01"] = "truncated",
    ["\x01\x01\x01"] = "something follows", ["\x01\xc1"] = "no value of Lua",
    ["\x01\xd4\x01\x01"] = "no value of Lua", ["\x01\xcf\x80\0\0\0\0\0\0\0"] = "above 2^63",
    ["\x01\x81\xc0\x01"] = "a key is nil", ["\x01\x81\x90\x01"] = "a key is nil or a table",
    ["\x01\x81\xcb\x7f\xf8\0\0\0\0\0\0\x01"] = "a key is not a number",
    ["\x01\xdd\xff\xff\xff\xff"] = "truncated", ["\x01\xdf\xff\xff\xff\xff\1\1"] = "truncated",
    ["\x01\xc6\xff\xff\xff\xffabc"] = "truncated",
    ["\x01" .. ("\x91"):rep(101) .. "\x01"] = "more than 100",
    ["\x01" .. ("\x91"):rep(100000)] = "more than 100",
  } do
    local is_read, message = unpack(bytes)
    check.equal(is_read, false, why)
    check.that(message:find(why, 1, true), message)
  end
end

-- A map with these keys, each with the value 1. `key` makes the bytes of a key.
local function map_of(count, key)
  local parts = { "\x01\xdf" .. string.pack(">I4", count) }
  for i = 1, count do parts[i + 1] = key(i) .. "\1" end
  return table.concat(parts)
end

local function integer(value) return string.pack(">Bi8", 0xd3, value) end
local function float(value) return string.pack(">Bd", 0xcb, value) end

-- Guards against a message of 1 MB that stops the VM for a minute.
function case.keys_that_share_one_place_of_a_table_are_refused()
  local crowded = "too many of its keys"
  for what, bytes in pairs {
    integers = map_of(100000, function(i) return integer(i * 131071) end),
    ["integers that meet in a table of twice the size"] = map_of(60000, function(i)
      return integer(i * 131071)
    end),
    ["floats that become integers"] = map_of(70000, function(i) return float(i * 131071.0) end),
    floats = map_of(50000, function(i) return float(1 + i * 2.0 ^ -50) end),
  } do
    local is_read, message = unpack(bytes)
    check.equal(is_read, false, what)
    check.that(message:find(crowded, 1, true), message)
  end
end

function case.large_maps_with_other_keys_are_read()
  for what, key in pairs {
    ["days in seconds"] = function(i) return integer(i * 86400) end,
    ["a row"] = integer,
    ["negative"] = function(i) return integer(-i * 1000) end,
    ["floats"] = function(i) return float(i + 0.25) end,
    ["strings"] = function(i) return ("\xa5%05d"):format(i) end,
  } do
    local is_read, value = unpack(map_of(20000, key))
    check.that(is_read, what, value)
    local count = 0
    for _ in pairs(value) do count = count + 1 end
    check.equal(count, 20000, what)
  end
  local _, row = unpack(map_of(100, integer))
  check.equal(#row, 100)
  row[101] = 1
  check.equal(#row, 101)
end

function case.others_run_while_a_large_message_is_read()
  local process = require "baton.process"
  local reader, seen = process.current(), nil
  local bytes = map_of(200000, function(i) return integer(i * 3) end)
  process.spawn({ daemon = true }, function()
    while not seen do
      local innermost = reader:traceback():match "traceback:%s*([^\n]*)"
      seen = innermost and innermost:match "^%[C%]: in .*unpack.*"
    end
  end)
  for _ = 1, 40 do
    check.that((unpack(bytes)))
    if seen then return end
  end
  error "nobody has run in the middle of a call"
end

-- Changes some bytes of a message, removes or doubles a part.
local function mutate(bytes, random)
  for _ = 1, random(4) do
    local at, what = random(#bytes), random(4)
    if what == 1 then
      bytes = bytes:sub(1, at - 1) .. string.char(random(256) - 1) .. bytes:sub(at + 1)
    elseif what == 2 then
      bytes = bytes:sub(1, at - 1) .. bytes:sub(at + random(4))
    elseif what == 3 then
      bytes = bytes:sub(1, at) .. bytes:sub(random(at), at) .. bytes:sub(at + 1)
    else
      bytes = bytes:sub(1, at) .. string.pack(">I4", random(0) & 0xffffffff) .. bytes:sub(at + 1)
    end
    if bytes == "" then return "\1" end
  end
  return bytes
end

function case.mutated_messages_are_values_or_refused()
  math.randomseed(7)
  local seeds, read, refused = {}, 0, 0
  for _, value in ipairs(VALUES) do
    local bytes = pack("value", value)
    if #bytes < 2000 then seeds[#seeds + 1] = bytes end
  end
  for _ = 1, 30000 do
    local bytes = mutate(seeds[math.random(#seeds)], math.random)
    local is_read, value = unpack(bytes)
    if is_read then
      read = read + 1
      -- What could be read can be sent, and comes back.
      local is_packed, again = pcall(pack, "value", value)
      if is_packed then check.that(same(value, select(2, unpack(again)))) end
    else
      refused = refused + 1
    end
    engine.unpack_list(bytes)
    local work = engine.work_of("\2" .. bytes:sub(2))
    check.that(work == nil or type(work) == "table")
  end
  check.that(read > 1000 and refused > 1000, read .. " read, " .. refused .. " refused")
end

function case.a_map_before_a_value_is_left_out()
  local with = function(work, bytes) return "\2" .. pack("work", work):sub(2) .. bytes:sub(2) end
  local bytes = with({ context = { user = "ann" }, left = 1.5 }, pack("value", { 7 }))
  local is_read, value = unpack(bytes)
  check.that(is_read and value[1] == 7)
  check.results("a list", { true, 1, nil, n = 3 },
    engine.unpack_list(with({ left = 1 }, engine.pack_list("argument", 1, nil))))
  local work = engine.work_of(bytes)
  check.equal(work.context.user, "ann")
  check.equal(work.left, 1.5)
  for _, none in ipairs { "", "\2", pack("value", 1), with(7, pack("value", 1)) } do
    check.equal(engine.work_of(none), nil)
  end
  check.equal((unpack(with({}, "\1"))), false)
end

function case.lists_keep_nil()
  local bytes = engine.pack_list("argument", nil, 1, nil)
  check.results("a list", { true, nil, 1, nil, n = 4 }, engine.unpack_list(bytes))
  check.results("none", { true }, engine.unpack_list(engine.pack_list "argument"))
  local is_packed, message = pcall(engine.pack_list, "argument", 1, { print })
  check.that(not is_packed)
  check.equal(message, "cannot send argument 2[1]: function")
  check.equal(engine.unpack_list "\x01\x01", false)
end

check.run(case)
