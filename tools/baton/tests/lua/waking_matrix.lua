-- Wakes a process in all combinations: the priorities of waker and target, which of the two is
-- preemptible, inside a critical section or not, and what the waker does then. In the spirit of
-- Zephyr's tests/kernel/sched/preempt.
local check = require "check"
local process = require "baton.process"
local matrix = {}

local LEVEL = 40 -- the waker's

matrix.LONG = 120 -- seconds, never reached

-- Returns the phase of the waker in which the target runs. That does not depend on whether the
-- target itself is preemptible.
function matrix.wanted(waker_is_preemptible, level, is_locked, act)
  if waker_is_preemptible and level > LEVEL then return is_locked and "leaving" or "waking" end
  if act == "sleep" or act == "yield" and level >= LEVEL then return "acting" end
  return "ended"
end

local acts = {}

function acts.nothing() end

function acts.yield(course)
  local times = course.expected == "acting" and math.huge or 10
  repeat
    process.yield()
    times = times - 1
  until course.ran_in or times == 0
end

function acts.sleep(course)
  repeat process.sleep(0.001) until course.ran_in
end

-- The waker. `course` has its phase, the phase in which the target is expected to run, and
-- `ran_in`, once it has run. If `wake` returns true, it was too late.
function matrix.be_waker(course, is_locked, act, wake)
  local is_late
  course.phase = "waking"
  if is_locked then
    process.critical(function()
      is_late = wake()
      course.phase = "leaving"
    end)
  else
    is_late = wake()
  end
  if is_late then return end
  local limit = process.now() + matrix.LONG
  while course.phase == course.expected and not course.ran_in and process.now() < limit do end
  course.phase = "acting"
  acts[act](course)
  course.phase = "ended"
end

-- Spawns a waker.
function matrix.spawn_waker(is_preemptible, ...)
  return process.spawn({ priority = LEVEL, preemptible = is_preemptible }, matrix.be_waker, ...)
end

-- Runs in the woken process: whether a more urgent process interrupts it. If not, it gives way when
-- it yields.
local function is_interrupted()
  local came = false
  local intruder = process.spawn({ priority = 80 }, function() came = true end)
  local at_once = came
  process.yield()
  check.equal(came, true, "somebody more urgent runs when it yields")
  intruder:join()
  return at_once
end

local kinds = { [true] = "preemptible", [false] = "cooperative" }

local function try(
  way,
  name,
  waker_is_preemptible,
  target_is_preemptible,
  level,
  is_locked,
  act,
  attempt
)
  local what = ("%s, a %s waker, a %s target of level %d, %s, then %s"):format(
    name,
    kinds[waker_is_preemptible],
    kinds[target_is_preemptible],
    level,
    is_locked and "in a section" or "outside",
    act
  )
  local course =
    { phase = "before", expected = matrix.wanted(waker_is_preemptible, level, is_locked, act) }
  local how, was_interrupted, is_late = way(attempt), nil, false
  local target = process.spawn(
    { priority = how.level or level, preemptible = target_is_preemptible, quiet = true },
    function()
      local _ <close> = check.closing(function()
        course.ran_in = course.phase
        was_interrupted = is_interrupted()
      end)
      how.wait()
    end
  )
  if not how.level then
    check.eventually(what .. ": the target waits", function()
      local status = target:status()
      return status == "waiting"
        or status == "sleeping"
        or status == "suspended"
        or how.is_late and status == "dead"
    end)
  end
  local waker = matrix.spawn_waker(waker_is_preemptible, course, is_locked, act, function()
    is_late = how.is_late ~= nil and how.is_late()
    if not is_late then how.wake(target, level) end
    return is_late
  end)
  check.results(what, { true }, waker:join())
  target:join()
  if is_late then
    return try(
      way,
      name,
      waker_is_preemptible,
      target_is_preemptible,
      level,
      is_locked,
      act,
      attempt + 1
    )
  end
  check.equal(course.ran_in, course.expected, what)
  check.equal(was_interrupted, target_is_preemptible, what .. ": the target is interrupted")
end

-- Tries all combinations, with the target woken by `ways[name]`. That is a function of the number
-- of the attempt, from 1, and returns a table. `wait()` is run by the target. `wake(target, level)`
-- is run by the waker; `level` is the target's priority until it is woken, if that differs.
-- `is_late()`, if given, says that the waker did not wake the target in time; then all starts
-- again.
function matrix.try_all(ways, name)
  check.without_slices()
  for _, waker_is_preemptible in ipairs { true, false } do
    for _, target_is_preemptible in ipairs { true, false } do
      for level = LEVEL - 1, LEVEL + 1 do
        for _, is_locked in ipairs { false, true } do
          for _, act in ipairs { "nothing", "yield", "sleep" } do
            try(
              ways[name],
              name,
              waker_is_preemptible,
              target_is_preemptible,
              level,
              is_locked,
              act,
              1
            )
          end
        end
      end
    end
  end
end

return matrix
