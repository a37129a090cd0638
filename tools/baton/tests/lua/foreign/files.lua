-- Files shared by processes.
local check = require "check"
local process = require "baton.process"
local case = {}

function case.closing_a_file_that_another_process_reads_waits()
  local fifo = check.fifo()
  local pipe = assert(io.popen("cat " .. fifo))
  local reader = process.spawn(function() return pipe:read "l" end)
  check.becomes(reader, "waiting")
  local closer = process.spawn(function() return pipe:close() end)
  check.becomes(closer, "waiting")
  check.equal(reader:status(), "waiting")
  check.write_file(fifo, "answer\n")
  check.results("the read was whole", { true, "answer" }, reader:join())
  check.results("it was closed then", { true, true, "exit", 0 }, closer:join())
  check.raises("closed file", function() pipe:read "l" end)
end

function case.a_file_is_closed_once_by_several_processes_when_threads_are_short()
  process.params.max_threads = 2
  local closed, is_over = 0, false
  local function close(file)
    if pcall(file.close, file) then closed = closed + 1 end
  end
  local function close_by_itself(file)
    local _ <close> = file
  end
  local callers = {}
  for i = 1, 6 do
    callers[i] = process.spawn(function()
      repeat os.execute "sleep 0.001" until is_over
    end)
  end
  for round = 1, 30 do
    local file, closers = io.open("/dev/null", "w"), {}
    closed = 0
    for i = 1, 3 do closers[i] = process.spawn(close, file) end
    closers[4] = process.spawn(close_by_itself, file)
    for _, closer in ipairs(closers) do check.equal(closer:join(), true) end
    check.that(closed <= 1 and io.type(file) == "closed file", round)
  end
  is_over = true
  for _, caller in ipairs(callers) do caller:join() end
end

function case.a_file_stays_open_while_a_finalizer_interrupts_its_reader()
  local path, formats = check.scratch(), {}
  local lines = {}
  for i = 1, 200 do
    lines[i], formats[i] = ("line %d "):format(i) .. ("x"):rep(300), "l"
  end
  check.write_file(path, table.concat(lines, "\n") .. "\n")
  collectgarbage "generational"
  local reads, interruptions = false, 0
  local waits = setmetatable({}, {
    __gc = function()
      if reads then interruptions = interruptions + 1 process.yield() end
    end,
  })
  for _ = 1, 100 do
    local file = assert(io.open(path))
    local reader = process.spawn(function()
      for _ = 1, 50 do setmetatable({}, getmetatable(waits)) end
      reads = true
      local got = table.pack(file:read(table.unpack(formats)))
      reads = false
      return got
    end)
    local closer = process.spawn(function()
      process.yield()
      return file:close()
    end)
    local ok, got = reader:join()
    check.equal(closer:join(), true)
    if ok then check.list(got, lines) else check.matches(got, "closed file") end
  end
  check.that(interruptions > 0, "no finalizer came in the middle of a read")
end

function case.a_second_reader_waits_for_the_first()
  local pipe = assert(io.popen "sleep 0.1; echo one; echo two")
  local a = process.spawn(function() return pipe:read "l" end)
  local b = process.spawn(function() return pipe:read "l" end)
  local _, first = a:join()
  local _, second = b:join()
  if first == "two" then first, second = second, first end
  check.equal(first, "one")
  check.equal(second, "two")
  pipe:close()
end

function case.lines_written_by_many_processes_stay_whole()
  local path, all = check.scratch(), {}
  process.params.slice = 0.0005
  local file = assert(io.open(path, "w"))
  for i = 1, 30 do
    all[i] = process.spawn(function()
      for k = 1, 100 do file:write("process ", i, " line ", k, " ", ("x"):rep(k), "\n") end
    end)
  end
  for i = 1, 30 do check.equal(all[i]:join(), true) end
  file:close()
  local count, last = 0, {}
  for line in io.lines(path) do
    local i, k, xs = line:match "^process (%d+) line (%d+) (x+)$"
    check.that(i, line)
    k = tonumber(k)
    check.equal(#xs, k)
    check.equal(k, (last[i] or 0) + 1, "the lines of one process in order")
    last[i] = k
    count = count + 1
  end
  check.equal(count, 3000)
end

function case.lines_read_by_many_processes_are_read_once()
  local path = check.scratch()
  local file = assert(io.open(path, "w"))
  for i = 1, 5000 do file:write(i, "\n") end
  file:close()
  file = assert(io.open(path))
  process.params.slice = 0.0005
  local seen, all = {}, {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      for line in file:lines() do
        local n = assert(math.tointeger(tonumber(line)), line)
        assert(not seen[n], "read twice")
        seen[n] = true
      end
    end)
  end
  for i = 1, 20 do check.results("reader", { true }, all[i]:join()) end
  check.equal(#seen, 5000)
  file:close()
end

function case.many_processes_work_on_files_of_their_own()
  local all = {}
  for i = 1, 50 do
    all[i] = process.spawn(function()
      local path = check.scratch("own" .. i .. "_")
      check.write_file(path, ("%d\n"):format(i):rep(200))
      local n = 0
      for line in io.lines(path) do n = n + tonumber(line) end
      os.remove(path)
      return n
    end)
  end
  for i = 1, 50 do check.results("sum", { true, 200 * i }, all[i]:join()) end
end

function case.a_file_closed_by_one_process_is_closed_for_all()
  local path = check.scratch()
  check.write_file(path, "text")
  local file = io.open(path)
  process.spawn(function() file:close() end):join()
  check.equal(io.type(file), "closed file")
  check.raises("attempt to use a closed file", function() file:read() end)
end

function case.opening_closing_and_using_files_at_random_is_safe()
  process.params.slice = 0.0002
  local path = check.scratch()
  check.write_file(path, ("some text\n"):rep(100))
  local file, stop, all = io.open(path), false, {}
  for i = 1, 8 do
    all[i] = process.spawn(function()
      while not stop do
        pcall(function() file:read "l" file:seek("set", 0) end)
        pcall(function() for _ in file:lines() do process.yield() end end)
      end
    end)
  end
  for _ = 1, 300 do
    file:close()
    file = io.open(path)
    process.yield()
  end
  stop = true
  for i = 1, 8 do check.equal(all[i]:join(), true) end
end

function case.default_files_are_shared_by_all_processes()
  local path = check.scratch()
  check.write_file(path, "first\nsecond\n")
  io.input(path)
  check.results("child", { true, "first" }, process.spawn(function() return io.read "l" end):join())
  check.equal(io.read "l", "second")
  io.close(io.input())
end

check.run(case)
