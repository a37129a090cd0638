-- Functions that VMs of the tests serve.
local process = require "baton.process"
local functions, calls = {}, 0
local kept

function functions.double(n) return 2 * n end
function functions.count()
  calls = calls + 1
  return calls
end
function functions.fail(message) error(message) end
function functions.wait() process.sleep(3600) end
function functions.spin()
  while true do end
end
function functions.file() return io.stdout end
function functions.id() return require("baton.vm").current().id end
function functions.apply(f, ...) return f(...) end
function functions.keep(f)
  kept = f
  return true
end
function functions.kept() return kept() end
function functions.exit(status) os.exit(status) end

return functions
