-- process.select over descriptors and objects that have one.
local check = require "check"
local process = require "baton.process"
local ffi = require "baton.ffi"
local case = {}

ffi.cdef [[
int pipe(int *ends);
int64_t write(int fd, const void *data, size_t size);
int64_t read(int fd, void *data, size_t size);
int close(int fd);
]]

local function pipe()
  local ends = ffi.new "int[2]"
  check.equal(ffi.C.pipe(ends), 0)
  return ends[0], ends[1]
end

local NEVER = process.channel()

function case.a_descriptor_is_a_case()
  local reads, writes = pipe()
  local p = check.selecting { NEVER, { fd = reads } }
  check.equal(ffi.C.write(writes, "x", 1), 1)
  check.results("readable", { true, 2, true }, p:join())
  check.results("still", { 1, true }, process.select { { fd = reads, "r" } })
  check.results("writable", { 1, true }, process.select { { fd = writes, "w" }, NEVER })
  check.equal(ffi.C.read(reads, ffi.new "char[1]", 1), 1)
  check.results("empty", { n = 2, nil, "timeout" }, process.select({ { fd = reads, "rw" } }, 0.005))
  ffi.C.close(writes)
  check.results("the end", { 1, true }, process.select { { fd = reads } })
  ffi.C.close(reads)
  check.results("not open", { n = 3, 1, nil, "closed" }, process.select { { fd = reads } })
end

function case.a_file_is_always_ready()
  local file <close> = io.tmpfile()
  local ffi_fileno = ffi.fn "int fileno(void *)"
  local fd = ffi_fileno(file)
  check.results("file", { 1, true }, process.select { { fd = fd } })
end

function case.an_object_with_a_descriptor_is_a_case()
  local reads, writes = pipe()
  local object = { getfd = function() return reads end }
  local p = check.selecting { object, NEVER }
  check.equal(ffi.C.write(writes, "x", 1), 1)
  check.results("readable", { true, 1, true }, p:join())
  local other = setmetatable({}, { __index = { getfd = function() return writes end } })
  check.results("writable", { 2, true }, process.select { NEVER, { other, "w" } })
  local dirty = { getfd = function() return writes end, dirty = function() return true end }
  check.results("something read before", { 1, true }, process.select { dirty, NEVER })
  local closed = { getfd = function() return -1 end }
  check.results("closed", { n = 3, 1, nil, "closed" }, process.select { closed, NEVER })
end

function case.sockets_are_cases()
  local socket = require "socket"
  local server = socket.bind("127.0.0.1", 0)
  local _, port = server:getsockname()
  local client = socket.connect("127.0.0.1", port)
  check.results("a connection", { 1, true }, process.select { server, NEVER })
  local connection = server:accept()
  local p = check.selecting { NEVER, connection, process.timer(60) }
  client:send "two\nlines\n"
  check.results("data", { true, 2, true }, p:join())
  check.equal(connection:receive "*l", "two")
  check.results("what was read before", { 1, true }, process.select { connection })
  check.equal(connection:receive "*l", "lines")
  local q = check.selecting { connection, NEVER }
  connection:close()
  check.results("closed", { n = 4, true, 1, nil, "closed" }, q:join())
end

function case.a_ready_descriptor_can_win_against_other_ready_cases()
  local reads, writes = pipe()
  local event, chosen = process.event(), { 0, 0 }
  event:set()
  check.equal(ffi.C.write(writes, "x", 1), 1)
  for _ = 1, 1000 do
    local i = process.select { event, { fd = reads } }
    chosen[i] = chosen[i] + 1
  end
  check.within(chosen[1], 300, 700)
end

function case.several_selects_on_one_descriptor_each_go_on()
  local reads, writes = pipe()
  local all = check.spawn_all(20, function()
    local i = process.select { NEVER, { fd = reads } }
    local byte = ffi.new "char[1]"
    check.equal(ffi.C.read(reads, byte, 1), 1)
    return i
  end)
  for _, p in ipairs(all) do check.becomes(p, "waiting") end
  check.equal(ffi.C.write(writes, ("x"):rep(20), 20), 20)
  for _, p in ipairs(all) do check.results("join", { true, 2 }, p:join()) end
end

function case.data_read_by_another_process_is_waited_for_again()
  local reads, writes = pipe()
  local p = check.selecting { NEVER, { fd = reads } }
  process.critical(function() -- the process wakes after the byte was read
    check.equal(ffi.C.write(writes, "x", 1), 1)
    check.equal(ffi.C.read(reads, ffi.new "char[1]", 1), 1)
  end)
  check.results("nothing to read", { n = 2, nil, "timeout" }, p:join(0.05))
  check.equal(ffi.C.write(writes, "y", 1), 1)
  check.results("now", { true, 2, true }, p:join())
end

function case.a_killed_select_waits_for_no_descriptor_any_more()
  local reads = pipe()
  for _ = 1, 20 do
    local p = check.selecting { NEVER, { fd = reads } }
    check.equal(p:kill(), true)
    check.results("killed", { false, "killed" }, p:join())
  end
end

check.run(case)
