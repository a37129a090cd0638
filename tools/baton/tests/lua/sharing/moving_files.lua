-- vm.move for open files.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local worker = require "sharing.giving_back"

local case = {}

local function file_of(text)
  local file = check.that(io.tmpfile())
  file:write(text)
  file:seek "set"
  return file
end

function case.a_file_goes_there_and_back_with_its_position_and_its_buffer()
  local inbox, outbox, ends = worker(function(file)
    local line = file:read()
    file:write "there\n" -- stays in the buffer
    return line
  end)
  local file = file_of "one\ntwo\n"
  check.equal(file:read(), "one")
  inbox:send(vm.move(file))
  local line, back = table.unpack(outbox:receive())
  check.equal(line, "two")
  back:seek("set", 8)
  check.equal(back:read "a", "there\n")
  check.equal(io.type(file), "closed file")
  check.that(back:close())
  ends()
end

function case.a_moved_file_says_so()
  local file, ch = file_of "text", vm.channel()
  ch:send(vm.move(file))
  for _, method in ipairs { "read", "write", "seek", "lines", "flush", "setvbuf", "close" } do
    check.raises("the file was moved to another VM", file[method], file, "set")
  end
  check.equal(tostring(file), "file (closed)")
  check.raises("it was moved", vm.move, file)
  io.output(io.stdout)
  check.raises("the file was moved to another VM", io.close, file)
  check.raises("the file was moved to another VM", io.output, file)
  check.equal(ch:receive():read "a", "text")
  check.raises("the file was moved to another VM", file.read, file)
end

function case.lines_of_a_moved_file_say_so()
  local file, ch = file_of "one\ntwo\n", vm.channel()
  local lines = file:lines()
  check.equal(lines(), "one")
  ch:send(vm.move(file))
  check.raises("the file was moved to another VM", lines)
  check.equal(ch:receive():read(), "two")
end

function case.a_file_that_was_never_received_comes_back()
  local file, ch = file_of "text", vm.channel(1)
  ch:send "full"
  check.results("timeout", { n = 2, nil, "timeout" }, ch:send(vm.move(file), 0))
  check.equal(io.type(file), "file")
  check.equal(file:read(2), "te")
  check.raises("cannot send value%[2%]", ch.send, ch, { vm.move(file), io.stdout })
  ch:receive()
  ch:send(vm.move(file))
  check.raises("the file was moved to another VM", file.read, file)
  check.equal(io.type(file), "closed file")
  ch = nil
  collectgarbage()
  check.equal(io.type(file), "file")
  check.equal(file:read "a", "xt")
  check.that(file:close())
  check.equal(io.type(file), "closed file")
end

function case.a_file_that_nobody_has_any_more_is_closed()
  local before = check.descriptors()
  local ch = vm.channel()
  for _ = 1, 10 do
    ch:send(vm.move(file_of "text"))
  end
  collectgarbage()
  collectgarbage()
  check.equal(check.descriptors(), before + 10)
  ch = nil
  collectgarbage()
  check.equal(check.descriptors(), before)
end

function case.what_cannot_be_moved_is_refused()
  for _, file in ipairs { io.stdin, io.stdout, io.stderr } do
    check.raises("all VMs have the standard files", vm.move, file)
  end
  local pipe = io.popen "true"
  check.raises("a file of io.popen stays with its command", vm.move, pipe)
  check.that(pipe:close())
  check.raises("it is closed", vm.move, pipe)
end

function case.a_file_in_use_by_another_process_is_refused()
  local name = check.fifo()
  local file, ch = io.open(name, "r+"), vm.channel()
  local reader = process.spawn(function() return file:read() end)
  check.becomes(reader, "waiting")
  check.raises("a call of another process uses it", ch.send, ch, vm.move(file))
  local other = io.open(name, "w")
  other:write "line\n"
  other:close()
  check.results("read", { true, "line" }, reader:join())
  ch:send(vm.move(file))
  check.that(ch:receive():close())
  os.remove(name)
end

function case.a_file_that_waited_in_the_poller_waits_in_another_vm()
  local inbox, outbox, ends = worker(function(file) return file:read() end)
  local name = check.fifo()
  local file, other = io.open(name, "r+"), io.open(name, "w")
  other:setvbuf "no"
  for _, line in ipairs { "one", "two", "three" } do
    local reader = process.spawn(function() return file:read() end)
    check.becomes(reader, "waiting")
    other:write(line, "\n")
    check.results("read here", { true, line }, reader:join())
    inbox:send(vm.move(file))
    other:write(line, "\n")
    local got
    got, file = table.unpack(outbox:receive())
    check.equal(got, line)
  end
  check.that(file:close())
  other:close()
  os.remove(name)
  ends()
end

check.run(case)
