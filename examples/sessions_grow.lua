-- A service whose memory grows. The guide's page "When it grows" finds out why.
--
--   baton examples/sessions_grow.lua [SECONDS]
--
-- Visitors come, stay for a moment and leave. A cache of their sessions forgets them, and yet the
-- memory grows.

local process = require "baton.process"

local seconds = tonumber(arg and arg[1]) or 600

local sessions = setmetatable({}, { __mode = "v" }) -- weak: keeps nobody alive
local news = { listeners = {} }

function news.subscribe(listener) news.listeners[#news.listeners + 1] = listener end

local function publish(text)
  for _, listener in ipairs(news.listeners) do listener(text) end
end

local function open_session(visitor)
  local session = { visitor = visitor, inbox = {}, basket = {} }
  for i = 1, 20 do session.basket[i] = "article " .. i end
  sessions[visitor] = session
  -- The fault: nobody ends the subscription when the visitor leaves.
  news.subscribe(function(text) session.inbox[1] = text end)
  return session
end

local visitors = 0

local function visit()
  visitors = visitors + 1
  local session = open_session("visitor " .. visitors)
  process.sleep(0.05)
  session.basket = nil
end

process.spawn({ name = "news", daemon = true }, function()
  while true do
    process.sleep(0.1)
    publish("the time is " .. os.time())
  end
end)

local last = process.now() + seconds
while process.now() < last do
  process.spawn(visit)
  process.sleep(0.001)
  if visitors % 1000 == 0 then
    print(("%d visitors, %.1f MiB"):format(visitors, collectgarbage "count" / 1024))
  end
end
