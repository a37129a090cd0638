-- Values through resume, yield and wrap; states; the running coroutine; depth and number of
-- coroutines.
local t = ...
local create, resume, yield, status, wrap =
  coroutine.create, coroutine.resume, coroutine.yield, coroutine.status, coroutine.wrap

-- Lists of every length pass both ways, nil included.
local function numbers(n)
  local list = { n = n }
  for i = 1, n do list[i] = i % 3 == 0 and nil or i end
  return list
end

local function same(got, wanted)
  if got.n ~= wanted.n then return false end
  for i = 1, wanted.n do if got[i] ~= wanted[i] then return false end end
  return true
end

for n = 0, 40 do
  local sent = numbers(n)
  local co = create(function(...)
    t:that(same(table.pack(...), sent), "arguments of the first resume: " .. n)
    local back = table.pack(yield(...))
    t:that(same(back, sent), "results of yield: " .. n)
    return table.unpack(back, 1, back.n)
  end)
  local first = table.pack(resume(co, table.unpack(sent, 1, n)))
  t:that(first[1] == true and first.n == n + 1, "results of the first resume: " .. n)
  local last = table.pack(resume(co, table.unpack(sent, 1, n)))
  t:that(last[1] == true and last.n == n + 1, "results of the last resume: " .. n)
  t:equal(status(co), "dead")
end

-- Many values at once need the other side's stack to grow.
for _, n in ipairs { 100, 250, 1000, 5000, 20000 } do
  local list = {}
  for i = 1, n do list[i] = i end
  local co = wrap(function(...) while true do yield(select("#", ...), select(n, ...)) end end)
  t:values(n .. " " .. n, co(table.unpack(list)))
  local out = wrap(function() yield(table.unpack(list)) return table.unpack(list) end)
  t:equal(select("#", out()), n)
  t:equal(select(n, out()), n)
end

-- Values of every kind arrive unchanged, and objects keep their identity.
local subjects = {
  true,
  false,
  0,
  -1,
  1.5,
  math.huge,
  math.mininteger,
  "",
  "text",
  ("x"):rep(1000),
  {},
  print,
  function() end,
  create(print),
  io.stdout,
  0.1 + 0.2,
  -0.0,
  "a\0b",
}
for i, subject in ipairs(subjects) do
  local echo = create(function(x) while true do x = yield(x) end end)
  t:equal(select(2, resume(echo, subject)), subject, "subject " .. i)
  t:equal(select(2, resume(echo, subject)), subject, "subject " .. i)
end

-- States, as seen from inside, from outside and from a coroutine in between.
do
  local outer, inner
  inner = create(function()
    t:equal(status(inner), "running")
    t:equal(status(outer), "normal")
    t:values("false 'cannot resume non-suspended coroutine'", resume(outer))
    t:values("false 'cannot resume non-suspended coroutine'", resume(inner))
    yield()
    t:equal(status(inner), "running")
  end)
  outer = create(function()
    t:equal(status(outer), "running")
    t:equal(status(inner), "suspended")
    resume(inner)
    t:equal(status(inner), "suspended")
    yield()
    resume(inner)
    t:equal(status(inner), "dead")
  end)
  t:equal(status(outer), "suspended")
  resume(outer)
  t:equal(status(outer), "suspended")
  t:equal(status(inner), "suspended")
  resume(outer)
  t:equal(status(outer), "dead")
  t:values("false 'cannot resume dead coroutine'", resume(outer))
  t:values("false 'cannot resume dead coroutine'", resume(inner))
end

-- coroutine.running: the main program says that it is the main one; a process has a coroutine of
-- its own.
do
  local base, is_main = coroutine.running()
  t:equal(type(base), "thread")
  t:equal(status(base), "running")
  t:equal(coroutine.isyieldable(), false)
  t:equal(coroutine.isyieldable(base), false)
  t:values("false 'cannot resume non-suspended coroutine'", resume(base))
  t:raises("attempt to yield " .. (is_main and "from outside a coroutine" or ""), yield)
  t:raises("cannot close a running coroutine", coroutine.close, base)
  local co
  co = create(function()
    local me, main = coroutine.running()
    t:equal(me, co)
    t:equal(main, false)
    t:equal(status(base), "normal")
    t:equal(coroutine.isyieldable(), true)
    t:equal(coroutine.isyieldable(base), false)
    t:equal(coroutine.isyieldable(co), true)
    t:values("false 'cannot resume non-suspended coroutine'", resume(base))
    t:raises("cannot close a normal coroutine", coroutine.close, base)
    t:raises("cannot close a running coroutine", coroutine.close, co)
    yield()
  end)
  t:equal(coroutine.isyieldable(co), true)
  t:values("true", resume(co))
  t:equal(coroutine.isyieldable(co), true)
  t:equal(coroutine.running(), base)
end

-- Arguments that are not coroutines or functions.
for _, name in ipairs { "resume", "status", "close" } do
  for _, wrong in ipairs { 1, "x", {}, print, true } do
    t:raises("thread expected, got " .. type(wrong), coroutine[name], wrong)
  end
  t:raises("thread expected, got no value", coroutine[name])
end
for _, name in ipairs { "create", "wrap" } do
  for _, wrong in ipairs { 1, "x", {}, true } do
    t:raises("function expected, got " .. type(wrong), coroutine[name], wrong)
  end
  t:raises("function expected, got no value", coroutine[name])
end

-- Functions of C as bodies.
t:values("true 3 'b'", resume(create(select), 2, "a", 3, "b"))
t:values("true 'x'", resume(create(function(...) return ... end), "x"))
t:values("true true 5", resume(create(pcall), function() return 5 end))
t:values("true 7 nil", resume(create(yield), 7, nil))
do
  local co = create(yield)
  resume(co, 1)
  t:values("true 'second' 2", resume(co, "second", 2))
  t:equal(status(co), "dead")
  local nested = create(pcall)
  t:values("true 'in'", resume(nested, yield, "in"))
  t:values("true true 'out'", resume(nested, "out"))
end

-- Coroutines in coroutines, as deep as the limit of C calls allows; each level has its own values.
local function nest(n)
  if n == 0 then return 0 end
  return 1 + wrap(nest)(n - 1)
end
for _, depth in ipairs { 1, 2, 10, 50, 100, 150, 180 } do t:equal(nest(depth), depth) end
do
  local ok, message = pcall(nest, 400)
  t:equal(ok, false)
  t:has(message, "C stack overflow")
  t:equal(nest(150), 150, "after the overflow")
end

-- A yield at depth goes to the innermost resume only.
for depth = 1, 30 do
  local function body(n)
    if n == 0 then yield "deep" return "end" end
    return body(n - 1) .. ""
  end
  local co = wrap(body)
  t:equal(co(depth), "deep")
  t:equal(co(), "end")
end

-- Recursion through Lua inside one coroutine.
do
  local function down(n) if n == 0 then return yield(0) end return 1 + down(n - 1) end
  local co = wrap(down)
  t:equal(co(10000), 0)
  t:equal(co(5), 10005)
end

-- Many coroutines, resumed in rounds, in two orders.
do
  local all = {}
  for i = 1, 300 do
    all[i] = wrap(function() local sum = 0 while true do sum = sum + i + yield(sum) end end)
    all[i]()
  end
  for round = 1, 3 do
    for i = 1, #all do all[i](round) end
    for i = #all, 1, -1 do all[i](0) end
  end
  for i = 1, #all, 10 do t:equal(all[i](0), 7 * i + 6) end
end

-- Generators: for-in over wrap, nested loops, and loops that end early.
do
  local function range(n) return wrap(function() for i = 1, n do yield(i) end end) end
  for n = 0, 20 do
    local sum = 0
    for i in range(n) do for j in range(i) do sum = sum + j end end
    t:equal(sum, n * (n + 1) * (n + 2) // 6)
  end
  local function tree(lo, hi)
    if lo > hi then return end
    local middle = (lo + hi) // 2
    tree(lo, middle - 1) yield(middle) tree(middle + 1, hi)
  end
  local got = {}
  for v in wrap(function() tree(1, 63) end) do got[#got + 1] = v end
  t:equal(#got, 63)
  for i = 1, 63, 7 do t:equal(got[i], i) end
end
