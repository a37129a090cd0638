-- TLS between programs of ours, and with openssl. The certificates are those of
-- tests/harness/certificates.rs.
local check = require "check"
local net = require "baton.net"
local process = require "baton.process"
local web = require "baton.web"

local case = {}
local directory = os.getenv "CERTIFICATES"

local function file(name) return directory .. "/" .. name end

local function pair(name) return { cert = file(name .. ".pem"), key = file(name .. ".key") } end

-- Options with more fields.
local function with(options, more)
  local all = {}
  for key, value in pairs(options) do all[key] = value end
  for key, value in pairs(more or {}) do all[key] = value end
  return all
end

local function port_of(listener) return listener:address():match ":(%d+)$" end

-- A server in a process of its own, which calls f(connection) once TLS has begun. Returns its
-- listener and the process, which returns what f does; or nil, why.
local function server(options, f)
  local listener = assert(net.listen "127.0.0.1:0")
  local serving = process.spawn(function()
    local conn <close> = assert(listener:accept())
    local began, why = web.tls(conn, options)
    if not began then return nil, why end
    return f(conn)
  end)
  return listener, serving
end

local function client(listener, options)
  local conn = assert(net.connect(listener:address()))
  return web.tls(conn, with({ name = "localhost", ca = file "ca.pem" }, options))
end

local function echo(conn)
  local line = conn:read "line"
  while line do
    assert(conn:write(line, "\n"))
    line = conn:read "line"
  end
  return "done"
end

local function output_of(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

-- What openssl's client prints that sends a line to the server. The server ends the connection.
local function s_client(listener, words, line)
  local command = "printf '%s\\n' | timeout 60 openssl s_client -connect 127.0.0.1:%s -CAfile %s %s"
  return output_of(
    (command .. " 2>&1"):format(line or "hello", port_of(listener), file "ca.pem", words)
  )
end

-- Both sides
-- -------------------------------------------------------------------------------------------------

function case.a_client_of_openssl_gets_its_line_back()
  local listener, serving = server(
    pair "localhost",
    function(conn) return conn:write(conn:read "line", "\n") end
  )
  local said = s_client(listener, "-quiet -verify_return_error -verify_hostname localhost")
  check.results("the server", { true, true }, serving:join())
  check.matches(said, "\nhello\n")
end

function case.a_server_of_openssl_gives_a_line_back()
  local words = "timeout 60 openssl s_server -accept 127.0.0.1:0 -naccept 1 -rev -cert %s -key %s"
  local command = (words .. " 2>&1"):format(file "localhost.pem", file "localhost.key")
  local pipe <close> = assert(io.popen(command))
  local port
  repeat
    port = assert(pipe:read "l"):match "^ACCEPT.*:(%d+)$"
  until port
  local conn = assert(
    net.connect("127.0.0.1:" .. port, { tls = { ca = file "ca.pem", name = "localhost" } })
  )
  assert(conn:write "hello\n")
  check.equal(conn:read "line", "olleh")
  conn:close()
end

function case.both_sides_exchange_much_at_once()
  local listener, serving = server(pair "localhost", function(conn)
    local text = conn:read(3000000)
    conn:write(text, "end\n")
    return #text
  end)
  local conn <close> = assert(client(listener))
  local text = ("0123456789"):rep(300000)
  local writer = process.spawn(function() return conn:write(text) end)
  check.equal(conn:read(#text), text)
  check.equal(conn:read "line", "end")
  check.results("the writer", { true, true }, writer:join())
  check.results("the server", { true, #text }, serving:join())
end

function case.what_was_negotiated_is_known()
  local listener, serving = server(
    with(pair "localhost", { alpn = { "h2", "http/1.1" } }),
    function(conn)
      conn:write "x"
      return web.facts(conn)
    end
  )
  local conn <close> = assert(client(listener, { alpn = { "http/1.1" } }))
  check.equal(conn:read(1), "x")
  local facts = web.facts(conn)
  check.equal(facts.version, "TLSv1.3")
  check.matches(facts.cipher, "^TLS13_AES_256_GCM_SHA384$")
  check.equal(facts.alpn, "http/1.1")
  check.equal(facts.resumed, false)
  check.that(#facts.certificate > 100)
  local _, known = serving:join()
  check.equal(known.name, "localhost")
  check.equal(known.alpn, "http/1.1")
  check.equal(known.certificate, nil)
end

function case.net_has_tls_and_connects_with_it()
  local listener = assert(net.listen "127.0.0.1:0")
  local context = web.context { ca = file "ca.pem" }
  for _, options in ipairs { context, { ca = file "ca.pem" } } do
    local serving = process.spawn(function()
      return echo(assert(net.tls(assert(listener:accept()), pair "localhost")))
    end)
    local conn = assert(net.connect(listener:address(), { tls = options }))
    assert(conn:write "hello\n")
    check.equal(conn:read "line", "hello")
    conn:close()
    check.results("the server", { true, "done" }, serving:join())
  end
  local serving = process.spawn(function() return net.tls(listener:accept(), pair "localhost") end)
  local conn, why = net.connect(listener:address(), { tls = true })
  check.equal(conn, nil)
  check.matches(why, "authorit") -- an unknown one, or the system has none
  serving:join()
end

function case.http_requests_are_made_over_tls()
  local http = require "baton.http"
  local listener = assert(net.listen "127.0.0.1:0")
  local url = "https://" .. listener:address() .. "/secret"
  local serving = process.spawn(function()
    local conn <close> = assert(listener:accept())
    if not web.tls(conn, pair "localhost") then return end
    local count = 0
    for line in conn:lines() do
      if line:find "^GET /secret HTTP/1.1" then count = count + 1 end
      if line == "" then conn:write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" end
    end
    return count
  end)
  local pool <close> = http.pool()
  local tls = { ca = file "ca.pem", name = "localhost" }
  for _ = 1, 2 do
    check.equal(assert(http.get(url, { pool = pool, tls = tls })):body(), "ok")
  end
  pool:close()
  check.results("both came by one connection", { true, 2 }, serving:join())
  serving = process.spawn(function()
    local conn <close> = assert(listener:accept())
    return web.tls(conn, pair "localhost") == nil
  end)
  local _, why = http.get(url, { pool = pool, tls = { name = "localhost" } })
  check.matches(why, "of an unknown authority")
  check.results("it is refused", { true, true }, serving:join())
  listener:close()
end

function case.a_plain_connection_has_no_facts()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local conn <close> = assert(net.connect(listener:address()))
  check.equal(web.facts(conn), nil)
end

function case.bytes_that_came_before_tls_begins_are_part_of_it()
  local listener = assert(net.listen "127.0.0.1:0")
  local serving = process.spawn(function()
    local conn <close> = assert(listener:accept())
    check.equal(conn:read "line", "STARTTLS")
    assert(web.tls(conn, pair "localhost"))
    return conn:read "line"
  end)
  local conn <close> = assert(net.connect(listener:address()))
  assert(conn:write "STARTTLS\n")
  assert(web.tls(conn, { name = "localhost", ca = file "ca.pem" }))
  assert(conn:write "hello\n")
  check.results("the server", { true, "hello" }, serving:join())
end

-- Certificates
-- -------------------------------------------------------------------------------------------------

function case.a_server_chooses_its_certificate_by_the_name()
  local options = { certs = { pair "localhost", pair "other" } }
  for name, why in pairs {
    ["localhost"] = false,
    ["other.example"] = false,
    ["a.wild.example"] = false,
    ["unknown.example"] = "the certificate is for .*, and not for 'unknown.example'",
  } do
    local listener, serving = server(options, echo)
    local conn, said = client(listener, { name = name })
    if why then
      check.matches(said, why)
      local _, _, refusal = serving:join()
      check.matches(refusal, "the peer refused: it does not accept our certificate")
    else
      check.that(conn, said)
      conn:close()
      check.results(name, { true, "done" }, serving:join())
    end
  end
end

local function is_refused(options, certificate, expected)
  local listener, serving = server(pair(certificate), echo)
  local conn, why = client(listener, options)
  check.equal(conn, nil)
  check.matches(why, expected)
  check.matches(select(3, serving:join()), "^the peer refused: ")
end

function case.an_expired_certificate_is_refused_with_its_day()
  is_refused({}, "expired", "^the certificate expired on 2021%-01%-01$")
end

function case.a_certificate_for_another_name_is_refused_with_its_names()
  is_refused({}, "other", "^the certificate is for .*other.example.*, and not for 'localhost'$")
end

function case.a_certificate_of_an_unknown_authority_is_refused_with_what_to_do()
  is_refused({}, "stranger", "of an unknown authority; name the authority's certificate in 'ca'$")
end

function case.a_certificate_that_is_an_authoritys_own_is_refused_with_what_to_do()
  is_refused({ ca = file "self.pem" }, "self", "'basicConstraints=CA:FALSE'$")
end

function case.any_certificate_is_accepted_if_the_program_says_so()
  local listener, serving = server(pair "expired", echo)
  local conn = assert(client(listener, { verify = false, name = "elsewhere" }))
  conn:close()
  check.results("the server", { true, "done" }, serving:join())
end

function case.a_client_needs_a_certificate_of_the_authority_that_the_server_names()
  local options = with(pair "localhost", { ca = file "ca.pem" })
  local listener, serving = server(options, function(conn)
    conn:write(conn:read "line", "\n")
    return #web.facts(conn).certificate > 100
  end)
  local conn <close> = assert(client(listener, pair "client"))
  assert(conn:write "hello\n")
  check.equal(conn:read "line", "hello")
  check.results("the server", { true, true }, serving:join())

  listener, serving = server(options, echo)
  local other <close> = assert(client(listener)) -- TLS 1.3: the server refuses after that
  check.results(
    "a client without",
    { nil, "the peer refused: it asks for a certificate of ours; give 'cert' and 'key'", n = 2 },
    other:read "line"
  )
  check.results("the server", { true, nil, "the peer sent no certificate" }, serving:join())
end

function case.a_clients_certificate_may_be_optional()
  local options = with(pair "localhost", { ca = file "ca.pem", verify = "optional" })
  local listener, serving = server(options, echo)
  local conn = assert(client(listener))
  conn:close()
  check.results("the server", { true, "done" }, serving:join())
end

function case.a_client_of_openssl_may_have_a_certificate()
  local options = with(pair "localhost", { ca = file "ca.pem" })
  local listener, serving = server(options, function(conn)
    return conn:write(conn:read "line", "\n")
  end)
  local words = ("-quiet -cert %s -key %s"):format(file "client.pem", file "client.key")
  check.matches(s_client(listener, words), "\nhello\n")
  check.results("the server", { true, true }, serving:join())
end

function case.texts_are_as_good_as_files()
  local options = {
    cert = check.read_file(file "localhost.pem"),
    key = check.read_file(file "localhost.key"),
  }
  local listener, serving = server(options, echo)
  local conn = assert(client(listener, { ca = check.read_file(file "ca.pem") }))
  conn:close()
  check.results("the server", { true, "done" }, serving:join())
end

function case.files_that_cannot_be_used_are_named()
  local function why_of(options)
    local listener, serving = server(options, echo)
    local conn <close> = assert(net.connect(listener:address()))
    local _, _, why = serving:join()
    return why
  end
  local nowhere = { cert = "nowhere.pem", key = "nowhere.key" }
  check.matches(why_of(nowhere), "^cannot read 'nowhere.pem': ")
  local keyless = { cert = file "localhost.pem", key = file "ca.pem" }
  check.matches(why_of(keyless), "ca.pem' has no private key")
  local of_another = { cert = file "localhost.pem", key = file "other.key" }
  check.matches(why_of(of_another), "other.key' is not that of the first certificate in ")
  local bare = { cert = file "localhost.key", key = file "localhost.key" }
  check.matches(why_of(bare), "localhost.key' has no certificate")
end

function case.a_session_is_resumed_by_a_second_connection()
  local options = pair "localhost"
  local function connect()
    local listener, serving = server(options, function(conn)
      conn:write "x"
      return web.facts(conn).resumed
    end)
    local conn <close> = assert(client(listener))
    check.equal(conn:read(1), "x") -- and with it the ticket
    local _, is_resumed = serving:join()
    check.equal(web.facts(conn).resumed, is_resumed)
    return is_resumed
  end
  check.equal(connect(), false)
  check.equal(connect(), true)
end

function case.certificates_are_read_again_without_a_restart()
  local cert, key = check.scratch "cert", check.scratch "key"
  local function use(name)
    check.write_file(cert, check.read_file(file(name .. ".pem")))
    check.write_file(key, check.read_file(file(name .. ".key")))
  end
  use "localhost"
  local context = web.context { cert = cert, key = key }
  local function connects(name)
    local listener, serving = server(context, echo)
    local conn = client(listener, { name = name })
    if conn then conn:close() end
    serving:join()
    return conn ~= nil
  end
  check.equal(connects "localhost", true)
  use "other"
  check.equal(connects "localhost", true, "before")
  check.results("reload", { true }, context:reload())
  check.equal(connects "localhost", false, "after")
  check.equal(connects "other.example", true)
  check.write_file(cert, "")
  local done, why = context:reload()
  check.equal(done, nil)
  check.matches(why, "has no certificate")
  check.equal(connects "other.example", true, "after a reload that failed")
end

-- Peers that behave badly
-- -------------------------------------------------------------------------------------------------

-- What a server says of a client that sends these bytes, one by one or at once, and then ends.
local function said_of(bytes, keeps_open)
  local listener, serving = server(pair "localhost", echo)
  local conn = assert(net.connect(listener:address()))
  assert(conn:write(bytes))
  if not keeps_open then conn:close() end
  local _, _, why = serving:join()
  conn:close()
  return why
end

function case.a_client_that_leaves_in_the_handshake_is_told()
  check.equal(said_of "", "the peer closed the connection in the handshake")
  check.equal(said_of "\x16\x03\x01\x02\x00\x01", "the peer closed the connection in the handshake")
end

function case.what_is_not_tls_is_told()
  local why = "what came is not TLS; does the peer's port expect TLS?"
  check.equal(said_of("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", true), why)
  check.matches(said_of(("\0"):rep(100), true), "%a")
  check.matches(said_of("\x16\x03\x01\x00\x64" .. ("\xff"):rep(100), true), "malformed")
end

function case.a_record_that_is_too_large_is_told()
  check.matches(said_of("\x16\x03\x01\xff\xff" .. ("\1"):rep(20000), true), "%a")
end

function case.a_server_that_speaks_no_tls_is_told()
  local listener = assert(net.listen "127.0.0.1:0")
  process.spawn(function()
    local conn <close> = assert(listener:accept())
    conn:write "220 mail.example ESMTP\r\n"
    conn:read "all"
  end)
  local _, why = client(listener)
  check.equal(why, "what came is not TLS; does the peer's port expect TLS?")
end

function case.a_handshake_that_does_not_go_on_ends_by_its_timeout()
  local listener, serving = server(with(pair "localhost", { timeout = 0.05 }), echo)
  local conn <close> = assert(net.connect(listener:address()))
  check.results("the server", { true, nil, "timeout" }, serving:join())
  check.results("the client", { nil, "closed", n = 2 }, conn:read "line")
end

-- A connection between a client and a server, each of whose bytes goes through f(byte, count).
local function through(listener, f)
  local proxy = assert(net.listen "127.0.0.1:0")
  process.spawn({ daemon = true, quiet = true }, function()
    local inner = assert(proxy:accept())
    local outer = assert(net.connect(listener:address()))
    local function carry(from, to, way)
      local count = 0
      local bytes = from:read "some"
      while bytes do
        for byte in bytes:gmatch "." do
          count = count + 1
          if not f(byte, count, way) then return to:close(), from:close() end
          if not to:write(byte) then return end
        end
        bytes = from:read "some"
      end
      to:shutdown()
    end
    process.spawn({ daemon = true, quiet = true }, carry, inner, outer, "up")
    carry(outer, inner, "down")
  end)
  return proxy
end

function case.bytes_may_come_one_by_one()
  local listener, serving = server(pair "localhost", echo)
  local conn = assert(client(through(listener, function() return true end)))
  assert(conn:write "hello\n")
  check.equal(conn:read "line", "hello")
  conn:close()
  check.results("the server", { true, "done" }, serving:join())
end

function case.the_parts_of_a_write_share_a_record()
  local listener, serving = server(pair "localhost", function(conn)
    assert(conn:write "begin\n")
    conn:read "line"
    assert(conn:write("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
    return conn:read "line" -- until the client has counted
  end)
  local down = 0
  local conn = assert(client(through(listener, function(_, count, way)
    if way == "down" then down = count end
    return true
  end)))
  check.equal(conn:read "line", "begin")
  local before = down
  assert(conn:write "\n")
  check.equal(conn:read(10), "0123456789")
  check.equal(down - before, 5 + 10 + 1 + 16) -- head, text, kind, tag
  conn:close()
  serving:join()
end

function case.an_end_that_the_peer_has_not_announced_is_no_end()
  local listener, serving = server(pair "localhost", function(conn)
    conn:write "half of "
    return conn:read "all"
  end)
  local is_cut = false
  local proxy = through(listener, function() return not is_cut end)
  local conn = assert(client(proxy))
  check.equal(conn:read(8), "half of ")
  is_cut = true
  assert(conn:write "x")
  local text, why = conn:read "all"
  check.equal(text, nil)
  check.matches(why, "^the connection was cut off: ")
  serving:join()
end

function case.an_end_that_the_peer_announces_is_one()
  local listener, serving = server(pair "localhost", function(conn)
    conn:write "all"
    return conn:shutdown()
  end)
  local conn <close> = assert(client(listener))
  check.equal(conn:read "all", "all")
  check.results("the server", { true, true }, serving:join())
  listener, serving = server(pair "localhost", function(other) return other:write "all" end)
  local second <close> = assert(client(listener))
  check.equal(second:read "all", "all", "after a close")
  serving:join()
end

function case.a_connection_with_tls_moves_to_another_vm()
  local vm = require "baton.vm"
  local listener, serving = server(pair "localhost", function(conn)
    assert(conn:write "from here\n")
    local w = vm.spawn(function(other)
      local line = other:read "line"
      other:write("there: ", line, "\n")
      other:close()
    end, vm.move(conn))
    return w:join()
  end)
  local conn <close> = assert(client(listener))
  check.equal(conn:read "line", "from here")
  assert(conn:write "hello\n")
  check.equal(conn:read "line", "there: hello")
  check.equal(conn:read "line", nil)
  check.equal((select(2, serving:join())), true)
end

function case.a_byte_that_was_changed_on_its_way_is_told()
  local listener, serving = server(pair "localhost", function(conn)
    assert(conn:write "begin\n")
    return echo(conn)
  end)
  local changes = false
  local proxy = assert(net.listen "127.0.0.1:0")
  process.spawn({ daemon = true, quiet = true }, function()
    local inner = assert(proxy:accept())
    local outer = assert(net.connect(listener:address()))
    process.spawn({ daemon = true, quiet = true }, function()
      while outer do
        local bytes = outer:read "some"
        if not bytes then return end
        inner:write(bytes)
      end
    end)
    while true do
      local bytes = inner:read "some"
      if not bytes then return end
      if changes then bytes = bytes:sub(1, -2) .. string.char(bytes:byte(-1) ~ 1) end
      outer:write(bytes)
    end
  end)
  local conn <close> = assert(client(proxy))
  check.equal(conn:read "line", "begin")
  changes = true
  assert(conn:write "hello\n")
  local text, why = conn:read "line"
  check.equal(text, nil)
  check.matches(why, "%(alert BadRecordMac%)$")
  check.results("the server", { true, "done" }, serving:join())
end

function case.a_renegotiation_is_refused()
  local listener, serving = server(pair "localhost", echo)
  local output = check.scratch "output"
  local command = "timeout 60 openssl s_client -tls1_2 -connect 127.0.0.1:%s >%s 2>&1"
  local pipe = assert(io.popen(command:format(port_of(listener), output), "w"))
  local function says(text)
    check.eventually(text, function() return check.read_file(output):find(text, 1, true) end)
  end
  check.eventually("openssl runs", function() return io.open(output) end)
  assert(pipe:write "hello\n" and pipe:flush())
  says "\nhello\n"
  assert(pipe:write "R\n" and pipe:flush())
  says "no renegotiation"
  pipe:close()
  serving:join()
end

function case.an_old_version_is_refused()
  local listener, serving = server(pair "localhost", echo)
  local said = s_client(listener, "-quiet -tls1_1 -cipher DEFAULT@SECLEVEL=0")
  check.matches(said, "alert")
  check.matches(select(3, serving:join()), "neither TLS 1.3 nor TLS 1.2")
end

-- Waits
-- -------------------------------------------------------------------------------------------------

local function is_killed(p)
  check.becomes(p, "waiting")
  check.equal(p:kill(), true)
  check.results("the killed process", { false, "killed" }, p:join())
end

function case.a_process_is_killed_in_each_wait()
  local listener = assert(net.listen "127.0.0.1:0")
  local silent = assert(net.connect(listener:address()))
  local conn = assert(listener:accept())
  is_killed(process.spawn({ quiet = true }, function() web.tls(conn, pair "localhost") end))
  silent:close()
  conn:close()

  local are_killed, serving = process.event()
  listener, serving = server(pair "localhost", function(other)
    is_killed(process.spawn({ quiet = true }, function() other:read "line" end))
    is_killed(process.spawn({ quiet = true }, function()
      while true do other:write(("x"):rep(100000)) end
    end))
    are_killed:set()
    return other:write "\n"
  end)
  local peer <close> = assert(client(listener))
  are_killed:wait()
  local last
  repeat -- what comes is whole
    last = check.matches(assert(peer:read "some"), "^x*\n?$")
  until last:find "\n"
  check.results("the server", { true, true }, serving:join())
end

function case.others_run_while_files_are_read()
  local fifo = check.fifo()
  local listener, serving = server(pair "localhost", echo)
  local connecting = process.spawn(function() return client(listener, { ca = fifo }) ~= nil end)
  check.becomes_stuck(connecting, "open")
  check.write_file(fifo, check.read_file(file "ca.pem"))
  check.results("the client", { true, true }, connecting:join())
  listener:close()
  collectgarbage()
  serving:join()
end

function case.a_wrong_option_is_refused()
  local listener <close> = assert(net.listen "127.0.0.1:0")
  local conn <close> = assert(net.connect(listener:address()))
  local function refuses(pattern, options)
    check.raises(pattern, function() web.tls(conn, options) end)
  end
  refuses("bad argument #2 to 'tls' %(unknown option 'certificate'%)", { certificate = "x" })
  refuses("option 'alpn': list of strings expected, got h2", { alpn = "h2" })
  refuses("options 'cert' and 'key' expected together", { cert = "x" })
  refuses("option 'name' expected for a client, or 'cert' and 'key' for a server", {})
  refuses("table expected, got number", 1)
  check.raises("option 'name' expected for a client", function() net.tls(conn) end)
  check.raises("connection expected, got ", function() web.tls(1, { name = "x" }) end)
end

check.run(case)
