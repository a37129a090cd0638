-- Tests logs that go to files.
local check = require "check"
local json = require "baton.json"
local log = require "baton.log"
local process = require "baton.process"
local case = {}

-- Lets the log go to a new file, and returns a function that returns its lines so far.
local function to_file(options)
  local path = check.scratch "log"
  os.remove(path)
  options.to = path
  check.that(log.setup(options))
  return function()
    local lines = {}
    for line in io.lines(path) do lines[#lines + 1] = line end
    return lines
  end, path
end

-- A line of logfmt without its time.
local function without_time(line)
  local time = "^time=%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ "
  return (check.matches(line, time):gsub(time, ""))
end

function case.a_line_has_time_level_message_and_sorted_fields()
  local lines = to_file {}
  log.info "hello"
  log.warn("two words", { b = 1, a = "x y", c = 'say "hi"\n', d = true, e = 0.5, f = { 1, 2 } })
  log.error("", { [1] = "", ["a b"] = 1, msg = 2 })
  check.equal(without_time(lines()[1]), "level=info msg=hello")
  check.equal(without_time(lines()[2]),
    [=[level=warn msg="two words" a="x y" b=1 c="say \"hi\"\n" d=true e=0.5 f=[1,2]]=])
  check.equal(without_time(lines()[3]), [[level=error msg="" 1="" a_b=1 msg_=2]])
end

function case.a_line_of_json_is_an_object()
  local lines = to_file { format = "json" }
  log.info('a "message"\n', { n = 1, list = { 1, "x" }, f = print, time = "t", inf = math.huge })
  local value = json.decode(lines()[1])
  check.equal(value.level, "info")
  check.equal(value.msg, 'a "message"\n')
  check.equal(value.n, 1)
  check.equal(value.list[2], "x")
  check.matches(value.f, "^function")
  check.equal(value.time_, "t")
  check.equal(value.inf, json.null)
  check.matches(value.time, "^%d+%-%d+%-%d+T")
end

function case.lines_below_the_level_are_left_out()
  local lines = to_file { level = "warn" }
  log.debug "no"
  log.info "no"
  log.warn "yes"
  check.equal(log.level(), "warn")
  check.equal(log.enabled "info", false)
  check.equal(log.level "debug", "debug")
  log.debug "yes"
  log.level "off"
  log.error "no"
  check.equal(log.enabled "error", false)
  check.equal(#lines(), 2)
end

function case.fields_of_the_context_and_of_a_logger_are_in_each_line()
  local lines = to_file {}
  local own = log.with { part = "db" }
  process.set_context { request = 17, user = "ann b" }
  log.info "one"
  own.info("two", { n = 1 })
  own.with({ table = "t" }).info "three"
  check.results("join", { true }, process.spawn(function() own.info "four" end):join())
  own.info("five", { part = "other", request = 18 })
  process.set_context(nil)
  own.info "six"
  check.list({ table.unpack(lines()) }, lines())
  local texts = {}
  for i, line in ipairs(lines()) do texts[i] = without_time(line):gsub("^level=info ", "") end
  check.list(texts, {
    'msg=one request=17 user="ann b"',
    'msg=two request=17 user="ann b" part=db n=1',
    'msg=three request=17 user="ann b" part=db table=t',
    'msg=four request=17 user="ann b" part=db',
    'msg=five part=other request=18 user="ann b"',
    "msg=six part=db",
  })
end

function case.a_renamed_file_is_made_anew_at_a_hangup()
  local lines, path = to_file {}
  log.info "before"
  os.rename(path, path .. ".1")
  log.info "still the old one"
  check.that(os.execute "kill -HUP $PPID")
  check.eventually("the file is there", function() return io.open(path) ~= nil end)
  log.info "after"
  check.equal(without_time(lines()[1]), "level=info msg=after")
  local old = {}
  for line in io.lines(path .. ".1") do old[#old + 1] = line end
  check.equal(#old, 2)
  os.remove(path .. ".1")
end

function case.a_renamed_file_is_made_anew_on_request()
  local lines, path = to_file { hup = false }
  log.info "before"
  os.remove(path)
  check.equal(log.reopen(), true)
  log.info "after"
  check.equal(#lines(), 1)
end

function case.a_path_with_a_date_has_the_name_of_today()
  local path = check.scratch "log-%Y"
  check.that(log.setup { to = path })
  log.info "hello"
  local found = os.date(path)
  check.equal(without_time(io.open(found):read "l"), "level=info msg=hello")
  os.remove(found)
end

function case.nobody_waits_for_a_reader_and_what_is_dropped_is_counted()
  local path = check.fifo()
  local reader = io.open(path, "r+")
  check.that(log.setup { to = path, buffer = 65536 })
  local long = ("x"):rep(1000)
  for _ = 1, 1000 do log.info(long) end
  local dropped = log.dropped()
  check.within(dropped, 1, 1000)
  local came, last = 0
  repeat
    last = reader:read "l"
    if last:find(long, 1, true) then came = came + 1 end
    if came == 1000 - dropped then log.info "again" end
  until last:find "dropped"
  check.equal(came, 1000 - dropped)
  check.matches(last, "level=warn .* count=" .. dropped .. "$")
  check.equal(log.dropped(), dropped)
  reader:close()
  os.remove(path)
end

function case.lines_of_many_processes_do_not_mix()
  local lines = to_file {}
  local slice = process.params.slice
  process.params.slice = 0.0001
  local all = {}
  for i = 1, 20 do
    all[i] = process.spawn(function()
      for j = 1, 50 do log.info(("x"):rep(i), { j = j }) end
    end)
  end
  for _, each in ipairs(all) do check.results("join", { true }, each:join()) end
  process.params.slice = slice
  check.equal(#lines(), 1000)
  for _, line in ipairs(lines()) do check.matches(line, "^time=%S+ level=info msg=x+ j=%d+$") end
end

function case.two_vms_write_to_one_file()
  local vm = require "baton.vm"
  local lines = to_file {}
  local settings = log.setup()
  local other = vm.spawn(function(settings)
    local log = require "baton.log"
    log.setup(settings)
    for _ = 1, 100 do log.info "theirs" end
  end, settings)
  for _ = 1, 100 do log.info "ours" end
  check.results("join", { true }, other:join())
  check.equal(#lines(), 200)
end

function case.a_writer_takes_texts_and_tables()
  local lines = to_file {}
  local write = log.writer()
  write "GET / 200"
  write { path = "/", status = 200 }
  check.equal(without_time(lines()[1]), 'level=info msg="GET / 200"')
  check.equal(without_time(lines()[2]), "level=info msg=request path=/ status=200")
end

function case.misuse_raises()
  check.raises("unknown option 'x'", log.setup, { x = 1 })
  check.raises("option 'to': string expected, got number", log.setup, { to = 1 })
  check.raises("'logfmt' or 'json' expected, got 'xml'", log.setup, { format = "xml" })
  check.raises("a level 'debug'", log.setup, { level = "loud" })
  check.raises("a level 'debug'", log.level, "loud")
  check.raises("option 'buffer'", log.setup, { buffer = 1 })
  check.raises("table of fields expected, got string", log.info, "x", "y")
  check.raises("table of fields expected, got nil", log.with)
  local ok, why = log.setup { to = "/nonexistent/log" }
  check.equal(ok, nil)
  check.matches(why, "No such file")
  check.equal(log.setup().to, "stderr")
end

check.run(case)
