-- Addresses of the client of baton.http. The crate `url` would add more than 20 others, for
-- names of hosts that are not ASCII.
local addresses = {}

-- Bytes that an address may not have are written as codes, so none ends a line of the head.
local function encoded(text)
  local function code(byte) return ("%%%02X"):format(byte:byte()) end
  return (text:gsub("[^%w%-%._~!$&'()*+,;=:@/%%?]", code))
end

-- Divides an address. Returns nil and what is wrong with it, which does not show its password.
function addresses.parse(url)
  local scheme, authority, rest = url:match "^(%a[%w+.-]*)://([^/?#]*)([^#]*)"
  scheme = scheme and scheme:lower()
  if scheme ~= "http" and scheme ~= "https" then
    return nil, "http://HOST/PATH or https://HOST/PATH expected"
  end
  if authority:find "@" then
    return nil, "it has a user; set the field Authorization in its place"
  end
  local host, port = authority:match "^(%[[%x:.]+%]):?(%d*)$"
  if not host then
    host, port = authority:match "^([%w._~-]+):?(%d*)$"
  end
  if not host then return nil, "its host is wrong" end
  local standard = scheme == "https" and 443 or 80
  local number = port == "" and standard or math.tointeger(tonumber(port))
  if not number or number < 1 or number > 65535 then return nil, "its port is wrong" end
  host = host:lower()
  if rest:sub(1, 1) ~= "/" then rest = "/" .. rest end
  local named = number == standard and host or ("%s:%d"):format(host, number)
  return {
    scheme = scheme,
    address = ("%s:%d"):format(host, number),
    named = named,
    target = encoded(rest),
    origin = scheme .. "://" .. named,
  }
end

-- The path without "." and ".." in it.
local function normal(path)
  local kept = {}
  local last
  for segment in path:gmatch "/([^/]*)" do
    last = segment
    if segment == ".." then
      kept[#kept] = nil
    elseif segment ~= "." then
      kept[#kept + 1] = segment
    end
  end
  if last == "." or last == ".." then kept[#kept + 1] = "" end
  return "/" .. table.concat(kept, "/")
end

-- The address that `location` means in a reply from `place`.
function addresses.resolve(place, location)
  location = location:gsub("#.*", "")
  if location:find "^%a[%w+.-]*:" then return location end
  if location:sub(1, 2) == "//" then return place.scheme .. ":" .. location end
  local path, query = place.target:match "^([^?]*)(.*)$"
  local new_path, new_query = location:match "^([^?]*)(.*)$"
  if new_path == "" then
    return place.origin .. path .. (new_query ~= "" and new_query or query)
  end
  if new_path:sub(1, 1) ~= "/" then new_path = path:match "^(.*/)" .. new_path end
  return place.origin .. normal(new_path) .. new_query
end

return addresses
