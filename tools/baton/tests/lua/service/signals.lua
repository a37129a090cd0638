-- process.signals: signals as values of a channel.
local check = require "check"
local process = require "baton.process"
local ffi = require "baton.ffi"
local case = {}

ffi.cdef "int raise(int); int fork(void); void _exit(int); int waitpid(int, int *, int);"

local NUMBERS = {
  HUP = 1,
  INT = 2,
  QUIT = 3,
  USR1 = 10,
  USR2 = 12,
  PIPE = 13,
  TERM = 15,
  CHLD = 17,
  CONT = 18,
  WINCH = 28,
}

local function raise(...)
  for _, name in ipairs { ... } do check.equal(ffi.C.raise(NUMBERS[name]), 0) end
end

-- Sends a signal from another program, after this one has had time to wait.
local function send_later(name, seconds)
  check.that(
    os.execute(
      ("(sleep %s; kill -s %s %d) >/dev/null 2>&1 &"):format(seconds or 0.05, name, ffi.C.getpid())
    )
  )
end
ffi.cdef "int getpid(void);"

function case.names_come_in_the_order_of_arrival()
  local signals = process.signals("TERM", "HUP", "USR1")
  raise("USR1", "TERM", "HUP")
  check.list({ signals:receive(), signals:receive(), signals:receive() }, { "USR1", "TERM", "HUP" })
  check.results("no more", { nil, "timeout" }, signals:receive(0))
  raise("HUP", "USR1")
  check.list({ signals:receive(), signals:receive() }, { "HUP", "USR1" })
end

function case.each_name_is_queued_once_until_it_is_received()
  local signals = process.signals("USR1", "USR2")
  for _ = 1, 1000 do raise("USR1") end
  raise("USR2", "USR1")
  check.equal(#signals, 2)
  check.list({ signals:receive(), signals:receive() }, { "USR1", "USR2" })
  raise("USR1")
  check.equal(signals:receive(), "USR1")
  check.equal(signals:receive(0), nil)
end

function case.a_wait_for_a_signal_is_no_deadlock()
  local signals = process.signals("TERM")
  send_later("TERM")
  check.equal(signals:receive(), "TERM")
end

function case.a_select_and_a_loop_receive_signals()
  local signals, other = process.signals("HUP", "TERM"), process.channel()
  raise("HUP")
  check.results("select", { 2, "HUP" }, process.select({ other, signals }))
  send_later("HUP")
  check.results("select that waits", { 2, "HUP" }, process.select({ other, signals }))
  local got = {}
  raise("TERM")
  process.spawn(function()
    process.sleep(0.01)
    raise("HUP")
    process.sleep(0.01)
    signals:close()
  end)
  for name in signals:values() do got[#got + 1] = name end
  check.list(got, { "TERM", "HUP" })
end

function case.every_channel_of_a_name_gets_it()
  local one, other, third =
    process.signals("USR1"), process.signals("USR2", "USR1"), process.signals("USR2")
  raise("USR1")
  check.equal(one:receive(), "USR1")
  check.equal(other:receive(), "USR1")
  check.equal(third:receive(0), nil)
  one:close()
  raise("USR1")
  check.equal(other:receive(), "USR1")
  check.results("closed", { nil, "closed" }, one:receive())
end

function case.values_sent_before_the_close_are_still_received()
  local signals = process.signals("USR1", "USR2")
  raise("USR1", "USR2")
  signals:close()
  check.list({ signals:receive(), signals:receive() }, { "USR1", "USR2" })
  check.results("after that", { nil, "closed" }, signals:receive())
  signals:close()
end

function case.sigint_does_not_raise_while_a_channel_is_open()
  local signals = process.signals("INT")
  raise("INT", "INT", "INT")
  check.equal(signals:receive(), "INT")
  signals:close()
  check.raises("interrupted!", function()
    raise("INT")
    process.sleep(60)
  end)
end

function case.a_collected_channel_restores_the_action()
  local signals = process.signals("INT")
  raise("INT")
  check.equal(signals:receive(), "INT")
  signals = nil
  collectgarbage()
  collectgarbage()
  check.raises("interrupted!", function()
    raise("INT")
    process.sleep(60)
  end)
end

function case.an_ignored_signal_is_ignored_again_after_the_close()
  ffi.cdef "void (*signal(int, void (*)(int)))(int);"
  ffi.C.signal(NUMBERS.USR1, ffi.cast("void (*)(int)", 1)) -- SIG_IGN
  raise("USR1")
  local signals = process.signals("USR1")
  raise("USR1")
  check.equal(signals:receive(), "USR1")
  signals:close()
  raise("USR1")
end

function case.an_endless_loop_does_not_hold_signals_up()
  local signals, got = process.signals("USR1"), nil
  process.spawn(function() got = signals:receive() end)
  process.yield()
  local is_first = true
  repeat
    if is_first then raise("USR1") end
    is_first = false
  until got
  check.equal(got, "USR1")
end

function case.a_call_that_blocks_does_not_hold_signals_up()
  local signals, late = process.signals("USR1"), nil
  local before = process.now()
  process.spawn(function()
    check.equal(signals:receive(), "USR1")
    late = process.now() - before
  end)
  check.that(os.execute(("sleep 0.1; kill -s USR1 %d; sleep 3"):format(ffi.C.getpid())))
  check.within(late, 0, 2.5)
end

function case.nothing_can_be_sent_to_a_channel_of_signals()
  local signals = process.signals("USR1")
  check.raises("nothing can be sent to a channel of signals", signals.send, signals, "USR1")
  check.raises(
    "nothing can be sent to a channel of signals",
    process.select,
    { { signals, "USR1" } },
    0
  )
end

function case.reports_show_the_names()
  local signals = process.signals("TERM", "HUP")
  check.matches(tostring(signals), "%(signals TERM HUP%)$")
  local names = {}
  for i = 0, 20 do names[#names + 1] = "RTMIN+" .. i end
  check.matches(
    tostring(process.signals(table.unpack(names))),
    "%(signals RTMIN%+0 RTMIN%+1[^)]*%)$"
  )
end

function case.wrong_names_are_refused()
  check.raises(
    "bad argument #1 to '.*signals' %(name of a signal expected, got no value%)",
    process.signals
  )
  check.raises(
    "bad argument #1 to '.*signals' %(name of a signal expected, got number%)",
    process.signals,
    15
  )
  check.raises(
    "bad argument #2 to '.*signals' %(unknown signal 'FOO'%)",
    process.signals,
    "TERM",
    "FOO"
  )
  check.raises(
    "unknown signal 'SIGTERM'; names come without SIG: 'TERM'",
    process.signals,
    "SIGTERM"
  )
  local names = { "KILL", "STOP", "SEGV", "BUS", "FPE", "ILL", "TRAP", "ABRT", "SYS", "URG" }
  for _, name in ipairs(names) do
    check.raises(("signal '%s' cannot be caught"):format(name), process.signals, name)
  end
  for _, name in ipairs { "RTMIN+99", "RTMAX-99", "RTMIN-1", "RTMIN+", "RTMIN+1x", "RTMAX+1" } do
    check.raises("unknown signal", process.signals, name)
  end
  check.raises("interrupted!", function() -- no signal was left over
    raise("INT")
    process.sleep(60)
  end)
end

function case.real_time_signals_have_names_too()
  local signals = process.signals("RTMIN+1", "RTMAX-2", "RTMIN")
  -- Not by another program: an emulator may number these signals in its own way.
  ffi.cdef "int __libc_current_sigrtmin(void);"
  check.equal(ffi.C.raise(ffi.C.__libc_current_sigrtmin() + 1), 0)
  check.equal(signals:receive(), "RTMIN+1")
end

function case.a_forks_child_gets_its_own_signals_and_none_of_its_parents()
  local signals = process.signals("USR1", "USR2")
  local child = process.critical(function()
    raise("USR1")
    return ffi.C.fork()
  end)
  if child == 0 then
    local is_right = pcall(function()
      raise("USR2")
      check.equal(signals:receive(), "USR2")
    end)
    ffi.C._exit(is_right and 7 or 1)
  end
  local status = ffi.new("int[1]")
  check.equal(ffi.C.waitpid(child, status, 0), child)
  check.equal(status[0], 7 << 8)
  check.equal(signals:receive(), "USR1")
  check.equal(signals:receive(0), nil)
end

function case.a_thousand_channels_come_and_go()
  for i = 1, 1000 do
    local signals = process.signals("USR1", "TERM")
    if i % 10 == 0 then
      raise("TERM")
      check.equal(signals:receive(), "TERM")
    end
    if i % 3 == 0 then signals:close() end
  end
  collectgarbage()
end

check.run(case)
