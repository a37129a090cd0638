-- Connects as the test says: to its server, or in a simulated run to the one in memory.
local cluster = require "baton.cluster"

return function(options)
  options = options or {}
  options.url = options.url or os.getenv "NATS_URL"
  return assert(cluster.connect(options))
end
