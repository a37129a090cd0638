-- Read-write locks and barriers.
local check = require "check"
local process = require "baton.process"
local case = {}

local function waiting(f, ...)
  local p = process.spawn(f, ...)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  return p
end

-- Spawns a process that holds a lock until it is resumed.
local function holding(how, lock)
  local p = process.spawn(function()
    lock[how](lock)
    process.suspend()
    lock:unlock()
  end)
  check.becomes(p, "suspended")
  return p
end

function case.readers_are_inside_together_and_a_writer_alone()
  local l = process.rwlock()
  local a, b = holding("read", l), holding("read", l)
  check.results("read", { true }, l:read(0))
  l:unlock()
  check.results("write", { n = 2, nil, "timeout" }, l:write(0.002))
  a:resume()
  b:resume()
  check.results("write", { true }, l:write())
  local reader = waiting(l.read, l)
  l:unlock()
  check.results("reader", { true, true }, reader:join())
end

function case.a_writer_is_not_starved_by_readers()
  process.params.slice = 0.001
  local l, stop, reads = process.rwlock(), false, 0
  local readers = {}
  for i = 1, 4 do
    readers[i] = process.spawn(function()
      while not stop do
        l:read()
        reads = reads + 1
        process.yield()
        l:unlock()
      end
    end)
  end
  check.eventually("readers read", function() return reads > 100 end)
  for _ = 1, 100 do
    check.results("write", { true }, l:write())
    l:unlock()
  end
  stop = true
  for i = 1, 4 do check.that(readers[i]:join()) end
end

function case.writers_change_the_data_atomically()
  process.params.slice = 0.001
  local l, a, b, all = process.rwlock(), 0, 0, {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      for _ = 1, 50 do
        if i % 4 == 0 then
          l:write()
          a = a + 1
          process.yield()
          b = b + 1
        else
          l:read()
          check.equal(a, b)
          process.yield()
          check.equal(a, b)
        end
        l:unlock()
      end
    end)
  end
  for i = 1, 20 do check.results("process", { true }, all[i]:join()) end
  check.equal(a, 250)
  check.equal(b, 250)
end

function case.misuse_of_a_lock_raises_and_changes_nothing()
  local l = process.rwlock()
  check.raises("not held by this process", function() l:unlock() end)
  l:read()
  check.raises("not recursive", function() l:read() end)
  check.raises("not recursive", function() l:write(0) end)
  local other = process.spawn({ quiet = true }, l.unlock, l)
  check.equal(other:join(), false)
  check.raises("rwlock expected", l.read, process.mutex())
  check.raises("NaN", l.write, l, 0 / 0)
  l:unlock()
  check.results("write", { true }, l:write(0))
  l:unlock()
end

function case.a_writer_that_is_killed_leaves_word_until_the_next_one()
  local l = process.rwlock()
  local w = holding("write", l)
  local r = waiting(l.read, l)
  w:kill()
  check.results("reader", { true, true, "abandoned" }, r:join())
  check.results("write", { true, "abandoned" }, l:write())
  l:unlock()
  check.results("write", { true }, l:write())
  l:unlock()
end

function case.readers_behind_a_writer_that_is_killed_go_in()
  local l = process.rwlock()
  local r = holding("read", l)
  local w = waiting(l.write, l)
  local late = waiting(l.read, l)
  w:kill()
  check.results("late", { true, true }, late:join())
  r:resume()
  check.that(r:join())
end

function case.holders_inherit_the_priority_of_waiters()
  local l, order = process.rwlock(), {}
  check.without_slices()
  local low = holding("read", l)
  low:set_priority(10)
  local spins = true
  local middle = process.spawn({ priority = 50, suspended = true }, function()
    order[#order + 1] = "middle"
    while spins do end
  end)
  local high = process.spawn({ priority = 60 }, function()
    low:resume()
    middle:resume()
    l:write()
    order[#order + 1] = "high"
    l:unlock()
    spins = false
  end)
  check.that(high:join())
  check.that(middle:join())
  check.list(order, { "high", "middle" })
end

function case.an_interrupted_waiter_does_not_keep_the_lock()
  local l = process.rwlock()
  check.interrupted(function() l:write() end, function() l:unlock() end, function() l:read() end)
  check.results("lock", { true }, l:write(0))
end

function case.a_barrier_holds_until_all_have_come()
  local b, log, all = process.barrier(3), {}, {}
  check.without_slices()
  for i = 1, 2 do
    all[i] = waiting(function()
      local results = table.pack(b:wait())
      log[#log + 1] = i
      return table.unpack(results, 1, results.n)
    end)
  end
  check.list(log, {})
  check.results("the last one", { true, "last" }, b:wait())
  for i = 1, 2 do check.results("an earlier one", { true, true }, all[i]:join()) end
  check.list(log, { 1, 2 })
end

function case.a_barrier_is_used_again_and_again()
  process.params.slice = 0.001
  local b, rounds, lasts, all = process.barrier(5), {}, 0, {}
  for i = 1, 5 do
    all[i] = process.spawn(function()
      for round = 1, 100 do
        rounds[i] = round
        local _, last = b:wait()
        if last then lasts = lasts + 1 end
        for j = 1, 5 do check.within(rounds[j], round, round + 1) end
        b:wait()
      end
    end)
  end
  for i = 1, 5 do check.results("process", { true }, all[i]:join()) end
  check.equal(lasts, 100)
end

function case.one_that_gives_up_at_a_barrier_is_not_counted()
  local b = process.barrier(2)
  check.results("too early", { n = 2, nil, "timeout" }, b:wait(0))
  check.results("still too early", { n = 2, nil, "timeout" }, b:wait(0.002))
  local victim = waiting(b.wait, b)
  victim:kill()
  victim:join()
  local p = waiting(b.wait, b)
  check.results("now", { true, "last" }, b:wait())
  check.results("p", { true, true }, p:join())
end

function case.misuse_of_a_barrier_raises()
  for _, wrong in ipairs { 0, -1, 1.5, "x" } do check.raises("", process.barrier, wrong) end
  check.raises("", process.barrier)
  local b = process.barrier(1)
  check.raises("barrier expected", b.wait, process.event())
  check.results("alone", { true, "last" }, b:wait())
end

function case.a_barrier_cannot_be_waited_for_in_a_critical_section()
  local b = process.barrier(2)
  check.raises("cannot wait inside process.critical", process.critical, b.wait, b)
  local p = waiting(b.wait, b)
  check.results("the last one does not wait", { true, "last" }, process.critical(b.wait, b))
  check.that(p:join())
end

check.run(case)
