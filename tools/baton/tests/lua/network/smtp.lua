-- Mail with LuaSocket's smtp, to a server at PORT that stores messages in the directory MAIL.
local check = require "check"
local process = require "baton.process"
local smtp = require "socket.smtp"
local socket = require "socket"
local case = {}

local PORT, MAIL = tonumber(os.getenv "PORT"), os.getenv "MAIL"

local function send(number, body, port)
  return smtp.send {
    from = "<sender@localhost>",
    rcpt = "<receiver" .. number .. "@localhost>",
    server = "127.0.0.1",
    port = port or PORT,
    source = smtp.message {
      headers = { to = "receiver", subject = "number " .. number },
      body = body,
    },
  }
end

-- Returns how many messages of the server have such a line.
local function count(line)
  local pipe <close> = assert(io.popen(("grep -rlx '%s' '%s/new' 2>&1 | wc -l"):format(line, MAIL)))
  return pipe:read "n"
end

function case.many_processes_send_at_once()
  local all = {}
  for i = 1, 10 do all[i] = process.spawn(send, i, "first line\r\nwritten by " .. i .. "\r\n") end
  for i = 1, 10 do check.results("sender", { true, 1 }, all[i]:join()) end
  for i = 1, 10 do check.equal(count("written by " .. i), 1) end
  check.equal(count "first line", 10)
end

function case.a_large_message_stops_no_process()
  local ticks = check.ticker { priority = 60 }
  local line = ("x"):rep(70)
  check.equal(send(1, (line .. "\r\n"):rep(20000) .. "the end\r\n"), 1)
  check.equal(count "the end", 1)
  check.that(ticks() > 0)
end

function case.a_process_that_waits_for_a_silent_server_can_be_killed_or_times_out()
  local silent = assert(socket.bind("127.0.0.1", 0)) -- accepts connections, and sends nothing
  local _, port = silent:getsockname()
  local victim = process.spawn(send, 1, "never", port)
  check.becomes(victim, "waiting")
  victim:kill()
  check.results("victim", { false, "killed" }, victim:join())
  smtp.TIMEOUT = 0.05
  local sent, why = send(2, "never", port)
  check.equal(sent, nil)
  check.equal(why, "timeout")
  smtp.TIMEOUT = 60
  check.equal(send(3, "after all\r\n"), 1)
end

check.run(case)
