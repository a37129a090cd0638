-- http.router(): which handler a request gets. The patterns are in C (c/http/crate.c).
local core = ...
local decode = core.decode

local Router = {}
Router.__index = Router
Router.__name = "baton.http router"

local function is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

-- `level` is that of the program.
local function check_handler(value, what, level)
  if not is_callable(value) then
    error(("%s: function expected, got %s"):format(what, type(value)), level)
  end
end

-- Adding
-- -------------------------------------------------------------------------------------------------

-- What is at the pattern. `level` is that of the program.
local function entry_at(router, what, pattern, level)
  if type(pattern) ~= "string" then
    error(("%s: pattern such as '/notes/:id' expected, got %s"):format(what, type(pattern)), level)
  end
  local entry = router.by_pattern[pattern]
  if entry then return entry end
  local number = #router.entries + 1
  local added, why = router.routes:add(pattern, number)
  if not added then error(("%s: pattern '%s': %s"):format(what, pattern, why), level) end
  entry = { names = {}, methods = {} }
  for name in pattern:gmatch "/[:*]([^/]*)" do
    entry.names[#entry.names + 1] = name
  end
  router.entries[number], router.by_pattern[pattern] = entry, entry
  return entry
end

local function add(router, what, method, pattern, handler)
  check_handler(handler, what, 4)
  local entry = entry_at(router, what, pattern, 4)
  if entry.mounted then
    error(("%s: pattern '%s': a router is mounted there"):format(what, pattern), 3)
  end
  if entry.methods[method] then
    error(("%s: pattern '%s' has a handler already"):format(what, pattern), 3)
  end
  entry.methods[method] = handler
  return router
end

for _, method in ipairs { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" } do
  local name = method:lower()
  local what = "router:" .. name
  Router[name] = function(router, pattern, handler)
    return add(router, what, method, pattern, handler)
  end
end

-- A handler for all methods that have none of their own.
function Router:any(pattern, handler) return add(self, "router:any", "any", pattern, handler) end

-- A function around all that this router answers: f(req, res, next).
function Router:use(f)
  check_handler(f, "router:use", 3)
  self.around[#self.around + 1] = f
  return self
end

-- Another router answers what is below the prefix.
function Router:mount(prefix, other)
  if getmetatable(other) ~= Router then
    error(("router:mount: router expected, got %s"):format(type(other)), 2)
  end
  if other == self then error("router:mount: a router cannot be mounted in itself", 2) end
  if type(prefix) ~= "string" or prefix:find "/%*" then
    error("router:mount: prefix such as '/api' expected, without '*'", 2)
  end
  prefix = prefix:gsub("/$", "")
  local patterns = { prefix .. "/", prefix .. "/*rest_of_path" }
  if prefix ~= "" then patterns[3] = prefix end
  for _, pattern in ipairs(patterns) do
    local entry = entry_at(self, "router:mount", pattern, 3)
    if entry.mounted or next(entry.methods) then
      error(("router:mount: pattern '%s' has a handler already"):format(pattern), 2)
    end
    entry.mounted = other
  end
  return self
end

-- Serves the files below a directory.
function Router:static(prefix, directory, options)
  if type(prefix) ~= "string" or prefix:find "/%*" then
    error("router:static: prefix such as '/assets' expected, without '*'", 2)
  end
  local serve, redirect = core.use_part("http_files").static(directory, options, 3)
  prefix = prefix:gsub("/$", "")
  for _, pattern in ipairs { prefix .. "/", prefix .. "/*rest_of_path" } do
    add(self, "router:static", "GET", pattern, serve)
    self.by_pattern[pattern].serve = serve
  end
  if prefix ~= "" and redirect then add(self, "router:static", "GET", prefix, redirect) end
  return self
end

-- Answering
-- -------------------------------------------------------------------------------------------------

local run

local function allowed(methods)
  local names = { "OPTIONS" }
  for name in pairs(methods) do
    if name ~= "OPTIONS" then names[#names + 1] = name end
  end
  if methods.GET and not methods.HEAD then names[#names + 1] = "HEAD" end
  table.sort(names)
  return table.concat(names, ", ")
end

local function refuse(request, methods)
  local fields = { Allow = allowed(methods) }
  if request.method == "OPTIONS" then return 204, nil, fields end
  return 405, "Method Not Allowed", fields
end

local function answer(router, request, path)
  local found = { router.routes:find(path) }
  local entry = router.entries[found[1]]
  if not entry then return 404, "Not Found" end
  local names, params = entry.names, request.params
  if entry.mounted then
    local has_rest = names[#names] == "rest_of_path"
    for i = 1, has_rest and #names - 1 or #names do params[names[i]] = decode(found[i + 1]) end
    return run(entry.mounted, request, has_rest and "/" .. found[#names + 1] or "/", 1)
  end
  for i = 1, #names do params[names[i]] = decode(found[i + 1]) end
  local methods, method = entry.methods, request.method
  local handler = methods[method] or method == "HEAD" and methods.GET or methods.any
  if not handler then return refuse(request, methods) end
  if handler == entry.serve then
    params.rest_of_path = nil
    return handler(request, names[#names] == "rest_of_path" and "/" .. found[#names + 1] or "/")
  end
  return handler(request, request)
end

-- Calls the functions around, from the one at `position` on, and then the handler.
function run(router, request, path, position)
  local f = router.around[position]
  if not f then return answer(router, request, path) end
  return f(request, request, function() return run(router, request, path, position + 1) end)
end

function Router:__call(request)
  request.params = {}
  return run(self, request, request.path, 1)
end

return function()
  local router = { routes = core.routes(), entries = {}, by_pattern = {}, around = {} }
  return setmetatable(router, Router)
end
