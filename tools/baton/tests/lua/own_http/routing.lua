-- The router of baton.http.
local check = require "check"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

-- A function that asks a server with the router: its status, body, and field Allow.
local function served(router)
  local server = assert(http.serve("127.0.0.1:0", router))
  return server,
    function(method, path)
      local conn <close> = assert(net.connect(server:address(), { timeout = 20 })):timeout(20)
      local text = "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      conn:write(text:format(method, path))
      local head, body = conn:read("all"):match "^(.-\r\n\r\n)(.*)$"
      local status, allow = tonumber(head:match "^HTTP/1.1 (%d+)"), head:match "Allow: ([^\r]*)"
      if allow then return status, body, allow end
      return status, body
    end
end

local function says(text)
  return function(req)
    local names = {}
    for name, value in pairs(req.params) do names[#names + 1] = name .. "=" .. value end
    table.sort(names)
    return 200, text .. " " .. table.concat(names, ",")
  end
end

function case.a_router_finds_handlers_and_their_parameters()
  local r = http.router()
  check.equal(r:get("/notes/:id", says "one"), r)
  r:get("/notes/new", says "new"):put("/notes/:id", says "put"):any("/any", says "any")
  r:get("/files/:user/*path", says "file"):post("/any", says "post")
  local server <close>, ask = served(r)
  check.results("id", { 200, "one id=7" }, ask("GET", "/notes/7?a=b"))
  check.results("decoded", { 200, "one id=a b/c+d" }, ask("GET", "/notes/a%20b%2fc+d"))
  check.results("exact", { 200, "new " }, ask("GET", "/notes/new"))
  check.results("method", { 200, "put id=7" }, ask("PUT", "/notes/7"))
  check.results("rest", { 200, "file path=a/b.txt,user=me" }, ask("GET", "/files/me/a/b.txt"))
  check.results("any", { 200, "any " }, ask("DELETE", "/any"))
  check.results("own", { 200, "post " }, ask("POST", "/any"))
  check.results("HEAD", { 200, "" }, ask("HEAD", "/notes/7"))
  r:get("/later", says "later")
  check.results("later", { 200, "later " }, ask("GET", "/later"))
  server:stop(0)
end

function case.a_path_without_a_handler_gets_404_and_a_method_without_one_405()
  local r = http.router():get("/a", says "a"):post("/a", says "a"):delete("/b", says "b")
  local server <close>, ask = served(r)
  check.results("no pattern", { 404, "Not Found" }, ask("GET", "/a/"))
  check.equal(ask("GET", "/"), 404)
  local allow = "GET, HEAD, OPTIONS, POST"
  check.results("no method", { 405, "Method Not Allowed", allow }, ask("PUT", "/a"))
  check.results("HEAD", { 405, "", "DELETE, OPTIONS" }, ask("HEAD", "/b"))
  check.results("OPTIONS", { 204, "", allow }, ask("OPTIONS", "/a"))
  check.equal(ask("OPTIONS", "*"), 404)
  server:stop(0)
end

function case.functions_around_handlers_are_called_in_their_order()
  local r, steps = http.router(), {}
  local function step(name)
    return function(req, res, next)
      steps[#steps + 1] = name
      check.equal(req, res)
      if req.query.stop == name then return 403, "stopped by " .. name end
      local status, body = next()
      return status, name .. "(" .. body .. ")"
    end
  end
  r:get("/", says "in"):use(step "a"):use(step "b")
  local server <close>, ask = served(r)
  check.results("all", { 200, "a(b(in ))" }, ask("GET", "/"))
  check.results("not found", { 404, "a(b(Not Found))" }, ask("GET", "/else"))
  check.results("stopped", { 403, "a(stopped by b)" }, ask("GET", "/?stop=b"))
  check.results("stopped", { 403, "stopped by a" }, ask("GET", "/?stop=a"))
  check.equal(table.concat(steps), "abababa")
  server:stop(0)
end

function case.a_mounted_router_answers_what_is_below_its_prefix()
  local inner = http.router():get("/", says "list"):get("/:id", says "one")
  inner:use(function(req, _, next)
    local status, body = next()
    return status, req.params.user .. ": " .. body
  end)
  local r = http.router():mount("/users/:user/notes", inner):get("/", says "root")
  r:mount("/deep/", http.router():mount("/er", http.router():get("/x", says "x")))
  local server <close>, ask = served(r)
  check.results("one", { 200, "me: one id=7,user=me" }, ask("GET", "/users/me/notes/7"))
  for _, path in ipairs { "/users/me/notes", "/users/me/notes/" } do
    check.results(path, { 200, "me: list user=me" }, ask("GET", path))
  end
  check.results("below", { 404, "me: Not Found" }, ask("GET", "/users/me/notes/7/8"))
  check.results("beside", { 404, "Not Found" }, ask("GET", "/users/me"))
  check.results("root", { 200, "root " }, ask("GET", "/"))
  check.results("deep", { 200, "x " }, ask("GET", "/deep/er/x"))
  server:stop(0)
end

function case.wrong_patterns_and_handlers_are_refused()
  local r = http.router():get("/a/:b", says "")
  local function refused(why, method, ...) check.raises(why, r[method], r, ...) end
  refused("router:get: pattern 'a': it has no '/' at its beginning", "get", "a", print)
  refused("it matches the same paths as '/a/:b'", "post", "/a/:c", print)
  refused("router:get: pattern '/a/:b' has a handler already", "get", "/a/:b", print)
  refused("router:put: function expected, got nil", "put", "/x")
  refused("router:use: function expected, got number", "use", 1)
  refused("router:get: pattern such as '/notes/:id' expected, got nil", "get", nil, print)
  refused("router:mount: router expected, got function", "mount", "/x", print)
  refused("a router cannot be mounted in itself", "mount", "/x", r)
  refused("router:mount: prefix such as '/api' expected", "mount", "/x/*y", http.router())
  r:mount("/m", http.router())
  refused("router:get: pattern '/m': a router is mounted there", "get", "/m", print)
end

check.run(case)
