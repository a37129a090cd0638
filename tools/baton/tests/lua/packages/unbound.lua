-- luaunbound: answers of local zones, at once and later, and refused requests.
local unbound = require "lunbound"

local function resolver(async)
  return unbound.new {
    async = async,
    resolvconf = false,
    hoststxt = false,
    forward = { "127.0.0.1@1" },
    options = {
      ["do-not-query-localhost:"] = "no",
      ["local-zone:"] = "test. static",
    },
  }
end

return function(t)
  t.say(#unbound._LIBVER > 0)
  local context = resolver(false)
  local answer = context:resolve("localhost", 1, 1)
  t.say(answer.havedata, answer.n, answer[1]:byte(1, -1))
  local none = context:resolve("name.test", 1, 1)
  t.say(none.havedata, none.nxdomain, none.rcode, none.qname)
  local later, heard = resolver(true), {}
  for i = 1, 20 do
    later:resolve_async(
      function(result, why) heard[i] = why or result.qname .. result.rcode end,
      i .. ".test",
      1,
      1
    )
  end
  while #heard < 20 do
    if later:poll() then later:process() end
    t.pause()
  end
  t.say(#heard, heard[1], heard[20], math.type(later:getfd()))
  local reverse = context:resolve("1.0.0.127.in-addr.arpa", 12, 1)
  t.say(reverse.havedata, reverse[1] and #reverse[1])
  t.say((pcall(unbound.new, { options = { ["no-such-option:"] = "x" } })))
  t.say((pcall(context.resolve, context, {})))
end
