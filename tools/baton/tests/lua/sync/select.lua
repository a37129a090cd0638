-- process.select.
local check = require "check"
local process = require "baton.process"
local case = {}

function case.a_ready_receive_is_taken()
  local a, b = process.channel(1), process.channel(1)
  b:send("value")
  check.results("select", { 2, "value" }, process.select { a, b })
  check.equal(#b, 0)
end

function case.a_ready_send_is_made()
  local a, b = process.channel(), process.channel(1)
  check.results("select", { 2, true }, process.select { a, { b, "sent" } })
  check.equal(b:receive(0), "sent")
end

function case.false_is_received_and_sent()
  local ch = process.channel(1)
  check.results("send", { 1, true }, process.select { { ch, false } })
  check.results("receive", { 1, false }, process.select { ch })
end

function case.a_closed_channel_is_ready_for_send_and_receive()
  local ch = process.channel()
  ch:close()
  check.results("receive", { n = 3, 2, nil, "closed" }, process.select { process.channel(), ch })
  check.results("send", { n = 3, 1, nil, "closed" }, process.select { { ch, 1 } })
end

function case.buffered_data_is_received_before_closed()
  local ch = process.channel(1)
  ch:send("last")
  ch:close()
  check.results("first", { 1, "last" }, process.select { ch })
  check.results("then", { n = 3, 1, nil, "closed" }, process.select { ch })
end

function case.timeouts_are_reported()
  local a, full = process.channel(), process.channel(1)
  full:send(1)
  for _, timeout in ipairs { 0, -1, 0.003 } do
    check.results(
      "timeout " .. timeout,
      { n = 2, nil, "timeout" },
      process.select({ a, { full, 2 }, { a, 3 } }, timeout)
    )
  end
  check.equal(#full, 1)
  check.results("nothing left behind", { n = 2, nil, "timeout" }, a:receive(0))
end

function case.a_waiting_select_is_woken_by_a_sender()
  local a, b = process.channel(), process.channel()
  local p = process.spawn(function() return process.select { a, b } end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  check.results("send", { true }, b:send("hello"))
  check.results("join", { true, 2, "hello" }, p:join())
  check.results("a is free", { n = 2, nil, "timeout" }, a:send(1, 0))
end

function case.a_waiting_select_is_woken_by_a_receiver()
  local a, b = process.channel(), process.channel()
  local p = process.spawn(function() return process.select { { a, "to a" }, { b, "to b" } } end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  check.results("receive", { "to b" }, b:receive())
  check.results("join", { true, 2, true }, p:join())
  check.results("a has nothing", { n = 2, nil, "timeout" }, a:receive(0))
end

function case.a_waiting_select_is_woken_by_close()
  local a, b = process.channel(), process.channel()
  local p = process.spawn(function() return process.select { a, { b, 1 } } end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  b:close()
  check.results("join", { n = 4, true, 2, nil, "closed" }, p:join())
end

function case.two_selects_meet()
  local a, b = process.channel(), process.channel()
  local p = process.spawn(function() return process.select { { a, "x" } } end)
  local q = process.spawn(function() return process.select { b, a } end)
  check.results("sender", { true, 1, true }, p:join())
  check.results("receiver", { true, 2, "x" }, q:join())
end

function case.a_select_never_meets_itself()
  local ch = process.channel()
  check.results("select", { n = 2, nil, "timeout" }, process.select({ ch, { ch, 1 } }, 0))
  check.results("select", { n = 2, nil, "timeout" }, process.select({ ch, { ch, 1 } }, 0.003))
end

function case.only_one_of_the_ready_cases_is_done()
  for _ = 1, 100 do
    local a, b, c = process.channel(1), process.channel(1), process.channel(1)
    a:send(1)
    b:send(2)
    process.select { a, b, { c, 3 } }
    check.equal(#a + #b + (1 - #c), 2)
  end
end

function case.only_one_case_is_done_when_two_become_ready_together()
  for _ = 1, 100 do
    local a, b = process.channel(), process.channel()
    local p = process.spawn(function() return process.select { a, b } end)
    local senders = {
      process.spawn(function() return a:send("a", 0.01) end),
      process.spawn(function() return b:send("b", 0) end),
    }
    local _, sent_a = senders[1]:join()
    local _, sent_b = senders[2]:join()
    check.that(not (sent_a and sent_b), "both were taken by one select")
    if not sent_a and not sent_b then a:close() end
    p:join()
  end
end

function case.a_random_one_among_the_ready_is_taken()
  local counts = { 0, 0, 0 }
  local a, b, c = process.channel(1), process.channel(1), process.channel(1)
  for _ = 1, 3000 do
    a:send(true, 0)
    b:send(true, 0)
    local i = process.select { a, b, { c, true } }
    counts[i] = counts[i] + 1
    c:receive(0)
  end
  for i = 1, 3 do check.within(counts[i], 700, 1300, "case " .. i) end
end

function case.the_same_channel_may_stand_in_several_cases()
  local ch = process.channel(1)
  ch:send("v")
  local i, v = process.select { ch, ch, ch }
  check.within(i, 1, 3)
  check.equal(v, "v")
  local p = process.spawn(function() return process.select { ch, ch } end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  ch:send("w")
  check.equal(select(3, p:join()), "w")
  check.equal(#ch, 0)
end

function case.a_killed_select_leaves_nothing_behind()
  local a, b = process.channel(), process.channel()
  local p = process.spawn(function() process.select { a, { b, "ghost" } } end)
  check.eventually("waiting", function() return p:status() == "waiting" end)
  p:kill()
  p:join()
  check.results("a", { n = 2, nil, "timeout" }, a:send(1, 0))
  check.results("b", { n = 2, nil, "timeout" }, b:receive(0))
end

function case.a_select_killed_after_the_hand_over_gives_the_value_back()
  check.without_slices()
  local a, b = process.channel(), process.channel(1)
  local p = process.spawn(process.select, { a, b })
  check.eventually("waiting", function() return p:status() == "waiting" end)
  check.results("send", { true }, b:send("v"))
  p:kill()
  p:join()
  check.results("receive", { "v" }, b:receive(0))
end

function case.a_thousand_selects_on_the_same_channels_lose_nothing()
  local channels = { process.channel(), process.channel(), process.channel() }
  local sum, all = 0, {}
  for _ = 1, 1000 do
    all[#all + 1] = process.spawn(function() return select(2, process.select(channels)) end)
  end
  local sent = 0
  for i = 1, 1000 do
    check.equal(channels[i % 3 + 1]:send(i), true)
    sent = sent + i
  end
  for i = 1, 1000 do sum = sum + select(2, all[i]:join()) end
  check.equal(sum, sent)
end

check.run(case)
