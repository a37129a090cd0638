local first <close> = setmetatable({}, { __close = function(_, e) print("first closed", e) end })
local second <close> = setmetatable({}, {
  __close = function(_, e)
    print("second closed", e)
    error("in close")
  end,
})
setmetatable({}, { __gc = function() print("collected") end })
error("main")
