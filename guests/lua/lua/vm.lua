-- require "baton.vm": several VMs in one program. Nothing is shared between them but what is sent.
--
-- Three channels connect a VM with the others (c/vms/vms.h). Others send it requests: to call a
-- function, to give up a call, to end. A process of the VM, its listener, takes them; each call
-- gets a process of its own. The VM tells the one that started it of its life: that it has begun,
-- and how it ended. The channel `ended` carries nothing, and is closed when the VM has ended.
--
-- Where a VM was started, its keeper stands for it: a process that ends when the VM has ended, with
-- the results or the error of the VM's first function. Joining and monitoring a VM is joining and
-- monitoring its keeper.
local vm, internal = ...
local process = require "baton.process"
local start, halt, list, is_waiting =
  internal.start, internal.halt, internal.list, internal.is_waiting
local refuse_argument, type_given, raise = internal.refuse, internal.type_given, internal.raise
local is_shared, max = internal.is_shared, math.max
local new_channel, new_words, class = vm.channel, vm.shared, vm.class
local choose, spawn, current = process.select, process.spawn, process.current
local get_context, set_context = process.context, process.set_context
local now, time_left = process.now, process.time_left
local pack, unpack, traceback = table.pack, table.unpack, debug.traceback
local xpcall, pcall, error, type, tostring, select = xpcall, pcall, error, type, tostring, select
local require, pairs, ipairs = require, pairs, ipairs
local getmetatable, setmetatable = getmetatable, setmetatable
local math_type, to_integer, sort = math.type, math.tointeger, table.sort
local memory_used, package = collectgarbage, package

local REQUESTS = 1024 -- how many requests may wait for a VM's listener
local LISTENER_PRIORITY = 80
local GRACE = 5 -- seconds for a killed VM, by default
local HALT_WITHIN = 1 -- seconds for the last safepoint of a VM that is halted
local AT_EXIT = 1 -- seconds for a VM that is a daemon, when the program ends
local PARTS = 10 -- of a time that a VM gets to end
local NO_MEMORY = "not enough memory" -- Lua's message

-- The class of VMs. A VM's table has what others need to reach it, so it can be sent.
local VM = { __name = "VM" }
VM.__index = VM
class("baton.vm", VM)

-- How other VMs reach this one, and the program's first one: {id, name, requests, ended}.
local own, first
local own_id, own_name = internal.this()
local proxies, last_proxy = {}, 0 -- what each proxy stands for: {f =, life =}
local own_proxies = setmetatable({}, { __mode = "v" }) -- those that were made here and are alive
local proxy_count, most_proxies = 0, 64 -- with more, those that nobody has are forgotten
local loading -- an event: the module that this VM was started with is there, or has failed
local exports -- the functions of that module
local calls = {} -- the processes of calls, by their keys
local last_call = 0
local ending_reason -- why this VM was killed, if it was
local keepers = setmetatable({}, { __mode = "k" }) -- of VMs that were started here
local started = setmetatable({}, { __mode = "v" }) -- these VMs, by their ids

local at_close = { __close = function(guard, err) guard.close(err) end }

-- Calls `close` at the end of the block that has this value in a variable with <close>.
local function closing(close) return setmetatable({ close = close }, at_close) end

-- Checks
-- -------------------------------------------------------------------------------------------------

local function wrong(level, number, name, text, ...)
  refuse_argument(level + 1, number, name, text:format(...))
end

-- Checks a table of options. `known` maps each name to the type of its value.
local function check_options(level, number, name, options, known)
  for key, value in pairs(options) do
    local expected = known[key]
    if not expected then
      wrong(level + 1, number, name, "unknown option '%s'", tostring(key))
    end
    local got = expected == "integer" and math_type(value) or type(value)
    if got ~= expected then
      wrong(level + 1, number, name, "option '%s': %s expected, got %s", key, expected, type(value))
    end
  end
end

local function check_positive(level, number, name, options, key)
  local value = options[key]
  if value and value < 1 then
    wrong(level + 1, number, name, "option '%s': positive integer expected, got %d", key, value)
  end
end

-- Errors
-- -------------------------------------------------------------------------------------------------

-- A message handler: keeps the error and where it was raised.
local function with_trace(err) return { err, traceback(nil, 2) } end

-- Calls f. Returns true and its results, or false and {error, traceback}. An error for want of
-- memory has no traceback: Lua calls no handler then.
local function caught(ok, ...)
  local failure = ...
  if ok or type(failure) == "table" then return ok, ... end
  return ok, { failure }
end
local function try(f, ...) return caught(xpcall(f, with_trace, ...)) end

-- The error of another VM, for this one. Strings get the traceback of the other VM. With other
-- values, the traceback of this one continues with it.
local function foreign_error(failure, name)
  local err, trace = failure[1], failure[2]
  if type(err) ~= "string" then return err end
  if not trace then return err end
  return ("%s\nin VM '%s':\n%s"):format(err, name, trace)
end

-- The text of an error. Its __tostring may fail.
local function text_of(err)
  local could, text = pcall(tostring, err)
  return could and text or ("(error object is a %s value)"):format(type(err))
end

local function raise_foreign(failure, name)
  local trace = failure[2] and ("in VM '%s':\n%s"):format(name, failure[2])
  raise(foreign_error(failure, name), type(failure[1]) ~= "string" and trace or nil)
end

-- Sends {true, results...} or {false, {error, traceback}}. What cannot be sent is an error itself.
local function send_outcome(channel, word, ok, ...)
  local outcome
  if ok then
    outcome = { word = word, ok = true, n = select("#", ...), ... }
  else
    outcome = { word = word, ok = false, failure = (...) }
  end
  local could, why = pcall(channel.send, channel, outcome)
  if could then return end
  local failure = ok and { why } or { text_of((...)[1]), (...)[2] }
  channel:send { word = word, ok = false, failure = failure }
end

-- Requests, where they arrive
-- -------------------------------------------------------------------------------------------------

local function function_named(name)
  if loading then loading:wait() end
  if exports and exports[name] then return exports[name] end
  local module, field = name:match "^(.*)%.([^.]+)$"
  if module and not exports then
    local found, value = pcall(require, module)
    if found and type(value) == "table" and value[field] then return value[field] end
  end
  error(("VM '%s' has no function '%s'"):format(own_name, name), 0)
end

local function find(message)
  if message.proxy then return proxies[message.proxy].f end
  if type(message.what) == "string" then return function_named(message.what) end
  return message.what
end

local function run_call(message)
  local answered = false
  if message.context then set_context(message.context) end
  local guard <close> = closing(function(err)
    calls[message.key] = nil
    if not answered and not ending_reason then -- else the end of this VM is the answer
      local why = err == NO_MEMORY and err or "the call was killed"
      message.reply:send({ ok = false, failure = { why } }, 0)
    end
  end)
  local outcome = pack(try(function()
    return find(message)(unpack(message, 1, message.n))
  end))
  send_outcome(message.reply, nil, unpack(outcome, 1, outcome.n))
  answered = true
end

local serve_request = {
  call = function(message)
    local what = message.proxy and "proxy " .. message.proxy or tostring(message.what)
    local options = { name = "call of " .. what, priority = 40, quiet = true }
    if message.deadline then options.time_left = message.deadline - now() end
    calls[message.key] = spawn(options, run_call, message)
  end,
  cancel = function(message)
    local call = calls[message.key]
    if call then call:kill "its caller has gone" end
  end,
  kill = function(message)
    ending_reason = message.reason
    for _, each in ipairs(process.list()) do
      if each ~= current() then each:kill(message.reason) end
    end
  end,
  stats = function(message)
    local stats = process.stats()
    stats.memory = to_integer(memory_used "count" * 1024)
    stats.processes = #process.list()
    message.reply:send({ ok = true, n = 1, stats }, 0)
  end,
}

local function listen(requests)
  set_context(nil) -- of the process that makes this VM reachable
  for message in requests:values() do
    serve_request[message.kind](message)
  end
end

local function start_listener(requests)
  local options =
    { name = "listener", daemon = true, quiet = true, priority = LISTENER_PRIORITY }
  spawn(options, listen, requests)
end

-- Requests, where they are made
-- -------------------------------------------------------------------------------------------------

-- Sends a request, and returns what its answer says. nil, "dead" if the VM ends before.
local function ask(target, message)
  local reply = new_channel(1)
  last_call = last_call + 1
  message.key = own_id .. ":" .. last_call
  message.reply = reply
  message.context = get_context()
  local left = time_left()
  message.deadline = left and now() + left
  local is_open = false
  local guard <close> = closing(function()
    if is_open then target.requests:send({ kind = "cancel", key = message.key }, 0) end
  end)
  if not target.requests:send(message) then return nil, "dead" end
  is_open = true
  local case, answer = choose { reply, target.ended }
  if case == 2 then answer = reply:receive(0) end
  is_open = false
  if not answer then return nil, "dead" end
  if answer.ok then return unpack(answer, 1, answer.n) end
  raise_foreign(answer.failure, target.name)
end

-- Makes this VM reachable. A VM that baton.vm has started is reachable from its beginning.
local function reach()
  if own then return own end
  local requests, ended = new_channel(REQUESTS), new_channel(1)
  own = setmetatable({ id = own_id, name = own_name, requests = requests, ended = ended }, VM)
  first = own
  start_listener(requests)
  return own
end

-- VMs
-- -------------------------------------------------------------------------------------------------

-- A VM that was sent comes as another table.
function VM:__eq(other) return self.id == other.id end

function VM:__tostring() return ("VM: %d '%s'"):format(self.id, self.name) end

-- The keeper of a VM that was started here.
local function keeper_of(self) return keepers[self] or keepers[started[self.id]] end

local function has_ended(self)
  local _, _, why = choose({ self.ended }, 0)
  return why == "closed"
end

local function check_self(self, name)
  if getmetatable(self) ~= VM then wrong(3, 0, name, "VM expected, got %s", type_given(self)) end
end

function VM:call(...)
  check_self(self, ":call")
  local what = ...
  if type(what) ~= "string" and type(what) ~= "function" then
    wrong(2, 1, ":call", "name of a function or function expected, got %s", type_given(...))
  end
  return ask(self, { kind = "call", what = what, n = select("#", ...) - 1, select(2, ...) })
end

function VM:stats()
  check_self(self, ":stats")
  return ask(self, { kind = "stats" })
end

-- Where the VM was not started, its results are not known.
function VM:join(timeout)
  check_self(self, ":join")
  local keeper = keeper_of(self)
  if keeper then return keeper:join(timeout) end
  local _, _, why = choose({ self.ended }, timeout)
  if why == "closed" then return true end
  return nil, "timeout"
end

-- Waits for the end of a VM. Only the time in which the program runs counts: while it is stopped
-- (by SIGSTOP), no more than one part passes.
local function ends_within(target, seconds)
  for _ = 1, PARTS do
    local _, _, why = choose({ target.ended }, seconds / PARTS)
    if why == "closed" then return true end
  end
  return false
end

-- The request is sent at once: a process that ends with its VM may never run.
function VM:kill(reason, grace)
  check_self(self, ":kill")
  if has_ended(self) then return false, "dead" end
  local request = { kind = "kill", reason = reason or "killed" }
  local is_sent = self.requests:send(request, 0)
  grace = grace or GRACE
  spawn({ name = "kill of a VM", daemon = true, quiet = true }, function()
    if not is_sent then self.requests:send(request, grace) end
    -- A C function that uses the VM all the time cannot be stopped: tries until it gives way.
    while not ends_within(self, grace) and not halt(self.id, HALT_WITHIN) do
      grace = HALT_WITHIN
    end
  end)
  return true
end

function VM:status()
  check_self(self, ":status")
  if has_ended(self) then return "dead" end
  return is_waiting(self.id) and "waiting" or "running"
end

function VM:monitor(channel)
  check_self(self, ":monitor")
  local keeper = keeper_of(self)
  if not keeper then error("a VM is monitored where it was started", 2) end
  return keeper:monitor(channel)
end

-- What the keeper does: waits for the end of the VM, and ends as it did.
local function keep(self, life)
  local last
  local guard <close> = closing(function()
    if has_ended(self) then return end
    self.requests:send({ kind = "kill", reason = "killed" }, 0)
    choose({ self.ended }, AT_EXIT)
  end)
  for message in life:values() do last = message end
  choose { self.ended }
  if not last then error(("VM '%s' was stopped: it did not end by itself"):format(self.name), 0) end
  if last.word == "killed" then current():kill(last.reason) end
  if last.ok then return unpack(last, 1, last.n) end
  raise_foreign(last.failure, self.name)
end

local SPAWN_OPTIONS =
  { name = "string", memory = "integer", daemon = "boolean", quiet = "boolean", cpu = "integer" }

local function settings_of(name)
  local params = {}
  for key, value in pairs(process.params) do params[key] = value end
  return {
    name = name,
    first = first,
    path = package.path,
    cpath = package.cpath,
    arg = arg,
    params = params,
    context = get_context(),
  }
end

-- Why a VM ended before it began. Its first word may say that.
local function why_not_begun(word, name)
  if word and word.failure then return foreign_error(word.failure, name) end
  local why = word and ("killed (%s)"):format(text_of(word.reason)) or NO_MEMORY
  return ("VM '%s' could not begin: %s"):format(name, why)
end

local function spawn_vm(level, options, main, ...)
  check_options(level + 1, 1, "spawn", options, SPAWN_OPTIONS)
  check_positive(level + 1, 1, "spawn", options, "memory")
  local name = options.name or (type(main) == "string" and main or "VM")
  reach()
  local requests, life, ended = new_channel(REQUESTS), new_channel(8), new_channel(1)
  local self = setmetatable({ name = name, requests = requests, ended = ended }, VM)
  local is_kept = false
  local guard <close> = closing(function()
    if self.id and not is_kept then self:kill() end
  end)
  local why
  process.critical(function(...) -- no kill can come before the guard knows of the VM
    self.id, why = start(name, options.memory, options.cpu, requests, life, ended, ...)
  end, settings_of(name), main, ...)
  if not self.id then return nil, why end
  local begun = life:receive()
  if not begun or begun.word ~= "loaded" then
    is_kept = true
    choose { ended }
    return nil, why_not_begun(begun, name)
  end
  local daemon = options.daemon
  if daemon == nil then daemon = begun.serves end
  local keeper = spawn({
    name = options.name and "VM " .. name or ("VM %d %s"):format(self.id, name),
    daemon = daemon,
    quiet = options.quiet or false,
    priority = 40,
  }, keep, self, life)
  keepers[self], started[self.id] = keeper, self
  process.yield_to(keeper) -- once it has begun, the end of the program runs its <close>
  is_kept = true
  return self
end

function vm.spawn(...)
  local options, main = ...
  local first = type(options) == "table" and 2 or 1 -- the argument that is the main function
  if first == 1 then options, main = {}, options end
  if type(main) ~= "string" and type(main) ~= "function" then
    local text = "name of a module or function expected, got %s"
    wrong(2, first, "spawn", text, type_given(select(first, ...)))
  end
  local self, why = spawn_vm(2, options, select(first, ...)) -- no tail call: errors count levels
  return self, why
end

vm.current = reach
vm.cores = internal.cores

-- All VMs of the program that have not ended, in the order of their start.
function vm.list()
  local all = { reach() }
  if first ~= own and not has_ended(first) then all[2] = first end
  for _, one in ipairs(list()) do
    if one.id ~= own_id then
      one = started[one.id] or setmetatable(one, VM)
      if not has_ended(one) then all[#all + 1] = one end
    end
  end
  sort(all, function(one, other) return one.id < other.id end)
  return all
end

-- For vm_workers.lua: functions that a VM may begin with, by their names, and a VM that does.
local builtin = {}
local BUILTIN = "\0"

local function spawn_builtin(options, name, ...)
  return spawn_vm(3, options, BUILTIN .. name, ...)
end

-- In a new VM
-- -------------------------------------------------------------------------------------------------

local function begin(settings)
  package.path, package.cpath = settings.path, settings.cpath
  arg = settings.arg
  local params = process.params
  for key, value in pairs(settings.params) do
    if params[key] ~= value then params[key] = value end -- each change wakes the monitor
  end
end

-- Returns the function with which the VM begins, or nil if it only serves calls.
local function load_main(main)
  if type(main) == "function" then return main end
  if main:sub(1, 1) == BUILTIN then return builtin[main:sub(2)] end
  local result = require(main)
  if type(result) == "function" then return result end
  if type(result) == "table" then
    exports = result
    return nil
  end
  error(("module '%s' returned a %s: a VM needs a function, or a table with functions"):format(
    main, type(result)), 0)
end

-- Loads the main function and calls it, or serves calls until this VM is killed. The listener comes
-- first, so that a kill comes while the module is loaded, too.
local function live(requests, life, settings, main, ...)
  begin(settings)
  loading = process.event()
  start_listener(requests)
  if settings.context then set_context(settings.context) end
  local entry = load_main(main)
  loading:set()
  loading = nil
  life:send { word = "loaded", ok = true, serves = exports ~= nil }
  if not entry then process.event():wait() end
  return entry(...)
end

-- What a VM tells the one that started it. Its first word says how it has begun:
--
-- | first word | the VM |
-- |---|---|
-- | loaded | has begun; another word follows at its end |
-- | done, with a failure | could not load its module, or had no memory for that |
-- | killed | was killed while it loaded its module |
-- | none | had no memory to say so, or was halted |
--
-- After "loaded", "done" has the results or the error of the main function.
local function serve(requests, life, ended, id, settings, main, ...)
  local no_memory = { word = "done", ok = false, failure = { NO_MEMORY } } -- while there is some
  local is_told = false
  local guard <close> = closing(function(err)
    if not is_told then
      local reason = ending_reason or type(err) == "string" and err or "killed"
      local killed = { word = "killed", reason = reason }
      life:send(err == NO_MEMORY and no_memory or killed, 0)
    end
    life:close()
  end)
  own = setmetatable({ id = id, name = settings.name, requests = requests, ended = ended }, VM)
  first = settings.first
  local outcome = pack(try(live, requests, life, settings, main, ...))
  if loading then loading:set() end
  send_outcome(life, "done", unpack(outcome, 1, outcome.n))
  is_told = true
end

-- Proxies
-- -------------------------------------------------------------------------------------------------

local Proxy = { __name = "proxy" }
class("baton.vm.proxy", Proxy)

function Proxy:__call(...)
  if self.vm.id == own_id then return proxies[self.id].f(...) end
  local life = self.life -- the message keeps the function, as this proxy may be collected
  return ask(self.vm, { kind = "call", proxy = self.id, life = life, n = select("#", ...), ... })
end

function Proxy:__tostring() return ("proxy: %d of VM %d"):format(self.id, self.vm.id) end

-- Forgets the functions of proxies that nobody has any more. All copies of a proxy, and messages
-- with one, have references to its shared word. The proxy that was made here has the same handle as
-- this table.
local function forget_proxies()
  proxy_count = 0
  for id, proxy in pairs(proxies) do
    if own_proxies[id] or is_shared(proxy.life) then
      proxy_count = proxy_count + 1
    else
      proxies[id] = nil
    end
  end
  most_proxies = max(2 * proxy_count, 64)
end

function vm.proxy(...)
  local f = ...
  if type(f) ~= "function" then
    wrong(2, 1, "proxy", "function expected, got %s", type_given(...))
  end
  if proxy_count >= most_proxies then process.critical(forget_proxies) end
  last_proxy, proxy_count = last_proxy + 1, proxy_count + 1
  local id, life = last_proxy, new_words(1)
  local proxy = setmetatable({ id = id, vm = reach(), life = life }, Proxy)
  own_proxies[id], proxies[id] = proxy, { f = f, life = life }
  return proxy
end

internal.wrong, internal.check_options = wrong, check_options
internal.check_positive = check_positive
internal.closing, internal.try, internal.foreign_error = closing, try, foreign_error
internal.builtin, internal.spawn_builtin = builtin, spawn_builtin
return serve
