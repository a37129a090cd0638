-- redis-lua over plain LuaSocket, with one connection per process and its own server at PORT.
local check = require "check"
local process = require "baton.process"
local redis = require "redis"
local case = {}

local PORT = tonumber(os.getenv "PORT")

local function connect() return redis.connect("127.0.0.1", PORT) end

local function together(n, f) check.join_all(check.spawn_all(n, f)) end

-- Returns the number of the server's clients, including this one.
local function count_clients(client)
  local list = client:client "LIST"
  return select(2, list:gsub("[^\n]+", ""))
end

function case.many_processes_use_the_server_at_once()
  local most = 0
  together(20, function(i)
    local client = connect()
    for round = 1, 50 do
      client:incr "sum"
      client:set("own" .. i, round)
      check.equal(client:get("own" .. i), tostring(round))
      most = math.max(most, process.threads())
    end
    client:quit()
  end)
  check.equal(connect():get "sum", "1000")
  check.within(most, 1, process.features().poller == "polling" and 64 or 8, "threads")
  check.that(process.stats().descriptor_waits > 0)
end

-- It uses scripts, because the library's own pipelines fail in Lua 5.4 under any interpreter.
function case.transactions_go_on_beside_each_other()
  together(8, function(i)
    local client = connect()
    for _ = 1, 20 do
      local replies = client:eval(
        "redis.call('INCRBY', KEYS[1], 10) return {redis.call('DECRBY', KEYS[1], 9), ARGV[1]}",
        1,
        "total",
        i
      )
      check.equal(replies[2], tostring(i))
    end
    client:quit()
  end)
  check.equal(connect():get "total", "160")
end

function case.waiting_for_an_element_stops_no_process()
  local taken = {}
  local takers = {}
  for i = 1, 10 do
    takers[i] = process.spawn(function()
      local client = connect()
      local answer = client:blpop("queue", 0)
      taken[#taken + 1] = answer[2]
    end)
  end
  for i = 1, 10 do check.becomes(takers[i], "waiting") end
  local client = connect()
  for i = 1, 10 do client:rpush("queue", i) end
  for i = 1, 10 do check.results("taker", { true }, takers[i]:join()) end
  table.sort(taken, function(a, b) return tonumber(a) < tonumber(b) end)
  check.equal(table.concat(taken, " "), "1 2 3 4 5 6 7 8 9 10")
end

function case.a_message_reaches_all_subscribers()
  local heard, ready = 0, process.semaphore(0)
  local subscribers = {}
  for i = 1, 5 do
    subscribers[i] = process.spawn(function()
      local client = connect()
      for message, abort in client:pubsub { subscribe = { "news" } } do
        if message.kind == "subscribe" then
          ready:signal()
        elseif message.kind == "message" then
          check.equal(message.payload, "it works")
          heard = heard + 1
          abort()
        end
      end
    end)
  end
  for _ = 1, 5 do ready:wait() end
  check.equal(connect():publish("news", "it works"), 5)
  for i = 1, 5 do check.results("subscriber", { true }, subscribers[i]:join()) end
  check.equal(heard, 5)
end

function case.a_process_that_waits_for_the_server_can_be_killed()
  local control = connect()
  local victims = {}
  for i = 1, 10 do
    victims[i] = process.spawn(function()
      local client = connect()
      local held <close> = setmetatable(
        {},
        { __close = function() client.network.socket:close() end }
      )
      client:blpop("nothing", 0)
    end)
  end
  for i = 1, 10 do check.becomes(victims[i], "waiting") end
  for i = 1, 10 do check.equal(victims[i]:kill(), true) end
  for i = 1, 10 do check.results("victim", { false, "killed" }, victims[i]:join()) end
  check.eventually(
    "the server has one client left",
    function() return count_clients(control) == 1 end
  )
  check.equal(control:rpush("nothing", "x"), 1) -- no process takes it
end

function case.a_timeout_ends_the_wait_of_its_process_only()
  local other = process.spawn(function() return connect():blpop("late", 0)[2] end)
  check.becomes(other, "waiting")
  local client = connect()
  client.network.socket:settimeout(0.05)
  check.raises("timeout", function() client:blpop("never", 0) end)
  check.equal(connect():rpush("late", "here"), 1)
  check.results("other", { true, "here" }, other:join())
end

check.run(case)
