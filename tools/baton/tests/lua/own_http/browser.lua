-- A page that tests the server from within a browser: it speaks over WebSocket, receives events,
-- and sends what it has found. The program prints that, and ends: browser.lua PORT.
local process = require "baton.process"
local http = require "baton.http"

local PAGE = [[
<!doctype html>
<meta charset="utf-8">
<script>
  const found = []
  const note = (...values) => found.push(values.join(" "))

  const speak = () => new Promise(resolve => {
    const socket = new WebSocket("ws://" + location.host + "/echo", ["other", "soup"])
    socket.binaryType = "arraybuffer"
    socket.onopen = () => {
      note("open", socket.protocol)
      socket.send("Grüße, 世界 🎈")
      socket.send(new Uint8Array([0, 255, 128]))
      socket.send("x".repeat(300000))
      socket.send("close")
    }
    socket.onmessage = ({ data }) => {
      if (typeof data != "string") note("bytes", ...new Uint8Array(data))
      else note("text", data.length > 100 ? data.length : data)
    }
    socket.onerror = () => note("the WebSocket failed")
    socket.onclose = ({ code, reason, wasClean }) => {
      note("close", code, reason, wasClean)
      resolve()
    }
  })

  const listen = () => new Promise(resolve => {
    const source = new EventSource("/events")
    source.onmessage = ({ data, lastEventId }) => note("message", JSON.stringify(data), lastEventId)
    source.addEventListener("news", ({ data, lastEventId }) => {
      note("news", data, lastEventId)
      if (data == "again") {
        source.close()
        resolve()
      }
    })
  })

  const ask = async () => {
    const streamed = await fetch("/stream")
    note("stream", await streamed.text())
    const many = await Promise.all([...Array(20).keys()].map(async number => {
      const reply = await fetch("/json", { method: "POST", body: JSON.stringify({ number }) })
      return (await reply.json()).number == number
    }))
    note("json", many.filter(Boolean).length)
    note("missing", (await fetch("/missing")).status)
  }

  speak().then(listen).then(ask).catch(why => note("failed", why)).then(() =>
    fetch("/found", { method: "POST", body: found.join("\n") }))
</script>
]]

local found = process.channel(1)
local r = http.router()

r:get("/", function() return 200, PAGE, { ["Content-Type"] = "text/html; charset=utf-8" } end)

r:get("/echo", function(req, res)
  local ws <close> = assert(http.websocket(req, res, { protocols = { "soup" } }))
  for data, kind in ws:messages() do
    if data == "close" then
      ws:close(4001, "as you wish")
    elseif kind == "text" then
      ws:send(data)
    else
      ws:send_binary(data)
    end
  end
end)

r:get("/events", function(_, res)
  local events <close> = res:events { heartbeat = 0.01 }
  if events.last_id then
    events:send { event = "news", data = "again", id = events.last_id .. "+" }
    return
  end
  events:send { data = "one\ntwo", id = 6, retry = 10 }
  process.sleep(0.05) -- comments come between
  events:send { event = "news", data = "first", id = 7 }
end)

r:get("/stream", function(_, res)
  local stream <close> = res:stream(200, { ["Content-Type"] = "text/plain" })
  for i = 1, 5 do
    stream:write(i)
    process.sleep(0.001)
  end
end)

r:post("/json", function(req, res) res:json(req:json()) end)
r:post("/found", function(req)
  found:send(req:body())
  return 204
end)

local server <close> = assert(http.serve("127.0.0.1:" .. arg[1], r))
print "ready"
io.stdout:flush()
print((found:receive()))
