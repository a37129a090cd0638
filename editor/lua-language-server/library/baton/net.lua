---@meta baton.net

-- TCP, Unix sockets and datagrams, one process per connection. A function that waits stops only its
-- own process, and takes no native thread. Another process may close what it waits for, or kill it.

---A server answers each connection in a process of its own:
---
---```lua
---local net = require "baton.net"
---local process = require "baton.process"
---
---local listener = assert(net.listen("127.0.0.1:0", { limit = 10000 }))
---
---process.spawn({ daemon = true }, function()
---  while true do
---    local conn = assert(listener:accept())
---    process.spawn({ daemon = true }, function()
---      local conn <close> = conn
---      for line in conn:lines() do conn:write("you said ", line, "\n") end
---    end)
---  end
---end)
---
---local conn <close> = assert(net.connect(listener:address(), { timeout = 5 }))
---conn:write "hello\n"
---print(conn:read "line")
---```
---
---```text
---you said hello
---```
---
---An address is "127.0.0.1:8080", "[::1]:8080", "localhost:8080", or "unix:/run/shop.sock". Names
---are looked up by helper threads. To listen, ":8080" is any address of this machine, of IPv4 and
---IPv6, and port 0 a free one; `address()` says which. To connect, ":8080" is this machine.
---
---What could not be done is `nil` and a reason: "timeout", "closed", "too long", or the system's
---text. A timeout counts seconds; 0 does not wait. After a timeout nothing that came is lost.
---
---Several processes may use a connection: one reads and one writes at a time, and others wait for
---their turn. `vm.move` sends an object to another VM, a connection with what was read and not
---taken. In a process that is killed, a `<close>` variable closes it.
---@class baton.net
local net = {}

---Options of `net.listen`.
---@class (exact) baton.net.ListenOptions
---@field backlog? integer connections that may wait to be accepted; default 1024
---@field reuseport? boolean several listeners may have the port, and share its connections
---@field limit? integer connections that may be open at once; `accept` waits while there are as many
---@field nodelay? boolean small writes are sent at once; default true
---@field max_line? integer bytes of a line that a connection reads; default 65536
---@field max_all? integer bytes that read "all" collects; default 64 MiB

---Options of `net.connect`.
---@class (exact) baton.net.ConnectOptions
---@field timeout? number seconds for all of it, the look-up of a name included
---@field nodelay? boolean small writes are sent at once; default true
---@field tls? boolean | table TLS over the connection, as by `net.tls`
---@field max_line? integer bytes of a line that it reads; default 65536
---@field max_all? integer bytes that read "all" collects; default 64 MiB

---Options of `net.udp`.
---@class (exact) baton.net.DatagramOptions
---@field reuseport? boolean several sockets may have the port, and share its datagrams

---Listens to an address. A file of a Unix socket to which nobody listens any more is replaced. In
---place of an address, takes over a descriptor that listens already: a number, or an element of
---`process.listen_fds()`. In place of an address, another listener: both accept from one socket,
---which ends with the last of them. So a VM can have one by `vm.move`, and its successor another.
---@param address string | integer | table | baton.net.Listener
---@param options? baton.net.ListenOptions
---@return baton.net.Listener? listener
---@return string? why
---@return integer? number the system's number of the error
function net.listen(address, options) end

---Connects. If a name has several addresses, they race: each has a quarter of a second before the
---next one is tried as well, and the first connection is taken.
---@param address string
---@param options? baton.net.ConnectOptions
---@return baton.net.Connection? connection
---@return string? why
---@return integer? number the system's number of the error
function net.connect(address, options) end

---A socket for datagrams with this address; port 0 is a free one.
---@param address string
---@param options? baton.net.DatagramOptions
---@return baton.net.Datagrams? datagrams
---@return string? why
---@return integer? number the system's number of the error
function net.udp(address, options) end

---Puts TLS over a connection, by the module `baton.web`.
---@param connection baton.net.Connection
---@param options? table
---@return baton.net.Connection? connection the same one
---@return string? why
function net.tls(connection, options) end

---What goes wrong in the network of a simulated run.
---@class (exact) baton.net.Faults
---@field delay? number seconds that something is on its way at most; default 0
---@field piece? integer bytes that arrive together at most; default: what was written together
---@field loss? number the chance, from 0 to 1, that a write loses its connection; default 0
---@field rate? integer bytes per second that a peer takes; default any number
---@field drop? number the chance, from 0 to 1, that a datagram is lost; default 0
---@field twice? number the chance, from 0 to 1, that a datagram comes twice; default 0

---Says what goes wrong from now on in the network of a simulated run (`baton --simulate`), where
---connections and datagrams are in memory. In another run it does nothing.
---@param faults baton.net.Faults
---@return boolean is_simulated whether this is a simulated run
function net.simulated(faults) end

---What accepts connections. A `<close>` variable closes it.
---@class baton.net.Listener
local Listener = {}

---Waits for a connection. Without descriptors, the process waits until some are free, and warns
---once.
---@param timeout? number
---@return baton.net.Connection? connection
---@return string? why "timeout" or "closed"
function Listener:accept(timeout) end

---The address, with its port.
---@return string? address
---@return string? why
function Listener:address() end

---Stops to listen. Accepted connections stay open. Ends the waits of other processes.
---@return true closed
function Listener:close() end

---A connection. A `<close>` variable closes it.
---@class baton.net.Connection
local Connection = {}

---Reads. A number: so many bytes, all of them. "line", also without an argument: a line without its
---end, which is "\n" or "\r\n". "some": what has come, at least one byte. "all": until the peer has
---ended its half. If the peer has ended it before, what came stays, and "some" reads that.
---@param what? integer | "line" | "some" | "all"
---@param timeout? number
---@return string? data
---@return string? why "timeout", "closed", or "too long" for a line or all that exceed their bounds
function Connection:read(what, timeout) end

---Iterates over lines until there is none.
---@return fun(connection: baton.net.Connection): string?
---@return baton.net.Connection connection
function Connection:lines() end

---Writes all its arguments, by one call of the system if the peer keeps up. Waits while the peer is
---slow.
---@param s string | number
---@param ... string | number
---@return true? done
---@return string? why
---@return integer? written bytes that were written all the same
function Connection:write(s, ...) end

---Ends what is sent: the peer reads the end. Reading goes on.
---@param timeout? number
---@return true? done
---@return string? why
function Connection:shutdown(timeout) end

---Closes the connection. Ends the waits of other processes.
---@return true closed
function Connection:close() end

---The address of the other end.
---@return string? address
---@return string? why
function Connection:peer() end

---The address of this end.
---@return string? address
---@return string? why
function Connection:address() end

---Sets the timeout of each method that has none of its own; nil: none.
---@param seconds number?
---@return baton.net.Connection connection itself
function Connection:timeout(seconds) end

---A socket for datagrams. A `<close>` variable closes it.
---@class baton.net.Datagrams
local Datagrams = {}

---Sends a datagram.
---@param data string
---@param address string
---@return true? done
---@return string? why
function Datagrams:send_to(data, address) end

---Waits for a datagram.
---@param timeout? number
---@return string? data
---@return string? address of its sender; or why there is none
function Datagrams:receive_from(timeout) end

---The address, with its port.
---@return string? address
---@return string? why
function Datagrams:address() end

---Closes it. Ends the waits of other processes.
---@return true closed
function Datagrams:close() end

return net
