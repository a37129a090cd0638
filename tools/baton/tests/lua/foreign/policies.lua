-- Policies of declared modules: which calls overlap, and which wait.
local check = require "check"
local process = require "baton.process"
local latch = require "latch"
local case = {}

local function release(path) check.write_file(path, "x") end

local function waits(p) check.becomes(p, "waiting") end
local function is_out(p) check.becomes(p, "foreign") end
-- Waits until p, the only process in a call, is in its blocking read. So it does not return before
-- that read ends.
local function is_inside(p) check.becomes_stuck(p, "read") end

function case.calls_about_different_objects_overlap()
  process.concurrent("latch", "object")
  local all, paths = {}, {}
  for i = 1, 5 do
    local object, path = latch.new()
    paths[i], all[i] = path, process.spawn(object.wait, object)
  end
  for i = 1, 5 do is_out(all[i]) end
  check.eventually("all are inside", function() return latch.most() == 5 end)
  for i = 1, 5 do release(paths[i]) end
  for i = 1, 5 do check.results("wait", { true, "x" }, all[i]:join()) end
  check.equal(latch.most(), 5)
end

function case.calls_beyond_the_number_of_threads_wait_and_all_run()
  check.without_slices() -- exactly the first two are in calls
  process.concurrent("latch", "object")
  process.params.max_threads = 3
  local all, paths = {}, {}
  for i = 1, 12 do
    local object, path = latch.new()
    paths[i], all[i] = path, process.spawn(object.wait, object)
  end
  is_out(all[1])
  is_out(all[2])
  waits(all[12])
  -- The last one first: each call ends when it is released.
  for i = 12, 1, -1 do release(paths[i]) end
  for i = 1, 12 do check.results("wait", { true, "x" }, all[i]:join()) end
  check.that(process.stats().thread_bound_hits >= 9)
end

function case.a_second_call_about_an_object_waits_for_the_first()
  process.concurrent("latch", "object")
  local object, path = latch.new()
  local first = process.spawn(object.wait, object)
  is_inside(first)
  local second = process.spawn(object.wait, object)
  waits(second)
  release(path)
  check.results("first", { true, "x" }, first:join())
  release(path)
  check.results("second", { true, "x" }, second:join())
  check.equal(latch.most(object), 1)
end

function case.closing_an_object_waits_for_the_call_about_it()
  process.concurrent("latch", "object")
  local object, path = latch.new()
  local reader = process.spawn(object.wait, object)
  is_inside(reader)
  local closer = process.spawn(object.close, object)
  waits(closer)
  release(path)
  check.results("reader", { true, "x" }, reader:join())
  check.results("calls inside when it was closed", { true, 0 }, closer:join())
  check.raises("the latch is closed", object.wait, object)
end

function case.an_upvalue_is_an_object_too()
  process.concurrent("latch", "object")
  local object, path = latch.new()
  local first = process.spawn(object:waiter())
  is_inside(first)
  local closer = process.spawn(object.close, object)
  waits(closer)
  release(path)
  check.results("first", { true, "x" }, first:join())
  check.results("closer", { true, 0 }, closer:join())
end

function case.calls_about_no_object_overlap()
  process.concurrent("latch", "object")
  local one, path = latch.new()
  local other, other_path = latch.new()
  local first = process.spawn(latch.wait_by_number, one:number())
  local second = process.spawn(latch.wait_by_number, other:number())
  is_out(first)
  is_out(second)
  release(path)
  release(other_path)
  check.results("first", { true, "x" }, first:join())
  check.results("second", { true, "x" }, second:join())
end

function case.calls_of_a_concurrent_module_overlap_on_one_object()
  process.concurrent("latch", "concurrent")
  local object, path = latch.new()
  local first, second = process.spawn(object.wait, object), process.spawn(object.wait, object)
  is_out(first)
  is_out(second)
  check.eventually("both are inside", function() return latch.most(object) == 2 end)
  release(path)
  release(path)
  check.results("first", { true, "x" }, first:join())
  check.results("second", { true, "x" }, second:join())
  check.equal(latch.most(object), 2)
end

function case.calls_into_a_serial_module_come_one_at_a_time()
  process.concurrent("latch", "serial")
  local one, path = latch.new()
  local other, other_path = latch.new()
  local first = process.spawn(one.wait, one)
  is_inside(first)
  local second = process.spawn(other.wait, other)
  waits(second)
  release(path)
  check.results("first", { true, "x" }, first:join())
  release(other_path)
  check.results("second", { true, "x" }, second:join())
  check.equal(latch.most(), 1)
end

function case.a_process_that_waits_for_its_turn_can_be_killed()
  process.concurrent("latch", "serial")
  local object, path = latch.new()
  local first = process.spawn(object.wait, object)
  is_inside(first)
  local closed = 0
  local second = process.spawn(function()
    local guard <close> = check.closing(function() closed = closed + 1 end)
    object:wait()
  end)
  waits(second)
  second:kill("no longer wanted")
  check.results("second", { false, "no longer wanted" }, second:join())
  check.equal(closed, 1)
  release(path)
  check.results("first", { true, "x" }, first:join())
end

function case.a_declaration_can_be_taken_back()
  process.concurrent("latch", "concurrent")
  process.concurrent("latch", "exclusive")
  process.params.warn_blocked = 3600
  local object, path = latch.new()
  release(path)
  local ticks = 0
  process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.0005)
      ticks = ticks + 1
    end
  end)
  process.sleep(0.01)
  local before, after
  local p = process.spawn({ priority = 70 }, function()
    before = ticks
    object:wait()
    after = ticks
  end)
  check.that(p:join())
  check.equal(after, before)
end

function case.other_functions_are_not_held_up_by_a_call_that_is_out()
  process.concurrent("latch", "serial")
  local object, path = latch.new()
  local first = process.spawn(object.wait, object)
  is_inside(first)
  for i = 1, 1000 do check.equal(#string.rep("a", i), i) end
  local t = { 3, 1, 2 }
  table.sort(t, function(a, b) return a < b end)
  check.list(t, { 1, 2, 3 })
  release(path)
  check.results("first", { true, "x" }, first:join())
end

function case.references_that_overlapping_calls_make_lead_to_their_values()
  process.concurrent("refers", "concurrent")
  process.params.slice = 0.0001
  process.params.window = 0.00002
  local refers, all = require "refers", {}
  for i = 1, 4 do all[i] = process.spawn(refers.refer, i * 100, 4000) end
  for i = 1, 4 do check.results("wrong references", { true, 0 }, all[i]:join()) end
end

function case.wrong_declarations_are_refused()
  check.raises(
    "bad argument #1 to '[%w.]*concurrent' %(string expected, got no value%)",
    process.concurrent
  )
  check.raises(
    "bad argument #2 to '[%w.]*concurrent' %(string expected, got no value%)",
    process.concurrent,
    "latch"
  )
  check.raises(
    "bad argument #2 to '[%w.]*concurrent' %(invalid option 'sometimes'%)",
    process.concurrent,
    "latch",
    "sometimes"
  )
  check.raises("at most 63 bytes", process.concurrent, ("x"):rep(64), "object")
end

check.run(case)
