-- To-be-closed variables: when they are closed, in which order, and what happens to errors on the
-- way.
local t = ...

local function closing(f) return setmetatable({}, { __close = function(...) return f(...) end }) end

-- nil and false are not closed; anything else needs __close when it is assigned.
for _, value in ipairs { false } do t:gives("", function() local a <close> = value end) end
t:gives("", function() local a <close> = nil end)
for _, value in ipairs { 1, "x", true, {}, print, setmetatable({}, {}), coroutine.create(print) } do
  t:raises("variable 'bad' got a non-closable value", function() local bad <close> = value end)
end
do
  local log = t:log()
  local ok = pcall(function()
    local good <close> = closing(function() log "good" end)
    local bad <close> = 42
    log "unreached"
  end)
  t:equal(ok, false)
  log:is "good"
end

-- The ways out of a block; each closes once, last declared first.
local bodies = {
  ["falls off"] = "do OPEN end", ["return"] = "OPEN return 1, 2",
  ["break"] = "while true do OPEN break end",
  ["goto"] = "do OPEN goto out end ::out::",
  ["continue"] = "for i = 1, 1 do OPEN goto continue ::continue:: end",
  ["repeat"] = "repeat OPEN until true",
  ["error"] = "local f = function() OPEN error 'x' end pcall(f)",
  ["if"] = "if true then OPEN end", ["function"] = "(function() OPEN end)()",
  ["tail position"] = "return (function() OPEN return 1 end)()",
  ["numeric for"] = "for i = 1, 1 do OPEN end",
  ["generic for"] = "for _ in pairs { 1 } do OPEN end",
  ["break in repeat"] = "repeat OPEN break until false",
  ["inner break"] = "for i = 1, 1 do for j = 1, 1 do OPEN break end end",
  ["error in callee"] = "pcall(function() OPEN local x = nil; x() end)",
  ["error in pcall in block"] = "do OPEN pcall(error) end",
  ["coroutine"] = "coroutine.wrap(function() OPEN end)()",
  ["close"] = "local co = coroutine.create(function() OPEN coroutine.yield() end) "
    .. "coroutine.resume(co) coroutine.close(co)",
  ["sort"] = "table.sort({ 1, 2 }, function() OPEN return false end)",
  ["gsub"] = "('x'):gsub('x', function() OPEN end)",
  ["metamethod"] = "return setmetatable({}, { __index = function() OPEN return 1 end }).x",
  ["finalizer free"] = "do OPEN collectgarbage 'step' end",
  ["nested do"] = "do do do OPEN end end end",
  ["goto out of loops"] = "for i = 1, 2 do for j = 1, 2 do OPEN goto done end end ::done::",
}
for name, body in pairs(bodies) do
  for n = 1, 6 do
    local open, wanted = {}, {}
    for i = 1, n do open[i] = ("local v%d <close> = closing(%d)"):format(i, i) end
    for i = n, 1, -1 do wanted[#wanted + 1] = i end
    local log = t:log()
    local code = body:gsub("OPEN", function() return table.concat(open, " ") end)
    local env = setmetatable({
      closing = function(i)
        return closing(function() log(i) end)
      end,
    }, { __index = _G })
    assert(load(code, "=" .. name, "t", env))()
    log:is(table.concat(wanted, " "), name)
  end
end

-- A loop closes its variables in each iteration, before the next one. The condition of repeat still
-- sees the variable open.
do
  local log = t:log()
  for i = 1, 3 do local a <close> = closing(function() log("-" .. i) end) log("+" .. i) end
  log:is "+1 -1 +2 -2 +3 -3"
  local n = 0
  repeat
    n = n + 1
    local a <close> = closing(function() log("close" .. n) end)
  until (function()
    log("test" .. n)
    return n == 3
  end)()
  log:is "test1 close1 test2 close2 test3 close3"
  local i = 0
  ::again::
  do
    i = i + 1
    local a <close> = closing(function() log(i) end)
    if i < 4 then goto again end
  end
  log:is "1 2 3 4"
end

-- The results of a function are those from before the closing. Closures that captured a closed
-- variable keep its value.
for n = 0, 12 do
  local list = {}
  for i = 1, n do list[i] = i end
  local function f()
    local a <close> = closing(function()
      for i = 1, 300 do
        local junk = { i }
      end
      return "ignored"
    end)
    return table.unpack(list)
  end
  t:equal(select("#", f()), n)
  t:equal(table.concat({ f() }, " "), table.concat(list, " "))
end
do
  local captured
  local object = closing(function() end)
  do local a <close> = object captured = function() return a end end
  t:equal(captured(), object)
  local count = 0
  local function f() local a <close> = closing(function() count = count + 1 end) return count end
  t:equal(f(), 0)
  t:equal(count, 1)
end
do -- a call in return is no tail call then: it runs before the closing
  local log = t:log()
  local function g() log "g" return "r" end
  local function f() local a <close> = closing(function() log "close" end) return g() end
  t:equal(f(), "r")
  log:is "g close"
end

-- Arguments: the value itself and the error, which is nil on a normal way out. Results are ignored.
do
  local seen
  local object = setmetatable({}, {
    __close = function(...)
      seen = table.pack(...)
      return 1, 2, 3
    end,
  })
  do local a <close> = object end
  t:equal(seen[1], object)
  t:equal(seen[2], nil)
  for _, e in ipairs { "text", 5, true, {}, print } do
    local ok, got = pcall(function() local a <close> = object error(e, 0) end)
    t:equal(seen[1], object)
    t:equal(seen[2], e)
    t:equal(got, e)
  end
  pcall(function() local a <close> = object error() end)
  t:equal(seen[2], nil)
  local callable = setmetatable({}, { __call = function(self, o, e) seen = { self, o, e } end })
  local by_call = setmetatable({}, { __close = callable })
  do local a <close> = by_call end
  t:equal(seen[1], callable)
  t:equal(seen[2], by_call)
end

-- Errors in __close: the remaining variables are still closed. Each sees the last error, and the
-- last one is raised in the end.
for n = 1, 10 do
  for failing = 1, n do
    local log = t:log()
    local function open(i)
      local a <close> = closing(function(_, e)
        log(tostring(e))
        if i == failing then error("E" .. i, 0) end
      end)
      if i < n then open(i + 1) end
      return nil
    end
    t:values("false 'E" .. failing .. "'", pcall(open, 1))
    log:is((("nil "):rep(n - failing + 1) .. ("E" .. failing .. " "):rep(failing - 1)):sub(1, -2))
  end
end
do
  local log = t:log()
  local ok, message = pcall(function()
    local a <close> = closing(function(_, e) log(e) error(e .. "a", 0) end)
    local b <close> = closing(function(_, e) log(e) error(e .. "b", 0) end)
    local c <close> = closing(function(_, e) log(e) end)
    local d <close> = closing(function(_, e) log(e) error(e .. "d", 0) end)
    error("e", 0)
  end)
  t:values("false 'edba'", ok, message)
  log:is "e ed ed edb"
  -- In xpcall the handler sees each of them as it is raised.
  local heard = t:log()
  xpcall(function()
    local a <close> = closing(function() error("second", 0) end)
    error("first", 0)
  end, function(m) heard(m) return m end)
  heard:is "first second"
end
do -- __close removed between the declaration and the end of the block
  local object = closing(function() end)
  t:raises("metamethod 'close'", function()
    local a <close> = object
    getmetatable(object).__close = nil
  end)
  t:raises("metamethod 'close'", function() local b <close> = setmetatable({}, { __close = 5 }) end)
end

-- The fourth value of a generic for is closed when the loop ends, however it ends.
do
  local log = t:log()
  local function values(n)
    return function(_, i)
      if i < n then return i + 1 end
    end,
      nil,
      0,
      closing(function(_, e) log(e or "end") end)
  end
  for n = 0, 8 do
    for i in values(n) do
      log(i)
    end
    log:is((("1 2 3 4 5 6 7 8 "):sub(1, 2 * n) .. "end"), "a loop of " .. n)
  end
  for i in values(5) do if i == 2 then break end end
  log:is "end"
  pcall(function() for i in values(5) do error("oops", 0) end end)
  log:is "oops"
  local function early() for i in values(5) do return i end end
  t:equal(early(), 1)
  log:is "end"
  for i in values(2) do for j in values(1) do goto next end ::next:: log(i) end
  log:is "end 1 end 2 end"
  pcall(function()
    for _ in function() error("iterator", 0) end, nil, nil, closing(function(_, e) log(e) end) do
    end
  end)
  log:is "iterator"
  t:raises("variable '(for state)' got a non-closable value", function()
    for _ in next, {}, nil, 5 do
    end
  end)
  for _ in next, {}, nil, nil do end
  for _ in next, {}, nil, false do end
end

-- Depth: many open at once, in one function and in recursion; closing itself may open and close.
do
  local count = 0
  local function down(n)
    local a <close> = closing(function() count = count + 1 end)
    if n > 1 then down(n - 1) end
    return n
  end
  for _, n in ipairs { 1, 10, 100, 180 } do count = 0 down(n) t:equal(count, n) end
  for _, n in ipairs { 1, 10, 100, 190 } do
    local code = {}
    for i = 1, n do code[i] = "local a" .. i .. " <close> = c" end
    local closed = 0
    load("local c = ... " .. table.concat(code, " "))(closing(function() closed = closed + 1 end))
    t:equal(closed, n)
  end
  local nested = 0
  local function nest(n)
    return closing(function()
      nested = nested + 1
      if n > 0 then local a <close> = nest(n - 1) end
    end)
  end
  do local a <close> = nest(50) end
  t:equal(nested, 51)
end

-- Files are closable, and so is what io.lines gives a loop.
do
  local path = t:scratch()
  local kept
  do local f <close> = assert(io.open(path, "w")) kept = f f:write "1\n2\n3\n" end
  t:equal(io.type(kept), "closed file")
  t:gives("! stop", function()
    local f <close> = assert(io.open(path))
    kept = f
    error("stop", 0)
  end)
  t:equal(io.type(kept), "closed file")
  for i = 1, 3 do
    local lines, _, _, file = io.lines(path)
    for line in lines, nil, nil, file do if line == tostring(i) then break end end
    t:equal(io.type(file), "closed file")
    t:raises("file is already closed", lines)
  end
  os.remove(path)
end
