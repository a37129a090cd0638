-- The head of a reply of HTTP/2: what programs give is checked, what the server writes is added.

local TOKEN = "^[%w!#$%%&'*+.^_`|~-]+$" -- RFC 9110, 5.6.2

-- What belongs to a connection of HTTP/1.1, or is written by the server.
local NOT_SENT = {
  ["connection"] = true,
  ["date"] = true,
  ["keep-alive"] = true,
  ["proxy-connection"] = true,
  ["transfer-encoding"] = true,
  ["upgrade"] = true,
}

local last_second, last_date

local function date()
  local now = os.time()
  if now ~= last_second then
    last_second, last_date = now, os.date("!%a, %d %b %Y %H:%M:%S GMT", now)
  end
  return last_date
end

local function add_field(list, key, value)
  if type(value) == "number" then value = tostring(value) end
  if type(value) ~= "string" then
    local text = "field '%s' of the reply: string, number or list of them expected, got %s"
    error(text:format(key, type(value)), 5)
  end
  if value:find "[%z\1-\8\10-\31\127]" then
    local text = "field '%s' of the reply: its value has a control character, such as the end of "
      .. "a line; take that out"
    error(text:format(key), 5)
  end
  list[#list + 1] = key:lower()
  list[#list + 1] = value
end

local function add_fields(list, fields, own, is_stream)
  for key, value in pairs(fields or {}) do
    if type(key) ~= "string" then
      error(("fields of a reply: names expected as keys, got a %s"):format(type(key)), 4)
    end
    if not key:find(TOKEN) then
      error(("fields of a reply: '%s' cannot be a name"):format(key), 4)
    end
    local name = key:lower()
    local is_length = name == "content-length"
    if name == "connection" and type(value) == "string" and value:lower() == "close" then
      list.is_last = true
    end
    if not NOT_SENT[name] and (not is_length or own.is_head and not is_stream) then
      list[name] = true
      for _, each in ipairs(type(value) == "table" and value or { value }) do
        add_field(list, key, each)
      end
    end
  end
end

local function has_no_body(status) return status == 204 or status == 304 end

-- The fields of a reply: names and values by turns. `length` is that of its body; nil: a stream.
local function fields_of(own, status, fields, length)
  local list = { "date", date() }
  add_fields(list, fields, own, not length)
  add_fields(list, own.fields, own, not length)
  if has_no_body(status) then return list end
  if not list["content-type"] and length ~= 0 then
    add_field(list, "content-type", "text/plain; charset=utf-8")
  end
  if length and not list["content-length"] then add_field(list, "content-length", length) end
  return list
end

-- Returns the status, the body and the fields of a reply whose status may be left out.
local function read_reply(status, body, fields)
  if type(status) == "string" then
    status, body, fields = 200, status, body
  end
  if type(status) ~= "number" then
    error(("status of a reply, or its text, expected, got %s"):format(type(status)), 3)
  end
  if math.type(status) ~= "integer" or status < 200 or status > 999 then
    error(("status of a reply: 200 to 999 expected, got %s"):format(tostring(status)), 3)
  end
  if type(body) == "number" then body = tostring(body) end
  if body ~= nil and type(body) ~= "string" then
    local hint = type(body) == "table" and "; res:json(status, value) sends a table" or ""
    error(("body of a reply: string expected, got %s%s"):format(type(body), hint), 3)
  end
  if fields ~= nil and type(fields) ~= "table" then
    error(("fields of a reply: table expected, got %s"):format(type(fields)), 3)
  end
  return status, body or "", fields
end

return { fields_of = fields_of, has_no_body = has_no_body, read_reply = read_reply }
