-- Clients of other projects ask baton.http: curl, and those of Python's library.
local check = require "check"
local http = require "baton.http"
local case = {}

local LARGE = 3000000
local HERE = arg[0]:match "^.*/" or "./"

-- Says what came: of a body its length and the sum of its bytes.
local function digest(req)
  local length, sum = 0, 0
  for part in function() return req:read() end do
    length = length + #part
    for i = 1, #part do
      sum = (sum + part:byte(i)) % 65536
    end
  end
  return ("%s %d %d"):format(req.method, length, sum)
end

-- A server with files below /files. The second value is what connections it has got from clients.
local function serve()
  local root = check.scratch "files"
  assert(os.execute(("mkdir -p '%s'"):format(root)))
  check.write_file(root .. "/digits.txt", "0123456789")
  local peers = {}
  local r = http.router()
  r:use(function(req, _, next)
    peers[req.peer] = true
    return next()
  end)
  r:static("/files", root)
  r:get("/text", function() return ("soup "):rep(2000) end)
  r:get("/parts", function(_, res)
    local out <close> = res:stream(200, { ["Content-Type"] = "text/plain" })
    for i = 1, 5 do
      out:write(("part %d\n"):format(i))
    end
  end)
  r:get("/fields", function(req)
    return 201, req.query.q .. " " .. req:header "X-One", { ["X-Two"] = "two" }
  end)
  r:post("/form", function(req)
    local form = assert(req:form())
    return form.name .. "/" .. form.what
  end)
  r:any("/body", digest)
  r:post("/encoding", function(req)
    req:body()
    return (req:header "transfer-encoding" or "none")
      .. " "
      .. (req:header "content-length" or "none")
  end)
  local server = assert(http.serve("127.0.0.1:0", r, { compress = true, max_body = 10 << 20 }))
  return server, peers
end

-- Runs a command that must succeed. Returns all that it writes.
local function output_of(...)
  local command = table.concat({ ... }, " ")
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read "a"
  local _, how, status = pipe:close()
  check.equal(how .. " " .. status, "exit 0", command .. ": " .. output)
  return output
end

-- Runs curl with options and the paths of a server.
local function curl(server, options, ...)
  local urls = {}
  for i, path in ipairs { ... } do
    urls[i] = "'http://" .. server:address() .. path .. "'"
  end
  local always = "curl --silent --show-error --max-time 60 --noproxy '*' --http1.1"
  return output_of(always, options, table.concat(urls, " "))
end

local function connections(peers)
  local count = 0
  for _ in pairs(peers) do count = count + 1 end
  return count
end

-- A file of LARGE bytes, and what `digest` says of it.
local function large_file(method)
  local file = check.scratch "large"
  local text = ("\0\1\2\r\n\xff7"):rep(LARGE // 7 + 1):sub(1, LARGE)
  check.write_file(file, text)
  local sum = 0
  for i = 1, #text do
    sum = (sum + text:byte(i)) % 65536
  end
  return file, ("%s %d %d"):format(method, LARGE, sum)
end

function case.curl_gets_what_handlers_return()
  local server <close> = serve()
  local told = curl(server, "--include --header 'X-One: 1'", "/fields?q=a%20b")
  check.matches(told, "^HTTP/1.1 201 Created\r\n")
  check.matches(told, "\r\nX%-Two: two\r\n")
  check.matches(told, "\r\n\r\na b 1$")
  check.equal(curl(server, "", "/parts"), "part 1\npart 2\npart 3\npart 4\npart 5\n")
  check.equal(curl(server, "--data name=Anna --data-urlencode 'what=a&b'", "/form"), "Anna/a&b")
end

function case.curl_keeps_its_connection()
  local server <close>, peers = serve()
  local counts = "--write-out ' %{num_connects}\\n'"
  check.equal(curl(server, counts, "/files/digits.txt", "/body"), "0123456789 1\nGET 0 0 0\n")
  check.equal(connections(peers), 1)
  local closing = "--header 'Connection: close'"
  check.equal(curl(server, closing, "/files/digits.txt", "/body"), "0123456789GET 0 0")
  check.equal(connections(peers), 3)
end

function case.curl_sends_a_body_in_chunks()
  local server <close> = serve()
  local chunked = "--header 'Transfer-Encoding: chunked' --header 'Expect:' "
  local file, wanted = large_file "POST"
  check.equal(curl(server, chunked .. "--data-binary @" .. file, "/body"), wanted)
  file, wanted = large_file "PUT"
  check.equal(curl(server, "--upload-file - < " .. file, "/body"), wanted)
  check.equal(curl(server, chunked .. "--data short", "/encoding"), "chunked none")
end

function case.curl_waits_until_it_may_send()
  local server <close> = serve()
  local file, wanted = large_file "POST"
  -- curl would go on without an answer after 50 seconds.
  local waits = "--verbose --expect100-timeout 50 --header 'Expect: 100-continue' --data-binary @"
  local told = curl(server, waits .. file, "/body")
  check.matches(told, "< HTTP/1.1 100 Continue")
  check.that(told:find(wanted, 1, true), told)
  -- A handler that does not read gets no body.
  told = curl(server, waits .. file, "/nowhere")
  check.that(not told:find("100 Continue", 1, true), told)
  check.matches(told, "< HTTP/1.1 404 ")
end

function case.curl_asks_for_heads()
  local server <close>, peers = serve()
  local told = curl(server, "--head", "/files/digits.txt", "/body")
  local first, second = told:match "^(.-\r\n\r\n)(.-\r\n\r\n)$"
  check.matches(first, "^HTTP/1.1 200 OK\r\n")
  check.matches(first:lower(), "\r\ncontent%-length: 10\r\n")
  check.matches(second:lower(), "\r\ncontent%-length: 8\r\n")
  check.equal(connections(peers), 1)
end

function case.curl_gets_parts_of_a_file()
  local server <close> = serve()
  local status = "--write-out ' %{http_code}' --range "
  check.equal(curl(server, status .. "2-4", "/files/digits.txt"), "234 206")
  check.equal(curl(server, status .. "7-", "/files/digits.txt"), "789 206")
  check.equal(curl(server, status .. "-2", "/files/digits.txt"), "89 206")
  check.matches(curl(server, status .. "10-", "/files/digits.txt"), " 416$")
  local begun = check.scratch "begun"
  check.write_file(begun, "0123")
  curl(server, "--continue-at - --output " .. begun, "/files/digits.txt")
  check.equal(check.read_file(begun), "0123456789")
end

function case.curl_unpacks_what_was_packed()
  local server <close> = serve()
  local size = "--write-out ' %{size_download}'"
  local text, packed = curl(server, "--compressed " .. size, "/text"):match "^(.*) (%d+)$"
  check.equal(text, ("soup "):rep(2000))
  check.within(tonumber(packed), 20, 1000)
  check.equal(curl(server, size, "/text"), text .. " 10000")
end

function case.the_clients_of_pythons_library_understand_it()
  local server <close>, peers = serve()
  local port = server:address():match "%d+$"
  check.equal(output_of("python3 -I '" .. HERE .. "clients.py'", port), "all is well\n")
  check.equal(connections(peers), 5) -- one of http.client, and one for each request of urllib
end

check.run(case)
