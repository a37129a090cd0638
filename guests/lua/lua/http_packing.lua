-- Replies in gzip, for servers with the option `compress`. The functions in C call these for bodies
-- of some length and for streams (c/http/replies.c). A piece of a body is packed at a time, so that
-- others run in between.
local core = ...
local process = require "baton.process"
local raw = core.raw
local packing = {}

local PIECE = 32768 -- bytes
packing.least = 1024 -- bytes of a body
local GOES, FLUSHES, ENDS = 0, 1, 2

-- Deciding
-- -------------------------------------------------------------------------------------------------

-- The fields of a reply by their names in lower case: those of the call, or that were set before.
local function named(request, fields)
  local found = {}
  for _, all in ipairs { core.set_fields(request) or {}, fields or {} } do
    for name, value in pairs(all) do
      if type(name) == "string" then
        if type(value) == "table" then value = table.concat(value, ", ") end
        found[name:lower()] = tostring(value)
      end
    end
  end
  return found
end

-- A field of the reply gets another value, whoever has given it.
local function replace(request, fields, wanted, value)
  local set = core.set_fields(request)
  for _, all in ipairs { fields, set } do
    for name in pairs(all) do
      if type(name) == "string" and name:lower() == wanted then all[name] = value end
    end
  end
end

-- Returns the fields with which the reply is sent, and whether it is packed.
function packing.prepare(request, status, fields)
  local known = named(request, fields)
  if
    status < 200
    or status == 204
    or known["content-encoding"]
    or (known["cache-control"] or ""):lower():find("no-transform", 1, true)
    or not core.is_text(known["content-type"] or "text/plain")
  then
    return fields, false
  end
  local new = {}
  for name, value in pairs(fields or {}) do new[name] = value end
  if not (known.vary or ""):lower():find("accept-encoding", 1, true) then
    if known.vary then
      replace(request, new, "vary", known.vary .. ", Accept-Encoding")
    else
      new["Vary"] = "Accept-Encoding"
    end
  end
  local is_part = status == 206 or status == 416 or known["content-range"]
  local accepted = request:header "accept-encoding" or ""
  if is_part or not core.takes_gzip(accepted) then return new, false end
  local etag = known.etag
  if etag and etag:sub(1, 2) ~= "W/" then replace(request, new, "etag", "W/" .. etag) end
  if status ~= 304 then
    new["Content-Encoding"] = "gzip"
    replace(request, new, "accept-ranges", nil)
  end
  return new, status ~= 304
end

-- Whole bodies
-- -------------------------------------------------------------------------------------------------

local function packed(body)
  local packer <close> = core.packer()
  local pieces = {}
  for at = 1, #body, PIECE do
    pieces[#pieces + 1] = packer:pack(body, at, at + PIECE - 1, GOES)
  end
  pieces[#pieces + 1] = packer:pack("", 1, 0, ENDS)
  return table.concat(pieces)
end

-- res:send(status, body, fields) with a body that is not small.
function packing.send(request, status, body, fields)
  if #body < packing.least then return raw.send(request, status, body, fields) end
  local new, is_packed = packing.prepare(request, status, fields)
  return raw.send(request, status, is_packed and packed(body) or body, new)
end

-- Streams
-- -------------------------------------------------------------------------------------------------

-- The state of each stream that is packed.
local streams = setmetatable({}, { __mode = "k" })

-- Begins a stream with fields that were prepared. `has_body`: it is packed.
function packing.begin(request, status, fields, has_body)
  local stream, why = raw.stream(request, status, fields)
  if not stream or not has_body then return stream, why end
  streams[request] = { packer = core.packer(), lock = process.mutex() }
  core.pack_stream(request)
  return stream
end

-- res:stream(status, fields)
function packing.stream(request, status, fields)
  local new, is_packed = packing.prepare(request, status, fields)
  return packing.begin(request, status, new, is_packed and request.method ~= "HEAD")
end

-- What was packed and not sent would be missing from what follows: then the reply is cut off.
local function write(request, stream, text, step)
  if stream.is_broken then
    core.go_on(request)
    return nil, "closed"
  end
  stream.is_broken = true
  local sent, why = true, nil
  local at = 1
  repeat
    local stop = math.min(at + PIECE - 1, #text)
    local piece = stream.packer:pack(text, at, stop, stop == #text and step or GOES)
    sent, why = raw.write(request, piece)
    at = stop + 1
  until at > #text or not sent
  stream.is_broken = not sent
  return sent, why
end

-- stream:write(s, ...): the arguments are strings or numbers.
function packing.write(request, ...)
  local stream = streams[request]
  local text = table.concat { ... }
  if text == "" then return true end
  return stream.lock:with(write, request, stream, text, FLUSHES)
end

-- stream:close()
function packing.close(request)
  local stream = streams[request]
  if not stream.has_ended then
    stream.has_ended = true
    stream.lock:with(write, request, stream, "", ENDS)
    stream.packer:close()
  end
  return raw.close(request)
end

return packing
