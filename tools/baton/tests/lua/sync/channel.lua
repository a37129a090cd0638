-- Channels.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Spawns f, and returns once it waits.
local function waiting(f, ...)
  local p = process.spawn(f, ...)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  return p
end

function case.a_rendezvous_holds_the_sender_until_the_value_is_taken()
  check.without_slices()
  local ch, log = process.channel(), {}
  local p = process.spawn(function()
    log[#log + 1] = "sending"
    log[#log + 1] = ch:send("v")
  end)
  process.yield()
  process.yield()
  check.list(log, { "sending" })
  check.results("receive", { "v" }, ch:receive())
  p:join()
  check.list(log, { "sending", true })
end

function case.zero_is_a_rendezvous_too()
  local ch = process.channel(0)
  check.results("send", { n = 2, nil, "timeout" }, ch:send(1, 0))
  check.equal(#ch, 0)
end

function case.a_buffered_channel_takes_as_many_as_it_holds()
  local ch = process.channel(3)
  for i = 1, 3 do check.results("send", { true }, ch:send(i)) end
  check.results("full", { n = 2, nil, "timeout" }, ch:send(4, 0))
  check.equal(#ch, 3)
  for i = 1, 3 do check.results("receive", { i }, ch:receive()) end
  check.results("empty", { n = 2, nil, "timeout" }, ch:receive(0))
  check.equal(#ch, 0)
end

function case.a_waiting_sender_moves_up_into_the_buffer_in_order()
  local ch = process.channel(1)
  ch:send(1)
  local p, q = waiting(ch.send, ch, 2), waiting(ch.send, ch, 3)
  for i = 1, 3 do check.equal(ch:receive(), i) end
  check.results("p", { true, true }, p:join())
  check.results("q", { true, true }, q:join())
end

function case.false_and_every_other_value_but_nil_can_be_sent()
  local ch = process.channel(10)
  local values = { false, true, 0, "", {}, print, process.main, 1.5, coroutine.create(print) }
  for i = 1, #values do check.equal(ch:send(values[i]), true) end
  for i = 1, #values do check.results("value " .. i, { values[i] }, ch:receive()) end
end

function case.nil_cannot_be_sent()
  local ch = process.channel(1)
  check.raises("bad argument #1 to '[%w_.:]*send'", function() ch:send(nil) end)
  check.raises("bad argument #1 to '[%w_.:]*send'", function() ch:send() end)
  check.equal(#ch, 0)
end

function case.buffered_values_still_arrive_after_close()
  local ch = process.channel(3)
  ch:send(1)
  ch:send(false)
  ch:close()
  check.equal(#ch, 2)
  check.results("first", { 1 }, ch:receive())
  check.results("second", { false }, ch:receive())
  check.results("then", { n = 2, nil, "closed" }, ch:receive())
  check.results("again", { n = 2, nil, "closed" }, ch:receive(0))
end

function case.nothing_can_be_sent_after_close()
  local ch = process.channel(3)
  ch:close()
  check.results("send", { n = 2, nil, "closed" }, ch:send(1))
  check.results("with timeout", { n = 2, nil, "closed" }, ch:send(1, 0))
  check.equal(#ch, 0)
end

function case.close_wakes_receivers_and_senders()
  local empty, full = process.channel(), process.channel(1)
  full:send("kept")
  local receivers, senders = {}, {}
  for i = 1, 5 do
    receivers[i] = waiting(empty.receive, empty)
    senders[i] = waiting(full.send, full, i)
  end
  empty:close()
  full:close()
  for i = 1, 5 do
    check.results("receiver", { n = 3, true, nil, "closed" }, receivers[i]:join())
    check.results("sender", { n = 3, true, nil, "closed" }, senders[i]:join())
  end
  check.results("buffered", { "kept" }, full:receive())
  check.results("end", { n = 2, nil, "closed" }, full:receive())
end

function case.values_goes_on_until_the_channel_is_closed()
  local ch = process.channel()
  local p = process.spawn(function()
    for i = 1, 100 do ch:send(i) end
    ch:send(false)
    ch:close()
  end)
  local got = {}
  for v in ch:values() do got[#got + 1] = v end
  check.equal(#got, 101)
  check.equal(got[100], 100)
  check.equal(got[101], false)
  p:join()
end

function case.a_receive_that_times_out_takes_nothing_later()
  local ch = process.channel()
  check.results("receive", { n = 2, nil, "timeout" }, ch:receive(0.002))
  local p = waiting(ch.receive, ch)
  ch:send("for p")
  check.results("join", { true, "for p" }, p:join())
end

function case.a_send_that_times_out_is_not_received_later()
  local ch, full = process.channel(), process.channel(1)
  full:send("first")
  check.results("rendezvous", { n = 2, nil, "timeout" }, ch:send("lost", 0.002))
  check.results("full", { n = 2, nil, "timeout" }, full:send("lost", 0.002))
  check.results("receive", { n = 2, nil, "timeout" }, ch:receive(0))
  check.equal(full:receive(), "first")
  check.results("receive", { n = 2, nil, "timeout" }, full:receive(0))
end

function case.a_killed_sender_takes_its_value_with_it()
  local ch = process.channel()
  local p = waiting(ch.send, ch, "dead")
  local q = waiting(ch.send, ch, "alive")
  p:kill()
  p:join()
  check.results("receive", { "alive" }, ch:receive())
  q:join()
end

function case.a_killed_receiver_loses_no_value()
  local ch = process.channel()
  local p = waiting(ch.receive, ch)
  p:kill()
  p:join()
  check.results("send", { n = 2, nil, "timeout" }, ch:send("v", 0))
  local q = waiting(ch.receive, ch)
  check.results("send", { true }, ch:send("v"))
  check.results("join", { true, "v" }, q:join())
end

function case.a_receiver_killed_after_the_hand_over_gives_the_value_back()
  check.without_slices()
  for _, capacity in ipairs { 0, 2 } do
    local ch = process.channel(capacity)
    local killed = waiting(ch.receive, ch)
    for i = 1, capacity + 1 do check.results("send", { true }, ch:send(i)) end
    killed:kill()
    killed:join()
    ch:close()
    for i = 1, capacity + 1 do check.results("receive", { i }, ch:receive(0)) end
    check.results("receive", { n = 2, nil, "closed" }, ch:receive(0))
  end
  local ch = process.channel()
  local killed, other = waiting(ch.receive, ch), waiting(ch.receive, ch)
  check.results("send", { true }, ch:send("v"))
  killed:kill()
  check.results("join", { true, "v" }, other:join())
end

function case.the_more_urgent_receiver_is_served_first()
  local ch, log = process.channel(), {}
  local function receiver(name, priority)
    return waiting(function()
      process.current():set_priority(priority)
      log[ch:receive()] = name
    end)
  end
  local all =
    { receiver("low 1", 30), receiver("high 1", 60), receiver("low 2", 30), receiver("high 2", 60) }
  for i = 1, 4 do ch:send(i) end
  for _, p in ipairs(all) do p:join() end
  check.list(log, { "high 1", "high 2", "low 1", "low 2" })
end

function case.the_more_urgent_sender_is_served_first()
  local ch = process.channel()
  local a = waiting(function() process.current():set_priority(30) ch:send("low") end)
  local b = waiting(function() process.current():set_priority(60) ch:send("high") end)
  check.equal(ch:receive(), "high")
  check.equal(ch:receive(), "low")
  a:join() b:join()
end

function case.one_producer_and_one_consumer_keep_the_order()
  for _, capacity in ipairs { 0, 1, 7 } do
    local ch = process.channel(capacity)
    local p = process.spawn(function()
      for i = 1, 5000 do ch:send(i) end
      ch:close()
    end)
    local expected = 0
    for v in ch:values() do
      expected = expected + 1
      if v ~= expected then check.equal(v, expected) end
    end
    check.equal(expected, 5000)
    p:join()
  end
end

function case.five_thousand_processes_on_one_channel_lose_and_double_nothing()
  local ch, sum, seen = process.channel(), 0, {}
  local all = {}
  for i = 1, 2500 do all[#all + 1] = process.spawn(ch.send, ch, i) end
  for _ = 1, 2500 do
    all[#all + 1] = process.spawn(function()
      local v = ch:receive()
      assert(not seen[v], "doubled")
      seen[v] = true
    end)
  end
  for i = 1, #all do check.equal(all[i]:join(), true) end
  check.equal(#seen, 2500)
end

function case.a_ring_of_processes_passes_a_token_around()
  local n = 100
  local channels, members = {}, {}
  for i = 1, n do channels[i] = process.channel() end
  for i = 1, n do
    members[i] = process.spawn(function()
      for token in channels[i]:values() do
        if token == 0 then break end
        channels[i % n + 1]:send(token - 1)
      end
      channels[i % n + 1]:close()
    end)
  end
  channels[1]:send(10000)
  for i = 1, n do check.equal(members[i]:join(), true) end
end

function case.senders_and_receivers_with_timeouts_never_lose_a_value()
  local ch, sent, received = process.channel(), 0, 0
  local senders, receivers, stop = {}, {}, false
  for i = 1, 20 do
    senders[i] = process.spawn(function()
      local mine = 0
      for _ = 1, 200 do
        if ch:send(1, (i % 3) * 0.0002) then mine = mine + 1 end
      end
      return mine
    end)
    receivers[i] = process.spawn(function()
      local mine = 0
      while not stop do
        if ch:receive((i % 4) * 0.0002) then mine = mine + 1 else process.yield() end
      end
      return mine
    end)
  end
  for i = 1, 20 do sent = sent + select(2, senders[i]:join()) end
  stop = true
  for i = 1, 20 do received = received + select(2, receivers[i]:join()) end
  check.equal(received, sent)
end

check.run(case)
