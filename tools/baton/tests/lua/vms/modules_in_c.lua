-- C modules in several VMs at once.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"

local case = {}

-- Runs f in four VMs at once, and twice in this one.
local function everywhere(f, ...)
  local all, here = {}, {}
  for i = 1, 4 do all[i] = check.that(vm.spawn({ quiet = true }, f, ...)) end
  for i = 1, 2 do here[i] = process.spawn({ quiet = true }, f, ...) end
  for _, each in ipairs(here) do all[#all + 1] = each end
  for _, each in ipairs(all) do
    local ok, result = each:join()
    if not ok then error(result, 0) end
    check.equal(result, "done")
  end
end

local function use_fragile()
  local fragile = require "fragile"
  for i = 1, 50 do
    pcall(fragile.use, 100, i % 3 == 0)
    fragile.object()
    if i % 10 == 0 then collectgarbage() end
  end
  return "done"
end

function case.a_module_that_is_not_declared_is_in_one_vm_at_a_time()
  everywhere(use_fragile)
  check.equal(require("fragile").overlaps(), 0)
end

function case.a_module_that_is_declared_serial_is_in_one_vm_at_a_time()
  process.concurrent("fragile", "serial")
  everywhere(use_fragile)
  check.equal(require("fragile").overlaps(), 0)
end

function case.a_module_that_is_declared_concurrent_is_in_all_of_them()
  process.concurrent("fragile", "concurrent")
  check.eventually("calls overlap", function()
    everywhere(use_fragile)
    return require("fragile").overlaps() > 0
  end)
end

function case.a_declaration_holds_for_vms_that_start_later_and_earlier()
  local w = vm.spawn "vms.modules.functions"
  w:call(function() require("baton.process").concurrent("fragile", "concurrent") end)
  check.eventually("calls overlap", function()
    everywhere(use_fragile)
    return require("fragile").overlaps() > 0
  end)
  w:kill()
  w:join()
end

function case.a_call_that_calls_back_keeps_its_turn()
  local function call_back()
    local fragile = require "fragile"
    for i = 1, 20 do
      fragile.call(function() require("baton.process").sleep(0.0002) end)
    end
    return "done"
  end
  local all = {}
  for i = 1, 4 do all[i] = vm.spawn(call_back) end
  for _, each in ipairs(all) do check.results("VM", { true, "done" }, each:join()) end
  check.equal(require("fragile").overlaps(), 0)
end

function case.a_killed_process_gives_its_turn_back()
  local fragile = require "fragile"
  local w = vm.spawn "vms.modules.functions"
  local holds = process.spawn({ quiet = true }, fragile.call, process.sleep, 3600)
  check.eventually("it has called", function() return holds:status() == "sleeping" end)
  local waits = process.spawn(w.call, w, function()
    require("fragile").use(1)
    return "done"
  end)
  check.results("it waits", { n = 2, nil, "timeout" }, waits:join(0.05))
  holds:kill()
  holds:join()
  check.results("it goes on", { true, "done" }, waits:join())
  w:kill()
  w:join()
end

function case.a_process_that_is_killed_while_it_waits_for_a_turn_leaves_the_queue()
  local fragile = require "fragile"
  local w = vm.spawn "vms.modules.functions"
  local holds = process.spawn({ quiet = true }, fragile.call, process.sleep, 3600)
  check.eventually("it has called", function() return holds:status() == "sleeping" end)
  local waits = process.spawn({ quiet = true }, w.call, w, function() require "fragile" end)
  check.results("it waits", { n = 2, nil, "timeout" }, waits:join(0.05))
  waits:kill()
  waits:join()
  holds:kill()
  holds:join()
  check.equal(w:call(function() return require("fragile").overlaps() end), 0)
  w:kill()
  w:join()
end

function case.well_known_modules_are_in_all_vms_at_once()
  everywhere(function()
    local lpeg = require "lpeg"
    local cjson = require "cjson"
    local lfs = require "lfs"
    local zlib = require "zlib"
    local words = lpeg.Ct(lpeg.P { lpeg.C(lpeg.R "az" ^ 1) * (lpeg.P " " * lpeg.V(1)) ^ -1 })
    for i = 1, 100 do
      assert(#words:match "some words to match" == 4)
      assert(cjson.decode(cjson.encode { list = { 1, 2, i } }).list[3] == i)
      assert(lfs.attributes(".").mode == "directory")
      local packed = zlib.deflate()(("text " .. i):rep(50), "finish")
      assert(zlib.inflate()(packed) == ("text " .. i):rep(50))
    end
    return "done"
  end)
end

function case.databases_are_in_all_vms_at_once()
  everywhere(function()
    local environment = require("luasql.sqlite3").sqlite3()
    local connection = environment:connect ":memory:"
    local database = require("DBI").Connect("SQLite3", ":memory:")
    connection:execute "create table numbers (n integer)"
    database:prepare("create table numbers (n integer)"):execute()
    local insert = database:prepare "insert into numbers values (?)"
    for i = 1, 50 do
      connection:execute(("insert into numbers values (%d)"):format(i))
      insert:execute(i)
    end
    local cursor = connection:execute "select sum(n) from numbers"
    assert(tonumber(cursor:fetch()) == 1275)
    local query = database:prepare "select sum(n) from numbers"
    query:execute()
    assert(query:fetch()[1] == 1275)
    cursor:close()
    connection:close()
    environment:close()
    query:close()
    insert:close()
    database:close()
    return "done"
  end)
end

function case.tls_is_in_all_vms_at_once()
  everywhere(function()
    local ssl = require "ssl"
    for _ = 1, 50 do assert(ssl.newcontext { mode = "client", protocol = "any" }) end
    return "done"
  end)
end

function case.sockets_of_all_vms_reach_each_other()
  everywhere(function()
    local socket = require "socket"
    local process = require "baton.process"
    local server = assert(socket.bind("127.0.0.1", 0))
    local _, port = server:getsockname()
    process.spawn(function()
      for _ = 1, 20 do
        local client = server:accept()
        client:send(client:receive() .. "\n")
        client:close()
      end
    end)
    for i = 1, 20 do
      local client = assert(socket.connect("127.0.0.1", port))
      client:send(i .. "\n")
      assert(tonumber(client:receive()) == i)
      client:close()
    end
    server:close()
    return "done"
  end)
end

check.run(case)
