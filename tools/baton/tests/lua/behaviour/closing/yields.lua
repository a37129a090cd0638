-- To-be-closed variables whose closing yields, in every way out of a block, and under pcall, wrap
-- and coroutine.close.
local t = ...
local create, resume, yield, wrap, status, close =
  coroutine.create,
  coroutine.resume,
  coroutine.yield,
  coroutine.wrap,
  coroutine.status,
  coroutine.close

-- Returns a closing value that yields `pauses` times, logs its name, and optionally fails.
local function pausing(log, name, pauses, failure)
  return setmetatable({}, { __close = function(_, e)
    for i = 1, pauses do yield(name) end
    log(name .. (e and "(" .. tostring(e) .. ")" or ""))
    if failure then error(failure, 0) end
  end })
end

local function run(f, ...)
  local co, yields = create(f), 0
  local results = table.pack(resume(co, ...))
  while status(co) == "suspended" do
    yields = yields + 1
    results = table.pack(resume(co))
  end
  return yields, table.unpack(results, 1, results.n)
end

local ways = {
  { "do OPEN end return 'r'", "true 'r'" },
  { "OPEN return 'r', 2", "true 'r' 2" },
  { "OPEN return select('#', 1, nil, nil)", "true 3" },
  { "while true do OPEN break end return 'r'", "true 'r'" },
  { "do OPEN goto out end ::out:: return 'r'", "true 'r'" },
  { "for i = 1, 1 do OPEN end return 'r'", "true 'r'" },
  { "for k, v in pairs { 7 } do OPEN return k, v end", "true 1 7" },
  { "repeat OPEN until true return 'r'", "true 'r'" },
  { "return pcall(function() OPEN return 'in' end)", "true true 'in'" },
  { "return pcall(function() OPEN error('e', 0) end)", "true false 'e'" },
  {
    "return xpcall(function() OPEN error('e', 0) end, function(m) return m .. 'h' end)",
    "true false 'eh'",
  },
  { "return pcall(pcall, function() OPEN error('e', 0) end)", "true true false 'e'" },
  { "local function f() OPEN return 'r' end return f()", "true 'r'" },
  { "local function f() OPEN return 'r' end return (f())", "true 'r'" },
  {
    "local o = setmetatable({}, { __index = function() OPEN return 'i' end }) return o.x",
    "true 'i'",
  },
  {
    "local o = setmetatable({}, { __add = function() OPEN return 'i' end }) return o + 1",
    "true 'i'",
  },
  {
    "for v in function(_, v) OPEN if not v then return 1 end end do end return 'r'",
    "true 'r'", 2,
  },
}
for _, way in ipairs(ways) do
  for n = 1, 3 do
    for pauses = 0, 2 do
      local log, open, names = t:log(), {}, {}
      for i = 1, n do open[i] = ("local v%d <close> = pausing(%d)"):format(i, i) end
      for turn = 1, way[3] or 1 do for i = n, 1, -1 do names[#names + 1] = i end end
      local env = setmetatable(
        { pausing = function(i) return pausing(log, i, pauses) end },
        { __index = _G }
      )
      local f = assert(load(way[1]:gsub("OPEN", table.concat(open, " ")), "=way", "t", env))
      t:values(n * pauses * (way[3] or 1) .. " " .. way[2], run(f))
      t:equal((log.text():gsub("%(.-%)", "")), table.concat(names, " "), way[1])
    end
  end
end

-- An error in a closing that has yielded replaces the first error, as it does without a yield.
for pauses = 0, 3 do
  local log = t:log()
  local function body()
    local a <close> = pausing(log, "a", pauses)
    local b <close> = pausing(log, "b", pauses, "from b")
    local c <close> = pausing(log, "c", pauses)
    local d <close> = pausing(log, "d", pauses, "from d")
    error("first", 0)
  end
  t:values(4 * pauses .. " true false 'from b'", run(pcall, body))
  log:is "d(first) c(from d) b(from d) a(from b)"
  local function normal()
    local a <close> = pausing(log, "a", pauses, "from a")
    local b <close> = pausing(log, "b", pauses)
    return "lost"
  end
  t:values(2 * pauses .. " true false 'from a'", run(pcall, normal))
  log:is "b a"
end

-- coroutine.close while a closing is suspended in a yield: the other variables are closed, and that
-- closing does not run again.
do
  local log = t:log()
  local co = create(function()
    local a <close> = pausing(log, "a", 0)
    local b <close> = pausing(log, "b", 1)
    local c <close> = pausing(log, "c", 0)
  end)
  t:values("true 'b'", resume(co))
  log:is "c"
  t:values("true", close(co))
  log:is "a"
  t:equal(status(co), "dead")
end

-- A generator's resources are closed when the loop's closing value closes its coroutine.
do
  local log = t:log()
  local function generator(n)
    local co = create(function()
      local held <close> = setmetatable({}, { __close = function() log "released" end })
      for i = 1, n do yield(i) end
    end)
    return function() local _, v = resume(co) return v end, nil, nil,
      setmetatable({}, { __close = function() t:equal((close(co)), true) end })
  end
  for n = 1, 10 do
    for i in generator(10) do if i == n then break end end
    log:is("released", "left after " .. n)
  end
  for _ in generator(3) do end
  log:is "released"
  t:gives("! stop", function() for _ in generator(3) do error("stop", 0) end end)
  log:is "released"
end
