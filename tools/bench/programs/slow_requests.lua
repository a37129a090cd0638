-- Many processes that request a page from a slow server at once, through LuaSocket's own http:
-- `slow_requests.lua port count`.
local process = require "baton.process"
local http = require "socket.http"
local url, count = "http://127.0.0.1:" .. arg[1] .. "/", tonumber(arg[2])

local began, all, failed = process.now(), {}, 0
for i = 1, count do
  all[i] = process.spawn(function() return assert(http.request(url)) == "ok" end)
end
for i = 1, count do
  local ok, is_right = all[i]:join()
  if not (ok and is_right) then failed = failed + 1 end
end
print("seconds", process.now() - began)
print("failed", failed)
print("threads", process.threads())
