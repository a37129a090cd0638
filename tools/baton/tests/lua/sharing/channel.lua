-- Channels between VMs, within one VM.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

local function waiting(f, ...)
  local p = process.spawn(f, ...)
  check.becomes(p, "waiting")
  return p
end

function case.it_holds_as_many_messages_as_its_capacity()
  local ch = vm.channel(3)
  for i = 1, 3 do check.results("send", { true }, ch:send(i)) end
  check.results("full", { n = 2, nil, "timeout" }, ch:send(4, 0))
  check.equal(#ch, 3)
  for i = 1, 3 do check.results("receive", { i }, ch:receive()) end
  check.results("empty", { n = 2, nil, "timeout" }, ch:receive(0))
  check.results("empty", { n = 2, nil, "timeout" }, ch:receive(0.001))
end

function case.its_capacity_is_64_by_default()
  local ch = vm.channel()
  for i = 1, 64 do check.that(ch:send(i, 0)) end
  check.results("full", { n = 2, nil, "timeout" }, ch:send(65, 0))
end

function case.it_holds_no_more_bytes_than_its_limit_but_one_message_of_any_size()
  local ch = vm.channel(10, { bytes = 1000 })
  check.that(ch:send(("x"):rep(600), 0))
  check.results("second", { n = 2, nil, "timeout" }, ch:send(("x"):rep(600), 0))
  check.that(ch:send(("x"):rep(100), 0))
  check.equal(#ch:receive(), 600)
  check.equal(#ch:receive(), 100)
  check.that(ch:send(("x"):rep(5000), 0), "alone")
  check.results("beside it", { n = 2, nil, "timeout" }, ch:send(1, 0))
  check.equal(#ch:receive(), 5000)
end

function case.a_small_message_does_not_overtake_a_large_one()
  local ch = vm.channel(10, { bytes = 1000 })
  ch:send(("a"):rep(600))
  local large = waiting(function() return ch:send(("b"):rep(600)) end)
  local small = waiting(function() return ch:send "c" end)
  check.equal(ch:receive():sub(1, 1), "a")
  check.equal(ch:receive():sub(1, 1), "b")
  check.equal(ch:receive(), "c")
  check.results("large", { true, true }, large:join())
  check.results("small", { true, true }, small:join())
end

function case.a_large_message_that_gives_up_lets_a_small_one_go()
  local ch = vm.channel(10, { bytes = 1000 })
  ch:send(("a"):rep(600))
  local large = waiting(function() return ch:send(("b"):rep(600)) end)
  local small = waiting(function() return ch:send "c" end)
  large:kill()
  check.results("small", { true, true }, small:join())
  check.equal(#ch, 2)
end

function case.values_are_copied()
  local ch = vm.channel()
  local sent = { list = { 1, 2 }, flag = false }
  sent.itself = sent
  ch:send(sent)
  sent.list[1] = "changed"
  local got = ch:receive()
  check.that(got ~= sent and got.itself == got)
  check.equal(got.list[1], 1)
  check.equal(got.flag, false)
  ch:send(false)
  check.equal(ch:receive(), false)
end

function case.buffered_values_still_arrive_after_close()
  local ch = vm.channel()
  ch:send "a"
  ch:send "b"
  ch:close()
  check.results("send", { n = 2, nil, "closed" }, ch:send(1))
  local got = {}
  for v in ch:values() do got[#got + 1] = v end
  check.list(got, { "a", "b" })
  check.results("receive", { n = 2, nil, "closed" }, ch:receive())
  ch:close()
end

function case.close_wakes_receivers_and_senders()
  local empty, full = vm.channel(1), vm.channel(1)
  full:send(0)
  local receiver = waiting(function() return empty:receive() end)
  local sender = waiting(function() return full:send(1) end)
  empty:close()
  full:close()
  check.results("receiver", { n = 3, true, nil, "closed" }, receiver:join())
  check.results("sender", { n = 3, true, nil, "closed" }, sender:join())
  check.equal(full:receive(), 0)
end

function case.waits_end_in_their_order()
  local ch, log = vm.channel(1), {}
  local receivers = {}
  for i = 1, 5 do
    receivers[i] = waiting(function()
      local got = ch:receive()
      log[#log + 1] = i .. got
    end)
  end
  for i = 1, 5 do ch:send(i) end
  for _, p in ipairs(receivers) do p:join() end
  check.list(log, { "11", "22", "33", "44", "55" })
end

function case.a_killed_receiver_loses_no_value()
  local ch = vm.channel(1)
  local victim = waiting(function() return ch:receive() end)
  local heir = waiting(function() return ch:receive() end)
  process.critical(function()
    ch:send "v" -- it is reserved for the victim
    victim:kill()
  end)
  check.results("heir", { true, "v" }, heir:join())
  check.equal(victim:join(), false)
end

function case.an_interrupted_receiver_loses_no_value()
  local ch = vm.channel(1)
  check.interrupted(function() return ch:receive() end, function() ch:send "v" end)
  check.results("left", { "v" }, ch:receive(0))
end

function case.many_with_timeouts_lose_and_double_nothing()
  local ch, sum, sent = vm.channel(2), 0, 0
  local senders, receivers = {}, {}
  for i = 1, 10 do
    senders[i] = process.spawn(function()
      for n = 1, 100 do
        while not ch:send(n, 0.0001) do end
        sent = sent + n
      end
    end)
    receivers[i] = process.spawn(function()
      while true do
        local n, why = ch:receive(0.0001)
        if n then sum = sum + n elseif why == "closed" then return end
      end
    end)
  end
  for _, p in ipairs(senders) do p:join() end
  ch:close()
  for _, p in ipairs(receivers) do check.equal(p:join(), true) end
  check.equal(sum, sent)
  check.equal(sum, 10 * 5050)
end

function case.a_channel_can_be_sent_through_another_and_through_itself()
  local ch, other = vm.channel(), vm.channel()
  ch:send { reply = other, again = ch }
  local got = ch:receive()
  got.reply:send "answer"
  check.equal(other:receive(), "answer")
  got.again:send "here"
  check.equal(ch:receive(), "here")
end

function case.what_is_in_a_collected_channel_is_freed_with_it()
  local weak = setmetatable({}, { __mode = "v" })
  for _ = 1, 100 do
    local ch = vm.channel()
    ch:send { ("x"):rep(100000), vm.channel() }
    weak[1] = ch
  end
  collectgarbage()
  collectgarbage()
  check.equal(weak[1], nil)
end

function case.its_name_is_in_its_text()
  local ch = vm.channel(1, { name = "jobs" })
  check.matches(tostring(ch), "^baton.vm.channel%*: 0x%x+ %(jobs%)$")
  check.matches(tostring(vm.channel { bytes = 10 }), "^baton.vm.channel%*: 0x%x+$")
end

function case.misuse_raises()
  local ch = vm.channel()
  check.raises("value expected %(nil cannot be sent%)", ch.send, ch)
  check.raises("value expected %(nil cannot be sent%)", ch.send, ch, nil, 1)
  check.raises("cannot send value%.file: userdata FILE%*", ch.send, ch, { file = io.stdout })
  check.raises("number expected, got NaN", ch.send, ch, 1, 0 / 0)
  check.raises("number expected, got NaN", ch.receive, ch, 0 / 0)
  check.raises("channel between VMs expected, got no value", ch.send)
  check.raises("channel between VMs expected, got table", ch.receive, {})
  check.raises("channel between VMs expected, got FILE%*", ch.close, io.stdout)
  check.raises("channel between VMs expected, got baton.channel", ch.values, process.channel())
  check.raises("capacity must be at least 1", vm.channel, 0)
  check.raises("capacity must not be negative", vm.channel, -1)
  check.raises("capacity is too large", vm.channel, math.maxinteger)
  check.raises("number expected, got string", vm.channel, "x")
  check.raises("unknown option 'size'", vm.channel, 1, { size = 3 })
  check.raises("option 'bytes': positive integer expected", vm.channel, { bytes = 0 })
  check.raises("option 'bytes': positive integer expected", vm.channel, { bytes = "many" })
  check.raises("option 'name': string expected, got table", vm.channel, 1, { name = {} })
  check.equal(#ch, 0)
end

function case.a_wait_in_a_critical_section_raises()
  local ch = vm.channel(1)
  process.critical(function()
    check.raises("cannot wait inside process.critical", ch.receive, ch)
    check.that(ch:send(1))
    check.raises("cannot wait inside process.critical", ch.send, ch, 2)
  end)
  check.equal(ch:receive(), 1)
  check.that(ch:send(2, 0), "nothing is reserved")
end

check.run(case)
