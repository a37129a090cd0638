-- Functions of a module that a part of the guest has. The part is loaded when one of them is called
-- first: `load` runs it, and it sets them in the table that it gets. So programs and VMs that do
-- not use them do not pay for them.
local module, load, names, entries = ...

-- What the part gets in the module's place. The module's own fields stay as the program sets them.
local part = setmetatable({}, { __index = module })
local is_loaded = false

local function open()
  if is_loaded then return end
  load(part)
  is_loaded = true
end

for _, name in ipairs(names) do
  module[name] = function(...)
    open()
    return part[name](...)
  end
end

-- A table that the part fills, too.
if entries then
  setmetatable(entries, {
    __index = function(_, key)
      open()
      return rawget(entries, key)
    end,
  })
end
