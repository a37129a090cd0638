-- Clients join a chat server, talk and leave: chat.lua SERVER, for `baton --simulate`. A simulated
-- run allows no external events, so the sockets are channels.
local process = require "baton.process"

local GUESTS, VISITS = 4, 8

local arrivals = process.channel(GUESTS)

local Socket = {}
Socket.__index = Socket

local function new_socket()
  return setmetatable({ lines = process.channel(1000), rest = "" }, Socket)
end

local function connect()
  local here, there = new_socket(), new_socket()
  here.peer, there.peer = there, here
  arrivals:send(there)
  return here
end

-- A line without its end, or `size` bytes of one.
function Socket:receive(size)
  if not size then
    local line = self.lines:receive()
    return line and (line:gsub("\n", ""))
  end
  if self.rest == "" then self.rest = self.lines:receive() or "" end
  local part = self.rest:sub(1, size)
  self.rest = self.rest:sub(size + 1)
  if part ~= "" then return part end
end

function Socket:send(line) return self.peer.lines:send(line) end

function Socket:close()
  self.lines:close()
  self.peer.lines:close()
end

local server = {}

function server:accept() return arrivals:receive() end

function server:close() arrivals:close() end

function server:getfd() return -1 end

function server:getsockname() return "*", 4000 end

package.loaded.socket = { bind = function() return server end }

local function visit(name)
  local connection <const> = connect()
  connection:send(name .. "\n")
  repeat
    local line = assert(connection:receive())
  until line == "* " .. name .. " has joined"
  connection:send "hello\n"
  connection:send "/quit\n"
  while connection:receive() do end
end

local nobody_comes = process.event()
function io.read() nobody_comes:wait() end
function print() end

local example = assert(loadfile(arg[1]))
arg = {}
local running = process.spawn({ name = "server" }, example)
local guests = {}
for i = 1, GUESTS do
  guests[i] = process.spawn(function()
    for number = 1, VISITS do visit("guest-" .. i .. "-" .. number) end
  end)
end
for _, guest in ipairs(guests) do assert(guest:join()) end
nobody_comes:set()
assert(running:join())
