-- Files: opening, reading in each format, writing, seeking, buffering, closing, and pipes.
local t = ...

local path = t:scratch()
local function with(text)
  local f <close> = assert(io.open(path, "wb"))
  assert(f:write(text))
  return path
end
local function reading(text, ...)
  local f <close> = assert(io.open(with(text), "rb"))
  return f:read(...)
end

-- Each format on each kind of content.
for _, row in ipairs {
  { "", "''", "a" }, { "", "nil", "l" }, { "", "nil", "L" }, { "", "nil", "n" }, { "", "nil", 1 },
  { "", "nil", 0 }, { "x", "''", 0 }, { "abc", "'abc'", "a" },
  { "one\ntwo\n", "'one'", "l" }, { "one\ntwo\n", "'one\\010'", "L" }, { "one", "'one'", "L" },
  { "\n\n", "'' ''", "l", "l" }, { "\n\n", "'' '' nil", "l", "l", "l" },
  { "one\ntwo", "'one' 'two' nil", "l", "l", "l" },
  { "one\ntwo", "'one' 'two'", "l", "a" }, { "one", "'one' ''", "l", "a" },
  { "one", "'one' '' ''", "a", "a", "a" }, { "abcdef", "'ab' 'cd' 'ef' nil", 2, 2, 2, 2 },
  { "abc", "'abc'", 100 }, { "abc", "'ab' 'c' nil", 2, 2, 2 },
  { "a\0b\nc", "'a\\000b'", "l" }, { "a\0b", "'a\\000b'", "a" }, { "a\r\nb", "'a\\013'", "l" },
  { "1 2.5 0x10", "1 2.5 16", "n", "n", "n" }, { "  7\n8", "7 8", "n", "n" },
  { "1e2 -5 +6", "100.0 -5 6", "n", "n", "n" }, { "x", "nil", "n" },
  { "12abc", "12", "n" }, { "12 abc", "12 ' abc'", "n", "a" }, { "1 x 2", "1 nil", "n", "n", "n" },
  { "0x1p4 .5 5.", "16.0 0.5 5.0", "n", "n", "n" },
  { "9223372036854775807", "9223372036854775807", "n" },
  { "9223372036854775808", "9.2233720368547758e+18", "n" }, { "-", "nil", "n" },
  { "0x", "nil", "n" }, { "1e+", "nil", "n" },
  { ("1"):rep(199), "1.1111111111111111e+198", "n" }, { ("1"):rep(201), "nil", "n" },
  { "abc", "'abc'", "*a" }, { "one\n", "'one'", "*l" }, { "5", "5", "*n" },
  { "one\n", "'one\\010'", "*L" }, { "ab\ncd", "'a' 'b' 'cd' nil", 1, "l", "l", "l" },
  { "7\nx", "7 '' 'x'", "n", "l", "l" }, { "abc", "'abc'" }, { "a\nb", "'a'" },
  { "ab", "'' 'ab' nil", 0, 2, 0, 0 },
} do
  local text, wanted = row[1], row[2]
  t:values(wanted, reading(text, table.unpack(row, 3)))
  -- lines returns the same in its first iteration. Without formats, it uses "l".
  if wanted ~= "nil" and not wanted:find "^nil" then
    local f <close> = assert(io.open(path, "rb"))
    t:values(wanted, f:lines(table.unpack(row, 3))())
  end
end
t:raises("invalid format", reading, "x", "x")
t:raises("invalid format", reading, "x", "")
t:raises("invalid format", reading, "x", "*x")
t:raises("string expected, got table", reading, "x", {})
t:raises("no integer representation", reading, "x", 1.5)

-- Sizes around the buffers: lines, blocks and all.
local sizes =
  { 1, 100, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 65536, 300000 }
for _, size in ipairs(sizes) do
  local line = ("x"):rep(size)
  with(line .. "\n" .. line)
  local f <close> = assert(io.open(path))
  t:equal(f:read "l", line) t:equal(f:read "L", line) t:equal(f:read "L", nil)
  f:seek "set"
  t:equal(#f:read(size), size) t:equal(f:read(1), "\n") t:equal(#f:read(size + 10), size)
  f:seek "set"
  t:equal(#f:read "a", 2 * size + 1)
end

-- Seeking, and the position after each kind of reading and writing.
do
  local f <close> = assert(io.open(with "0123456789", "r+"))
  for _, row in ipairs {
    { "set", 0, 0 }, { "set", 5, 5 }, { "cur", 0, 5 }, { "cur", 2, 7 }, { "cur", -3, 4 },
    { "end", 0, 10 }, { "end", -4, 6 }, { "set", 100, 100 }, { "cur", nil, 100 }, { nil, nil, 100 },
    { "end", nil, 10 }, { "set", nil, 0 },
  } do t:equal(f:seek(row[1], row[2]), row[3]) end
  t:values("nil", (f:seek("set", -1)))
  t:has(select(2, f:seek("set", -1)), "Invalid argument")
  t:equal(select(3, f:seek("set", -1)), 22)
  t:raises("invalid option", f.seek, f, "middle")
  t:raises("no integer representation", f.seek, f, "set", 1.5)
  for i = 0, 9 do f:seek("set", i) t:equal(f:read(1), tostring(i)) t:equal(f:seek(), i + 1) end
  for i = 0, 9 do f:seek("set", i) f:write(string.char(65 + i)) t:equal(f:seek(), i + 1) end
  f:seek "set"
  t:equal(f:read "a", "ABCDEFGHIJ")
  f:seek("set", 12) f:write "!"
  f:seek "set"
  t:equal(f:read "a", "ABCDEFGHIJ\0\0!")
end

-- Modes: the operations that each allows, and its effect on the content.
for _, row in ipairs {
  { "r", true, false, "old" }, { "w", false, true, "new" }, { "a", false, true, "oldnew" },
  { "r+", true, true, "new" }, { "w+", true, true, "new" }, { "a+", true, true, "oldnew" },
  { "rb", true, false, "old" }, { "wb", false, true, "new" }, { "ab", false, true, "oldnew" },
  { "r+b", true, true, "new" }, { "w+b", true, true, "new" }, { "a+b", true, true, "oldnew" },
} do
  with "old"
  local f = assert(io.open(path, row[1]))
  local wrote, why, code = f:write "new"
  t:equal(wrote == f, row[3] or why == nil)
  f:flush()
  f:seek "set"
  local text, _, failure = f:read "a"
  if row[2] then t:equal(text, row[4]) else t:equal(failure, 9) end
  f:close()
  local g <close> = assert(io.open(path))
  t:equal(g:read "a", row[4], row[1])
end
for _, wrong in ipairs { "", "x", "rw", "br", "r++", "rbx", "+r", "r b", "rt" } do
  t:raises("invalid mode", io.open, path, wrong)
end
t:values("nil '/nonexistent/file: No such file or directory' 2", io.open "/nonexistent/file")
t:values("nil '/: Is a directory' 21", io.open("/", "w"))
t:values(
  "nil 'Is a directory' 21",
  (function()
    local f <close> = assert(io.open "/")
    return f:read "a"
  end)()
)
t:values("nil '/nonexistent/file: No such file or directory' 2", io.open("/nonexistent/file", "a+"))

-- write: numbers and text, one result, in order; buffering.
do
  local f <close> = assert(io.open(path, "w"))
  t:equal(f:write(), f)
  t:equal(f:write(1, " ", 2.5, " ", "text", "\0"), f)
  t:equal(f:write(-0.0, math.maxinteger, 1e100), f)
  t:raises("string expected, got nil", f.write, f, nil)
  t:raises("string expected, got table", f.write, f, "x", {})
  t:that(f:flush())
  local g <close> = assert(io.open(path))
  t:equal(g:read "a", "1 2.5 text\0-092233720368547758071e+100x")
  for _, mode in ipairs { "no", "full", "line" } do
    for _, size in ipairs { 1, 100, 5000 } do
      t:equal(f:setvbuf(mode, size), true)
      f:write(mode, size)
    end
  end
  t:raises("invalid option", f.setvbuf, f, "some")
  t:equal(f:close(), true)
  t:equal(g:read "a", "no1no100no5000full1full100full5000line1line100line5000")
end
for n = 1, 30 do
  local f <close> = assert(io.open(path, "w+"))
  for i = 1, n do f:write(i, "\n") end
  f:seek "set"
  local sum, count = 0, 0
  for x in f:lines "n" do sum, count = sum + x, count + 1 end
  t:equal(sum, n * (n + 1) // 2)
  f:seek "set"
  local lines = 0
  for line in f:lines() do lines = lines + 1 if line ~= tostring(lines) then break end end
  t:equal(lines, n)
end

-- Closed files: every method reports it. Closing twice, the type and the name.
do
  local f = assert(io.open(path))
  t:equal(io.type(f), "file") t:matches(tostring(f), "^file %(0x")
  t:equal(f:close(), true)
  t:equal(io.type(f), "closed file") t:equal(tostring(f), "file (closed)")
  for _, method in ipairs { "read", "write", "lines", "close", "flush", "seek", "setvbuf" } do
    t:raises("attempt to use a closed file", f[method], f)
  end
  for _, other in ipairs { 5, "x", {}, print } do t:equal(io.type(other), nil) end
  t:raises("value expected", io.type)
  t:raises("FILE* expected", io.stdout.read, 5) t:raises("FILE* expected", io.stdout.read)
  local g = assert(io.open(path))
  local lines = g:lines()
  g:close()
  t:raises("file is already closed", lines)
end
-- io.lines with a name closes the file at its end, and reports why it cannot open one.
do
  with "1\n2\n3\n"
  local seen = {}
  for a, b in io.lines(path, 1, "L") do seen[#seen + 1] = a .. b end
  t:equal(table.concat(seen), "1\n2\n3\n")
  local lines = io.lines(path)
  t:values("'1'", lines()) t:values("'2'", lines()) t:values("'3'", lines()) t:values("", lines())
  t:raises("file is already closed", lines)
  t:raises("No such file or directory", io.lines, "/nonexistent/file")
  t:raises("too many arguments", io.lines, path, table.unpack({}, 1, 251))
  for n = 1, 20 do
    local formats = {}
    for i = 1, n do formats[i] = 1 end
    with(("x"):rep(n * 2))
    local turns = 0
    for _ in io.lines(path, table.unpack(formats)) do turns = turns + 1 end
    t:equal(turns, 2)
  end
end
-- tmpfile, and pipes: results of close, both directions, errors.
do
  local f <close> = assert(io.tmpfile())
  f:write "temporary" f:seek "set"
  t:equal(f:read "a", "temporary")
  for code = 0, 9 do
    t:values(
      code == 0 and "true 'exit' 0" or "nil 'exit' " .. code,
      io.popen("exit " .. code):close()
    )
  end
  t:values("nil 'signal' 15", io.popen("kill -15 $$"):close())
  local p = io.popen "printf 'a\\nb\\n'; exit 3"
  t:values("'a' 'b' nil", p:read("l", "l", "l"))
  t:values("nil 'exit' 3", p:close())
  local w = assert(io.popen("cat > '" .. path .. "'", "w"))
  w:write("through a pipe")
  t:values("true 'exit' 0", w:close())
  t:equal(io.open(path):read "a", "through a pipe")
  t:raises("invalid mode", io.popen, "true", "rw")
  local big = io.popen "head -c 300000 /dev/zero"
  t:equal(#big:read "a", 300000)
  t:values("true 'exit' 0", big:close())
  t:equal((io.popen "true"):seek "cur", nil)
end
os.remove(path)
