-- What arrives of functions.
local check = require "check"
local case = {}

local function counter(start)
  local count = start
  local function add(n) count = count + n return count end
  local function get() return count end
  return add, get
end

function case.a_function_arrives_with_its_upvalues()
  local a, b, c = 1, "two", { 3 }
  local f = copy(function() return a, b, c end)
  local x, y, z = f()
  check.equal(x, 1)
  check.equal(y, "two")
  check.equal(z[1], 3)
  check.that(z ~= c)
  check.equal(select("#", copy(function(...) return ... end)(1, nil, nil)), 3)
end

function case.functions_of_one_message_share_their_variables()
  local add, get = counter(10)
  local got = copy { add = add, get = get }
  check.equal(got.add(5), 15)
  check.equal(got.get(), 15)
  check.equal(get(), 10)
  local alone = copy(add)
  alone(100)
  check.equal(got.get(), 15)
end

function case.open_variables_are_copied_by_value()
  local here = 1
  local got, coroutines
  local thread = coroutine.wrap(function()
    local there = 2
    coroutine.yield(function() return here, there end)
  end)
  got = copy(thread())
  here = 5
  check.results("open", { 1, 2 }, got())
  check.equal(coroutines, nil)
end

function case.a_function_may_refer_to_itself()
  local function factorial(n) return n <= 1 and 1 or n * factorial(n - 1) end
  check.equal(copy(factorial)(10), 3628800)
  local object = {}
  function object.me() return object end
  local got = copy(object)
  check.equal(got.me(), got)
end

function case.inner_functions_and_constants_arrive()
  local make = copy(function(x)
    local long = "a constant that is longer than forty bytes, so that it is a long string"
    return function() return function() return x + 1.5, -7, long, 1 << 40, nil, true end end
  end)
  local a, b, c, d, e, f = make(1)()()
  check.equal(a, 2.5)
  check.equal(b, -7)
  check.equal(#c, 71)
  check.equal(d, 1 << 40)
  check.equal(e, nil)
  check.equal(f, true)
  local deep = "return 1"
  for _ = 1, 60 do deep = "return (function() " .. deep .. " end)()" end
  check.equal(copy(assert(load(deep)))(), 1)
end

function case.the_globals_are_the_readers()
  marker = "here"
  local get = copy(function() return marker, _ENV end)
  local value, env = get()
  check.equal(value, "here")
  check.equal(env, _G)
  local there = elsewhere("marker = 'there'; return receive()()", function() return marker end)
  check.equal(there, "there")
  local globals = _G -- a variable of another name
  check.equal(copy(function() return globals end)(), _G)
  local own = load("return x", "own", "t", { x = 7 })
  check.equal(copy(own)(), 7)
end

function case.names_and_lines_arrive()
  local function named(first, second)
    local third = first
    error(second .. third)
  end
  local got, info = copy(named), debug.getinfo(named, "SLu")
  local other = debug.getinfo(got, "SLu")
  check.equal(other.source, info.source)
  check.equal(other.linedefined, info.linedefined)
  check.equal(other.lastlinedefined, info.lastlinedefined)
  check.equal(other.nparams, 2)
  check.equal(debug.getlocal(got, 2), "second")
  for line in pairs(info.activelines) do check.equal(other.activelines[line], true) end
  local ok, message = pcall(got, 1, "text")
  local _, wanted = pcall(named, 1, "text")
  check.equal(ok, false)
  check.equal(message, wanted)
  local long = { "local a = 1" }
  for i = 2, 1000 do long[i] = "a = a + 1" end
  long[1001] = ("\n"):rep(300) .. "error 'far'"
  local far = load(table.concat(long, "\n"), "=far")
  check.equal(select(2, pcall(copy(far))), select(2, pcall(far)))
end

function case.a_stripped_function_arrives()
  local x = 5
  local f = load(string.dump(function(...) return select("#", ...) end, true))
  check.equal(copy(f)(1, 2, 3), 3)
  check.equal(x, 5)
end

function case.functions_of_the_libraries_arrive_by_name()
  local of_the_host = {
    copy = true, copy_out = true, copy_in = true, block_size = true, elsewhere = true,
    fail_after = true, token = true, token_number = true, token_references = true,
  }
  for name, library in pairs {
    _G = _G, string = string, table = table, math = math, io = io, os = os, utf8 = utf8,
    coroutine = coroutine, debug = debug, package = package,
  } do
    for key, value in pairs(library) do
      if type(value) == "function" and not of_the_host[key] then
        check.equal(copy(value), value, name .. "." .. key)
        local chunk = ("return receive() == %s[%q]"):format(name, key)
        check.equal(elsewhere(chunk, value), true, chunk)
      end
    end
  end
end

function case.a_library_function_is_known_whatever_the_program_has_done()
  local format, original = string.format, print
  string.format, print = nil, nil
  local a, b = copy(format, original)
  check.equal(a, format)
  check.equal(b, original)
  string.mine = copy
  check.raises("^cannot send job: C function", copy, string.mine)
  print, string.mine = original, nil
end

function case.other_c_functions_are_refused()
  local message = "C function that is not in Lua's libraries$"
  check.raises("^cannot send job: " .. message, copy, copy)
  check.raises("^cannot send job%.f: " .. message, copy, { f = string.gmatch("", "") })
  check.raises("^cannot send job%.f: " .. message, copy, { f = coroutine.wrap(print) })
  check.raises("^cannot send job%.f: " .. message, copy, { f = io.stdout.write })
  check.raises("^cannot send job%.f: " .. message, copy, { f = require("baton.process").sleep })
end

function case.an_upvalue_that_cannot_be_sent_is_named()
  local file = io.stdout
  local function bad() return file end
  check.raises("^cannot send job%[upvalue file%]: userdata FILE%*$", copy, bad)
  local config = { deep = { bad } }
  local function user() return config end
  check.raises("^cannot send job%.f%[upvalue config%]%.deep%[1%]%[upvalue file%]: userdata FILE%*$",
    copy, { f = user })
end

check.run(case)
