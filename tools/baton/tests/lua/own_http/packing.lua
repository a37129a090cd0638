-- Replies of baton.http in gzip: the option `compress`.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

local function serve(handler, options)
  options = options or {}
  options.compress = true
  local server = assert(http.serve("127.0.0.1:0", handler, options))
  return server,
    function() return assert(net.connect(server:address(), { timeout = 20 })):timeout(20) end
end

-- Asks on a connection of its own: the status, the body without chunks, and the fields. `whole`:
-- whether the body came to its end.
local function ask(connect, path, fields, method)
  local conn <close> = connect()
  local head = "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
  local text = { head:format(method or "GET", path) }
  for name, value in pairs(fields or {}) do text[#text + 1] = name .. ": " .. value .. "\r\n" end
  conn:write(table.concat(text), "\r\n")
  local body, found = nil, {}
  head, body = conn:read("all"):match "^(.-)\r\n\r\n(.*)$"
  for name, value in head:gmatch "\r\n([^:]+): ([^\r]*)" do
    check.equal(found[name:lower()], nil, name)
    found[name:lower()] = value
  end
  if found["transfer-encoding"] and method ~= "HEAD" then
    local pieces, at = {}, 1
    while true do
      local size, first = body:match("^(%x+)\r\n()", at)
      if not size then
        found.whole = false
        break
      end
      size = tonumber(size, 16)
      if size == 0 then
        found.whole = body:sub(first) == "\r\n"
        break
      end
      pieces[#pieces + 1] = body:sub(first, first + size - 1)
      at = first + size + 2
    end
    body = table.concat(pieces)
  end
  return tonumber(head:match "^HTTP/1.1 (%d+)"), body, found
end

local function unpacked(data)
  local path = check.scratch "packed"
  do
    local file <close> = assert(io.open(path, "w"))
    file:write(data)
  end
  local pipe <close> = assert(io.popen(("gzip -dc '%s'"):format(path)))
  return pipe:read "a"
end

local GZIP = { ["Accept-Encoding"] = "br, gzip;q=0.8" }
local TEXT = ("all work and no play %d "):rep(5000)

function case.a_text_of_some_length_is_packed_if_the_client_takes_it()
  local server <close>, connect = serve(function(req)
    if req.path == "/json" then return req:json { text = TEXT } end
    if req.path == "/short" then return 200, ("x"):rep(1023) end
    return TEXT
  end)
  local status, body, fields = ask(connect, "/", GZIP)
  check.equal(status, 200)
  check.equal(fields["content-encoding"], "gzip")
  check.equal(fields.vary, "Accept-Encoding")
  check.equal(fields["content-length"], tostring(#body))
  check.that(#body < #TEXT // 10, "the size")
  check.that(unpacked(body) == TEXT, "the text")
  local packed_size = fields["content-length"]
  _, body, fields = ask(connect, "/", GZIP, "HEAD")
  check.equal(body, "")
  check.equal(fields["content-length"], packed_size)
  check.equal(fields["content-encoding"], "gzip")
  _, body, fields = ask(connect, "/json", GZIP)
  check.equal(unpacked(body), ('{"text":"%s"}'):format(TEXT))
  for _, accepted in ipairs { "br", "gzip;q=0", "identity, gzip;q=0.5" } do
    _, body, fields = ask(connect, "/", { ["Accept-Encoding"] = accepted })
    check.that(body == TEXT, accepted)
    check.equal(fields["content-encoding"], nil)
    check.equal(fields.vary, "Accept-Encoding")
  end
  _, body, fields = ask(connect, "/short", GZIP)
  check.equal(#body, 1023)
  check.equal(fields.vary, nil)
  check.equal(server:stats().failures, 0)
end

function case.what_is_packed_already_or_no_text_is_left_alone()
  local replies = {
    image = { 200, TEXT, { ["Content-Type"] = "image/png" } },
    packed = { 200, TEXT, { ["content-encoding"] = "br" } },
    fixed = { 200, TEXT, { ["Cache-Control"] = "public, No-Transform" } },
    part = { 206, TEXT, { ["Content-Range"] = "bytes 0-9/10" } },
  }
  local server <close>, connect = serve(function(req, res)
    local name = req.path:sub(2)
    if name == "events" then
      local events <close> = res:events()
      events:send(TEXT)
      return
    end
    return table.unpack(replies[name])
  end)
  for name in pairs(replies) do
    local _, body, fields = ask(connect, "/" .. name, GZIP)
    check.that(body == TEXT, name)
    check.that(fields["content-encoding"] ~= "gzip", name)
  end
  local _, body, fields = ask(connect, "/events", GZIP)
  check.equal(body, "data: " .. TEXT .. "\n\n")
  check.equal(fields["content-encoding"], nil)
  check.equal(server:stats().failures, 0)
end

function case.a_packed_reply_is_another_one_for_caches()
  local server <close>, connect = serve(function(req, res)
    if req.path == "/set" then
      res:set("ETag", '"a"'):set("vary", "Origin")
      return TEXT
    end
    return 200, TEXT, { etag = 'W/"b"', Vary = { "Origin", "accept-encoding" } }
  end)
  local _, body, fields = ask(connect, "/set", GZIP)
  check.that(unpacked(body) == TEXT, "the text")
  check.equal(fields.etag, 'W/"a"')
  check.equal(fields.vary, "Origin, Accept-Encoding")
  _, _, fields = ask(connect, "/set")
  check.equal(fields.etag, '"a"')
  local conn <close> = connect()
  conn:write "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
  local head = conn:read("all"):match "^(.-\r\n)\r\n"
  check.matches(head, 'etag: W/"b"\r\n')
  check.matches(head, "Vary: accept%-encoding\r\n")
  check.that(not head:find "Accept%-Encoding", "it varies once")
end

function case.a_stream_is_packed_and_sent_as_it_is_written()
  local step = process.semaphore(0)
  local server <close>, connect = serve(function(req, res)
    local stream <close> = res:stream(200, { ["Content-Type"] = "text/csv" })
    if req.path == "/fails" then
      stream:write(TEXT)
      error "on purpose"
    end
    stream:write("one,", 2, "\n")
    stream:write ""
    step:wait(20)
    for _ = 1, 3 do stream:write(TEXT) end
    check.raises("string expected", stream.write, stream, {})
    check.equal(stream:close(), true)
    check.equal(stream:close(), true)
    check.raises("the stream was closed", stream.write, stream, "x")
  end, { on_error = function() end })
  local conn <close> = connect()
  conn:write "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
  repeat
    local line = conn:read "line"
    if line:find "^Content%-Encoding" then check.equal(line, "Content-Encoding: gzip") end
  until line == ""
  local first = conn:read(tonumber(conn:read "line", 16))
  conn:read "line"
  local pipe <close> =
    assert(io.popen(("printf '%s' | gzip -dc 2>&1"):format(first:gsub(".", function(byte)
      return ("\\%03o"):format(byte:byte())
    end))))
  check.matches(pipe:read "a", "^one,2\n") -- the rest is missing
  step:signal()
  local rest = { first }
  while true do
    local size = tonumber(conn:read "line", 16)
    if size > 0 then rest[#rest + 1] = conn:read(size) end
    conn:read "line"
    if size == 0 then break end
  end
  check.that(unpacked(table.concat(rest)) == "one,2\n" .. TEXT:rep(3), "the text")
  step:signal()
  local _, body, fields = ask(connect, "/", GZIP, "HEAD")
  check.equal(body, "")
  check.equal(fields["content-encoding"], "gzip")
  step:signal()
  _, body, fields = ask(connect, "/")
  check.equal(body, "one,2\n" .. TEXT:rep(3))
  check.equal(fields.whole, true)
  _, _, fields = ask(connect, "/fails", GZIP)
  check.equal(fields.whole, false)
  check.equal(server:stats().failures, 1)
end

function case.several_processes_may_write_one_packed_stream()
  local server <close>, connect = serve(function(_, res)
    local stream <close> = res:stream(200)
    local writers = {}
    for i = 1, 8 do
      writers[i] = process.spawn(function()
        for _ = 1, 20 do stream:write((("%d"):format(i)):rep(5000), "\n") end
      end)
    end
    for _, writer in ipairs(writers) do writer:join() end
  end)
  local _, body, fields = ask(connect, "/", GZIP)
  check.equal(fields.whole, true)
  local counts = {}
  for line in unpacked(body):gmatch "([^\n]*)\n" do
    check.equal(line, line:sub(1, 1):rep(5000))
    counts[line:sub(1, 1)] = (counts[line:sub(1, 1)] or 0) + 1
  end
  for i = 1, 8 do check.equal(counts[tostring(i)], 20) end
  check.equal(server:stats().failures, 0)
end

function case.files_are_packed_and_their_ranges_are_not()
  local path = check.scratch "text" .. ".txt"
  do
    local file <close> = assert(io.open(path, "w"))
    file:write(TEXT:rep(20))
  end
  local server <close>, connect = serve(function(_, res)
    assert(res:file(path))
  end)
  local status, body, fields = ask(connect, "/", GZIP)
  check.equal(status, 200)
  check.equal(fields["content-encoding"], "gzip")
  check.equal(fields["accept-ranges"], nil)
  check.equal(fields.whole, true)
  check.that(unpacked(body) == TEXT:rep(20), "the file")
  check.matches(fields.etag, '^W/"')
  local etag = fields.etag
  status, body, fields = ask(connect, "/", GZIP, "HEAD")
  check.equal(status, 200)
  check.equal(fields.etag, etag)
  check.equal(fields["content-encoding"], "gzip")
  local known = { ["Accept-Encoding"] = "gzip", ["If-None-Match"] = etag }
  status, body, fields = ask(connect, "/", known)
  check.equal(status, 304)
  check.equal(fields.etag, etag)
  check.equal(fields.vary, "Accept-Encoding")
  check.equal(fields["content-encoding"], nil)
  status, body, fields = ask(connect, "/", { ["Accept-Encoding"] = "gzip", Range = "bytes=0-7" })
  check.equal(status, 206)
  check.equal(body, "all work")
  check.equal(fields["content-encoding"], nil)
  check.equal(fields.vary, "Accept-Encoding")
  status, body, fields = ask(connect, "/")
  check.that(body == TEXT:rep(20), "the plain file")
  check.equal(fields.vary, "Accept-Encoding")
  check.equal(fields["accept-ranges"], "bytes")
  check.equal(server:stats().failures, 0)
end

function case.a_packed_file_that_shrinks_is_cut_off()
  local path = check.scratch "shrinks" .. ".txt"
  local function write(size)
    local file <close> = assert(io.open(path, "w"))
    for _ = 1, size // 8 do file:write(("%08x"):format(math.random(0, 0xffffffff))) end
  end
  write(32 << 20)
  local why
  local server <close>, connect = serve(function(_, res)
    local _, fault = res:file(path)
    why = fault
  end)
  local conn <close> = connect()
  conn:write "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
  check.matches(conn:read "line", "200 OK$")
  conn:read(100000)
  write(1000)
  local rest = conn:read "all"
  check.that(not rest:find "\r\n0\r\n\r\n$", "no sign of an end")
  check.equal(why, "the file has become shorter")
end

function case.packing_holds_nobody_up()
  local large = TEXT:rep(200) -- 22 MB
  local server <close>, connect = serve(function(req)
    if req.path == "/quick" then return "quick" end
    return large
  end)
  local packer = process.spawn(function() return #select(2, ask(connect, "/", GZIP)) end)
  check.eventually("it is packing", function() return server:stats().handlers == 1 end)
  local asked = 0
  while packer:status() ~= "dead" do
    check.equal(select(2, ask(connect, "/quick", GZIP)), "quick")
    asked = asked + 1
  end
  check.that(asked > 3, "requests beside it")
  check.that(select(2, packer:join()) < #large // 50, "the size")
end

check.run(case)
