-- Tests publishing and subscribing, and the connection itself.
local check = require "check"
local process = require "baton.process"
local cluster = require "baton.cluster"
local connect = require "cluster.connected"

local case = {}

function case.a_message_goes_to_all_that_listen()
  local one <close> = connect()
  local other <close> = connect()
  local first, second = one:subscribe "news.sport", other:subscribe "news.*"
  check.results("publish", { true }, one:publish("news.sport", { goals = 3 }))
  check.equal(first:receive(5).goals, 3)
  check.equal(second:receive(5).goals, 3)
  check.results("no more", { nil, "timeout", n = 2 }, first:receive(0.01))
end

function case.a_message_goes_to_one_of_a_group()
  local one <close> = connect()
  local other <close> = connect()
  local a = one:subscribe("jobs", { queue = "workers" })
  local b = other:subscribe("jobs", { queue = "workers" })
  for i = 1, 50 do one:publish("jobs", i) end
  local count, sum = 0, 0
  while count < 50 do
    local _, value = process.select({ a.channel, b.channel }, 5)
    count, sum = count + 1, sum + check.that(value)
  end
  check.equal(sum, 50 * 51 // 2)
  local both = { a.channel, b.channel }
  check.results("no more", { nil, "timeout", n = 2 }, process.select(both, 0.01))
end

function case.a_subscription_can_give_the_subjects()
  local c <close> = connect()
  local sub = c:subscribe("news.>", { subjects = true })
  c:publish("news.sport.today", false)
  local message = sub:receive(5)
  check.equal(message.subject, "news.sport.today")
  check.equal(message.value, false)
end

function case.a_full_subscription_counts_what_it_loses()
  local c <close> = connect()
  local sender <close> = connect()
  local sub = c:subscribe("much", { max = 10 })
  for i = 1, 1000 do sender:publish("much", i) end
  local received = 0
  check.eventually("each is received or counted", function()
    if sub:lost() > 0 then
      while sub:receive(0) do received = received + 1 end
    end
    return received + sub:lost() == 1000
  end)
  check.that(received >= 10, received .. " received")
  check.equal(select(2, sub:lost()), 0)
end

function case.values_of_a_loop_end_with_the_subscription()
  local c <close> = connect()
  local sub = c:subscribe "news"
  local seen = {}
  local reader = process.spawn(function()
    for value in sub:values() do seen[#seen + 1] = value end
  end)
  for i = 1, 3 do c:publish("news", i) end
  while #seen < 3 do process.sleep(0.001) end
  sub:close()
  check.that(reader:join(5))
  check.list(seen, { 1, 2, 3 })
  sub:close()
end

function case.a_closed_connection_says_so()
  local c = connect()
  local sub = c:subscribe "news"
  local waiting = process.spawn(function() return sub:receive() end)
  check.equal(c:status(), "online")
  check.results("close", { true }, c:close())
  check.equal(c:status(), "closed")
  check.results("the reader", { true, nil, "closed", n = 3 }, waiting:join(5))
  check.results("publish", { nil, "closed", n = 2 }, c:publish("news", 1))
  check.results("subscribe", { nil, "closed", n = 2 }, c:subscribe "news")
  check.results("call", { nil, "closed", n = 2 }, c:call("service", "method"))
  check.results("close again", { true }, c:close())
end

function case.misuse_is_an_error()
  local c <close> = connect()
  for text, wrong in pairs {
    ["unknown option 'urls'"] = function() cluster.connect { urls = "" } end,
    ["option 'url': string expected, got 7"] = function() cluster.connect { url = 7 } end,
    ["option 'credentials': 'user' and 'password', or 'token'"] = function()
      cluster.connect { credentials = { user = "me" } }
    end,
    ["'cert' without 'key'"] = function() cluster.connect { tls = { cert = "file" } } end,
    ["a subject like 'news.sport' expected, got 'a b'"] = function() c:publish("a b", 1) end,
    ["expected, got 'a..b'"] = function() c:publish("a..b", 1) end,
    ["expected, got 'a.*'"] = function() c:publish("a.*", 1) end,
    ["expected, got nil"] = function() c:subscribe(nil) end,
    ["a value expected, got nil"] = function() c:publish("a", nil) end,
    ["cannot send value.x: function"] = function() c:publish("a", { x = print }) end,
    ["option 'max': positive integer expected, got 0"] = function()
      c:subscribe("a", { max = 0 })
    end,
    ["the server takes at most"] = function() c:publish("a", ("x"):rep(2 << 20)) end,
    ["cluster connection expected, got table"] = function() c.publish({}, "a", 1) end,
    ["name of letters"] = function() c:queue "a.b" end,
  } do
    local is_done, message = pcall(wrong)
    check.that(not is_done, text)
    check.that(message:find(text, 1, true), message)
    check.that(message:find "messages.lua:", message)
  end
end

function case.a_killed_process_leaves_nothing_behind()
  local c <close> = connect()
  local p = process.spawn(function() c:call("nobody", "answers", {}, { timeout = 60 }) end)
  local sub = c:subscribe "baton.service.silent"
  local waiting = process.spawn(function() return c:call("silent", "method") end)
  while sub.unreadable == 0 and #sub.channel == 0 do process.sleep(0.001) end
  waiting:kill()
  check.results("the killed one", { false, "killed" }, waiting:join(5))
  p:join()
  c:publish("news", 1)
  check.equal(c:status(), "online")
end

check.run(case)
