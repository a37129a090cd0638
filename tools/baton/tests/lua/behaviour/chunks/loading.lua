-- load, loadfile and dofile: texts, readers, binary chunks, modes and environments; string.dump.
local t = ...

-- The same program in pieces of each size, from a reader.
local program = "local a, b = ... "
  .. "local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end " ..
  "local s = '' for i = 1, 5 do s = s .. f(i) .. ',' end -- a comment\nreturn s .. (a or 'none'), "
    .. "[[long\nstring]], select('#', ...)"
local function reader(text, size)
  local position = 1
  return function()
    local piece = text:sub(position, position + size - 1)
    position = position + size
    return piece ~= "" and piece or nil
  end
end
local binary = string.dump(load(program))
for size = 1, 60 do
  t:gives("'1,1,2,3,5,x' 'long\\010string' 1", load(reader(program, size)), "x")
  t:gives("'1,1,2,3,5,x' 'long\\010string' 1", load(reader(binary, size), "b", "b"), "x")
  -- Cut short anywhere, a binary chunk is refused.
  t:equal(load(binary:sub(1, size * (#binary - 1) // 60), "b", "b"), nil)
end
do -- the end of a reader: nil, no value, or an empty string; anything else is an error
  local function ending(...)
    local given, rest = false, table.pack(...)
    return function()
      if not given then
        given = true
        return "return 7"
      end
      return table.unpack(rest, 1, rest.n)
    end
  end
  t:equal(load(ending(nil))(), 7) t:equal(load(ending())(), 7) t:equal(load(ending "")(), 7)
  -- Under pcall, since a message handler further out sees the errors of a reader too.
  for _, wrong in ipairs { true, {}, print } do
    t:gives("nil 'reader function must return a string'", load, ending(wrong))
  end
  t:gives("nil 'from the reader'", load, function() error("from the reader", 0) end)
  local object = {}
  t:equal(select(3, pcall(load, function() error(object) end)), object)
  t:equal(
    select(3, xpcall(load, function(e) return { e } end, function() error(object) end))[1],
    object
  )
  t:equal(type(load(function() return nil end)), "function")
  t:equal(type(load "") , "function")
  local calls = 0
  load(function() calls = calls + 1 return calls < 100 and "\n" or nil end)
  t:equal(calls, 100)
  local nested = load(function() return nil end) or nil
  t:gives("", nested)
end

-- Mode and names.
t:rows {
  "load('return 1', 'n', 't')()", "1",
  "load('return 1', 'n', 'b')", "nil 'attempt to load a text chunk (mode is 'b')'",
  "load(string.dump(load 'return 1'), 'n', 't')",
    "nil 'attempt to load a binary chunk (mode is 't')'",
  "load(string.dump(load 'return 1'), 'n', 'bt')()", "1",
  "load('return 1', 'n', '')", "nil 'attempt to load a text chunk (mode is '')'",
  "load('x =', '=name')", "nil 'name:1: unexpected symbol near <eof>'",
  "load('x =', '@file.lua')", "nil 'file.lua:1: unexpected symbol near <eof>'",
  "load('x =', 'x =')", "nil '[string \"x =\"]:1: unexpected symbol near <eof>'",
  "load '\\27Lua'", "nil 'binary string: bad binary format (truncated chunk)'",
  "load('\\27', 'b')", "nil 'b: bad binary format (truncated chunk)'",
  "load(5)", "nil '[string \"5\"]:1: unexpected symbol near '5''",
  "load {}", "! row:1: bad argument #1 to 'load' (function expected, got table)",
  "load('return _ENV', 'n', 't', 5)()", "5", "load('return x', 'n', 't', { x = 'own' })()", "'own'",
  "load('x = 1', 'n', 't', nil)", "function",
  "pcall(load('return x', 'n', 't', nil))",
    "false '[string \"n\"]:1: attempt to index a nil value (upvalue '_ENV')'",
  "load('return ...')(1, nil, 3)", "1 nil 3", "load('local _ENV = { x = 5 } return x')()", "5",
  "load('local x <const> = 5 return x')()", "5",
  "load('return a.b.c', 'n', 't', { a = { b = { c = 'deep' } } })()", "'deep'",
  "local env = {} load('function f() return 1 end x, y = 2, 3', 'n', 't', env)() return env.f(), "
    .. "env.x, env.y",
    "1 2 3",
  "load('#!shebang\\nreturn 1')", "nil '[string \"#!shebang...\"]:1: unexpected symbol near '#''",
  "loadfile '/nonexistent/file'", "nil 'cannot open /nonexistent/file: No such file or directory'",
  "dofile '/nonexistent/file'", "! cannot open /nonexistent/file: No such file or directory",
  "string.dump(print)", "! row:1: unable to dump given function",
  "string.dump(5)", "! row:1: bad argument #1 to 'dump' (function expected, got number)",
  "#string.dump(load 'return 1', true) < #string.dump(load 'return 1', false)", "true",
  "load('goto x')", "nil '[string \"goto x\"]:1: no visible label 'x' for <goto> at line 1'",
  "load('::x:: ::x::')", "nil '[string \"::x:: ::x::\"]:1: label 'x' already defined on line 1'",
  "load('do ::x:: end goto x')",
    "nil '[string \"do ::x:: end goto x\"]:1: no visible label 'x' for <goto> at line 1'",
  "load('goto x local a ::x:: print(a)')",
    "nil '[string \"goto x local a ::x:: print(a)\"]:1: <goto x> at line 1 jumps into the scope "
      .. "of local 'a''",
  "load('repeat goto x local a ::x:: until a')",
    "nil '[string \"repeat goto x local a ::x:: until a\"]:1: <goto x> at line 1 jumps into the "
      .. "scope of local 'a''",
  "load('goto x local a ::x::')", "function",
}

-- Dumping: functions come back with the same results, without upvalues' values, with or without
-- debug information.
for n = 0, 40 do
  local constants = {}
  for i = 1, n do
    constants[i] = i % 3 == 0 and ("'text %d'"):format(i)
      or i % 3 == 1 and tostring(i * 1.5)
      or tostring(i)
  end
  local source = "local sum = 0 for _, v in ipairs { "
    .. table.concat(constants, ", ")
    .. " } do sum = sum + (tonumber(v) or #v) end return sum"
  local wanted = load(source)()
  for _, strip in ipairs { false, true } do
    t:equal(load(string.dump(load(source), strip), "d", "b")(), wanted)
    t:equal(load(string.dump(load(string.dump(load(source), strip)), strip))(), wanted)
  end
end
do
  local up, other = "kept", 5
  local function f() return up, other end
  local g = load(string.dump(f))
  t:equal(select(2, g()), nil)
  debug.setupvalue(g, 1, "set") debug.setupvalue(g, 2, 6)
  t:values("'set' 6", g())
  t:values("'kept' 5", f())
  local stripped = load(string.dump(function() local x = nil; return x.y end, true))
  t:raises("attempt to index a nil value", stripped)
  local info = debug.getinfo(stripped, "S")
  t:equal(info.source, "=?")
  -- Bytes that are wrong in the header are found.
  local good = string.dump(load "return 1")
  for i = 2, 12 do
    local bad = good:sub(1, i - 1) .. string.char((good:byte(i) + 1) % 256) .. good:sub(i + 1)
    local f, message = load(bad, "=bad", "b")
    t:equal(f, nil)
    t:matches(message, "^bad: bad binary format")
  end
end

-- Files: a first line with # is skipped, also before a binary chunk; environment and mode as with
-- load.
do
  local path = t:scratch()
  local function with(text)
    local f <close> = assert(io.open(path, "wb"))
    f:write(text)
    return path
  end
  for text, wanted in pairs {
    ["return 1"] = "1", ["#!/bin/lua\nreturn 2"] = "2",
    ["# comment\nreturn debug.getinfo(1, 'l').currentline"] = "2", ["\239\187\191return 3"] = "3",
    ["\239\187\191#!x\nreturn 4"] = "4",
    ["#"] = "", [""] = "", ["return ..."] = "", ["#!x\n" .. string.dump(load "return 5")] = "5",
    [string.dump(load "return 6")] = "6",
  } do
    t:gives(wanted, assert(loadfile(with(text))))
    t:gives(wanted, dofile, with(text))
  end
  t:values(
    "nil 'attempt to load a text chunk (mode is 'b')'",
    (function(f, m) return f, m and m:gsub("^.*: ", "") end)(loadfile(with "return 1", "b"))
  )
  t:equal(loadfile(with "return x", "t", { x = "own" })(), "own")
  t:matches(select(2, loadfile(with "x =")), ":1: unexpected symbol near <eof>$")
  t:gives("! stop", function() dofile(with "error('stop', 0)") end)
  for n = 1, 20 do t:equal(select("#", dofile(with("return " .. ("1, "):rep(n) .. "2"))), n + 1) end
  os.remove(path)
end
