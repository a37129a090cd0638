-- Without memory for one more object there is an error, which a program can catch and continue
-- after. Run it under a limit on address space.
local ffi = require "baton.ffi"
local process = require "baton.process"
local vm = require "baton.vm"

-- Each returns a function that makes one more object, and gets its number. The object is kept until
-- memory is exhausted.
local kinds = {}

function kinds.channel() return process.channel end
function kinds.semaphore() return process.semaphore end
function kinds.mutex() return process.mutex end
function kinds.event() return process.event end
function kinds.rwlock() return process.rwlock end
function kinds.barrier() return function() return process.barrier(2) end end

function kinds.object_with_a_name()
  return function(i) return process.event { name = "event " .. i } end
end
function kinds.alarm() return function(i) return process.timer(i) end end

function kinds.monitored_process()
  return function()
    local p, channel = process.spawn({ suspended = true, daemon = true }, print), process.channel(1)
    p:monitor(channel)
    return p
  end
end

function kinds.linked_process()
  return function()
    local p = process.spawn({ daemon = true, quiet = true }, process.sleep, 1000)
    p:link(process.spawn({ suspended = true, daemon = true, quiet = true }, print))
    return p
  end
end

function kinds.process_that_is_joined()
  return function()
    local p = process.spawn({ daemon = true, stack_size = 65536 }, process.sleep, 1000)
    process.spawn({ daemon = true, stack_size = 65536 }, p.join, p)
    process.yield()
    return p
  end
end

function kinds.condition()
  local mutex = process.mutex()
  return function() return process.condition(mutex) end
end

function kinds.value_in_a_channel()
  local channel = process.channel(math.maxinteger)
  return function(i) channel:send(i) end
end

function kinds.channel_with_a_value()
  return function(i)
    local channel = process.channel(1)
    channel:send(i)
    return channel
  end
end

function kinds.process() return function() return process.spawn(math.abs, 1) end end
function kinds.suspended_process()
  return function() return process.spawn({ suspended = true, daemon = true }, print) end
end
function kinds.process_with_a_small_stack()
  return function()
    return process.spawn({ suspended = true, daemon = true, stack_size = 65536 }, print)
  end
end

function kinds.process_that_waits()
  local gate = process.semaphore(0)
  return function()
    local p = process.spawn({ daemon = true }, function() gate:wait(1000) end)
    process.yield()
    return p
  end
end

function kinds.process_with_many_arguments()
  local many = table.pack(table.unpack({}, 1, 5000))
  return function()
    return process.spawn(
      { suspended = true, daemon = true, stack_size = 65536 },
      print,
      table.unpack(many, 1, many.n)
    )
  end
end

function kinds.timer() return function() return process.after(1000, print) end end
function kinds.periodic_timer() return function() return process.every(1000, print) end end

function kinds.process_in_a_long_select()
  local channels = {}
  for i = 1, 1000 do channels[i] = process.channel() end
  return function()
    local p = process.spawn({ daemon = true }, process.select, channels)
    process.yield()
    return p
  end
end

function kinds.structure()
  return function(i) return ffi.typeof("struct { int a" .. i .. "; }") end
end

function kinds.declared_structure()
  return function(i) ffi.cdef(("struct s%d { int a; struct s%d *next; };"):format(i, i)) end
end

function kinds.function_type()
  local last = ffi.typeof "int (*)(int)"
  return function() last = ffi.typeof("$ (*)(int)", last) end
end

function kinds.pointer_type()
  local last = ffi.typeof "int"
  return function() last = ffi.typeof("$ *", last) end
end

function kinds.array() return function(i) return ffi.new("char[?]", 1000 + i) end end
function kinds.constant() return function(i) ffi.cdef(("enum { CONSTANT_%d };"):format(i)) end end
function kinds.large_declaration()
  return function(i)
    local list = {}
    for j = 1, 2000 do list[j] = ("int f%d_%d(int a, char *b);"):format(i, j) end
    ffi.cdef(table.concat(list))
  end
end

function kinds.callback()
  return function()
    return ffi.cast("int (*)(int)", function(n) return n end)
  end
end

function kinds.callback_in_its_place()
  ffi.cdef [[
    void qsort(void *base, size_t count, size_t size, int (*compare)(const int *, const int *));
  ]]
  local list = ffi.new("int[2]", { 2, 1 })
  return function(i)
    local compare = function(a, b) return i > 0 and a[0] - b[0] or 0 end
    ffi.C.qsort(list, 2, 4, compare)
    return compare
  end
end

function kinds.library() return function() return ffi.load("libm.so.6") end end
function kinds.prepared_function() return function(i) return ffi.fn("int getpid(void)") end end
function kinds.further_arguments()
  ffi.cdef "int snprintf(char *to, size_t size, const char *format, ...);"
  return function(i)
    local list = {}
    for j = 1, 12 do list[j] = (i >> j & 1) == 0 and 1 or 1.5 end
    local tag = ffi.new(("struct further%d *"):format(i))
    ffi.C.snprintf(nil, 0, "", tag, table.unpack(list))
  end
end

function kinds.frozen_value()
  return function(i) return vm.freeze { i, text = "text " .. i, { i } } end
end
function kinds.large_frozen_value()
  local list = {}
  for j = 1, 20000 do list[j] = { j } end
  return function() return vm.freeze(list) end
end
function kinds.thawed_value()
  local list = {}
  for j = 1, 2000 do list[j] = { j, name = "name " .. j } end
  local frozen = vm.freeze(list)
  return function() return vm.thaw(frozen) end
end

-- Kinds that are freed only at the end of the program: declarations.
local stays = {
  linked_process = true, array = true, structure = true, declared_structure = true,
  function_type = true, pointer_type = true, constant = true, large_declaration = true,
  further_arguments = true, callback_in_its_place = true, value_in_a_channel = true,
}

local kind = arg[1]

function kinds.large_heap()
  process.spawn({ daemon = true }, process.sleep, 1e6)
  return function(i)
    local list = {}
    for j = 1, 100 do list[j] = { i, j } end
    return list
  end
end

local function is_known(message)
  return message:find "not enough memory"
    or message:find "no stack for another process"
    or message:find "no memory for another callback"
end

local function undo(made)
  if kind:find "process" then made:kill() end
  if kind:find "timer" then made:cancel() end
  if kind == "callback" then made:free() end
end

if kind == "kinds" then
  for name in pairs(kinds) do print(name) end
  return
end
local make = kinds[kind]()
local kept, count = {}, 0
local ok, message = pcall(function()
  while true do
    local made = make(count + 1)
    count = count + 1
    kept[count] = made or true
  end
end)
for i = 1, count do
  if type(kept[i]) == "userdata" then undo(kept[i]) end
end
kept = nil
collectgarbage()
collectgarbage()
assert(not ok and type(message) == "string", type(message))
assert(is_known(message), message)
assert(count > 10, count)
if not stays[kind] then
  process.sleep(0.001) -- lets killed processes end
  -- Their handles have finalizers. A collection for lack of memory runs none, so request one here.
  collectgarbage()
  for i = 1, 10 do undo(make(count + i)) end
end
print("passed", kind)
os.exit(0, true)
