-- A chat over plain LuaSocket: one room, a line is a message.
--
--   baton examples/chat_server.lua [-p PORT] [-b ADDRESS]
--
-- Connect with: nc localhost 4000. The first line that a client sends is its name. "/who" lists the
-- clients, "/quit" leaves. The server prints its port. At the end of its standard input (Ctrl-D) it
-- accepts no more clients, gives the last messages a second to arrive, and ends.
--
-- Each client has two processes. One waits in socket:receive, and puts each line into all outboxes.
-- The other takes from its client's outbox, and waits in socket:send. A slow reader delays no other
-- client: if its outbox is full, the server throws it out. A client whose line is too long leaves.
--
-- All processes share one table of clients. No client may enter while a process goes through it
-- with `pairs`. So a process holds a mutex while it changes the table or copies it. To send a
-- message to all, it goes through a copy, without the mutex.

local process = require "baton.process"
local socket = require "socket"

local OUTBOX = 1000 -- messages that may wait for one client
local LONGEST = 2000 -- bytes of a line
local PATIENCE = 1 -- seconds for the last messages to arrive
local BREAK = 0.05 -- seconds without an accept, when there are too many clients

local clients = {} -- name -> client
local room = process.mutex() -- guards `clients`

local function everybody()
  return room:with(function()
    local list = {}
    for _, client in pairs(clients) do list[#list + 1] = client end
    return list
  end)
end

local function tell(client, text)
  local _, why = client.outbox:send(text, 0)
  if why ~= "timeout" or client.thrown_out then return end -- it is sent, or the client has left
  client.thrown_out = true
  print(client.name .. " does not read, and is thrown out")
  client.socket:close() -- this ends the waits of its reader and its writer
end

local function tell_all(text)
  for _, client in ipairs(everybody()) do tell(client, text) end
end

local function names()
  local list = {}
  for i, client in ipairs(everybody()) do list[i] = client.name end
  table.sort(list)
  return table.concat(list, " ")
end

local function write(client)
  for text in client.outbox:values() do
    if not client.socket:send(text .. "\n") then break end
  end
end

-- Takes a name, unless another client has it. Test and entry are one step, under the mutex.
local function enter(client, name)
  return room:with(function()
    if clients[name] then return false end
    client.name = name
    clients[name] = client
    return true
  end)
end

-- Removes a client. Returns whether it had entered.
local function leave(client)
  return room:with(function()
    -- it left, or was killed, before it had a name
    if clients[client.name] ~= client then return false end
    clients[client.name] = nil
    return true
  end)
end

-- The next line of a client, without its end; nil when the client ends, or when the line is longer
-- than LONGEST. LuaSocket has no limit for a line, and keeps what has come in a buffer: a call for
-- one byte is cheap.
local function receive_line(client)
  local line = {}
  for i = 1, LONGEST + 1 do
    local byte = client.socket:receive(1)
    if not byte then return nil end
    if byte == "\n" then return (table.concat(line):gsub("\r$", "")) end
    line[i] = byte
  end
  tell(client, ("* a line has at most %d bytes"):format(LONGEST))
end

local function ask_name(client)
  client.socket:send("* your name?\n")
  for name in receive_line, client do
    if name:find("^[%w_-]+$") and enter(client, name) then return true end
    client.socket:send("* that name will not do; another one?\n")
  end
end

local function read(client)
  for line in receive_line, client do
    if line == "/quit" then
      break
    elseif line == "/who" then
      tell(client, "* " .. names())
    else
      tell_all(client.name .. ": " .. line)
    end
  end
end

local function serve(scope, connection)
  local client = { socket = connection, outbox = process.channel(OUTBOX) }
  local writer
  local _ <close> = setmetatable({}, { __close = function()
    if leave(client) then
      client.outbox:close()
      tell_all("* " .. client.name .. " has left")
      if writer then writer:join(PATIENCE) end -- sends the messages that are left
    end
    connection:close()
  end })
  if ask_name(client) then
    writer = scope:spawn({ name = "writer of " .. client.name }, write, client)
    tell_all("* " .. client.name .. " has joined")
    read(client)
  end
end

local has_complained = false

-- The next connection; nil when the server is closed. If accept fails, there are probably no
-- descriptors left. Some come back when clients leave.
local function accept(server)
  while true do
    local connection, why = server:accept()
    if connection or server:getfd() < 0 then return connection end
    if not has_complained then io.stderr:write("chat_server: cannot accept: ", why, "\n") end
    has_complained = true
    process.sleep(BREAK)
  end
end

local function accept_all(scope, server, readers)
  for connection in accept, server do
    local reader = scope:spawn({ name = "a client" }, serve, scope, connection)
    readers[reader] = true
  end
end

local function run(port, address)
  local server = assert(socket.bind(address, port, 1024))
  print("port " .. select(2, server:getsockname()))
  io.stdout:flush()
  process.scope(function(scope)
    local readers = setmetatable({}, { __mode = "k" })
    local acceptor = scope:spawn({ name = "acceptor" }, accept_all, scope, server, readers)
    repeat until not io.read "L"
    server:close()
    acceptor:join()
    tell_all "* the server ends"
    for reader in pairs(readers) do reader:kill() end
  end)
end

local options = { ["-p"] = "4000", ["-b"] = "*" }
for i = 1, #arg, 2 do
  if not options[arg[i]] or not arg[i + 1] then
    io.stderr:write "usage: chat_server.lua [-p PORT] [-b ADDRESS]\n"
    os.exit(2)
  end
  options[arg[i]] = arg[i + 1]
end
run(tonumber(options["-p"]) or options["-p"], options["-b"])
