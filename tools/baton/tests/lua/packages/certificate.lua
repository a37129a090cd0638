-- A key (of this kind, or else of an elliptic curve) and a certificate signed by itself, made by
-- luaossl, as files in `dir`.
local pkey = require "openssl.pkey"
local x509 = require "openssl.x509"
local name = require "openssl.x509.name"
local extension = require "openssl.x509.extension"

local function write(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
end

return function(dir, kind)
  local key = pkey.new(kind or { type = "EC", curve = "prime256v1" })
  local subject = name.new()
  subject:add("CN", "localhost")
  local certificate = x509.new()
  certificate:setVersion(3)
  certificate:setSerial(1)
  certificate:setSubject(subject)
  certificate:setIssuer(subject)
  certificate:setLifetime(os.time() - 60, os.time() + 3600)
  certificate:setPublicKey(key)
  certificate:addExtension(extension.new("basicConstraints", "critical,CA:TRUE"))
  certificate:sign(key)
  write(dir .. "/key.pem", key:toPEM "private")
  write(dir .. "/certificate.pem", certificate:toPEM())
  return certificate, key
end
