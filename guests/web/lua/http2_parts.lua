-- Files, forms, cookies and gzip for requests of HTTP/2: the parts in Lua of baton.http, which get
-- here other functions below them than those in C for HTTP/1.1.
--
-- `check` returns what programs must not touch of a request, `core` has what sends.
local http, methods, check, core = ...
local process = require "baton.process"
local parts, loaded = {}, {}

-- A part, loaded at its first use.
function parts.use(name)
  if not loaded[name] then
    process.critical(function() loaded[name] = loaded[name] or http.part(name, core) end)
  end
  return loaded[name]
end

core.use_part, core.methods = parts.use, methods

function core.set_fields(request) return check(request).fields end

function core.compresses(request) return check(request).connection.server.options.compress end

function core.pack_stream(request) check(request).is_packed = true end

-- What the client has sent is wrong. If the handler fails, the reply has this status.
function core.blame(request, status)
  local own = check(request)
  own.fault = own.fault or status
end

-- One more field of that name.
function core.add(request, name, value)
  local own = check(request)
  request:set(name, own.fields and own.fields[name])
  local all = own.fields[name]
  if type(all) ~= "table" then all = { all } end
  all[#all + 1] = value
  own.fields[name] = all
end

setmetatable(core, { __index = http })

-- For what works on requests of both protocols.
local set_fields = http.set_fields
function http.set_fields(request)
  if type(request) == "table" then return core.set_fields(request) end
  return set_fields(request)
end

function http.files_of_http2() return parts.use "http_files" end

function methods:file(path, options) return parts.use("http_files").send(self, path, options) end

function methods:form(max) return parts.use("http_forms").read(self, max) end

function methods:parts(options) return parts.use "http_parts"(self, options) end

function methods:cookie(name, ...)
  if select("#", ...) == 0 then return parts.use("http_forms").cookie(self, name) end
  return parts.use("http_forms").set_cookie(self, name, ...)
end

return parts
