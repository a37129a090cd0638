-- lua-cyrussasl: a client and a server in this program authenticate with the mechanism ANONYMOUS.
local sasl = require "cyrussasl"

local service = "baton-test"
local started = false

return function(t)
  t.alone(function()
    if not started then
      sasl.server_init(service)
      sasl.client_init()
      started = true
    end
    t.say(#sasl.get_version() > 0, sasl.SASL_OK, sasl.SASL_CONTINUE)
    local server = sasl.server_new(service, nil, nil, nil, nil)
    local client = sasl.client_new(service, "localhost", nil, nil)
    local offered = sasl.listmech(server, nil, "", " ", "")
    t.say((" " .. offered .. " "):find(" ANONYMOUS ", 1, true) ~= nil)
    sasl.set_username(client, "guest")
    local code, data, mechanism = sasl.client_start(client, "ANONYMOUS")
    t.say(code, data and #data > 0, mechanism)
    t.pause()
    local answer, reply = sasl.server_start(server, "ANONYMOUS", data)
    t.say(answer == sasl.SASL_OK, reply, sasl.get_username(server))
    local refusing = sasl.server_new(service, nil, nil, nil, nil)
    t.say((sasl.server_start(refusing, "NO-SUCH-MECHANISM", "")), sasl.get_message(refusing))
    t.say(sasl.encode64 "text", sasl.decode64 "dGV4dA==")
  end)
end
