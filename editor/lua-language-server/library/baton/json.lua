---@meta baton.json

-- Values as JSON text and back: lua-cjson's interface and results, and in place of its module.
-- `baton.json.safe` has the same functions. Its `encode` and `decode` return nil and a message in
-- place of an error. Long texts and values hold nobody up: others run meanwhile, and a kill takes
-- effect in the middle. Differences from lua-cjson 2.1.0.11: an integer that does not fit into
-- Lua's is a float, as for `tonumber` (there it is the largest integer); a text ends at its end,
-- not at a zero byte in it; `encode_number_precision` takes up to 17 digits; sizes can be bounded.
-- What another process changes in a table during `encode` may be in the text or not.

---JSON as text and as values.
---@class baton.json
---@field null lightuserdata stands for JSON's null; the same value as lua-cjson's
---@field empty_array lightuserdata is written as `[]`
---@field array_mt table a table with this metatable is written as an array, as long as `#` says
---@field empty_array_mt table a table with this metatable is written as `[]` if `#` says 0
---@field _NAME string "baton.json", or "baton.json.safe"
local json = {}

---Returns the value of a text. Objects and arrays are tables, null is `json.null`. Strings are
---taken as they are: whether they are UTF-8 is not checked.
---
---A text that is no JSON raises an error with what was expected, what was found and where:
---"Expected value but found T_ARR_END at character 4".
---@param text string
---@return any
function json.decode(text) end

---Returns the text of a value. A table whose keys are all positive integers is an array, any other
---one an object. Metamethods are not called. Functions, userdata, and keys other than strings and
---numbers raise an error.
---@param value any
---@return string
function json.encode(value) end

---Returns another table of these functions, with settings of its own, and the default ones. Each
---function that follows returns its setting. With an argument, it sets it first.
---@return baton.json
function json.new() end

---How many tables may be in each other; default 1000. More raise "Cannot serialise, excessive
---nesting".
---@param depth? integer
---@return integer depth
function json.encode_max_depth(depth) end

---How many arrays and objects may be in each other; default 1000. More raise "Found too many
---nested data structures".
---@param depth? integer
---@return integer depth
function json.decode_max_depth(depth) end

---How many bytes a text may have; default `math.maxinteger`. Not in lua-cjson.
---@param bytes? integer
---@return integer bytes
function json.encode_max_size(bytes) end

---How many bytes of text are accepted; default `math.maxinteger`. Not in lua-cjson.
---@param bytes? integer
---@return integer bytes
function json.decode_max_size(bytes) end

---An array is excessively sparse if its last position is above `safe` and above `ratio` times the
---number of its values. Then it is an error, or an object if `convert` is true. Other gaps are
---written as null. Defaults: false, 2, 10. A ratio of 0 allows all.
---@param convert? boolean
---@param ratio? integer
---@param safe? integer
---@return boolean convert, integer ratio, integer safe
function json.encode_sparse_array(convert, ratio, safe) end

---How many digits floats have, from 1 to 17; default 14. With 17, each is read again as the same
---number.
---@param digits? integer
---@return integer digits
function json.encode_number_precision(digits) end

---Accepted for programs that set it. It has no effect.
---@param keep? boolean
---@return boolean keep
function json.encode_keep_buffer(keep) end

---What infinities and NaN become: an error (false, the default), `Infinity` and `NaN` (true), or
---"null".
---@param how? boolean | "null"
---@return boolean | "null" how
function json.encode_invalid_numbers(how) end

---Whether `decode` takes infinities, NaN, hexadecimal numbers, leading zeros and plus signs;
---default true.
---@param accept? boolean
---@return boolean accept
function json.decode_invalid_numbers(accept) end

---Whether an empty table is written as `{}`; default true. False: as `[]`.
---@param as_object? boolean
---@return boolean as_object
function json.encode_empty_table_as_object(as_object) end

---Whether arrays get the metatable `json.array_mt`, so that empty ones are written as arrays again;
---default false.
---@param mark? boolean
---@return boolean mark
function json.decode_array_with_array_mt(mark) end

---Whether `/` is written as `\/`; default true.
---@param escape? boolean
---@return boolean escape
function json.encode_escape_forward_slash(escape) end

---Whether values of types that JSON does not have are left out of tables; default false.
---@param skip? boolean
---@return boolean skip
function json.encode_skip_unsupported_value_types(skip) end

---A text of at most 64 bytes for each level, such as two spaces; then each value is on a line of
---its own. Default "": all is on one line.
---@param indent? string
---@return string indent
function json.encode_indent(indent) end

---Whether comments of the forms `/* */` and `//` are white space; default false.
---@param allow? boolean
---@return boolean allow
function json.decode_allow_comment(allow) end

return json
