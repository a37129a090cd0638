-- Where a coroutine can yield: across pcall, metamethods, iterators and library functions; and
-- where it cannot.
local t = ...
local create, resume, yield, wrap, status =
  coroutine.create, coroutine.resume, coroutine.yield, coroutine.wrap, coroutine.status

-- A body that yields in the middle of an operation must get the right result from the operation.
local function pausing(value) return function(...) yield(...) return value end end

-- Resumes body without values until it ends. Returns the number of yields and the results.
local function drive(body)
  local co, count = create(body), -1
  local results
  repeat
    results = table.pack(resume(co))
    count = count + 1
  until not results[1] or status(co) == "dead"
  return count, table.unpack(results, 2, results.n)
end

-- Metamethods: each operation, with the object on either side.
local yielding = {
  __add = pausing "add", __sub = pausing "sub", __mul = pausing "mul", __div = pausing "div",
  __mod = pausing "mod",
  __pow = pausing "pow", __unm = pausing "unm", __idiv = pausing "idiv", __band = pausing "band",
  __bor = pausing "bor",
  __bxor = pausing "bxor", __shl = pausing "shl", __shr = pausing "shr", __bnot = pausing "bnot",
  __concat = pausing "concat",
  __len = pausing "len", __eq = pausing(true), __lt = pausing(true), __le = pausing(true),
  __index = pausing "index",
  __newindex = pausing(), __call = pausing "call",
}
local function object() return setmetatable({}, yielding) end
local operations = {
  { "a + b", "'add'" }, { "a - b", "'sub'" }, { "a * b", "'mul'" }, { "a / b", "'div'" },
  { "a % b", "'mod'" }, { "a ^ b", "'pow'" },
  { "-a", "'unm'" }, { "a // b", "'idiv'" }, { "a & b", "'band'" }, { "a | b", "'bor'" },
  { "a ~ b", "'bxor'" }, { "a << b", "'shl'" },
  { "a >> b", "'shr'" }, { "~a", "'bnot'" }, { "a .. b", "'concat'" }, { "#a", "'len'" },
  { "a == b", "true" }, { "a ~= b", "false" },
  { "a < b", "true" }, { "a <= b", "true" }, { "a > b", "true" }, { "a >= b", "true" },
  { "a.x", "'index'" }, { "a[1]", "'index'" },
  { "a[b]", "'index'" }, { "a()", "'call'" }, { "a(1, 2, 3)", "'call'" }, { "a + 1", "'add'" },
  { "1 + a", "'add'" }, { "a - 1", "'sub'" },
  { "1 - a", "'sub'" }, { "2 * a", "'mul'" }, { "a * 2", "'mul'" }, { "1 / a", "'div'" },
  { "a % 2", "'mod'" }, { "2 ^ a", "'pow'" },
  { "a // 3", "'idiv'" }, { "a & 1", "'band'" }, { "1 | a", "'bor'" }, { "a ~ 1", "'bxor'" },
  { "a << 1", "'shl'" }, { "a >> 1", "'shr'" },
  { "1 << a", "'shl'" }, { "a < 1", "true" }, { "a > 1", "true" }, { "1 <= a", "true" },
  { "a >= 1", "true" }, { "a .. 'x'", "'concat'" },
  -- b .. a first, then a .. the result
  { "'x' .. a", "'concat'" }, { "1 .. a", "'concat'" }, { "a < 1.5", "true" },
  { "a .. b .. a", "'concat'", 2 },
}
for _, row in ipairs(operations) do
  local code, wanted, times = row[1], row[2], row[3] or 1
  local f = load(
    "local a, b = ... local before = 'kept' local result = "
      .. code
      .. " assert(before == 'kept') return result"
  )
  t:values(times .. " " .. wanted, drive(function() return f(object(), object()) end))
  -- The same as a condition, where the result is a jump.
  local g = load("local a, b = ... if " .. code .. " then return 'yes' end return 'no'")
  local count, answer = drive(function() return g(object(), object()) end)
  t:that(count >= 1 and answer == (wanted == "false" and "no" or "yes"), "if " .. code)
end
do -- assignments
  local stored
  local mt = { __newindex = function(_, k, v) yield(k) stored = v end }
  t:values("1 'done'", drive(function() local a = setmetatable({}, mt) a.key = 5 return "done" end))
  t:equal(stored, 5)
  t:values(
    "3 'done'",
    drive(function()
      local a = setmetatable({}, mt)
      a[1], a[2], a[3] = 1, 2, 3
      return "done"
    end)
  )
  t:values(
    "2 'xx'",
    drive(function()
      local a = setmetatable({}, { __index = pausing "x" })
      return a.p .. a.q
    end)
  )
end

-- pcall, xpcall, error values and handlers around a yield.
t:values("1 true 'ok' 2", drive(function() return pcall(function() yield() return "ok", 2 end) end))
t:values("1 false 'e'", drive(function() return pcall(function() yield() error("e", 0) end) end))
t:values("2 false 'outer'", drive(function()
  return pcall(function() pcall(function() yield() error "inner" end) yield() error("outer", 0) end)
end))
t:values("1 false 'handled e'", drive(function()
  return xpcall(function() yield() error("e", 0) end, function(m) return "handled " .. m end)
end))
t:values(
  "1 true 1 2 3",
  drive(function()
    return xpcall(function(...)
      yield()
      return ...
    end, print, 1, 2, 3)
  end)
)
for depth = 1, 25 do
  local function protect(n)
    if n == 0 then yield() error("bottom", 0) end
    local ok, message = pcall(protect, n - 1)
    yield()
    error(message .. "." , 0)
  end
  local count, ok, message = drive(function() return pcall(protect, depth) end)
  t:equal(count, depth + 1)
  t:equal(message, "bottom" .. ("."):rep(depth))
end

-- for-in: the iterator, the loop's body, __pairs and its closing value.
local function upto(limit, i) yield() if i < limit then return i + 1 end end
for n = 0, 20 do
  t:values(n + 1 .. " " .. n * (n + 1) // 2, drive(function()
    local sum = 0
    for i in upto, n, 0 do sum = sum + i end
    return sum
  end))
end
t:values("2 'a' 1", drive(function()
  local o = setmetatable({}, { __pairs = function() yield() return next, { a = 1 }, nil end })
  for k, v in pairs(o) do yield() return k, v end
end))

-- To-be-closed variables: a yield in __close, however the block is left.
local function closing() return setmetatable({}, { __close = function() yield "closing" end }) end
t:values("1 'fell'", drive(function() do local a <close> = closing() end return "fell" end))
t:values(
  "1 'returned' nil 3",
  drive(function()
    local a <close> = closing()
    return "returned", nil, 3
  end)
)
t:values(
  "3 1",
  drive(function()
    local a <close>, n = closing(), 1
    local b <close> = closing()
    local c <close> = closing()
    return n
  end)
)
t:values(
  "1 'out'",
  drive(function()
    while true do
      local a <close> = closing()
      break
    end
    return "out"
  end)
)
t:values(
  "1 'gone'",
  drive(function()
    do
      local a <close> = closing()
      goto out
    end
    ::out::
    return "gone"
  end)
)
t:values(
  "1 false 'e'",
  drive(function()
    return pcall(function()
      local a <close> = closing()
      error("e", 0)
    end)
  end)
)
t:values("2 false 'e'", drive(function()
  return pcall(function() local a <close> = closing() local b <close> = closing() error("e", 0) end)
end))
t:values("1 nil", drive(function() for _ in next, {}, nil, closing() do end return nil end))
t:values(
  "3 'end'",
  drive(function()
    for i = 1, 3 do
      local a <close> = closing()
    end
    return "end"
  end)
)

-- Library functions that allow a yield across them.
do
  local path = t:scratch()
  local file = assert(io.open(path, "w"))
  file:write "local a = coroutine.yield(1) return a or 'none', ..."
  file:close()
  t:values("1 'none'", drive(function() return dofile(path) end))
  local co = wrap(function() return dofile(path) end)
  t:equal(co(), 1)
  t:values("'sent'", co "sent")
  os.remove(path)
end
t:values("1 'closed'", drive(function()
  local inner = create(function() local a <close> = closing() yield() end)
  resume(inner)
  -- coroutine.close runs __close where a yield is not possible.
  local ok, message = coroutine.close(inner)
  t:equal(ok, false)
  t:equal(message, "attempt to yield across a C-call boundary")
  yield()
  return "closed"
end))

-- Library functions that do not allow it: the message, and that the program continues.
local boundary = "attempt to yield across a C-call boundary"
local blocked = {
  ["table.sort"] = function() table.sort({ 3, 1, 2 }, function(a, b) yield() return a < b end) end,
  ["string.gsub"] = function() return (("abc"):gsub("%w", function() yield() end)) end,
  ["load"] = function() assert(load(function() yield() end)) end,
  ["tostring"] = function()
    return tostring(setmetatable({}, { __tostring = function() yield() end }))
  end,
  ["table.concat"] = function()
    return table.concat(setmetatable({}, {
      __index = function()
        yield()
        return "x"
      end,
      __len = function() return 2 end,
    }))
  end,
  ["table.insert"] = function()
    table.insert(setmetatable({}, { __newindex = function() yield() end }), 1)
  end,
  ["table.remove"] = function()
    table.remove(
      setmetatable({}, { __index = function() yield() end, __len = function() return 3 end })
    )
  end,
  ["table.unpack"] = function()
    return table.unpack(setmetatable({}, { __index = function() yield() end }), 1, 2)
  end,
  ["table.move"] = function()
    table.move(setmetatable({}, { __index = function() yield() end }), 1, 2, 1, {})
  end,
  ["string.format"] = function()
    return ("%s"):format(setmetatable({}, {
      __tostring = function()
        yield()
        return "x"
      end,
    }))
  end,
  ["#t in a library"] = function()
    return table.unpack(setmetatable({}, {
      __len = function()
        yield()
        return 0
      end,
    }))
  end,
  ["require"] = function()
    package.preload["behaviour.yields"] = function() yield() end
    require "behaviour.yields"
  end,
  ["gsub by a table"] = function() return (("a"):gsub("a", setmetatable({}, { __index = function()
    yield() end })))
  end,
  ["ipairs"] = function() for _ in ipairs(setmetatable({}, { __index = function()
    yield() end })) do end
  end,
  ["print"] = function() print(setmetatable({}, { __tostring = function() yield() end })) end,
}
for name, f in pairs(blocked) do
  local co = create(function() local ok, message = pcall(f) yield(ok, message) return "went on" end)
  local _, ok, message = resume(co)
  t:equal(ok, false, name)
  t:has(message, boundary, name)
  t:values("true 'went on'", resume(co))
  t:equal(status(co), "dead", name)
  -- If it is not protected, the coroutine dies.
  local bare = create(function() f() return "unreached" end)
  t:equal(resume(bare), false, name)
  t:equal(status(bare), "dead", name)
end

-- Inside such a function, another coroutine may yield.
do
  local list = { 5, 3, 8, 1, 9, 2 }
  table.sort(list, function(a, b)
    return wrap(function() yield(a < b) end)()
  end)
  t:equal(table.concat(list, " "), "1 2 3 5 8 9")
  t:equal((("abc"):gsub("%w", function(c)
    return wrap(function() yield(c:upper()) end)()
  end)), "ABC")
  for depth = 1, 20 do
    local function deep(n)
      if n == 0 then return "x" end
      return (("x"):gsub("x", function() return wrap(function() yield(deep(n - 1)) end)() end))
    end
    t:equal(deep(depth), "x")
  end
end
