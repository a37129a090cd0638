-- In a TLS handshake, OpenSSL calls a function of the program by way of luaossl, on the state that
-- luaossl has stored: the main one. Errors in it stay there.
local context = require "openssl.ssl.context"
local cqueues = require "cqueues"
local make_certificate = require "packages.certificate"
local process = require "baton.process"
local socket = require "cqueues.socket"

local certificate, key = make_certificate(os.getenv "SCRATCH")

local function fail() error "as the test wants it" end

local function handshake()
  local calls = 0
  local server, client = context.new("TLS", true), context.new("TLS", false)
  server:setPrivateKey(key)
  server:setCertificate(certificate)
  server:setAlpnSelect(function(_, protocols)
    calls = calls + 1
    assert(not pcall(string.gsub, "x", "x", fail))
    assert(not pcall(table.sort, { 2, 1 }, fail))
    return protocols[1]
  end)
  client:setVerify(context.VERIFY_NONE)
  client:setAlpnProtos { "h2", "http/1.1" }
  local ours, theirs = socket.pair()
  local loop = cqueues.new()
  loop:wrap(function()
    assert(ours:starttls(server))
    ours:write "hello\n"
    ours:flush()
  end)
  loop:wrap(function()
    assert(theirs:starttls(client))
    assert(theirs:read "*l" == "hello")
    assert(theirs:checktls():getAlpnSelected() == "h2")
  end)
  assert(loop:loop())
  assert(calls == 1)
end

handshake()
for _ = 1, 5 do
  assert(process.spawn(handshake):join())
  assert(not pcall(fail)) -- the main state's handlers are its own
end
print "sound"
