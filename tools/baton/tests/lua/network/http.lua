-- lua-http: a server and its clients, as processes of one program.
local check = require "check"
local process = require "baton.process"
local cqueues = require "cqueues"
local headers = require "http.headers"
local request = require "http.request"
local server = require "http.server"
local case = {}

-- Answers each request with its path, after the seconds given in its query.
local function serve()
  local ready = process.channel(1)
  process.spawn({ daemon = true, name = "server" }, function()
    local listening = assert(server.listen {
      host = "127.0.0.1",
      port = 0,
      onstream = function(_, stream)
        local asked = assert(stream:get_headers())
        local path, seconds = asked:get(":path"):match "^([^?]*)%??(.*)$"
        if seconds ~= "" then cqueues.sleep(tonumber(seconds)) end
        local answer = headers.new()
        answer:append(":status", "200")
        assert(stream:write_headers(answer, false))
        assert(stream:write_chunk(path, true))
      end,
      onerror = function() end, -- clients may close the connection
    })
    assert(listening:listen())
    local _, _, port = listening:localname()
    ready:send(port)
    assert(listening:loop())
  end)
  return "http://127.0.0.1:" .. ready:receive()
end

local function get(uri, timeout)
  local answer, stream = request.new_from_uri(uri):go(timeout)
  if not answer then return nil, stream end
  check.equal(answer:get ":status", "200")
  return stream:get_body_as_string()
end

function case.requests_of_many_processes_go_on_beside_each_other()
  local base = serve()
  local all = {}
  local before = process.now()
  for i = 1, 20 do all[i] = process.spawn(get, base .. "/" .. i .. "?0.3") end
  for i = 1, 20 do check.results("request", { true, "/" .. i }, all[i]:join()) end
  check.within(process.now() - before, 0.3, 60, "seconds, one after the other it were 6")
end

function case.a_request_in_a_loop_of_ones_own()
  local base = serve()
  local loop, bodies = cqueues.new(), {}
  for i = 1, 5 do
    loop:wrap(function() bodies[i] = get(base .. "/loop" .. i .. "?0.01") end)
  end
  assert(loop:loop())
  check.list(bodies, { "/loop1", "/loop2", "/loop3", "/loop4", "/loop5" })
end

function case.a_timeout_ends_one_request()
  local base = serve()
  local slow = process.spawn(get, base .. "/slow?0.5")
  local body, why = get(base .. "/late?60", 0.05)
  check.equal(body, nil)
  check.matches(tostring(why), "timed out")
  check.results("slow", { true, "/slow" }, slow:join())
end

function case.a_request_can_be_killed()
  local base = serve()
  local all = {}
  for i = 1, 5 do all[i] = process.spawn(get, base .. "/never?3600") end
  for i = 1, 5 do check.becomes(all[i], "waiting") end
  for i = 1, 5 do check.equal(all[i]:kill(), true) end
  for i = 1, 5 do check.results("request", { false, "killed" }, all[i]:join()) end
  check.equal(get(base .. "/after"), "/after")
end

check.run(case)
