-- Servers of baton.http in several VMs: the option `vms`.
local check = require "check"
local process = require "baton.process"
local net = require "baton.net"
local http = require "baton.http"
local vm = require "baton.vm"
local case = {}

-- Makes a module with this text, and returns its name.
local function module_of(text)
  local path = check.scratch "module"
  local folder, name = path:match "^(.*)/([^/]*)$"
  local file <close> = assert(io.open(path .. ".lua", "w"))
  file:write(text)
  local place = folder .. "/?.lua;"
  if not package.path:find(place, 1, true) then package.path = place .. package.path end
  return name
end

local HANDLER = [[
  local http, vm, process = require "baton.http", require "baton.vm", require "baton.process"
  process.spawn(function() process.sleep(3600) end) -- does not hold up the end
  return http.router()
    :get("/vm", function() return 200, vm.current().name end)
    :get("/fails", function() error "on purpose" end)
    :get("/slow", function()
      process.sleep(0.3)
      return 200, "slow"
    end)
    :get("/never", function() process.sleep(3600) end)
]]

local function get(server, path)
  local res = assert(http.get("http://" .. server:address() .. path, { pool = false }))
  return res:body(), res.status
end

-- Asks until each of so many VMs has answered. Returns how often was asked.
local function ask_all(server, count)
  local seen, kinds, asked = {}, 0, 0
  check.eventually("all VMs answer", function()
    local name = get(server, "/vm")
    asked = asked + 1
    if not seen[name] then
      seen[name], kinds = true, kinds + 1
    end
    return kinds == count
  end)
  return asked, seen
end

function case.each_vm_answers_and_figures_are_sums()
  local options = { vms = 3, name = "shop", on_error = function() end }
  local server = assert(http.serve("127.0.0.1:0", module_of(HANDLER), options))
  local asked, seen = ask_all(server, 3)
  check.that(seen["shop 1"] and seen["shop 2"] and seen["shop 3"], "names")
  for _ = 1, 10 do check.equal(select(2, get(server, "/fails")), 500) end
  local stats = server:stats()
  check.equal(stats.requests, asked + 10)
  check.equal(stats.failures, 10)
  check.equal(stats.replies[2], asked)
  check.equal(stats.replies[5], 10)
  check.equal(server:stop(), 0)
  check.equal(#vm.list(), 1)
  check.equal(server:stop(), 0)
  check.equal(net.connect(server:address()), nil)
end

function case.one_socket_serves_all_vms()
  local path = check.scratch "socket"
  local name = module_of(HANDLER)
  local server <close> = assert(http.serve("unix:" .. path, name, { vms = 2 }))
  local conn <close> = assert(net.connect("unix:" .. path))
  conn:write "GET /vm HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
  check.matches(conn:read "all", "http %d$")
  local listener = assert(net.listen "127.0.0.1:0")
  local other <close> = assert(http.serve(listener, name, { vms = 2 }))
  check.matches(get(other, "/vm"), "^http %d$")
end

function case.limits_count_in_each_vm()
  local options = { vms = 1, max_connections = 1, max_header = 300 }
  local server <close> = assert(http.serve("127.0.0.1:0", module_of(HANDLER), options))
  local text = "GET /vm HTTP/1.1\r\nHost: a\r\n%s\r\n"
  local first <close> = assert(net.connect(server:address()))
  first:write(text:format "")
  check.equal(first:read "line", "HTTP/1.1 200 OK")
  local second <close> = assert(net.connect(server:address()))
  second:write(text:format("A: " .. ("x"):rep(300)))
  check.results("it waits", { nil, "timeout" }, second:read("line", 0.1))
  first:close()
  check.matches(second:read "line", "^HTTP/1.1 431")
end

function case.stopping_waits_for_requests_in_all_vms_and_kills_the_rest()
  local server = assert(http.serve("127.0.0.1:0", module_of(HANDLER), { vms = 2 }))
  local asking = {}
  for i = 1, 12 do
    asking[i] = process.spawn({ quiet = true }, get, server, "/slow")
  end
  check.eventually("all are open", function() return server:stats().handlers == 12 end)
  check.equal(server:stop(10), 0)
  for _, one in ipairs(asking) do check.equal(select(2, one:join()), "slow") end
  server = assert(http.serve("127.0.0.1:0", module_of(HANDLER), { vms = 2 }))
  for i = 1, 5 do
    asking[i] = process.spawn({ quiet = true }, get, server, "/never")
  end
  check.eventually("all are open", function() return server:stats().handlers == 5 end)
  check.equal(server:stop(0.1), 5)
  for i = 1, 5 do check.equal(asking[i]:join(), false) end
end

function case.a_vm_that_dies_leaves_the_others_serving()
  local server <close> = assert(http.serve("127.0.0.1:0", module_of(HANDLER), { vms = 2 }))
  for _, one in ipairs(vm.list()) do
    if one.name == "http 2" then one:kill "on purpose" end
  end
  check.eventually("it has died", function() return #vm.list() == 2 end)
  for _ = 1, 10 do check.equal(get(server, "/vm"), "http 1") end
  check.equal(server:stats().requests, 10)
  check.equal(server:stop(), 0)
end

function case.a_simulated_run_has_one_server_in_its_own_vm() -- a test of http.rs simulates it
  local server <close> = assert(http.serve("127.0.0.1:0", module_of(HANDLER), { vms = 2 }))
  check.equal(select(2, get(server, "/vm")), 200)
  check.equal(server:stats().requests, 1)
  check.equal(server:stop(), 0)
end

function case.a_start_that_is_killed_leaves_no_vm()
  local slow = module_of 'require("baton.process").sleep(3600)'
  local why = select(2, process.timeout(0.3, http.serve, "127.0.0.1:0", slow, { vms = 2 }))
  check.equal(why, "timeout")
  check.eventually("its VMs have ended", function() return #vm.list() == 1 end)
end

function case.what_cannot_be_served_by_vms_is_told()
  local function refused(why, ...)
    local server, said = http.serve("127.0.0.1:0", ...)
    check.equal(server, nil)
    check.matches(said, why)
    check.equal(#vm.list(), 1)
  end
  refused("module 'no_such_module' not found", "no_such_module", { vms = 2 })
  refused("router or function as handler expected, got boolean", module_of "", { vms = 2 })
  refused("at fault", module_of "error 'at fault'", { vms = 2 })
  local function wrong(why, ...) check.raises(why, http.serve, "127.0.0.1:0", ...) end
  wrong("name of a module that returns the handler expected, got function", print, { vms = 2 })
  wrong("option 'vms': positive integer expected, got 0", "x", { vms = 0 })
  wrong("router or function as handler expected, got string", "x")
  wrong("send", module_of(HANDLER), { vms = 2, access_log = io.stderr })
  check.equal(#vm.list(), 1)
  local taken <close> = assert(net.listen "127.0.0.1:0")
  local server, why = http.serve(taken:address(), module_of(HANDLER), { vms = 2 })
  check.equal(server, nil)
  check.matches(why, "in use")
end

check.run(case)
