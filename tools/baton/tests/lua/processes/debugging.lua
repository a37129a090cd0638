-- The debug library cannot make methods of our objects work on foreign objects.
local check = require "check"
local process = require "baton.process"
local case = {}

-- One object of each kind. The timer is cancelled at the end of the main chunk.
local timers = {}

local function objects()
  local mutex, timer = process.mutex(), process.every(3600, print)
  timers[#timers + 1] = timer
  return {
    semaphore = process.semaphore(1), mutex = mutex, condition = process.condition(mutex),
    event = process.event(),
    channel = process.channel(1), rwlock = process.rwlock(), barrier = process.barrier(1),
    timer = timer,
    process = process.spawn(
      { suspended = true, name = "kept", daemon = true },
      function(...) return ... end,
      "argument"
    ),
    main = process.main,
  }
end

-- Calls every method of the object in such a way that none waits.
local function use_all(object, methods)
  for name, method in pairs(methods) do
    if type(method) == "function" and name ~= "suspend" and name ~= "kill" and name ~= "join" then
      pcall(method, object, 0)
      pcall(method, object, print, 0)
    end
  end
end

local function methods_of(object)
  local index = getmetatable(object).__index
  return type(index) == "table" and index
    or {
      stats = object.stats,
      status = object.status,
      traceback = object.traceback,
      bind = object.bind,
    }
end

function case.user_values_cannot_be_seen_or_set()
  for name, object in pairs(objects()) do
    for n = 0, 8 do
      check.results(name, { n = 1, nil }, debug.getuservalue(object, n))
      check.results(name, { n = 1, nil }, debug.setuservalue(object, 5, n))
    end
    use_all(object, methods_of(object))
  end
  collectgarbage()
end

function case.a_channel_and_a_condition_work_with_any_parameters()
  local channel, mutex = process.channel(1), process.mutex()
  local condition = process.condition(mutex)
  debug.setuservalue(channel, 5, 1)
  debug.setuservalue(condition, 5, 1)
  check.equal(channel:send("value"), true)
  check.equal(channel:receive(), "value")
  mutex:lock()
  check.results("wait", { n = 2, nil, "timeout" }, condition:wait(0.001))
end

function case.a_foreign_metatable_makes_no_object_of_another_kind()
  local all = objects()
  for name, object in pairs(all) do
    local own = getmetatable(object)
    for other_name, other in pairs(all) do
      if name ~= other_name and name ~= "main" and other_name ~= "main" then
        local methods = methods_of(other)
        debug.setmetatable(object, getmetatable(other))
        use_all(object, methods)
        debug.setmetatable(object, own)
      end
    end
  end
  local file <close> = io.tmpfile()
  local own = getmetatable(file)
  for _, object in pairs(all) do
    debug.setmetatable(file, getmetatable(object))
    use_all(file, methods_of(object))
  end
  debug.setmetatable(file, own)
end

function case.an_object_without_its_metatable_is_still_one()
  local channel = process.channel(1)
  local methods = methods_of(channel)
  debug.setmetatable(channel, nil)
  check.equal(methods.send(channel, 7), true)
  check.equal(methods.receive(channel), 7)
end

function case.upvalues_of_c_functions_cannot_be_set()
  local channel = process.channel(1)
  channel:send("value")
  local values = channel:values()
  check.equal(select("#", debug.setupvalue(values, 1, 5)), 0)
  check.equal(values(), "value")
  for _, object in pairs(objects()) do
    for _, value in pairs(getmetatable(object)) do
      if type(value) == "function" then
        debug.setupvalue(value, 1, 5)
        pcall(value, 5)
      end
    end
    check.that(tostring(object) ~= nil)
  end
  check.equal(process.current().name, "main")
end

function case.upvalues_of_lua_functions_are_set_as_ever()
  local up = 1
  check.equal(debug.setupvalue(function() return up end, 1, 9), "up")
  check.equal(up, 9)
  local file <close> = io.tmpfile()
  check.equal(debug.getuservalue(file, 1), nil)
end

function case.slots_of_a_c_function_that_waits_cannot_be_set()
  local thread
  local channel = process.channel()
  local p = process.spawn(function() thread = coroutine.running() return channel:receive() end)
  check.becomes(p, "waiting")
  for slot = 1, 5 do check.equal(debug.setlocal(thread, 0, slot, nil), nil) end
  check.raises("level out of range", debug.setlocal, thread, 100, 1, nil)
  check.raises("number expected", debug.setlocal, thread, "x", 1, nil)
  channel:send("value")
  check.results("join", { true, "value" }, p:join())
  local here = 1
  local n = 1
  while debug.getlocal(1, n) ~= "here" do n = n + 1 end
  check.equal(debug.setlocal(1, n, 2), "here")
  check.equal(here, 2)
end

function case.removing_objects_from_the_registry_does_no_harm()
  local all = objects()
  process.set_scheduler(function() end)
  local hooked = process.spawn(function() process.yield() end)
  hooked:on_switch(print and function() end)
  local registry = debug.getregistry()
  for key in pairs(registry) do
    if type(key) == "userdata" or (type(key) == "string" and key:find "^baton") then
      registry[key] = 5
    end
  end
  for index = #registry, 3, -1 do registry[index] = false end
  collectgarbage()
  check.that(hooked:join())
  process.set_scheduler(nil)
  check.equal(process.channel(1):send(1), true)
  check.equal(process.spawn(function() return 1 end):join(), true)
  for name, object in pairs(all) do
    use_all(object, methods_of(object))
    check.that(tostring(object) ~= nil, name)
  end
  all = nil
  collectgarbage()
end

function case.a_metatable_s_functions_can_be_called_by_hand()
  local all = objects()
  local waiter = process.spawn(function() return all.channel:receive() end)
  check.becomes(waiter, "waiting")
  for _, timer in ipairs(timers) do timer:cancel() end
  for _, object in pairs(all) do
    local methods, gc = methods_of(object), getmetatable(object).__gc
    if gc then -- the handle of a process has none
      for _, other in pairs(all) do pcall(gc, other) end
      pcall(gc, 5)
      pcall(gc)
      gc(object)
      gc(object)
    end
    use_all(object, methods)
  end
  check.results("join", { n = 3, true, nil, "closed" }, waiter:join())
  collectgarbage()
end

function case.functions_found_by_getinfo_refuse_foreign_objects()
  local found = {}
  local function collect()
    for level = 2, 20 do
      local info = debug.getinfo(level, "fS")
      if info == nil then break end
      if info.what == "C" then found[#found + 1] = info.func end
    end
  end
  process.set_scheduler(function() collect() end)
  process.yield()
  process.set_scheduler(nil)
  local p = process.spawn(function() process.yield() end)
  p:on_switch(collect, collect)
  p:on_exit(collect)
  p:join()
  local fired = process.event()
  process.after(0, function() collect() fired:set() end)
  fired:wait()
  process.mutex():with(collect)
  process.critical(collect)
  process.scope(collect)
  check.that(#found > 4, "some are found")
  objects()
  local light
  for key in pairs(debug.getregistry()) do if type(key) == "userdata" then light = key end end
  for _, f in ipairs(found) do
    if f ~= pcall and f ~= check.run then
      for _, arguments in ipairs {
        {},
        { 5 },
        { light, light },
        { {}, {} },
        { timers[1], { n = -1 } },
        { timers[1], { n = 1 << 40 } },
      } do
        pcall(f, table.unpack(arguments))
      end
    end
  end
end

function case.a_scope_survives_what_is_done_to_its_metatable()
  local child
  local ok = pcall(process.scope, function(scope)
    local spawn = scope.spawn
    debug.setmetatable(scope, nil)
    child = spawn(scope, function()
      process.sleep(0.01)
      return "ended"
    end)
  end)
  check.results("the child", { true, "ended" }, child:join())
  check.equal(ok, false) -- what closes it is gone
end

-- A process keeps the scope that it belongs to.
function case.a_scope_whose_coroutine_is_collected_leaves_its_processes_alone()
  local event, children = process.event(), {}
  do
    local co = coroutine.wrap(function()
      process.scope(function(scope)
        for i = 1, 3 do children[i] = scope:spawn(event.wait, event) end
        children[4] = scope:spawn(function()
          event:wait()
          error "alone"
        end)
        coroutine.yield()
      end)
    end)
    co()
  end
  for _ = 1, 3 do collectgarbage() end
  event:set()
  for i = 1, 3 do check.that(children[i]:join() ~= nil) end
  check.equal((children[4]:join()), false)
  collectgarbage()
end

check.run(case)
for _, timer in ipairs(timers) do timer:cancel() end
