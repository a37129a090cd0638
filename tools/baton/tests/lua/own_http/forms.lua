-- Forms, uploads and cookies of baton.http.
local check = require "check"
local net = require "baton.net"
local http = require "baton.http"
local json = require "baton.json"
local case = {}

local function serve(handler, options)
  local server = assert(http.serve("127.0.0.1:0", handler, options))
  return server,
    function() return assert(net.connect(server:address(), { timeout = 20 })):timeout(20) end
end

local POST = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: %s\r\n"

-- Sends a body: the status and the reply's body. `step`: bytes of each chunk.
local function post(connect, type, body, step)
  local conn <close> = connect()
  conn:write(POST:format(type))
  if not step then
    conn:write("Content-Length: ", #body, "\r\n\r\n", body)
  else
    local chunks = { "Transfer-Encoding: chunked\r\n\r\n" }
    for at = 1, #body, step do
      local part = body:sub(at, at + step - 1)
      chunks[#chunks + 1] = ("%x\r\n%s\r\n"):format(#part, part)
    end
    conn:write(table.concat(chunks), "0\r\n\r\n")
  end
  local all = conn:read "all" or ""
  return tonumber(all:match "^HTTP/1.1 (%d+)"), all:match "\r\n\r\n(.*)$"
end

local FORM = "application/x-www-form-urlencoded"

function case.a_form_has_first_values_and_all_of_them()
  local server <close>, connect = serve(function(req)
    local form, all = req:form()
    if not form then return 400, all end
    return req:json { form, all }
  end)
  local text = "name=J%C3%BCrgen+K&tag=a&tag=b&empty=&alone&=nameless&a%3Db=c%26d&&x=1=2"
  local status, body = post(connect, FORM .. "; charset=utf-8", text)
  check.equal(status, 200)
  local form, all = table.unpack(json.decode(body))
  check.equal(form.name, "J\xc3\xbcrgen K")
  check.equal(form.tag, "a")
  check.list(all.tag, { "a", "b" })
  check.equal(form.empty .. form.alone, "")
  check.equal(form[""], "nameless")
  check.equal(form["a=b"], "c&d")
  check.equal(form.x, "1=2")
  local why = "body of the type " .. FORM .. " expected, got text/plain"
  check.results("type", { 400, why }, post(connect, "text/plain", "a=b"))
  check.equal(server:stats().failures, 0)
end

function case.a_form_is_bounded()
  local server <close>, connect = serve(function(req)
    local form = assert(req:form(20000))
    return 200, tostring(form.a)
  end)
  check.results("many", { 200, "1" }, post(connect, FORM, ("a=1&"):rep(1000)))
  check.equal(post(connect, FORM, ("a&"):rep(1001)), 413)
  check.equal(post(connect, FORM, ("a"):rep(20001)), 413)
  check.equal(server:stats().failures, 0)
end

local MULTIPART = "multipart/form-data; boundary=xx--x"

-- What a handler finds in each part, with `read` bytes at once.
local function reader(read)
  return function(req)
    local found = {}
    for part in req:parts { max_parts = 20 } do
      local pieces = {}
      local piece = part:read(read)
      while piece do
        check.that(#piece > 0 and #piece <= (read or 65536))
        pieces[#pieces + 1] = piece
        piece = part:read(read)
      end
      check.equal(part:read(), nil)
      found[#found + 1] = {
        name = part.name,
        filename = part.filename,
        type = part.type,
        x = part.headers["x-a"],
        data = table.concat(pieces),
      }
    end
    return req:json(found)
  end
end

local function part_of(fields, data)
  return "--xx--x\r\n" .. fields .. "\r\n\r\n" .. data .. "\r\n"
end

local function disposition(text) return "Content-Disposition: form-data; " .. text end

local TRICKY = "\r\n--xx--\r\n--xx-\r\n-\r\n\r\n--xx--\0" -- almost the delimiter

local WHOLE = "a preamble\r\n"
  .. part_of(disposition 'name="title"', "hello")
  .. part_of(disposition 'name=empty', "")
  .. part_of(
    'content-disposition: FORM-DATA ; filename="C:\\a \\"b\\".txt" ; name="file"\r\n'
      .. "Content-Type: text/x\r\nX-A: 1\r\nx-a: 2",
    TRICKY
  )
  .. ("--xx--x \t\r\n%s\r\n\r\n"):format(disposition 'name="bare"')
  .. part_of(disposition 'name="last"; filename="";', ("y"):rep(3000))
  .. "--xx--x--\r\nan epilogue"

local function check_whole(body)
  local parts = json.decode(body)
  check.equal(#parts, 5)
  check.equal(parts[1].name .. parts[1].data, "titlehello")
  check.equal(parts[1].filename, nil)
  check.equal(parts[2].name .. parts[2].data, "empty")
  check.equal(parts[3].filename, 'C:\\a "b".txt')
  check.equal(parts[3].name .. parts[3].type .. parts[3].x, "filetext/x1, 2")
  check.that(parts[3].data == TRICKY, "data that are almost the delimiter")
  check.equal(parts[4].name .. parts[4].data, "bare")
  check.equal(parts[5].filename, "")
  check.equal(parts[5].data, ("y"):rep(3000))
end

function case.parts_are_found_wherever_chunks_end()
  for _, read in ipairs { 1, 7, 65536 } do
    local server <close>, connect = serve(reader(read))
    for _, step in ipairs { 1, 2, 3, 5, 7, 11, 64, 1000, 100000 } do
      local status, body = post(connect, MULTIPART, WHOLE, step)
      check.equal(status, 200, body)
      check_whole(body)
    end
    check.equal(server:stats().failures, 0)
    server:stop(0)
  end
end

function case.parts_that_nobody_reads_are_passed_over()
  local server <close>, connect = serve(function(req)
    local names = {}
    for part in req:parts() do
      names[#names + 1] = part.name
      if part.name == "file" then part:read(3) end
      if part.name == "last" then names[#names + 1] = #part:body(3000) end
    end
    return 200, table.concat(names, " ")
  end)
  for _, step in ipairs { 5, 100000 } do
    local names = "title empty file bare last 3000"
    check.results("names", { 200, names }, post(connect, MULTIPART, WHOLE, step))
  end
end

function case.an_upload_takes_no_memory()
  local most, size = 0, 0
  local server <close>, connect = serve(function(req)
    for part in req:parts() do
      local piece = part:read()
      while piece do
        size = size + #piece
        if size % 100 == 0 then most = math.max(most, collectgarbage "count") end
        piece = part:read()
      end
    end
    return 200, "done"
  end, { max_body = 1 << 30 })
  collectgarbage()
  local before = collectgarbage "count"
  local conn <close> = connect()
  local head = "--b\r\n" .. disposition 'name="f"; filename="f"' .. "\r\n\r\n"
  local piece, tail = ("\r\n--"):rep(16384), "\r\n--b--\r\n"
  conn:write(POST:format "multipart/form-data; boundary=b")
  conn:write("Content-Length: ", #head + 1024 * #piece + #tail, "\r\n\r\n", head)
  for _ = 1, 1024 do conn:write(piece) end
  conn:write(tail)
  check.matches(conn:read "all", "^HTTP/1.1 200 .*done$")
  check.equal(size, 1024 * #piece)
  check.that(most - before < 8192, "memory")
end

function case.hostile_parts_are_refused()
  local faults = 0
  local options = { on_error = function() faults = faults + 1 end }
  local server <close>, connect = serve(reader(100), options)
  local name = disposition 'name="a"'
  local bad = {
    "",
    "no delimiter",
    "--xx--x",
    "--xx--x\r\n",
    "--xx--xyz\r\n" .. name .. "\r\n\r\nx\r\n--xx--x--",
    "--xx--x" .. (" "):rep(300) .. "\r\n" .. name .. "\r\n\r\nx\r\n--xx--x--",
    part_of(name, "the end is missing"),
    part_of(name, "x") .. "--xx--x-",
    part_of("", "x") .. "--xx--x--",
    part_of("X: y", "x") .. "--xx--x--",
    part_of("Content-Disposition: attachment; name=a", "x") .. "--xx--x--",
    part_of("Content-Disposition: form-data", "x") .. "--xx--x--",
    part_of(disposition 'filename="a"', "x") .. "--xx--x--",
    part_of(disposition 'name="a', "x") .. "--xx--x--",
    part_of(disposition 'name="a\\"', "x") .. "--xx--x--",
    part_of(disposition 'name="a" x', "x") .. "--xx--x--",
    part_of(disposition 'name="a"; name="b"', "x") .. "--xx--x--",
    part_of(name .. "\r\n folded: x", "x") .. "--xx--x--",
    part_of(name .. "\r\nno colon", "x") .. "--xx--x--",
    part_of(name .. "\r\nA b: c", "x") .. "--xx--x--",
    part_of(name .. "\r\nA: \0", "x") .. "--xx--x--",
    part_of(name .. "\r\nA: b\nC: d", "x") .. "--xx--x--",
    part_of(name .. ("\r\nA: b"):rep(32), "x") .. "--xx--x--",
    part_of(name .. "\r\nA: " .. ("b"):rep(8192), "x") .. "--xx--x--",
  }
  for _, body in ipairs(bad) do
    for _, step in ipairs { 1, 100000 } do
      check.equal(post(connect, MULTIPART, body, step), 400, body:sub(1, 200))
    end
  end
  check.equal(post(connect, MULTIPART, part_of(name, "x"):rep(21) .. "--xx--x--"), 413)
  check.equal(post(connect, MULTIPART, part_of(name, "x"):rep(20) .. "--xx--x--"), 200)
  for type, status in pairs {
    ["text/plain"] = 415,
    ["multipart/mixed; boundary=x"] = 415,
    ["multipart/form-data"] = 400,
    ["multipart/form-data; boundary="] = 400,
    ['multipart/form-data; boundary="a\r\n b"'] = 400,
    ["multipart/form-data; boundary=" .. ("x"):rep(71)] = 400,
    ['multipart/form-data; boundary="a '] = 400,
  } do
    check.equal(post(connect, type, part_of(name, "x")), status, type)
  end
  check.equal(faults, 0)
end

function case.a_part_is_bounded_and_ends_with_its_turn()
  local why
  local server <close>, connect = serve(function(req)
    local kept
    for part in req:parts() do
      if part.name == "last" then
        check.raises("the part has ended", kept.read, kept)
        check.raises("number of bytes, at least 1, expected, got 0", part.read, part, 0)
        check.equal(select(2, part:body(2999)), "too large")
        why = select(2, pcall(part.body, part))
        return 413, "refused"
      end
      kept = part
    end
  end)
  check.results("bound", { 413, "refused" }, post(connect, MULTIPART, WHOLE))
  check.equal(server:stats().failures, 0)
  check.equal(why, "req:parts: too large")
end

-- Cookies
-- -------------------------------------------------------------------------------------------------

local function cookies_of(connect, path, cookie)
  local conn <close> = connect()
  local field = cookie and ("Cookie: %s\r\n"):format(cookie) or ""
  conn:write("GET ", path, " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", field, "\r\n")
  local head, body = conn:read("all"):match "^(.-\r\n)\r\n(.*)$"
  local found = {}
  for value in head:gmatch "\r\nSet%-Cookie: ([^\r]*)" do found[#found + 1] = value end
  return body, found
end

function case.cookies_come_and_go()
  local server <close>, connect = serve(function(req, res)
    if req.path == "/set" then
      res:cookie("a", "1")
      check.equal(res:cookie("b", "x=/y", { path = "/b", max_age = 60, secure = true }), res)
      res:cookie("c", "", { http_only = false, same_site = "none", secure = true, domain = "a.b" })
      res:cookie("__Host-d", "d", { secure = true, same_site = "Strict" })
      res:cookie("e", nil)
      return 204
    end
    res:set("Set-Cookie", "own=1")
    res:cookie("a", "2")
    local names = { "a", "b", "c", "none", "A" }
    for i, name in ipairs(names) do names[i] = tostring(req:cookie(name)) end
    return 200, table.concat(names, "|")
  end)
  local _, found = cookies_of(connect, "/set")
  check.list(found, {
    "a=1; Path=/; HttpOnly; SameSite=Lax",
    "b=x=/y; Path=/b; Max-Age=60; Secure; HttpOnly; SameSite=Lax",
    "c=; Path=/; Domain=a.b; Secure; SameSite=None",
    "__Host-d=d; Path=/; Secure; HttpOnly; SameSite=Strict",
    "e=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax",
  })
  local body
  body, found = cookies_of(connect, "/", 'a=1; b="x y"; a=2;c=d=e; ;=;x')
  check.equal(body, "1|x y|d=e|nil|nil")
  check.list(found, { "own=1", "a=2; Path=/; HttpOnly; SameSite=Lax" })
  check.equal(cookies_of(connect, "/"), "nil|nil|nil|nil|nil")
end

function case.no_cookie_adds_a_field_or_an_attribute()
  local server <close>, connect = serve(function(_, res)
    local function refused(why, ...) check.raises(why, res.cookie, res, ...) end
    local values = { "a\r\nX: y", "a;Secure", "a b", "a,b", 'a"b', "a\\b", "\0", "\xc3\xbc" }
    for _, value in ipairs(values) do
      refused("res:cookie: value of 'n': string without spaces", "n", value)
    end
    for _, name in ipairs { "", "a b", "a=b", "a;b", "a\r\n", "\xff" } do
      refused("res:cookie: name of letters, digits and some signs expected", name, "x")
    end
    refused("value of 'n': string", "n", 1)
    refused("option 'path': path that begins with '/' expected", "n", "x", { path = "/;a" })
    refused("option 'path'", "n", "x", { path = "/\r\n" })
    refused("option 'domain': name of a host expected", "n", "x", { domain = "a; b" })
    local age = "option 'max_age': integer number of seconds expected, got 1.5"
    refused(age, "n", "x", { max_age = 1.5 })
    refused("option 'same_site': 'strict', 'lax' or 'none' expected", "n", "x", { same_site = "x" })
    refused("option 'secure': boolean expected", "n", "x", { secure = 1 })
    refused("unknown option 'x'", "n", "x", { x = 1 })
    refused("table of options expected, got number", "n", "x", 1)
    refused("same_site = 'none' needs secure = true", "n", "x", { same_site = "none" })
    refused("'__Host%-n' needs secure = true", "__Host-n", "x")
    refused("has the path '/' and no domain", "__Host-n", "x", { secure = true, path = "/a" })
    return 200, "fine"
  end)
  local body, found = cookies_of(connect, "/")
  check.equal(body, "fine")
  check.equal(#found, 0)
end

check.run(case)
