---@meta baton.ffi

-- The interface of LuaJIT's FFI. A type is named by its C text, or by what `typeof` returns. A call
-- of a C function stops only the process that makes it.

---C functions and C values.
---@class baton.ffi
---@field C baton.ffi.Library the program, with the libraries that it has loaded
---@field nullptr baton.ffi.Cdata a null pointer, to compare others with
---@field os "Linux" | "OSX" | "POSIX" the operating system
---@field arch "x64" | "arm64" the processor
local ffi = {}

---A C value: a number, pointer, array, structure or union.
---@class baton.ffi.Cdata: userdata
---@field [any] any

---A C type. Calling it makes an object, as `ffi.new` does.
---@class baton.ffi.Type: userdata
---@overload fun(...: any): baton.ffi.Cdata

---A library: its functions and variables, and the declared constants.
---@class baton.ffi.Library: userdata
---@field [string] any

---A type: its C text, a type, or a cdata of that type.
---@alias baton.ffi.AnyType string | baton.ffi.Type | baton.ffi.Cdata

---Declares types, functions, variables and constants. Each `$` in the text stands for the next
---argument.
---@param declarations string
---@param ... baton.ffi.AnyType | integer
function ffi.cdef(declarations, ...) end

---Loads a library. `z` stands for libz.so; a name with a slash is a path.
---@param name string
---@param global? boolean true: libraries that are loaded later see its symbols
---@return baton.ffi.Library
function ffi.load(name, global) end

---Returns one function, prepared from its prototype. It needs no `cdef`.
---@param prototype string
---@param library? baton.ffi.Library default `ffi.C`
---@return function
function ffi.fn(prototype, library) end

---Declares that calls of `f` last. They start on another native thread.
---@param f function
---@return function f
function ffi.blocking(f) end

---Declares that calls of `f` do not last. They are made on the caller's thread.
---@param f function
---@return function f
function ffi.nonblocking(f) end

---Makes the calls of `f` on threads of their own, so that a process can go on without them: with an
---error after so many seconds, or when it is killed.
---@param f function
---@param seconds? number `math.huge`: only a kill ends the wait; nil: calls are made as before
---@return function f
function ffi.timeout(f, seconds) end

---Returns a type as a value.
---@param type baton.ffi.AnyType
---@param ... baton.ffi.AnyType | integer what `$` in the text stands for
---@return baton.ffi.Type
function ffi.typeof(type, ...) end

---Makes an object, filled with zeros or with the values given. For a type with `[?]`, the length
---comes first; for a structure that ends in `[]`, it may come first.
---@param type baton.ffi.AnyType
---@param ... any
---@return baton.ffi.Cdata
function ffi.new(type, ...) end

---Returns a value as another type. Casting a Lua function to a function pointer makes a callback,
---which C can call until `:free()`.
---@param type baton.ffi.AnyType
---@param value any
---@return baton.ffi.Cdata
function ffi.cast(type, value) end

---Gives methods and operators to the objects of a structure, union, complex or vector type. A type
---takes one metatable only.
---@param type baton.ffi.AnyType
---@param metatable table
---@return baton.ffi.Type
function ffi.metatype(type, metatable) end

---Sets the finalizer of an object: `finalizer(cdata)` is called when it is collected. nil removes
---it.
---@param cdata baton.ffi.Cdata
---@param finalizer? function
---@return baton.ffi.Cdata cdata
function ffi.gc(cdata, finalizer) end

---Returns the size in bytes of a type or object, or nothing if that is not known.
---@param type baton.ffi.AnyType
---@param length? integer for a type with `[?]`
---@return integer?
function ffi.sizeof(type, length) end

---Returns the alignment of a type in bytes.
---@param type baton.ffi.AnyType
---@return integer
function ffi.alignof(type) end

---Returns the offset of a member in bytes; for a bit-field also its first bit and its width.
---@param type baton.ffi.AnyType
---@param member string
---@return integer? offset
---@return integer? first
---@return integer? width
function ffi.offsetof(type, member) end

---Returns whether a value has a type, or points to a structure of that type.
---@param type baton.ffi.AnyType
---@param value any
---@return boolean
function ffi.istype(type, value) end

---Returns C's `errno`, as the last call of the calling process left it. With an argument, sets it
---for the next call.
---@param new? integer
---@return integer
function ffi.errno(new) end

---Returns whether a pointer is null. (A null pointer is not equal to nil.) nil counts as null; C
---values other than pointers do not.
---@param pointer baton.ffi.Cdata | nil
---@return boolean
---@nodiscard
function ffi.isnull(pointer) end

---Returns a cdata number as a Lua number, or nil if it is not a number.
---@param value any
---@return number?
function ffi.tonumber(value) end

---Returns C's bytes as a string: up to a zero byte, or as many as given.
---@param from baton.ffi.Cdata | string
---@param length? integer
---@return string
function ffi.string(from, length) end

---Copies bytes. Without a length, copies a whole string with its zero byte.
---@param to baton.ffi.Cdata
---@param from baton.ffi.Cdata | string
---@param length? integer
function ffi.copy(to, from, length) end

---Sets bytes to one value.
---@param to baton.ffi.Cdata
---@param length integer
---@param byte? integer default 0
function ffi.fill(to, length, byte) end

---Returns whether a property holds for this machine: "le", "64bit", "fpu", ...
---@param name string
---@return boolean
function ffi.abi(name) end

return ffi
