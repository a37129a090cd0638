-- p:link and p:monitor: reports of a process's end.
local check = require "check"
local process = require "baton.process"
local case = {}

local function for_ever() process.channel():receive() end
local function quiet(f, ...) return process.spawn({ quiet = true, name = "failing" }, f, ...) end

local function receive_end(channel, p, ended, reason)
  local message = channel:receive()
  check.equal(message.process, p)
  check.equal(message.ended, ended)
  check.equal(message.reason, reason)
end

function case.a_monitor_tells_how_a_process_has_ended()
  local channel, value = process.channel(), {}
  local returning, failing, killed =
    process.spawn(process.sleep, 0.001), quiet(error, value), process.spawn(for_ever)
  for _, p in ipairs { returning, failing, killed } do
    check.results("monitor", { true }, p:monitor(channel))
  end
  killed:kill("by hand")
  local got = {}
  for _ = 1, 3 do
    local message = channel:receive()
    check.equal(message.process:status(), "dead")
    got[message.process] = message
  end
  check.list({ got[returning].ended, tostring(got[returning].reason) }, { "returned", "nil" })
  check.list({ got[failing].ended, got[failing].reason == value }, { "failed", true })
  check.list({ got[killed].ended, got[killed].reason }, { "killed", "by hand" })
end

function case.a_message_comes_also_of_one_that_has_ended()
  local channel = process.channel(3)
  local p, q = process.spawn(function() end), quiet(error, "why", 0)
  p:join()
  q:join()
  check.equal(p:monitor(channel), true)
  check.equal(q:monitor(channel), true)
  receive_end(channel, p, "returned", nil)
  receive_end(channel, q, "failed", "why")
end

function case.a_full_channel_does_not_hold_the_dying_up()
  local full = process.channel(1)
  full:send("first")
  local go = process.event()
  local all = check.spawn_all(100, function() go:wait() end)
  for _, p in ipairs(all) do
    p:monitor(full)
    p:monitor(full) -- the same channel gets one message only
  end
  go:set()
  check.join_all(all)
  check.equal(#full, 101)
  local sender = process.spawn(function() return full:send("last", 60) end)
  check.becomes(sender, "waiting")
  check.equal(full:receive(), "first")
  for _ = 1, 100 do check.equal(full:receive().ended, "returned") end
  check.equal(full:receive(), "last")
  check.equal(#full, 0)
end

function case.a_closed_channel_receives_no_message()
  local channel = process.channel(1)
  local p = process.spawn(process.sleep, 0.001)
  p:monitor(channel)
  channel:close()
  check.results("join", { true, true }, p:join())
  check.results("receive", { nil, "closed" }, channel:receive())
end

function case.a_channel_that_is_collected_is_forgotten()
  local p = process.spawn(for_ever)
  for _ = 1, 1000 do p:monitor(process.channel()) end
  collectgarbage()
  local channel = process.channel()
  p:monitor(channel)
  p:kill()
  receive_end(channel, p, "killed", "killed")
end

function case.a_kill_before_the_start_is_reported_to_monitors()
  local channel = process.channel()
  local p = process.spawn({ suspended = true }, for_ever)
  p:monitor(channel)
  p:kill("unused")
  receive_end(channel, p, "killed", "unused")
  check.results("join", { false, "unused" }, p:join())
end

function case.a_select_takes_messages_too()
  local channel, other = process.channel(), process.channel()
  local p = process.spawn(process.sleep, 0.001)
  p:monitor(channel)
  local i, message = process.select({ other, channel }, 60)
  check.list({ i, message.ended }, { 2, "returned" })
end

function case.the_messages_name_the_owner_of_each_value()
  local channel = process.channel(2)
  local all = check.spawn_all(50, function(i)
    process.sleep(0.0001 * (i % 5))
    if i % 2 == 0 then process.current():kill(i) end
  end)
  local index = {}
  for i, p in ipairs(all) do
    index[p] = i
    p:monitor(channel)
  end
  for _ = 1, 50 do
    local message = channel:receive()
    local i = index[message.process]
    check.equal(message.ended, i % 2 == 0 and "killed" or "returned")
    check.equal(message.reason, i % 2 == 0 and i or nil)
    index[message.process] = nil
  end
  check.equal(next(index), nil)
end

function case.a_linked_process_is_killed_when_the_other_fails()
  local other = process.spawn(for_ever)
  local p = quiet(function()
    check.equal(other:link(), true)
    error("the reason", 0)
  end)
  local ended_well, reason = other:join()
  check.equal(ended_well, false)
  check.matches(reason, "^process %d+ 'failing' failed: the reason$")
  check.results("the first", { false, "the reason" }, p:join())
end

function case.a_link_works_both_ways_and_closes_what_is_open()
  local closed = false
  local one = process.spawn(function()
    local _ <close> = check.closing(function() closed = true end)
    while true do pcall(for_ever) end
  end)
  check.becomes(one, "waiting")
  local go = process.event()
  local other = quiet(function()
    go:wait()
    error({})
  end)
  check.equal(one:link(other), true)
  go:set()
  local ended_well, reason = one:join()
  check.equal(ended_well, false)
  check.matches(reason, "^process %d+ 'failing' failed: %(error object is a table value%)$")
  check.equal(closed, true)
end

function case.a_return_or_a_kill_does_not_kill_linked_processes()
  local survivor = process.spawn(for_ever)
  local returning, killed = process.spawn(function() end), process.spawn(for_ever)
  survivor:link(returning)
  survivor:link(killed)
  returning:join()
  killed:kill()
  killed:join()
  check.equal(survivor:status() ~= "dead", true)
  check.results("join", { nil, "timeout" }, survivor:join(0.01))
  survivor:kill()
end

function case.a_kill_by_a_link_goes_on_to_the_next()
  local chain = {}
  for i = 1, 10 do
    chain[i] = process.spawn(for_ever)
    if i > 1 then chain[i]:link(chain[i - 1]) end
  end
  local p = quiet(function()
    chain[1]:link()
    error("spark", 0)
  end)
  for i = 1, 10 do
    check.matches(select(2, chain[i]:join()), "^process %d+ 'failing' failed: spark$")
  end
  p:join()
end

function case.a_ring_of_links_ends_as_a_whole()
  local ring = {}
  for i = 1, 5 do ring[i] = process.spawn(for_ever) end
  for i = 1, 5 do ring[i]:link(ring[i % 5 + 1]) end
  local p = quiet(function()
    process.current():link(ring[3])
    error("spark", 0)
  end)
  p:join()
  for i = 1, 5 do check.equal((ring[i]:join()), false) end
end

function case.the_dead_cannot_be_linked()
  local dead = process.spawn(function() end)
  dead:join()
  check.results("link", { false, "dead" }, dead:link())
  check.results("link", { false, "dead" }, process.current():link(dead))
end

function case.many_linked_processes_end_together()
  local go = process.event()
  local hub = quiet(function()
    go:wait()
    error("hub", 0)
  end)
  local spokes = {}
  for i = 1, 500 do
    spokes[i] = process.spawn({ quiet = true }, for_ever)
    spokes[i]:link(hub)
  end
  go:set()
  for _, p in ipairs(spokes) do check.equal((p:join()), false) end
  check.results("hub", { false, "hub" }, hub:join())
  check.equal(#process.list(), 1)
end

function case.wrong_arguments_are_refused()
  local p = process.spawn(for_ever)
  check.raises("a process cannot be linked with itself", p.link, p, p)
  check.raises("a process cannot be linked with itself", process.current().link, process.current())
  check.raises("process expected, got table", p.link, p, {})
  check.raises("channel expected, got no value", p.monitor, p)
  check.raises("channel expected, got FILE", p.monitor, p, io.stdout)
  check.raises("a channel of signals receives nothing else", p.monitor, p, process.signals("USR1"))
  p:kill()
end

check.run(case)
