-- Tests decode: what is accepted, what is refused, and where.
local check = require "check"
local json = require "baton.json"
local safe = require "baton.json.safe"
local case = {}

local function refused(text, message)
  check.results(("%q"):format(text), { nil, message, n = 2 }, safe.decode(text))
  local ok, why = pcall(json.decode, text)
  check.equal(ok, false)
  check.equal(why, message)
end

function case.values_of_all_kinds_come_with_their_types()
  local list = json.decode ' [ 1 , -2, 1.0, 1e2, "a", true, false ] '
  check.list(list, { 1, -2, 1.0, 100.0, "a", true, false })
  check.equal(math.type(json.decode "7"), "integer")
  check.equal(math.type(json.decode "7.0"), "float")
  check.equal(json.decode "null", json.null)
  check.equal(json.decode '{"a":{"b":[null]}}'.a.b[1], json.null)
  check.equal(next(json.decode "{}"), nil)
  check.equal(next(json.decode "[]"), nil)
  check.equal(json.decode '""', "")
end

-- lua-cjson makes it the largest integer.
function case.an_integer_that_does_not_fit_is_a_float()
  check.equal(json.decode "9223372036854775807", math.maxinteger)
  check.equal(json.decode "-9223372036854775808", math.mininteger)
  check.equal(json.decode "9223372036854775808", 2.0 ^ 63)
  check.equal(json.decode "-9223372036854775809", -2.0 ^ 63)
  check.equal(json.decode "18446744073709551615", 2.0 ^ 64)
  check.equal(json.decode "123456789012345678901234567890", 123456789012345678901234567890.0)
end

function case.floats_are_those_that_lua_reads()
  local texts = {
    "0.1", "0.30000000000000004", "1e22", "1e23", "123456789012345678e-30", "4.9e-324", "2e-324",
    "1.7976931348623157e308", "1e309", "0.000001", "5e-5", "9007199254740993.0", "1e-400", "0e999",
    "2.2250738585072011e-308", "8.41e21", "9007199254740992e22", "9007199254740992e-22",
    "0." .. ("0"):rep(300) .. "1", ("9"):rep(310), ("1"):rep(200) .. ".5e-190", "1e0000000000005",
  }
  for _, text in ipairs(texts) do
    check.equal(json.decode(text), tonumber(text) + 0.0, text)
    check.equal(json.decode("-" .. text), -(tonumber(text) + 0.0), text)
  end
end

function case.floats_do_not_depend_on_the_locale()
  local is_set = os.setlocale "de_DE.UTF-8" or os.setlocale "fr_FR.UTF-8"
  local text = "[1.5,0.30000000000000004,1.2345678901234567e-7]"
  check.equal(json.decode(text)[2], 0.1 + 0.2)
  check.equal(json.encode { 1.5, 1 / 3 }, "[1.5,0.33333333333333]")
  if is_set then os.setlocale "C" end
end

function case.escapes_become_bytes()
  check.equal(json.decode [["\"\\\/\b\f\n\r\t"]], '"\\/\b\f\n\r\t')
  check.equal(json.decode [["\u0000\u007f\u0080\u07ff\u0800\uffff\ud800\udc00\udbff\udfff"]],
    "\0\127\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}")
  local long = ("text "):rep(100)
  local value = json.decode('"' .. long .. "\\n" .. long .. '\\u20ac"')
  check.equal(value, long .. "\n" .. long .. "\u{20ac}")
  for size = 0, 60 do -- around the size of Lua's short strings, and of words
    local plain = ("x"):rep(size)
    check.equal(json.decode('"' .. plain .. '"'), plain)
    check.equal(json.decode('"' .. plain .. '\\t"'), plain .. "\t")
    check.equal(json.decode('"\\t' .. plain .. '\\ud83d\\ude00"'), "\t" .. plain .. "\u{1f600}")
  end
end

function case.other_bytes_stay_as_they_are()
  local bytes = {}
  for i = 1, 255 do
    if i ~= 34 and i ~= 92 then bytes[#bytes + 1] = string.char(i) end
  end
  bytes = table.concat(bytes)
  check.equal(json.decode('"' .. bytes .. '"'), bytes)
end

function case.of_equal_keys_the_last_one_stays()
  check.equal(json.decode '{"a":1,"b":2,"a":3}'.a, 3)
  local long = ("k"):rep(50)
  check.equal(json.decode(('{"%s":1,"%s":2}'):format(long, long))[long], 2)
end

function case.large_containers_are_whole()
  local numbers, pairs_of = {}, {}
  for i = 1, 5000 do
    numbers[i] = i % 7 == 0 and "[" .. i .. "]" or tostring(i)
    pairs_of[i] = ('"k%d":%s'):format(i, i % 5 == 0 and '{"n":' .. i .. "}" or i)
  end
  local list = json.decode("[" .. table.concat(numbers, ",") .. "]")
  local map = json.decode("{" .. table.concat(pairs_of, ",") .. "}")
  check.equal(#list, 5000)
  for i = 1, 5000 do
    check.equal(i % 7 == 0 and list[i][1] or list[i], i)
    check.equal(i % 5 == 0 and map["k" .. i].n or map["k" .. i], i)
  end
  local count = 0
  for _ in pairs(map) do count = count + 1 end
  check.equal(count, 5000)
end

function case.what_is_no_json_is_refused_with_the_place()
  refused("", "Expected value but found T_END at character 1")
  refused("[1,]", "Expected value but found T_ARR_END at character 4")
  refused('{"a":1,}', "Expected object key string but found T_OBJ_END at character 8")
  refused('{"a" 1}', "Expected colon but found T_INTEGER at character 6")
  refused("{1:2}", "Expected object key string but found T_INTEGER at character 2")
  refused("[1 2.5]", "Expected comma or array end but found T_NUMBER at character 4")
  refused('{"a":1 "b"}', "Expected comma or object end but found T_STRING at character 8")
  refused("[true false]", "Expected comma or array end but found T_BOOLEAN at character 7")
  refused("[true null]", "Expected comma or array end but found T_NULL at character 7")
  refused("[] {}", "Expected the end but found T_OBJ_BEGIN at character 4")
  refused("[1}", "Expected comma or array end but found T_OBJ_END at character 3")
  refused(":", "Expected value but found T_COLON at character 1")
  refused('"abc', "Expected value but found unexpected end of string at character 5")
  refused('"\\x"', "Expected value but found invalid escape code at character 2")
  refused('"a\\ud800"', "Expected value but found invalid unicode escape code at character 3")
  refused("-", "Expected value but found invalid number at character 1")
  refused("\239\187\191[]", "Expected value but found invalid token at character 1")
  refused('{"a":tru}', "Expected value but found invalid token at character 6")
  refused("'a'", "Expected value but found invalid token at character 1")
  refused("[1,\n2,\n3 4]", "Expected comma or array end but found T_INTEGER at character 10")
  refused("[1\0]", "Expected comma or array end but found T_END at character 3")
  refused("[]\0", "Expected the end but found invalid token at character 3")
  refused("[\0]", "JSON parser does not support UTF-16 or UTF-32")
  refused('"a\0"', "Expected value but found unexpected end of string at character 3")
end

function case.what_only_javascript_has_is_refused_on_request()
  local strict = json.new()
  for _, text in ipairs { "inf", "NaN", "0x1f", "01", "+1", "-01", "-Infinity" } do
    check.that(pcall(json.decode, text), text)
    check.equal(strict.decode_invalid_numbers(false), false)
    check.raises("found invalid", strict.decode, text)
  end
  check.equal(json.decode "-Infinity", -math.huge)
  check.equal(json.decode "0x1F", 31.0)
  check.that(json.decode "nan" ~= json.decode "nan")
end

function case.comments_are_white_space_on_request()
  local lenient = safe.new()
  refused("/**/1", "Expected value but found invalid token at character 1")
  check.equal(lenient.decode_allow_comment(true), true)
  check.list(lenient.decode "/* a **/ // b\n[1, // c\n2/**/] //", { 1, 2 })
  check.equal(select(2, lenient.decode "1/*"),
    "Expected the end but found unclosed multi-line comment at character 4")
  check.equal(select(2, lenient.decode "/*/1"),
    "Expected value but found unclosed multi-line comment at character 5")
  check.equal(select(2, lenient.decode "/ 1"),
    "Expected value but found invalid token at character 1")
end

function case.depth_is_bounded()
  check.that(json.decode(("["):rep(1000) .. ("]"):rep(1000)))
  refused(("["):rep(1001), "Found too many nested data structures (1001) at character 1001")
  refused(('{"a":'):rep(1001), "Found too many nested data structures (1001) at character 5001")
  local deep = safe.new()
  check.equal(deep.decode_max_depth(2000000000), 2000000000)
  check.equal(select("#", deep.decode(("["):rep(100000) .. ("]"):rep(100000))), 1)
  local value, why = deep.decode(("["):rep(3000000))
  check.equal(value, nil)
  check.matches(why, "^Found too many nested data structures")
end

function case.size_is_bounded_on_request()
  local small = safe.new()
  check.equal(small.decode_max_size(), math.maxinteger)
  small.decode_max_size(10)
  check.equal(#small.decode '"12345678"', 8)
  local message = "Found too large a text (11 bytes, at most 10 are allowed)"
  check.results("11 bytes", { nil, message, n = 2 }, small.decode '"123456789"')
end

function case.a_long_number_is_refused()
  check.equal(json.decode(("1"):rep(99999)), math.huge)
  refused(("1"):rep(100000), "Expected value but found invalid number at character 1")
end

function case.arrays_are_marked_on_request()
  local marks = json.new()
  marks.decode_array_with_array_mt(true)
  local value = marks.decode '{"list":[[],1]}'
  check.equal(getmetatable(value), nil)
  check.equal(getmetatable(value.list), json.array_mt)
  check.equal(marks.encode(value), '{"list":[[],1]}')
  check.equal(json.encode(json.decode '{"list":[]}'), '{"list":{}}')
end

function case.null_is_sent_to_other_vms()
  local vm = require "baton.vm"
  local channel = vm.channel(1)
  channel:send(json.decode '[null,{"a":null}]')
  local value = channel:receive()
  check.equal(value[1], json.null)
  check.equal(value[2].a, json.null)
  check.raises("light userdata", channel.send, channel, json.empty_array)
  check.raises("light userdata", vm.freeze, { json.null })
end

function case.misuse_raises()
  check.raises("bad argument #1 to 'baton.json.decode' %(expected 1 argument%)", json.decode)
  check.raises("expected 1 argument", safe.decode, "1", 2)
  check.raises("string expected, got table", json.decode, {})
  check.equal(select(2, safe.decode {}), "bad argument #1 to 'decode' (string expected, got table)")
  check.equal(json.decode(12), 12)
  check.raises("expected integer between 1 and 2147483647", json.decode_max_depth, 0)
  check.raises("found too many arguments", json.decode_max_depth, 1, 2)
  check.raises("invalid option 'x'", json.decode_invalid_numbers, "x")
end

-- Any bytes give a value or a message.
function case.no_text_breaks_it()
  local generator = require "json.generator"
  for seed = 1, 4000 do
    local g = generator.new(seed)
    local bytes = {}
    for i = 1, g.to(30) do
      local mark = g.to(17)
      bytes[i] = ('{}[],:"\\ntf0-1e.u'):sub(mark, mark)
      if g.to(3) == 1 then bytes[i] = string.char(g.to(256) - 1) end
    end
    local value, why = safe.decode(table.concat(bytes))
    check.that(value ~= nil or type(why) == "string")
  end
end

-- Beside others
-- -------------------------------------------------------------------------------------------------

local beside = require "json.beside"

function case.others_run_during_a_large_text()
  local list = "[" .. ("[1,2.5,\"text\",{\"key\":null}],"):rep(50000) .. "1]"
  check.equal(#beside.others_run("containers", json.decode, list), 50001)
  list = nil
  local long = '"' .. ("a"):rep(50000000) .. '"'
  check.equal(#beside.others_run("a string", json.decode, long), 50000000)
  long = (" "):rep(20000000) .. "1"
  check.equal(beside.others_run("white space", json.decode, long), 1)
end

function case.a_kill_ends_it_in_the_middle()
  local text = "[" .. ("[1,2.5,\"text\",{\"key\":null}],"):rep(50000) .. "1]"
  beside.is_killed(json.decode, text)
end

check.run(case)
