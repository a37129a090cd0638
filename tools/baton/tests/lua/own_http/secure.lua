-- The server of baton.http over TLS. The certificates are those of tests/harness/certificates.rs.
local check = require "check"
local net = require "baton.net"
local http = require "baton.http"
local web = require "baton.web"
local case = {}
local directory = os.getenv "CERTIFICATES"

local GET = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"

local function file(name) return directory .. "/" .. name end

local OURS = { cert = file "localhost.pem", key = file "localhost.key" }

local function serve(options)
  options.tls = options.tls or OURS
  local handler = function(req) return 200, req.path .. req:body() end
  return assert(http.serve("127.0.0.1:0", handler, options))
end

local function plain(server)
  return assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
end

local function connect(server)
  return assert(web.tls(plain(server), { name = "localhost", ca = file "ca.pem" }))
end

local function ask(conn)
  assert(conn:write(GET))
  local line = conn:read "line"
  repeat local field = conn:read "line" until field == ""
  return line, conn:read(2)
end

function case.requests_and_replies_are_encrypted()
  local server <close> = serve {}
  local conn <close> = connect(server)
  for _ = 1, 3 do
    check.results("a reply", { "HTTP/1.1 200 OK", "/x" }, ask(conn))
  end
  check.that(web.facts(conn))
  check.equal(server:stats().requests, 3)
end

function case.files_and_packed_streams_are_encrypted()
  local text, path = ("a line of text\n"):rep(20000), check.scratch "file" .. ".bin"
  do
    local written <close> = assert(io.open(path, "w"))
    written:write(text)
  end
  local server <close> = assert(http.serve("127.0.0.1:0", function(req, res)
    if req.path == "/file" then return assert(res:file(path)) and nil end
    res:stream():write(text)
  end, { tls = OURS, compress = true }))
  local url = "https://localhost:" .. server:address():match "%d+$"
  local options = { pool = false, tls = { ca = file "ca.pem" } }
  check.that(assert(http.get(url .. "/file", options)):body() == text, "the file")
  check.that(assert(http.get(url .. "/stream", options)):body() == text, "the stream")
  options.headers = { ["Accept-Encoding"] = "gzip" }
  local packed = assert(http.get(url .. "/stream", options))
  check.equal(packed.headers["content-encoding"], "gzip")
  check.that(#packed:body() < #text // 10, "the size")
end

function case.several_vms_have_the_certificates()
  local path = check.scratch "module"
  local folder, name = path:match "^(.*)/([^/]*)$"
  do
    local module <close> = assert(io.open(path .. ".lua", "w"))
    module:write 'return function() return 200, require("baton.vm").current().name end'
  end
  package.path = folder .. "/?.lua;" .. package.path
  local server <close> = assert(http.serve("127.0.0.1:0", name, { vms = 2, tls = OURS }))
  local url = "https://localhost:" .. server:address():match "%d+$"
  local options = { pool = false, tls = { ca = file "ca.pem" } }
  check.matches(assert(http.get(url, options)):body(), "^http %d$")
  check.equal(server:stop(), 0)
end

function case.one_context_may_serve_several_servers()
  local context = web.context(OURS)
  local one <close> = serve { tls = context }
  local other <close> = serve { tls = context }
  for _, server in ipairs { one, other } do
    local conn <close> = connect(server)
    check.equal(ask(conn), "HTTP/1.1 200 OK")
  end
end

function case.bad_handshakes_harm_nobody()
  local server <close> = serve { header_timeout = 0.3 }
  local conn <close> = connect(server)
  local silent = plain(server) -- sends nothing
  local open = plain(server)
  open:write(GET) -- plain HTTP
  while open:read "some" do end
  local gone = plain(server)
  gone:write "\x16\x03\x01\x02\x00"
  gone:close()
  check.equal(ask(conn), "HTTP/1.1 200 OK")
  check.equal((silent:read "some"), nil)
  check.eventually("three", function() return server:stats().handshakes == 3 end)
  check.equal(ask(conn), "HTTP/1.1 200 OK")
  check.equal(server:stats().requests, 2)
  check.eventually("closed", function() return server:stats().connections == 1 end)
end

function case.stopping_ends_handshakes_and_counts_none_of_them()
  local server = serve {}
  local silent <close> = plain(server)
  check.eventually("a connection", function() return server:stats().connections == 1 end)
  check.equal(server:stop(10), 0)
  check.equal((silent:read "some"), nil)
end

function case.certificates_that_cannot_be_read_are_told_at_once()
  local options = { tls = { cert = file "localhost.pem", key = "/nowhere.key" } }
  local server, why = http.serve("127.0.0.1:0", print, options)
  check.equal(server, nil)
  check.matches(why, "/nowhere.key")
  check.raises("option 'tls': table of options", http.serve, "127.0.0.1:0", print, { tls = true })
end

function case.a_client_chooses_the_version()
  local ask = function(server, alpn)
    local options = { name = "localhost", ca = file "ca.pem", alpn = alpn }
    local conn <close> = assert(web.tls(plain(server), options))
    local chosen = web.facts(conn).alpn
    conn:write(chosen == "h2" and "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0" or GET)
    return chosen, conn:read(4):sub(4)
  end
  local server <close> = serve {}
  local both = { "h2", "http/1.1" }
  check.results("both", { "h2", "\4" }, ask(server, both))
  check.results("the old one", { "http/1.1", "P" }, ask(server, { "http/1.1" }))
  check.results("none", { nil, "P", n = 2 }, ask(server, nil))
  local without <close> = serve { http2 = false }
  check.results("not offered", { nil, "P", n = 2 }, ask(without, both))
  local tls = web.context { cert = OURS.cert, key = OURS.key, alpn = both }
  local context <close> = serve { tls = tls }
  check.results("of a context", { "h2", "\4" }, ask(context, both))
end

check.run(case)
