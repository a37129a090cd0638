-- Compares the language server's definitions (a file, arg[1]) with the module itself:
-- baton.process, or arg[2]. Prints each name that only one of them has.

local process = require "baton.process"

-- The definitions of the file: class -> set of names. Functions of the module belong to the class
-- "process".
local function read_definitions(file)
  local classes, class = {}, nil
  for line in io.lines(file) do
    local named = line:match("^%-%-%-@class .-baton%.([%w%.]+)")
    if named then
      class = named:match("%.(%w+)$") or named
      classes[class] = {}
    end
    local field = line:match("^%-%-%-@field ([%w_]+)")
    if field then classes[class][field] = true end
    local owner, method = line:match("^function (%w+)[%.:]([%w_]+)%(")
    if owner then classes[owner][method] = true end
  end
  return classes
end

local function keys(...)
  local set = {}
  for _, names in ipairs { ... } do
    for name in pairs(names) do set[name] = true end
  end
  return set
end

-- Returns the methods of an object, wherever its metatable keeps them.
local function methods(object)
  local index = getmetatable(object).__index
  if type(index) == "table" then return index end
  local _, upvalue = debug.getupvalue(index, 1)
  return upvalue
end

local mutex = process.mutex()
local timer = process.after(3600, function() end)
local here = process.current()
local is_there = {
  process = keys(process),
  Process = keys(
    methods(here),
    { id = here.id, name = here.name, daemon = true, data = here.data }
  ),
  ProcessStats = keys(here:stats()),
  Timer = keys(methods(timer)),
  TimerStats = keys(timer:stats()),
  Alarm = keys(methods(process.timer(1))),
  HasDescriptor = keys { getfd = true, dirty = true }, -- any object of this shape
  Scope = keys(methods(process.scope(function(scope) return scope end))),
  Channel = keys(methods(process.channel())),
  Semaphore = keys(methods(process.semaphore())),
  Mutex = keys(methods(mutex)),
  Condition = keys(methods(process.condition(mutex))),
  Event = keys(methods(process.event())),
  RwLock = keys(methods(process.rwlock())),
  Barrier = keys(methods(process.barrier(1))),
  Params = keys(process.params),
  Features = keys(process.features()),
  Stats = keys(process.stats()),
}
timer:cancel()
local endings = process.channel(1)
local failing = process.spawn({ quiet = true }, error, "on purpose")
failing:monitor(endings)
is_there.Ending = keys(endings:receive())

local options = {
  name = "trial",
  priority = 40,
  preemptible = true,
  suspended = false,
  daemon = false,
  quiet = true,
  decay = true,
  thread = "main",
  stack_size = 1 << 20,
  time_left = 1,
}
for name, value in pairs(options) do
  assert(process.spawn({ [name] = value }, function() end):join())
end
is_there.SpawnOptions = keys(options)
local scope_options = { timeout = 1, name = "trial" }
process.scope(scope_options, function() end)
is_there.ScopeOptions = keys(scope_options)

local supervise_options = {
  strategy = "one",
  max = 1,
  within = 1,
  backoff = { 1, 1 },
  name = "trial",
  quiet = true,
  lasting = false,
}
local child = {
  name = "trial", start = error, restart = "never", stop = 1,
  lease = function(f, ...) return f(...) end,
}
local nested = { children = { { children = {}, options = {} } } }
local supervisor = process.supervise({ child, nested }, supervise_options)
assert(supervisor:join())
is_there.Supervisor = keys(methods(supervisor), { process = supervisor.process })
is_there.SuperviseOptions = keys(supervise_options)
is_there.Child = keys(child, nested, nested.children[1], { vm = true })
is_there.ChildState = keys(
  supervisor:children()[1],
  supervisor:children()[2],
  { process = true, reason = true, vm = true }
)
assert(not pcall(process.spawn, { no_such_option = true }, function() end))

local pool_options = { size = 1, make = function() return {} end, check = print, close = print }
local pool = process.pool(pool_options)
local loan = pool:take()
is_there.PoolOptions = keys(pool_options)
is_there.Pool = keys(methods(pool))
is_there.PoolStats = keys(pool:stats())
is_there.Loan = keys(methods(loan), { object = loan.object })

if arg[2] == "ffi" then
  is_there = { ffi = keys((require "baton.ffi")), Cdata = {}, Type = {}, Library = {} }
end

if arg[2] == "json" then is_there = { json = keys((require "baton.json")) } end

if arg[2] == "log" then
  local log = require "baton.log"
  local own, logger = keys(log), log.with {}
  for name in pairs(logger) do
    assert(own[name], name)
    own[name] = nil
  end
  is_there = { log = own, Logger = keys(logger), Settings = keys(log.setup()) }
end

if arg[2] == "inspect" then
  local inspect = require "baton.inspect"
  local allocated = inspect.profile(function()
    for _ = 1, 100 do ("x"):rep(100000) end
  end, { kind = "alloc" })
  local event = process.event()
  process.spawn({ daemon = true }, function() event:wait() end)
  -- Two that wait for each other.
  local one, other = process.channel(1), process.channel(1)
  for _, ends in ipairs { { one, other }, { other, one } } do
    process.spawn({ daemon = true }, function()
      ends[1]:send(true)
      ends[2]:receive()
      while true do ends[1]:send(true) end
    end)
  end
  local waited, held = inspect.profile(0.2, { kind = "waits" }), nil
  for _, wait in ipairs(waited.waits) do
    if wait.holders[1] then held = wait end
  end
  local histogram = inspect.histogram("h", "a histogram")
  local metrics, heap, frames = inspect.metrics(), inspect.heap(), {}
  local of_histogram = metrics.families[#metrics.families]
  local all, overview = inspect.stacks()
  for i, one in ipairs(all) do frames[i] = one.stacks[1][1] end
  local objects, partner = overview.objects, nil
  for _, object in ipairs(objects) do
    partner = partner or (object.partners or {})[1]
  end
  is_there = {
    inspect = keys(inspect),
    ProfileOptions = keys { kind = true, rate = true, path = true },
    Profile = keys(allocated, waited),
    FunctionCost = keys(allocated.functions[1]),
    WaitCost = keys(waited.waits[1]),
    HolderCost = keys(held.holders[1]),
    HeldPlace = keys(held.held_at[1]),
    Process = keys(
      { waits = true, object = true, has_moved_on = true, since = true, spawned_at = true },
      { context = true },
      table.unpack(all)
    ),
    Overview = keys(overview),
    ObjectWaits = keys({ longest = true, partners = true, note = true }, table.unpack(objects)),
    Partner = keys(partner),
    WaitRing = keys(overview.rings[1]),
    Frame = keys({ symbol = true, library = true }, table.unpack(frames)),
    Metrics = keys(metrics),
    Family = keys(table.unpack(metrics.families)),
    Point = keys(metrics.families[1].points[1], of_histogram.points[1]),
    MetricOptions = keys { labels = true, context = true, max_sets = true },
    HistogramOptions = keys { labels = true, context = true, max_sets = true, bounds = true },
    Counter = keys(methods(inspect.counter("c", "a counter"))),
    Gauge = keys(methods(inspect.gauge("g", "a gauge"))),
    HistogramMetric = keys(methods(histogram)),
    Histogram = keys(metrics.histograms.lateness),
    Series = keys({ ["function"] = true }, metrics.histograms.lateness.series[1]),
    Heap = keys(heap),
    Garbage = keys(heap.garbage),
    ObjectClass = keys(heap.classes[1]),
    Keeper = keys(heap.keepers[1]),
  }
end

if arg[2] == "net" then
  local net = require "baton.net"
  local bounds = { nodelay = true, max_line = 1, max_all = 1 }
  local listen_options = { backlog = 1, reuseport = true, limit = 1 }
  local connect_options, datagram_options = { timeout = 9, tls = false }, { reuseport = true }
  for name, value in pairs(bounds) do
    listen_options[name], connect_options[name] = value, value
  end
  local faults = { delay = 0, piece = 1, loss = 0, rate = 1, drop = 0, twice = 0 }
  assert(net.simulated(faults) == false)
  local listener = assert(net.listen("127.0.0.1:0", listen_options))
  is_there = {
    net = keys(net),
    ListenOptions = keys(listen_options),
    ConnectOptions = keys(connect_options),
    DatagramOptions = keys(datagram_options),
    Faults = keys(faults),
    Listener = keys(methods(listener)),
    Connection = keys(methods(net.connect(listener:address(), connect_options))),
    Datagrams = keys(methods(net.udp("127.0.0.1:0", datagram_options))),
  }
end

if arg[2] == "web" then
  local net, web = require "baton.net", require "baton.web"
  local limits = {
    protocols = { "chat" }, max_message = 9, max_frame = 9, timeout = 9, keepalive = 9,
  }
  local listener = assert(net.listen "127.0.0.1:0")
  local serving = process.spawn(function() return web.accept(listener:accept(), limits) end)
  local options = { url = "ws://" .. listener:address(), headers = { a = "b" }, tls = true }
  for name, value in pairs(limits) do options[name] = value end
  local ws = assert(web.connect(options))
  local _, accepted = serving:join()
  local tls = {
    cert = "x", key = "x", certs = { { cert = "x", key = "x" } }, ca = "x", verify = true,
    name = "x", alpn = { "x" }, server = true, timeout = 9,
  }
  is_there = {
    web = keys(web),
    TlsOptions = keys(tls),
    Context = keys(methods(web.context(tls))),
    Facts = keys {
      version = 1, cipher = 1, alpn = 1, name = 1, certificate = 1, resumed = 1,
    },
    SocketOptions = keys(limits),
    ConnectOptions = keys(options),
    Socket = keys(methods(ws), ws, accepted),
  }
end

if arg[2] == "cluster" then -- in a simulated run, which needs no server
  local cluster = require "baton.cluster"
  local faults = { delay = 0, loss = 0, duplication = 0, every = 0, lasts = 0 }
  local c = assert(cluster.connect { url = "sim", faults = faults })
  local queue, t, lease = assert(c:queue "q"), assert(c:table "t"), assert(c:lease("l", 1))
  queue:send(1)
  t:put("key", 1)
  local job, work = queue:receive(), queue:work(1, print)
  local service = c:serve("s", {})
  for name, value in pairs {
    queue = { max = 1, ack = 1, tries = 1, dead = false, replicas = 1, prefetch = 1 },
    table = { replicas = 1 },
  } do
    for option, given in pairs(value) do
      assert(c[name](c, "of-" .. option, { [option] = given }))
    end
  end
  is_there = {
    cluster = keys(cluster),
    ConnectOptions = keys {
      url = 1, name = 1, credentials = 1, tls = 1, timeout = 1, faults = 1,
    },
    Credentials = keys { user = 1, password = 1, token = 1 },
    Tls = keys { ca = 1, cert = 1, key = 1 },
    Faults = keys(faults),
    Connection = keys(methods(c)),
    SubscribeOptions = keys { queue = 1, max = 1, subjects = 1 },
    Subscription = keys(methods(c:subscribe "news"), { channel = true }),
    ServeOptions = keys { concurrency = 1 },
    Service = keys(methods(service)),
    QueueOptions = keys { max = 1, ack = 1, tries = 1, dead = 1, replicas = 1, prefetch = 1 },
    Queue = keys(methods(queue), queue),
    SendOptions = keys { id = 1, delay = 1, timeout = 1 },
    Work = keys(methods(work)),
    Job = keys(methods(job), job, { why = true }),
    TableOptions = keys { replicas = 1 },
    Table = keys(methods(t), t),
    Entry = keys(t:watch()(), { error = true }),
    Lease = keys(methods(lease), { token = true }),
  }
  service:close()
  work:close()
end

-- The methods of a class in Lua, without its metamethods.
local function plain_methods(object)
  local names = {}
  for name, value in pairs(getmetatable(object).__index) do
    if name:sub(1, 2) ~= "__" then names[name] = value end
  end
  return names
end

if arg[2] == "http" then
  local http = require "baton.http"
  local options = {
    header_timeout = 9, body_timeout = 9, idle_timeout = 9, handler_timeout = 9,
    max_header = 999, max_body = 9, max_connections = 9, max_handlers = 9,
    max_streams = 9, http2 = false,
    on_error = print, compress = true, reuseport = true, name = "trial",
  }
  local request, events, figures
  options.access_log = function(_, given) figures = given end
  local server <close> = http.serve("127.0.0.1:0", function(req, res)
    request, events = req, res:events()
  end, options)
  local conn = require("baton.net").connect(server:address())
  conn:write "GET / HTTP/1.0\r\nHost: a\r\nLast-Event-ID: 1\r\n\r\n"
  repeat
  until not conn:read "some"
  events.request, events.heart = nil, nil -- not for programs
  local pool_options = { size = 1, per_host = 1, idle_timeout = 1 }
  local pool <close> = http.pool(pool_options)
  local asking <close> = http.serve("127.0.0.1:0", function() return "ok" end)
  local request_options = {
    url = "http://" .. asking:address(), method = "POST", headers = {}, body = "b", timeout = 9,
    redirects = 9, retries = 9, max_header = 999, pool = pool, tls = {},
  }
  local reply = assert(http.request(request_options))
  local reply_fields = {
    status = reply.status, headers = reply.headers, set_cookies = reply.set_cookies,
    version = reply.version, url = reply.url,
  }
  local static_options = { index = "index.html", max_age = 9, hidden = false }
  local parts_options, part = { max_parts = 9 }, nil
  local cookie_options = {
    path = "/", domain = "a.b", max_age = 9, http_only = true, secure = true, same_site = "lax",
  }
  local file_options = {
    type = "text/plain", download = true, max_age = 9, root = "/dev", hidden = true,
  }
  local files <close> = http.serve("127.0.0.1:0", function(req, res)
    for one in req:parts(parts_options) do part = one end
    res:cookie("a", "b", cookie_options)
    return 200, select(2, res:file("none", file_options))
  end)
  assert(http.router():static("/", "/dev", static_options))
  local disposition = 'Content-Disposition: form-data; name="a"; filename="b"'
  local type = "Content-Type: text/plain"
  local text = ("--x\r\n%s\r\n%s\r\n\r\n\r\n--x--"):format(disposition, type)
  local multipart = { headers = { ["Content-Type"] = "multipart/form-data; boundary=x" } }
  assert(http.post("http://" .. files:address(), text, multipart):body() == "no such file")
  part.reader = nil -- not for programs
  is_there = {
    StaticOptions = keys(static_options),
    PartsOptions = keys(parts_options),
    Part = keys(plain_methods(part), part),
    CookieOptions = keys(cookie_options),
    FileOptions = keys(file_options),
    http = keys(http),
    -- http.rs has a test of `vms`, and http_web.rs the certificates for `tls`
    ServeOptions = keys(options, { tls = true, vms = true }),
    Figures = keys(figures),
    Stats = keys(server:stats()),
    Server = keys(plain_methods(server)),
    Request = keys(methods(request), { params = true }), -- `params`: set by a router
    Router = keys(plain_methods(http.router())),
    RequestOptions = keys(request_options),
    PoolOptions = keys(pool_options),
    Response = keys(plain_methods(reply), reply_fields),
    Pool = keys(plain_methods(pool)),
    Events = keys(plain_methods(events), events),
  }
end

if arg[2] == "vm" then
  local vm = require "baton.vm"
  local w = assert(vm.spawn({ daemon = true }, function() require("baton.process").sleep(3600) end))
  local of_process, stats = keys(here:stats(), process.stats()), keys(w:stats())
  for name in pairs(of_process) do stats[name] = nil end
  local pool_options = { module = "string", size = 1, queue = 1, restart = true }
  local pool = vm.pool(pool_options)
  local map_options = { workers = 1, chunk = 1, ordered = true }
  for _ in vm.map({ 1 }, math.abs, map_options) do end
  local spawn_options = { name = "trial", memory = 1 << 30, daemon = true, quiet = true, cpu = 0 }
  local channel_options, dict_options = { bytes = 1, name = "trial" }, { bytes = 1, evict = "lru" }
  vm.spawn(spawn_options, function() end)
  local proxy = vm.proxy(print)
  proxy.life = nil -- what counts its references
  is_there = {
    vm = keys(vm),
    SpawnOptions = keys(spawn_options),
    ChannelOptions = keys(channel_options),
    DictOptions = keys(dict_options),
    MapOptions = keys(map_options),
    PoolOptions = keys(pool_options),
    VM = keys(plain_methods(w), { id = w.id, name = w.name }),
    Stats = stats,
    Channel = keys(methods(vm.channel(channel_options))),
    Words = keys(methods(vm.shared(1))),
    Buffer = keys(methods(vm.buffer(1))),
    Dict = keys(methods(vm.dict(dict_options))),
    Proxy = keys(proxy),
    Pool = keys(plain_methods(pool)),
  }
  pool:close()
end

local defined = read_definitions(arg[1])
for class, names in pairs(defined) do
  if not is_there[class] then print(("%s: no such class"):format(class)) end
  for name in pairs(names) do
    if not (is_there[class] or {})[name] then
      print(("%s.%s is defined, but not there"):format(class, name))
    end
  end
end
for class, names in pairs(is_there) do
  for name in pairs(names) do
    if not (defined[class] or {})[name] then
      print(("%s.%s is there, but not defined"):format(class, name))
    end
  end
end
