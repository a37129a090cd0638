-- What browsers send in forms of the plain kind, and cookies.
local core = ...
local decode = core.decode
local forms = {}

local MOST_FIELDS = 1000

-- Forms
-- -------------------------------------------------------------------------------------------------

-- The type of the request's body, in lower case and without parameters.
function forms.type_of(request)
  return (request:header "content-type" or ""):match("^%s*([^;%s]*)"):lower()
end

local FORM = "application/x-www-form-urlencoded"

-- req:form(max): the first value of each name, and a list of all values of each name; or nil and
-- why.
function forms.read(request, max)
  local type = forms.type_of(request)
  if type ~= FORM then
    return nil, ("body of the type %s expected, got %s"):format(FORM, type ~= "" and type or "none")
  end
  local body, why = request:body(max)
  if not body then return nil, why end
  local first, all, count = {}, {}, 0
  for pair in body:gmatch "[^&]+" do
    count = count + 1
    if count > MOST_FIELDS then
      core.blame(request, 413)
      return nil, ("more than %d fields"):format(MOST_FIELDS)
    end
    local name, value = pair:match "^([^=]*)=?(.*)$"
    name, value = decode(name, true), decode(value, true)
    if first[name] == nil then
      first[name], all[name] = value, {}
    end
    local values = all[name]
    values[#values + 1] = value
  end
  return first, all
end

-- Cookies
-- -------------------------------------------------------------------------------------------------

-- req:cookie(name): its value as it came. Of several, the first: browsers send the one with the
-- longest path first.
function forms.cookie(request, name)
  for pair in (request:header "cookie" or ""):gmatch "[^;]+" do
    local found, value = pair:match "^%s*([^=]-)%s*=%s*(.-)%s*$"
    if found == name then return value:match '^"(.*)"$' or value end
  end
  return nil
end

local SAME_SITE = { strict = "Strict", lax = "Lax", none = "None" }

local function is_boolean(value) return type(value) == "boolean" end

-- What ends a part of a cookie, and what a head cannot have.
local function is_plain(value)
  return type(value) == "string" and not value:find "[;%c\x7f-\xff]"
end

-- How each option is checked, and what is said of it.
local OPTIONS = {
  path = {
    function(value) return is_plain(value) and value:sub(1, 1) == "/" end,
    "path that begins with '/'",
  },
  domain = {
    function(value) return is_plain(value) and value:find "^[%w.-]+$" end,
    "name of a host",
  },
  max_age = {
    function(value) return math.type(value) == "integer" end,
    "integer number of seconds",
  },
  http_only = { is_boolean, "boolean" },
  secure = { is_boolean, "boolean" },
  same_site = {
    function(value) return type(value) == "string" and SAME_SITE[value:lower()] end,
    "'strict', 'lax' or 'none'",
  },
}

-- `level` is that of the program.
local function check_options(given, level)
  for name, value in pairs(given) do
    local rule = OPTIONS[name]
    if not rule then error(("res:cookie: unknown option '%s'"):format(tostring(name)), level) end
    if not rule[1](value) then
      local text = "res:cookie: option '%s': %s expected, got %s"
      error(text:format(name, rule[2], tostring(value)), level)
    end
  end
end

-- What browsers demand of some names, and would silently drop the cookie for.
local function check_name(name, options, path, level)
  if type(name) ~= "string" or not name:find "^[%w!#$%%&'*+.^_`|~-]+$" then
    local text = "res:cookie: name of letters, digits and some signs expected, got %s"
    error(text:format(tostring(name)), level)
  end
  local is_host = name:find "^__[Hh][Oo][Ss][Tt]%-"
  if (is_host or name:find "^__[Ss][Ee][Cc][Uu][Rr][Ee]%-") and not options.secure then
    error(("res:cookie: the cookie '%s' needs secure = true"):format(name), level)
  end
  if is_host and (options.domain or path ~= "/") then
    error(("res:cookie: the cookie '%s' has the path '/' and no domain"):format(name), level)
  end
end

-- res:cookie(name, value, options). Without a value the client forgets the cookie.
function forms.set_cookie(request, name, value, given)
  if given ~= nil and type(given) ~= "table" then
    error(("res:cookie: table of options expected, got %s"):format(type(given)), 2)
  end
  local options = given or {}
  check_options(options, 3)
  local path, same_site = options.path or "/", SAME_SITE[(options.same_site or "lax"):lower()]
  check_name(name, options, path, 3)
  if same_site == "None" and not options.secure then
    error("res:cookie: same_site = 'none' needs secure = true", 2)
  end
  local age = options.max_age
  if value == nil then
    value, age = "", 0
  elseif type(value) ~= "string" or value:find '[%c ",;\\\x7f-\xff]' then
    local text = "res:cookie: value of '%s': string without spaces, quotes, commas, semicolons, "
      .. "backslashes and letters that are not ASCII expected; encode it"
    error(text:format(name), 2)
  end
  local parts = { name .. "=" .. value, "Path=" .. path }
  if options.domain then parts[#parts + 1] = "Domain=" .. options.domain end
  if age then parts[#parts + 1] = ("Max-Age=%d"):format(age) end
  if options.secure then parts[#parts + 1] = "Secure" end
  if options.http_only ~= false then parts[#parts + 1] = "HttpOnly" end
  parts[#parts + 1] = "SameSite=" .. same_site
  core.add(request, "Set-Cookie", table.concat(parts, "; "))
  return request
end

return forms
