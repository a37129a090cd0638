-- process.pool: objects that are lent, and of which a kill loses none.
local check = require "check"
local process = require "baton.process"
local case = {}

-- A pool of numbered tables, and what was done with them.
local function numbered(size, more)
  local log = { made = 0, closed = {} }
  local options = {
    size = size,
    make = function()
      log.made = log.made + 1
      return { number = log.made }
    end,
    close = function(object) log.closed[#log.closed + 1] = object.number end,
  }
  for name, value in pairs(more or {}) do options[name] = value end
  return process.pool(options), log
end

local function number_of(object) return object.number end

local function holder(pool)
  local gate = process.event()
  local p = process.spawn({ quiet = true }, function()
    pool:with(function() gate:wait() end)
  end)
  check.becomes(p, "waiting")
  return p, gate
end

function case.an_object_is_used_again()
  local pool, log = numbered(2)
  check.equal(pool:with(number_of), 1)
  check.equal(pool:with(number_of), 1)
  check.equal(log.made, 1)
  check.results("results", { n = 3, 1, nil, 3 }, pool:with(function() return 1, nil, 3 end))
end

function case.there_are_no_more_than_the_size()
  local pool, log = numbered(2)
  local most, now, all = 0, 0, {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      pool:with(function()
        now = now + 1
        most = math.max(most, now)
        process.sleep(0.001)
        now = now - 1
      end)
    end)
  end
  for _, p in ipairs(all) do check.that((p:join())) end
  check.equal(most, 2)
  check.equal(log.made, 2)
end

function case.those_who_wait_get_their_turns_in_order()
  local pool = numbered(1)
  local p, gate = holder(pool)
  local order, all = {}, {}
  for i = 1, 5 do
    all[i] = process.spawn(function() pool:with(function() order[#order + 1] = i end) end)
    check.becomes(all[i], "waiting")
  end
  check.equal(pool:stats().waiting, 5)
  gate:set()
  p:join()
  for _, one in ipairs(all) do one:join() end
  check.list(order, { 1, 2, 3, 4, 5 })
end

function case.a_wait_has_a_timeout()
  local pool = numbered(1)
  local p, gate = holder(pool)
  check.results("timeout", { nil, "timeout" }, pool:with(number_of, 0.01))
  check.results("timeout", { nil, "timeout" }, pool:take(0))
  check.equal(pool:stats().waiting, 0)
  gate:set()
  p:join()
  check.equal(pool:with(number_of, 0), 1)
end

function case.a_loan_is_given_back_by_its_variable_or_by_hand()
  local pool, log = numbered(2)
  do
    local loan <close> = pool:take()
    check.equal(loan.object.number, 1)
    check.equal(pool:stats().lent, 1)
  end
  check.equal(pool:stats().lent, 0)
  local loan = pool:take()
  check.that(loan:give_back())
  check.equal(loan:give_back(), false)
  check.equal(loan.object, nil)
  check.equal(pool:stats().idle, 1)
  check.equal(log.made, 1)
end

function case.a_loan_of_a_process_that_has_ended_is_taken_back()
  local pool, log = numbered(1)
  local p = process.spawn(function() pool:take() end)
  p:join()
  check.equal(pool:with(number_of, 1), 2)
  check.list(log.closed, { 1 })
  -- Also while somebody waits for it.
  p = process.spawn(function()
    pool:take()
    process.sleep(0.02)
  end)
  check.becomes(p, "sleeping")
  check.equal(pool:with(number_of, 5), 3)
  check.equal(pool:stats().lent, 0)
end

function case.an_object_of_a_failure_or_a_kill_is_made_anew()
  local pool, log = numbered(1)
  check.raises("broken", function() pool:with(function() error "broken" end) end)
  check.list(log.closed, { 1 })
  check.equal(pool:with(number_of), 2)
  local p = holder(pool)
  p:kill()
  p:join()
  check.equal(pool:with(number_of), 3)
  local loan = pool:take()
  check.that(loan:discard())
  check.equal(pool:with(number_of), 4)
  check.equal(pool:stats().discarded, 3)
end

function case.what_check_refuses_is_made_anew()
  local refuses = {}
  local pool, log = numbered(2, { check = function(object) return not refuses[object.number] end })
  pcall(pool.with, pool, error)
  check.equal(pool:with(number_of), 1, "the check accepts it")
  refuses[1] = true
  check.equal(pool:with(number_of), 2)
  check.list(log.closed, { 1 })
  check.equal(log.made, 2)
end

function case.what_a_check_cannot_check_is_made_anew()
  local fails = false
  local function check_it() return fails and error "no answer" or true end
  local pool, log = numbered(2, { check = check_it })
  check.equal(pool:with(number_of), 1)
  fails = true
  check.equal(pool:with(number_of), 2)
  check.list(log.closed, { 1 })
end

function case.a_failing_close_of_what_the_dead_had_is_only_reported()
  local pool = numbered(1, { close = function() error "cannot close" end })
  process.spawn(function() pool:take() end):join()
  local stderr, said = io.stderr, ""
  io.stderr = { write = function(_, ...) said = said .. table.concat { ... } end }
  check.equal(pool:with(number_of), 2)
  io.stderr = stderr
  check.matches(said, "process.pool: cannot close: .*cannot close")
end

function case.a_closed_coroutine_leaves_its_object_in_doubt()
  local pool, log = numbered(1)
  local co = coroutine.create(function() pool:with(coroutine.yield) end)
  coroutine.resume(co)
  coroutine.close(co)
  check.equal(pool:with(number_of), 2)
  check.list(log.closed, { 1 })
end

function case.closing_closes_all_and_raises_the_first_error()
  local closed = 0
  local pool = numbered(3, {
    close = function(object)
      closed = closed + 1
      error("cannot close " .. object.number, 0)
    end,
  })
  local loans = {}
  for i = 1, 3 do loans[i] = pool:take() end
  for i = 1, 3 do loans[i]:give_back() end
  check.raises("cannot close", pool.close, pool)
  check.equal(closed, 3)
end

function case.a_closed_pool_takes_back_what_the_dead_had()
  local pool, log = numbered(2)
  local gate = process.event()
  process.spawn(function() pool:take() end):join()
  local p = process.spawn(function()
    pool:take()
    gate:wait()
  end)
  check.becomes(p, "waiting")
  pool:close()
  check.list(log.closed, { 1 })
  gate:set()
  p:join()
  check.eventually("it is closed, too", function() return log.closed[2] == 2 end)
end

function case.a_failed_making_gives_the_slot_back()
  local answers = { { nil, "no room" }, { nil }, { error = "refused" } }
  local pool = process.pool {
    size = 1,
    make = function()
      local answer = table.remove(answers, 1)
      if not answer then return "object" end
      if answer.error then error(answer.error) end
      return answer[1], answer[2]
    end,
  }
  check.results("why", { nil, "no room" }, pool:with(number_of))
  check.results("why", { nil, "nothing was made" }, pool:take())
  check.raises("refused", function() pool:with(number_of) end)
  check.equal(pool:with(function(object) return object end), "object")
  check.equal(pool:stats().made, 1)
end

function case.a_kill_during_a_making_loses_nothing()
  local gate, open = process.event(), 0
  local pool = process.pool {
    size = 1,
    make = function()
      gate:wait()
      open = open + 1
      return {}
    end,
    close = function() open = open - 1 end,
  }
  local p = process.spawn({ quiet = true }, function() pool:with(print) end)
  check.becomes(p, "waiting")
  p:kill()
  check.results("it is shielded", { nil, "timeout" }, p:join(0.02))
  gate:set()
  p:join()
  check.equal(open, 0)
  check.equal(pool:stats().lent, 0)
  check.equal(pool:with(function() return open end), 1)
end

function case.a_failing_close_gives_the_slot_back()
  local pool = numbered(1, { close = function() error "cannot close" end })
  check.raises("cannot close", function()
    local loan = pool:take()
    loan:discard()
  end)
  check.equal(pool:with(number_of), 2)
end

function case.a_closed_pool_lends_nothing()
  local pool, log = numbered(2)
  local p, gate = holder(pool)
  pool:with(number_of)
  local all = {}
  local q, second = holder(pool)
  for i = 1, 3 do
    all[i] = process.spawn(pool.with, pool, number_of)
    check.becomes(all[i], "waiting")
  end
  pool:close()
  for i = 1, 3 do check.results("closed", { true, nil, "closed" }, all[i]:join()) end
  check.results("closed", { nil, "closed" }, pool:take())
  gate:set()
  second:set()
  p:join()
  q:join()
  table.sort(log.closed)
  check.list(log.closed, { 1, 2 })
  pool:close()
end

function case.wrong_arguments_are_refused()
  local make = function() end
  check.raises("table expected, got nil", process.pool)
  check.raises("option 'make': function expected, got nil", process.pool, { size = 1 })
  check.raises("option 'check': function expected, got number", process.pool,
    { size = 1, make = make, check = 1 })
  check.raises("option 'size': whole number of at least 1 expected, got 0", process.pool,
    { size = 0, make = make })
  check.raises("option 'size': whole number of at least 1 expected, got nil", process.pool,
    { make = make })
  check.raises("unknown option 'max'", process.pool, { size = 1, make = make, max = 1 })
  local pool = process.pool { size = 1, make = make }
  check.raises("function expected, got nil", pool.with, pool)
  check.raises("pool expected, got table", pool.take, {})
  check.raises("number expected, got string", pool.with, pool, make, "soon")
  check.raises("number expected, got NaN", pool.take, pool, 0 / 0)
  check.raises("loan expected, got nil", process.pool { size = 1, make = function() return 1 end }
    :take().give_back)
end

check.run(case)
