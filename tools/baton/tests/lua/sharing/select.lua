-- Channels between VMs in process.select.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local case = {}

function case.a_ready_receive_and_a_ready_send_are_done()
  local full, empty = vm.channel(1), vm.channel(1)
  full:send { 7 }
  local i, v = process.select { full }
  check.equal(i, 1)
  check.equal(v[1], 7)
  check.results("send", { 1, true }, process.select { { empty, "v" } })
  check.equal(empty:receive(), "v")
end

function case.a_waiting_select_is_woken_by_a_sender_and_by_a_receiver()
  local a, b = vm.channel(1), vm.channel(1)
  b:send "full"
  local p = check.selecting { a, { b, "more" } }
  a:send "hello"
  check.results("received", { true, 1, "hello" }, p:join())
  check.equal(#b, 1)
  p = check.selecting { a, { b, "more" } }
  check.equal(b:receive(), "full")
  check.results("sent", { true, 2, true }, p:join())
  check.equal(b:receive(), "more")
  check.results("a has no ticket left", { true }, a:send(1, 0))
end

function case.close_wakes_it()
  local a, b = vm.channel(1), vm.channel(1)
  local p = check.selecting { a, b }
  b:close()
  check.results("closed", { n = 4, true, 2, nil, "closed" }, p:join())
  check.results("send", { n = 3, 1, nil, "closed" }, process.select { { b, 1 } })
end

function case.it_times_out_and_reserves_nothing()
  local ch = vm.channel(1)
  check.results("timeout", { n = 2, nil, "timeout" }, process.select({ ch }, 0.001))
  check.results("timeout", { n = 2, nil, "timeout" }, process.select({ ch }, 0))
  check.that(ch:send(1, 0))
  check.results("timeout", { n = 2, nil, "timeout" }, process.select({ { ch, 2 } }, 0.001))
  check.equal(ch:receive(0), 1)
end

function case.it_stands_beside_objects_of_one_vm()
  local shared, event = vm.channel(1), process.event()
  local own = process.channel(1)
  local p = check.selecting { shared, event, own }
  event:set()
  check.results("event", { true, 2, true }, p:join())
  event:clear()
  p = check.selecting { shared, event, own }
  shared:send "s"
  check.results("shared", { true, 1, "s" }, p:join())
  p = check.selecting { shared, event, own }
  own:send "o"
  check.results("own", { true, 3, "o" }, p:join())
end

function case.only_one_case_is_done_of_those_that_are_ready()
  local a, b, seen = vm.channel(1), vm.channel(1), {}
  for _ = 1, 200 do
    a:send "a"
    b:send "b"
    local i = process.select { a, b }
    seen[i] = true
    check.equal(#a + #b, 1)
    check.equal((i == 1 and b or a):receive(0), i == 1 and "b" or "a")
  end
  check.that(seen[1] and seen[2], "both were chosen")
end

function case.it_never_meets_itself()
  local ch = vm.channel(1)
  check.results("sent", { 2, true }, process.select { ch, { ch, "v" } })
  check.results("received", { 1, "v" }, process.select { ch, { ch, "w" } })
  check.equal(#ch, 0)
end

function case.a_killed_select_passes_its_message_on()
  local ch = vm.channel(1)
  local victim = check.selecting { ch }
  local heir = check.selecting { ch }
  process.critical(function()
    ch:send "v"
    victim:kill()
  end)
  check.results("heir", { true, 1, "v" }, heir:join())
end

function case.an_interrupted_select_gives_its_message_back()
  local ch = vm.channel(1)
  check.interrupted(function() return process.select { ch } end, function() ch:send "v" end)
  check.results("left", { "v" }, ch:receive(0))
end

function case.a_bad_case_after_a_message_was_copied_raises()
  local ch, big = vm.channel(), { ("x"):rep(1000) }
  check.raises("case 2: .*got number", process.select, { { ch, big }, 5 })
  check.raises("nil cannot be sent", process.select, { { ch } })
  check.raises("cannot send value%[1%]: userdata FILE%*", process.select, { { ch, { io.stdout } } })
  check.equal(#ch, 0)
end

function case.two_selects_meet_over_and_over()
  local there, back = vm.channel(1), vm.channel(1)
  local p = process.spawn(function()
    for i = 1, 500 do
      local _, v = process.select { there }
      check.equal(v, i)
      check.that(select(2, process.select { { back, -v } }))
    end
  end)
  for i = 1, 500 do
    check.that(select(2, process.select { { there, i } }))
    check.equal(select(2, process.select { back }), -i)
  end
  check.equal(p:join(), true)
end

check.run(case)
