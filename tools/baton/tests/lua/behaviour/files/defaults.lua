-- The default files of io, one set per program: io.input, io.output, io.read, io.write, io.lines,
-- io.close.
local t = ...

local path = t:scratch()
local function with(text) local f <close> = assert(io.open(path, "w")) f:write(text) return path end
local stdin, stdout = io.input(), io.output()
t:equal(stdin, io.stdin) t:equal(stdout, io.stdout) t:equal(io.type(io.stderr), "file")
for n = 1, 20 do
  with(("line\n"):rep(n))
  t:equal(io.input(path) == io.stdin, false)
  local count = 0
  for line in io.lines() do if line == "line" then count = count + 1 end end
  t:equal(count, n)
  t:equal(io.read(), nil)
  t:equal(io.close(io.input()), true)
  t:raises("input file is closed", io.read)
  t:raises("closed", io.lines)
  io.input(io.stdin)
  t:equal(io.input(), stdin)
end
for n = 1, 20 do
  t:equal(io.type(io.output(path)), "file")
  t:equal(io.write(n, " ", n * 2), io.output())
  t:equal(io.close(), true)
  t:raises("output file is closed", io.write, "x")
  t:raises("closed", io.close)
  io.output(stdout)
  local f <close> = assert(io.open(path))
  t:equal(f:read "a", n .. " " .. n * 2)
end
for _, name in ipairs { "input", "output" } do
  t:raises("FILE* expected", io[name], {})
  t:raises("FILE* expected", io[name], print)
end
t:raises("No such file or directory", io.input, "/nonexistent/file")
t:raises("No such file or directory", io.output, "/nonexistent/file")
t:equal(io.input(), stdin)
t:equal(io.output(), stdout)
-- The default file stays open even if no variable refers to it.
io.output(path)
collectgarbage()
io.write "kept"
io.close()
io.output(stdout)
do local f <close> = assert(io.open(path)) t:equal(f:read "a", "kept") end
t:values("nil", io.read()) -- the standard input of this run is empty
t:values("''", io.read "a")
t:values("nil", io.read "n")
t:values("nil", io.read(0))
os.remove(path)
