-- Tests encode: what is written, what is refused, and how much.
local check = require "check"
local json = require "baton.json"
local safe = require "baton.json.safe"
local process = require "baton.process"
local beside = require "json.beside"
local case = {}

local function refused(value, message)
  check.results(message, { nil, message, n = 2 }, safe.encode(value))
  local ok, why = pcall(json.encode, value)
  check.equal(ok, false)
  check.equal(why, message)
end

function case.scalars_are_written_as_lua_cjson_does()
  check.equal(json.encode(nil), "null")
  check.equal(json.encode(json.null), "null")
  check.equal(json.encode(json.empty_array), "[]")
  check.equal(json.encode(true), "true")
  check.equal(json.encode(math.mininteger), "-9223372036854775808")
  check.equal(json.encode(3.0), "3")
  check.equal(json.encode(-0.0), "-0")
  check.equal(json.encode(1e14), "1e+14")
  check.equal(json.encode(0.1 + 0.2), "0.3")
  check.equal(json.encode "\0\1\31\127\u{20ac}/\"\\\b\f\n\r\t",
    '"\\u0000\\u0001\\u001f\\u007f\u{20ac}\\/\\"\\\\\\b\\f\\n\\r\\t"')
end

-- As the C library does, for numbers with few digits, many, and those in between.
function case.floats_have_the_digits_of_the_c_library()
  local generator = require "json.generator"
  local g = generator.new(7)
  local own = json.new()
  for i = 1, 3000 do
    local number = (g.to(2000000000) - 1000000000) / 10 ^ (g.to(20) - 5)
    if i % 3 == 0 then number = number / g.to(1000) end
    if i % 7 == 0 then number = number + 2 ^ -40 end
    local precision = own.encode_number_precision(g.to(17))
    check.equal(own.encode(number + 0.0), ("%." .. precision .. "g"):format(number), precision)
  end
end

function case.seventeen_digits_give_the_same_number_again()
  local exact = json.new()
  check.equal(exact.encode_number_precision(17), 17)
  for _, number in ipairs { 0.1, 1 / 3, 2 ^ 53 + 2.0, 1e-300, 123456.789, 5e-324 } do
    check.equal(exact.decode(exact.encode(number)), number)
  end
end

function case.long_strings_are_whole()
  for size = 0, 40 do
    local plain = ("x"):rep(size)
    check.equal(json.encode(plain .. '"'), '"' .. plain .. '\\""')
    check.equal(json.encode("\n" .. plain), '"\\n' .. plain .. '"')
  end
  local long = ('some "text"\n'):rep(100000)
  check.equal(json.decode(json.encode { long, key = nil })[1], long)
  local keys = { [long] = long }
  check.equal(json.decode(json.encode(keys))[long], long)
  keys = { [long] = { 1, { long } } }
  check.equal(json.decode(json.encode(keys))[long][2][1], long)
end

function case.a_table_with_positive_integers_is_an_array()
  check.equal(json.encode { 1, 2, 3 }, "[1,2,3]")
  check.equal(json.encode { [3] = 1 }, "[null,null,1]")
  check.equal(json.encode { 1, nil, 3 }, "[1,null,3]")
  check.equal(json.encode { [1.0] = 2 }, "[2]")
  check.equal(json.encode { [0] = 1 }, '{"0":1}')
  check.equal(json.encode { [2.5] = 1 }, '{"2.5":1}')
  check.equal(json.encode {}, "{}")
  check.equal(json.encode { {}, { {} } }, "[{},[{}]]")
  refused({ [1] = 1, [100] = 2 }, "Cannot serialise table: excessively sparse array")
end

function case.metatables_tell_arrays_from_objects()
  local function marked(list) return json.encode(setmetatable(list, json.array_mt)) end
  check.equal(marked {}, "[]")
  check.equal(marked { 1, 2, nil, 4, n = 1 }, "[1,2,null,4]")
  check.equal(json.encode(setmetatable({}, json.empty_array_mt)), "[]")
  check.equal(json.encode(setmetatable({ 1 }, json.empty_array_mt)), "[1]")
  check.equal(json.array_mt, json.new().array_mt)
  check.equal(json.array_mt, safe.array_mt)
  local methods = { __index = error, __len = error, __pairs = error }
  check.equal(json.encode(setmetatable({ 1 }, methods)), "[1]")
  local arrays = json.new()
  check.equal(arrays.encode_empty_table_as_object(false), false)
  check.equal(arrays.encode { {} }, "[[]]")
end

function case.what_json_does_not_have_is_refused()
  refused(print, "Cannot serialise function: type not supported")
  refused({ io.stdout }, "Cannot serialise userdata: type not supported")
  refused({ a = { coroutine.create(print) } }, "Cannot serialise thread: type not supported")
  refused({ [true] = 1 }, "Cannot serialise boolean: table key must be a number or string")
  refused(0 / 0, "Cannot serialise number: must not be NaN or Infinity")
  refused({ [math.huge] = 1 }, "Cannot serialise number: must not be NaN or Infinity")
end

function case.numbers_that_json_does_not_have_are_written_on_request()
  local own = json.new()
  check.equal(own.encode_invalid_numbers(true), true)
  check.equal(own.encode { math.huge, -math.huge, 0 / 0 }, "[Infinity,-Infinity,NaN]")
  check.equal(own.encode_invalid_numbers "null", "null")
  check.equal(own.encode { math.huge }, "[null]")
  check.equal(json.encode_invalid_numbers(), false)
end

function case.unsupported_values_are_left_out_on_request()
  local own = json.new()
  own.encode_skip_unsupported_value_types(true)
  check.equal(own.encode { 1, print, 3 }, "[1,3]")
  check.equal(own.encode { a = { b = print } }, '{"a":{}}')
  check.equal(own.encode { print }, "[]")
  check.raises("type not supported", own.encode, print)
  check.raises("must not be NaN", own.encode, { 0 / 0 })
end

function case.an_indentation_makes_lines()
  local pretty = json.new()
  check.equal(pretty.encode_indent "  ", "  ")
  check.equal(pretty.encode { a = { 1, { 2 }, {}, json.empty_array } },
    '{\n  "a": [\n    1,\n    [\n      2\n    ],\n    {},\n    []\n  ]\n}')
  check.equal(pretty.encode(1), "1")
  check.equal(pretty.encode_indent "", "")
  check.equal(pretty.encode { 1 }, "[1]")
  check.raises("at most 64 bytes", pretty.encode_indent, (" "):rep(65))
end

function case.depth_is_bounded()
  local circle = {}
  circle[1] = circle
  refused(circle, "Cannot serialise, excessive nesting (1001)")
  local own = safe.new()
  own.encode_max_depth(2)
  check.equal(own.encode { { 1 } }, "[[1]]")
  check.equal(select(2, own.encode { { {} } }), "Cannot serialise, excessive nesting (3)")
  own.encode_max_depth(2000000000)
  check.matches(select(2, own.encode(circle)), "^Cannot serialise, excessive nesting")
end

function case.size_is_bounded_on_request()
  local own = safe.new()
  own.encode_max_size(100)
  local doubled = { 1 }
  for _ = 1, 100 do doubled = { doubled, doubled } end -- 2^100 numbers
  local message = "Cannot serialise, too large a text (at most 100 bytes are allowed)"
  check.results("doubled", { nil, message, n = 2 }, own.encode(doubled))
  check.equal(#own.encode(("x"):rep(98)), 100)
  check.equal(own.encode(("x"):rep(99)), nil)
  check.equal(own.encode(("x"):rep(1000000)), nil)
  check.equal(#own.encode { ("x"):rep(96) }, 100)
  check.equal(own.encode { ("x"):rep(97) }, nil)
end

function case.each_table_of_the_module_has_settings_of_its_own()
  local own = json.new()
  own.encode_max_depth(5)
  check.equal(own.encode_max_depth(), 5)
  check.equal(json.encode_max_depth(), 1000)
  check.equal(own._NAME, "baton.json")
  check.results("sparse", { true, 3, 4 }, own.encode_sparse_array(true, 3, 4))
  check.results("sparse", { true, 3, 9 }, own.encode_sparse_array(nil, nil, 9))
  check.equal(own.encode { [10] = 1 }, '{"10":1}')
  check.equal(own.encode_keep_buffer(), true)
  check.equal(own.encode_keep_buffer(false), false)
  check.equal(safe.new().decode "[", nil)
  check.raises("expected integer between 1 and 17", own.encode_number_precision, 18)
  check.raises("invalid option '1'", own.encode_keep_buffer, 1)
  check.raises("expected 1 argument", json.encode)
end

-- Beside others
-- -------------------------------------------------------------------------------------------------

function case.others_run_during_a_large_value()
  local value = {}
  for i = 1, 50000 do value[i] = { i, "text", i / 7, key = i } end
  beside.others_run("tables", json.encode, value)
  local text = beside.others_run("a string", json.encode, ("a\n"):rep(5000000))
  check.equal(#text, 15000002)
end

-- The text is some mixture; nothing else may happen.
function case.tables_may_change_in_the_middle()
  local slice = process.params.slice
  process.params.slice = 0.001
  local values, over = {}, false
  for i = 1, 5000 do values[i] = { key = ("v"):rep(i % 60), [i] = {} } end
  local long = { [("k"):rep(200000)] = ("w"):rep(200000) }
  values[5001] = long
  local other = process.spawn(function()
    local g = require("json.generator").new(1)
    while not over do
      for _ = 1, 100 do
        local i = g.to(5001)
        values[i] = g.to(3) > 1 and { key = {}, [g.to(50)] = "new" } or nil
        values["key" .. g.to(1000)] = g.to(2) == 1 and {} or nil
        for key in pairs(long) do
          long[key] = nil
          break
        end
        long[("k"):rep(199000 + g.to(1000))] = { "value" }
      end
      collectgarbage "step"
      process.yield()
    end
  end)
  for _ = 1, 10 do
    local text, why = safe.encode(values)
    check.that(text or why == "Cannot serialise table: excessively sparse array", why)
    if text then check.that(safe.decode(text)) end
  end
  over = true
  other:join()
  process.params.slice = slice
end

function case.a_kill_ends_it_in_the_middle()
  local value = {}
  for i = 1, 50000 do value[i] = { i, "text", i / 7, key = i } end
  beside.is_killed(json.encode, value)
end

-- A VM with little memory: the error is Lua's, and nothing is left.
function case.memory_that_runs_out_leaves_nothing_behind()
  local vm = require "baton.vm"
  local small = vm.spawn({ memory = 30000000, quiet = true }, function()
    local json = require "baton.json"
    local text = '"' .. ("a"):rep(5000000) .. '"'
    local list = "[" .. ("[1],"):rep(500000) .. "1]"
    collectgarbage()
    local before = collectgarbage "count"
    for _ = 1, 3 do
      local ok, why = pcall(json.decode, list)
      assert(not ok and why == "not enough memory", why)
      local one = { json.decode(text) }
      for i = 1, 6 do one[i] = one[1] end
      ok, why = pcall(json.encode, one)
      assert(not ok and why == "not enough memory", why)
    end
    collectgarbage()
    assert(collectgarbage "count" < before + 100)
    return "done"
  end)
  check.results("join", { true, "done" }, small:join())
end

check.run(case)
