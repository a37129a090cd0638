---@meta baton.web

-- TLS and WebSocket over connections of `baton.net`. The module is a file, `baton/web.so`, which
-- packages have. Each wait stops only its own process.

---A server with TLS, and what connects to it:
---
---| side | call |
---|---|---|
---| server | `net.tls(listener:accept(), { cert = "server.pem", key = "server.key" })` |
---| client | `net.connect("example.org:443", { tls = true })` |
---| client, own authority | `net.connect(address, { tls = { ca = "ca.pem", name = "shop" } })` |
---
---All handshakes and reads wait as those of plain connections do, and may be killed. A side of a
---handshake computes for 0.4 ms, or for 1 ms with an RSA key of 2048 bits. No other process of the
---VM runs meanwhile.
---
---A server answers each WebSocket in a process of its own:
---
---```lua
---local net = require "baton.net"
---local process = require "baton.process"
---local web = require "baton.web"
---
---local listener = assert(net.listen "127.0.0.1:0")
---
---process.spawn({ daemon = true }, function()
---  while true do
---    local conn = assert(listener:accept())
---    process.spawn({ daemon = true }, function()
---      local ws <close> = web.accept(conn)
---      if not ws then return end
---      for text in ws:messages() do ws:send("you said " .. text) end
---    end)
---  end
---end)
---
---local ws = assert(web.connect("ws://" .. listener:address() .. "/chat"))
---ws:send "hello"
---print(ws:receive(5))
---print(ws:close())
---```
---
---```text
---you said hello	text
---true
---```
---
---What could not be done is `nil` and a reason: "timeout", "closed", or a text that says what to
---do.
---@class baton.web
local web = {}

---Options of TLS, for both sides. A certificate, key or authority is the name of a file in the
---format PEM, or such a text. Connections with equal options share what was read for them, and
---resume each other's sessions.
---@class (exact) baton.web.TlsOptions
---@field cert? string the own certificate, and behind it those of authorities between
---@field key? string its key
---@field certs? { cert: string, key: string }[] of a server: the first that is for the name that the client asks for; else the first
---@field ca? string a client: the authorities, in place of the system's. A server: clients need a certificate of one of them
---@field verify? boolean | "optional" false: any certificate is accepted, which protects from nobody who can change what is sent. "optional": clients may have none
---@field name? string a client: the host that the server must prove to be; `net.connect` knows it
---@field alpn? string[] protocols, the preferred one first
---@field server? boolean which side this is; without it, one that has `cert` and no `name` is a server
---@field timeout? number seconds for the handshake; default 10

---Options of TLS, read once. They stand for a table of options wherever one is expected.
---@param options baton.web.TlsOptions
---@return baton.web.Context context
function web.context(options) end

---What `web.context` returns.
---@class baton.web.Context
local Context = {}

---Reads all files again, for connections that begin from now on. If that fails, the context stays
---as it was. Without `ca`, the system's authorities are read again, too.
---@return true? done
---@return string? why
function Context:reload() end

---Puts TLS over a connection, as `net.tls` does. The connection is closed if that fails.
---@param connection baton.net.Connection
---@param options? baton.web.TlsOptions | baton.web.Context
---@param known? { name?: string, server?: boolean, timeout?: number } what the caller knows of it
---@return baton.net.Connection? connection the same one
---@return string? why
function web.tls(connection, options, known) end

---What is known of a connection's TLS.
---@class (exact) baton.web.Facts
---@field version string "TLSv1.3" or "TLSv1.2"
---@field cipher string
---@field alpn? string the protocol that both sides know
---@field name? string the name that the client asked for; known to a server
---@field certificate? string the peer's certificate, in the format DER
---@field resumed boolean whether the session continues an earlier one

---What is known of a connection's TLS; nil if it has none.
---@param connection baton.net.Connection
---@return baton.web.Facts? facts
function web.facts(connection) end

---Options of a server's side of WebSocket. Limits are in bytes.
---@class (exact) baton.web.SocketOptions
---@field protocols? string[] protocols of ours, the preferred one first
---@field max_message? integer the largest message that is received; default 1 MiB
---@field max_frame? integer the largest frame; default `max_message`
---@field keepalive? number a peer that is silent for so many seconds is sent a ping, and given up after as many again, while a process receives
---@field timeout? number seconds for the upgrade; default 10

---Options of `web.connect`.
---@class (exact) baton.web.ConnectOptions
---@field url string ws://HOST/PATH or wss://HOST/PATH
---@field protocols? string[] protocols that the server may choose from
---@field max_message? integer bytes of the largest message that is received; default 1 MiB
---@field max_frame? integer bytes of the largest frame; default `max_message`
---@field keepalive? number a peer that is silent for so many seconds is sent a ping, and given up after as many again, while a process receives
---@field timeout? number seconds for the connection and the upgrade; default 10
---@field headers? table<string, string> more fields of the request
---@field tls? true | baton.web.TlsOptions | baton.web.Context for wss

---Connects to a server of WebSocket. The third result is the status of an answer that is no
---upgrade.
---@param options string | baton.web.ConnectOptions a URL alone, or options
---@return baton.web.Socket? ws
---@return string? why
---@return integer? status
function web.connect(options) end

---The server's side of a connection that speaks nothing but WebSocket: reads the request, and
---answers it. `ws.path` and `ws.headers` have the request's. One that asks for something else gets
---an answer that says so, and the connection is closed.
---@param connection baton.net.Connection
---@param options? baton.web.SocketOptions
---@return baton.web.Socket? ws
---@return string? why
function web.accept(connection, options) end

---What a server answers to a request that it has read itself: the fields of the head for the status
---101. Or nil, another status, and why.
---@param method string
---@param headers table<string, string> by names in small letters
---@param options? baton.web.SocketOptions
---@return table<string, string>? answer
---@return integer? status
---@return string? why
function web.upgrade(method, headers, options) end

---The server's side of a connection to which such an answer has been written.
---@param connection baton.net.Connection
---@param answer table<string, string> what `web.upgrade` has returned
---@param options? baton.web.SocketOptions the same
---@return baton.web.Socket ws
function web.socket(connection, answer, options) end

---One side of a WebSocket. A `<close>` variable closes it without waiting for the peer.
---@class baton.web.Socket
---@field conn baton.net.Connection
---@field protocol? string the protocol that both sides know
---@field path? string of the request, at the server
---@field headers table<string, string> of the peer, by names in small letters
local Socket = {}

---Waits for the next message. Pings are answered meanwhile. Returns nil, "closed", and the peer's
---code and reason once the peer has closed (1005: without a code). A peer that breaks the protocol
---or a limit is told so, and its connection is closed. Only after "timeout" can more be received.
---@param timeout? number
---@return string? data
---@return string kind "text" or "binary"; or why there is none
---@return integer? code
---@return string? reason
function Socket:receive(timeout) end

---Iterates over the messages, until none comes any more: `for data, kind in ws:messages() do`.
---@return fun(): string?, string?
function Socket:messages() end

---Sends a text in UTF-8. Waits while the peer is slow. After "timeout" the message may be on its
---way: the next call goes on with it. Several processes may send, and no message is torn, even if
---one is killed.
---@param text string
---@param timeout? number
---@return true? sent
---@return string? why
function Socket:send(text, timeout) end

---Sends any bytes.
---@param bytes string
---@param timeout? number
---@return true? sent
---@return string? why
function Socket:send_binary(bytes, timeout) end

---Sends a ping with at most 125 bytes. The peer's pong is dropped.
---@param data? string
---@param timeout? number
---@return true? sent
---@return string? why
function Socket:ping(data, timeout) end

---Closes, and waits up to 5 seconds until the peer has. What comes meanwhile is dropped.
---@param code? integer default 1000
---@param reason? string at most 123 bytes
---@return true? done
---@return string? why
function Socket:close(code, reason) end

return web
