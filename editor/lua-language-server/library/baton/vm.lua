---@meta baton.vm

---Objects outside of all heaps. All VMs of a program can use and wait for them.
---@class baton.vm
local vm = {}

---Options of `vm.channel`.
---@class (exact) baton.vm.ChannelOptions
---@field bytes? integer the most bytes of all messages together; default 16 MiB
---@field name? string for reports

---A channel between VMs. Values are copied. It may be a case of `process.select`, and may itself be
---sent. `#channel` is how many messages are in it.
---@class baton.vm.Channel
---@operator len: integer
local Channel = {}

---Makes a channel for at most `capacity` messages, 64 by default. A message that is larger than
---`bytes` is let in alone. There is no rendezvous: the capacity is at least 1.
---@param capacity? integer
---@param options? baton.vm.ChannelOptions
---@return baton.vm.Channel
---@overload fun(options: baton.vm.ChannelOptions): baton.vm.Channel
function vm.channel(capacity, options) end

---Sends a copy of a value; waits while there is no room. `nil` cannot be sent.
---@param value any
---@param timeout? number
---@return true? sent, "timeout" | "closed"? why
function Channel:send(value, timeout) end

---Receives the next value; waits while there is none.
---@param timeout? number
---@return any value, "timeout" | "closed"? why
function Channel:receive(timeout) end

---Closes the channel. What is in it can still be received.
function Channel:close() end

---An iterator of the values, until the channel is closed and empty.
---@return fun(): any
function Channel:values() end

---Words of 64 bits, numbered from 1. Each operation is atomic, and all VMs see one order of them.
---They are sent by reference. `#words` is how many there are.
---@class baton.vm.Words
---@operator len: integer
local Words = {}

---Makes `count` words that are 0.
---@param count integer
---@return baton.vm.Words
function vm.shared(count) end

---@param index integer
---@return integer value
function Words:load(index) end

---@param index integer
---@param value integer
function Words:store(index, value) end

---Adds `n`, 1 by default, and returns the new value. It wraps around.
---@param index integer
---@param n? integer
---@return integer new
function Words:add(index, n) end

---Sets a word, and returns the old value.
---@param index integer
---@param value integer
---@return integer old
function Words:exchange(index, value) end

---Sets a word if it has the expected value. Otherwise returns `false` and the present value.
---@param index integer
---@param expected integer
---@param value integer
---@return boolean set, integer? present
function Words:compare(index, expected, value) end

---Waits for a wake-up. Returns at once if the word differs from `expected`.
---@param index integer
---@param expected integer
---@param timeout? number
---@return true? woken, "timeout"? why
function Words:wait(index, expected, timeout) end

---Wakes up to `n` processes that wait at a word, 1 by default, the longest waits first.
---@param index integer
---@param n? integer
---@return integer woken
function Words:wake(index, n) end

---Bytes outside of the heap. Positions are counted from 1. It is sent frozen, or by `vm.move`.
---`#buffer` is its size.
---@class baton.vm.Buffer
---@operator len: integer
local Buffer = {}

---The type of a number in a buffer, in the byte order of the processor.
---@alias baton.vm.Number "u8" | "i8" | "u16" | "i16" | "u32" | "i32" | "u64" | "i64" | "f32" | "f64"

---Makes a buffer of zeros, or with a copy of a string.
---@param content integer | string
---@return baton.vm.Buffer
function vm.buffer(content) end

---Reads a number, by default a byte.
---@param position integer
---@param type? baton.vm.Number
---@return number
function Buffer:get(position, type) end

---Writes a number, by default a byte. Raises an error if it does not fit.
---@param position integer
---@param value number
---@param type? baton.vm.Number
function Buffer:set(position, value, type) end

---Writes values by a format of `string.pack`. Alignment counts from `position`.
---@param format string
---@param position integer
---@param ... any
---@return integer behind the position behind them
function Buffer:pack(format, position, ...) end

---Reads values by a format of `string.pack`, and then the position behind them.
---@param format string
---@param position? integer
---@return any ...
function Buffer:unpack(format, position) end

---A string of some bytes; first and last as in `string.sub`.
---@param first? integer
---@param last? integer
---@return string
function Buffer:string(first, last) end

---A buffer that shares some of the bytes; first and last as in `string.sub`.
---@param first? integer
---@param last? integer
---@return baton.vm.Buffer
function Buffer:slice(first, last) end

---The address of its bytes, for the FFI, which also takes a buffer itself. It is valid while the
---buffer lives and is not moved.
---@return lightuserdata
function Buffer:pointer() end

---Makes the bytes read-only for ever, and returns the buffer. Then it is sent by reference.
---@return baton.vm.Buffer
function Buffer:freeze() end

---@return boolean
function Buffer:is_frozen() end

---Wraps what a message takes along without a copy, such as a buffer. Once the message is made, the
---value cannot be used here. If the message is never received, it can again.
---@param value baton.vm.Buffer
---@return userdata
function vm.move(value) end

---Options of `vm.dict`.
---@class (exact) baton.vm.DictOptions
---@field bytes? integer the most bytes of keys, values and their overhead; default 16 MiB
---@field evict? "error" | "lru" what a full dictionary does: refuse (the default), or remove what was used least recently

---A dictionary that VMs share. Keys are strings, numbers and booleans; values are all that can be
---sent except what is moved. A reader gets a copy. It is sent by reference. `#dict` counts entries.
---@class baton.vm.Dict
---@operator len: integer
local Dict = {}

---@param options? baton.vm.DictOptions
---@return baton.vm.Dict
function vm.dict(options) end

---@param key string | number | boolean
---@return any value
function Dict:get(key) end

---Stores a value, for at most `ttl` seconds.
---@param key string | number | boolean
---@param value any
---@param ttl? number
---@return true? stored, "full"? why
function Dict:set(key, value, ttl) end

---Stores a value if there is none.
---@param key string | number | boolean
---@param value any
---@param ttl? number
---@return true? stored, "full" | "exists"? why
function Dict:add(key, value, ttl) end

---Stores a value, or removes the key if it is `nil`, if the present one is `expected`: `nil`, a
---boolean, a number or a string. Otherwise returns `false` and the present value.
---@param key string | number | boolean
---@param expected any
---@param value any
---@return boolean? stored, any present
function Dict:compare(key, expected, value) end

---Removes a key. Returns whether it was there.
---@param key string | number | boolean
---@return boolean
function Dict:delete(key) end

---Adds `n`, 1 by default, to a number, or to `initial`, 0 by default, if there is none.
---@param key string | number | boolean
---@param n? number
---@param initial? number
---@return number? sum, "full"? why
function Dict:incr(key, n, initial) end

---Lists the keys, at most `limit` of them, in no order.
---@param limit? integer
---@return (string | number | boolean)[]
function Dict:keys(limit) end

---The bytes in use.
---@return integer
function Dict:used() end

return vm
