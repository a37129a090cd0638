local function inner() error("deep") end
local object = setmetatable({}, {
  __index = function(_, key) if key == "boom" then inner() end end,
  __add = function(a) return a.boom end,
})
function global_function() return (object + 1) + 1 end
local wrapped = coroutine.wrap(function()
  local ok, message = pcall(global_function)
  print(ok, message)
  print(debug.traceback("in the coroutine"))
  table.sort({ 3, 2, 1 }, function() global_function() end)
end)
local function outer() wrapped() end
outer()
