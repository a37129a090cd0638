-- Counting assertions for the behaviour suite. A failure is stored and the file continues, so one
-- run reports all failures.
--
-- This file does not know processes: it runs under any Lua 5.4.
local assertions = {}

-- Formats a value as in the expectations: 1, 1.0, -0.0, nan, nil, 'text' (with \ddd for unprintable
-- bytes).
local function render(value)
  local kind = type(value)
  if kind == "string" then
    return "'"
      .. value:gsub("[%c\\\127-\255]", function(byte) return ("\\%03d"):format(byte:byte()) end)
      .. "'"
  elseif math.type(value) == "float" then
    if value ~= value then return "nan" end
    local text = ("%.14g"):format(value)
    if tonumber(text) ~= value then text = ("%.17g"):format(value) end
    return text:find("[%.einf]") and text or text .. ".0"
  elseif kind == "number" or kind == "boolean" or kind == "nil" then
    return tostring(value)
  end
  return kind
end
assertions.render = render

local function render_all(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = render((select(i, ...))) end
  return table.concat(list, " ")
end

local function outcome(ok, ...)
  if ok then return render_all(...) end
  local message = ...
  return "! " .. (type(message) == "string" and message or render(message))
end

-- Returns the current line of the file under test: the innermost frame outside of this file.
local function place()
  for level = 3, 30 do
    local frame = debug.getinfo(level, "Sl")
    if not frame then break end
    if frame.currentline > 0 and not frame.short_src:find "assertions" then
      return frame.short_src:match "[^/]*$" .. ":" .. frame.currentline
    end
  end
  return "?"
end

local Assertions = {}
Assertions.__index = Assertions

function assertions.new()
  local self = { count = 0, failures = {} }
  self.name = tostring(self):gsub("%W", "")
  return setmetatable(self, Assertions)
end

function Assertions:judge(good, what, wanted, got)
  self.count = self.count + 1
  if not good then
    self.failures[#self.failures + 1] =
      ("%s: %s: wanted %s, got %s"):format(place(), what or "a value", wanted, got)
  end
  return good
end

-- Compares one value: the number type and the sign of zero must match, and NaN equals NaN.
function Assertions:equal(got, wanted, what)
  local good = rawequal(got, wanted) or got ~= got and wanted ~= wanted
  if good and type(got) == "number" then good = render(got) == render(wanted) end
  return self:judge(good, what, render(wanted), render(got))
end

function Assertions:that(value, what)
  return self:judge(value and true or false, what, "what is true", render(value))
end

-- Compares all values after `wanted`, as text: t:values("1 nil 'a'", f()).
function Assertions:values(wanted, ...)
  local got = render_all(...)
  return self:judge(got == wanted, nil, wanted, got)
end

-- Compares the results of pcall(f, ...), as text: values as above, or "! message".
function Assertions:gives(wanted, f, ...)
  local got = outcome(pcall(f, ...))
  return self:judge(got == wanted, nil, wanted, got)
end

-- The text must contain this one literally.
function Assertions:has(text, part, what)
  return self:judge(
    type(text) == "string" and text:find(part, 1, true),
    what,
    "…" .. part .. "…",
    render(text)
  )
end

function Assertions:matches(text, pattern, what)
  return self:judge(
    type(text) == "string" and text:find(pattern),
    what,
    "a match of " .. pattern,
    render(text)
  )
end

-- f must raise an error whose message contains this text.
function Assertions:raises(part, f, ...)
  local ok, message = pcall(f, ...)
  return self:judge(
    not ok and tostring(message):find(part, 1, true),
    nil,
    "! …" .. part,
    outcome(ok, message)
  )
end

-- Checks pairs of code and its result. The code is an expression or a chunk, has the chunk name
-- "row", and runs in an environment of its own.
function Assertions:rows(pairs_of_text, given)
  assert(#pairs_of_text % 2 == 0, "a row lacks its expectation")
  for i = 1, #pairs_of_text, 2 do
    local code, wanted = pairs_of_text[i], pairs_of_text[i + 1]
    local env = setmetatable({}, { __index = function(_, name)
      local value = given and given[name]
      if value == nil then return _G[name] end
      return value
    end })
    local chunk, message = load("return " .. code, "=row", "t", env)
    if not chunk then chunk, message = load(code, "=row", "t", env) end
    local got = chunk and outcome(pcall(chunk)) or "! " .. message
    self:judge(got == wanted, code, wanted, got)
  end
end

-- Records an order of events: log "a" log "b"; log:is "a b".
function Assertions:log()
  local entries = {}
  return setmetatable({}, {
    __call = function(_, entry) entries[#entries + 1] = tostring(entry) end,
    __index = {
      is = function(_, wanted, what)
        local got = table.concat(entries, " ")
        entries = {}
        return self:judge(got == wanted, what or "the order", wanted, got)
      end,
      text = function() return table.concat(entries, " ") end,
      clear = function() entries = {} end,
    },
  })
end

-- Returns the path of a new file in the directory of this run, different for each run of a program.
function Assertions:scratch()
  self.files = (self.files or 0) + 1
  return ("%s/%s-%d"):format(os.getenv "SCRATCH", self.name, self.files)
end

function Assertions:finish(file)
  for i = 1, math.min(#self.failures, 20) do io.stderr:write(self.failures[i], "\n") end
  if #self.failures > 0 then error(file .. ": " .. #self.failures .. " assertions failed", 0) end
  return self.count
end

return assertions
