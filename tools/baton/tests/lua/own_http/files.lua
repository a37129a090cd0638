-- Files as replies of baton.http: res:file and router:static.
local check = require "check"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

local function serve(handler, options)
  local server = assert(http.serve("127.0.0.1:0", handler, options))
  return server,
    function() return assert(net.connect(server:address(), { timeout = 20 })):timeout(20) end
end

-- Asks on a connection of its own: the status, the body and the fields, in lower case.
local function ask(connect, path, fields, method)
  local conn <close> = connect()
  local head = "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
  local text = { head:format(method or "GET", path) }
  for name, value in pairs(fields or {}) do text[#text + 1] = name .. ": " .. value .. "\r\n" end
  conn:write(table.concat(text), "\r\n")
  local body
  head, body = conn:read("all"):match "^(.-)\r\n\r\n(.*)$"
  local found = {}
  for name, value in head:gmatch "\r\n([^:]+): ([^\r]*)" do found[name:lower()] = value end
  return tonumber(head:match "^HTTP/1.1 (%d+)"), body, found
end

-- A directory with files: a table of their contents by their paths.
local function tree(contents)
  local root = check.scratch "tree"
  assert(os.execute(("rm -rf '%s' && mkdir -p '%s'"):format(root, root)))
  for path, text in pairs(contents) do
    local folder = path:match "^(.*)/"
    if folder then assert(os.execute(("mkdir -p '%s/%s'"):format(root, folder))) end
    local file <close> = assert(io.open(root .. "/" .. path, "w"))
    file:write(text)
  end
  return root
end

function case.a_file_has_its_type_its_length_and_what_tells_it_from_others()
  local root = tree { ["a page.html"] = "<p>hello", ["data.bin"] = "\0\1" }
  local server <close>, connect = serve(function(req, res)
    if req.path == "/page" then return assert(res:file(root .. "/a page.html")) and nil end
    if req.path == "/none" then
      local sent, why = res:file(root .. "/none")
      return 404, tostring(sent) .. " " .. why
    end
    if req.path == "/directory" then
      local _, why = res:file(root)
      return 404, why
    end
    local download = req.query.all and true or 'my "büch".bin'
    res:file(root .. "/data.bin", { type = "x/y", max_age = 60, download = download })
  end)
  local status, body, fields = ask(connect, "/page")
  check.equal(status, 200)
  check.equal(body, "<p>hello")
  check.equal(fields["content-type"], "text/html; charset=utf-8")
  check.equal(fields["content-length"], "8")
  check.equal(fields["accept-ranges"], "bytes")
  check.matches(fields.etag, '^"%x+%-%x+%-8"$')
  check.matches(fields["last-modified"], "^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$")
  status, body, fields = ask(connect, "/page", {}, "HEAD")
  check.equal(status, 200)
  check.equal(body, "")
  check.equal(fields["content-length"], "8")
  status, body, fields = ask(connect, "/")
  check.equal(body, "\0\1")
  check.equal(fields["content-type"], "x/y")
  check.equal(fields["cache-control"], "max-age=60")
  check.equal(
    fields["content-disposition"],
    "attachment; filename=\"my _b__ch_.bin\"; filename*=UTF-8''my%20%22b%C3%BCch%22.bin"
  )
  _, _, fields = ask(connect, "/?all")
  check.equal(fields["content-disposition"], 'attachment; filename="data.bin"')
  status, body = ask(connect, "/none")
  check.equal(status, 404)
  check.equal(body, "nil no such file")
  check.equal(select(2, ask(connect, "/directory")), "it is a directory")
  check.equal(server:stats().failures, 0)
end

function case.a_client_that_has_the_file_gets_304_and_one_that_wants_a_range_gets_it()
  local root = tree { ["f.txt"] = "0123456789" }
  local server <close>, connect = serve(function(_, res) assert(res:file(root .. "/f.txt")) end)
  local _, _, marks = ask(connect, "/")
  local status, body, fields = ask(connect, "/", { ["If-None-Match"] = marks.etag })
  check.equal(status, 304)
  check.equal(body, "")
  check.equal(fields.etag, marks.etag)
  check.equal(fields["content-length"], nil)
  local since = { ["If-Modified-Since"] = marks["last-modified"] }
  check.equal(ask(connect, "/", since), 304)
  check.equal(ask(connect, "/", since, "HEAD"), 304)
  check.equal(ask(connect, "/", since, "POST"), 200)
  local function range(text, if_range)
    status, body, fields = ask(connect, "/", { Range = "bytes=" .. text, ["If-Range"] = if_range })
    return status, body, fields["content-range"]
  end
  check.results("middle", { 206, "345", "bytes 3-5/10" }, range "3-5")
  check.equal(fields["content-length"], "3")
  check.results("end", { 206, "89", "bytes 8-9/10" }, range "-2")
  check.results("rest", { 206, "789", "bytes 7-9/10" }, range("7-", marks.etag))
  check.results("outside", { 416, "Range Not Satisfiable", "bytes */10" }, range "10-")
  check.results("several", { 200, "0123456789", n = 3 }, range "1-2,4-5")
  check.results("another", { 200, "0123456789", n = 3 }, range("1-2", '"other"'))
  status, _, fields = ask(connect, "/", { Range = "bytes=1-2" }, "HEAD")
  check.equal(status, 200)
  check.equal(fields["content-length"], "10")
end

function case.a_directory_has_an_index_and_a_slash_at_its_end()
  local root = tree {
    ["index.html"] = "root",
    ["docs/index.html"] = "docs",
    ["docs/a b.css"] = "css",
    ["empty/x"] = "x",
    [".secret"] = "secret",
  }
  local r = http.router():get("/api", function() return 200, "api" end)
  r:static("/", root)
  r:static("/bare", root .. "/docs", { index = false, max_age = 5 })
  r:mount("/in/:user", http.router():static("/all", root, { hidden = true, index = "a b.css" }))
  local server <close>, connect = serve(r)
  local function body_of(path) return (select(2, ask(connect, path))) end
  check.equal(body_of "/", "root")
  check.equal(body_of "/api", "api")
  check.equal(body_of "/docs/", "docs")
  check.equal(body_of "/docs/a%20b.css?v=1", "css")
  check.equal(body_of "/bare/a%20b.css", "css")
  check.equal(body_of "/in/me/all/docs/", "css")
  check.equal(body_of "/in/me/all/.secret", "secret")
  for path, wanted in pairs {
    ["/docs"] = "/docs/",
    ["/docs?a=b"] = "/docs/?a=b",
    ["/in/me/all"] = "/in/me/all/",
    ["/in/me/all/docs"] = "/in/me/all/docs/",
    ["/in/\\me/all"] = "/in/%5Cme/all/",
  } do
    local status, _, fields = ask(connect, path)
    check.equal(status, 301, path)
    check.equal(fields.location, wanted, path)
  end
  for _, path in ipairs { "/none", "/empty/", "/bare", "/bare/", "/docs/a%20b.css/", "/.secret" } do
    check.equal(ask(connect, path), 404, path)
  end
  local status, _, fields = ask(connect, "/docs/", {}, "POST")
  check.equal(status, 405)
  check.equal(fields.allow, "GET, HEAD, OPTIONS")
  check.equal(select(3, ask(connect, "/bare/a%20b.css"))["cache-control"], "max-age=5")
  check.equal(server:stats().failures, 0)
end

-- What leads out of the directory, or should not be found in it.
local HOSTILE = {
  "/../outside",
  "/..%2foutside",
  "/%2e%2e/outside",
  "/%2e%2e%2foutside",
  "/a/../../outside",
  "/a/%2e%2e/%2e%2e/outside",
  "/..\\outside",
  "/..%5coutside",
  "/a%00/../outside",
  "/inside%00.txt",
  "//etc/passwd",
  "/%2fetc/passwd",
  "/./inside",
  "/a//inside",
  "/.hidden",
  "/%2ehidden",
  "/a/.hidden/x",
  "/to_outside",
  "/to_root/etc/passwd",
  "/to_parent/outside",
  "/fifo",
  "/" .. ("x"):rep(300),
  "/" .. ("x/"):rep(2000),
}

local function hostile_tree()
  local root = tree { ["top/inside"] = "in", ["top/a/.hidden/x"] = "no", ["top/.hidden"] = "no" }
  local links = "cd '%s' && printf out >outside && cd top && ln -s ../outside to_outside && "
    .. "ln -s / to_root && ln -s .. to_parent && ln -s inside to_inside && mkfifo fifo && "
    .. "printf no >denied && chmod 0 denied"
  assert(os.execute(links:format(root)))
  return root .. "/top"
end

local function nothing_escapes(connect)
  for _, path in ipairs(HOSTILE) do
    local status, body = ask(connect, path)
    check.equal(status, 404, path)
    check.equal(body, "Not Found", path)
  end
  check.equal(select(2, ask(connect, "/inside")), "in")
end

function case.nothing_leads_out_of_the_directory()
  local root = hostile_tree()
  local r = http.router():static("/", root)
  r:get("/own/*path", function(req, res)
    local sent, why = res:file(req.params.path, { root = root })
    if not sent then return 404, why end
  end)
  local server <close>, connect = serve(r)
  nothing_escapes(connect)
  check.equal(select(2, ask(connect, "/to_inside")), "in")
  check.equal(select(2, ask(connect, "/own/inside")), "in")
  for _, path in ipairs { "..%2foutside", "%2e%2e/outside", "to_outside", ".hidden", "a/" } do
    check.equal(ask(connect, "/own/" .. path), 404, path)
  end
  if io.popen("id -u"):read "n" ~= 0 then check.equal(ask(connect, "/denied"), 403) end
  check.equal(server:stats().failures, 0)
end

-- The system refuses openat2 from here on, as some containers do: the path is walked through.
local function refuse_openat2()
  local ffi = require "baton.ffi"
  ffi.cdef [[
    struct step { unsigned short code; unsigned char yes, no; unsigned value; };
    struct steps { unsigned short count; struct step *first; };
    int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);
    long syscall(long, ...);
  ]]
  local steps = ffi.new "struct step[4]"
  -- load the call's number; is it openat2? then ENOSYS; else go on
  local rows = {
    { 0x20, 0, 0, 0 },
    { 0x15, 0, 1, 437 },
    { 6, 0, 0, 0x50026 },
    { 6, 0, 0, 0x7fff0000 },
  }
  for i, row in ipairs(rows) do
    steps[i - 1].code, steps[i - 1].yes, steps[i - 1].no, steps[i - 1].value = table.unpack(row)
  end
  local all = ffi.new "struct steps"
  all.count, all.first = 4, steps
  if ffi.C.prctl(38, 1, 0, 0, 0) ~= 0 then return false end -- no new privileges
  local seccomp = ({ x86_64 = 317, aarch64 = 277 })[io.popen("uname -m"):read "l"]
  if not seccomp then return false end
  local long = function(number) return ffi.new("long", number) end
  -- for all threads
  return ffi.C.syscall(seccomp, long(1), long(1), ffi.cast("void *", all)) == 0
end

function case.where_the_system_cannot_confine_a_path_no_link_is_followed()
  local root = hostile_tree()
  local server <close>, connect = serve(http.router():static("/", root))
  check.equal(select(2, ask(connect, "/to_inside")), "in")
  if not refuse_openat2() then return end
  nothing_escapes(connect)
  check.equal(ask(connect, "/to_inside"), 404)
  check.equal(server:stats().failures, 0)
end

function case.a_large_file_takes_no_memory_and_holds_nobody_up()
  local path = check.scratch "large"
  local size, piece = 100 << 20, ("0123456789abcdef"):rep(4096)
  do
    local file <close> = assert(io.open(path, "w"))
    for _ = 1, size // #piece do file:write(piece) end
  end
  local server <close>, connect = serve(function(req, res)
    if req.path == "/quick" then return 200, "quick" end
    assert(res:file(path))
  end)
  collectgarbage()
  local before, most = collectgarbage "count", 0
  local conn <close> = connect()
  conn:write "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
  repeat
  until conn:read "line" == ""
  local got, pieces = 0, 0
  while got < size do
    local part = assert(conn:read(#piece))
    check.that(part == piece, "the bytes of the file")
    got, pieces = got + #part, pieces + 1
    if pieces % 200 == 0 then
      collectgarbage()
      most = math.max(most, collectgarbage "count")
      check.equal(select(2, ask(connect, "/quick")), "quick")
    end
  end
  check.equal(conn:read "line", "HTTP/1.1 200 OK")
  check.that(most - before < 4096, "memory")
  check.equal(server:stats().failures, 0)
  os.remove(path)
end

function case.a_file_that_shrinks_cuts_the_reply_off()
  local path = check.scratch "shrinks"
  local function write(size)
    local file <close> = assert(io.open(path, "w"))
    file:write(("x"):rep(size))
  end
  local size = 32 << 20
  write(size)
  local why
  local server <close>, connect = serve(function(_, res)
    local sent, fault = res:file(path)
    why = fault
    check.equal(sent, nil)
  end)
  local conn <close> = connect()
  conn:write "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  repeat
  until conn:read "line" == ""
  check.equal(#conn:read(1 << 20), 1 << 20)
  write(1000)
  local rest = conn:read "all"
  check.that(#rest < size - (1 << 20), "the end")
  check.that(not rest:find "[^x]", "nothing but the file")
  check.equal(why, "the file has become shorter")
end

function case.a_handler_that_is_killed_or_a_client_that_goes_leaves_no_file_open()
  local path = check.scratch "left"
  do
    local file <close> = assert(io.open(path, "w"))
    file:write(("x"):rep(16 << 20))
  end
  local server <close>, connect = serve(
    function(_, res) res:file(path) end,
    { handler_timeout = 0.1 }
  )
  local function open_files()
    local count = 0
    for line in io.popen("ls -l /proc/$PPID/fd"):lines() do
      if line:find(path, 1, true) then count = count + 1 end
    end
    return count
  end
  local slow = connect() -- reads nothing, so that the handler is killed
  slow:write "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  local gone = connect()
  gone:write "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  gone:read(100)
  gone:close()
  check.eventually("both ended", function() return server:stats().connections == 0 end)
  check.eventually("the files are closed", function() return open_files() == 0 end)
  check.equal(server:stats().timeouts >= 1, true)
end

function case.misuse_of_files_is_refused()
  local root = tree { ["x"] = "x" }
  local faults = {}
  local server <close>, connect = serve(function(_, res)
    faults[1] = check.raises("res:file: path expected, got nil", res.file, res)
    faults[2] = check.raises("unknown option 'x'", res.file, res, "x", { x = 1 })
    local wrong = { max_age = "1" }
    faults[3] = check.raises("option 'max_age': number of seconds", res.file, res, "x", wrong)
    assert(res:file(root .. "/x"))
    check.raises("the reply has begun already", res.file, res, root .. "/x")
  end)
  check.equal(select(2, ask(connect, "/")), "x")
  check.equal(#faults, 3)
  local r = http.router()
  local function refused(why, ...) check.raises(why, r.static, r, ...) end
  refused("router:static: prefix such as '/assets' expected", "/a/*b", root)
  refused("router:static: directory expected, got nil", "/")
  refused("router:static: directory '.*/none': no such file", "/", root .. "/none")
  refused("router:static: directory '.*/x': it is no directory", "/", root .. "/x")
  refused("router:static: unknown option 'a'", "/", root, { a = 1 })
  refused("option 'index': name of a file or false expected, got a/b", "/", root, { index = "a/b" })
  r:static("/", root)
  refused("router:static: pattern '/' has a handler already", "/", root)
end

check.run(case)
