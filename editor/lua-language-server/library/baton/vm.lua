---@meta baton.vm

-- Each VM has a heap, processes and modules of its own, and runs on a native thread of its own. So
-- several VMs use several cores. They share only the objects made here; other values are copied
-- when they are sent. Times and timeouts are as in `baton.process`.

---Several VMs in one program.
---@class baton.vm
local vm = {}

---Options of `vm.spawn`.
---@class (exact) baton.vm.SpawnOptions
---@field name? string used in messages; default: the module's name, or "VM"
---@field memory? integer bytes that its heap may have; beyond them, it gets "not enough memory"
---@field daemon? boolean true: the program does not wait for it; default: true if it serves calls
---@field quiet? boolean true: its error is not printed, and does not change the exit status
---@field cpu? integer the number of the only core that it runs on, from 0

---Starts a VM that calls `main(...)`, and waits until it has begun. Returns the VM; `nil` and the
---reason if it could not begin: the module fails to load, or there is no such core.
---
---`main` is a function, which is sent, or the name of a module, which the new VM requires. If the
---module returns a function, the VM calls it. If it returns a table, the VM serves calls of its
---functions until it is killed. The VM ends when `main` has returned and its processes have ended.
---It has the program's `arg`, and copies of the caller's search paths and `process.params`.
---@param main string | fun(...): ...
---@param ... any what can be sent
---@return baton.vm.VM?
---@return string? why
---@overload fun(options: baton.vm.SpawnOptions, main: (string | fun(...): ...), ...): baton.vm.VM?, string?
function vm.spawn(main, ...) end

---Returns the VM of the caller.
---@return baton.vm.VM
function vm.current() end

---Returns all VMs of the program that have not ended, in the order of their start. Each of them can
---be called and killed.
---@return baton.vm.VM[]
function vm.list() end

---Returns the number of cores that the program may use. With a quota of processor time, as in a
---container, no more than that keeps busy.
---@return integer
function vm.cores() end

---Makes a channel between VMs: the default of `capacity` is 64. A sender waits while so many
---values are in it, or while their copies would have more than `bytes` bytes together. A value that
---is larger passes alone.
---@param capacity? integer at least 1
---@param options? baton.vm.ChannelOptions
---@return baton.vm.Channel
---@nodiscard
---@overload fun(options: baton.vm.ChannelOptions): baton.vm.Channel
function vm.channel(capacity, options) end

---Options of `vm.channel`.
---@class (exact) baton.vm.ChannelOptions
---@field bytes? integer default 16 MiB
---@field name? string shown in reports

---Names a metatable in this VM, and returns it. Tables that have it can be sent to VMs that have
---given a metatable the same name. Another metatable for the name, or another name for the
---metatable, raises an error.
---@param name string
---@param metatable table
---@return table metatable
function vm.class(name, metatable) end

---Makes an immutable copy of a value outside of all heaps. It is read like a table, and sent
---without a copy. Strings, numbers, booleans and frozen values are returned as they are.
---@param value any
---@return any frozen
---@nodiscard
function vm.freeze(value) end

---Returns a copy of a frozen value as plain tables.
---@param frozen any
---@return any copy
---@nodiscard
function vm.thaw(frozen) end

---Wraps an object so that it is moved by the next send. The receiver gets the object itself, and
---the sender's is closed. A value that nobody receives comes back; if the sender has it no more, it
---is closed. Files keep their position and what is buffered. Sockets of LuaSocket keep their
---timeouts and what was read but not received; the receiving VM loads LuaSocket. Objects of
---`baton.net` keep all they have. These raise an error: the standard files, files of `io.popen`,
---connections of LuaSec, and what a process waits for or uses.
---@param object any a buffer, an open file, a socket, or an object of `baton.net`
---@return any moved to be sent, alone or in a table
---@nodiscard
function vm.move(object) end

---Makes a buffer of so many zero bytes, or of the bytes of a string. It is outside of all heaps.
---@param content integer | string
---@return baton.vm.Buffer
---@nodiscard
function vm.buffer(content) end

---Makes `count` integers of 64 bits, all 0, that VMs share.
---@param count integer
---@return baton.vm.Words
---@nodiscard
function vm.shared(count) end

---Makes a dictionary that VMs share. With `evict = "lru"`, a full one removes the keys that were
---not used for longest.
---@param options? baton.vm.DictOptions
---@return baton.vm.Dict
---@nodiscard
function vm.dict(options) end

---Options of `vm.dict`.
---@class (exact) baton.vm.DictOptions
---@field bytes? integer the most that keys, values and their places use; default 16 MiB
---@field evict? "error" | "lru" when it is full: refuse values (the default), or remove the oldest

---Makes a value that can be sent, and called like `f`. Each call runs `f` in this VM, in a process
---of its own; arguments and results are sent. Its errors are raised in the caller. After the end of
---this VM, calls return `nil, "dead"`.
---@param f fun(...): ...
---@return baton.vm.Proxy
---@nodiscard
function vm.proxy(f) end

---Calls `f(value, index)` for each value of a list, in several VMs. Use it in a `for` loop:
---`for i, result in vm.map(list, f) do`. It returns the index and the results of each call.
---
---The first error ends the workers, and is raised in the loop. So does leaving the loop.
---@param list any[] values that can be sent
---@param f string | fun(value: any, index: integer): ... or a module that returns such a function
---@param options? baton.vm.MapOptions
---@return fun(): integer?, ...
function vm.map(list, f, options) end

---Options of `vm.map`.
---@class (exact) baton.vm.MapOptions
---@field workers? integer how many VMs; default `vm.cores()`, and never more than values
---@field chunk? integer how many values are sent together; default: about eight chunks for each worker
---@field ordered? boolean false: results come as soon as they are there; default true

---Starts several VMs that serve calls of one module's functions. Raises an error if the module
---cannot be loaded.
---@param options baton.vm.PoolOptions
---@return baton.vm.Pool
---@nodiscard
function vm.pool(options) end

---Options of `vm.pool`.
---@class (exact) baton.vm.PoolOptions
---@field module string the module; it returns a table of functions
---@field size? integer how many VMs; default `vm.cores()`
---@field queue? integer how many calls may wait for a VM; default: no limit
---@field restart? boolean false: a VM that has died is not replaced; default true

---A VM. It can be sent, so any VM of the program can call it. What arrives is another table, which
---is equal to (`==`) any other that stands for the same VM.
---@class baton.vm.VM
---@field id integer its number; the program's first VM has 1
---@field name string its name, for messages
local VM = {}

---Calls a function in this VM, in a process of its own, and returns its results. Arguments and
---results are sent. An error is raised here, with the tracebacks of both sides. If the VM ends
---before, returns `nil, "dead"`. A kill of the caller kills the call.
---
---A name is that of a function of the VM's module, or `"MODULE.FUNCTION"` of a module that the VM
---requires, if it was not started with a table of functions.
---@param f string | fun(...): ...
---@param ... any what can be sent
---@return any ...
function VM:call(f, ...) end

---Waits for its end. In the VM that has started it, returns `true, results...`; `false, err` if it
---failed or was killed. In others, returns `true`.
---@param timeout? number
---@return boolean? ended_well
---@return any ...
function VM:join(timeout) end

---Ends it: kills all its processes, so their `<close>` variables run. If it has not ended after
---`grace` seconds, it is stopped wherever its processes are.
---@param reason? any what `join` returns; default "killed"
---@param grace? number default 5
---@return boolean done, "dead"? why
function VM:kill(reason, grace) end

---Returns what it does. `"waiting"`: all its processes wait. That may be over when it is read.
---@return "running" | "waiting" | "dead"
function VM:status() end

---Returns its counters, as its own `process.stats()`; with `memory`, the bytes of its heap, and
---`processes`, how many it has. If it has ended, returns `nil, "dead"`.
---@return baton.vm.Stats?
---@return "dead"? why
function VM:stats() end

---Sends a message to the channel when the VM has ended, as `Process:monitor` does. Raises an error
---in a VM that has not started it.
---@param channel baton.process.Channel
---@return true
function VM:monitor(channel) end

---What `VM:stats` returns.
---@class baton.vm.Stats : baton.process.Stats
---@field memory integer bytes of its heap
---@field processes integer how many processes it has

---A channel between VMs. It can be sent, and can be a case of `process.select` in each VM.
---`#channel` is the number of values in it.
---@class baton.vm.Channel
---@operator len: integer
local Channel = {}

---Sends a copy of a value, and waits until there is room for it. Raises an error if it cannot be
---sent.
---@param value any except nil
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Channel:send(value, timeout) end

---Receives a value, and waits until there is one. Values left in a closed channel still come out;
---then it returns `nil, "closed"`.
---@param timeout? number
---@return any value nil if there is none
---@return baton.process.Failure? why
function Channel:receive(timeout) end

---Closes the channel in all VMs: sends fail. Receivers get the values that are left.
function Channel:close() end

---Returns an iterator that receives until the channel is closed and empty.
---@return fun(): any
function Channel:values() end

---Integers of 64 bits that VMs share. Each operation is atomic, and all of them have one order.
---Indices are from 1. `#words` is how many there are.
---@class baton.vm.Words
---@operator len: integer
local Words = {}

---Returns a word.
---@param index integer
---@return integer
function Words:load(index) end

---Sets a word.
---@param index integer
---@param value integer
function Words:store(index, value) end

---Adds to a word, and returns the sum. It wraps around, as Lua's integers do.
---@param index integer
---@param n? integer default 1
---@return integer
function Words:add(index, n) end

---Sets a word, and returns what it was.
---@param index integer
---@param value integer
---@return integer
function Words:exchange(index, value) end

---Sets a word if it is `expected`. Otherwise returns `false` and what it is.
---@param index integer
---@param expected integer
---@param value integer
---@return boolean done
---@return integer? present
function Words:compare(index, expected, value) end

---Waits until `wake` is called for this word, by any VM. If the word is not `expected`, returns
---`true` at once. Check the word again afterwards.
---@param index integer
---@param expected integer
---@param timeout? number
---@return true?
---@return "timeout"? why
function Words:wait(index, expected, timeout) end

---Wakes processes that wait at this word, and returns how many.
---@param index integer
---@param count? integer how many at most; default 1
---@return integer
function Words:wake(index, count) end

---Bytes outside of all heaps. Positions are from 1, and ranges are as in `string.sub`. `#buffer` is
---its size. One VM has it: to send it, move it (`vm.move`), or freeze it.
---@class baton.vm.Buffer
---@operator len: integer
local Buffer = {}

---Returns the number at a position, in the processor's byte order.
---@param position integer
---@param type? baton.vm.NumberType default "u8"
---@return number
function Buffer:get(position, type) end

---Stores a number. Raises an error if it does not fit into the type.
---@param position integer
---@param value number
---@param type? baton.vm.NumberType default "u8"
function Buffer:set(position, value, type) end

---Stores values as `string.pack` does, and returns the position behind them.
---@param format string
---@param position integer
---@param ... any
---@return integer
function Buffer:pack(format, position, ...) end

---Reads values as `string.unpack` does. Returns them, and the position behind them.
---@param format string
---@param position? integer default 1
---@return any ... values, and the position
function Buffer:unpack(format, position) end

---Returns the bytes of a range as a string.
---@param first? integer default 1
---@param last? integer default -1
---@return string
function Buffer:string(first, last) end

---Returns a range as a buffer that shares the bytes.
---@param first? integer default 1
---@param last? integer default -1
---@return baton.vm.Buffer
---@nodiscard
function Buffer:slice(first, last) end

---Makes the bytes read-only for ever, for all slices. Then several VMs can have the buffer, and a
---send does not copy it. Returns the buffer.
---@return baton.vm.Buffer
function Buffer:freeze() end

---Returns whether the bytes are read-only.
---@return boolean
function Buffer:is_frozen() end

---Returns the address of the first byte, for C. Functions of `baton.ffi` also take the buffer
---itself.
---@return lightuserdata
function Buffer:pointer() end

---How a number lies in a buffer: unsigned or signed with so many bits, or floating point.
---@alias baton.vm.NumberType "u8" | "i8" | "u16" | "i16" | "u32" | "i32" | "u64" | "i64" | "f32" | "f64"

---A dictionary that VMs share. Keys are strings, numbers and booleans. A value is anything that can
---be sent, and is not moved; each `get` returns a copy. `#dict` is the number of keys.
---@class baton.vm.Dict
---@operator len: integer
local Dict = {}

---Returns the value of a key, or nil.
---@param key string | number | boolean
---@return any
function Dict:get(key) end

---Sets the value of a key.
---@param key string | number | boolean
---@param value any except nil
---@param ttl? number after so many seconds the key is removed
---@return true?
---@return "full"? why
function Dict:set(key, value, ttl) end

---Sets the value of a key that has none.
---@param key string | number | boolean
---@param value any except nil
---@param ttl? number after so many seconds the key is removed
---@return true?
---@return "exists" | "full" | nil why
function Dict:add(key, value, ttl) end

---Sets the value of a key if it is `expected`; nil stands for no value. Otherwise returns `false`
---and the value.
---@param key string | number | boolean
---@param expected string | number | boolean | nil
---@param value any nil removes the key
---@return boolean? done
---@return any present the value, or "full" after nil
function Dict:compare(key, expected, value) end

---Removes a key. Returns whether it was there.
---@param key string | number | boolean
---@return boolean
function Dict:delete(key) end

---Adds to the number of a key, and returns the sum. Raises an error if the value is not a number.
---@param key string | number | boolean
---@param n? number default 1
---@param initial? number what a key without a value has; default 0
---@return number?
---@return "full"? why
function Dict:incr(key, n, initial) end

---Returns a list of the keys, in no order.
---@param limit? integer how many at most
---@return (string | number | boolean)[]
function Dict:keys(limit) end

---Returns how many bytes of its limit are used.
---@return integer
function Dict:used() end

---A function of another VM, made by `vm.proxy`.
---@class baton.vm.Proxy
---@field id integer its number in its VM
---@field vm baton.vm.VM the VM that runs it
---@operator call: any

---VMs that serve calls. In each, one call at a time runs.
---@class baton.vm.Pool
local Pool = {}

---Calls a function in a VM of the pool that is free, and waits for one. Otherwise it is like
---`VM:call`. Also returns `nil, "full"` if too many calls wait; `nil, "closed"` after `close`.
---@param name string | fun(...): ...
---@param ... any
---@return any ...
function Pool:call(name, ...) end

---Takes no more calls, waits for those that run, and ends the VMs.
---@param timeout? number after so many seconds, calls that still run are killed
---@return boolean done, "closed"? why
function Pool:close(timeout) end

return vm
