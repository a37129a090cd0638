-- Preemption has no effect that a program can observe.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Runs f in n processes that preempt each other often. Returns the result of each.
local function crowd(n, f)
  process.params.slice = 0.0005
  local all, results = {}, {}
  for i = 1, n do all[i] = process.spawn(f, i) end
  for i = 1, n do
    local joined = table.pack(all[i]:join())
    check.equal(joined[1], true, joined[2])
    results[i] = joined[2]
  end
  return results
end

-- Spawns a process that keeps preempting the caller, until the returned function is called.
local function disturb()
  process.params.slice = 0.0005
  local busy = process.spawn(function() while true do end end)
  local urgent = process.spawn({ priority = 60 }, function()
    while true do
      process.sleep(0.0002)
    end
  end)
  return function()
    busy:kill() urgent:kill()
    busy:join() urgent:join()
  end
end

function case.recursive_functions_keep_their_frames()
  for _, got in ipairs(crowd(8, function() return check.fib(19) end)) do check.equal(got, 4181) end
end

function case.varargs_keep_their_values()
  local function sum(...)
    local total = 0
    for i = 1, select("#", ...) do total = total + (select(i, ...)) end
    return total
  end
  local function body()
    for n = 1, 300 do
      local list = {}
      for i = 1, n % 50 do list[i] = i end
      check.equal(sum(table.unpack(list)), (n % 50) * (n % 50 + 1) // 2)
    end
    return true
  end
  crowd(8, body)
end

function case.upvalues_stay_with_their_closures()
  local results = crowd(8, function(i)
    local function counter()
      local n = 0
      return function() n = n + i return n end
    end
    local c, d = counter(), counter()
    for _ = 1, 20000 do c() end
    d()
    return c() + d()
  end)
  for i = 1, 8 do check.equal(results[i], 20001 * i + 2 * i) end
end

function case.coroutines_inside_processes_keep_their_place()
  local results = crowd(8, function(i)
    local total = 0
    for _ = 1, 200 do
      for v in
        coroutine.wrap(function()
          for k = 1, 20 do
            coroutine.yield(k * i)
          end
        end)
      do
        total = total + v
      end
    end
    return total
  end)
  for i = 1, 8 do check.equal(results[i], 200 * 210 * i) end
end

function case.sorting_gives_the_right_order()
  crowd(8, function(seed)
    local x = seed
    for _ = 1, 5 do
      local list = {}
      for i = 1, 1000 do
        x = (x * 1103515245 + 12345) % 2147483648
        list[i] = x
      end
      table.sort(list, function(a, b) return a > b end)
      for i = 2, #list do assert(list[i - 1] >= list[i]) end
    end
  end)
end

function case.gsub_with_a_function_gives_the_right_string()
  local text = ("abc "):rep(2000)
  local wanted = ("cba "):rep(2000)
  crowd(8, function()
    for _ = 1, 3 do assert(text:gsub("%a+", function(word) return word:reverse() end) == wanted) end
  end)
end

function case.metamethods_give_the_right_results()
  local Point = {}
  Point.__index = Point
  Point.__add = function(a, b) return setmetatable({ x = a.x + b.x }, Point) end
  Point.__eq = function(a, b) return a.x == b.x end
  Point.__lt = function(a, b) return a.x < b.x end
  Point.__concat = function(a, b) return tostring(a) .. tostring(b) end
  Point.__tostring = function(a) return "p" .. a.x end
  Point.__len = function(a) return a.x end
  Point.__call = function(a, n) return a.x * n end
  local results = crowd(8, function(i)
    local p = setmetatable({ x = 0 }, Point)
    local step = setmetatable({ x = i }, Point)
    for n = 1, 3000 do
      p = p + step
      assert(
        #p == n * i
          and p(2) == 2 * n * i
          and not (p < step) == (n >= 1)
          and p == setmetatable({ x = n * i }, Point)
      )
    end
    return p .. step
  end)
  for i = 1, 8 do check.equal(results[i], "p" .. 3000 * i .. "p" .. i) end
end

function case.errors_and_close_variables_behave_under_preemption()
  local results = crowd(8, function()
    local closed, caught = 0, 0
    for _ = 1, 2000 do
      local ok = pcall(function()
        local a <close> = check.closing(function() closed = closed + 1 end)
        local b <close> = check.closing(function() closed = closed + 1 end)
        error "again"
      end)
      if not ok then caught = caught + 1 end
    end
    return closed * 10000 + caught
  end)
  for i = 1, 8 do check.equal(results[i], 4000 * 10000 + 2000) end
end

function case.deep_stacks_grow_and_shrink_beside_a_collector()
  local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
  local stop = false
  local collector = process.spawn(function()
    while not stop do collectgarbage() process.yield() end
  end)
  crowd(6, function() for _ = 1, 10 do assert(deep(20000) == 20000) end end)
  stop = true
  check.equal(collector:join(), true)
end

function case.the_incremental_and_the_generational_collector_both_work()
  for _, mode in ipairs { "generational", "incremental" } do
    collectgarbage(mode)
    crowd(6, function()
      local kept = {}
      for i = 1, 20000 do kept[i % 100 + 1] = { i, tostring(i) } end
      for i = 1, 100 do assert(tostring(kept[i][1]) == kept[i][2]) end
    end)
  end
end

function case.a_process_without_a_hook_sees_none()
  local still = disturb()
  for _ = 1, 20000 do
    if debug.gethook() ~= nil then error "a hook that nobody set" end
  end
  still()
end

function case.a_hook_and_its_mask_read_back_unchanged()
  local still = disturb()
  local function hook() end
  for _, set in ipairs { { "crl", 0 }, { "l", 0 }, { "", 500 }, { "cr", 1000 } } do
    debug.sethook(hook, set[1], set[2])
    for _ = 1, 5000 do
      local f, mask, count = debug.gethook()
      if f ~= hook or mask ~= set[1] or count ~= set[2] then
        check.equal(tostring(f) .. mask .. count, tostring(hook) .. set[1] .. set[2])
      end
    end
    debug.sethook()
    check.equal(debug.gethook(), nil)
  end
  still()
end

function case.a_line_hook_gets_every_line_once()
  local function work()
    local n = 0
    for i = 1, 30000 do
      n = n + i
      n = n - 1
    end
    return n
  end
  local function lines()
    local seen = {}
    debug.sethook(function(_, line) seen[line] = (seen[line] or 0) + 1 end, "l")
    work()
    debug.sethook()
    return seen
  end
  local alone = lines()
  local still = disturb()
  local disturbed = lines()
  still()
  for line, count in pairs(alone) do check.equal(disturbed[line], count, "line " .. line) end
  for line in pairs(disturbed) do check.that(alone[line], "line " .. line) end
end

function case.a_call_hook_gets_every_call_and_return_once()
  local function count_events()
    local counts = {}
    debug.sethook(function(event) counts[event] = (counts[event] or 0) + 1 end, "cr")
    check.fib(16)
    debug.sethook()
    return counts
  end
  local alone = count_events()
  local still = disturb()
  local disturbed = count_events()
  still()
  for event, count in pairs(alone) do check.equal(disturbed[event], count, event) end
end

function case.a_count_hook_is_called_as_often_as_without_preemption()
  local function count_calls()
    local calls = 0
    debug.sethook(function() calls = calls + 1 end, "", 100)
    local n = 0
    for i = 1, 300000 do n = n + i end
    debug.sethook()
    return calls
  end
  local alone = count_calls()
  local still = disturb()
  local disturbed = count_calls()
  still()
  check.within(disturbed, alone * 0.98, alone * 1.02)
end

function case.a_hook_belongs_to_the_process_that_set_it()
  local owner = process.spawn(function()
    local own, foreign = 0, 0
    local me = process.current()
    debug.sethook(function()
      if process.current() == me then own = own + 1 else foreign = foreign + 1 end
    end, "", 100)
    check.fib(18)
    debug.sethook()
    return own, foreign
  end)
  local other = process.spawn(function()
    check.fib(18)
    return debug.gethook()
  end)
  local _, own, foreign = owner:join()
  check.that(own > 0)
  check.equal(foreign, 0)
  check.results("other", { n = 2, true, nil }, other:join())
end

function case.an_error_from_a_hook_ends_a_loop_as_in_lua()
  local still = disturb()
  local ok, message = pcall(function()
    debug.sethook(function() error("enough", 0) end, "", 100000)
    while true do end
  end)
  debug.sethook()
  still()
  check.equal(ok, false)
  check.equal(message, "enough")
end

function case.tracebacks_and_getinfo_tell_the_truth_under_preemption()
  local still = disturb()
  local function known_name()
    for _ = 1, 3000 do
      local info = debug.getinfo(1, "nSl")
      assert(info.name == "known_name" and info.currentline > 0 and info.what == "Lua")
    end
    return debug.traceback()
  end
  local text = known_name()
  still()
  check.matches(text, "known_name")
  check.that(not text:find "hook", "no trace of preemption")
end

check.run(case)
