-- vm.map and vm.pool.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

local function numbers(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

function case.a_map_gives_the_results_in_order()
  local next_index = 1
  local function powers(n) return n * n, 2 * n end
  for i, square, twice in vm.map(numbers(1000), powers, { workers = 2 }) do
    check.equal(i, next_index)
    check.equal(square, i * i)
    check.equal(twice, 2 * i)
    next_index = next_index + 1
  end
  check.equal(next_index, 1001)
end

function case.an_unordered_map_gives_each_result_once()
  local seen, count = {}, 0
  local options = { workers = 3, chunk = 7, ordered = false }
  for i, twice in vm.map(numbers(500), function(n) return 2 * n end, options) do
    check.equal(seen[i], nil)
    check.equal(twice, 2 * i)
    seen[i], count = true, count + 1
  end
  check.equal(count, 500)
end

function case.an_empty_list_has_no_results()
  for _ in vm.map({}, function() end) do error "there is nothing" end
end

function case.the_function_may_be_a_module()
  local sum = 0
  for _, twice in vm.map(numbers(10), "vms.modules.doubling") do sum = sum + twice end
  check.equal(sum, 110)
end

function case.the_first_error_ends_the_map()
  local why = check.raises("value 50: .*bad value", function()
    for _ in vm.map(numbers(100), function(n)
      if n == 50 then error "bad value" end
      return n
    end, { workers = 2, chunk = 5 }) do end
  end)
  check.matches(why, "in VM 'worker':")
end

function case.values_and_results_that_cannot_be_sent_are_errors()
  check.raises("value 1: cannot send", function()
    for _ in vm.map({ io.stdout }, function() end) do end
  end)
  check.raises("value 1: cannot send", function()
    for _ in vm.map({ 1 }, function() return io.stdout end) do end
  end)
end

function case.a_loop_that_is_left_ends_the_workers()
  for i in vm.map(numbers(100000), function(n) return n end, { workers = 2 }) do
    if i == 3 then break end
  end
  check.eventually("the threads have ended", function() return process.threads() <= 2 end)
end

function case.wrong_arguments_of_a_map_raise()
  check.raises("table expected, got no value", vm.map)
  check.raises("function or name of a module expected, got no value", vm.map, {})
  check.raises("unknown option 'worker'", vm.map, {}, print, { worker = 1 })
  check.raises("option 'workers': positive integer expected", vm.map, {}, print, { workers = 0 })
  check.raises("option 'chunk': integer expected, got number", vm.map, {}, print, { chunk = 1.5 })
end

function case.a_pool_calls_its_members()
  local pool = vm.pool { module = "vms.modules.functions", size = 2 }
  for i = 1, 20 do check.equal(pool:call("double", i), 2 * i) end
  check.raises("has no function", pool.call, pool, "nothing")
  check.equal(pool:call("double", 1), 2)
  check.equal(pool:close(), true)
  check.results("closed", { n = 2, nil, "closed" }, pool:call("double", 1))
end

function case.calls_of_a_pool_run_at_the_same_time_in_different_vms()
  local pool = vm.pool { module = "vms.modules.functions", size = 2 }
  local ids = {}
  process.scope(function(scope)
    for _ = 1, 2 do
      scope:spawn(function()
        local id = pool:call("apply", function()
          local process = require "baton.process"
          process.sleep(0.05)
          return require("baton.vm").current().id
        end)
        ids[id] = true
      end)
    end
  end)
  local count = 0
  for _ in pairs(ids) do count = count + 1 end
  check.equal(count, 2)
  pool:close()
end

function case.a_caller_that_is_killed_with_its_turn_passes_it_on()
  local pool = vm.pool { module = "vms.modules.functions", size = 1 }
  local holder = process.spawn({ quiet = true }, function() pool:call "wait" end)
  check.becomes(holder, "waiting")
  local first = process.spawn({ quiet = true }, function() pool:call("double", 1) end)
  check.becomes(first, "waiting")
  local second = process.spawn(function() return pool:call("double", 2) end)
  check.becomes(second, "waiting")
  holder:kill()
  process.yield() -- the holder ends, and it is the turn of the first one
  first:kill()
  check.results("second", { true, 4 }, second:join(10))
  pool:close(0)
end

function case.a_full_pool_says_so()
  local pool = vm.pool { module = "vms.modules.functions", size = 1, queue = 1 }
  local busy = process.spawn({ quiet = true }, function() pool:call "wait" end)
  check.eventually("it is busy", function() return #pool.free == 0 end)
  local waits = process.spawn({ quiet = true }, function() pool:call "wait" end)
  check.eventually("one waits", function() return pool.waiting == 1 end)
  check.results("full", { n = 2, nil, "full" }, pool:call("double", 1))
  busy:kill()
  waits:kill()
  busy:join()
  waits:join()
  check.equal(pool:call("double", 4), 8)
  pool:close()
end

function case.a_member_that_dies_is_started_again()
  local pool = vm.pool { module = "vms.modules.functions", size = 1 }
  local id = pool:call "id"
  pool.members[1]:kill()
  pool.members[1]:join()
  check.that(pool:call "id" ~= id)
  pool:close()
end

function case.without_restart_a_dead_member_stays_dead()
  local pool = vm.pool { module = "vms.modules.functions", size = 1, restart = false }
  pool.members[1]:kill()
  pool.members[1]:join()
  check.results("dead", { n = 2, nil, "dead" }, pool:call "id")
  pool:close()
end

function case.wrong_arguments_of_a_pool_raise()
  check.raises("table expected, got no value", vm.pool)
  check.raises("option 'module' expected", vm.pool, {})
  check.raises("unknown option 'colour'", vm.pool, { colour = "x" })
  check.raises("option 'queue' must not be negative", vm.pool, { module = "x", queue = -1 })
  local missing = { module = "vms.modules.missing" }
  check.raises("module 'vms.modules.missing' not found", vm.pool, missing)
end

check.run(case)
