---@meta baton.ffi

-- The interface of LuaJIT's FFI. Types are named by text, as C writes them, or by what `typeof` gives. A call through the
-- ffi stops no other process.

---Functions and values of C.
---@class baton.ffi
---@field C baton.ffi.Library the program, and the libraries that it has loaded
---@field nullptr baton.ffi.Cdata a null pointer, to compare others with
---@field os "Linux" | "OSX" | "POSIX"
---@field arch "x64" | "arm64"
local ffi = {}

---A value of C: a number, pointer, array, structure or union.
---@class baton.ffi.Cdata: userdata
---@field [any] any

---A type of C; calling it makes an object, as `new` does.
---@class baton.ffi.Type: userdata
---@overload fun(...: any): baton.ffi.Cdata

---A library: its functions, variables and the constants that were declared.
---@class baton.ffi.Library: userdata
---@field [string] any

---A type by its text, a type, or a cdata of it.
---@alias baton.ffi.AnyType string | baton.ffi.Type | baton.ffi.Cdata

---Declares types, functions, variables and constants. Each `$` in the text stands for the next argument.
---@param declarations string
---@param ... baton.ffi.AnyType | integer
function ffi.cdef(declarations, ...) end

---Loads a library: `z` is libz.so; a name with a slash is a path.
---@param name string
---@param global? boolean true: its symbols are seen by libraries that are loaded later
---@return baton.ffi.Library
function ffi.load(name, global) end

---Prepares one function from its prototype.
---@param prototype string
---@param library? baton.ffi.Library `ffi.C` otherwise
---@return function
function ffi.fn(prototype, library) end

---Declares that calls of a function last: they are made on another native thread from the beginning.
---@param f function
---@return function f
function ffi.blocking(f) end

---Declares that calls of a function do not last: they are made where the caller is.
---@param f function
---@return function f
function ffi.nonblocking(f) end

---Has the calls of a function made on a stack of their own, so that they can be given up: by an error after some seconds,
---or by a kill of the process.
---@param f function
---@param seconds? number math.huge: only a kill ends the wait; nil: as before
---@return function f
function ffi.timeout(f, seconds) end

---A type as a value.
---@param type baton.ffi.AnyType
---@param ... baton.ffi.AnyType | integer what `$` in the text stands for
---@return baton.ffi.Type
function ffi.typeof(type, ...) end

---A new object, of zeros or initialized. The length of a type with `[?]` comes first.
---@param type baton.ffi.AnyType
---@param ... any
---@return baton.ffi.Cdata
function ffi.new(type, ...) end

---A value as another type. A function of Lua that is cast to a function pointer can be called by C, until `:free()`.
---@param type baton.ffi.AnyType
---@param value any
---@return baton.ffi.Cdata
function ffi.cast(type, value) end

---Gives the objects of a structure, union, complex or vector type methods and operators; once.
---@param type baton.ffi.AnyType
---@param metatable table
---@return baton.ffi.Type
function ffi.metatype(type, metatable) end

---Has `finalizer(cdata)` called when the object is collected; nil takes that back.
---@param cdata baton.ffi.Cdata
---@param finalizer? function
---@return baton.ffi.Cdata cdata
function ffi.gc(cdata, finalizer) end

---Bytes of a type or object; nothing if that is not known.
---@param type baton.ffi.AnyType
---@param length? integer of a type with `[?]`
---@return integer?
function ffi.sizeof(type, length) end

---@param type baton.ffi.AnyType
---@return integer
function ffi.alignof(type) end

---Where a member is; of a bit-field also its first bit and its width.
---@param type baton.ffi.AnyType
---@param member string
---@return integer? offset, integer? first, integer? width
function ffi.offsetof(type, member) end

---Whether a value is of a type, or points to a structure of it.
---@param type baton.ffi.AnyType
---@param value any
---@return boolean
function ffi.istype(type, value) end

---C's `errno` as the calling process's last call left it; sets it for the next one.
---@param new? integer
---@return integer
function ffi.errno(new) end

---A cdata number as one of Lua; nil if it is none.
---@param value any
---@return number?
function ffi.tonumber(value) end

---Bytes of C as a string: up to a zero byte, or so many.
---@param from baton.ffi.Cdata
---@param length? integer
---@return string
function ffi.string(from, length) end

---Copies bytes; of a string with its zero byte if no length is given.
---@param to baton.ffi.Cdata
---@param from baton.ffi.Cdata | string
---@param length? integer
function ffi.copy(to, from, length) end

---Sets bytes.
---@param to baton.ffi.Cdata
---@param length integer
---@param byte? integer 0 otherwise
function ffi.fill(to, length, byte) end

---What holds for this machine: "le", "64bit", "fpu", ...
---@param name string
---@return boolean
function ffi.abi(name) end

return ffi
