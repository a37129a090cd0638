-- Random trees of supervisors whose leaves end randomly, and a model in which time is a number. The
-- program must make the same starts at the same times as the model, and end in the same way. For
-- simulated runs: the seed is that of the run.
local process = require "baton.process"

local TOLERANCE = 1 -- seconds, since computing takes virtual time as well
local LAST = 1e9 -- end of the model: a process alive then never ends

-- {======================================================
-- Trees
-- ======================================================

local leaves

local function chance(p) return math.random() < p end
local function pick(...) return (select(math.random(select("#", ...)), ...)) end

-- The ends of a leaf's incarnations, in order. The incarnation after the last one never ends.
local function random_script()
  local script = {}
  for i = 1, math.random(0, 6) do
    script[i] =
      { after = 1000 + math.random() * 90000, how = pick("return", "fail", "fail", "kill") }
  end
  if chance(0.4) then
    script[#script + 1] = { after = 1000 + math.random() * 90000, how = "return" }
  end
  return script
end

local function random_node(depth)
  local node = { restart = pick("always", "failed", "failed", "never") }
  if depth == 0 or chance(0.6) then
    leaves = leaves + 1
    node.leaf, node.script = leaves, random_script()
  else
    node.children = {}
    for i = 1, math.random(1, 4) do node.children[i] = random_node(depth - 1) end
    node.options = {
      strategy = pick("one", "all", "rest"),
      max = math.random(0, 4),
      within = 5000 + math.random() * 90000,
      backoff = chance(0.4) and { 10 + math.random() * 20000, 20010 + math.random() * 60000 }
        or nil,
    }
  end
  return node
end

-- }======================================================

-- {======================================================
-- The model
-- ======================================================

local function model_of(root)
  local log, events, now, order, is_close = {}, {}, 0, 0, false

  local function note(text) log[#log + 1] = { time = now, text = text } end

  local function schedule(at, f)
    order = order + 1
    local event = { at = at, order = order, f = f }
    events[#events + 1] = event
    return event
  end

  local start, stop

  -- A running node has `instance`; `tell(how)` reports its end to its parent's instance.
  local function leaf_instance(node, tell)
    node.number = (node.number or 0) + 1
    note(("start %d.%d"):format(node.leaf, node.number))
    local step, instance = node.script[node.number], {}
    if step then
      instance.event = schedule(now + step.after, function()
        note(("%s %d.%d"):format(step.how, node.leaf, node.number))
        tell(({ ["return"] = "returned", fail = "failed", kill = "killed" })[step.how])
      end)
    end
    function instance.stop()
      if instance.event then instance.event.cancelled = true end
      note(("stop %d.%d"):format(node.leaf, node.number))
    end
    return instance
  end

  local function supervisor_instance(node, tell)
    local options, self = node.options, { times = {} }
    local states = {} -- by child: running, waiting, ended

    local function stop_all()
      for i = #node.children, 1, -1 do
        local state = states[i]
        if state.is == "running" then state.instance.stop() end
        if state.event then state.event.cancelled = true end
        state.is, state.event = "ended", nil
      end
    end

    local function look()
      for _, state in ipairs(states) do
        if state.is ~= "ended" then return end
      end
      tell "returned"
    end

    local on_end

    local function begin(i)
      local state = states[i]
      state.is, state.started, state.event = "running", now, nil
      state.instance = start(node.children[i], function(how) on_end(i, how) end)
    end

    local function wait_until(i, at)
      local state = states[i]
      if state.event then state.event.cancelled = true end
      state.is, state.due = "waiting", at
      state.event = schedule(at, function() begin(i) end)
    end

    function on_end(i, how)
      local child, state = node.children[i], states[i]
      state.is = "ended"
      if not (child.restart == "always" or child.restart == "failed" and how == "failed") then
        return look()
      end
      local recent = {}
      for _, time in ipairs(self.times) do
        if math.abs(now - options.within - time) < 10 * TOLERANCE then is_close = true end
        if time >= now - options.within then recent[#recent + 1] = time end
      end
      recent[#recent + 1] = now
      self.times = recent
      if #recent > options.max then
        stop_all()
        return tell "failed"
      end
      local delay = 0
      if options.backoff then
        if math.abs(now - state.started - options.within) < 10 * TOLERANCE then is_close = true end
        if now - state.started >= options.within then state.in_a_row = 0 end
        state.in_a_row = (state.in_a_row or 0) + 1
        delay = math.min(options.backoff[1] * 2.0 ^ (state.in_a_row - 1), options.backoff[2])
      end
      local due = now + delay
      local first = options.strategy == "all" and 1
        or options.strategy == "rest" and i + 1
        or math.huge
      for k = #node.children, 1, -1 do
        local other = states[k]
        if k >= first and k ~= i then
          if other.is == "running" then
            other.instance.stop()
            other.is = "ended"
            if node.children[k].restart ~= "never" then
              other.is, other.due = "waiting", due
            end
          elseif other.is == "waiting" then
            other.due = math.max(other.due, due)
          end
        end
      end
      state.is, state.due = "waiting", due
      for k, other in ipairs(states) do
        if other.is == "waiting" then wait_until(k, other.due) end
      end
      look()
    end

    for i in ipairs(node.children) do states[i] = { is = "waiting" } end
    for i in ipairs(node.children) do begin(i) end
    function self.stop() stop_all() end
    return self
  end

  function start(node, tell)
    return (node.leaf and leaf_instance or supervisor_instance)(node, tell)
  end

  local outcome
  start(root, function(how) outcome = how end)
  local previous
  while true do
    table.sort(events, function(a, b)
      if a.at ~= b.at then return a.at < b.at end
      return a.order < b.order
    end)
    local event = table.remove(events, 1)
    if not event then break end
    if not event.cancelled then
      if previous and event.at ~= previous and event.at - previous < 10 * TOLERANCE then
        is_close = true
      end
      now, previous = event.at, event.at
      event.f()
    end
  end
  return log, outcome, is_close
end

-- }======================================================

-- {======================================================
-- The program
-- ======================================================

local function reset(node)
  node.number = nil
  for _, child in ipairs(node.children or {}) do reset(child) end
end

local function program_of(root, last)
  local log, began = {}, process.now()
  local function note(text)
    process.critical(function() log[#log + 1] = { time = process.now() - began, text = text } end)
  end

  local function body(node)
    node.number = (node.number or 0) + 1
    local number = node.number
    note(("start %d.%d"):format(node.leaf, number))
    local is_over = false
    local _ <close> = setmetatable({}, { __close = function()
      if not is_over then note(("stop %d.%d"):format(node.leaf, number)) end
    end })
    local step = node.script[number]
    if not step then process.sleep(math.huge) end
    process.sleep(step.after)
    is_over = true
    note(("%s %d.%d"):format(step.how, node.leaf, number))
    if step.how == "fail" then error("a leaf fails", 0) end
    if step.how == "kill" then process.current():kill "a leaf is killed" end
  end

  local function describe(node)
    if node.leaf then return { start = { body, node }, restart = node.restart } end
    local children = {}
    for i, child in ipairs(node.children) do children[i] = describe(child) end
    local options = { quiet = true }
    for name, value in pairs(node.options) do options[name] = value end
    return { children = children, options = options, restart = node.restart }
  end

  local description = describe(root)
  local s = process.supervise(description.children, description.options)
  local ended_well, why = s:join(last + 1000)
  local outcome = ended_well and "returned" or ended_well == false and "failed" or nil
  local before_the_end = #log
  s:kill()
  s:join()
  assert(#process.list() == 1, "processes are left over")
  if ended_well == false then
    assert(why == "a leaf fails" or tostring(why):find "too often", why)
  end
  return log, outcome, before_the_end
end

-- }======================================================

-- Sorts the notes of one moment, since processes of the same moment run in random order.
local function sorted(log, count)
  local list = {}
  for i = 1, count do list[i] = log[i] end
  local i = 1
  while i <= #list do
    local k = i
    while list[k + 1] and list[k + 1].time - list[k].time < TOLERANCE do k = k + 1 end
    local texts = {}
    for n = i, k do texts[#texts + 1] = list[n].text end
    table.sort(texts)
    for n = i, k do list[n] = { time = list[i].time, text = texts[n - i + 1] } end
    i = k + 1
  end
  return list
end

leaves = 0
local root
repeat
  leaves = 0
  root = random_node(3)
until root.children

local wanted, outcome, is_close = model_of(root)
if is_close then
  print "two things come at about the same time"
  return
end
reset(root)
local last = #wanted > 0 and wanted[#wanted].time or 0
local got, got_outcome, count = program_of(root, last)
assert(got_outcome == outcome, ("%s expected, got %s"):format(outcome, got_outcome))
wanted, got = sorted(wanted, #wanted), sorted(got, count)
for i = 1, math.max(#wanted, #got) do
  local one, other =
    wanted[i] or { time = 0, text = "nothing" }, got[i] or { time = 0, text = "nothing" }
  if one.text ~= other.text or math.abs(one.time - other.time) > 10 * TOLERANCE then
    error(
      ("note %d: %s at %.1f expected, got %s at %.1f"):format(
        i,
        one.text,
        one.time,
        other.text,
        other.time
      )
    )
  end
end
print("as the model:", outcome, #got)
