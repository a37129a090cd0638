-- c:serve and c:call: requests to whichever instance of a service is free.
--
-- An instance that has as many requests in progress as it wants answers "busy", and the caller
-- tries again. A reply is a list: what it is, and then results, or an error with its traceback.

local core = ...
local engine, process, methods = core.engine, core.process, core.methods
local rules, refuse = core.rules, core.refuse

local PUBLISH, SUBSCRIBE, REQUEST = 1, 2, 3
local RESULTS, FAILURE, BUSY = 0, 1, 2 -- what a reply is
local CONCURRENCY = 64
local QUEUED = 4096 -- requests that wait to be looked at
local FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.1 -- seconds before a busy service is asked again

local function subject_of(name) return "baton.service." .. name end

-- Serving
-- -------------------------------------------------------------------------------------------------

local service_methods = {}
local Service = { __index = service_methods, __name = "service" }

local function reply(service, to, ...)
  local is_packed, bytes = pcall(engine.pack_list, "result", ...)
  local most = engine.max_payload(service.state.engine)
  if is_packed and #bytes > most then
    is_packed = false
    bytes = ("cannot send the results: they have %d bytes, and the server takes at most %d"):format(
      #bytes,
      most
    )
  end
  if not is_packed then bytes = engine.pack_list("error", FAILURE, tostring(bytes), "") end
  core.submit(service.state, PUBLISH, 0, to, nil, bytes)
end

-- An error as it travels: the value if it can be sent, else its text.
local function fail(service, to, failure, trace)
  if not pcall(engine.pack, "error", failure) then failure = tostring(failure) end
  reply(service, to, FAILURE, failure, trace)
end

-- A request in progress. However its process ends, the caller gets a reply.
local Request = {
  __close = function(request)
    local service = request.service
    service.free:signal()
    service.changed:set()
    if not request.is_replied then fail(service, request.to, "the request was killed", "") end
  end,
}

local function trace_of(failure)
  return { failure, debug.traceback(nil, 2) }
end

local function finish(request, is_done, ...)
  request.is_replied = true
  if is_done then return reply(request.service, request.to, RESULTS, ...) end
  local failure = ...
  fail(request.service, request.to, failure[1], failure[2])
end

local function answer(request, is_read, name, ...)
  local method = is_read and request.service.methods[name]
  if not is_read then
    request.is_replied = true
    return fail(request.service, request.to, name, "")
  elseif type(method) ~= "function" then
    local service = request.service.name
    local text = ("the service '%s' has no method '%s'"):format(service, tostring(name))
    request.is_replied = true
    return fail(request.service, request.to, text, "")
  end
  finish(request, xpcall(method, trace_of, ...))
end

local function run(request, fields, ...)
  local request <close> = request
  core.with_fields(fields, answer, request, ...)
end

-- The dispatcher calls it, so it must not wait.
function Service.take(service, _, to, payload)
  if to == "" then return end -- something was published there
  if service.is_closed or not service.free:wait(0) then return reply(service, to, BUSY) end
  local request = setmetatable({ service = service, to = to }, Request)
  local fields, left = core.work_of(payload)
  local options = { name = service.name, quiet = true, time_left = left }
  process.spawn(options, run, request, fields, engine.unpack_list(payload))
end

function Service.ended(service)
  service.is_closed = true
  service.changed:set()
end

-- Keeps the program alive while it serves.
local function stay(service)
  while not service.is_closed or service.free:count() < service.most do
    service.changed:wait()
    service.changed:clear()
  end
end

local SERVE_OPTIONS = { concurrency = rules.count }

function methods:serve(name, served, options)
  local state = core.state_for(self, "serve")
  core.check_name(2, 1, "serve", name)
  if type(served) ~= "table" then
    refuse(2, 2, "serve", "table of functions expected, got %s", type(served))
  end
  options = core.check_options(2, 3, "serve", options, SERVE_OPTIONS)
  local ticket = engine.ticket()
  local most = options.concurrency or CONCURRENCY
  local service = setmetatable({
    state = state, ticket = ticket, name = name, methods = served, most = most,
    free = process.semaphore(most), -- counts the requests that may come
    changed = process.event(),
    take = Service.take,
    ended = Service.ended,
  }, Service)
  state.listeners[ticket] = service
  local subject = subject_of(name)
  local known, why = core.listen(state, SUBSCRIBE, ticket, subject, "baton", nil, QUEUED)
  if not known then return nil, why end
  process.spawn({ name = "service " .. name }, stay, service)
  return service
end

-- Takes no more requests. Those in progress go on.
function service_methods:close()
  core.stop_listening(self.state, self.ticket)
  Service.ended(self)
end

Service.__close = service_methods.close

-- Calling
-- -------------------------------------------------------------------------------------------------

-- The timeout of a call: its last argument, if that is a table with the field `timeout` alone.
local function timeout_of(...)
  local count = select("#", ...)
  local last = count > 0 and select(count, ...)
  if type(last) ~= "table" or type(last.timeout) ~= "number" or next(last, next(last)) ~= nil then
    return nil, count
  end
  return core.check_timeout(4, count + 2, "call", last.timeout), count - 1
end

local function results(name, is_read, kind, ...)
  if not is_read then error(("the reply of the service '%s': %s"):format(name, kind), 3) end
  if kind == RESULTS then return ... end
  local failure, trace = ...
  if trace ~= "" then
    trace = tostring(trace):gsub("^stack traceback:", function()
      return ("raised in service '%s':"):format(name)
    end)
  end
  return engine.raise(failure, trace)
end

-- The lesser of two times that may be nil.
local function least(one, other)
  return one and other and math.min(one, other) or one or other
end

local function is_busy(is_read, kind) return is_read and kind == BUSY end

function methods:call(name, method, ...)
  local state = core.state_for(self, "call")
  core.check_name(2, 1, "call", name)
  if type(method) ~= "string" then
    refuse(2, 2, "call", "name of a method expected, got %s", type(method))
  end
  local timeout, count = timeout_of(...)
  local arguments = table.pack(...)
  local is_packed, bytes =
    pcall(engine.pack_list, "argument", method, table.unpack(arguments, 1, count))
  if not is_packed then error(bytes, 2) end
  core.check_size(2, state, "the arguments", core.add_work(bytes, timeout))
  local deadline, pause = timeout and process.now() + timeout, FIRST_PAUSE
  while true do
    local rest = deadline and math.max(deadline - process.now(), 0)
    local message = core.add_work(bytes, least(rest, process.time_left()))
    local answer, why = core.ask(state, rest, nil, REQUEST, subject_of(name), nil, message)
    if not answer then return nil, why end
    if not is_busy(engine.unpack_list(answer.payload)) then
      return results(name, engine.unpack_list(answer.payload))
    end
    if deadline and process.now() >= deadline then return nil, "timeout" end
    process.sleep(pause * (0.5 + math.random() / 2))
    pause = math.min(pause * 2, LONGEST_PAUSE)
  end
end
