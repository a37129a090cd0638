-- luaossl: digests, ciphers, keys, certificates and their chains.
local bignum = require "openssl.bignum"
local cipher = require "openssl.cipher"
local digest = require "openssl.digest"
local hmac = require "openssl.hmac"
local kdf = require "openssl.kdf"
local pkey = require "openssl.pkey"
local rand = require "openssl.rand"
local store = require "openssl.x509.store"
local x509 = require "openssl.x509"
local make_certificate = dofile((arg[0]:gsub("[^/]*$", "")) .. "certificate.lua")

local function hex(bytes)
  return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function symmetric(t)
  t.say(hex(digest.new("sha256"):final "abc"))
  local parts = digest.new "sha1"
  for _ = 1, 10000 do parts:update(("a"):rep(100)) end
  t.say(hex(parts:final()))
  t.say(hex(hmac.new("key", "sha256"):final "The quick brown fox jumps over the lazy dog"))
  t.say(
    hex(
      kdf.derive {
        type = "PBKDF2",
        md = "sha1",
        pass = "password",
        salt = "salt",
        iter = 4096,
        outlen = 20,
      }
    )
  )
  local key, iv, text = ("k"):rep(32), ("i"):rep(16), ("secret "):rep(1000)
  local sealed = cipher.new("aes-256-cbc"):encrypt(key, iv):final(text)
  t.say(#sealed, cipher.new("aes-256-cbc"):decrypt(key, iv):final(sealed) == text)
  t.say((cipher.new("aes-256-cbc"):decrypt(key, iv):final(sealed:sub(1, -2))))
  t.say(#rand.bytes(32), rand.uniform(2) < 2, rand.bytes(16) ~= rand.bytes(16))
end

local function numbers(t)
  local two = bignum.new(2)
  t.say(
    tostring(two ^ 127 - bignum.new(1)),
    (two ^ 127 - bignum.new(1)):isPrime(),
    (two ^ 128 + bignum.new(1)):isPrime()
  )
  t.say(
    tostring(bignum.fromBinary "\1\0\0\0\0\0\0\0\0" * bignum.new(-3)),
    bignum.new(10) < bignum.new(11)
  )
end

local function keys(t)
  for _, key in ipairs {
    pkey.new { type = "RSA", bits = 1024 },
    pkey.new { type = "EC", curve = "secp384r1" },
  } do
    local public = pkey.new(key:toPEM "public")
    local signature = key:sign(digest.new("sha256"):update "text")
    t.say(public:verify(signature, digest.new("sha256"):update "text"))
    t.say(public:verify(signature, digest.new("sha256"):update "other"))
  end
  t.say((pcall(pkey.new, "no key")))
end

local function certificates(t)
  local certificate, key = make_certificate(t.scratch)
  local again = x509.new(certificate:toPEM())
  t.say(
    tostring(again:getSubject()),
    again:getVersion(),
    again:isIssuedBy(certificate),
    again:getBasicConstraints "CA"
  )
  t.say(again:getPublicKey():toPEM "public" == key:toPEM "public")
  local trusted = store.new()
  trusted:add(certificate)
  t.say((trusted:verify(again)))
  t.say((store.new():verify(again)))
end

return function(t)
  symmetric(t)
  numbers(t)
  keys(t)
  certificates(t)
end
