-- The figures of servers of baton.http among the metrics of the program.
local check = require "check"
local inspect = require "baton.inspect"
local net = require "baton.net"
local http = require "baton.http"
local case = {}

-- The values of the metrics by their names.
local function figures()
  local values = {}
  for name, value in inspect.metrics("text"):gmatch "baton_http_(%S+) (%d+)" do
    values[name] = tonumber(value)
  end
  return values
end

function case.metrics_have_the_figures_of_all_servers()
  check.equal(next(figures()), nil)
  local within
  local one <close> = http.serve("127.0.0.1:0", function(req, res)
    within = figures()
    if req.path == "/stream" then
      res:stream()
      res:write("ab", "c")
    else
      return req.path == "/none" and 404 or 200, "four"
    end
  end)
  local other <close> = http.serve("127.0.0.1:0", function() error "wrong" end, {
    on_error = function() end,
  })
  for _, request in ipairs {
    { one, "GET / HTTP/1.1" },
    { one, "GET /none HTTP/1.1" },
    { one, "GET /stream HTTP/1.1" },
    { one, "GET bad HTTP/1.1" },
    { other, "GET / HTTP/1.1" },
  } do
    local conn <close> = net.connect(request[1]:address())
    conn:write(request[2], "\r\nHost: a\r\nConnection: close\r\n\r\n")
    conn:read "all"
    check.eventually("the end", function() return request[1]:stats().connections == 0 end)
  end
  check.equal(within.handlers, 1)
  check.equal(within.connections, 1)
  local after = figures()
  check.equal(after.handlers, 0)
  check.equal(after.connections, 0)
  check.equal(after.refused_total, 1)
  check.equal(after.sent_bytes_total, 4 + 4 + 3 + #"Internal Server Error")
  local replies = { 0, 2, 0, 2, 1 }
  for digit, count in ipairs(replies) do
    check.equal(after[('replies_total{status="%dxx"}'):format(digit)], count)
  end
  local why = "is a metric of Baton"
  check.raises(why, inspect.counter, "baton_http_refused", "x")
end

check.run(case)
