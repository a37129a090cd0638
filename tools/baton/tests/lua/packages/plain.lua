-- Runs a program of this directory once, under `lua5.4` or `baton`: plain.lua NAME.
local kit = require "packages.kit"

local tasks = {}

-- Runs functions as coroutines until all have ended. Each yields in `pause`.
function kit.together(...)
  for i, f in ipairs { ... } do tasks[i] = coroutine.create(f) end
  while #tasks > 0 do
    for i = #tasks, 1, -1 do
      local ok, message = coroutine.resume(tasks[i])
      if not ok then error(debug.traceback(tasks[i], message), 0) end
      if coroutine.status(tasks[i]) == "dead" then table.remove(tasks, i) end
    end
  end
end

function kit.pause()
  if coroutine.isyieldable() then coroutine.yield() end
end

-- Runs one at a time: for modules with state that exists once per program.
function kit.alone(f) f() end

kit.load(arg[1])(kit.instance(1, print))
