-- Blocking calls of Lua's own library, beside a process that must keep running.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Spawns a ticking process. ticks() returns the number of ticks.
local function ticker()
  local n = 0
  local p = process.spawn({ daemon = true, name = "ticker" }, function()
    while true do
      process.sleep(0.001)
      n = n + 1
    end
  end)
  return function() return n end, p
end

-- Waits until the ticker has made so many more ticks while p lives.
local function ticks_beside(p, ticks, wanted)
  local before = ticks()
  check.eventually("ticks", function() return ticks() >= before + wanted end)
  check.that(p:status() ~= "dead", "the blocking call still goes on")
end

-- A command that runs until the file of that path exists.
local function awaiting(path) return ("until [ -e '%s' ]; do sleep 0.02; done"):format(path) end

-- Waits until all processes wait for external events, and then causes these events.
local function end_when_waiting(all, path)
  check.eventually(
    "all wait at the same time",
    function() return process.stats().descriptor_waits >= #all end
  )
  for i = 1, #all do check.becomes(all[i], "waiting") end
  check.write_file(path, "")
end

function case.ten_commands_that_wait_overlap()
  local path, all = check.scratch "go", {}
  for i = 1, 10 do all[i] = process.spawn(os.execute, awaiting(path)) end
  end_when_waiting(all, path)
  for i = 1, 10 do check.results("execute", { true, true, "exit", 0 }, all[i]:join()) end
end

function case.ten_pipes_that_wait_overlap()
  local path, all = check.scratch "go", {}
  for i = 1, 10 do
    all[i] = process.spawn(function()
      local pipe <close> = assert(io.popen(awaiting(path) .. "; echo " .. i))
      return pipe:read "n"
    end)
  end
  end_when_waiting(all, path)
  for i = 1, 10 do check.results("popen", { true, i }, all[i]:join()) end
end

function case.a_command_does_not_stop_a_ticker()
  local path = check.fifo()
  local ticks = ticker()
  local p = process.spawn(os.execute, "cat '" .. path .. "' >/dev/null")
  ticks_beside(p, ticks, 20)
  check.write_file(path, "end")
  check.results("join", { true, true, "exit", 0 }, p:join())
end

function case.the_main_process_may_block_too()
  local ticks, path = ticker(), check.scratch "go"
  process.spawn(function()
    repeat process.sleep(0.001) until ticks() >= 3
    check.write_file(path, "")
  end)
  check.results("os.execute in main", { true, "exit", 0 }, os.execute(awaiting(path)))
  check.that(ticks() >= 3)
end

function case.os_execute_reports_as_in_lua()
  local p = process.spawn(function()
    check.results("exit", { n = 3, nil, "exit", 3 }, os.execute "exit 3")
    check.results("signal", { n = 3, nil, "signal", 9 }, os.execute "kill -9 $$")
    check.results("shell", { true }, os.execute())
    check.results("true", { true, "exit", 0 }, os.execute "true")
  end)
  check.equal(p:join(), true)
end

function case.popen_reports_as_in_lua()
  local p = process.spawn(function()
    local pipe = io.popen "echo one; echo two; exit 5"
    check.equal(pipe:read "l", "one")
    check.equal(pipe:read "a", "two\n")
    check.results("close", { n = 3, nil, "exit", 5 }, pipe:close())
    local out = check.scratch()
    local writer = io.popen("cat > '" .. out .. "'", "w")
    writer:write("written ", 42)
    check.results("close", { true, "exit", 0 }, writer:close())
    check.equal(check.read_file(out), "written 42")
  end)
  check.results("join", { true }, p:join())
end

function case.a_read_from_a_fifo_that_nobody_writes_does_not_stop_a_ticker()
  local path = check.fifo()
  local ticks = ticker()
  local p = process.spawn(function()
    local file <close> = assert(io.open(path))
    return file:read "l"
  end)
  ticks_beside(p, ticks, 20)
  local writer = assert(io.open(path, "w"))
  ticks_beside(p, ticks, 20)
  writer:write "finally\n"
  writer:close()
  check.results("join", { true, "finally" }, p:join())
end

function case.a_pattern_match_that_lasts_does_not_stop_a_ticker()
  local ticks = ticker()
  local p = process.spawn({ daemon = true }, check.endless_match)
  ticks_beside(p, ticks, 100)
  check.becomes(p, "foreign")
end

function case.two_long_matches_and_a_sleep_all_go_on()
  local ticks = ticker()
  local p = process.spawn({ daemon = true }, check.endless_match)
  local q = process.spawn({ daemon = true }, check.endless_match)
  ticks_beside(p, ticks, 50)
  ticks_beside(q, ticks, 50)
end

-- Pattern matching that takes about a tenth of a second, with a known result.
local function long_match() return string.find(("a"):rep(34), ("a-"):rep(6) .. "b") end

function case.long_matches_give_the_right_answers()
  ticker()
  local all = {}
  for i = 1, 4 do all[i] = process.spawn(long_match) end
  for i = 1, 4 do check.results("no match", { n = 2, true, nil }, all[i]:join()) end
end

function case.busy_lua_and_long_matches_share_the_program()
  local n = 0
  local busy = process.spawn(function() while true do n = n + 1 end end)
  local p = process.spawn({ daemon = true }, check.endless_match)
  for _ = 1, 5 do
    local before = n
    check.eventually("the loop goes on", function() return n > before end)
  end
  check.equal(p:status() ~= "dead", true)
  busy:kill()
  busy:join()
end

function case.forty_processes_read_forty_pipes()
  local all = {}
  for i = 1, 40 do
    all[i] = process.spawn(function()
      local sum = 0
      for line in io.popen("sleep 0.05; seq " .. i):lines() do sum = sum + tonumber(line) end
      return sum
    end)
  end
  for i = 1, 40 do check.results("sum", { true, i * (i + 1) // 2 }, all[i]:join()) end
end

function case.a_string_that_takes_long_to_build_does_not_stop_a_ticker()
  local ticks, stop = ticker(), false
  local p = process.spawn(function()
    while not stop do
      local s = ("x"):rep(20000000)
      s = s:reverse():upper()
    end
  end)
  ticks_beside(p, ticks, 30)
  stop = true
  p:join()
end

function case.the_limit_of_threads_holds_and_all_calls_run()
  process.params.max_threads = 4
  local path, all = check.fifo(), {}
  for i = 1, 12 do
    all[i] = process.spawn(function()
      local file <close> = assert(io.open(path))
      return file:read "a"
    end)
  end
  check.eventually("some are inside", function() return all[1]:status() == "foreign" end)
  process.sleep(0.05)
  check.within(process.threads(), 1, 4 + 5) -- five more for calls that were expected to be short
  local writer = assert(io.open(path, "w"))
  process.sleep(0.02)
  check.within(process.threads(), 1, 4 + 5)
  writer:close()
  local done = 0
  while done < 12 do
    -- A reader that opens the pipe late finds no writer: open one for it.
    for i = 1, 12 do
      if all[i]:join(0.002) then done = done + 1 all[i] = { join = function() return nil end } end
    end
    if done < 12 then
      local again = io.open(path, "r+")
      process.sleep(0.002)
      again:close()
    end
  end
end

function case.native_threads_are_counted()
  local before, path, all = process.threads(), check.fifo(), {}
  for i = 1, 3 do all[i] = process.spawn(function() local f <close> = io.open(path) end) end
  check.eventually("more threads", function() return process.threads() > before end)
  -- stays open until all have opened it
  local writer <close> = io.open(path, "w")
  for i = 1, 3 do check.equal(all[i]:join(), true) end
end

check.run(case)
