-- Endless loops of every kind, beside a process that must run.
local check = require "check"
local process = require "baton.process"
local case = {}

local turns = setmetatable({}, { __index = function() return 0 end })

local function turn(kind) turns[kind] = turns[kind] + 1 end

local indexed = setmetatable({}, { __index = function(_, kind) while true do turn(kind) end end })

local loops = {
  plain = function(kind) while true do turns[kind] = turns[kind] + 1 end end,
  ["repeat"] = function(kind) repeat turns[kind] = turns[kind] + 1 until false end,
  numeric = function(kind) for i = 1, math.maxinteger do turns[kind] = i end end,
  ["goto"] = function(kind) ::again:: turns[kind] = turns[kind] + 1 goto again end,
  calls = function(kind) while true do turn(kind) end end,
  tail = function(kind) local function f() turn(kind) return f() end return f() end,
  pcall = function(kind) while true do pcall(pcall, pcall, turn, kind) end end,
  ["inside pcall"] = function(kind) pcall(function() while true do turn(kind) end end) end,
  sort = function(kind) table.sort({ 3, 1, 2 }, function() while true do turn(kind) end end) end,
  ["many sorts"] = function(kind)
    while true do table.sort({ 5, 3, 1, 4, 2 }, function(a, b) turn(kind) return a < b end) end
  end,
  gsub = function(kind) string.gsub("abc", ".", function() while true do turn(kind) end end) end,
  index = function(kind) return indexed[kind] end,
  arithmetic = function(kind)
    local object = setmetatable({}, { __add = function() turn(kind) return 1 end })
    while true do local _ = object + 1 end
  end,
  coroutine = function(kind) coroutine.wrap(function() while true do turn(kind) end end)() end,
  generators = function(kind)
    while true do
      for _ in
        coroutine.wrap(function()
          for i = 1, 10 do
            coroutine.yield(i)
          end
        end)
      do
        turn(kind)
      end
    end
  end,
  ["for in"] = function(kind) for _ in function() turn(kind) return true end do end end,
  strings = function(kind) while true do turn(kind) local _ = ("x"):rep(100000):upper() end end,
  garbage = function(kind) while true do turn(kind) local _ = { {}, {}, {} } end end,
  concat = function(kind) local s = "" while true do turn(kind) s = (s .. "y"):sub(-100) end end,
  loading = function(kind) while true do turn(kind) load "local a = 1 return a + 1" () end end,
  ["count hook"] = function(kind)
    debug.sethook(function() end, "", 1000)
    while true do turn(kind) end
  end,
  ["line hook"] = function(kind)
    debug.sethook(function() end, "l")
    while true do
      turn(kind)
    end
  end,
  ["call hook"] = function(kind)
    debug.sethook(function() end, "cr")
    while true do turn(kind) end
  end,
  ["inside a hook"] = function(kind)
    debug.sethook(function() while true do turn(kind) end end, "", 1)
    while true do end
  end,
}

-- Runs one loop beside the main process, which must run repeatedly, and then kill the loop.
local function endless(kind)
  local p = process.spawn({ name = kind }, loops[kind], kind)
  check.eventually("it turns", function() return turns[kind] > 0 end)
  for _ = 1, 3 do
    local before = turns[kind]
    check.eventually("it turns on", function() return turns[kind] > before end)
  end
  p:kill()
  check.results("join", { false, "killed" }, p:join())
end

function case.a_plain_loop() endless "plain" end
function case.a_repeat_loop() endless "repeat" end
function case.a_numeric_loop() endless "numeric" end
function case.a_goto_loop() endless "goto" end
function case.a_loop_of_calls() endless "calls" end
function case.a_loop_of_tail_calls() endless "tail" end
function case.a_loop_of_pcalls() endless "pcall" end
function case.a_loop_inside_pcall() endless "inside pcall" end
function case.a_sort_comparator() endless "sort" end
function case.a_loop_of_sorts() endless "many sorts" end
function case.a_gsub_callback() endless "gsub" end
function case.an_index_metamethod() endless "index" end
function case.a_loop_of_metamethods() endless "arithmetic" end
function case.a_coroutine() endless "coroutine" end
function case.a_loop_of_generators() endless "generators" end
function case.a_for_in_loop() endless "for in" end
function case.a_loop_of_long_strings() endless "strings" end
function case.a_loop_of_garbage() endless "garbage" end
function case.a_loop_of_concatenations() endless "concat" end
function case.a_loop_of_loading() endless "loading" end
function case.a_loop_under_a_count_hook() endless "count hook" end
function case.a_loop_under_a_line_hook() endless "line hook" end
function case.a_loop_under_a_call_hook() endless "call hook" end
function case.a_loop_inside_a_hook() endless "inside a hook" end

function case.all_of_them_together_go_on()
  local all, kinds = {}, {}
  process.params.slice = 0.002
  for kind, loop in pairs(loops) do
    kinds[#kinds + 1] = kind
    all[#all + 1] = process.spawn({ name = kind }, loop, kind)
  end
  for _ = 1, 2 do
    local before = {}
    for _, kind in ipairs(kinds) do before[kind] = turns[kind] end
    check.eventually("each goes on", function()
      for _, kind in ipairs(kinds) do
        if turns[kind] <= before[kind] then return false end
      end
      return true
    end)
  end
  for i = 1, #all do all[i]:kill() end
  for i = 1, #all do check.equal(all[i]:join(), false) end
end

function case.one_of_them_ends_the_program_under_all_the_others()
  for kind, loop in pairs(loops) do process.spawn({ name = kind }, loop, kind) end
  process.spawn({ name = "ender" }, function()
    process.sleep(0.02)
    print "passed one_of_them_ends_the_program_under_all_the_others"
    os.exit(0)
  end)
  while true do end
end

function case.an_endless_finalizer()
  local entered, stop, finished = process.event(), false, false
  local p = process.spawn(function()
    setmetatable({}, {
      __gc = function()
        entered:set()
        while not stop do turn "finalizer" end
        finished = true
      end,
    })
    collectgarbage()
  end)
  entered:wait()
  for _ = 1, 3 do
    local before = turns.finalizer
    check.eventually("it turns on", function() return turns.finalizer > before end)
  end
  stop = true
  check.equal(p:join(), true)
  check.equal(finished, true)
end

function case.a_loop_at_depth_190000()
  local stop, deepest = false, process.event()
  local function descend(n)
    if n == 0 then
      deepest:set()
      while not stop do turn "deep" end
      return 0
    end
    return 1 + descend(n - 1)
  end
  local p = process.spawn(descend, 190000)
  deepest:wait()
  for _ = 1, 20 do
    local before = turns.deep
    check.eventually("it turns on", function() return turns.deep > before end)
  end
  stop = true
  check.results("join", { true, 190000 }, p:join())
end

check.run(case)
