-- What follows the work to other machines: the fields of the sender's context, and for requests the
-- rest of its deadline. Clocks differ, so the rest travels, and the time on the way is not counted.
--
-- It is a map before the value: { context = fields, left = seconds }. Without either, the bytes are
-- those of the value alone.

local core = ...
local engine, process = core.engine, core.process
local WITH_WORK = "\2" -- the version of bytes with a map before the value

-- The bytes with what follows the caller's work before them. `left` are seconds, or nil.
function core.add_work(bytes, left)
  local context = process.context()
  if not context and not left then return bytes end
  local work = engine.pack("context", { context = context, left = left })
  return WITH_WORK .. work:sub(2) .. bytes:sub(2)
end

-- What came with bytes from anyone: fields, perhaps none, and the rest of a deadline, or nil.
function core.work_of(bytes)
  local work = engine.work_of(bytes)
  if not work then return {}, nil end
  local left = work.left
  if type(left) ~= "number" or left ~= left then left = nil end
  return type(work.context) == "table" and work.context or {}, left
end

-- Calls f(...) with the fields in its context. Fields that no context can have are left out as a
-- whole: whoever sent them is no program of ours.
function core.with_fields(fields, f, ...)
  if next(fields) == nil then return f(...) end
  if not pcall(process.with_context, fields, function() end) then return f(...) end
  return process.with_context(fields, f, ...)
end
