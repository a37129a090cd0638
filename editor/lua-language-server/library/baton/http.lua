---@meta baton.http

-- HTTP/1.1 and HTTP/2 servers, and a client of HTTP/1.1. Each connection of a server is a process,
-- and so is each request of HTTP/2: a handler may wait. All that a peer sends is bounded, in size
-- and in time.

---A server is an address and a function:
---
---```lua
---local http = require "baton.http"
---local net = require "baton.net"
---
---local server = assert(http.serve("127.0.0.1:0", function(req, res)
---  if req.method == "POST" then return 201, "you sent " .. req:body() end
---  return 200, "hello " .. (req.query.name or "world")
---end))
---
---local conn <close> = assert(net.connect(server:address()))
---conn:write "GET /?name=you HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
---print(conn:read "line")
---print(conn:read("all"):match "\r\n\r\n(.*)")
---print(server:stop())
---```
---
---```text
---HTTP/1.1 200 OK
---hello you
---0
---```
---
---The server writes Date, Content-Length, Transfer-Encoding and Connection itself. A handler that
---wants the connection to end sets the field Connection to "close".
---
---Over TLS, clients choose HTTP/2 if they can. Handlers see the same objects with all their
---methods. A request is a process then, and the requests of a connection run at once. A client may
---take a request back, which kills no handler: its reads and writes return nil and "closed". A
---file that becomes shorter while it is sent resets the request. No request of HTTP/2 becomes a
---WebSocket: `http.websocket` answers 426.
---
---A client that sends what could be read in two ways gets 400, and its connection ends: two
---lengths, a folded line, a line without "\r", no Host or two. Other statuses are 408 for a slow
---head or body, 413 and 431 for what is too large, 417, 501 for methods and codings that are not
---known, and 505. No handler is called for any of these, apart from bodies, which a handler reads.
---A handler that fails after its body could not be read gives the body's status.
---@class baton.http
local http = {}

---Options of `http.serve`. Times are seconds.
---@class (exact) baton.http.ServeOptions
---@field header_timeout? number for a whole head, from its first byte; default 10
---@field body_timeout? number for a whole body, from when it is read, and for each 256 KiB of a reply; default 30
---@field idle_timeout? number for the next request of a connection; default 60
---@field handler_timeout? number for a handler, which runs in a process of its own then, and is killed; the client gets 504
---@field max_header? integer bytes of a head; default 16384
---@field max_body? integer bytes of a body; default 1 MiB
---@field max_connections? integer connections that may be open; others wait to be accepted; default 10000
---@field max_handlers? integer requests that may be handled at once; others get 503
---@field max_streams? integer requests that may be open at once on a connection of HTTP/2; default 100
---@field http2? boolean true: also without TLS, for clients that begin with it; false: not even with TLS; default: clients may choose it with TLS. A `baton.web.context` names the protocols itself: `alpn = { "h2", "http/1.1" }`
---@field on_error? fun(message: string, req: baton.http.Request) called with the traceback of a handler that fails; it is written on stderr otherwise
---@field access_log? true | file* | fun(req: baton.http.Request, figures: baton.http.Figures) true: lines of `baton.log`, which never wait for a slow reader; a file: lines of the combined format; or a function that is called after each request
---@field compress? boolean texts of 1 KiB and more go in gzip to clients that take it
---@field reuseport? boolean several servers may have the port, and share its connections
---@field name? string of the processes; default "http"
---@field vms? integer as many VMs serve the address, each with the limits of these options; `handler` is the name of a module then
---@field tls? baton.web.TlsOptions | baton.web.Context the server speaks TLS; `header_timeout` is also the time for a handshake

---What a function for the access log gets.
---@class baton.http.Figures
---@field status integer
---@field sent integer bytes of the reply's body
---@field seconds number since the head had come

---What `server:stats()` returns. Counts are since the start.
---@class baton.http.Stats
---@field accepted integer connections
---@field connections integer that are open now
---@field handlers integer that run now
---@field requests integer that handlers got
---@field refused integer requests that no handler got
---@field timeouts integer heads, bodies and handlers that took too long
---@field failures integer handlers that failed
---@field handshakes integer handshakes of TLS that failed
---@field replies integer[] by the first digit of their status: `replies[1]` are WebSockets

---Serves an address, or a listener of `baton.net`. The function `handler` is called with each
---request. It returns a status, a body and fields; or a body alone; or it has sent the reply. The
---program goes on until the server is stopped.
---
---Each connection, and each request of HTTP/2, is a daemon with the caller's priority and
---`decay = true`: a handler that computes for longer than a slice runs a level below until it
---waits, and the others run before it. The process that accepts connections is a level above.
---
---With `compress`, replies whose Content-Type is a text, JSON or XML are sent in gzip if the
---client's `Accept-Encoding` prefers it. Streams are, too, and what is written reaches the client
---at once. The fields Content-Encoding and Vary are added, and an ETag becomes a weak one. Left
---alone are events, ranges, bodies that have a Content-Encoding, and replies with `no-transform` in
---Cache-Control. Do not compress pages that have both a secret and what a client has sent: the size
---tells about the secret.
---
---With `vms`, so many VMs serve the address, each on a thread of its own. `handler` is the name of
---a module, which each of them requires, and which returns a router or a function. Options are sent
---to the VMs, so `tls` is a table then. If the module cannot be loaded, the call returns nil and
---why. `server:stats()` adds up, and `server:stop()` stops all, and ends their VMs. In a simulated
---run, the server is in the caller's VM alone.
---
---With the option `tls`, the files of certificates are read before the call returns, and it returns
---nil and why if they cannot be used. `tls:reload()` of a `baton.web.context` reads them again.
---@param address string | baton.net.Listener
---@param handler baton.http.Router | string | fun(req: baton.http.Request, res: baton.http.Request): ...
---@param options? baton.http.ServeOptions
---@return baton.http.Server? server
---@return string? why
function http.serve(address, handler, options) end

---Makes a request a WebSocket, within its handler. A client that asks for something else gets its
---answer (400, 405 or 426), and the handler gets nil and why.
---
---```lua
---local http = require "baton.http"
---local web = require "baton.web"
---
---local server <close> = assert(http.serve("127.0.0.1:0", function(req, res)
---  local ws <close> = assert(http.websocket(req, res))
---  for text in ws:messages() do ws:send("you said " .. text) end
---end))
---
---local ws = assert(web.connect("ws://" .. server:address() .. "/"))
---ws:send "hello"
---print((ws:receive()))
---ws:close()
---```
---
---```text
---you said hello
---```
---
---The socket is the program's: it may outlive the handler in another process, and is no connection
---of the server's `stats` then. If the handler fails, the socket is closed with the code 1011.
---`server:stop` closes it with the code 1001, and waits for the peer's answer.
---@param req baton.http.Request
---@param res baton.http.Request
---@param options? baton.web.SocketOptions
---@return baton.web.Socket? socket
---@return string? why
function http.websocket(req, res, options) end

---A router finds the handler of a request by its method and path. `http.serve` takes it in place of
---a function:
---
---```lua
---local http = require "baton.http"
---local net = require "baton.net"
---
---local r = http.router()
---r:use(function(req, _, next)
---  print(req.method, req.path)
---  return next()
---end)
---r:get("/notes/:id", function(req) return 200, "note " .. req.params.id end)
---
---local server <close> = assert(http.serve("127.0.0.1:0", r))
---for _, path in ipairs { "/notes/7", "/else" } do
---  local conn <close> = assert(net.connect(server:address()))
---  conn:write("GET ", path, " HTTP/1.1\r\nHost: here\r\n\r\n")
---  print(conn:read "line")
---end
---```
---
---```text
---GET	/notes/7
---HTTP/1.1 200 OK
---GET	/else
---HTTP/1.1 404 Not Found
---```
---@return baton.http.Router router
function http.router() end

---Options of `http.request`. `http.get` and `http.post` take them as well.
---@class (exact) baton.http.RequestOptions
---@field url? string `http://HOST/PATH` or `https://HOST/PATH`
---@field method? string default "GET", or "POST" if there is a body
---@field headers? table<string, string | number | (string | number)[]> fields; the client sets Host and User-Agent if they are not here, and Content-Length and Transfer-Encoding always
---@field body? string | file* | fun(): string? an open file is sent from its position on; a function is called until it returns nil, and what it returns is sent in chunks
---@field timeout? number seconds for each step: to connect, to send 256 KiB, to wait for the head of the reply, and later to read the body; default 30
---@field redirects? integer redirects that are followed; with 0, a redirect is the reply; default 10
---@field retries? integer how often a request is sent again whose connection failed before a reply came, if its method is idempotent, after 0.1 seconds and then after twice as long each time; default 0
---@field max_header? integer bytes of the reply's head; default 65536
---@field pool? baton.http.Pool | false where connections are kept; false: nowhere; default: one pool of the VM
---@field tls? table options of TLS for https, as of `net.connect`, such as `ca`

---Options of `http.pool`.
---@class (exact) baton.http.PoolOptions
---@field size? integer idle connections at most; default 64
---@field per_host? integer idle connections to one origin at most; default 8
---@field idle_timeout? number seconds after which an idle connection is closed; default 30

---Sends a request, and waits for the head of the reply. Takes a table, or an address alone. The
---connection is kept for the next request to the same origin once the body has been read:
---
---```lua
---local http = require "baton.http"
---
---local server <close> = assert(http.serve("127.0.0.1:0", function(req)
---  return 200, req.method .. " " .. req.path .. " " .. req:body()
---end))
---
---local res <close> = assert(http.request {
---  url = "http://" .. server:address() .. "/notes",
---  method = "PUT",
---  headers = { ["Content-Type"] = "text/plain" },
---  body = "a note",
---  timeout = 5,
---})
---print(res.status, res:body())
---```
---
---```text
---200	PUT /notes a note
---```
---
---A connection of the pool that the server has closed meanwhile is replaced, if the method is
---idempotent: GET, HEAD, PUT, DELETE, OPTIONS or TRACE. A request with another method may have
---taken effect, and is never sent twice.
---
---A redirect to another origin loses the fields Authorization, Cookie, Host and
---Proxy-Authorization. One from https to http is refused. A body that is a function cannot be sent
---again: the redirect is the reply then.
---@param options baton.http.RequestOptions | string
---@return baton.http.Response? response
---@return string? why "timeout", "closed", "cut off", "malformed", "too large", "too many redirects", or what the system says
function http.request(options) end

---Sends a GET.
---@param url string
---@param options? baton.http.RequestOptions
---@return baton.http.Response? response
---@return string? why as of `request`
function http.get(url, options) end

---Sends a POST.
---@param url string
---@param body? string | file* | fun(): string?
---@param options? baton.http.RequestOptions
---@return baton.http.Response? response
---@return string? why as of `request`
function http.post(url, body, options) end

---Makes a pool of connections, for the option `pool`. A full pool closes an older connection.
---@param options? baton.http.PoolOptions
---@return baton.http.Pool pool
function http.pool(options) end

---What `http.router` makes. It may be changed while a server uses it. A pattern is compared with
---the path as it came. In a pattern, `/:name` matches one segment, and `/*name` at its end all that
---is left, each at least one byte. Their decoded values are in `req.params`. The most exact pattern
---wins: "/notes/new" before "/notes/:id".
---
---No pattern matches: 404. No handler for the method: 405 with the field Allow, or 204 if the
---method is OPTIONS. HEAD is answered by the handler of GET.
---@class baton.http.Router
local Router = {}

---Adds a handler of GET.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:get(pattern, handler) end

---Adds a handler of HEAD, in place of that of GET.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:head(pattern, handler) end

---Adds a handler of POST.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:post(pattern, handler) end

---Adds a handler of PUT.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:put(pattern, handler) end

---Adds a handler of PATCH.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:patch(pattern, handler) end

---Adds a handler of DELETE.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:delete(pattern, handler) end

---Adds a handler of OPTIONS.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:options(pattern, handler) end

---Adds a handler of all methods that have none of their own at this pattern.
---@param pattern string
---@param handler fun(req: baton.http.Request, res: baton.http.Request): ...
---@return baton.http.Router self
function Router:any(pattern, handler) end

---Adds a function around all that the router answers, 404 and 405 as well. Those that were added
---first are called first. The function returns `next()`, which answers the request, or a reply of
---its own.
---@param f fun(req: baton.http.Request, res: baton.http.Request, next: fun(): ...): ...
---@return baton.http.Router self
function Router:use(f) end

---Lets another router answer what is at a prefix and below it. The other router's patterns begin
---behind the prefix, which may have parameters.
---@param prefix string
---@param other baton.http.Router
---@return baton.http.Router self
function Router:mount(prefix, other) end

---Options of `router:static`.
---@class (exact) baton.http.StaticOptions
---@field index? string | false the file that stands for a directory; false: none; default "index.html"
---@field max_age? integer seconds for which clients need not ask again
---@field hidden? boolean files and directories whose names begin with a dot are served as well; default false

---Serves the files below a directory, as `req:file` does, at a prefix:
---
---```lua
---local http = require "baton.http"
---
---local directory = os.tmpname()
---os.remove(directory)
---os.execute("mkdir " .. directory)
---io.open(directory .. "/hello.txt", "w"):write("hello"):close()
---
---local r = http.router():static("/assets", directory)
---local server <close> = assert(http.serve("127.0.0.1:0", r))
---local url = "http://" .. server:address() .. "/assets/"
---print(http.get(url .. "hello.txt"):body())
---print(http.get(url .. "../hello.txt").status)
---```
---
---```text
---hello
---404
---```
---
---A directory is answered with its index. A client that asks for it without "/" at the end is
---redirected to the path with one.
---
---Nothing outside of the directory is served. 404 is the answer to a path with a segment that is
---empty, ".", "..", begins with a dot, or has a slash, a backslash or a zero byte, whether encoded
---or not. Symbolic links are followed if they stay below the directory, and are relative. Where the
---system cannot confine that (Linux before 5.6, and containers that refuse `openat2`), no symbolic
---link is followed. A file that may not be read gives 403.
---
---The directory is looked up at each request: it may be replaced. Replace a file by renaming
---another to its name: then a client gets the old one or the new one, and no mixture.
---@param prefix string such as "/" or "/assets"
---@param directory string
---@param options? baton.http.StaticOptions
---@return baton.http.Router self
function Router:static(prefix, directory, options) end

---A server. A `<close>` variable stops it at once.
---@class baton.http.Server
local Server = {}

---The address, with its port.
---@return string address
function Server:address() end

---Its figures.
---@return baton.http.Stats stats
function Server:stats() end

---Stops to accept, ends idle connections, and closes WebSockets. Waits until open requests have
---been answered and WebSockets are closed, at most `grace` seconds, 10 by default. Then kills what
---is left.
---@param grace? number
---@return integer killed requests that were killed
function Server:stop(grace) end

---A request with its reply: `req` and `res` are one object. It may be kept, but once its handler
---has returned it cannot read or send. Other fields may be set, and are the program's own.
---@class baton.http.Request
---@field method string
---@field path string as it came, with its codes such as `%20`
---@field query table<string, string> decoded; of several values the first
---@field query_string string as it came
---@field target string path and query as they came
---@field headers table<string, string> names in lower case; several values have commas between
---@field host string
---@field version "2.0" | "1.1" | "1.0"
---@field peer string the address of the client
---@field params table<string, string> what the parameters of a router's patterns match; nil without a router
local Request = {}

---The value of a field, whatever the case of its name, without making the table `headers`.
---@param name string
---@return string? value
function Request:header(name) end

---Reads all of the body. A second call returns it again.
---@param max? integer bytes, if fewer than the server's `max_body`
---@return string? body
---@return string? why "too large", "timeout", "malformed" or "closed"
function Request:body(max) end

---Reads the next part of the body; nil at its end.
---@param size? integer bytes at most; default 65536
---@return string? part
---@return string? why as of `body`
function Request:read(size) end

---The fields of a body of the type application/x-www-form-urlencoded: the first value of each name,
---and a list of all values of each name. At most 1000 fields are read.
---@param max? integer bytes, if fewer than the server's `max_body`
---@return table<string, string>? form
---@return table<string, string[]> | string all or why there is no form: as of `body`, or the type that came
function Request:form(max) end

---Options of `req:parts`.
---@class (exact) baton.http.PartsOptions
---@field max_parts? integer more parts are refused; default 1000

---The parts of a body of the type multipart/form-data, in which browsers send files. Each part is
---read as it comes, and what is not read is passed over:
---
---```lua
---local http = require "baton.http"
---
---local server <close> = assert(http.serve("127.0.0.1:0", function(req)
---  local found = {}
---  for part in req:parts() do
---    found[#found + 1] = part.filename or part.name .. "=" .. part:body(1000)
---  end
---  return 200, table.concat(found, " ")
---end, { max_body = 100 << 20 }))
---
---local function part(head, data)
---  local begin = "--limit\r\nContent-Disposition: form-data; "
---  return begin .. head .. "\r\n\r\n" .. data .. "\r\n"
---end
---local body = part('name="title"', "hello") .. part('name="f"; filename="a.txt"', "bytes")
---print(http.post("http://" .. server:address(), body .. "--limit--", {
---  headers = { ["Content-Type"] = "multipart/form-data; boundary=limit" },
---}):body())
---```
---
---```text
---title=hello a.txt
---```
---
---The loop raises an error if the body is wrong, too large or does not come. A handler that lets it
---through gives the client 400, 413 or 408, and 415 for another type; `on_error` is not called. The
---server's `max_body` bounds all parts together, 8 KiB the head of each.
---@param options? baton.http.PartsOptions
---@return fun(): baton.http.Part? iterator
function Request:parts(options) end

---With a name alone, the value of a cookie of the request as it came, or nil. With a value, sets a
---cookie of the reply that is sent later; with nil as the value, the client forgets it. A name or a
---value that would add another field or attribute is an error.
---@overload fun(self: baton.http.Request, name: string): string?
---@param name string
---@param value string? ASCII without spaces, quotes, commas, semicolons and backslashes
---@param options? baton.http.CookieOptions
---@return baton.http.Request self
function Request:cookie(name, value, options) end

---Options of `res:cookie`.
---@class (exact) baton.http.CookieOptions
---@field path? string default "/"
---@field domain? string the host and all below it; default: the host alone
---@field max_age? integer seconds; default: until the browser ends
---@field http_only? boolean scripts of pages cannot read it; default true
---@field secure? boolean only over TLS; default false
---@field same_site? "strict" | "lax" | "none" whether requests from other sites have it; default "lax"

---Options of `res:file`.
---@class (exact) baton.http.FileOptions
---@field type? string Content-Type; default: by the ending of the name, or application/octet-stream
---@field download? string | true browsers save the file by this name, or by its own
---@field max_age? integer seconds for which clients need not ask again
---@field root? string the path is below this directory, and may come from a client: nothing leads out of it
---@field hidden? boolean with `root`: segments may begin with a dot; default false

---Replies with a file: its type by the ending of its name, ETag, Last-Modified, 304 for a client
---that has it, and the part that a client asks for by one range. Several ranges give all of the
---file. A file of any size takes 64 KiB of memory, and a slow disk holds up nobody else.
---
---Returns nil and why if nothing was sent: "no such file", "it is a directory", "permission
---denied", or what the system says. A file that becomes shorter meanwhile cuts the reply off, so
---that no client takes it for whole; then it returns nil and why, too.
---
---Without `root`, the path is the program's own: a path that a client has a say in needs `root`.
---@param path string
---@param options? baton.http.FileOptions
---@return true? sent
---@return string? why
function Request:file(path, options) end

---Without arguments, the value that the body has as JSON. With arguments, replies with a value.
---@overload fun(self: baton.http.Request): any, string?
---@param status integer may be left out: 200
---@param value any
---@param fields? table<string, string | string[]>
---@return true? sent
---@return string? why
function Request:json(status, value, fields) end

---Sets a field of the reply that is sent later, as middleware does.
---A Content-Type that was set is the one that `res:json` and `res:file` send.
---@param name string
---@param value string | number | string[] | nil
---@return baton.http.Request self
function Request:set(name, value) end

---Sends the reply.
---@param status integer may be left out: 200
---@param body? string
---@param fields? table<string, string | string[]>
---@return true? sent
---@return string? why
function Request:send(status, body, fields) end

---Begins a reply whose length is not known, and returns the same object, for `write` and `close`. A
---`<close>` variable closes it; after an error the client sees that the rest is missing.
---@param status? integer default 200
---@param fields? table<string, string | string[]>
---@return baton.http.Request? stream
---@return string? why
function Request:stream(status, fields) end

---Sends a part of a stream.
---@param s string | number
---@param ... string | number
---@return true? sent
---@return string? why "closed" if the client is gone
function Request:write(s, ...) end

---Ends a stream. The end of the handler does so, too.
---@return true? sent
---@return string? why
function Request:close() end

---Begins server-sent events. The option `heartbeat` is how many seconds are between comments, which
---keep the connection open, 15 by default; or false.
---@param options? { heartbeat: number | false }
---@return baton.http.Events? events
---@return string? why
function Request:events(options) end

---How the last failure of the body is answered; nil without a failure.
---@return integer? status
function Request:fault() end

---What the access log says.
---@return integer status
---@return integer sent bytes of the reply's body
---@return number seconds since the head had come
function Request:figures() end

---Whether the reply has begun.
---@return "streams" | "replied" | nil progress
function Request:progress() end

---A part of a body, until the loop goes on.
---@class baton.http.Part
---@field name string of the field of the form
---@field filename? string as the client calls the file: not a path to write to
---@field type? string Content-Type
---@field headers table<string, string> names in lower case
local Part = {}

---Reads the next data of the part; nil at its end.
---@param size? integer bytes at most; default 65536
---@return string? data
function Part:read(size) end

---Reads all data of the part that were not read.
---@param max? integer bytes; after "too large" nothing more of the request can be read
---@return string? data
---@return string? why "too large"
function Part:body(max) end

---Server-sent events. A `<close>` variable ends them.
---@class baton.http.Events
---@field last_id? string the last event that the client has seen
local Events = {}

---Sends an event: its data, or a table with `data`, `event`, `id` and `retry`.
---@param event string | table
---@return true? sent
---@return string? why "closed" if the client is gone
function Events:send(event) end

---Ends the events.
---@return true? sent
---@return string? why
function Events:close() end

---A reply, as a client gets it. A `<close>` variable ends it, also in a process that is killed.
---Without one, the garbage collector does, later.
---@class baton.http.Response
---@field status integer
---@field headers table<string, string> names in lower case; several values have commas between
---@field set_cookies string[] the values of the fields Set-Cookie
---@field version "1.1" | "1.0"
---@field url string where the reply is from, after redirects
local Response = {}

---Reads the next part of the body; nil at its end.
---@param size? integer bytes at most; default 65536
---@return string? part
---@return string? why "timeout", "closed", "cut off" or "malformed"; only after a timeout can more be read
function Response:read(size) end

---Reads all of the body, in the request's `timeout`. A second call returns it again. After a
---failure the connection is closed.
---@param max? integer bytes; default 64 MiB
---@return string? body
---@return string? why as of `read`, or "too large"
function Response:body(max) end

---Reads all of the body, and decodes it as JSON.
---@param max? integer bytes; default 64 MiB
---@return any value
---@return string? why as of `body`, or what is wrong with the JSON
function Response:json(max) end

---Ends the reply. If the body has not been read to its end, the connection is closed.
function Response:close() end

---Idle connections. `#pool` is their number. A `<close>` variable closes the pool.
---@class baton.http.Pool
local Pool = {}

---Closes the idle connections. Others are closed when their replies end.
function Pool:close() end

return http
